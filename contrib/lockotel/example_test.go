package lockotel_test

import (
	"context"
	"log"

	"github.com/lockgen/lockgen/contrib/lockotel"
	lockrt "github.com/lockgen/lockgen/runtime"
)

func ExampleNew() {
	telemetry, err := lockotel.New() // with the global providers
	if err != nil {
		log.Fatal(err)
	}
	client, err := lockrt.Open(context.Background(), "redis://localhost:6379", lockrt.Options{Hooks: telemetry.Hooks(lockrt.Hooks{})})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	telemetry.Watch("orders", client)
}
