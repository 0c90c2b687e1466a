package locks

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/core/coretest"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/policy"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/resource"
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
		require.Equal(t, c.want, policy.StartAfter(c.before, c.handed), "after %v, handed over: %t", c.before, c.handed)
	}
}

// A ticket knows the start that Redisson's waiters have from what the server says, and takes no other pause for one.
func TestTicket_HearsOfAStart(t *testing.T) {
	t.Parallel()
	c, err := opened(t.Context(), redistest.Shared(t).URL(), core.Settings{OpTimeout: time.Minute, Tracks: true}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	r := policy.NewMutex(c.Base(), redistest.Key(t, "k"))
	r.Ticket = &resource.Ticket{Resource: &r.LineCore}
	r.Ticket.Number = 7
	t.Cleanup(func() { r.Ticket.Extra.Recheck.Stop() })
	for _, pause := range []time.Duration{20 * time.Millisecond, resource.HandOverLease} {
		r.Ticket.Soon(pause)
		r.Mu.Lock()
		start := r.Ticket.Extra.Start
		r.Mu.Unlock()
		require.Equal(t, 20*time.Millisecond, start)
	}
	r.Ticket.State = engine.TicketGranted
	r.Ticket.Soon(5 * time.Millisecond)
	require.Equal(t, 20*time.Millisecond, r.Ticket.Extra.Start, "of a ticket that was granted meanwhile")
}

// A process believes that Redisson's waiters want a lock for some tickets after a refusal by one of them.
func TestResource_KnowsOfJava(t *testing.T) {
	t.Parallel()
	c, err := opened(t.Context(), redistest.Shared(t).URL(), core.Settings{OpTimeout: time.Minute, Tracks: true}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	for _, foreign := range []bool{false, true} {
		r, w, tk, op := (&stateTest{t, c}).mutex(fmt.Sprint("k", foreign))
		r.Settle(op(), time.Now(), protocol.Verdict{Wait: 1000, At: time.Now(), Foreign: foreign}, false, nil)
		removeFrom(r, w)
		r.Mu.Lock()
		require.Equal(t, foreign, tk.Java > 0)
		r.Mu.Unlock()
		r.Quit()
	}
}

// Few goroutines hold a lock in a row while Redisson's waiters want it, too, and that ends some tickets later.
func TestGrant_FewInARowBesideJava(t *testing.T) {
	t.Parallel()
	c, err := opened(t.Context(), redistest.Shared(t).URL(), core.Settings{OpTimeout: time.Minute, Tracks: true}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	key := redistest.Key(t, "k")
	lease, err := c.Mutex(key).Lock(t.Context())
	require.NoError(t, err)
	r, known := c.mutexes.Find(key)
	require.True(t, known)
	r.Mu.Lock()
	g := r.Grant
	passes := func(passed int) bool {
		g.More().Passed = passed
		return r.CanPass(g, &resource.Waiter{Terms: g.Terms()}, g.Began())
	}
	g.Ticket.OthersWait = true
	require.True(t, passes(coretest.Cohort-2))
	require.False(t, passes(coretest.Cohort-1))
	g.Ticket.Java = 1
	for _, others := range []bool{true, false} {
		g.Ticket.OthersWait = others
		require.True(t, passes(policy.CohortBesideJava-2))
		require.False(t, passes(policy.CohortBesideJava-1))
	}
	g.Ticket.OthersWait, g.Extra.Passed = false, 0
	g.SetLinger(leases.MostLinger)
	require.False(t, g.BeginLinger(), "the key is not kept from them")
	g.SetLinger(0)
	again := &resource.Ticket{}
	r.InheritJava(again, g.Ticket)
	require.Zero(t, again.Java)
	g.Ticket.Java = policy.JavaTickets
	for want := policy.JavaTickets; want >= 0; want-- {
		r.InheritJava(again, g.Ticket)
		require.EqualValues(t, max(0, want-1), again.Java)
		g.Ticket.Java = again.Java
	}
	g.Extra.Passed = 0
	r.Mu.Unlock()
	require.NoError(t, lease.Unlock(t.Context()))
}

// A row of callers ends after a time while other processes wait, or may wait, however few have had the lock; later if the server is far
// away.
func TestGrant_ARowEndsAfterATime(t *testing.T) {
	t.Parallel()
	way := redistest.Proxy(t, redistest.Shared(t).Addr())
	c, err := opened(t.Context(), way.URL(), core.Settings{OpTimeout: time.Minute, Tracks: true}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	for _, delay := range []time.Duration{0, 60 * time.Millisecond} {
		way.Delay(delay)
		mutex, rw := redistest.Key(t, "mutex"), redistest.Key(t, "rw")
		for key, lock := range map[string]func(context.Context, ...leases.Option) (*leases.Lease, error){mutex: c.Mutex(mutex).Lock, rw: c.RWMutex(rw).Lock} {
			lease, err := lock(t.Context())
			require.NoError(t, err)
			g := lease.Core().Grant.(*resource.Grant)
			r := g.Resource()
			passes := func(age time.Duration) bool {
				r.Mu.Lock()
				defer r.Mu.Unlock()
				kind := r.Kind.(interface {
					CanPass(g *resource.Grant, w *resource.Waiter, at monotonic.Time) bool
				})
				return kind.CanPass(g, r.Queue.First, g.Began().Add(age))
			}
			waits := make(chan error, 1)
			go func() {
				next, err := lock(t.Context())
				if err == nil {
					err = next.Unlock(t.Context())
				}
				waits <- err
			}()
			require.Eventually(t, func() bool {
				r.Mu.Lock()
				defer r.Mu.Unlock()
				return r.Queue.First != nil
			}, time.Minute, time.Millisecond)
			r.Mu.Lock()
			g.Ticket.OthersWait = true
			r.Mu.Unlock()
			limit := func() time.Duration { return max(resource.LocalPassLimit, 10*c.Base().Net.ResponseTime()) }
			require.GreaterOrEqual(t, limit(), resource.LocalPassLimit+delay)
			require.Eventually(t, func() bool { return passes(limit() / 2) }, 10*time.Second, time.Millisecond, key)
			require.Eventually(t, func() bool { return !passes(limit()) }, 10*time.Second, time.Millisecond, key)
			require.NoError(t, lease.Unlock(t.Context()))
			require.NoError(t, <-waits)
		}
	}
}

// A process that has kept a mutex for a whole row has no further caller in turn once another process is known to wait; while none is, or
// where the mutex has just come from another process, the row goes on.
func TestGrant_AWholeRowOwesTheNextTurn(t *testing.T) {
	t.Parallel()
	for _, cohort := range []int{2, 3, 100} {
		c, err := opened(t.Context(), redistest.Shared(t).URL(), core.Settings{OpTimeout: time.Minute, Tracks: true, Cohort: cohort}, nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		mutex := c.Mutex(redistest.Key(t, strconv.Itoa(cohort)))
		first, err := mutex.Lock(t.Context())
		require.NoError(t, err)
		r := first.Core().Grant.(*resource.Grant).Resource()
		waits := func(n int, opts ...leases.Option) <-chan *leases.Lease {
			granted := make(chan *leases.Lease, 1)
			go func() {
				if l, err := mutex.Lock(t.Context(), opts...); err == nil {
					granted <- l
				}
			}()
			require.Eventually(t, func() bool {
				r.Mu.Lock()
				defer r.Mu.Unlock()
				return r.Queue.Length() == n
			}, time.Minute, time.Millisecond)
			return granted
		}
		passes := func(g *resource.Grant, othersWait bool, at monotonic.Time) bool {
			r.Mu.Lock()
			defer r.Mu.Unlock()
			was := g.Ticket.OthersWait
			g.Ticket.OthersWait = othersWait
			defer func() { g.Ticket.OthersWait = was }()
			return r.Kind.(*policy.Mutex).CanPass(g, r.Queue.First, at)
		}
		second := waits(1, leases.WithWatchdog(time.Minute)) // on other terms: the release asks for the key once more
		third := waits(2, leases.WithWatchdog(time.Minute))
		require.Eventually(t, func() bool { return r.Client.Attends(r.Key) }, time.Minute, time.Millisecond, "or the release asks for nothing")
		came := first.Core().Grant.(*resource.Grant).Began()
		require.NoError(t, first.Unlock(t.Context()))
		kept := <-second
		g := kept.Core().Grant.(*resource.Grant)
		require.NotSame(t, g, first.Core().Grant)
		require.Equal(t, cohort > 2, passes(g, true, came))
		require.True(t, passes(g, false, came))
		if cohort == 100 {
			row := max(resource.LocalPassLimit, 10*c.Base().Net.ResponseTime())
			require.False(t, passes(g, true, came.Add(row)), "the row began when the mutex came")
		}
		require.NoError(t, kept.Unlock(t.Context()))
		require.NoError(t, (<-third).Unlock(t.Context()))
	}
}

// The row of a mutex that a process keeps has the callers of all its grants. It ends for others who are known to wait, and begins again with
// each grant where no message would report them.
func TestGrant_ARowHasTheCallersOfAllItsGrants(t *testing.T) {
	t.Parallel()
	const cohort = 6
	c, err := opened(t.Context(), redistest.Shared(t).URL(), core.Settings{OpTimeout: time.Minute, Cohort: cohort}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	lease, err := c.Mutex(redistest.Key(t, "k")).Lock(t.Context(), leases.WithBackoff(core.ConstantBackoff(time.Second)))
	require.NoError(t, err)
	g := lease.Core().Grant.(*resource.Grant)
	r := g.Resource()
	require.False(t, r.Client.Heard(), "it asks for messages of others")
	passes := func(othersWait bool) bool {
		g.Ticket.OthersWait = othersWait
		return r.Kind.(*policy.Mutex).CanPass(g, &resource.Waiter{Terms: g.Terms()}, g.Began())
	}
	r.Mu.Lock()
	for _, passed := range []int{2, 0, 0} { // and the one before them: 1+2, 1 and 1 callers
		require.True(t, passes(true))
		g.More().Passed = passed
		g.GoesOn(g)
		g.Extra.Passed = 0
	}
	require.False(t, passes(true), "one more is the sixth")
	require.True(t, passes(false))
	g.Extra.Passed = cohort - 1
	require.False(t, passes(false))
	g.Extra.Passed = 0
	r.Mu.Unlock()
	require.NoError(t, lease.Unlock(t.Context()))
}

// A process asks a far server less often whether others wait.
func TestGrant_AsksAFarServerLessOften(t *testing.T) {
	t.Parallel()
	way := redistest.Proxy(t, redistest.Shared(t).Addr())
	c, err := opened(t.Context(), way.URL(), core.Settings{OpTimeout: time.Minute}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	way.Delay(60 * time.Millisecond)
	mutex := c.Mutex(redistest.Key(t, "k"))
	require.Eventually(t, func() bool {
		lease, err := mutex.Lock(t.Context())
		require.NoError(t, err)
		g := lease.Core().Grant.(*resource.Grant)
		g.Resource().Mu.Lock()
		g.Contested = false
		rare := g.PassLimit()
		g.Contested = true
		near := g.PassLimit()
		g.Resource().Mu.Unlock()
		require.NoError(t, lease.Unlock(t.Context()))
		return rare >= 10*near && near >= 60*time.Millisecond // the response times are smoothed
	}, time.Minute, time.Millisecond)
}

// Every other release that Redisson's waiters hear of is theirs, and the next one with a longer start if they were too slow.
func TestResource_LeavesToJava(t *testing.T) {
	t.Parallel()
	c, err := opened(t.Context(), redistest.Shared(t).URL(), core.Settings{OpTimeout: time.Minute, Tracks: true}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	r := policy.NewMutex(c.Base(), redistest.Key(t, "k"))
	heard := protocol.Released{Outcome: protocol.Freed, Listeners: 1}
	starts := func(op *resource.ReleaseOp, done protocol.Released) any {
		r.NoteRelease(op, done)
		if last, known := c.base.Starts.Last(r.Key); known {
			return int(last / time.Millisecond)
		}
		return nil
	}
	for _, want := range []int{0, 5, 10, 20, 40, 50, 0, 5, 10, 20, 40, 50, 0, 0, 5} { // fewer when nobody uses them
		require.Equal(t, want, starts(&resource.ReleaseOp{}, heard))
	}
	require.Equal(t, 5, starts(&resource.ReleaseOp{}, protocol.Released{Outcome: protocol.PassedOn}), "it is not free")
	require.Equal(t, 5, starts(&resource.ReleaseOp{Again: new(resource.Ticket)}, heard), "the place in the wait queue waits")
	c.base.Starts.End(r.Key, true) // used
	require.Equal(t, 0, starts(&resource.ReleaseOp{}, heard))
	require.Equal(t, 40, starts(&resource.ReleaseOp{Start: 40 * time.Millisecond}, heard), "as after a hand-over")
	require.Nil(t, starts(&resource.ReleaseOp{}, protocol.Released{Outcome: protocol.Freed}), "nobody listens")

	l := c.base.Net.Listen(r.Channel(nil), func(hub.Event) {})
	defer l.Close()
	<-l.Ready()
	require.Nil(t, starts(&resource.ReleaseOp{}, heard), "this client alone")
	heard.Listeners = 2
	require.Equal(t, 0, starts(&resource.ReleaseOp{}, heard))
}

// Where Redisson's waiters listened to the last release, a key does not linger, and few goroutines have it in a row.
func TestResource_ATicketKnowsThatJavaListens(t *testing.T) {
	t.Parallel()
	c, err := opened(t.Context(), redistest.Shared(t).URL(), core.Settings{OpTimeout: time.Minute, Tracks: true}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	for _, listens := range []bool{false, true} {
		key := redistest.Key(t, fmt.Sprint("k", listens))
		if listens {
			c.base.Starts.Begin(key, 0, 0)
		}
		lease, err := c.Mutex(key).Lock(t.Context(), leases.WithLinger(leases.MostLinger))
		require.NoError(t, err)
		r, known := c.mutexes.Find(key)
		require.True(t, known)
		r.Mu.Lock()
		require.Equal(t, listens, r.Grant.Ticket.Java > 0)
		r.Mu.Unlock()
		require.NoError(t, lease.Unlock(t.Context()))
	}
}
