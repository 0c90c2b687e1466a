package survey

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// said is the report of a process that has one lock, and waits for another one under it.
func said(process string, has lockrt.Kind, key string, wants lockrt.Kind, other string) lockrt.Snapshot {
	own := lockrt.LeaseRef{Key: key, Owner: process + ":1"}
	return lockrt.Snapshot{
		Process: lockrt.Process{ID: process},
		Held:    []lockrt.HeldLock{{Key: own.Key, Kind: has, Owner: own.Owner, Since: time.Now()}},
		Waiting: []lockrt.WaitingCall{{Key: other, Kind: wants, Since: time.Now(), Under: []lockrt.LeaseRef{own}}},
	}
}

// TestGraph_ReaderBehindWriter shows that a reader waits for the writer that has the lock, whichever of their processes answers first.
func TestGraph_ReaderBehindWriter(t *testing.T) {
	t.Parallel()
	reader := said("reader", lockrt.KindMutex, "order", lockrt.KindRead, "page")
	writer := said("writer", lockrt.KindWrite, "page", lockrt.KindMutex, "order")
	for _, reports := range [][]lockrt.Snapshot{{reader, writer}, {writer, reader}} {
		w := New()
		for _, s := range reports {
			w.Add(s)
		}
		require.Equal(t, "write", w.Locks["page"].Kind)
		g := w.Graph()
		require.Len(t, g.Circles(), 1)
		require.False(t, g.Chains(w.Locks["page"])[0].Unknown)
	}
}

// TestGraph_ReaderBehindReader shows that a reader waits for other readers if a writer waits, too, and only then.
func TestGraph_ReaderBehindReader(t *testing.T) {
	t.Parallel()
	one := said("one", lockrt.KindMutex, "order", lockrt.KindRead, "page")
	two := said("two", lockrt.KindRead, "page", lockrt.KindMutex, "order")
	three := lockrt.Snapshot{Process: lockrt.Process{ID: "three"}, Waiting: []lockrt.WaitingCall{{Key: "page", Kind: lockrt.KindWrite, Since: time.Now()}}}
	for _, reports := range [][]lockrt.Snapshot{{one, two}, {two, one}} {
		w := New()
		for _, s := range reports {
			w.Add(s)
		}
		require.Equal(t, "read", w.Locks["page"].Kind)
		require.Empty(t, w.Graph().Circles())
		w.Add(three)
		require.Len(t, w.Graph().Circles(), 1)
	}
}

// TestGraph_ChainsOfManyPermits shows that chains end in time when each holder of many permits waits for one more: they have more paths
// than can be followed.
func TestGraph_ChainsOfManyPermits(t *testing.T) {
	t.Parallel()
	const calls = 40
	w := New()
	l := w.Lock("pool", "permit")
	for i := range calls {
		ref := lockrt.LeaseRef{Key: l.Key, Owner: string(rune('a' + i))}
		l.Holders = append(l.Holders, Holder{Owner: ref.Owner})
		l.Waiters = append(l.Waiters, Waiter{Kind: l.Kind, Under: []lockrt.LeaseRef{ref}})
	}
	chains := w.Graph().Chains(l)
	require.Len(t, chains, calls)
	links, circles, above := 0, 0, 0
	var walk func(l Link)
	walk = func(l Link) {
		links++
		if l.Circle {
			circles++
		}
		if l.Above {
			above++
			require.Empty(t, l.Chains)
		}
		for _, c := range l.Chains {
			walk(c)
		}
	}
	for _, c := range chains {
		require.NotEmpty(t, c.Chains)
		walk(c)
	}
	require.LessOrEqual(t, links, 2*calls*calls)
	require.NotZero(t, circles)
	require.NotZero(t, above)
}
