package composite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/locks"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// The holders that come after one with the token of a RedLock draw their tokens anew: the rest of the block is smaller.
func TestLease_StampDropsSmallerTokens(t *testing.T) {
	t.Parallel()
	c, err := opened(t.Context(), redistest.Shared(t).URL(), core.Settings{OpTimeout: time.Minute, Tracks: true}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	key := redistest.Key(t, "k")
	lease, err := c.Mutex(key, leases.WithFencing()).Lock(t.Context())
	require.NoError(t, err)
	r, known := locks.MutexOf(c, key)
	require.True(t, known)
	left := func() int {
		r.Mu.Lock()
		defer r.Mu.Unlock()
		return r.Grant.Ticket.Rare().Tokens.Left
	}
	r.Mu.Lock()
	r.Grant.Ticket.More().Tokens = engine.NewTokens(lease.Token()+1, 3)
	r.Mu.Unlock()
	stamp(lease, lease.Token())
	require.Equal(t, 3, left(), "its own token")
	stamp(lease, lease.Token()+100)
	require.Zero(t, left())
	require.NoError(t, lease.Unlock(t.Context()))
}
