package composite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
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
