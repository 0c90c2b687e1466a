// Package watchdog renews leases and reports when one can no longer be trusted.
//
// One goroutine serves all leases of a client, and sends what is due in the order of the deadlines. Each lease is renewed every third of its
// length, many in one batch. A confirmed lease is trusted until the moment the request was sent, plus the lease, less a
// margin: the server began to count later than that, so the trust ends before the key can expire.
//
//	sent          renewed         renewed               trust ends   key expires
//	|--- lease/3 ---|--- lease/3 ---|--- ... no answer ... ---|- margin -|
//
// A renewal has three outcomes. Confirmed: trust is counted anew. Refused: the key is
// not the owner's any more, and the lease is lost at once. Unknown: the trust stays what it
// was, and the renewal is tried again until the trust ends: after a twelfth of the lease, or after
// a quarter of the trust that is left if that is shorter; after an error, within a second.
//
// Leases that one server has share a lane. A bounded number of requests is under way in it, and a renewal
// that is under way is not sent again as long as the server answers others. If the server answers nothing, a few
// requests more are sent beside those that have no answer.
//
// Besides, the server can be asked at any time whether it still has a lease, without renewing it: a
// look. A yes changes nothing; after a no the lease is lost, as after a refused renewal.
package watchdog

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/trace"
)

// The causes of losses.
var (
	// ErrRefused means that the server does not know the owner any more.
	ErrRefused = errors.New("deleted, expired or taken by somebody else")
	// ErrForced means that somebody took the key by force, and the holder was notified of that. It is an [ErrRefused].
	ErrForced error = forcedError{}
	// ErrElapsed means that a lease of fixed length is over.
	ErrElapsed = errors.New("its time is over")
	// ErrTooLong means that a lease was no longer renewed, because its holder held it for too long.
	ErrTooLong = errors.New("held for longer than the limit")
)

type forcedError struct{}

func (forcedError) Error() string        { return "taken by force" }
func (forcedError) Is(target error) bool { return target == ErrRefused }

// An UnconfirmedError means that no renewal was confirmed for as long as the last confirmation
// could be trusted.
type UnconfirmedError struct {
	For  time.Duration // since the last confirmed request was sent
	Last error         // of the last try that failed; nil if none was answered
}

// Error tells for how long no renewal was confirmed, and the last error.
func (e *UnconfirmedError) Error() string {
	if e.Last == nil {
		return fmt.Sprintf("no answer to its renewal for %v", e.For)
	}
	return fmt.Sprintf("not renewed for %v: %v", e.For, e.Last)
}

// Unwrap returns the last error, or nil.
func (e *UnconfirmedError) Unwrap() error { return e.Last }

// A Renewer asks the server to keep leases of one kind and group, each for at least its ttl. It returns the outcome of
// each: nil, [ErrRefused], or another error when it is unknown.
type Renewer func(leases []*Lease, ttls []time.Duration) []error

// A Watchdog renews leases. Its methods may be called from any goroutine.
type Watchdog struct {
	renew    Renewer
	observe  func(l *Lease, err error)
	traced   Tracer
	batch    func() int
	group    func(l *Lease) uint16
	poke     chan struct{} // one token: the earliest deadline may have changed
	closing  chan struct{}
	requests sync.WaitGroup // the loop, and each batch under way

	mu      sync.Mutex
	first   time.Duration  // how long after its start a lease is looked at; 0 for not at all
	recheck monotonic.Time // of the last Recheck
	queue   queue
	lanes   map[laneID]*lane // with something to send, or under way
	armed   monotonic.Time   // when the loop looks again at the latest
	looping sync.Once        // starts the loop
	closed  bool
}

// New returns a watchdog that renews by renew. Before each call of renew, most says how many leases it has at most.
// observe, if not nil, gets every try and its outcome. Neither most nor observe may block.
func New(renew Renewer, most func() int, observe func(l *Lease, err error)) *Watchdog {
	return &Watchdog{
		renew:   renew,
		observe: observe,
		batch:   most,
		group:   func(*Lease) uint16 { return 0 },
		poke:    make(chan struct{}, 1),
		closing: make(chan struct{}),
		lanes:   map[laneID]*lane{},
	}
}

// Group has leases of different groups, as of different servers, never renewed by one call, and none wait for those of
// another. It is called before the first Start. Its result for a lease may change.
func (w *Watchdog) Group(group func(l *Lease) uint16) { w.group = group }

// A Tracer is called before a request about a lease, and when its renewal is confirmed: then with the time when the key
// may end. It is called under locks and must not block.
type Tracer func(a trace.Action, l *Lease, ends monotonic.Time)

// Trace sets the tracer of all leases. Call it before the first Start.
func (w *Watchdog) Trace(f Tracer) { w.traced = f }

// First makes leases that are started from now on due for a look when d is over, or for a renewal
// if they were granted for less than they ask for. With 0, the default, they wait for their first
// renewal.
func (w *Watchdog) First(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.first = d
}

// Start guards l, which the server granted no earlier than at sent, for ttl at first. The first
// lease starts the goroutine.
func (w *Watchdog) Start(l *Lease, sent time.Time, ttl time.Duration) {
	if w.Guard(l, sent, ttl) {
		w.Hurry()
	}
}

// Guard is Start for a caller that has something more urgent to do than to wake the goroutine, which takes longer than all else here.
// If sooner is true, l is due before the goroutine looks again: the caller then calls Hurry in a moment.
func (w *Watchdog) Guard(l *Lease, sent time.Time, ttl time.Duration) (sooner bool) {
	l.index = -1
	asked := monotonic.Of(sent)
	w.mu.Lock()
	defer w.mu.Unlock()
	l.stage, l.anew, l.next = stageIdle, false, 0
	w.confirm(l, asked, ttl)
	// A Recheck finds the leases that were started before it. This one was only asked for before: the server may have lost it since.
	if asked.Before(w.recheck) {
		l.again(l.Began())
	} else if first := w.first; first > 0 && !l.Unwatched {
		at := l.Began().Add(first) // not sent: a slow server is not asked more often for it
		if l.Renew && ttl < l.TTL && at.Before(l.next) {
			l.next = at
		} else {
			l.look = at
		}
	}
	if w.closed {
		return false
	}
	w.looping.Do(func() { w.requests.Go(w.loop) })
	w.queue.add(l)
	return w.arm(l)
}

// Hurry makes the goroutine look again, after a Guard that asks for it.
func (w *Watchdog) Hurry() {
	select {
	case w.poke <- struct{}{}:
	default:
	}
}

// Stop ends guarding l and reports whether it was guarded: false means that Lost has
// been called, or is about to be.
func (w *Watchdog) Stop(l *Lease) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.remove(l)
}

// Lose ends guarding l as if the server had refused it, for a caller that knows of the loss before
// the next renewal. It does nothing to a lease that is not guarded.
func (w *Watchdog) Lose(l *Lease, cause error) {
	w.mu.Lock()
	guarded := w.remove(l)
	w.mu.Unlock()
	if guarded {
		l.Lost(cause)
	}
}

// Refused is Lose for a caller whose request, sent at the time sent, the server has refused. If the server has confirmed a later request, Refused returns
// false instead, and l is looked at: the refusal may be older than that, or from a server that has failed over.
func (w *Watchdog) Refused(l *Lease, sent time.Time) bool {
	w.mu.Lock()
	overtaken := l.index >= 0 && l.overtakes(monotonic.Of(sent))
	w.mu.Unlock()
	if overtaken {
		w.Look(l)
		return false
	}
	w.Lose(l, ErrRefused)
	return true
}

// Check returns nil while l can be trusted by the clock, then the cause of its loss. It does not
// wait for the loop, for example after the process was paused.
func (w *Watchdog) Check(l *Lease) error {
	if monotonic.Now().Before(l.trusted()) {
		return nil
	}
	w.mu.Lock()
	cause := l.overdue()
	w.mu.Unlock()
	w.Lose(l, cause)
	return cause
}

// Limit stops the renewal of l from at on; the zero time lifts an earlier limit.
func (w *Watchdog) Limit(l *Lease, at time.Time) {
	limit := monotonic.Of(at)
	w.change(l, func() {
		if limit != l.rare().limit {
			l.more().limit = limit
		}
	})
}

// Extends records that the server is about to be asked to keep l for longer than a renewal does, whatever becomes of the request.
func (w *Watchdog) Extends(l *Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.more().longer.Store(true)
}

// Bound records what the answer to a request that was sent at sent says of the end of the key of l: it ends lasts later, whatever a request for l
// says, or does not, if lasts is negative. l is trusted for no longer, and renewed before, until the answer to a later request says something else.
func (w *Watchdog) Bound(l *Lease, sent time.Time, lasts time.Duration) {
	asked := monotonic.Of(sent)
	w.change(l, func() {
		x := l.rare()
		if asked.Before(l.sent) || asked.Before(x.said) || lasts < 0 && x.bound.IsZero() {
			return
		}
		x = l.more()
		x.said, x.bound, x.sure = asked, 0, 0
		if lasts < 0 {
			l.next = min(l.next, monotonic.Now()) // which gives it the trust that the bound has taken
			return
		}
		x.bound, x.sure = asked.Add(lasts), asked.Add(lasts-Margin(lasts))
		l.trust(l.trusted(), l.end())
		l.next = min(l.next, l.soon(asked))
	})
}

// Extend records that the server was asked at sent to keep l for ttl, and has confirmed it. Later
// renewals, which come as often as before, do not shorten that.
func (w *Watchdog) Extend(l *Lease, sent time.Time, ttl time.Duration) {
	asked := monotonic.Of(sent)
	w.change(l, func() {
		if l.index < 0 { // stopped or lost meanwhile, which it stays
			return
		}
		w.confirm(l, asked, ttl)
		if w.traced != nil {
			w.traced(trace.Renewed, l, l.end())
		}
		l.more().least.Store(max(l.rare().least.Load(), int64(asked.Add(ttl))))
	})
}

// change changes l, which may change its due time.
func (w *Watchdog) change(l *Lease, f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	if l.index >= 0 {
		w.queue.fix(l)
		w.wake(l)
	}
}

// Recheck renews every lease now instead of in its turn, and looks at those that are not renewed,
// for a caller that has reason to think that the server may have lost them.
func (w *Watchdog) Recheck() { w.RecheckOf(func(string) bool { return true }) }

// RecheckOf is Recheck for the leases of some keys. A lease that is started later, but was asked for before, is renewed at once whatever its
// key is.
func (w *Watchdog) RecheckOf(some func(key string) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := monotonic.Now()
	w.recheck = now
	w.regroup(now)
	for l := range w.queue.all() {
		if some(l.Key()) {
			l.again(now)
			w.queue.fix(l)
			w.wake(l)
		}
	}
}

// Each calls f with the key of every lease.
func (w *Watchdog) Each(f func(key string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for l := range w.queue.all() {
		f(l.Key())
	}
}

// Leases returns guarded leases: all, or at most most if that is more than 0. rest is the number that it leaves out.
func (w *Watchdog) Leases(most int) (some []*Lease, rest int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.queue.size
	if most > 0 {
		n = min(n, most)
	}
	some = make([]*Lease, n)
	for i := range some {
		some[i] = w.queue.at(i)
	}
	return some, w.queue.size - n
}

const (
	// lookPause is how long the second reason to look at a lease waits; each further one waits twice as
	// long as the one before. The second is not always a false alarm: a key that was lost and granted again is
	// reported once for that, and the holder is to know of the next loss within 10 ms all the same.
	lookPause = 5 * time.Millisecond

	// longestLookPause is how long a reason to look waits at most. A client that shortens the life of a key again and
	// again, to more than a few times this, does not end it: each look restores it.
	longestLookPause = 20 * time.Millisecond
)

// Look checks l now, for a caller that learned of a change of its key. After each check that finds the lease unchanged,
// the next one waits, longer each time up to longestLookPause, until its next renewal: endless false alarms cost a
// bounded number of requests.
func (w *Watchdog) Look(l *Lease) {
	w.change(l, func() {
		at := monotonic.Now()
		x := l.more()
		if x.looks > 0 {
			at = at.Add(min(lookPause<<(min(x.looks, 16)-1), longestLookPause))
		}
		x.looks++
		if l.look.IsZero() || at.Before(l.look) {
			l.look = at
		}
	})
}

// Close ends the goroutine and waits for it and for the requests under way. Leases are no longer
// renewed; Close reports none of them lost.
func (w *Watchdog) Close() {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.closing)
		for l := range w.queue.all() {
			l.index = -1
		}
		w.queue = queue{}
		for _, ln := range w.lanes {
			ln.queue = nil
		}
	}
	w.mu.Unlock()
	w.requests.Wait()
}

func (w *Watchdog) remove(l *Lease) bool {
	if l.index < 0 {
		return false
	}
	w.queue.remove(l)
	return true
}

// wake makes the loop look again if l, which is in the queue, is due before it would. Usually it is not: locks that come and go leave the loop
// asleep, since it stays armed for the first of them after that has gone.
func (w *Watchdog) wake(l *Lease) {
	if w.arm(l) {
		w.Hurry()
	}
}

// arm reports whether the loop has to be woken for l.
func (w *Watchdog) arm(l *Lease) bool {
	due := l.due()
	if !due.Before(w.armed) {
		return false
	}
	w.armed = due
	return true
}

func (w *Watchdog) loop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		w.pass()
		w.mu.Lock()
		timer.Reset(monotonic.Until(w.armed))
		w.mu.Unlock()
		select {
		case <-w.closing:
			return
		case <-w.poke:
		case <-timer.C:
		}
	}
}
