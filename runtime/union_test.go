package lockrt

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

// What comes while a union passes its parts on goes to who gets them, and back if nobody does.
func TestUnion_WhatComesWhileItPasses(t *testing.T) {
	t.Parallel()
	for name, passes := range map[string]bool{"to an heir": true, "to nobody": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var unlocked []*Lease
			lease := func() *Lease {
				l := newLease(&Client{}, kindRedLock, "k", t.Context())
				l.hold = noted{&unlocked}
				return l
			}
			whole, part, late, next := lease(), lease(), lease(), lease()
			heir := &union{whole: next, needs: 1, most: 2}
			u := &union{whole: whole, needs: 1, most: 2, parts: []*Lease{part}}
			u.pass = func(parts []*Lease) (*union, []*Lease) {
				require.Same(t, u, u.bearer())
				u.join(late)
				require.Empty(t, unlocked)
				if !passes {
					return nil, parts
				}
				heir.parts = parts
				heir.begin()
				return heir, nil
			}
			u.begin()
			require.NoError(t, u.unlock(whole))
			if passes {
				require.Equal(t, []*Lease{part, late}, heir.all())
				require.Same(t, heir, u.bearer())
				require.Empty(t, unlocked)
			} else {
				require.ElementsMatch(t, []*Lease{part, late}, unlocked)
				require.Nil(t, u.bearer())
			}
		})
	}
}
