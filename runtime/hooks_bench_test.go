package lockrt_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// observers are what a client may be observed with.
var observers = map[string]lockrt.Hooks{
	"none": {},
	"all": {
		AcquireStart: func(ctx context.Context, _ lockrt.AcquireEvent) context.Context { return ctx },
		AcquireEnd:   func(context.Context, lockrt.AcquireEvent) {},
		Acquired:     func(ctx context.Context, _ lockrt.AcquireEvent) context.Context { return ctx },
		Ended:        func(context.Context, lockrt.EndEvent) {},
	},
}

// entering returns a call that locks and unlocks without a request to the server, since it enters
// again.
func entering(tb testing.TB, hooks lockrt.Hooks) func() {
	tb.Helper()
	c, err := lockrt.Open(tb.Context(), redistest.Shared(tb).URL(), lockrt.Options{Hooks: hooks})
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = c.Close() })
	m := c.Mutex(redistest.Key(tb, "k"))
	outer, err := m.Lock(tb.Context())
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = outer.Unlock(context.Background()) })
	ctx := outer.Context()
	return func() {
		lease, err := m.Lock(ctx)
		if err == nil {
			err = lease.Unlock(ctx)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
}

// A call allocates its lease, and nothing else. With hooks the lease has room for what they learn of the call.
func TestHooks_TakeNoMemory(t *testing.T) {
	for name, hooks := range observers {
		call := entering(t, hooks)
		// So many runs that what the client allocates meanwhile, such as for its connections, does not count.
		require.LessOrEqual(t, testing.AllocsPerRun(50_000, call), 1.0, name)
	}
}

// BenchmarkHooks is what hooks that do nothing cost a call that contacts nobody, beside the same call without hooks.
func BenchmarkHooks(b *testing.B) {
	for _, name := range []string{"none", "all"} {
		b.Run(name, func(b *testing.B) {
			call := entering(b, observers[name])
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
}
