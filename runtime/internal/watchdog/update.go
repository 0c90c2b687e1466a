package watchdog

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// An Outcome says how a request to the server ended.
type Outcome uint8

const (
	Unknown  Outcome = iota // the server may run the request, or may have run it
	Done                    // the server ran it
	Repeated                // the server ran it, and may run it once more
	Refused                 // the server did not run it, and will not
)

// updates are the requests that make a lease end at another time than its renewals do: the only requests that can end a
// key early. The server may run requests in another order than that in which the process hears of them.
type updates struct {
	begun    int            // so far
	pending  int            // of them, without an outcome
	settled  monotonic.Time // when the last outcome was known
	shortest time.Duration  // of all
	doubt    monotonic.Time // until when the server may still run one that is settled; zero for never
	doubtful time.Duration  // the shortest of those
}

// overtake reports whether the server may have run an update after a request that was sent at sent.
func (u *updates) overtake(sent monotonic.Time) bool { return u.pending > 0 || sent.Before(u.settled) }

// worth returns for how long the server has the lease at least after a request for ttl that was sent at sent.
func (u *updates) worth(sent monotonic.Time, ttl time.Duration) time.Duration {
	if u.overtake(sent) {
		ttl = min(ttl, u.shortest)
	}
	if sent.Before(u.doubt) {
		ttl = min(ttl, u.doubtful)
	}
	return ttl
}

// Update says that the server is about to be asked to end l after ttl, sooner or later than it would end. From now on l is
// trusted for no longer than ttl. The caller calls settle once, with the outcome; until then no answer extends the trust by more.
// An update that is done extends the trust of a lease that is not renewed, if extends is true. One with an unknown outcome
// extends nothing. For as long as that one may be late, or a copy of one that is done, no answer extends the trust by more than it gives: it may
// still follow a renewal or a longer update that the server has run. One that was refused gives back the trust that it took. A lease that is
// renewed is renewed while the outcome is awaited, so that the trust does not end with the update, and at once after that.
func (w *Watchdog) Update(l *Lease, sent time.Time, ttl, late time.Duration, extends bool) (settle func(Outcome)) {
	asked := monotonic.Of(sent)
	var own int // the number of this update
	var alone bool
	var until, ends monotonic.Time // before it
	w.change(l, func() {
		u := &l.more().updates
		alone, until, ends = u.pending == 0, l.trusted(), l.end()
		u.begun++
		u.pending++
		own = u.begun
		if own == 1 || ttl < u.shortest {
			u.shortest = ttl
		}
		l.trust(min(until, asked.Add(ttl-Margin(ttl))), min(ends, asked.Add(ttl)))
		l.next = min(l.next, asked.Add(Interval(ttl))) // before that trust ends
	})
	return func(outcome Outcome) {
		w.change(l, func() {
			u := &l.more().updates
			u.pending--
			now := monotonic.Now()
			if outcome == Unknown || outcome == Repeated {
				if !now.Before(u.doubt) || ttl < u.doubtful {
					u.doubtful = ttl
				}
				u.doubt = now.Add(late)
			}
			switch {
			case l.index < 0: // stopped or lost meanwhile, which it stays
			case outcome == Refused && alone && u.begun == own:
				l.trust(max(until, l.trusted()), max(ends, l.end()))
			case (outcome == Done || outcome == Repeated) && extends && !l.Renew && !u.overtake(asked):
				w.confirm(l, asked, ttl)
			}
			u.settled = now
			l.next, l.anew = now, l.stage == stageSent
		})
	}
}

// trust sets when the trust in l and its key end, at most when the key ends whatever a request says. The caller holds Watchdog.mu.
func (l *Lease) trust(until, ends monotonic.Time) {
	if x := l.rare(); !x.bound.IsZero() {
		until, ends = min(until, x.sure), min(ends, x.bound)
	}
	l.until.Store(int64(until))
	l.ends.Store(int64(ends))
}
