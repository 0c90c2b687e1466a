package resource

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// patience is the least time for which a waiting call tolerates a Redis that does not answer.
const patience = 30 * time.Second

// Contend waits in q until w has its lease, and leaves q if it does not get it.
func (c *Client) Contend(ctx context.Context, q Contest, w *Waiter, cfg leases.Config, waiting func()) (*leases.Lease, error) {
	defer Recycle(w)
	start := w.Call.Since
	var err error
	if entry, asked := c.begin(ctx, q, w, &cfg); entry != Entered {
		err = c.awaitFrom(ctx, q, w, cfg, waiting, entry, asked)
	}
	if err == nil && ctx.Err() != nil {
		err = core.Ended(ctx) // granted, but the caller does not want it any more
	}
	if err != nil {
		q.Leave(w)
		return nil, err
	}
	l := w.For.Lease
	c.Counts.Waited(l.Core().Began.Sub(start))
	return l.Joined(ctx, cfg) // perhaps with others of its owner
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
		<-w.Events.Bell // to wait for one channel costs a third of waiting for several, one of which all calls share
	} else {
		select {
		case <-w.Events.Bell:
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
func (c *Client) Await(ctx context.Context, q Contest, w *Waiter, cfg leases.Config, waiting func()) error {
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
func (c *Client) awaitFrom(ctx context.Context, q Contest, w *Waiter, cfg leases.Config, waiting func(), entry Entry, asked bool) error {
	start := core.Now()
	var (
		asking   bool // the answer to ask is on its way
		leading  bool // it is the turn of this waiter to ask
		reasoned bool // there is a reason to ask
		recheck  bool // the reason is that nothing was heard for long
		resent   int  // requests sent again at once, since an earlier one may have taken effect
		refusals int
		saidNo   monotonic.Time // when Redis last refused
		listener *hub.Listener
		deadline <-chan time.Time
		over     bool             // the wait is over, and the last answer is awaited
		limit    <-chan time.Time // of the wait for the last answer
		answered <-chan struct{}  // closed when Redis has answered another waiter of the contest
		closing  = c.Closing      // nil while it is parked
		down     engine.Outage
	)
	defer c.alarms.Stop(w)
	if cfg.Wait > 0 {
		timer := time.NewTimer(cfg.Wait)
		defer timer.Stop()
		deadline = timer.C
	}
	defer func() {
		c.suspects.End(w)
		if listener != nil {
			listener.Close()
		}
	}()
	yields, _ := q.(yielding)
	listen := func() {
		listener = c.Net.Listen(q.Channel(w), func(e hub.Event) {
			q.Hear(e.Payload) // nothing, when earlier messages may have been missed
			if e.Subscribed || !protocol.ForRedisson(e.Payload) {
				w.Poke()
			}
		})
	}
	ask := func() {
		closing = c.Closing
		if yields != nil && !over {
			if start, foreign := yields.StartFor(w); start > 0 {
				if listener == nil && !cfg.Polling && foreign {
					listen() // one of Redisson's waiters may use the start sooner
				}
				c.alarms.Set(w, start)
				return
			}
		}
		asking = true
		c.alarms.Stop(w)
		q.Ask(w)
	}
	waits := func() {
		c.mayWaitForEver(ctx, w, cfg.Wait)
		if waiting != nil {
			waiting()
			waiting = nil
		}
	}
	after := func() string {
		if w.Once() {
			return ""
		}
		return " after " + time.Since(start).Round(time.Millisecond).String()
	}

	var queueKey string // the key for whose wait queue the client listens, if it does
	leave := func() {}  // ends that
	defer func() { leave() }()
	hear := func() bool {
		if cfg.Polling {
			return false
		}
		heard := c.Hear()
		if in, ok := q.(queueing); ok && c.Net.Sharded() {
			if queueKey == "" {
				queueKey = in.queueKey()
				leave = c.attend(queueKey)
				w.Attends = true
			}
			heard = heard && c.Attends(queueKey)
		}
		return heard
	}

	// joined goes on after w has joined the contest, and reports whether w has what it wants.
	joined := func(entry Entry) bool {
		over = false
		switch entry {
		case Entered:
			return true
		case ToAsk:
			leading = true
			ask()
		case TurnedAway:
			over = true // only the answer to another waiter is still awaited
		case ToWait:
			if !w.Once() && w.Events.Empty() {
				waits()
				hear() // other processes may join the contest
			}
		}
		return false
	}

	enter := func() bool { return joined(q.Join(w)) }

	// conclude returns the result of a wait that is over, or nil as long as it is unknown.
	conclude := func() error {
		of, ok := q.(shared)
		var held bool
		var word engine.AnswerLog
		if ok {
			held, word = of.Last(w)
		}
		switch {
		case ctx.Err() != nil:
			return core.Ended(ctx)
		case held:
			return fmt.Errorf("%w%s", failure.ErrNotAcquired, after())
		case asking:
			return nil
		case down.Last != nil:
			return transport.Unavailable(after(), down.Last)
		case fresh(saidNo):
			return fmt.Errorf("%w%s", failure.ErrNotAcquired, after())
		}
		if ok && !leading {
			switch {
			case word.Err == nil && fresh(word.Refused):
				return fmt.Errorf("%w%s", failure.ErrNotAcquired, after())
			case word.Err != nil && !core.Passing(word.Err):
				return core.Refused(word.Err)
			case word.Err != nil && !transport.Cut(word.Err):
				return transport.Unavailable(after(), word.Err)
			case word.Asking > 0:
			case !w.Once():
				of.Remind(w)
			case enter():
				return errEntered
			case over:
				of.Remind(w)
			}
			answered = word.Answered
			return nil
		}
		leading = true
		ask()
		return nil
	}

	if asked {
		leading, asking = true, true
	} else if joined(entry) {
		return nil
	}
	for {
		if over && w.Events.Empty() {
			switch err := conclude(); {
			case err == errEntered: //nolint:errorlint // this very one
				return nil
			case err != nil:
				return err
			}
			if over && limit == nil {
				patience := lastAnswer
				switch {
				case w.Quorum:
					patience = c.Settings.RedLockTimeout
				case w.Once():
					patience = c.Settings.OpTimeout
				}
				timer := time.NewTimer(patience)
				defer timer.Stop()
				limit = timer.C
			}
		}
		if reasoned && leading && !asking {
			reasoned, w.Recheck = false, recheck
			ask()
			w.Recheck = false
		}
		select {
		case <-w.Events.Bell:
			ev, ok := w.NextEvent()
			if !ok {
				continue
			}
			switch ev.Kind {
			case engine.Reason:
				if c.Refusal() != nil {
					return failure.ErrClosed
				}
				closing = c.Closing
				recheck = ev.Recheck && (recheck || !reasoned)
				if reasoned = true; !leading && !w.Once() {
					waits()
					hear()
				}
			case engine.Given:
				return nil
			case engine.Broken:
				return ev.Err
			case engine.Suspected:
				c.suspect(ctx, q, w, cfg.Wait)
			case engine.Turn:
				leading = true
				ask()
			case engine.Behind:
				asking, leading = false, false
				down, saidNo = engine.Outage{}, monotonic.Now()
				if w.Once() {
					return failure.ErrNotAcquired
				}
				waits()
				hear()
			case engine.Failed:
				asking = false
				switch {
				case ctx.Err() != nil && errors.Is(ev.Err, ctx.Err()): // tells nothing about Redis
				case !core.Passing(ev.Err):
					return core.Refused(ev.Err)
				case (w.Once() || over) && !ev.Final && resent < core.SendsAgain(ev.Err):
					resent++ // to learn the outcome of the request before
					ask()
				case w.Once() || over || down.Longer(max(cfg.TTL, patience)):
					return transport.Unavailable(after(), ev.Err)
				case down.Tries+1 == c.Settings.Retry.Limit():
					return transport.Unavailable(fmt.Sprintf(" in %d attempts", down.Tries+1), ev.Err)
				default:
					c.alarms.Set(w, down.Pause(c.Settings.Retry.Pause, ev.Err))
				}
			case engine.Refused:
				asking, leading = false, true
				down, saidNo = engine.Outage{}, monotonic.Now()
				if w.Once() {
					return failure.ErrNotAcquired
				}
				if over {
					continue
				}
				waits()
				if refusals++; cfg.Polling {
					if refusals == cfg.Backoff.Limit() {
						return fmt.Errorf("%w in %d attempts", failure.ErrNotAcquired, refusals)
					}
					c.alarms.Set(w, cfg.Backoff.Pause(refusals))
					continue
				}
				heard := hear()
				if heard && !ev.InLine {
					ask() // to join the wait queue
					continue
				}
				if ev.Foreign && listener == nil {
					if listen(); listener.Live() {
						ask() // an earlier release may have been missed
						continue
					}
				}
				longest := engine.LookAgain
				if _, ok := q.(queueing); ok && !ev.Behind && !c.Net.TracksChanges() { // it is in a wait queue there
					longest = engine.LookAgainBlind
				}
				closing = nil
				if err := c.park(q, w, engine.NextLook(longest, ev.TTL, heard && (!ev.Foreign || listener.Live()))); err != nil {
					return err
				}
			}
		case <-ctx.Done():
			return withAnswer(last(q, w, saidNo, &down), core.Ended(ctx))
		case <-deadline:
			over, deadline = true, nil
		case <-cfg.Yields:
			return ErrYielded
		case <-answered:
			answered = nil
		case <-limit:
			if w.Events.Empty() {
				return transport.Unavailable(after(), core.FirstError(down.Last, transport.ErrNoAnswer))
			}
		case <-closing:
			return failure.ErrClosed
		}
	}
}

// park sets the alarm of w, which has nothing to do until an event comes, and frees what it does not need until then: very many calls
// may wait, for long. The end of the client is an event, too, which costs less memory than one more channel. park returns why the
// client grants nothing any more, or nil.
func (c *Client) park(q Contest, w *Waiter, pause time.Duration) error {
	if parks, ok := q.(parking); ok {
		parks.Park(w)
	}
	w.Events.Shrink()
	c.alarms.Set(w, pause)
	return c.Refusal() // if it ended before the alarm was set
}
