// Package lockotel measures and traces the locks of lockgen with OpenTelemetry.
//
// Its instruments, of the meter github.com/lockgen/lockgen/contrib/lockotel:
//
//	lockgen.acquire.duration  histogram, s       kind, name, outcome, contended  of each call that acquires
//	lockgen.hold.duration     histogram, s       kind, name, cause               of each lease
//	lockgen.held              up-down counter    kind, name                      leases and permits that callers have
//	lockgen.held.over_day     up-down counter    kind, name                      those that they have had for longer than a day
//	lockgen.waiting           up-down counter    kind, name                      calls that wait for others
//	lockgen.renewals          counter            kind, name, result              tries to renew: ok, failed
//	lockgen.losses            counter            kind, name, reason              leases that were lost
//	lockgen.handovers         counter            kind, name, from                from another goroutine or process: local, remote
//	lockgen.deadlocks         counter            kind, name, broken              calls that were found in a deadlock; true if they were ended
//	lockgen.response.time     gauge, s           client                          how long the servers take for an answer, see [Telemetry.Watch]
//	lockgen.sent_again        counter            client                          commands that were sent again, see [Telemetry.Watch]
//
// The attributes are called lockgen.kind and so on; their values are those of the events of [lockrt.Hooks]. A key is no
// attribute of a metric: there are millions, and they may name people. The name is that of [lockrt.WithName], or the
// method of generated code, or else the kind. The first 1,000 names have series of their own, and all others share the
// name "other".
//
// Its spans:
//
//   - "lock acquire", under the span of the caller, when the call waited for longer than [WithSlow] says, or failed. If it waited for more
//     than a second, it has a link to the span under which each holder of the lock made its call, with the attribute lockgen.link = "holder". The
//     holders are asked for it beside the wait, see [lockrt.Hooks]; one in Java, or without a trace, or that did not answer in time, has no link;
//   - "lock hold", under the span of the caller, which is the parent of the work that is done under the lease's context. Renewals that
//     fail are events of it, "renewal failed", and so is the loss of the lease, "lease lost", which also makes it an error.
//
// They have the attributes lockgen.kind and lockgen.name, and lockgen.key only with [WithKeys]. Without it the texts of
// errors say "a key" in place of a key.
package lockotel

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockgen/lockgen/contrib/internal/meter"
	lockrt "github.com/lockgen/lockgen/runtime"
)

// scope names the meter and the tracer.
const scope = "github.com/lockgen/lockgen/contrib/lockotel"

// The attributes.
const (
	attrKind      = attribute.Key("lockgen.kind")
	attrName      = attribute.Key("lockgen.name")
	attrOutcome   = attribute.Key("lockgen.outcome")
	attrContended = attribute.Key("lockgen.contended")
	attrCause     = attribute.Key("lockgen.cause")
	attrResult    = attribute.Key("lockgen.result")
	attrReason    = attribute.Key("lockgen.reason")
	attrFrom      = attribute.Key("lockgen.from")
	attrBroken    = attribute.Key("lockgen.broken")
	attrClient    = attribute.Key("lockgen.client")
	attrKey       = attribute.Key("lockgen.key")
	attrParts     = attribute.Key("lockgen.parts")
	attrLink      = attribute.Key("lockgen.link")
)

// DefaultSlow is the shortest wait whose call has a span, unless [WithSlow] sets another one.
const DefaultSlow = 10 * time.Millisecond

// boundaries are the bucket boundaries of the histograms, in seconds.
var boundaries = []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 86400}

// Telemetry measures and traces one or more Clients. It is safe for concurrent use. The zero value is of no use: see [New].
type Telemetry struct {
	meter   *meter.Meter
	clients meter.Clients
	tracer  trace.Tracer
	slow    time.Duration
	keys    bool
	strays  sync.Map // the spans of leases whose context has none, by the numbers of their calls
}

// An Option adjusts a [Telemetry].
type Option func(*config)

type config struct {
	metrics metric.MeterProvider
	traces  trace.TracerProvider
	slow    time.Duration
	keys    bool
}

// WithMeterProvider sets the provider of metrics. Defaults to the global provider.
func WithMeterProvider(p metric.MeterProvider) Option { return func(c *config) { c.metrics = p } }

// WithTracerProvider sets the provider of spans. Defaults to the global provider.
func WithTracerProvider(p trace.TracerProvider) Option { return func(c *config) { c.traces = p } }

// WithSlow omits the span of calls that got their lock within d. Defaults to [DefaultSlow]; with 0 all calls have a
// span.
func WithSlow(d time.Duration) Option { return func(c *config) { c.slow = d } }

// WithKeys puts the keys of locks into spans. Keys may name people, and every reader of the traces sees them.
func WithKeys() Option { return func(c *config) { c.keys = true } }

// New returns a Telemetry for the options of Clients, see [Telemetry.Hooks]. It fails if the provider cannot make the
// instruments.
func New(opts ...Option) (*Telemetry, error) {
	cfg := config{metrics: otel.GetMeterProvider(), traces: otel.GetTracerProvider(), slow: DefaultSlow}
	for _, o := range opts {
		o(&cfg)
	}
	t := &Telemetry{tracer: cfg.traces.Tracer(scope), slow: cfg.slow, keys: cfg.keys}
	of := cfg.metrics.Meter(scope)
	to, err := instruments(of)
	if err != nil {
		return nil, err
	}
	t.meter = meter.New(to)
	if err := t.observe(of); err != nil {
		return nil, err
	}
	return t, nil
}

// observe makes the instruments that are read when metrics are collected.
func (t *Telemetry) observe(of metric.Meter) error {
	_, overDay := of.Int64ObservableUpDownCounter("lockgen.held.over_day", metric.WithUnit("{lease}"),
		metric.WithDescription("Leases and permits that callers have had for longer than a day."),
		metric.WithInt64Callback(func(_ context.Context, to metric.Int64Observer) error {
			t.meter.OverDay(func(l meter.Labels, n int64) { to.Observe(n, metric.WithAttributeSet(setOf(l, nil))) })
			return nil
		}))
	_, response := of.Float64ObservableGauge("lockgen.response.time", metric.WithUnit("s"),
		metric.WithDescription("How long the servers take for an answer, smoothed over the latest ones."),
		metric.WithFloat64Callback(func(_ context.Context, to metric.Float64Observer) error {
			t.clients.Each(func(name string, counts lockrt.Stats) {
				if counts.ResponseTime > 0 {
					to.Observe(counts.ResponseTime.Seconds(), metric.WithAttributes(attrClient.String(name)))
				}
			})
			return nil
		}))
	_, sentAgain := of.Int64ObservableCounter("lockgen.sent_again", metric.WithUnit("{command}"),
		metric.WithDescription("Commands that were sent again at once, over another connection."),
		metric.WithInt64Callback(func(_ context.Context, to metric.Int64Observer) error {
			t.clients.Each(func(name string, counts lockrt.Stats) {
				to.Observe(int64(min(counts.SentAgain, math.MaxInt64)), metric.WithAttributes(attrClient.String(name)))
			})
			return nil
		}))
	return errors.Join(overDay, response, sentAgain)
}

// Watch measures what no hook reports of a Client: how long its servers take for an answer, from the first answer on, and how many commands the Client
// sent again because an answer did not come in time, see [lockrt.Stats]. The attribute lockgen.client has the name. A Client with the name of another one
// takes its place. The measurement ends when end is called, which usually no program needs: the values of a Client that is closed stay as they are.
func (t *Telemetry) Watch(name string, c *lockrt.Client) (end func()) {
	return t.clients.Watch(name, c)
}

// instruments returns the instruments of m.
func instruments(m metric.Meter) (to meter.Instruments, err error) {
	histogram := func(name, description string, attrs func(meter.Labels) []attribute.KeyValue) func(meter.Labels) meter.Observe {
		h, failed := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description), metric.WithExplicitBucketBoundaries(boundaries...))
		err = errors.Join(err, failed)
		return func(l meter.Labels) meter.Observe {
			of := []metric.RecordOption{metric.WithAttributeSet(setOf(l, attrs))}
			return func(ctx context.Context, seconds float64) { h.Record(ctx, seconds, of...) }
		}
	}
	gauge := func(name, unit, description string) func(meter.Labels) meter.Add {
		all := &levels{}
		_, failed := m.Int64ObservableUpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(description), metric.WithInt64Callback(all.observe))
		err = errors.Join(err, failed)
		return all.add
	}
	counter := func(name, unit, description string, attrs func(meter.Labels) []attribute.KeyValue) func(meter.Labels) meter.Add {
		c, failed := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
		err = errors.Join(err, failed)
		return func(l meter.Labels) meter.Add {
			of := []metric.AddOption{metric.WithAttributeSet(setOf(l, attrs))}
			return func(ctx context.Context, n int64) { c.Add(ctx, n, of...) }
		}
	}
	to = meter.Instruments{
		AcquireDuration: histogram("lockgen.acquire.duration", "How long calls took that acquire.", func(l meter.Labels) []attribute.KeyValue {
			return []attribute.KeyValue{attrOutcome.String(l.Outcome), attrContended.Bool(l.Contended)}
		}),
		HoldDuration: histogram("lockgen.hold.duration", "How long leases were held.", func(l meter.Labels) []attribute.KeyValue {
			return []attribute.KeyValue{attrCause.String(l.Cause)}
		}),
		Held:    gauge("lockgen.held", "{lease}", "Leases and permits that callers have."),
		Waiting: gauge("lockgen.waiting", "{call}", "Calls that wait for others."),
		Renewals: counter("lockgen.renewals", "{renewal}", "Tries to renew a key.", func(l meter.Labels) []attribute.KeyValue {
			return []attribute.KeyValue{attrResult.String(l.Result)}
		}),
		Losses: counter("lockgen.losses", "{lease}", "Leases that were lost.", func(l meter.Labels) []attribute.KeyValue {
			return []attribute.KeyValue{attrReason.String(l.Reason)}
		}),
		HandOvers: counter("lockgen.handovers", "{handover}", "Locks that came from another goroutine of the process, or from another process.",
			func(l meter.Labels) []attribute.KeyValue { return []attribute.KeyValue{attrFrom.String(l.From)} }),
		Deadlocks: counter("lockgen.deadlocks", "{call}", "Calls that were found in a deadlock.",
			func(l meter.Labels) []attribute.KeyValue { return []attribute.KeyValue{attrBroken.Bool(l.Broken)} }),
	}
	return to, err
}

// levels have the up-down counters. The package counts them itself and reports them when metrics are collected, which
// costs the calls less than if the SDK counted each change.
type levels struct {
	mu  sync.Mutex
	all []*level
}

type level struct {
	n  atomic.Int64
	of []metric.ObserveOption
}

func (s *levels) add(l meter.Labels) meter.Add {
	one := &level{of: []metric.ObserveOption{metric.WithAttributeSet(setOf(l, nil))}}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, one)
	return func(_ context.Context, n int64) { one.n.Add(n) }
}

func (s *levels) observe(_ context.Context, to metric.Int64Observer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		to.Observe(one.n.Load(), one.of...)
	}
	return nil
}

func setOf(l meter.Labels, more func(meter.Labels) []attribute.KeyValue) attribute.Set {
	attrs := []attribute.KeyValue{attrKind.String(l.Kind), attrName.String(l.Name)}
	if more != nil {
		attrs = append(attrs, more(l)...)
	}
	return attribute.NewSet(attrs...)
}

// Hooks returns the hooks for [lockrt.Options] of a Client, which measure and trace it and then call next.
func (t *Telemetry) Hooks(next lockrt.Hooks) lockrt.Hooks { return t.meter.Hooks(t.spans(next)) }

// Metrics is Hooks without spans. An acquisition allocates no memory for it.
func (t *Telemetry) Metrics(next lockrt.Hooks) lockrt.Hooks { return t.meter.Hooks(next) }
