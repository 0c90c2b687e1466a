package locks

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/policy"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/resource"
	"github.com/lockgen/lockgen/runtime/internal/trace/tracetest"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

var (
	moves = tracetest.Record()
	page  = filepath.Join("..", "..", "..", "docs", "architecture.md")
)

// TestMain has the whole run fail if a ticket or a grant makes a move that docs/architecture.md does not draw.
func TestMain(m *testing.M) { os.Exit(moves.Run(m, page)) }

// A stateTest makes tickets and grants go through their states.
type stateTest struct {
	*testing.T
	c *Client
}

// mutex returns the resource of a key that nobody has, and the ticket of a call that wants it, on whose terms op asks.
func (t *stateTest) mutex(name string) (r *policy.Mutex, w *resource.Waiter, tk *resource.Ticket, op func() *resource.AcquireOp) {
	r, err := t.c.mutexes.Enter(redistest.Key(t, name), false)
	require.NoError(t, err)
	t.Cleanup(r.Exit)
	cfg, err := leases.Configure(t.c.Core(), nil, nil)
	require.NoError(t, err)
	w = resource.NewWaiter(context.Background(), leases.New(t.c.Core(), core.KindMutex, context.Background()), &cfg)
	require.Equal(t, resource.ToAsk, r.Join(w))
	return r, w, r.TicketFor(w.Terms), func() *resource.AcquireOp {
		return r.Prepare(w)
	}
}

// removeFrom takes w out of the queue, while a request for it is under way.
func removeFrom(r *policy.Mutex, w *resource.Waiter) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.Queue.Remove(w)
}

// stateOf returns the state of a ticket.
func stateOf(tk *resource.Ticket) engine.TicketState {
	tk.Resource.Mu.Lock()
	defer tk.Resource.Mu.Unlock()
	return tk.State
}

// TestStates has tickets and grants go through each of the moves that docs/architecture.md has.
func TestStates(t *testing.T) {
	t.Parallel()
	c, err := opened(t.Context(), redistest.Shared(t).URL(), core.Settings{OpTimeout: time.Minute, Cohort: 1}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	s := &stateTest{t, c}
	s.takes()
	s.gives()
	s.queues()
	s.fair()
	s.lingers()

	drawn, err := tracetest.Drawn(page)
	require.NoError(t, err)
	require.Greater(t, len(drawn), 20)
	seen := moves.Seen()
	for move := range drawn {
		if move.Machine == "ticket" || move.Machine == "grant" { // the tests of engine and quorum make the others
			require.True(t, seen[move], "no move: %s", move)
		}
	}
}

// takes has requests answered for a call that has gone.
func (t *stateTest) takes() {
	yes := protocol.Verdict{Wait: protocol.Granted}
	for name, answer := range map[string]struct {
		reply protocol.Verdict
		err   error
		want  engine.TicketState
	}{
		"refused": {reply: protocol.Verdict{Wait: 1000, At: time.Now()}, want: engine.TicketDone},
		"granted": {reply: yes, want: engine.TicketDone}, // when it is released
		"unknown": {err: errors.New("the connection broke"), want: engine.TicketWithdrawing},
		"failed":  {err: rueidis.ErrClosing, want: engine.TicketDone},
	} {
		r, w, tk, op := t.mutex(name)
		request := op()
		require.Equal(t, engine.TicketAsking, stateOf(tk))
		removeFrom(r, w)
		r.Settle(request, time.Now(), answer.reply, false, answer.err)
		require.Eventually(t, func() bool { return stateOf(tk) == answer.want }, 20*time.Second, time.Millisecond, name)
		r.Quit() // as the request does when it is answered
	}
}

// gives has what was granted released, and lost.
func (t *stateTest) gives() {
	for name, test := range map[string]struct {
		before  func(g *resource.Grant)
		during  engine.TicketState
		after   engine.TicketState
		because error
	}{
		"given back":            {after: engine.TicketDone},
		"in doubt":              {before: func(g *resource.Grant) { g.Ticket.OutcomeUnknown = true }, after: engine.TicketWithdrawing},
		"lost":                  {because: watchdog.ErrRefused, after: engine.TicketDone},
		"lost, and in doubt":    {because: watchdog.ErrElapsed, after: engine.TicketWithdrawing},
		"lost, as was foreseen": {before: func(g *resource.Grant) { g.Ticket.OutcomeUnknown = true }, because: watchdog.ErrRefused, after: engine.TicketWithdrawing},
	} {
		l, err := t.c.Mutex(redistest.Key(t, name)).Lock(t.Context())
		require.NoError(t, err)
		g := l.Core().Grant.(*resource.Grant) //nolint:forcetypeassert // of a mutex
		r, _ := g.Resource().Kind.(*policy.Mutex)
		r.Stay()
		r.Mu.Lock()
		require.Equal(t, engine.GrantHeld, g.State)
		require.Equal(t, engine.TicketGranted, g.Ticket.State)
		g.Ticket.OutcomeUnknown = false // a request whose answer was late is sent twice
		if test.before != nil {
			test.before(g)
		}
		r.Mu.Unlock()
		if test.because != nil {
			t.c.base.Watchdog.Lose(&g.Guard, test.because)
			require.ErrorIs(t, l.Unlock(t.Context()), failure.ErrLost)
			require.Equal(t, engine.GrantNotified, g.State)
		} else {
			require.NoError(t, l.Unlock(t.Context()))
			require.Equal(t, engine.GrantReleasing, g.State)
		}
		require.Equal(t, test.after, stateOf(g.Ticket), name)
		r.Quit()
	}
}

// queues has tickets wait in the queue.
func (t *stateTest) queues() {
	_, w, tk, op := t.mutex("in line")
	r, _ := op().Ticket.Resource.Kind.(*policy.Mutex)
	settle := func(reply protocol.Verdict) {
		r.Mu.Lock()
		request := &resource.AcquireOp{Waiter: w, Ticket: tk, Terms: w.Terms}
		r.Mu.Unlock()
		r.Settle(request, time.Now(), reply, false, nil)
		r.Quit()
	}
	tk.Standing = true // as a request has asked for
	settle(protocol.Verdict{Wait: 1000, At: time.Now().Add(-time.Hour)})
	require.Equal(t, engine.TicketQueued, stateOf(tk))
	op()
	require.Equal(t, engine.TicketAsking, stateOf(tk))
	settle(protocol.Verdict{Wait: 1000, At: time.Now().Add(-time.Hour)})
	redistest.Shared(t).Do("HSET", r.Key, t.c.base.Wire.Owner(tk.Number), "1")
	tk.Handed(protocol.Message{Number: tk.Number, Granted: time.Now()})
	require.Equal(t, engine.TicketGranted, stateOf(tk))

	require.Eventually(t, t.c.base.Heard, 20*time.Second, time.Millisecond)
	next := resource.NewWaiter(context.Background(), leases.New(t.c.Core(), core.KindMutex, context.Background()), &leases.Config{Wait: leases.UntilDone, Terms: w.Terms})
	require.Equal(t, resource.ToWait, r.Join(next))
	require.NoError(t, w.For.Lease.Core().Grant.Unlock(w.For.Lease)) // by a request that puts the next one in the wait queue, or grants it the key
	granted := func() bool {
		r.Mu.Lock()
		defer r.Mu.Unlock()
		return next.For.Lease.Core().Grant != nil
	}
	if !granted() { // a release whose answer was late is sent twice, and the second answer does not say what the first one did
		r.Ask(next)
	}
	require.Eventually(t, granted, 20*time.Second, time.Millisecond)
	require.NoError(t, next.For.Lease.Core().Grant.Unlock(next.For.Lease))

	_, w, tk, op = t.mutex("gives up")
	r, _ = op().Ticket.Resource.Kind.(*policy.Mutex)
	tk.Standing = true
	settle(protocol.Verdict{Wait: 1000, At: time.Now()})
	r.Leave(w)
	require.Eventually(t, func() bool { return stateOf(tk) == engine.TicketDone }, 20*time.Second, time.Millisecond)
}

// fair has tickets to a fair mutex go where no others go.
func (t *stateTest) fair() {
	r := testedFair(t.T)
	state := func(tk *policy.FairTicket) engine.TicketState { return stateOf(&tk.Ticket) }
	asks := func(tk *policy.FairTicket) {
		r.Mu.Lock()
		defer r.Mu.Unlock()
		tk.Standing, tk.Asking = true, 1
		tk.To(engine.TicketAsking)
	}

	// A call that does not wait gives up before its request is answered.
	tk := enters(r, t.T)
	tk.Own.Waiter.Call.Wait = 0
	asks(tk)
	r.Leave(tk.Own.Waiter)
	require.Equal(t, engine.TicketWithdrawing, state(tk))

	// Another call gives up when it was refused.
	tk = enters(r, t.T)
	asks(tk)
	r.Settle(request(tk), time.Now(), refusal(), false, nil)
	require.Equal(t, engine.TicketQueued, state(tk))
	tk.Own.Waiter.Call.Wait = 0
	r.Leave(tk.Own.Waiter)
	require.Equal(t, engine.TicketWithdrawing, state(tk))

	// A follower's grant is released while it asks, and Redis refuses that request.
	first, after := enters(r, t.T), enters(r, t.T)
	g := have(r, first, after)
	asks(after)
	require.NoError(t, handOn(r, g))
	r.Mu.Lock()
	first.OutcomeUnknown = true
	r.Mu.Unlock()
	redistest.Shared(t).Do("SET", r.Key, "of another type")
	require.Error(t, g.Unlock(after.Own.Waiter.For.Lease))
	require.Equal(t, engine.TicketWithdrawing, state(after))
	require.Equal(t, engine.TicketWithdrawing, state(first), "it was done when the release was over")
	redistest.Shared(t).Do("DEL", r.Key)
}

// handOn has the ticket behind the first have g.
func handOn(r *policy.Fair, g *resource.Grant) error { return g.Unlock(g.First) }

// lingers has a grant stay with the process, and leave in each way.
func (t *stateTest) lingers() {
	c, err := opened(t.Context(), redistest.Shared(t).URL(), core.Settings{OpTimeout: time.Minute}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	c.base.Settings.Linger = 30 * time.Minute
	c.base.Hear()
	require.Eventually(t, c.base.Heard, 20*time.Second, time.Millisecond)
	state := func(g *resource.Grant) engine.GrantState {
		g.Resource().Mu.Lock()
		defer g.Resource().Mu.Unlock()
		return g.State
	}
	gone := func(key string) {
		require.Eventually(t, func() bool {
			n, err := redistest.Shared(t).Do("EXISTS", key).AsInt64()
			return err == nil && n == 0
		}, 20*time.Second, 5*time.Millisecond, key)
	}
	locks := func(m *Mutex) (*leases.Lease, *resource.Grant) {
		l, err := m.Lock(t.Context())
		require.NoError(t, err)
		return l, l.Core().Grant.(*resource.Grant) //nolint:forcetypeassert // of a mutex
	}
	for name, end := range map[string]func(g *resource.Grant) engine.GrantState{
		"wanted": func(g *resource.Grant) engine.GrantState {
			g.Ticket.Wanted()
			return engine.GrantReleasing
		},
		"over": func(g *resource.Grant) engine.GrantState {
			g.Resource().Mu.Lock()
			g.Linger().Over = monotonic.Now()
			g.Resource().Mu.Unlock()
			g.Wake()
			return engine.GrantReleasing
		},
		"a late call": func(g *resource.Grant) engine.GrantState {
			g.Resource().Mu.Lock()
			g.Linger().Over = monotonic.Now()
			g.Resource().Mu.Unlock()
			l, other := locks(c.Mutex(g.Key(), leases.WithLinger(0)))
			require.NotSame(t, g, other)
			require.NoError(t, l.Unlock(t.Context()))
			return engine.GrantReleasing
		},
		"trust is over": func(g *resource.Grant) engine.GrantState { // the next one could not have it for long, and Redis may have it still
			c.base.Watchdog.Lose(&g.Guard, watchdog.ErrElapsed)
			require.Equal(t, engine.TicketWithdrawing, stateOf(g.Ticket))
			return engine.GrantNotified
		},
		"taken": func(g *resource.Grant) engine.GrantState {
			redistest.Shared(t).Do("DEL", g.Key())
			c.base.Watchdog.Lose(&g.Guard, watchdog.ErrRefused)
			return engine.GrantNotified
		},
	} {
		m := c.Mutex(redistest.Key(t, name))
		l, g := locks(m)
		g.Resource().Stay()
		require.NoError(t, l.Unlock(t.Context()))
		require.Equal(t, engine.GrantLingering, state(g), name)
		require.Equal(t, end(g), state(g), name)
		gone(m.key)
		g.Resource().Quit()
	}

	// A key that Redis granted some time ago goes back after a call that had it without asking.
	m := c.Mutex(redistest.Key(t, "old"))
	for range 2 {
		l, g := locks(m)
		require.Equal(t, engine.GrantHeld, state(g))
		require.Eventually(t, func() bool { return g.Guard.Age(monotonic.Now()) >= resource.LocalPassLimit }, time.Minute, time.Millisecond)
		require.NoError(t, l.Unlock(t.Context()))
		want := engine.GrantLingering
		if g.Rare().Passed > 0 {
			want = engine.GrantReleasing
		}
		require.Equal(t, want, state(g))
	}
	gone(m.key)

	// So does one that others wait for, and one that stayed locked for its least time.
	for name, before := range map[string]func(g *resource.Grant){
		"others wait": func(g *resource.Grant) { g.Ticket.OthersWait = true },
		"kept":        func(g *resource.Grant) { g.Idle = true; c.base.Held(-1) },
	} {
		l, g := locks(c.Mutex(redistest.Key(t, name)))
		g.Resource().Mu.Lock()
		before(g)
		g.Resource().Mu.Unlock()
		require.NoError(t, l.Unlock(t.Context()))
		require.Equal(t, engine.GrantReleasing, state(g), name)
	}
}
