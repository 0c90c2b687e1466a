package lockrt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// lookAgain is how often a waiter asks at least, whatever events it gets: so long nobody depends on
// what another process should have done. Who is the first of those that this process knows of asks more often
// while the server does not tell of changes, such as that it was flushed, and the line with it.
const (
	lookAgain      = 30 * time.Second
	lookAgainBlind = 5 * time.Second
)

// pollUnheard is how often Redis is asked while its messages are not heard.
const pollUnheard = 500 * time.Millisecond

// patience is for how long at least one who waits puts up with a Redis that does not answer.
const patience = 30 * time.Second

// contend waits in q until w has its lease, and leaves q if it does not get it.
func (c *Client) contend(ctx context.Context, q contest, w *waiter, cfg lockConfig, waiting func()) (*Lease, error) {
	defer w.recycle()
	l := w.lease
	start := w.call.since
	err := c.await(ctx, q, w, cfg, waiting)
	if err == nil && ctx.Err() != nil {
		err = ended(ctx) // granted, but not wanted any more
	}
	if err != nil {
		q.leave(w)
		return nil, err
	}
	c.counts.waited(l.began.Sub(start))
	return l.joined(ctx, cfg) // with others of its owner, perhaps
}

// await is the one wait loop. It returns nil once w was given what it wants. After an error
// the caller leaves the contest.
//
// One waiter of a contest asks Redis, the others wait for its events. When refused it stands in line,
// where a process of this library that releases finds it and hands over. A holder of another
// kind only announces its release, on a channel; then it subscribes and asks again, since that
// may have come before the subscription. From then on every message is a reason to ask, and so is
// the end of the lease that Redis named: messages make waiting short, the timer makes it finite.
//
// When the wait is over Redis is asked a last time, unless it has just said no: what it said long ago does not tell
// whether somebody else has what w wants, or Redis is away.
func (c *Client) await(ctx context.Context, q contest, w *waiter, cfg lockConfig, waiting func()) error {
	start := now()
	var (
		asking   bool // the answer to ask is on its way
		leading  bool // it is on us to ask
		reasoned bool // there is a reason to ask
		resent   int  // requests sent again at once, since an earlier one may have been done
		refusals int
		saidNo   monotonic.Time // when Redis did, last
		listener *hub.Listener
		deadline <-chan time.Time
		over     bool             // the wait is, and what Redis says is awaited
		limit    <-chan time.Time // of that
		answered <-chan struct{}  // closed when Redis has answered another waiter of the contest
		down     outage
		stuck    suspicion
	)
	defer w.calm()
	if cfg.wait > 0 {
		timer := time.NewTimer(cfg.wait)
		defer timer.Stop()
		deadline = timer.C
	}
	defer func() {
		stuck.end()
		if listener != nil {
			listener.Close()
		}
	}()
	ask := func() {
		asking = true
		w.calm()
		q.ask(w)
	}
	waits := func() {
		stuck.begin(ctx, c, &cfg)
		if waiting != nil {
			waiting()
			waiting = nil
		}
	}
	after := func() string {
		if w.once {
			return ""
		}
		return " after " + time.Since(start).Round(time.Millisecond).String()
	}

	var queueKey string // the key at whose line it listens, if it does
	leave := func() {}  // ends that
	defer func() { leave() }()
	hear := func() bool {
		if cfg.polling {
			return false
		}
		heard := c.hear()
		if in, ok := q.(queueing); ok && c.net.Sharded() {
			if queueKey == "" {
				queueKey = in.queueKey()
				leave = c.attend(queueKey)
				w.attends = true
			}
			heard = heard && c.attends(queueKey)
		}
		return heard
	}

	// enter joins the contest, and reports whether w has been given what it wants.
	enter := func() bool {
		over = false
		switch q.join(w) {
		case entered:
			return true
		case toAsk:
			leading = true
			ask()
		case turnedAway:
			over = true // it has to wait for nothing but what Redis says to others
		case toWait:
			if !w.once && w.events.empty() {
				waits()
				hear() // other processes may join the contest
			}
		}
		return false
	}

	// conclude returns how a wait ends that is over, or nil as long as that is not known.
	conclude := func() error {
		of, ok := q.(shared)
		var held bool
		var word answerLog
		if ok {
			held, word = of.last(w)
		}
		switch {
		case ctx.Err() != nil:
			return ended(ctx)
		case held:
			return fmt.Errorf("%w%s", ErrNotAcquired, after())
		case asking:
			return nil
		case down.last != nil:
			return unavailable(after(), down.last)
		case fresh(saidNo):
			return fmt.Errorf("%w%s", ErrNotAcquired, after())
		}
		if ok && !leading {
			switch {
			case word.err == nil && fresh(word.refused):
				return fmt.Errorf("%w%s", ErrNotAcquired, after())
			case word.err != nil && !passing(word.err):
				return refused(word.err)
			case word.err != nil && !transport.Cut(word.err):
				return unavailable(after(), word.err)
			case word.asking > 0:
			case !w.once:
				of.remind()
			case enter():
				return errEntered
			case over:
				of.remind()
			}
			answered = word.answered
			return nil
		}
		leading = true
		ask()
		return nil
	}

	if enter() {
		return nil
	}
	for {
		if over && w.events.empty() {
			switch err := conclude(); {
			case err == errEntered: //nolint:errorlint // this very one
				return nil
			case err != nil:
				return err
			}
			if over && limit == nil {
				patience := lastAnswer
				switch {
				case w.quorum:
					patience = c.opts.RedLockTimeout
				case w.once:
					patience = c.opts.OpTimeout
				}
				timer := time.NewTimer(patience)
				defer timer.Stop()
				limit = timer.C
			}
		}
		if reasoned && leading && !asking {
			reasoned = false
			ask()
		}
		select {
		case <-w.events.bell:
			ev, ok := w.nextEvent()
			if !ok {
				continue
			}
			switch ev.kind {
			case reason:
				if broken := w.broken.Load(); broken != nil {
					return *broken
				}
				if reasoned = true; !leading && !w.once {
					waits()
					hear()
				}
			case given:
				return nil
			case turn:
				leading = true
				ask()
			case behind:
				asking, leading = false, false
				down, saidNo = outage{}, monotonic.Now()
				if w.once {
					return ErrNotAcquired
				}
				waits()
				hear()
			case failed:
				asking = false
				switch {
				case ctx.Err() != nil && errors.Is(ev.err, ctx.Err()): // which says nothing of Redis
				case !passing(ev.err):
					return refused(ev.err)
				case (w.once || over) && !ev.final && resent < sendsAgain(ev.err):
					resent++ // to learn what the one before did
					ask()
				case w.once || over || down.longer(max(cfg.ttl, patience)):
					return unavailable(after(), ev.err)
				case down.tries+1 == c.opts.Retry.attempts:
					return unavailable(fmt.Sprintf(" in %d attempts", down.tries+1), ev.err)
				default:
					w.wait(down.pause(c.opts.Retry, ev.err))
				}
			case refusedFor:
				asking, leading = false, true
				down, saidNo = outage{}, monotonic.Now()
				if w.once {
					return ErrNotAcquired
				}
				if over {
					continue
				}
				waits()
				if refusals++; cfg.polling {
					if refusals == cfg.backoff.attempts {
						return fmt.Errorf("%w in %d attempts", ErrNotAcquired, refusals)
					}
					w.wait(cfg.backoff.pause(refusals))
					continue
				}
				heard := hear()
				if heard && !ev.inLine {
					ask() // to stand in line
					continue
				}
				if ev.foreign && listener == nil {
					listener = c.net.Listen(q.channel(), func(e hub.Event) {
						q.hear(e.Payload) // nothing, when what was said before may have gone unheard
						if e.Subscribed || !protocol.ForRedisson(e.Payload) {
							w.poke()
						}
					})
					if listener.Live() {
						ask() // a release before now was not heard
						continue
					}
				}
				pause := lookAgain
				if _, ok := q.(queueing); ok && !ev.behind && !c.net.TracksChanges() { // it stands in a line there
					pause = lookAgainBlind
				}
				if ev.ttl >= 0 {
					pause = min(pause, ev.ttl+time.Millisecond) // Redis counts in whole milliseconds
				}
				if !heard || ev.foreign && !listener.Live() {
					pause = min(pause, pollUnheard)
				}
				w.wait(pause)
			}
		case <-ctx.Done():
			return last(q, w, saidNo, &down).explain(ended(ctx))
		case <-deadline:
			over, deadline = true, nil
		case <-stuck.due:
			stuck.come(ctx, c, q, w)
		case <-cfg.yields:
			return errYielded
		case <-answered:
			answered = nil
		case <-limit:
			if w.events.empty() {
				return unavailable(after(), cmpOr(down.last, transport.ErrNoAnswer))
			}
		case <-c.closing:
			return ErrClosed
		}
	}
}

// An outage is a time without answers from Redis.
type outage struct {
	since time.Time
	tries int
	last  error
}

// longer reports whether Redis has not answered for d.
func (o *outage) longer(d time.Duration) bool {
	return !o.since.IsZero() && time.Since(o.since) > d
}

// pause notes one more failure and returns for how long to pause, as b has it.
func (o *outage) pause(b Backoff, err error) time.Duration {
	if o.since.IsZero() {
		o.since = now()
	}
	o.tries++
	o.last = err
	return b.pause(o.tries)
}
