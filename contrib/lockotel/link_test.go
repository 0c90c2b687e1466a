package lockotel_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockgen/lockgen/contrib/lockotel"
	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A call that waited for more than a second is linked to the span under which the holder, in another process, made its call.
func TestTelemetry_ALongWaitIsLinkedToTheHolder(t *testing.T) {
	t.Parallel()
	asked, waiting := make(chan struct{}, 1000), make(chan struct{}, 1000)
	one, two := newRig(t), newRig(t)
	hooks := one.Hooks(lockrt.Hooks{})
	parent := hooks.TraceParent
	open := func(hooks lockrt.Hooks) *lockrt.Client { // with leases that a busy machine does not lose
		c, err := lockrt.Open(t.Context(), redistest.Shared(t).URL(), lockrt.Options{OpTimeout: unhurried, Hooks: hooks})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	holder := open(one.Hooks(lockrt.Hooks{TraceParent: func(ctx context.Context) string {
		defer func() { asked <- struct{}{} }()
		return parent(ctx)
	}}))
	waiter := open(two.Hooks(lockrt.Hooks{Waiting: func(context.Context, lockrt.AcquireEvent) { waiting <- struct{}{} }}))
	key := redistest.Key(t, "k")
	for range 20 { // until an answer comes before the lock is free
		ctx, caller := one.traces.Tracer("test").Start(t.Context(), "caller")
		lease, err := holder.Mutex(key).Lock(ctx)
		require.NoError(t, err)
		got := make(chan error, 1)
		go func() {
			got <- waiter.Mutex(key).Do(context.Background(), func(context.Context, *lockrt.Lease) error { return nil })
		}()
		<-waiting
		select {
		case <-asked:
		case <-time.After(10 * time.Second): // the holder did not listen yet
		}
		_, err = waiter.Fleet(t.Context(), key) // the holder answers that later
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
		require.NoError(t, <-got)
		caller.End()
		for len(asked) > 0 {
			<-asked
		}
		spans := two.named("lock acquire")
		require.NotEmpty(t, spans)
		last := spans[len(spans)-1]
		if len(last.Links) == 0 {
			continue
		}
		require.Len(t, last.Links, 1)
		require.Equal(t, caller.SpanContext().TraceID(), last.Links[0].SpanContext.TraceID())
		require.Equal(t, caller.SpanContext().SpanID(), last.Links[0].SpanContext.SpanID())
		require.Contains(t, last.Links[0].Attributes, attribute.String("lockgen.link", "holder"))
		require.NotEqual(t, last.SpanContext.TraceID(), last.Links[0].SpanContext.TraceID(), "they are traces of their own")
		return
	}
	require.Fail(t, "in no round the span has a link")
}

// The text of another process gives no link unless it is a trace parent.
func TestTelemetry_LinksToTraceParentsOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, lockotel.WithSlow(0))
	hooks := r.Hooks(lockrt.Hooks{})
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	hooks.AcquireEnd(t.Context(), lockrt.AcquireEvent{Waited: 1, HolderTraces: []string{
		"", "x", "00-00000000000000000000000000000000-00f067aa0ba902b7-01", good, "00-4bf92f3577b34da6a3ce929d0e0e4736-zz", "\xff\x00<script>",
	}})
	span := r.named("lock acquire")[0]
	require.Len(t, span.Links, 1)
	of := span.Links[0].SpanContext
	require.Equal(t, "4bf92f3577b34da6a3ce929d0e0e4736", of.TraceID().String())
	require.Equal(t, trace.FlagsSampled, of.TraceFlags())
	require.True(t, of.IsRemote())
	hooks.AcquireEnd(t.Context(), lockrt.AcquireEvent{Waited: 1})
	require.Empty(t, r.named("lock acquire")[1].Links)
}
