package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A numbered is a subscriber.
type numbered struct {
	number uint64
	name   string
}

func (n numbered) OwnerNumber() uint64 { return n.number }

// TestInbox shows what becomes of the number of a ticket: it has a subscriber until it is given up, and the number of a lost lease
// lasts for as long as the holder was promised.
func TestInbox(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var x Inbox[numbered]
		find := func(n uint64, want string, lasting bool) {
			t.Helper()
			got, known, lasts := x.Find(n)
			require.Equal(t, want, got.name)
			require.Equal(t, want != "", known)
			require.Equal(t, lasting, lasts)
		}
		find(1, "", false)
		x.Disconnect(1)
		require.Empty(t, x.All())
		for n, s := range []string{"none", "one", "two", "three"} {
			x.Connect(numbered{uint64(n), s})
		}
		all := x.All()
		x.Disconnect(1)
		require.ElementsMatch(t, []numbered{{0, "none"}, {1, "one"}, {2, "two"}, {3, "three"}}, all, "what All returns does not change")
		find(1, "", false)
		find(2, "two", false)

		began := time.Now()
		over := make(chan time.Duration, 2)
		x.Depart(2, 0, func() { over <- time.Since(began) })
		require.Zero(t, <-over)
		find(2, "", false)
		x.Depart(3, time.Second, func() { over <- time.Since(began) })
		find(3, "", true)
		require.Equal(t, time.Second, <-over)
		find(3, "", false)
		require.Equal(t, 1, x.Size())
	})
}
