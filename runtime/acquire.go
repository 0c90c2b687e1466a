package runtime

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// A contest is what a waiter takes part in until it is given what it wants or gives up.
type contest interface {
	// join enters w and reports whether it is to ask Redis itself. Otherwise news come.
	join(w *waiter) bool
	// ask sends one request for w. The answer comes as news.
	ask(w *waiter)
	// leave takes w out. What it was given meanwhile goes to the next or back to Redis.
	leave(w *waiter)
	// channel is where Redisson announces that asking may be worth it again.
	channel() string
	// hear is told what was said there, before the waiter that listens asks because of it. It
	// does not block.
	hear(payload string)
}

// An inheriting contest is one whose waiters are handed what they wait for, in a line for a key.
type inheriting interface{ inherits() (key string) }

// A waiter is one call that wants something from a contest.
type waiter struct {
	terms terms
	limit time.Duration // WithMaxHold, or 0
	once  bool          // it does not wait
	news  chan news     // never full: see newsKind
	alarm *time.Timer   // pokes it; made when it is first set
	lease *Lease        // what it is given
	place place         // in the contest
	wish  wish          // what it wants of a turnstile
	rw    *rwClaim      // what it asks with, if for an RWMutex

	asks    atomic.Int32 // requests of it under way
	poked   atomic.Bool  // that is among the news
	follows bool         // it does not wait but for the answer to an earlier request of this process
	patient bool         // nothing but an answer can end a request of it
	attends bool         // it has begun to listen for what it is told in line, and does until it leaves
}

var waiters = sync.Pool{New: func() any {
	return &waiter{news: make(chan news, 5)}
}}

func newWaiter(l *Lease, cfg lockConfig) *waiter {
	w := waiters.Get().(*waiter)
	w.terms, w.limit, w.once, w.follows, w.lease = cfg.terms, cfg.maxHold, cfg.wait == 0, cfg.follows, l
	return w
}

// recycle lets another call use w, which is in no contest any more, unless a request still knows it. A
// poke that comes late makes that call ask once too often.
func (w *waiter) recycle() {
	if w.asks.Load() > 0 {
		return
	}
	for len(w.news) > 0 {
		w.hears(<-w.news)
	}
	w.place, w.lease, w.rw, w.patient, w.attends = place{}, nil, nil, false, false
	waiters.Put(w)
}

// poke tells w that there is a reason to ask. It does not block.
func (w *waiter) poke() {
	if w.poked.CompareAndSwap(false, true) {
		w.news <- news{kind: reason}
	}
}

// hears returns news that w has taken.
func (w *waiter) hears(n news) news {
	if n.kind == reason {
		w.poked.Store(false)
	}
	return n
}

// wait has w poked in d.
func (w *waiter) wait(d time.Duration) {
	if w.alarm == nil {
		w.alarm = time.AfterFunc(d, w.poke)
		return
	}
	w.alarm.Reset(d)
}

// calm takes back wait.
func (w *waiter) calm() {
	if w.alarm != nil {
		w.alarm.Stop()
	}
}

// news is what a contest tells a waiter.
type news struct {
	kind    newsKind
	final   bool          // failed: asking again would not tell what this request did
	foreign bool          // refusedFor: the other is not of this library
	inLine  bool          // refusedFor: a release by one of this library finds us
	err     error         // failed: what went wrong
	ttl     time.Duration // refusedFor: how long the other's lease has to run; negative if for ever
}

type newsKind uint8

// Between two requests a waiter is told of each of these once at most.
const (
	reason     newsKind = iota // to ask, if it is on you
	given                      // it is yours
	turn                       // it is on you to ask Redis
	behind                     // somebody before you was refused: wait for your turn
	refusedFor                 // Redis said no
	failed                     // Redis said nothing, or something else
)

// lookAgain is how often a waiter asks at least, whatever it was told: so long nobody depends on
// what another process should have done.
const lookAgain = 30 * time.Second

// pollUnheard is how often Redis is asked while its messages are not heard.
const pollUnheard = 500 * time.Millisecond

// patience is for how long at least one who waits puts up with a Redis that does not answer.
const patience = 30 * time.Second

// An attempt is one call that acquires, as hooks and statistics see it.
type attempt struct {
	c       *Client
	op      string
	kind    string
	key     string
	start   time.Time
	ctx     context.Context
	waiting bool
}

// begin returns the context of the call.
func (a *attempt) begin(ctx context.Context) context.Context {
	if hook := a.c.opts.Hooks.AcquireStart; hook != nil {
		ctx = hook(ctx, AcquireEvent{Kind: a.kind, Key: a.key})
	}
	if a.c.opts.Hooks.AcquireEnd != nil {
		a.start = now()
	}
	a.ctx = ctx
	return ctx
}

// waits notes that the call has to wait for others.
func (a *attempt) waits() {
	a.waiting = true
	a.c.counts.waiting.Add(1)
	if hook := a.c.opts.Hooks.Waiting; hook != nil {
		hook(a.ctx, AcquireEvent{Kind: a.kind, Key: a.key})
	}
}

// end returns err with what the call was about.
func (a *attempt) end(ctx context.Context, token int64, err error) error {
	if a.waiting {
		a.c.counts.waiting.Add(-1)
	}
	if err != nil {
		err = &Error{Op: a.op, Key: a.key, Err: err}
	}
	if hook := a.c.opts.Hooks.AcquireEnd; hook != nil {
		hook(ctx, AcquireEvent{Kind: a.kind, Key: a.key, Waited: time.Since(a.start), Token: token, Err: err})
	}
	return err
}

// granted is end for a call that was to have lease, and hands that over.
func (a *attempt) granted(ctx context.Context, lease *Lease, err error) (*Lease, error) {
	if err != nil {
		return nil, a.end(ctx, 0, err)
	}
	err = a.end(ctx, lease.token, nil)
	lease.given()
	return lease, err
}

// acquiring runs a call that acquires, tells the hooks of it and says in its error what failed.
// The call says when it begins to wait, and returns the fencing token, if there is one.
func (c *Client) acquiring(ctx context.Context, op, kind, key string, acquire func(ctx context.Context, waiting func()) (int64, error)) error {
	a := attempt{c: c, op: op, kind: kind, key: key}
	ctx = a.begin(ctx)
	token, err := acquire(ctx, a.waits)
	return a.end(ctx, token, err)
}

// contend waits in q until w has its lease, and leaves q if it does not get it.
func (c *Client) contend(ctx context.Context, q contest, w *waiter, cfg lockConfig, waiting func()) (*Lease, error) {
	defer w.recycle()
	l := w.lease
	start := monotonic.Now()
	err := c.await(ctx, q, w, cfg, waiting)
	if err == nil && ctx.Err() != nil {
		err = ended(ctx) // granted, but not wanted any more
	}
	if err != nil {
		q.leave(w)
		return nil, err
	}
	c.counts.waited(l.began.Sub(start))
	return l.entered(cfg) // with others of its owner, perhaps
}

// await is the one wait loop. It returns nil once w was given what it wants. After an error
// the caller leaves the contest.
//
// One waiter of a contest asks Redis, the others wait for its news. When refused it stands in line,
// where a process of this library that releases finds it and hands over. A holder of another
// kind only announces its release, on a channel; then it subscribes and asks again, since that
// may have come before the subscription. From then on every message is a reason to ask, and so is
// the end of the lease that Redis named: messages make waiting short, the timer makes it finite.
func (c *Client) await(ctx context.Context, q contest, w *waiter, cfg lockConfig, waiting func()) error {
	start := now()
	var (
		asking   bool // the answer to ask is on its way
		leading  bool // it is on us to ask
		reasoned bool // there is a reason to ask
		resent   bool
		refusals int
		listener *hub.Listener
		deadline <-chan time.Time
		down     outage
	)
	defer w.calm()
	if cfg.wait > 0 {
		timer := time.NewTimer(cfg.wait)
		defer timer.Stop()
		deadline = timer.C
	}
	defer func() {
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
		if waiting != nil {
			waiting()
			waiting = nil
		}
	}

	var ear string     // the key at whose line it listens, if it does
	leave := func() {} // ends that
	defer func() { leave() }()
	hear := func() bool {
		if cfg.quiet {
			return false
		}
		heard := c.hear()
		if in, ok := q.(inheriting); ok && c.shards() {
			if ear == "" {
				ear = in.inherits()
				leave = c.attend(ear)
				w.attends = true
			}
			heard = heard && c.attends(ear)
		}
		return heard
	}

	switch leading = q.join(w); {
	case leading:
		ask()
	case w.once && !w.follows:
		for len(w.news) > 0 {
			if w.hears(<-w.news).kind == given {
				return nil
			}
		}
		return ErrNotAcquired
	case len(w.news) > 0: // it is given already
	case w.once:
	default:
		waits()
		hear() // other processes may join the contest
	}
	for {
		if reasoned && leading && !asking {
			reasoned = false
			ask()
		}
		select {
		case n := <-w.news:
			switch w.hears(n).kind {
			case reason:
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
				down = outage{}
				if w.once {
					return ErrNotAcquired
				}
				waits()
				hear()
			case failed:
				asking = false
				switch {
				case !passing(n.err):
					return refused(n.err)
				case w.once && !resent && !n.final && unknown(n.err):
					resent = true // to learn what the first one did
					ask()
				case w.once || down.longer(max(cfg.ttl, patience)):
					return n.err
				case down.tries+1 == c.opts.Retry.attempts:
					return fmt.Errorf("no answer in %d attempts: %w", down.tries+1, n.err)
				default:
					w.wait(down.pause(c.opts.Retry, n.err))
				}
			case refusedFor:
				asking, leading = false, true
				down = outage{}
				if w.once {
					return ErrNotAcquired
				}
				waits()
				if refusals++; cfg.quiet {
					if refusals == cfg.backoff.attempts {
						return fmt.Errorf("%w in %d attempts", ErrNotAcquired, refusals)
					}
					w.wait(cfg.backoff.pause(refusals))
					continue
				}
				heard := hear()
				if heard && !n.inLine {
					ask() // to stand in line
					continue
				}
				if n.foreign && listener == nil {
					listener = c.hub.Listen(q.channel(), func(e hub.Event) {
						q.hear(e.Payload) // nothing, when what was said before may have gone unheard
						if e.Subscribed || e.Payload != messageLeft {
							w.poke()
						}
					})
					if listener.Live() {
						ask() // a release before now was not heard
						continue
					}
				}
				pause := lookAgain
				if n.ttl >= 0 {
					pause = min(pause, n.ttl+time.Millisecond) // Redis counts in whole milliseconds
				}
				if !heard || n.foreign && !listener.Live() {
					pause = min(pause, pollUnheard)
				}
				w.wait(pause)
			}
		case <-ctx.Done():
			return down.explain(ended(ctx))
		case <-deadline:
			return down.explain(fmt.Errorf("%w after %v", ErrNotAcquired, time.Since(start).Round(time.Millisecond)))
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

// explain adds to err that Redis was not answering, if that is so.
func (o *outage) explain(err error) error {
	if o.last == nil {
		return err
	}
	return fmt.Errorf("%w; Redis last failed with: %w", err, o.last)
}
