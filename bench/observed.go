package main

import (
	"context"
	"os"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	otelmetric "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/lockgen/lockgen/contrib/lockotel"
	"github.com/lockgen/lockgen/contrib/lockprom"
	lockrt "github.com/lockgen/lockgen/runtime"
)

// The ways to observe a client of lockgen. Each is a library of its own here, which only S14 measures.
const (
	unobserved   = "no hooks"
	idleHooks    = "hooks that do nothing"
	prometheus   = "lockprom"
	otelMetrics  = "lockotel metrics"
	otelSpans    = "lockotel metrics and spans"
	profileLabel = "ProfileLabels"
	recording    = "floor that records"
)

var observers = []library{
	{observer: true, us: true, name: unobserved, open: openObserved(func() (o lockrt.Options, err error) { return o, nil })},
	{observer: true, us: true, name: idleHooks, open: openObserved(func() (o lockrt.Options, err error) {
		o.Hooks = lockrt.Hooks{
			AcquireEnd: func(context.Context, lockrt.AcquireEvent) {},
			Acquired:   func(ctx context.Context, _ lockrt.AcquireEvent) context.Context { return ctx },
			Ended:      func(context.Context, lockrt.EndEvent) {},
		}
		return o, nil
	})},
	{observer: true, us: true, name: prometheus, open: openObserved(func() (o lockrt.Options, err error) {
		o.Hooks = lockprom.New().Hooks(lockrt.Hooks{})
		return o, nil
	})},
	{observer: true, us: true, name: otelMetrics, open: openObserved(func() (o lockrt.Options, err error) {
		telemetry, err := telemetry()
		if err == nil {
			o.Hooks = telemetry.Metrics(lockrt.Hooks{})
		}
		return o, err
	})},
	{observer: true, us: true, name: otelSpans, open: openObserved(func() (o lockrt.Options, err error) {
		telemetry, err := telemetry()
		if err == nil {
			o.Hooks = telemetry.Hooks(lockrt.Hooks{})
		}
		return o, err
	})},
	{observer: true, us: true, name: profileLabel, open: openObserved(func() (lockrt.Options, error) { return lockrt.Options{ProfileLabels: true}, nil })},
}

// telemetry returns one with the SDK of OpenTelemetry, whose metrics can be collected and whose spans are recorded and sent nowhere.
func telemetry() (*lockotel.Telemetry, error) {
	return lockotel.New(
		lockotel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))),
		lockotel.WithTracerProvider(trace.NewTracerProvider()),
	)
}

// openRecording is an experiment: the hook of an acquisition records its duration in one histogram of OpenTelemetry, and does nothing else. All
// that measures durations with this SDK costs at least as much.
func openRecording(addr string, lease time.Duration) (*client, error) {
	return openObserved(func() (o lockrt.Options, err error) {
		h, err := metric.NewMeterProvider(metric.WithReader(metric.NewManualReader())).Meter("bench").Float64Histogram("duration")
		if err != nil {
			return o, err
		}
		of := []otelmetric.RecordOption{otelmetric.WithAttributeSet(attribute.NewSet(
			attribute.String("kind", "mutex"), attribute.String("name", "orders.Service.Pay"), attribute.String("outcome", "acquired"), attribute.Bool("contended", false)))}
		o.Hooks = lockrt.Hooks{
			AcquireEnd: func(ctx context.Context, e lockrt.AcquireEvent) { h.Record(ctx, e.Waited.Seconds(), of...) },
			Acquired:   func(ctx context.Context, _ lockrt.AcquireEvent) context.Context { return ctx },
		}
		return o, nil
	})(addr, lease)
}

// openObserved returns how a process becomes a client with these options.
func openObserved(of func() (lockrt.Options, error)) func(addr string, lease time.Duration) (*client, error) {
	return func(addr string, lease time.Duration) (*client, error) {
		opts, err := of()
		if err != nil {
			return nil, err
		}
		opts.Watchdog = lease
		c, err := lockrt.Open(context.Background(), "redis://"+addr, opts)
		if err != nil {
			return nil, err
		}
		return &client{
			lock:    leases(func(key string) (*lockrt.Lease, error) { return c.Mutex(key).Lock(context.Background()) }),
			reenter: func() (func() error, error) { return doing(c) },
			hooks:   hooksOf(opts.Hooks),
		}, nil
	}
}

// doing locks a key, which no other process has left behind, and returns a cycle that enters it again with Do, which contacts nobody.
func doing(c *lockrt.Client) (cycle func() error, err error) {
	m := c.Mutex("bench:observed:"+strconv.Itoa(os.Getpid()), lockrt.WithName("orders.Service.Pay"))
	outer, err := m.Lock(context.Background())
	if err != nil {
		return nil, err
	}
	work := func(context.Context, *lockrt.Lease) error { return nil }
	return func() error { return m.Do(outer.Context(), work) }, nil
}

// hooksOf returns a function that calls the hooks of an acquisition as a client does; nil without any.
func hooksOf(h lockrt.Hooks) func() error {
	if h.AcquireEnd == nil {
		return nil
	}
	ctx := context.Background()
	e := lockrt.AcquireEvent{ID: 1, Kind: lockrt.KindMutex, Name: "orders.Service.Pay", Key: "order:1", Waited: time.Millisecond,
		Outcome: lockrt.OutcomeAcquired, Grant: lockrt.GrantServer}
	return func() error {
		h.AcquireEnd(ctx, e)
		h.Acquired(ctx, e)
		return nil
	}
}

// observing measures Do of an observed client, and the hooks of an acquisition by themselves.
func observing(ctx context.Context, e *env, lib library) (metrics, error) {
	m, err := reentering(ctx, e, lib)
	if err != nil {
		return nil, err
	}
	p, err := startWorker(ctx, order{Library: lib.name, Addr: e.addr, Lease: kLease, Profile: e.profile})
	if err != nil {
		return nil, err
	}
	defer p.end()
	a, err := p.do(order{Op: "hooks", Length: e.length})
	if err != nil {
		return nil, err
	}
	if n := float64(a.Number); n > 0 {
		m["hooks"], m["hookAllocs"] = float64(a.Took)/n, a.Used.Mallocs/n
	} else {
		m["hooks"], m["hookAllocs"] = 0, 0 // there are none
	}
	return m, nil
}

func observedScenarios() []*scenario {
	of := func(name, metric string) func(t *table) spread {
		return func(t *table) spread {
			if t.scenario.us() == recording {
				return value(metric)(t)
			}
			return valueOf(name, metric)(t)
		}
	}
	var goals []goal
	for _, name := range []string{prometheus, otelMetrics} {
		goals = append(goals,
			goal{name + ": at most 300 ns for the hooks of an acquisition", of(name, "hooks"), 300, false, duration},
			goal{name + ": no allocation in them", of(name, "hookAllocs"), 0.01, false, hundredth})
	}
	return []*scenario{{
		id: "S14", title: "A client that is observed; in short: Do with lockprom", of: prometheus, fit: func(lib library) bool { return lib.observer }, floors: []string{recording},
		how: "One goroutine calls Do with an empty function, under the context of a lease of the same key: a call that contacts nobody. " +
			"Hooks are AcquireEnd and Acquired, called by themselves with one event, at 16 depths of the stack in turn, since the time " +
			"of the same call depends on that. Spans are recorded and sent nowhere. " + recording + ": the hook records the duration in one histogram of OpenTelemetry's SDK and does nothing else.",
		run: observing, headline: headline{metric: "each", format: duration, lowest: true},
		columns: []column{{"Do", "each", duration}, colAllocs, colBytes, {"hooks of an acquisition", "hooks", duration}, {"their allocs", "hookAllocs", tenth}},
		goals:   goals,
	}}
}
