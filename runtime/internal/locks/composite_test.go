package locks

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A noted holding notes what is unlocked.
type noted struct{ unlocked *[]*Lease }

func (noted) reenter(*Lease, *Lease) bool { return false }

func (n noted) unlock(l *Lease) error {
	*n.unlocked = append(*n.unlocked, l)
	return nil
}

// A part that joins while a composite lease passes its parts on goes to the successor, or is released without one.
func TestCompositeLease_WhatComesWhileItPasses(t *testing.T) {
	t.Parallel()
	for name, passes := range map[string]bool{"to an heir": true, "to nobody": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var unlocked []*Lease
			lease := func() *Lease {
				l := newLease(new(clientCore), kindRedLock, "k", t.Context())
				l.grant = noted{&unlocked}
				return l
			}
			whole, part, late, next := lease(), lease(), lease(), lease()
			successor := &compositeLease{whole: next, needs: 1, most: 2}
			co := &compositeLease{whole: whole, needs: 1, most: 2, parts: []*Lease{part}}
			co.pass = func(parts []*Lease) (*compositeLease, []*Lease) {
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
			require.NoError(t, co.unlock(whole))
			if passes {
				require.Equal(t, []*Lease{part, late}, successor.all())
				require.Same(t, successor, co.bearer())
				require.Empty(t, unlocked)
			} else {
				require.ElementsMatch(t, []*Lease{part, late}, unlocked)
				require.Nil(t, co.bearer())
			}
		})
	}
}
