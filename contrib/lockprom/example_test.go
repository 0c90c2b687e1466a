package lockprom_test

import (
	"context"
	"log"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockgen/lockgen/contrib/lockprom"
	lockrt "github.com/lockgen/lockgen/runtime"
)

func ExampleNew() {
	metrics := lockprom.New()
	prometheus.MustRegister(metrics)
	client, err := lockrt.Open(context.Background(), "redis://localhost:6379", lockrt.Options{Hooks: metrics.Hooks(lockrt.Hooks{})})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	metrics.Watch("orders", client)
}
