package resource

import (
	"context"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/leases"
)

// Contend waits in q until w has its lease, and leaves q if it does not get it.
func (c *Client) Contend(ctx context.Context, q Contest, w *Waiter, cfg *leases.Config, waiting func()) (*leases.Lease, error) {
	var err error
	if entry, asked := c.begin(ctx, q, w, cfg); entry != Entered {
		err = c.awaitFrom(ctx, q, w, cfg, waiting, entry, asked)
	}
	return c.conclude(ctx, q, w, cfg, err)
}

// Collect is Contend for a waiter of q that has its lease already, and reports whether w is such: a call for several locks has asked for all
// of them together.
func (c *Client) Collect(ctx context.Context, q Contest, w *Waiter, cfg *leases.Config) (l *leases.Lease, done bool, err error) {
	if c.Refusal() != nil || cfg.Yields != nil || !w.Events.TakeIf(engine.Given) {
		return nil, false, nil
	}
	l, err = c.conclude(ctx, q, w, cfg, nil)
	return l, true, err
}

// conclude ends the wait of w in q with err, or with its lease.
func (c *Client) conclude(ctx context.Context, q Contest, w *Waiter, cfg *leases.Config, err error) (*leases.Lease, error) {
	defer Recycle(w)
	if err == nil && ctx.Err() != nil {
		err = core.Ended(ctx) // granted, but the caller does not want it any more
	}
	if err != nil {
		q.Leave(w)
		return nil, err
	}
	return c.joined(ctx, w, cfg)
}

// joined returns the lease of w, which has it perhaps with others of its owner, and counts the wait.
func (c *Client) joined(ctx context.Context, w *Waiter, cfg *leases.Config) (*leases.Lease, error) {
	l, err := w.For.Lease.Joined(ctx, cfg)
	if err == nil {
		c.Counts.Waited(l.Core().Began.Sub(w.Call.Since))
	}
	return l, err
}

// begin joins the contest, and returns the result. If w is to ask for a mutex, begin asks and waits for the first event, and returns
// [Entered] if w has what it wants then. Nearly every call for a free lock ends here. It has a smaller frame on the stack than the loop that
// waits for everything, and less to set up. The end of the client comes as an event, see [user.Refuse].
func (c *Client) begin(ctx context.Context, q Contest, w *Waiter, cfg *leases.Config) (entry Entry, asked bool) {
	entry = q.Join(w)
	yields, ok := q.(yielding)
	if entry != ToAsk || !ok || cfg.Wait > 0 || cfg.Yields != nil {
		return entry, false
	}
	if start, _ := yields.StartFor(w); start > 0 {
		return entry, false
	}
	q.Ask(w)
	if c.Refusal() != nil {
		return entry, true
	}
	if done := ctx.Done(); done == nil {
		w.Events.Wait() // which costs a third of waiting for several channels, one of which all calls share
	} else {
		select {
		case <-w.Events.Bell():
		case <-done:
			return entry, true
		}
	}
	if w.Events.TakeIf(engine.Given) {
		return Entered, true
	}
	return entry, true // awaitFrom finds the event, or what ends the wait
}

// Await joins the contest and waits in it, like awaitFrom.
func (c *Client) Await(ctx context.Context, q Contest, w *Waiter, cfg *leases.Config, waiting func()) error {
	return c.awaitFrom(ctx, q, w, cfg, waiting, q.Join(w), false)
}

// awaitFrom is the one wait loop, of a waiter that has joined the contest with the result entry, and has asked if asked is set. It returns
// nil once w has what it wants. After an error the caller leaves the contest.
//
// One waiter of a contest asks Redis, the others wait for its events. When Redis refuses, the waiter joins the wait
// queue, where a releasing process of this library finds it and hands the lock over. A holder of another kind only
// announces its release, on a channel. Then the waiter subscribes and asks again, since the announcement may have come
// before the subscription. From then on it asks after every message, and at the end of the lease that Redis named:
// messages make the wait short, the timer makes it finite.
//
// When the wait is over, the waiter asks Redis a last time, unless Redis has just refused: an old answer does not tell
// whether another owner has the lock, or Redis is away.
//
// Very many calls may wait here, for long, and the frames below the select are what the stack of each has to keep. So the branches are
// methods of the state, which are not inlined: only while one of them runs the stack has what it needs.
func (c *Client) awaitFrom(ctx context.Context, q Contest, w *Waiter, cfg *leases.Config, waiting func(), entry Entry, asked bool) error {
	var s wait
	s.c, s.ctx, s.done, s.q, s.w, s.length, s.polling = c, ctx, ctx.Done(), q, w, cfg.Wait, cfg.Polling
	defer s.end()
	if s.begin(entry, asked, waiting) {
		return nil
	}
	for {
		if s.wantsToAsk() {
			if over, err := s.ready(); over {
				return err
			}
		}
		if s.waitsForEvents(cfg) { // which costs a third of waiting for several channels, and less memory
			w.Events.Wait()
			if over, err := s.handle(cfg, waiting); over {
				return err
			}
			continue
		}
		select {
		case <-w.Events.Bell():
			if over, err := s.handle(cfg, waiting); over {
				return err
			}
		case <-s.done:
			return s.endedByContext()
		case <-s.deadline:
			s.over, s.deadline = true, nil
		case <-cfg.Yields:
			return ErrYielded
		case <-s.answered:
			s.answered = nil
		case <-s.limit:
			if w.Events.Empty() {
				return s.unanswered()
			}
		case <-s.closing:
			return failure.ErrClosed
		}
	}
}

// park sets the alarm of w, which has nothing to do until an event comes, and frees what it does not need until then: very many calls
// may wait, for long. If it waits for events alone, that includes a channel. The end of the client is an event, too. park returns why the
// client grants nothing any more, or nil.
func (c *Client) park(q Contest, w *Waiter, pause time.Duration, alone bool) error {
	if parks, ok := q.(parking); ok {
		parks.Park(w)
	}
	w.Events.Shrink(!alone)
	c.alarms.Set(w, pause)
	return c.Refusal() // if it ended before the alarm was set
}
