package lockotel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/lockgen/lockgen/contrib/internal/meter"
	"github.com/lockgen/lockgen/contrib/lockotel"
	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A rig is a Telemetry with exporters in memory.
type rig struct {
	*lockotel.Telemetry

	t       testing.TB
	metrics *metric.ManualReader
	spans   *tracetest.InMemoryExporter
	traces  *trace.TracerProvider
}

func newRig(t testing.TB, opts ...lockotel.Option) *rig {
	t.Helper()
	r := &rig{t: t, metrics: metric.NewManualReader(), spans: tracetest.NewInMemoryExporter()}
	r.traces = trace.NewTracerProvider(trace.WithSyncer(r.spans))
	var err error
	r.Telemetry, err = lockotel.New(append([]lockotel.Option{
		lockotel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(r.metrics))), lockotel.WithTracerProvider(r.traces),
	}, opts...)...)
	require.NoError(t, err)
	return r
}

// unhurried is the time in which Redis answers: a busy machine may stand still for longer than the default.
const unhurried = 15 * time.Second

func (r *rig) open(next lockrt.Hooks) *lockrt.Client {
	r.t.Helper()
	opts := lockrt.Options{OpTimeout: unhurried, Watchdog: 6 * time.Second, Hooks: r.Hooks(next)}
	c, err := lockrt.Open(r.t.Context(), redistest.Shared(r.t).URL(), opts)
	for tries := 0; err != nil && tries < 3; tries++ { // the machine may stand still for longer than Open waits
		c, err = lockrt.Open(r.t.Context(), redistest.Shared(r.t).URL(), opts)
	}
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

// collect returns the instruments by name.
func (r *rig) collect() map[string]metricdata.Metrics {
	r.t.Helper()
	var data metricdata.ResourceMetrics
	require.NoError(r.t, r.metrics.Collect(context.Background(), &data))
	all := map[string]metricdata.Metrics{}
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			all[m.Name] = m
		}
	}
	return all
}

// sum returns the value of the series of a counter with exactly these attributes, or -1.
func (r *rig) sum(name string, attrs ...attribute.KeyValue) int64 {
	r.t.Helper()
	data, _ := r.collect()[name].Data.(metricdata.Sum[int64])
	for _, p := range data.DataPoints {
		if want := attribute.NewSet(attrs...); p.Attributes.Equals(&want) {
			return p.Value
		}
	}
	return -1
}

// histogram returns the series of a histogram with exactly these attributes.
func (r *rig) histogram(name string, attrs ...attribute.KeyValue) metricdata.HistogramDataPoint[float64] {
	r.t.Helper()
	data, _ := r.collect()[name].Data.(metricdata.Histogram[float64])
	for _, p := range data.DataPoints {
		if want := attribute.NewSet(attrs...); p.Attributes.Equals(&want) {
			return p
		}
	}
	return metricdata.HistogramDataPoint[float64]{}
}

// named returns the spans of that name, in the order of their ends.
func (r *rig) named(name string) (some tracetest.SpanStubs) {
	for _, s := range r.spans.GetSpans() {
		if s.Name == name {
			some = append(some, s)
		}
	}
	return some
}

var (
	mutex     = attribute.String("lockgen.kind", "mutex")
	pay       = attribute.String("lockgen.name", "orders.Service.Pay")
	contended = attribute.Bool("lockgen.contended", true)
	alone     = attribute.Bool("lockgen.contended", false)
	acquired  = attribute.String("lockgen.outcome", "acquired")
	busy      = attribute.String("lockgen.outcome", "busy")
)

func TestTelemetry_OfARealLock(t *testing.T) {
	t.Parallel()
	r := newRig(t, lockotel.WithSlow(time.Hour))
	waiting, renewed, ended := make(chan struct{}, 100), make(chan struct{}, 100), make(chan lockrt.EndEvent, 100)
	c := r.open(lockrt.Hooks{
		Waiting: func(context.Context, lockrt.AcquireEvent) { waiting <- struct{}{} },
		Renewed: func(context.Context, lockrt.RenewEvent) { renewed <- struct{}{} },
		Ended:   func(_ context.Context, e lockrt.EndEvent) { ended <- e },
	})
	m := c.Mutex(redistest.Key(t, "k"), lockrt.WithName("orders.Service.Pay"))
	lease, err := m.Lock(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, r.sum("lockgen.held", mutex, pay))
	p := r.histogram("lockgen.acquire.duration", mutex, pay, acquired, alone)
	require.EqualValues(t, 1, p.Count)
	require.Less(t, p.Sum, 60.0, "seconds")
	<-renewed
	require.Positive(t, r.sum("lockgen.renewals", mutex, pay, attribute.String("lockgen.result", "ok")))

	next := make(chan *lockrt.Lease, 1)
	go func() {
		lease, _ := m.Lock(context.Background())
		next <- lease
	}()
	<-waiting
	require.EqualValues(t, 1, r.sum("lockgen.waiting", mutex, pay))
	_, err = m.TryLock(t.Context())
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	require.EqualValues(t, 1, r.histogram("lockgen.acquire.duration", mutex, pay, busy, alone).Count)
	require.NoError(t, lease.Unlock(t.Context()))
	lease = <-next
	require.NotNil(t, lease)
	require.EqualValues(t, 0, r.sum("lockgen.waiting", mutex, pay))
	require.EqualValues(t, 1, r.histogram("lockgen.acquire.duration", mutex, pay, acquired, contended).Count)
	<-ended
	require.EqualValues(t, 1, r.histogram("lockgen.hold.duration", mutex, pay, attribute.String("lockgen.cause", "released")).Count)
	taken, err := m.ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, taken)
	<-ended
	require.EqualValues(t, 1, r.sum("lockgen.losses", mutex, pay, attribute.String("lockgen.reason", "taken")))
	require.EqualValues(t, 0, r.sum("lockgen.held", mutex, pay))
	units := map[string]string{
		"lockgen.acquire.duration": "s", "lockgen.hold.duration": "s", "lockgen.held": "{lease}", "lockgen.waiting": "{call}",
		"lockgen.renewals": "{renewal}", "lockgen.losses": "{lease}",
	}
	for name, unit := range units {
		require.Equal(t, unit, r.collect()[name].Unit, name)
	}
}

func TestTelemetry_CountsDeadlocks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	hooks := r.Hooks(lockrt.Hooks{})
	for _, broken := range []bool{false, true, false} {
		hooks.Deadlock(t.Context(), lockrt.DeadlockEvent{Kind: lockrt.KindMutex, Name: "orders.Service.Pay", Broken: broken})
	}
	require.EqualValues(t, 2, r.sum("lockgen.deadlocks", mutex, pay, attribute.Bool("lockgen.broken", false)))
	require.EqualValues(t, 1, r.sum("lockgen.deadlocks", mutex, pay, attribute.Bool("lockgen.broken", true)))
}

func TestTelemetry_CountsHandOvers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	hooks := r.Hooks(lockrt.Hooks{})
	for _, grant := range []lockrt.Grant{lockrt.GrantServer, lockrt.GrantLocal, lockrt.GrantRemote, lockrt.GrantLocal, lockrt.GrantShared} {
		hooks.AcquireEnd(t.Context(), lockrt.AcquireEvent{Kind: lockrt.KindMutex, Name: "orders.Service.Pay", Outcome: lockrt.OutcomeAcquired, Grant: grant})
	}
	require.EqualValues(t, 2, r.sum("lockgen.handovers", mutex, pay, attribute.String("lockgen.from", "local")))
	require.EqualValues(t, 1, r.sum("lockgen.handovers", mutex, pay, attribute.String("lockgen.from", "remote")))
}

// TestTelemetry_TheWorkIsUnderTheHold shows that the work under a lock is in a span of its own, which is the child of
// the caller's and ends with the release.
func TestTelemetry_TheWorkIsUnderTheHold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.open(lockrt.Hooks{})
	tracer := r.traces.Tracer("test")
	ctx, caller := tracer.Start(t.Context(), "caller")
	m := c.Mutex(redistest.Key(t, "k"))
	require.NoError(t, m.Do(ctx, func(ctx context.Context, _ *lockrt.Lease) error {
		_, work := tracer.Start(ctx, "work")
		work.End()
		return nil
	}))
	caller.End()
	hold, work := r.named("lock hold")[0], r.named("work")[0]
	require.Equal(t, caller.SpanContext().SpanID(), hold.Parent.SpanID())
	require.Equal(t, hold.SpanContext.SpanID(), work.Parent.SpanID())
	require.NotContains(t, hold.Attributes, attribute.String("lockgen.key", m.Key()))
	require.Contains(t, hold.Attributes, attribute.String("lockgen.cause", "released"))
	require.Equal(t, codes.Unset, hold.Status.Code)
	require.False(t, hold.EndTime.Before(work.EndTime))
}

// A hook that returns no context keeps the one that it was given, with the span of the lease.
func TestTelemetry_AfterAHookWithoutAContext(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	none := func(context.Context, lockrt.AcquireEvent) context.Context { return nil }
	c := r.open(lockrt.Hooks{AcquireStart: none, Acquired: none})
	require.NoError(t, c.Mutex(redistest.Key(t, "k")).Do(t.Context(), func(ctx context.Context, _ *lockrt.Lease) error {
		_, span := r.traces.Tracer("test").Start(ctx, "work")
		span.End()
		return nil
	}))
	holds, works := r.named("lock hold"), r.named("work")
	require.Len(t, holds, 1)
	require.Len(t, works, 1)
	require.Equal(t, holds[0].SpanContext.SpanID(), works[0].Parent.SpanID())
}

// A hook that panics leaves the lease without a context of its own. The span of the lease ends with the lease all the same, and that of the
// outer lease does not.
func TestTelemetry_AfterAHookThatPanics(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	inner := redistest.Key(t, "inner")
	c := r.open(lockrt.Hooks{Acquired: func(ctx context.Context, e lockrt.AcquireEvent) context.Context {
		if e.Key == inner {
			panic("a fault of the hook")
		}
		return ctx
	}})
	require.NoError(t, c.Mutex(redistest.Key(t, "outer"), lockrt.WithName("outer")).Do(t.Context(), func(ctx context.Context, _ *lockrt.Lease) error {
		lease, err := c.Mutex(inner, lockrt.WithName("inner")).Lock(ctx)
		require.NoError(t, err)
		require.Empty(t, r.named("lock hold"))
		require.NoError(t, lease.Unlock(ctx))
		holds := r.named("lock hold")
		require.Len(t, holds, 1)
		require.Contains(t, holds[0].Attributes, attribute.String("lockgen.name", "inner"))
		return nil
	}))
	require.Len(t, r.named("lock hold"), 2)
}

// Each of two Telemetries that trace a client ends its own span of a lease.
func TestTelemetry_BesideAnother(t *testing.T) {
	t.Parallel()
	one, other := newRig(t), newRig(t)
	c := one.open(other.Hooks(lockrt.Hooks{}))
	lease, err := c.Mutex(redistest.Key(t, "k")).Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(t.Context()))
	require.Len(t, one.named("lock hold"), 1)
	require.Len(t, other.named("lock hold"), 1)
}

func TestTelemetry_ASpanForACallThatWaitedOrFailed(t *testing.T) {
	t.Parallel()
	r := newRig(t, lockotel.WithSlow(time.Hour), lockotel.WithKeys())
	hooks := r.Hooks(lockrt.Hooks{})
	ctx, caller := r.traces.Tracer("test").Start(t.Context(), "caller")
	end := func(e lockrt.AcquireEvent) {
		e.Kind, e.Name, e.Key = lockrt.KindMutex, "orders.Service.Pay", "order:1"
		hooks.AcquireEnd(ctx, e)
	}
	end(lockrt.AcquireEvent{Waited: time.Minute, Outcome: lockrt.OutcomeAcquired})
	require.Empty(t, r.named("lock acquire"))

	end(lockrt.AcquireEvent{Waited: 2 * time.Hour, Outcome: lockrt.OutcomeAcquired, Contended: true})
	slow := r.named("lock acquire")[0]
	require.Equal(t, caller.SpanContext().SpanID(), slow.Parent.SpanID())
	require.Equal(t, 2*time.Hour, slow.EndTime.Sub(slow.StartTime))
	require.Contains(t, slow.Attributes, attribute.String("lockgen.key", "order:1"))
	require.Contains(t, slow.Attributes, contended)
	require.Equal(t, codes.Unset, slow.Status.Code)

	end(lockrt.AcquireEvent{Outcome: lockrt.OutcomeBusy, Err: lockrt.ErrNotAcquired})
	require.Equal(t, codes.Unset, r.named("lock acquire")[1].Status.Code, "that others have it is no error")
	end(lockrt.AcquireEvent{Outcome: lockrt.OutcomeError, Err: lockrt.ErrUnavailable})
	failed := r.named("lock acquire")[2]
	require.Equal(t, codes.Error, failed.Status.Code)
	require.Len(t, failed.Events, 1)
}

func TestTelemetry_TheHoldTellsOfRenewalsThatFailAndOfTheLoss(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	hooks := r.Hooks(lockrt.Hooks{})
	ctx := hooks.Acquired(t.Context(), lockrt.AcquireEvent{Kind: lockrt.KindMulti, Name: "all", Parts: []string{"a", "b"}})
	hooks.Renewed(ctx, lockrt.RenewEvent{Kind: lockrt.KindMutex, Name: "all"})
	hooks.Renewed(ctx, lockrt.RenewEvent{Kind: lockrt.KindMutex, Name: "all", Err: errors.New("no route")})
	over := time.Now().Add(-time.Second)
	hooks.Ended(ctx, lockrt.EndEvent{Kind: lockrt.KindMulti, Name: "all", At: over, Reason: lockrt.EndUnconfirmed, Cause: lockrt.ErrLost})
	hooks.Ended(t.Context(), lockrt.EndEvent{Kind: lockrt.KindMutex, Name: "of another one", Reason: lockrt.EndReleased})
	require.Len(t, r.spans.GetSpans(), 1)
	hold := r.named("lock hold")[0]
	require.Len(t, hold.Events, 2)
	require.Equal(t, "renewal failed", hold.Events[0].Name)
	require.Contains(t, hold.Events[0].Attributes, attribute.String("error", "no route"))
	require.Equal(t, "lease lost", hold.Events[1].Name)
	require.Equal(t, codes.Error, hold.Status.Code)
	require.WithinDuration(t, over, hold.EndTime, 0)
	require.Contains(t, hold.Attributes, attribute.Int("lockgen.parts", 2))
	require.EqualValues(t, 1, r.sum("lockgen.renewals", mutex, attribute.String("lockgen.name", "all"), attribute.String("lockgen.result", "failed")))
}

// Without WithKeys no text of a span names a key: neither that of the call, nor that of the lost lease under whose context it
// was made, nor those of a deadlock, nor that of a renewal.
func TestTelemetry_ErrorsNameNoKey(t *testing.T) {
	t.Parallel()
	const secret = "patient:Jane \"Doe\"\n"
	texts := func(opts ...lockotel.Option) (all string, count int) {
		r := newRig(t, opts...)
		hooks := r.Hooks(lockrt.Hooks{})
		end := func(err error) {
			err = &lockrt.Error{Op: "lock", Key: secret + "1", Err: err}
			hooks.AcquireEnd(t.Context(), lockrt.AcquireEvent{Key: secret + "1", Outcome: lockrt.OutcomeError, Err: err})
		}
		end(lockrt.ErrUnavailable)
		end(errors.Join(context.Canceled, &lockrt.Error{Op: "hold", Key: secret + "2", Err: lockrt.ErrLost}))
		end(fmt.Errorf("again: %w", &lockrt.Error{Op: "hold", Key: secret + "3", Err: lockrt.ErrLost}))
		end(&lockrt.DeadlockError{Deadlock: lockrt.Deadlock{Calls: []lockrt.DeadlockedCall{{Key: secret + "4"}, {Key: secret}}}})
		hooks.AcquireEnd(t.Context(), lockrt.AcquireEvent{
			Key: "a," + secret, Parts: []string{"a", secret}, Outcome: lockrt.OutcomeError, Err: fmt.Errorf("part %q is away", secret),
		})
		ctx := hooks.Acquired(t.Context(), lockrt.AcquireEvent{Key: secret})
		hooks.Renewed(ctx, lockrt.RenewEvent{Key: secret, Err: &lockrt.Error{Op: "renew", Key: secret, Err: lockrt.ErrUnavailable}})
		hooks.Ended(ctx, lockrt.EndEvent{Key: secret, Reason: lockrt.EndTaken, Cause: lockrt.ErrLost})
		for _, span := range r.spans.GetSpans() {
			all += fmt.Sprintln(span.Name, span.Status.Description, span.Attributes)
			for _, e := range span.Events {
				count++
				all += fmt.Sprintln(e.Name, e.Attributes)
			}
		}
		return all, count
	}
	without, events := texts()
	require.Equal(t, 5+2, events)
	require.NotContains(t, without, "Jane")
	require.Contains(t, without, "lockgen: lock a key: server unavailable")
	require.Contains(t, without, "*lockrt.Error")
	with, _ := texts(lockotel.WithKeys())
	require.Contains(t, with, "Jane")
}

// A name or a key may be any bytes; an exporter that sends UTF-8 refuses a batch with others.
func TestTelemetry_TextsAreUTF8(t *testing.T) {
	t.Parallel()
	r := newRig(t, lockotel.WithKeys(), lockotel.WithSlow(0))
	hooks := r.Hooks(lockrt.Hooks{})
	const bad = "order:\xff\xfe"
	e := lockrt.AcquireEvent{Kind: lockrt.KindMutex, Name: bad, Key: bad, Outcome: lockrt.OutcomeError, Err: errors.New(bad)}
	hooks.AcquireEnd(t.Context(), e)
	hooks.Ended(hooks.Acquired(t.Context(), e), lockrt.EndEvent{Kind: lockrt.KindMutex, Name: bad, Key: bad, Reason: lockrt.EndReleased})
	spans := r.spans.GetSpans()
	require.Len(t, spans, 2)
	for _, span := range spans {
		attrs := slices.Clone(span.Attributes)
		for _, event := range span.Events {
			attrs = append(attrs, event.Attributes...)
		}
		require.Contains(t, attrs, attribute.String("lockgen.key", "order:\uFFFD"))
		for _, a := range attrs {
			require.True(t, utf8.ValidString(a.Value.AsString()), a.Key)
		}
	}
	require.EqualValues(t, 0, r.sum("lockgen.held", mutex, attribute.String("lockgen.name", "order:\uFFFD")))
}

// With WithSlow(0) each call has a span, also one whose wait a coarse clock does not see.
func TestTelemetry_EachCallHasASpan(t *testing.T) {
	t.Parallel()
	for slow, want := range map[time.Duration]int{0: 1, time.Nanosecond: 0} {
		r := newRig(t, lockotel.WithSlow(slow))
		hooks := r.Hooks(lockrt.Hooks{})
		hooks.AcquireEnd(t.Context(), lockrt.AcquireEvent{Outcome: lockrt.OutcomeAcquired})
		require.Len(t, r.named("lock acquire"), want)
	}
}

// The counters that alerts look at begin at 0 with the first event of a name.
func TestTelemetry_LossesBeginAtZero(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	hooks := r.Hooks(lockrt.Hooks{})
	hooks.AcquireEnd(t.Context(), event)
	for _, reason := range []string{"taken", "elapsed", "max_hold", "unconfirmed", "other"} {
		require.EqualValues(t, 0, r.sum("lockgen.losses", mutex, pay, attribute.String("lockgen.reason", reason)), reason)
	}
	require.EqualValues(t, -1, r.sum("lockgen.losses", mutex, pay, attribute.String("lockgen.reason", "released")))
	require.EqualValues(t, 0, r.sum("lockgen.renewals", mutex, pay, attribute.String("lockgen.result", "failed")))
	for _, broken := range []bool{false, true} {
		require.EqualValues(t, 0, r.sum("lockgen.deadlocks", mutex, pay, attribute.Bool("lockgen.broken", broken)))
	}
}

func TestTelemetry_TraceParent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	hooks := r.Hooks(lockrt.Hooks{})
	require.Empty(t, hooks.TraceParent(t.Context()))
	ctx, span := r.traces.Tracer("test").Start(t.Context(), "caller")
	defer span.End()
	of := span.SpanContext()
	require.Equal(t, "00-"+of.TraceID().String()+"-"+of.SpanID().String()+"-01", hooks.TraceParent(ctx))
}

func TestTelemetry_AMillionKeysAreAFewSeries(t *testing.T) {
	t.Parallel()
	r := newRig(t, untraced)
	hooks := r.Hooks(lockrt.Hooks{})
	meter.Million(context.Background(), &hooks)
	data, ok := r.collect()["lockgen.acquire.duration"].Data.(metricdata.Histogram[float64])
	require.True(t, ok)
	require.Len(t, data.DataPoints, 10*5)
	var count uint64
	for _, p := range data.DataPoints {
		count += p.Count
	}
	require.EqualValues(t, 1_000_000, count)
}

// A client that is watched has the response time of its server, and the commands that were sent again.
func TestTelemetry_Watch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	orders := attribute.String("lockgen.client", "orders")
	response := func() (seconds float64) {
		data, _ := r.collect()["lockgen.response.time"].Data.(metricdata.Gauge[float64])
		for _, p := range data.DataPoints {
			if want := attribute.NewSet(orders); p.Attributes.Equals(&want) {
				return p.Value
			}
		}
		return -1
	}
	proxy := redistest.Proxy(t, redistest.Shared(t).Addr())
	c, err := lockrt.Open(t.Context(), proxy.URL(), lockrt.Options{OpTimeout: unhurried})
	require.NoError(t, err)
	defer c.Close()
	require.EqualValues(t, -1, r.sum("lockgen.sent_again", orders))
	endFirst := r.Watch("orders", nil)
	require.EqualValues(t, 0, r.sum("lockgen.sent_again", orders))
	require.EqualValues(t, -1, response(), "there was no answer yet")
	end := r.Watch("orders", c)
	endFirst()
	before := r.sum("lockgen.sent_again", orders)
	lost := proxy.DropReply(redistest.Command("EVALSHA"), 1, redistest.Close)
	lease, err := c.FairMutex(redistest.Key(t, "k")).Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(t.Context()))
	<-lost.Done()
	require.Greater(t, r.sum("lockgen.sent_again", orders), before)
	require.Positive(t, response())
	require.Less(t, response(), 60.0, "seconds")
	require.Equal(t, "s", r.collect()["lockgen.response.time"].Unit)
	end()
	require.EqualValues(t, -1, r.sum("lockgen.sent_again", orders))
}

// A lease that is held for longer than a day is counted, until it ends.
func TestTelemetry_HeldOverADay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, untraced)
		hooks := r.Hooks(lockrt.Hooks{})
		over := func() int64 { return r.sum("lockgen.held.over_day", mutex, pay) }
		hooks.Acquired(t.Context(), event)
		from := time.Now()
		for range 25 {
			require.EqualValues(t, 0, over())
			time.Sleep(time.Hour)
		}
		require.EqualValues(t, 1, over())
		hooks.Ended(t.Context(), lockrt.EndEvent{Kind: event.Kind, Name: event.Name, At: time.Now(), Held: time.Since(from), Reason: lockrt.EndReleased})
		require.EqualValues(t, 0, over())
	})
}

// untraced switches tracing off.
var untraced = lockotel.WithTracerProvider(noop.NewTracerProvider())

// event is the end of a call that got its lock.
var event = lockrt.AcquireEvent{ID: 1, Kind: lockrt.KindMutex, Name: "orders.Service.Pay", Key: "order:1", Waited: time.Millisecond,
	Outcome: lockrt.OutcomeAcquired, Grant: lockrt.GrantServer}

// TestTelemetry_MetricsTakeNoMemory shows that a call that acquires allocates no memory for
// metrics. Spans do.
func TestTelemetry_MetricsTakeNoMemory(t *testing.T) {
	hooks := newRig(t).Metrics(lockrt.Hooks{})
	ctx := context.Background()
	cycle := func() { meter.Cycle(ctx, &hooks, 1, "orders.Service.Pay", "order:1") }
	cycle()
	require.Zero(t, testing.AllocsPerRun(1000, cycle))
}

// BenchmarkTelemetry: Acquire is the cost of metrics for a call that acquires, Cycle with the end of its lease, Traced
// with a recorded span besides.
func BenchmarkTelemetry(b *testing.B) {
	r := newRig(b)
	hooks := r.Metrics(lockrt.Hooks{})
	ctx := context.Background()
	b.Run("Acquire", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			hooks.AcquireEnd(ctx, event)
			hooks.Acquired(ctx, event)
		}
	})
	b.Run("Cycle", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			meter.Cycle(ctx, &hooks, 1, "orders.Service.Pay", "order:1")
		}
	})
	b.Run("Traced", func(b *testing.B) {
		b.ReportAllocs()
		hooks := newRig(b, lockotel.WithTracerProvider(trace.NewTracerProvider())).Hooks(lockrt.Hooks{})
		for b.Loop() {
			meter.Cycle(ctx, &hooks, 1, "orders.Service.Pay", "order:1")
		}
	})
}
