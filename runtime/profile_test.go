package lockrt_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"runtime/pprof"
	"runtime/trace"
	"testing"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/gen"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// labelled is how each Do is called, with a function that returns what it is given.
var labelled = map[string]func(ctx context.Context, c *lockrt.Client, key string, fn func(ctx context.Context) error, opts ...lockrt.LockOption) error{
	"mutex": func(ctx context.Context, c *lockrt.Client, key string, fn func(ctx context.Context) error, opts ...lockrt.LockOption) error {
		return c.Mutex(key, opts...).Do(ctx, func(ctx context.Context, _ *lockrt.Lease) error { return fn(ctx) })
	},
	"fair": func(ctx context.Context, c *lockrt.Client, key string, fn func(ctx context.Context) error, opts ...lockrt.LockOption) error {
		return c.FairMutex(key).Do(ctx, func(ctx context.Context, _ *lockrt.Lease) error { return fn(ctx) }, opts...)
	},
	"write": func(ctx context.Context, c *lockrt.Client, key string, fn func(ctx context.Context) error, opts ...lockrt.LockOption) error {
		return c.RWMutex(key, opts...).Do(ctx, func(ctx context.Context, _ *lockrt.Lease) error { return fn(ctx) })
	},
	"read": func(ctx context.Context, c *lockrt.Client, key string, fn func(ctx context.Context) error, opts ...lockrt.LockOption) error {
		return c.RWMutex(key, opts...).RDo(ctx, func(ctx context.Context, _ *lockrt.Lease) error { return fn(ctx) })
	},
	"permit": func(ctx context.Context, c *lockrt.Client, key string, fn func(ctx context.Context) error, opts ...lockrt.LockOption) error {
		return c.PermitSemaphore(key, 1, opts...).Do(ctx, func(ctx context.Context, _ *lockrt.Permit) error { return fn(ctx) })
	},
	"semaphore": func(ctx context.Context, c *lockrt.Client, key string, fn func(ctx context.Context) error, opts ...lockrt.LockOption) error {
		return c.Semaphore(key, 1, opts...).Do(ctx, 1, fn)
	},
	"multi": func(ctx context.Context, c *lockrt.Client, key string, fn func(ctx context.Context) error, opts ...lockrt.LockOption) error {
		return lockrt.NewMultiLock(c.Mutex(key), c.FairMutex(key+"2")).Do(ctx, func(ctx context.Context, _ *lockrt.Lease) error { return fn(ctx) }, opts...)
	},
}

func label(ctx context.Context) string {
	name, _ := pprof.Label(ctx, "lock")
	return name
}

// goroutines returns the profile of what runs, with the labels that it has.
func goroutines(t *testing.T) string {
	t.Helper()
	var text bytes.Buffer
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&text, 1))
	return text.String()
}

func TestProfileLabels(t *testing.T) {
	t.Parallel()
	on, err := opened(t.Context(), redistest.Shared(t).URL(), lockrt.Options{ProfileLabels: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = on.Close() })
	off, err := opened(t.Context(), redistest.Shared(t).URL(), lockrt.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = off.Close() })
	others := make([]*lockrt.Client, 2)
	for i := range others {
		others[i], err = opened(t.Context(), redistest.Server(t).URL(), lockrt.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = others[i].Close() })
	}
	all := maps.Clone(labelled)
	all["redlock"] = func(ctx context.Context, c *lockrt.Client, key string, fn func(ctx context.Context) error, opts ...lockrt.LockOption) error {
		lock := lockrt.NewRedLock(key, []*lockrt.Client{c, others[0], others[1]}, opts...)
		return lock.Do(ctx, func(ctx context.Context, _ *lockrt.Lease) error { return fn(ctx) })
	}
	for kind, do := range all {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			key, name := redistest.Key(t, "k"), redistest.Key(t, "name")
			ctx := pprof.WithLabels(t.Context(), pprof.Labels("test", "of labels"))
			require.NoError(t, do(ctx, on, key, func(ctx context.Context) error {
				require.Equal(t, name, label(ctx))
				outer, _ := pprof.Label(ctx, "test")
				require.Equal(t, "of labels", outer)
				require.Contains(t, goroutines(t), `"lock":"`+name+`"`)
				return nil
			}, lockrt.WithName(name)))
			require.NotContains(t, goroutines(t), name, "it ends with the function")

			require.NoError(t, do(ctx, on, key, func(ctx context.Context) error {
				require.Equal(t, kind, label(ctx), "without a name it is the kind")
				return nil
			}))
			require.PanicsWithValue(t, "boom", func() {
				_ = do(ctx, on, key, func(context.Context) error { panic("boom") }, lockrt.WithName(name))
			})
			require.NotContains(t, goroutines(t), name, "also by a panic")
			failed := errors.New("failed")
			require.ErrorIs(t, do(ctx, on, key, func(context.Context) error { return failed }), failed)
			require.NoError(t, do(ctx, off, key, func(ctx context.Context) error {
				require.Empty(t, label(ctx), "by default there is none")
				return nil
			}, lockrt.WithName(name)))
		})
	}
	t.Run("again", func(t *testing.T) {
		t.Parallel()
		m := on.Mutex(redistest.Key(t, "k"))
		require.NoError(t, m.Do(t.Context(), func(ctx context.Context, _ *lockrt.Lease) error {
			return m.Do(ctx, func(ctx context.Context, _ *lockrt.Lease) error {
				require.Equal(t, "inner", label(ctx))
				return nil
			}, lockrt.WithName("inner"))
		}, lockrt.WithName("outer")))
	})
	t.Run("of nothing", func(t *testing.T) {
		t.Parallel()
		ran := false
		require.NoError(t, on.Semaphore(redistest.Key(t, "k"), 1).Do(t.Context(), 0, func(context.Context) error { ran = true; return nil }))
		require.True(t, ran)
	})
}

func TestProfileLabels_OfGeneratedCode(t *testing.T) {
	t.Parallel()
	c, err := opened(t.Context(), redistest.Shared(t).URL(), lockrt.Options{ProfileLabels: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	key, name := redistest.Key(t, "k"), redistest.Key(t, "orders.Service.Pay")
	for kind, spec := range map[string]*gen.Spec{
		"one": {Name: name, Wait: lockrt.UntilDone}, "a loss is reported": {Name: name, Wait: lockrt.UntilDone, Report: true},
	} {
		held, err := gen.With(c).Acquire(t.Context(), spec, key, key+"2")
		require.NoError(t, err)
		require.Equal(t, name, label(held.Context()), kind)
		require.Contains(t, goroutines(t), `"lock":"`+name+`"`, kind)
		held.Release(&err)
		require.NoError(t, err)
		require.NotContains(t, goroutines(t), name, kind)
	}
	held, err := gen.With(c).Acquire(t.Context(), &gen.Spec{Name: name, Wait: lockrt.UntilDone}, key)
	require.NoError(t, err)
	require.Equal(t, name, label(held.Context()))
	held.Lend()
	held.Release(&err)
	require.NotContains(t, goroutines(t), name, "the method has returned; what it returned is of nobody's goroutine")
	require.NoError(t, held.Close(func() error { return nil }))
}

// A trace has a region for the work. No other test of the package may trace.
func TestProfileLabels_InATrace(t *testing.T) {
	c, err := opened(t.Context(), redistest.Shared(t).URL(), lockrt.Options{ProfileLabels: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	var text bytes.Buffer
	require.NoError(t, trace.Start(&text))
	err = c.Mutex(redistest.Key(t, "k")).Do(t.Context(), func(context.Context, *lockrt.Lease) error { return nil }, lockrt.WithName("orders.Service.Pay"))
	trace.Stop()
	require.NoError(t, err)
	require.Contains(t, text.String(), "lock orders.Service.Pay")
}

// BenchmarkProfileLabels is a Do that enters again, which contacts nobody: what labels cost is the difference.
func BenchmarkProfileLabels(b *testing.B) {
	for name, on := range map[string]bool{"off": false, "on": true} {
		b.Run(name, func(b *testing.B) {
			c, err := lockrt.Open(b.Context(), redistest.Shared(b).URL(), lockrt.Options{ProfileLabels: on})
			require.NoError(b, err)
			defer c.Close()
			m := c.Mutex(redistest.Key(b, "k"))
			lease, err := m.Lock(b.Context())
			require.NoError(b, err)
			work := func(context.Context, *lockrt.Lease) error { return nil }
			b.ReportAllocs()
			for b.Loop() {
				if err := m.Do(lease.Context(), work); err != nil {
					b.Fatal(err)
				}
			}
			require.NoError(b, lease.Unlock(b.Context()))
		})
	}
}
