package composite

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/locks"
	"github.com/lockgen/lockgen/runtime/internal/policy"
	"github.com/lockgen/lockgen/runtime/internal/resource"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// freeSoon waits until nobody has what m locks.
func freeSoon(t *testing.T, m *locks.Mutex) {
	t.Helper()
	require.Eventually(t, func() bool {
		s, err := m.Inspect(t.Context())
		return err == nil && s.Owner == "" && s.Count == 0
	}, 20*time.Second, 5*time.Millisecond, "all have unlocked")
}

// tryout is how a try of a mutex begins.
func tryout(ctx context.Context, m *locks.Mutex, opts ...leases.Option) (*policy.Mutex, *leases.Lease, leases.Config, error) {
	cfg, err := leases.Configure(m.Client().Core(), m.Options(), opts)
	if err != nil {
		return nil, nil, cfg, err
	}
	r, l, err := m.Approach(ctx, leases.New(m.Client().Core(), core.KindMutex, ctx), &cfg)
	return r, l, cfg, err
}

// The steps of a try of several mutexes: between two of them another call of its owner is granted the key. The try
// enters that grant, and keeps it until it releases it.
func TestMultiLock_EntersWhatItsOwnerGotAMomentAgo(t *testing.T) {
	t.Parallel()
	c, err := opened(t.Context(), redistest.Shared(t).URL(), core.Settings{OpTimeout: time.Minute, Tracks: true}, nil)
	require.NoError(t, err)
	defer c.Close()
	m := c.Mutex(redistest.Key(t, "k"))
	ctx := leases.WithOwner(t.Context(), leases.NewOwner())
	for _, wanted := range []bool{true, false} {
		r, l, cfg, err := tryout(ctx, m, leases.WithWait(0))
		require.NoError(t, err)
		require.NotNil(t, r)
		other, err := m.Lock(ctx)
		require.NoError(t, err)
		w := resource.NewWaiter(context.Background(), l, &cfg)
		entry := r.Join(w)
		require.Equal(t, resource.Entered, entry)
		if wanted {
			lease, err := c.Base().Contend(ctx, &asked{Mutex: r, entry: entry, again: true}, w, &cfg, nil)
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(ctx))
		} else {
			r.Leave(w) // another mutex of the try was refused
		}
		r.Exit()
		require.NoError(t, other.Unlock(ctx))
		freeSoon(t, m)
	}
}

// A try that was turned away, since another call of the process asked, asks itself when that has gone without an answer. Nobody
// else would.
func TestMultiLock_AsksWhenNobodyElseDoes(t *testing.T) {
	t.Parallel()
	c, err := opened(t.Context(), redistest.Shared(t).URL(), core.Settings{OpTimeout: time.Minute, Tracks: true}, nil)
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	m := c.Mutex(redistest.Key(t, "k"))
	before, _, cfg, err := tryout(ctx, m)
	require.NoError(t, err)
	first := resource.NewWaiter(context.Background(), leases.New(c.Core(), core.KindMutex, ctx), &cfg)
	require.Equal(t, resource.ToAsk, before.Join(first))

	r, l, cfg, err := tryout(ctx, m, leases.WithWait(0))
	require.NoError(t, err)
	w := resource.NewWaiter(context.Background(), l, &cfg)
	entry := r.Join(w)
	require.Equal(t, resource.TurnedAway, entry)
	before.Leave(first)
	before.Exit()
	lease, err := c.Base().Contend(ctx, &asked{Mutex: r, entry: entry, again: true}, w, &cfg, nil)
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(ctx))
	r.Exit()
	freeSoon(t, m)
}

// Tries of several mutexes and locks of one of them, all of one owner, leave nothing behind.
func TestMultiLock_OfAnOwnerLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	c, err := opened(t.Context(), redistest.Shared(t).URL(), core.Settings{OpTimeout: time.Minute, Tracks: true}, nil)
	require.NoError(t, err)
	defer c.Close()
	m, other := c.Mutex(redistest.Key(t, "a")), c.Mutex(redistest.Key(t, "b"))
	ctx := leases.WithOwner(context.Background(), leases.NewOwner())
	for range 3 {
		var wg sync.WaitGroup
		stop := make(chan struct{})
		for range 2 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					if l, err := NewMultiLock(m, other).TryLock(ctx); err == nil {
						_ = l.Unlock(ctx)
					}
				}
			})
		}
		for range 20 {
			l, err := m.Lock(ctx)
			require.NoError(t, err)
			require.NoError(t, l.Unlock(ctx))
		}
		close(stop)
		wg.Wait()
		freeSoon(t, m)
		freeSoon(t, other)
	}
}
