package composite

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/policy"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A noted grant notes what is unlocked.
type noted struct{ unlocked *[]*leases.Lease }

func (noted) Client() *core.Client { return new(core.Client) }

func (noted) Key() string { return "k" }

func (noted) Guarded() *watchdog.Lease { return nil }

func (noted) Reenter(*leases.Lease, *leases.Lease) bool { return false }

func (n noted) Unlock(l *leases.Lease) error {
	*n.unlocked = append(*n.unlocked, l)
	return nil
}

// A part that joins while a composite lease passes its parts on goes to the successor, or is released without one.
func TestCompositeLease_WhatComesWhileItPasses(t *testing.T) {
	t.Parallel()
	for name, passes := range map[string]bool{"to a successor": true, "to none": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var unlocked []*leases.Lease
			lease := func() *leases.Lease {
				l := leases.New(new(core.Client), core.KindRedLock, t.Context())
				l.Core().Grant = noted{&unlocked}
				return l
			}
			whole, part, late, next := lease(), lease(), lease(), lease()
			successor := &compositeLease{client: new(core.Client), whole: next, needs: 1, most: 2}
			co := &compositeLease{client: new(core.Client), whole: whole, needs: 1, most: 2, parts: []*leases.Lease{part}}
			co.pass = func(parts []*leases.Lease) (*compositeLease, []*leases.Lease) {
				require.Same(t, co, co.bearer())
				co.join(late)
				require.Empty(t, unlocked)
				if !passes {
					return nil, parts
				}
				successor.parts = parts
				successor.begin()
				return successor, nil
			}
			co.begin()
			require.NoError(t, co.Unlock(whole))
			if passes {
				require.Equal(t, []*leases.Lease{part, late}, successor.All())
				require.Same(t, successor, co.bearer())
				require.Empty(t, unlocked)
			} else {
				require.ElementsMatch(t, []*leases.Lease{part, late}, unlocked)
				require.Nil(t, co.bearer())
			}
		})
	}
}

// A part that joins while the whole is lost is renewed no more, or is released.
func TestCompositeLease_WhatComesWhileItIsLost(t *testing.T) {
	t.Parallel()
	c, err := opened(t.Context(), redistest.Shared(t).URL(), core.Settings{OpTimeout: time.Minute, Tracks: true}, nil)
	require.NoError(t, err)
	defer c.Close()
	m := c.Mutex(redistest.Key(t, "k"))
	var unlocked []*leases.Lease
	lease := func() *leases.Lease {
		l := leases.New(new(core.Client), core.KindRedLock, t.Context())
		l.Core().Grant = noted{&unlocked}
		return l
	}
	parts := make([]*leases.Lease, 4000) // so many that the loss takes a while
	for i := range parts {
		parts[i] = lease()
	}
	for range 300 {
		whole, lost := lease(), lease()
		parts[0] = lost
		replace := func(*compositeLease, *leases.Lease) {} // when the other part has joined before
		co := &compositeLease{client: new(core.Client), whole: whole, needs: len(parts), most: len(parts) + 1, parts: append([]*leases.Lease(nil), parts...), replace: replace}
		co.begin()
		late, err := m.Lock(t.Context())
		require.NoError(t, err)
		grant, _, ok := policy.MutexGrant(late.Core().Grant)
		require.True(t, ok)
		var both sync.WaitGroup
		both.Go(func() { co.join(late) })
		both.Go(func() {
			for range rand.N(len(parts)) { // while the other one looks at as many parts
				_ = parts[1].Err()
			}
			lost.Core().End(failure.Lost(watchdog.ErrRefused))
		})
		both.Wait()
		if errors.Is(whole.Core().Ended(), failure.ErrLost) && late.Err() == nil {
			require.False(t, grant.Renewed())
		}
		_ = late.Unlock(t.Context())
	}
}
