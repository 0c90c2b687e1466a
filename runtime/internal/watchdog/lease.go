package watchdog

import (
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// A Holding is the grant of a lease. Its methods always return the same.
type Holding interface {
	Kind() string // leases of different kinds are never in one batch
	Key() string
	Owner() string
	// Began returns when it was granted.
	Began() monotonic.Time
	// Lost is called once, when the lease is lost, with [ErrRefused], [ErrElapsed], [ErrTooLong] or
	// an [*UnconfirmedError]. It must not block. It is not called after Stop has returned true.
	Lost(cause error)
}

// A Lease is a lease that the watchdog guards. Its exported fields are set before [Watchdog.Start]
// and not changed after.
type Lease struct {
	Holding

	TTL   time.Duration // the lease time of each renewal
	Renew bool          // false for a lease of fixed length, which only has an end
	// Unwatched leases are not looked at first: a look would not make the server track them.
	Unwatched bool

	// Guarded by Watchdog.mu; what is atomic is read without it, too:
	stage stage                 // of its renewal
	anew  bool                  // the answer to the renewal under way may describe an older state
	index int32                 // in the queue, or -1
	until atomic.Int64          // when the trust in it ends, a monotonic.Time
	ends  atomic.Int64          // when the key may end, if it is not renewed, a monotonic.Time
	sent  monotonic.Time        // when the last confirmed request was sent
	next  monotonic.Time        // when to renew, or to try again
	look  monotonic.Time        // when to look; zero for no reason to
	extra atomic.Pointer[extra] // nil for most leases
}

// An extra is what few leases have: a process may hold very many. The zero value is that of a lease without one.
type extra struct {
	looks   int            // number of reasons to look since the last confirmed request
	limit   monotonic.Time // from when on the lease is not renewed; zero for never
	bound   monotonic.Time // when the key ends, whatever a request for it says; zero for never
	sure    monotonic.Time // how long it is trusted at most because of that
	said    monotonic.Time // when the request was sent whose answer said so last
	least   atomic.Int64   // until when the key must live at least, a monotonic.Time; zero without such a request
	longer  atomic.Bool    // a request for such a time was sent, or is about to be: the server may have run it without our knowing
	failing error          // of the last try, nil after a confirmed one
	updates updates        // requests for another end
}

// noExtra is the extra of leases without one. It does not change.
var noExtra extra

// rare returns the extra of the lease, to read it.
func (l *Lease) rare() *extra {
	if x := l.extra.Load(); x != nil {
		return x
	}
	return &noExtra
}

// more returns the extra of the lease, to change it. The caller holds Watchdog.mu.
func (l *Lease) more() *extra {
	if l.extra.Load() == nil {
		l.extra.Store(new(extra))
	}
	return l.extra.Load()
}

// A stage is the state of a renewal.
type stage uint8

const (
	stageIdle   stage = iota // none is under way
	stageQueued              // it is to be sent, in its turn
	stageSent                // it is not answered
)

// Margin is the part of a lease that is not trusted: a tenth, at most three seconds.
func Margin(ttl time.Duration) time.Duration {
	return min(ttl/10, 3*time.Second)
}

// Interval is the time from one renewal of a lease to the next: a third of it.
func Interval(ttl time.Duration) time.Duration { return ttl / 3 }

// Until returns when the trust in the lease ends, by the monotonic clock.
func (l *Lease) Until() time.Time { return l.trusted().Std() }

// TrustedAt reports whether the lease is trusted at the time at.
func (l *Lease) TrustedAt(at monotonic.Time) bool { return at.Before(l.trusted()) }

// trusted is Until as a monotonic.Time.
func (l *Lease) trusted() monotonic.Time { return monotonic.Time(l.until.Load()) }

// Extended reports whether a request asked the key to live for longer than a renewal does, or is about to.
func (l *Lease) Extended() bool { return l.rare().longer.Load() }

// weight returns how much a request about the lease has the server do: the work for a lease without a Weight is 1.
func (l *Lease) weight() int {
	if h, weighs := l.Holding.(interface{ Weight() int }); weighs {
		return h.Weight()
	}
	return 1
}

// Age returns for how long it has been granted at the time at.
func (l *Lease) Age(at monotonic.Time) time.Duration { return at.Sub(l.Began()) }

// Ends returns when the key may end if it is not renewed.
func (l *Lease) Ends() time.Time { return l.end().Std() }

// end is Ends as a monotonic.Time.
func (l *Lease) end() monotonic.Time { return monotonic.Time(l.ends.Load()) }

// confirm counts the trust anew: the server has the lease for ttl from no earlier than sent. No request shortens the
// grant of another one, so answers for less, and late ones, shorten no trust. The next renewal is due after a third of
// the lease time of a renewal, also if the key lives for longer, or ends before that: a renewal also finds losses. An
// update is the exception: it may end the key early, so a request that the server may have run before it confirms no
// more than the shortest update gives. An answer does not put off a renewal that is due now, nor one for a [Watchdog.Recheck] that came
// after the request: it may be older than the reason for that. The caller holds Watchdog.mu.
func (w *Watchdog) confirm(l *Lease, sent monotonic.Time, ttl time.Duration) {
	if x := l.extra.Load(); x != nil {
		x.failing, x.looks = nil, 0
		ttl = x.updates.worth(sent, ttl)
	}
	l.trust(max(l.trusted(), sent.Add(ttl-Margin(ttl))), max(l.end(), sent.Add(ttl)))
	if !sent.Before(l.sent) {
		l.sent = sent
		if l.next.IsZero() || l.next.After(monotonic.Now()) && !sent.Before(w.recheck) {
			l.next = min(sent.Add(Interval(min(ttl, l.TTL))), l.soon(sent))
		}
	}
}

// soon returns when a lease whose key has an end is renewed next, after a request that was sent at the time sent: a renewal finds that the key lasts for longer.
// Near the end it is not renewed ever more often. The caller holds Watchdog.mu.
func (l *Lease) soon(sent monotonic.Time) monotonic.Time {
	bound := l.rare().bound
	if bound.IsZero() {
		return sent.Add(Interval(l.TTL))
	}
	return sent.Add(max(Interval(bound.Sub(sent)), l.TTL/24))
}

// overtakes reports whether the server has confirmed a request that was sent after the time sent. A refusal of one sent then does not count: that may have
// been done before, or by a server that has failed over. The caller holds Watchdog.mu.
func (l *Lease) overtakes(sent monotonic.Time) bool { return sent.Before(l.sent) }

// Patience returns for how long an answer about the lease is waited for at the time now, before the server is
// asked again: a twelfth of the lease, or a quarter of what is left of the trust in it, so that there are several
// tries even if the first grant was a short one.
func (l *Lease) Patience(now time.Time) time.Duration { return l.patience(monotonic.Of(now)) }

func (l *Lease) patience(now monotonic.Time) time.Duration {
	return min(l.TTL/12, max(l.trusted().Sub(now)/4, l.TTL/240))
}

// due returns the next moment at which the lease needs work. The caller holds Watchdog.mu.
func (l *Lease) due() monotonic.Time {
	at := l.trusted()
	if l.renews() && l.next.Before(at) {
		at = l.next
	}
	if !l.look.IsZero() && l.look.Before(at) {
		at = l.look
	}
	return at
}

// again makes a request about l due now, also during a request: the answer to that may be older. The caller holds Watchdog.mu.
func (l *Lease) again(now monotonic.Time) {
	l.next, l.anew = now, l.stage == stageSent
	if !l.renews() {
		l.look = now
	}
}

// renews reports whether the lease is renewed when it is due next. The caller holds Watchdog.mu.
func (l *Lease) renews() bool {
	limit := l.rare().limit
	return l.Renew && (limit.IsZero() || l.next.Before(limit))
}

// bounded reports whether the key ends at the end of the trust in the lease, or soon after. The caller holds Watchdog.mu.
func (l *Lease) bounded() bool {
	bound := l.rare().bound
	return !bound.IsZero() && !l.end().Before(bound)
}

// length returns the lease time to ask for at the time now.
//
// A look asks for the rest of the trust and half the margin: less than the server has given, so
// that it writes nothing, and enough to restore a time to live that another client has shortened.
// The caller holds Watchdog.mu.
func (l *Lease) length(now monotonic.Time, looks bool) time.Duration {
	if looks {
		return max(0, l.end().Sub(now)-l.end().Sub(l.trusted())/2)
	}
	return max(l.TTL, monotonic.Time(l.rare().least.Load()).Sub(now))
}

// overdue returns the reason why the trust in the lease ended by the clock. The caller holds Watchdog.mu.
func (l *Lease) overdue() error {
	switch {
	case !l.Renew, l.bounded():
		return ErrElapsed
	case !l.renews():
		return ErrTooLong
	}
	return &UnconfirmedError{For: l.trusted().Sub(l.sent), Last: l.rare().failing}
}
