package locks

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// Redisson's waiters have the lock to themselves every other time, and for longer each time that they were too slow.
func TestTicket_StartAfter(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, c := range []struct {
		before time.Duration
		handed bool
		want   time.Duration
	}{
		{0, false, 0}, {0, true, 5 * ms},
		{5 * ms, false, 10 * ms}, {10 * ms, true, 20 * ms}, {20 * ms, false, 40 * ms}, {40 * ms, false, 50 * ms},
		{50 * ms, false, 0}, {50 * ms, true, 5 * ms}, // the longest was not enough: it begins anew
	} {
		require.Equal(t, c.want, startAfter(c.before, c.handed), "after %v, handed over: %t", c.before, c.handed)
	}
}

// A ticket knows the start that Redisson's waiters have from what the server says, and takes no other pause for one.
func TestTicket_HearsOfAStart(t *testing.T) {
	t.Parallel()
	c, err := opened(t.Context(), redistest.Shared(t).URL(), Settings{OpTimeout: time.Minute, Tracks: true}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	r := newResource(c.line(), redistest.Key(t, "k"))
	r.ticket = &ticket{r: &r.lineCore}
	r.ticket.Number = 7
	t.Cleanup(func() { r.ticket.extra.recheck.Stop() })
	for _, pause := range []time.Duration{20 * time.Millisecond, handOverLease} {
		r.ticket.soon(pause)
		r.mu.Lock()
		start := r.ticket.extra.start
		r.mu.Unlock()
		require.Equal(t, 20*time.Millisecond, start)
	}
	r.ticket.State = engine.TicketGranted
	r.ticket.soon(5 * time.Millisecond)
	require.Equal(t, 20*time.Millisecond, r.ticket.extra.start, "of a ticket that was granted meanwhile")
}

// A process believes that Redisson's waiters want a lock for some tickets after a refusal by one of them.
func TestResource_KnowsOfJava(t *testing.T) {
	t.Parallel()
	c, err := opened(t.Context(), redistest.Shared(t).URL(), Settings{OpTimeout: time.Minute, Tracks: true}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	for _, foreign := range []bool{false, true} {
		r, w, tk, op := (&stateTest{t, c}).mutex(fmt.Sprint("k", foreign))
		r.settle(op(), time.Now(), protocol.Verdict{Wait: 1000, At: time.Now(), Foreign: foreign}, false, nil)
		r.gone(w)
		r.mu.Lock()
		require.Equal(t, foreign, tk.java > 0)
		r.mu.Unlock()
		r.quit()
	}
}

// Few goroutines hold a lock in a row while Redisson's waiters want it, too, and that ends some tickets later.
func TestGrant_FewInARowBesideJava(t *testing.T) {
	t.Parallel()
	c, err := opened(t.Context(), redistest.Shared(t).URL(), Settings{OpTimeout: time.Minute, Tracks: true}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	key := redistest.Key(t, "k")
	lease, err := c.Mutex(key).Lock(t.Context())
	require.NoError(t, err)
	r, known := c.resources.known(key)
	require.True(t, known)
	r.mu.Lock()
	g := r.grant
	passes := func(passed int) bool {
		g.more().passed = passed
		return r.canPass(g, &waiter{Terms: g.terms()})
	}
	g.ticket.OthersWait = true
	require.True(t, passes(defaultCohort-2))
	require.False(t, passes(defaultCohort-1))
	g.ticket.java = 1
	for _, others := range []bool{true, false} {
		g.ticket.OthersWait = others
		require.True(t, passes(cohortBesideJava-2))
		require.False(t, passes(cohortBesideJava-1))
	}
	g.ticket.OthersWait, g.extra.passed = false, 0
	g.lingersFor(mostLinger)
	require.False(t, g.beginLinger(), "the key is not kept from them")
	g.lingersFor(0)
	again := &ticket{}
	r.follows(again, g.ticket)
	require.Zero(t, again.java)
	g.ticket.java = javasTickets
	for want := javasTickets; want >= 0; want-- {
		r.follows(again, g.ticket)
		require.EqualValues(t, max(0, want-1), again.java)
		g.ticket.java = again.java
	}
	g.extra.passed = 0
	r.mu.Unlock()
	require.NoError(t, lease.Unlock(t.Context()))
}

// Every other release that Redisson's waiters hear of is theirs, and the next one with a longer start if they were too slow.
func TestResource_LeavesToJava(t *testing.T) {
	t.Parallel()
	c, err := opened(t.Context(), redistest.Shared(t).URL(), Settings{OpTimeout: time.Minute, Tracks: true}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	r := newResource(c.line(), redistest.Key(t, "k"))
	heard := protocol.Released{Outcome: protocol.Freed, Listeners: 1}
	starts := func(op *releaseOp, done protocol.Released) any {
		r.leaves(op, done)
		if last, known := c.starts.Last(r.key); known {
			return int(last / time.Millisecond)
		}
		return nil
	}
	for _, want := range []int{0, 5, 10, 20, 40, 50, 0, 5, 10, 20, 40, 50, 0, 0, 5} { // fewer when nobody uses them
		require.Equal(t, want, starts(&releaseOp{}, heard))
	}
	require.Equal(t, 5, starts(&releaseOp{}, protocol.Released{Outcome: protocol.PassedOn}), "it is not free")
	require.Equal(t, 5, starts(&releaseOp{again: new(ticket)}, heard), "the place in the wait queue waits")
	c.starts.End(r.key, true) // used
	require.Equal(t, 0, starts(&releaseOp{}, heard))
	require.Equal(t, 40, starts(&releaseOp{start: 40 * time.Millisecond}, heard), "as after a hand-over")
	require.Nil(t, starts(&releaseOp{}, protocol.Released{Outcome: protocol.Freed}), "nobody listens")

	l := c.net.Listen(r.channel(nil), func(hub.Event) {})
	defer l.Close()
	<-l.Ready()
	require.Nil(t, starts(&releaseOp{}, heard), "this client alone")
	heard.Listeners = 2
	require.Equal(t, 0, starts(&releaseOp{}, heard))
}

// Where Redisson's waiters listened to the last release, a key does not linger, and few goroutines have it in a row.
func TestResource_ATicketKnowsThatJavaListens(t *testing.T) {
	t.Parallel()
	c, err := opened(t.Context(), redistest.Shared(t).URL(), Settings{OpTimeout: time.Minute, Tracks: true}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	for _, listens := range []bool{false, true} {
		key := redistest.Key(t, fmt.Sprint("k", listens))
		if listens {
			c.starts.Begin(key, 0, 0)
		}
		lease, err := c.Mutex(key).Lock(t.Context(), WithLinger(mostLinger))
		require.NoError(t, err)
		r, known := c.resources.known(key)
		require.True(t, known)
		r.mu.Lock()
		require.Equal(t, listens, r.grant.ticket.java > 0)
		r.mu.Unlock()
		require.NoError(t, lease.Unlock(t.Context()))
	}
}
