package runtime

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/hub"
)

// A contest is what a waiter takes part in until it is given what it wants or gives up.
type contest interface {
	// join enters w and reports whether it is to ask Redis itself. Otherwise news come.
	join(w *waiter) bool
	// ask sends one request for w. The answer comes as news.
	ask(w *waiter)
	// leave takes w out. What it was given meanwhile goes to the next or back to Redis.
	leave(w *waiter)
	// channel is where Redis announces that asking may be worth it again.
	channel() string
}

// A waiter is one call that wants something from a contest.
type waiter struct {
	terms terms
	news  chan news // never full: a turn or an answer, and a grant
	lease *Lease    // what it is given
	place place     // in the contest
}

func newWaiter(l *Lease, t terms) *waiter {
	return &waiter{terms: t, lease: l, news: make(chan news, 2)}
}

// news is what a contest tells a waiter.
type news struct {
	kind newsKind
	ttl  time.Duration // refusedFor: how long the other's lease has to run; negative if for ever
	err  error         // failed: what went wrong
}

type newsKind int

const (
	given      newsKind = iota // it is yours
	turn                       // it is on you to ask Redis
	refusedFor                 // Redis said no
	failed                     // Redis said nothing, or something else
)

// pollUnheard is how often Redis is asked while its messages are not heard.
const pollUnheard = 500 * time.Millisecond

// await is the one wait loop. It returns nil once w was given what it wants. After an error
// the caller leaves the contest.
//
// One waiter of a contest asks Redis, the others wait for its news. It asks, and when refused
// subscribes and asks again, since the release may have come before the subscription. From
// then on every message is a reason to ask, and so is the end of the lease that Redis named:
// messages make waiting short, the timer makes it finite.
func (c *Client) await(ctx context.Context, q contest, w *waiter, cfg lockConfig, waiting func()) error {
	start := time.Now()
	var (
		once     = cfg.wait == 0
		asking   bool // the answer to ask is on its way
		leading  bool // it is on us to ask
		resent   bool
		listener *hub.Listener
		wake     = make(chan struct{}, 1) // one token: there is a reason to ask
		retry    = newTimer()
		deadline <-chan time.Time
		down     outage
	)
	defer retry.Stop()
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
		q.ask(w)
	}
	waits := func() {
		if waiting != nil {
			waiting()
			waiting = nil
		}
	}

	if q.join(w) {
		leading = true
		ask()
	} else if once {
		return ErrNotAcquired
	} else {
		waits()
	}
	for {
		woken, again := wake, retry.C
		if !leading || asking {
			woken, again = nil, nil
		}
		select {
		case n := <-w.news:
			switch n.kind {
			case given:
				return nil
			case turn:
				leading = true
				ask()
			case failed:
				asking = false
				switch {
				case !passing(n.err):
					return refused(n.err)
				case once && !resent && unknown(n.err):
					resent = true // to learn what the first one did
					ask()
				case once || down.longer(cfg.ttl):
					return n.err
				default:
					retry.Reset(down.backoff(n.err))
				}
			case refusedFor:
				asking = false
				down = outage{}
				if once {
					return ErrNotAcquired
				}
				waits()
				if listener == nil {
					listener = c.hub.Listen(q.channel(), func(hub.Event) {
						select {
						case wake <- struct{}{}:
						default:
						}
					})
					if listener.Live() {
						ask() // a release before now was not heard
						continue
					}
				}
				pause := n.ttl + time.Millisecond // Redis counts in whole milliseconds
				if n.ttl < 0 {
					pause = cfg.ttl
				}
				if !listener.Live() {
					pause = min(pause, pollUnheard)
				}
				retry.Reset(pause)
			}
		case <-woken:
			ask()
		case <-again:
			ask()
		case <-ctx.Done():
			return down.explain(ended(ctx))
		case <-deadline:
			return down.explain(fmt.Errorf("%w after %v", ErrNotAcquired, time.Since(start).Round(time.Millisecond)))
		case <-c.closing:
			return ErrClosed
		}
	}
}

// newTimer returns a timer that does not run yet.
func newTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
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

// backoff notes one more failure and returns how long to pause: from 10 ms, doubling to
// 250 ms, with up to a half of it at random so that those who failed together do not come
// back together.
func (o *outage) backoff(err error) time.Duration {
	if o.since.IsZero() {
		o.since = time.Now()
	}
	pause := min(10*time.Millisecond<<min(o.tries, 5), 250*time.Millisecond)
	o.tries++
	o.last = err
	return pause/2 + rand.N(pause/2)
}

// explain adds to err that Redis was not answering, if that is so.
func (o *outage) explain(err error) error {
	if o.last == nil {
		return err
	}
	return fmt.Errorf("%w; Redis last failed with: %w", err, o.last)
}
