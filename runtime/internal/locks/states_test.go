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

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
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
func (t *stateTest) mutex(name string) (r *resource, w *waiter, tk *ticket, op func() *acquireOp) {
	r, err := t.c.resources.enter(redistest.Key(t, name), false)
	require.NoError(t, err)
	t.Cleanup(r.exit)
	cfg, err := configure(t.c.core(), nil, nil)
	require.NoError(t, err)
	w = newWaiter(context.Background(), newLease(t.c.core(), kindMutex, r.key, context.Background()), cfg)
	require.Equal(t, toAsk, r.join(w))
	return r, w, r.ticketFor(w.Terms), func() *acquireOp {
		return r.prepare(w)
	}
}

// gone takes w out of the queue, while a request for it is under way.
func (r *resource) gone(w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Queue.Remove(w)
}

// state returns the state of a ticket.
func stateOf(tk *ticket) engine.TicketState {
	tk.r.mu.Lock()
	defer tk.r.mu.Unlock()
	return tk.State
}

// TestStates has tickets and grants go through each of the moves that docs/architecture.md has.
func TestStates(t *testing.T) {
	t.Parallel()
	c, err := opened(t.Context(), redistest.Shared(t).URL(), Settings{OpTimeout: time.Minute, Cohort: 1}, nil)
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
		r.gone(w)
		r.settle(request, time.Now(), answer.reply, false, answer.err)
		require.Eventually(t, func() bool { return stateOf(tk) == answer.want }, 20*time.Second, time.Millisecond, name)
		r.quit() // as the request does when it is answered
	}
}

// gives has what was granted released, and lost.
func (t *stateTest) gives() {
	for name, test := range map[string]struct {
		before  func(g *grant)
		during  engine.TicketState
		after   engine.TicketState
		because error
	}{
		"given back":            {after: engine.TicketDone},
		"in doubt":              {before: func(g *grant) { g.ticket.OutcomeUnknown = true }, after: engine.TicketWithdrawing},
		"lost":                  {because: watchdog.ErrRefused, after: engine.TicketDone},
		"lost, and in doubt":    {because: watchdog.ErrElapsed, after: engine.TicketWithdrawing},
		"lost, as was foreseen": {before: func(g *grant) { g.ticket.OutcomeUnknown = true }, because: watchdog.ErrRefused, after: engine.TicketWithdrawing},
	} {
		l, err := t.c.Mutex(redistest.Key(t, name)).Lock(t.Context())
		require.NoError(t, err)
		g := l.grant.(*grant) //nolint:forcetypeassert // of a mutex
		r, _ := g.on().kind.(*resource)
		r.stay()
		r.mu.Lock()
		require.Equal(t, engine.GrantHeld, g.state)
		require.Equal(t, engine.TicketGranted, g.ticket.State)
		g.ticket.OutcomeUnknown = false // a request whose answer was late is sent twice
		if test.before != nil {
			test.before(g)
		}
		r.mu.Unlock()
		if test.because != nil {
			t.c.watchdog.Lose(&g.guard, test.because)
			require.ErrorIs(t, l.Unlock(t.Context()), failure.ErrLost)
			require.Equal(t, engine.GrantNotified, g.state)
		} else {
			require.NoError(t, l.Unlock(t.Context()))
			require.Equal(t, engine.GrantReleasing, g.state)
		}
		require.Equal(t, test.after, stateOf(g.ticket), name)
		r.quit()
	}
}

// queues has tickets wait in the queue.
func (t *stateTest) queues() {
	_, w, tk, op := t.mutex("in line")
	r, _ := op().ticket.r.kind.(*resource)
	settle := func(reply protocol.Verdict) {
		r.mu.Lock()
		request := &acquireOp{w: w, ticket: tk, terms: w.Terms}
		r.mu.Unlock()
		r.settle(request, time.Now(), reply, false, nil)
		r.quit()
	}
	tk.Standing = true // as a request has asked for
	settle(protocol.Verdict{Wait: 1000, At: time.Now().Add(-time.Hour)})
	require.Equal(t, engine.TicketQueued, stateOf(tk))
	op()
	require.Equal(t, engine.TicketAsking, stateOf(tk))
	settle(protocol.Verdict{Wait: 1000, At: time.Now().Add(-time.Hour)})
	redistest.Shared(t).Do("HSET", r.key, t.c.wire.Owner(tk.Number), "1")
	tk.handed(protocol.Message{Number: tk.Number, Granted: time.Now()})
	require.Equal(t, engine.TicketGranted, stateOf(tk))

	require.Eventually(t, t.c.heard, 20*time.Second, time.Millisecond)
	next := newWaiter(context.Background(), newLease(t.c.core(), kindMutex, r.key, context.Background()), lockConfig{wait: UntilDone, Terms: w.Terms})
	require.Equal(t, toWait, r.join(next))
	require.NoError(t, w.For.lease.grant.unlock(w.For.lease)) // by a request that puts the next one in the wait queue, or grants it the key
	granted := func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return next.For.lease.grant != nil
	}
	if !granted() { // a release whose answer was late is sent twice, and the second answer does not say what the first one did
		r.ask(next)
	}
	require.Eventually(t, granted, 20*time.Second, time.Millisecond)
	require.NoError(t, next.For.lease.grant.unlock(next.For.lease))

	_, w, tk, op = t.mutex("gives up")
	r, _ = op().ticket.r.kind.(*resource)
	tk.Standing = true
	settle(protocol.Verdict{Wait: 1000, At: time.Now()})
	r.leave(w)
	require.Eventually(t, func() bool { return stateOf(tk) == engine.TicketDone }, 20*time.Second, time.Millisecond)
}

// fair has tickets to a fair mutex go where no others go.
func (t *stateTest) fair() {
	r := testedFairResource(t.T)
	state := func(tk *fairTicket) engine.TicketState { return stateOf(&tk.ticket) }
	asks := func(tk *fairTicket) {
		r.mu.Lock()
		defer r.mu.Unlock()
		tk.Standing, tk.asking = true, 1
		tk.To(engine.TicketAsking)
	}

	// One gives up that does not wait, before its request is answered.
	tk := r.enters(t.T)
	tk.own.w.Call.Wait = 0
	asks(tk)
	r.leave(tk.own.w)
	require.Equal(t, engine.TicketWithdrawing, state(tk))

	// Another one when it was refused.
	tk = r.enters(t.T)
	asks(tk)
	r.settle(tk.request(), time.Now(), refusal(), false, nil)
	require.Equal(t, engine.TicketQueued, state(tk))
	tk.own.w.Call.Wait = 0
	r.leave(tk.own.w)
	require.Equal(t, engine.TicketWithdrawing, state(tk))

	// A follower's grant is released while it asks, and Redis refuses that request.
	first, after := r.enters(t.T), r.enters(t.T)
	g := r.have(first, after)
	asks(after)
	require.NoError(t, r.handOn(g))
	r.mu.Lock()
	first.OutcomeUnknown = true
	r.mu.Unlock()
	redistest.Shared(t).Do("SET", r.key, "of another type")
	require.Error(t, g.unlock(after.own.w.For.lease))
	require.Equal(t, engine.TicketWithdrawing, state(after))
	require.Equal(t, engine.TicketWithdrawing, state(first), "it was done when the release was over")
	redistest.Shared(t).Do("DEL", r.key)
}

// handOn has the one behind the first have g.
func (r *fairResource) handOn(g *grant) error { return g.unlock(g.first) }

// lingers has a grant stay with the process, and leave in each way.
func (t *stateTest) lingers() {
	c, err := opened(t.Context(), redistest.Shared(t).URL(), Settings{OpTimeout: time.Minute}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	c.opts.Linger = 30 * time.Minute
	c.hear()
	require.Eventually(t, c.heard, 20*time.Second, time.Millisecond)
	state := func(g *grant) engine.GrantState {
		g.on().mu.Lock()
		defer g.on().mu.Unlock()
		return g.state
	}
	gone := func(key string) {
		require.Eventually(t, func() bool {
			n, err := redistest.Shared(t).Do("EXISTS", key).AsInt64()
			return err == nil && n == 0
		}, 20*time.Second, 5*time.Millisecond, key)
	}
	locks := func(m *Mutex) (*Lease, *grant) {
		l, err := m.Lock(t.Context())
		require.NoError(t, err)
		return l, l.grant.(*grant) //nolint:forcetypeassert // of a mutex
	}
	for name, end := range map[string]func(g *grant) engine.GrantState{
		"wanted": func(g *grant) engine.GrantState {
			g.ticket.wanted()
			return engine.GrantReleasing
		},
		"over": func(g *grant) engine.GrantState {
			g.on().mu.Lock()
			g.linger().over = monotonic.Now()
			g.on().mu.Unlock()
			g.wake()
			return engine.GrantReleasing
		},
		"a late call": func(g *grant) engine.GrantState {
			g.on().mu.Lock()
			g.linger().over = monotonic.Now()
			g.on().mu.Unlock()
			l, other := locks(c.Mutex(g.Key(), WithLinger(0)))
			require.NotSame(t, g, other)
			require.NoError(t, l.Unlock(t.Context()))
			return engine.GrantReleasing
		},
		"trust is over": func(g *grant) engine.GrantState { // the next one could not have it for long, and Redis may have it still
			c.watchdog.Lose(&g.guard, watchdog.ErrElapsed)
			require.Equal(t, engine.TicketWithdrawing, stateOf(g.ticket))
			return engine.GrantNotified
		},
		"taken": func(g *grant) engine.GrantState {
			redistest.Shared(t).Do("DEL", g.Key())
			c.watchdog.Lose(&g.guard, watchdog.ErrRefused)
			return engine.GrantNotified
		},
	} {
		m := c.Mutex(redistest.Key(t, name))
		l, g := locks(m)
		g.on().stay()
		require.NoError(t, l.Unlock(t.Context()))
		require.Equal(t, engine.GrantLingering, state(g), name)
		require.Equal(t, end(g), state(g), name)
		gone(m.key)
		g.on().quit()
	}

	// A key that Redis granted some time ago goes back after a call that had it without asking.
	m := c.Mutex(redistest.Key(t, "old"))
	for range 2 {
		l, g := locks(m)
		require.Equal(t, engine.GrantHeld, state(g))
		require.Eventually(t, func() bool { return g.guard.Age(monotonic.Now()) >= localPassLimit }, time.Minute, time.Millisecond)
		require.NoError(t, l.Unlock(t.Context()))
		want := engine.GrantLingering
		if g.rare().passed > 0 {
			want = engine.GrantReleasing
		}
		require.Equal(t, want, state(g))
	}
	gone(m.key)

	// So does one that others wait for, and one that stayed locked for its least time.
	for name, before := range map[string]func(g *grant){
		"others wait": func(g *grant) { g.ticket.OthersWait = true },
		"kept":        func(g *grant) { g.idle = true; c.held(-1) },
	} {
		l, g := locks(c.Mutex(redistest.Key(t, name)))
		g.on().mu.Lock()
		before(g)
		g.on().mu.Unlock()
		require.NoError(t, l.Unlock(t.Context()))
		require.Equal(t, engine.GrantReleasing, state(g), name)
	}
}
