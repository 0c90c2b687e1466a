package resource

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// A stub is an entry that has nothing.
type stub struct{ Referenced }

func (*stub) Held() []*Grant                    { return nil }
func (*stub) Changed()                          {}
func (*stub) EndsLinger()                       {}
func (*stub) Guards() []*watchdog.Lease         { return nil }
func (*stub) EachWaiting(func(*Waiter, string)) {}
func (*stub) Close()                            {}

// TestRegistry_Find shows that Find returns the entry of its key, whichever key was found before, and no entry that is forgotten.
func TestRegistry_Find(t *testing.T) {
	t.Parallel()
	c := new(Client)
	g := NewRegistry(c, func(c *Client, key string) *stub { return &stub{Referenced{Client: c, Key: key}} })
	finds := func(key string, want *stub) {
		t.Helper()
		one, ok := g.Find(key)
		require.Equal(t, want != nil, ok)
		require.Same(t, want, one)
	}
	enter := func(key string) *stub {
		one, err := g.Enter(key, false)
		require.NoError(t, err)
		return one
	}
	finds("a", nil)
	enter("b").Exit() // forgotten, and never found
	a, b := enter("a"), enter("b")
	for range 2 {
		for range 2 {
			finds("a", a)
		}
		for range 2 {
			finds("b", b)
		}
	}
	finds("c", nil)
	a.Exit()
	finds("a", nil)
	finds("b", b) // which was found last when another one was forgotten
	b.Exit()
	finds("b", nil)
	b = enter("b")
	finds("b", b)
	finds("b", b)
	b.Exit()
	require.Zero(t, g.Size())
}
