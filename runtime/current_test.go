package lockrt_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/gen"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// unders call fn under the context of a lease of each kind.
func unders(t *testing.T) map[string]func(c *lockrt.Client, key string, fn func(ctx context.Context)) error {
	under := func(fn func(context.Context)) func(context.Context, *lockrt.Lease) error {
		return func(ctx context.Context, _ *lockrt.Lease) error { fn(ctx); return nil }
	}
	fixed := lockrt.WithLease(20 * time.Second)
	return map[string]func(c *lockrt.Client, key string, fn func(context.Context)) error{
		"Mutex": func(c *lockrt.Client, key string, fn func(context.Context)) error {
			return c.Mutex(key, lockrt.WithFencing(), fixed).Do(t.Context(), under(fn))
		},
		"FairMutex": func(c *lockrt.Client, key string, fn func(context.Context)) error {
			return c.FairMutex(key, lockrt.WithFencing(), fixed).Do(t.Context(), under(fn))
		},
		"writer": func(c *lockrt.Client, key string, fn func(context.Context)) error {
			return c.RWMutex(key, lockrt.WithFencing(), fixed).Do(t.Context(), under(fn))
		},
		"reader": func(c *lockrt.Client, key string, fn func(context.Context)) error {
			return c.RWMutex(key, fixed).RDo(t.Context(), under(fn))
		},
		"permit": func(c *lockrt.Client, key string, fn func(context.Context)) error {
			return c.PermitSemaphore(key, 1, fixed).Do(t.Context(), func(ctx context.Context, _ *lockrt.Permit) error { fn(ctx); return nil })
		},
		"MultiLock": func(c *lockrt.Client, key string, fn func(context.Context)) error {
			return lockrt.NewMultiLock(c.Mutex(key, fixed), c.FairMutex(key+":2", fixed)).Do(t.Context(), under(fn))
		},
	}
}

func TestLeaseFrom(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	for name, do := range unders(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := redistest.Key(t, "k")
			ran := false
			var after lockrt.CurrentLease
			err := do(c, key, func(ctx context.Context) {
				ran = true
				derived, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Hour)
				defer cancel()
				lease, ok := lockrt.LeaseFrom(derived)
				require.True(t, ok)
				want := key
				if name == "MultiLock" {
					want += ", " + key + ":2"
				}
				require.Equal(t, want, lease.Key())
				require.NoError(t, lease.Err())
				token, _ := lockrt.TokenFrom(ctx)
				require.Equal(t, token, lease.Token())
				require.Equal(t, name == "Mutex" || name == "FairMutex" || name == "writer", lease.Token() != 0)
				require.WithinDuration(t, time.Now().Add(18*time.Second), lease.Until(), 17*time.Second)
				require.NoError(t, lease.Extend(patient(t), time.Hour))
				require.Greater(t, time.Until(lease.Until()), time.Minute)
				require.ErrorIs(t, lease.Extend(patient(t), time.Millisecond), lockrt.ErrBadOption)
				after = lease
			})
			require.NoError(t, err)
			require.True(t, ran)
			require.ErrorIs(t, after.Err(), lockrt.ErrReleased)
			require.ErrorIs(t, after.Extend(patient(t), time.Hour), lockrt.ErrReleased)
		})
	}
}

// LeaseFrom finds the innermost lease, of any kind and any Client.
func TestLeaseFrom_Innermost(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	outer, inner := redistest.Key(t, "outer"), redistest.Key(t, "inner")
	keyOf := func(ctx context.Context) string {
		lease, ok := lockrt.LeaseFrom(ctx)
		require.True(t, ok)
		return lease.Key()
	}
	err := c.Mutex(outer).Do(t.Context(), func(ctx context.Context, _ *lockrt.Lease) error {
		require.Equal(t, outer, keyOf(ctx))
		err := c.PermitSemaphore(inner, 1).Do(ctx, func(ctx context.Context, _ *lockrt.Permit) error {
			require.Equal(t, inner, keyOf(ctx))
			return nil
		})
		require.Equal(t, outer, keyOf(ctx))
		return err
	})
	require.NoError(t, err)
}

// A method whose annotation says that a loss is only reported is under its lease all the same.
func TestLeaseFrom_BelowAGeneratedWrapper(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	for _, report := range []bool{false, true} {
		key := redistest.Key(t, "k")
		hold, err := gen.With(c).Acquire(t.Context(), &gen.Spec{Name: "s", Wait: lockrt.UntilDone, Report: report, Fence: true}, key)
		require.NoError(t, err)
		lease, ok := lockrt.LeaseFrom(hold.Context())
		require.True(t, ok)
		require.Equal(t, key, lease.Key())
		require.NotZero(t, lease.Token())
		hold.Release(&err)
		require.NoError(t, err)
	}
}

func TestLeaseFrom_None(t *testing.T) {
	t.Parallel()
	for _, ctx := range []context.Context{nil, context.Background(), t.Context()} {
		lease, ok := lockrt.LeaseFrom(ctx)
		require.False(t, ok)
		require.ErrorIs(t, lease.Err(), lockrt.ErrBadOption)
		require.ErrorIs(t, lease.Extend(t.Context(), time.Hour), lockrt.ErrBadOption)
		require.Zero(t, lease.Token())
		require.Zero(t, lease.Until())
		require.Empty(t, lease.Key())
	}
}
