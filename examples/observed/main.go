// Observed is the shop of the orders example with all observability: metrics for Prometheus, traces of OpenTelemetry,
// the live page of the locks, and labels in profiles.
//
//	make observed
//
// Three replicas pay and pack orders until the program is stopped. It prints where to look. It starts a server inside the program, or uses the one
// that REDIS_URL names.
//
// A service does the same as replica: it nests the hooks of several packages, and gives its clients to the page.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/lockgen/lockgen/contrib/lockotel"
	"github.com/lockgen/lockgen/contrib/lockprom"
	"github.com/lockgen/lockgen/contrib/lockweb"
	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/embedded"
)

func main() {
	addr := flag.String("addr", "localhost:8080", "where to serve the page and the metrics; port 0 is a free one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *addr, os.Getenv("REDIS_URL"), os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "observed: %v\n", err)
		os.Exit(1)
	}
}

// An observer has the metrics, traces and the page of all replicas.
type observer struct {
	metrics *lockprom.Metrics
	traces  *lockotel.Telemetry
	history *lockweb.History
}

// hooks nests the hooks of all packages.
func (o *observer) hooks() lockrt.Hooks {
	return o.metrics.Hooks(o.traces.Hooks(o.history.Hooks(lockrt.Hooks{})))
}

// run serves until ctx ends.
func run(ctx context.Context, addr, redisURL string, out io.Writer) (err error) {
	if redisURL == "" {
		url, stop, err := embedded.Start()
		if err != nil {
			return err
		}
		defer stop()
		redisURL = url
	}
	spans, err := newSpans(filepath.Join(os.TempDir(), fmt.Sprintf("lockgen-spans-%d.txt", os.Getpid())))
	if err != nil {
		return err
	}
	provider := trace.NewTracerProvider(trace.WithBatcher(spans, trace.WithBatchTimeout(time.Second)))
	defer func() { err = errors.Join(err, provider.Shutdown(context.WithoutCancel(ctx)), spans.file.Close()) }()
	telemetry, err := lockotel.New(lockotel.WithTracerProvider(provider), lockotel.WithKeys())
	if err != nil {
		return err
	}
	o := &observer{metrics: lockprom.New(), traces: telemetry, history: &lockweb.History{}}
	registry := prometheus.NewRegistry()
	if err := registry.Register(o.metrics); err != nil {
		return err
	}

	shop, err := openShop(ctx, redisURL, o.hooks())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shop.close()) }()
	for i, c := range shop.clients {
		o.metrics.Watch(nameOf(i), c)
		o.traces.Watch(nameOf(i), c)
	}

	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	routes := http.NewServeMux()
	routes.Handle("/debug/locks", lockweb.Handler(shop.clients...).With(lockweb.WithHistory(o.history), lockweb.WithForce(anybody)))
	routes.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	routes.HandleFunc("/debug/pprof/", pprof.Index)
	routes.HandleFunc("/debug/pprof/profile", pprof.Profile)
	server := &http.Server{Handler: routes, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		err = errors.Join(err, server.Close()) // not Shutdown, which waits until open pages are closed
		if failed := <-served; !errors.Is(failed, http.ErrServerClosed) {
			err = errors.Join(err, failed)
		}
	}()

	base := "http://" + listener.Addr().String()
	fmt.Fprintf(out, `Three replicas of a shop pay and pack orders. Look at

  %s/debug/locks      who holds and who waits, live
  %s/metrics          metrics for Prometheus; contrib/lockprom has a dashboard and alert rules for them
  %s/debug/pprof/     profiles: go tool pprof -tags '%[1]s/debug/pprof/profile?seconds=5' counts them by lock
  %[4]s
                      spans: one for each lease, and for each call that waited or failed
  REDIS_URL=%[5]s ./bin/lockctl list
                      the same from outside (make lockctl)

Ctrl-C ends it.
`, base, base, base, spans.file.Name(), redisURL)
	return shop.sell(ctx)
}

// anybody permits everybody to force locks open. A service permits only its operators.
func anybody(*http.Request) error { return nil }
