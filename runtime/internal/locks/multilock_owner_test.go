package locks

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// freeSoon waits until nobody has what m locks.
func freeSoon(t *testing.T, m *Mutex) {
	t.Helper()
	require.Eventually(t, func() bool {
		s, err := m.Inspect(t.Context())
		return err == nil && s.Owner == "" && s.Count == 0
	}, 20*time.Second, 5*time.Millisecond, "all have unlocked")
}

// tryout is how a try of a mutex begins.
func tryout(ctx context.Context, m *Mutex, opts ...LockOption) (*resource, *Lease, lockConfig, error) {
	cfg, err := configure(m.c.core(), m.opts, opts)
	if err != nil {
		return nil, nil, cfg, err
	}
	r, l, err := m.approach(ctx, cfg)
	return r, l, cfg, err
}

// The steps of a try of several mutexes: between two of them another call of its owner is granted the key. The try
// enters that grant, and keeps it until it releases it.
func TestMultiLock_EntersWhatItsOwnerGotAMomentAgo(t *testing.T) {
	t.Parallel()
	c, err := opened(t.Context(), redistest.Shared(t).URL(), Settings{OpTimeout: time.Minute, Tracks: true}, nil)
	require.NoError(t, err)
	defer c.Close()
	m := c.Mutex(redistest.Key(t, "k"))
	ctx := WithOwner(t.Context(), NewOwner())
	for _, wanted := range []bool{true, false} {
		r, l, cfg, err := tryout(ctx, m, WithWait(0))
		require.NoError(t, err)
		require.NotNil(t, r)
		other, err := m.Lock(ctx)
		require.NoError(t, err)
		w := newWaiter(context.Background(), l, cfg)
		entry := r.join(w)
		require.Equal(t, entered, entry)
		if wanted {
			lease, err := c.contend(ctx, &asked{resource: r, entry: entry, again: true}, w, cfg, nil)
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(ctx))
		} else {
			r.leave(w) // another mutex of the try was refused
		}
		r.exit()
		require.NoError(t, other.Unlock(ctx))
		freeSoon(t, m)
	}
}

// A try that was turned away, since another call of the process asked, asks itself when that has gone without an answer. Nobody
// else would.
func TestMultiLock_AsksWhenNobodyElseDoes(t *testing.T) {
	t.Parallel()
	c, err := opened(t.Context(), redistest.Shared(t).URL(), Settings{OpTimeout: time.Minute, Tracks: true}, nil)
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	m := c.Mutex(redistest.Key(t, "k"))
	before, _, cfg, err := tryout(ctx, m)
	require.NoError(t, err)
	first := newWaiter(context.Background(), newLease(c.core(), kindMutex, m.key, ctx), cfg)
	require.Equal(t, toAsk, before.join(first))

	r, l, cfg, err := tryout(ctx, m, WithWait(0))
	require.NoError(t, err)
	w := newWaiter(context.Background(), l, cfg)
	entry := r.join(w)
	require.Equal(t, turnedAway, entry)
	before.leave(first)
	before.exit()
	lease, err := c.contend(ctx, &asked{resource: r, entry: entry, again: true}, w, cfg, nil)
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(ctx))
	r.exit()
	freeSoon(t, m)
}

// Tries of several mutexes and locks of one of them, all of one owner, leave nothing behind.
func TestMultiLock_OfAnOwnerLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	c, err := opened(t.Context(), redistest.Shared(t).URL(), Settings{OpTimeout: time.Minute, Tracks: true}, nil)
	require.NoError(t, err)
	defer c.Close()
	m, other := c.Mutex(redistest.Key(t, "a")), c.Mutex(redistest.Key(t, "b"))
	ctx := WithOwner(context.Background(), NewOwner())
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
