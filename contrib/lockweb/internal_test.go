package lockweb

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/internal/survey"
	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// sectionOf returns a section of a view.
func sectionOf(v *view, id string) string {
	for _, s := range v.Sections {
		if s.ID == id {
			return string(s.HTML)
		}
	}
	return ""
}

// crowded returns locks of which one has many holders and waiters. Each waiter waits under a lease of its own.
func crowded(holders, waiters int) *survey.World {
	w := survey.New()
	at := w.At.Add(-time.Minute)
	s := lockrt.Snapshot{Process: lockrt.Process{ID: "one"}}
	for i := range holders {
		s.Held = append(s.Held, lockrt.HeldLock{Key: "printers", Kind: lockrt.KindPermit, Owner: fmt.Sprintf("holder-%d", i), Since: at})
	}
	for i := range waiters {
		own := lockrt.LeaseRef{Key: fmt.Sprintf("order:%d", i), Owner: fmt.Sprintf("waiter-%d", i)}
		s.Held = append(s.Held, lockrt.HeldLock{Key: own.Key, Kind: lockrt.KindMutex, Name: "pay", Owner: own.Owner, Since: at})
		s.Waiting = append(s.Waiting, lockrt.WaitingCall{Key: "printers", Kind: lockrt.KindPermit, Name: "print", Since: at, Under: []lockrt.LeaseRef{own}})
	}
	w.Add(s)
	return w
}

// A lock with more holders than a drawing has boxes is drawn as one with a crowd: the page stays small.
func TestShow_ManyHoldersAreOneBox(t *testing.T) {
	t.Parallel()
	for _, holders := range []int{mostBoxes, mostBoxes + 1, 1000} {
		graph := sectionOf(new(Page).show(crowded(holders, 1)), "graph")
		boxes := strings.Count(graph, "<rect ")
		if holders <= mostBoxes {
			require.Equal(t, mostBoxes, boxes)
			require.Contains(t, graph, "1 more calls are not drawn")
		} else {
			require.Equal(t, 2, boxes)
			require.Contains(t, graph, fmt.Sprintf("pay waits for printers, which %d holders has", holders))
		}
	}
	graph := sectionOf(new(Page).show(crowded(1000, 1000)), "graph")
	require.Equal(t, mostBoxes, strings.Count(graph, "<rect "))
	require.Less(t, len(graph), 100_000)
}

// Holders that wait themselves stay boxes of their own: a deadlock is drawn.
func TestShow_AHolderThatWaitsIsInNoCrowd(t *testing.T) {
	t.Parallel()
	w := survey.New()
	at := w.At.Add(-time.Minute)
	s := lockrt.Snapshot{Process: lockrt.Process{ID: "one"}}
	for i := range 100 {
		s.Held = append(s.Held, lockrt.HeldLock{Key: "prices", Kind: lockrt.KindRead, Name: "quote", Owner: fmt.Sprintf("reader-%d", i), Since: at})
	}
	pay := lockrt.LeaseRef{Key: "order:1", Owner: "pay"}
	s.Held = append(s.Held, lockrt.HeldLock{Key: pay.Key, Kind: lockrt.KindMutex, Name: "pay", Owner: pay.Owner, Since: at})
	s.Waiting = append(s.Waiting,
		lockrt.WaitingCall{Key: "prices", Kind: lockrt.KindWrite, Name: "pay", Since: at, Under: []lockrt.LeaseRef{pay}},
		lockrt.WaitingCall{Key: pay.Key, Kind: lockrt.KindMutex, Name: "quote", Since: at, Under: []lockrt.LeaseRef{{Key: "prices", Owner: "reader-7"}}})
	w.Add(s)
	v := new(Page).show(w)
	require.Contains(t, sectionOf(v, "deadlocks"), "<h2>Deadlocks</h2>")
	graph := sectionOf(v, "graph")
	require.Equal(t, 3, strings.Count(graph, "<rect "), "the two of the circle, and the other readers")
	require.Contains(t, graph, "pay waits for prices, which 99 holders has")
	require.Contains(t, graph, "pay waits for prices, which quote has")
	require.Contains(t, graph, "quote waits for order:1, which pay has")
}

// A key that lingers is held by a process and by none of its calls: lockctl list says so, and the page too.
func TestShow_Lingers(t *testing.T) {
	t.Parallel()
	w := survey.New()
	w.Add(lockrt.Snapshot{Process: lockrt.Process{ID: "one"}, Held: []lockrt.HeldLock{
		{Key: "k", Kind: lockrt.KindMutex, Owner: "one:1", Since: w.At.Add(-time.Second), Lingers: true},
	}})
	v := new(Page).show(w)
	require.Len(t, v.Held.ids, 1)
	require.Contains(t, string(v.Held.html[v.Held.Rows[0]]), `<td class="n">lingers</td>`)
}

// The page names the servers that do not answer.
func TestShow_MuteServers(t *testing.T) {
	t.Parallel()
	w := survey.New()
	require.NotContains(t, sectionOf(new(Page).show(w), "summary"), "Servers that did not answer")
	w.Mute = []string{"10.0.0.1:6379", "10.0.0.2:<b>"}
	require.Contains(t, sectionOf(new(Page).show(w), "summary"), "may be missing: 10.0.0.1:6379, 10.0.0.2:&lt;b&gt;</p>")
}

// TestSites_AskOnce shows that the page asks for the database of each client once, also where the server refuses to say it.
func TestSites_AskOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	server.Do("ACL", "SETUSER", "denied", "on", ">p", "~*", "&*", "+@all", "-client|info")
	for user, count := range map[string]string{"default:": ":calls=2,", "denied:p": ",rejected_calls=2,"} {
		server.Do("CONFIG", "RESETSTAT")
		p := &Page{}
		for range 2 {
			c, err := lockrt.Open(t.Context(), "redis://"+user+"@"+server.Addr(), lockrt.Options{DeadlockAfter: -1})
			require.NoError(t, err)
			t.Cleanup(func() { _ = c.Close() })
			p.clients = append(p.clients, c)
		}
		for range 3 {
			_, err := p.look(t.Context(), true)
			require.NoError(t, err)
		}
		stats, err := server.Do("INFO", "commandstats").ToString()
		require.NoError(t, err)
		_, asked, _ := strings.Cut(stats, "cmdstat_client|info")
		asked, _, _ = strings.Cut(asked, "\r\n")
		require.Contains(t, asked, count, user)
	}
}

// TestLook_SharesFailures shows that viewers share a look also if it failed: otherwise each waits until those of all others have failed. The
// page before a forced unlock has a look of its own.
func TestLook_SharesFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := Fleet(nil) // without a client each look fails
		look := func(fresh bool) (ended time.Time) {
			_, err := p.look(t.Context(), fresh)
			require.Error(t, err)
			return p.looked
		}
		first := look(false)
		time.Sleep(p.period() / 2)
		require.Equal(t, first, look(false))
		own := look(true)
		require.True(t, own.After(first))
		time.Sleep(p.period())
		require.True(t, look(false).After(own))
	})
}
