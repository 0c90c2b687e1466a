// Package watchdog keeps leases alive and says when one can no longer be trusted.
//
// One goroutine serves all leases of a client, earliest deadline first. Each lease is
// renewed every third of its length, many in one batch. What the server confirmed is
// trusted until the moment the request was sent, plus the lease, less a margin: the
// server began to count later than that, so the trust ends before the key can expire.
//
//	sent          renewed         renewed               trust ends   key expires
//	|--- lease/3 ---|--- lease/3 ---|--- ... no answer ... ---|- margin -|
//
// A renewal has three outcomes. Confirmed: trust is counted anew. Refused: the key is
// not the owner's any more, which is believed at once. Unknown: the trust stays what it
// was and the renewal is tried again, every twelfth of the lease, until trust runs out.
// A request that hangs does not keep the next try from being sent.
//
// Besides, the server can be asked at any time whether it still has a lease, without renewing it: a
// look. A yes changes nothing, a no is believed like that to a renewal.
package watchdog

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// Causes that a lost lease is reported with.
var (
	// ErrRefused says that the server does not know the owner any more.
	ErrRefused = errors.New("deleted, expired or taken by somebody else")
	// ErrElapsed says that a lease of fixed length is over.
	ErrElapsed = errors.New("its time is over")
	// ErrTooLong says that a lease was no longer renewed, because it was held for too long.
	ErrTooLong = errors.New("held for longer than the limit")
)

// An UnconfirmedError says that no renewal was confirmed for as long as the last
// confirmation could be trusted.
type UnconfirmedError struct {
	For  time.Duration // since the last confirmed request was sent
	Last error         // of the last try that failed; nil if none was answered
}

// Error says for how long nothing was confirmed, and how the last try failed.
func (e *UnconfirmedError) Error() string {
	if e.Last == nil {
		return fmt.Sprintf("no answer to its renewal for %v", e.For)
	}
	return fmt.Sprintf("not renewed for %v: %v", e.For, e.Last)
}

// Unwrap returns how the last try failed, or nil.
func (e *UnconfirmedError) Unwrap() error { return e.Last }

// A Holding is what a lease is of. What it says of itself does not change.
type Holding interface {
	Kind() string // leases of different kinds are never in one batch
	Key() string
	Owner() string
	// Lost is called once, when the lease is lost, with one of the causes above. It
	// must not block. It is not called after Stop has returned true.
	Lost(cause error)
}

// A Lease is what the watchdog guards. Its exported fields are set before [Watchdog.Start]
// and not changed after.
type Lease struct {
	Holding

	TTL   time.Duration // what each renewal asks for
	Renew bool          // false for a lease of fixed length, which only has an end
	// Unwatched leases are not looked at first: looking at them has the server watch nothing.
	Unwatched bool

	index int          // in the heap, or -1; guarded by Watchdog.mu
	until atomic.Int64 // when the trust in it ends, a monotonic.Time; written under mu

	mu      sync.Mutex     // guards the rest; taken after Watchdog.mu
	sent    monotonic.Time // when the last confirmed request was sent
	ends    monotonic.Time // when the key may end, if it is not renewed
	next    monotonic.Time // when to renew, or to try again
	look    monotonic.Time // when to look; zero for no reason to
	looks   int            // times that there was one since the last confirmed request
	limit   monotonic.Time // from when on it is not renewed; zero for never
	least   monotonic.Time // until when the key is to live at least; zero if nobody asked for more
	failing error          // of the last try, nil after a confirmed one
}

// Margin is what is taken off a lease when trusting it: a tenth, at most three seconds.
func Margin(ttl time.Duration) time.Duration {
	return min(ttl/10, 3*time.Second)
}

// Until returns when the trust in the lease ends, by the monotonic clock.
func (l *Lease) Until() time.Time { return l.trusted().Std() }

// trusted is Until as it is kept.
func (l *Lease) trusted() monotonic.Time { return monotonic.Time(l.until.Load()) }

// Extended reports whether the key was asked to live for longer than each renewal asks for.
func (l *Lease) Extended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.least.IsZero()
}

// Ends returns when the key may end if it is not renewed.
func (l *Lease) Ends() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ends.Std()
}

// confirm counts the trust anew: the server has the lease for ttl from no earlier than sent. No request
// takes back what another one was granted, so answers for less, and those that were overtaken, take back
// no trust.
func (l *Lease) confirm(sent monotonic.Time, ttl time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failing = nil
	l.looks = 0
	l.until.Store(int64(max(l.trusted(), sent.Add(ttl-Margin(ttl)))))
	l.ends = max(l.ends, sent.Add(ttl))
	if !sent.Before(l.sent) {
		l.sent = sent
		l.next = sent.Add(ttl / 3)
	}
}

// due returns the next moment at which something has to be done for the lease.
func (l *Lease) due() monotonic.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.trusted()
	if l.renews() && l.next.Before(at) {
		at = l.next
	}
	if !l.look.IsZero() && l.look.Before(at) {
		at = l.look
	}
	return at
}

// renews reports whether the lease is renewed when it is due next.
func (l *Lease) renews() bool {
	return l.Renew && (l.limit.IsZero() || l.next.Before(l.limit))
}

// length returns for how long to ask at the time now.
//
// A look asks for what is trusted and half the margin: less than the server has given, so that it
// writes nothing, and as much as restores what somebody else has shortened.
func (l *Lease) length(now monotonic.Time, looks bool) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if looks {
		return max(0, l.ends.Sub(now)-l.ends.Sub(l.trusted())/2)
	}
	return max(l.TTL, l.least.Sub(now))
}

// A Renewer asks the server to have leases of one kind, each for at least its ttl. It returns one answer for each,
// or an error when the outcome is unknown for all of them.
type Renewer func(leases []*Lease, ttls []time.Duration) (renewed []bool, err error)

// A Watchdog renews leases. Its methods may be called from any goroutine.
type Watchdog struct {
	renew    Renewer
	observe  func(l *Lease, err error)
	batch    int
	group    func(l *Lease) uint16
	poke     chan struct{} // one token: the earliest deadline may have changed
	closing  chan struct{}
	requests sync.WaitGroup // the loop, and each batch under way

	mu      sync.Mutex
	first   time.Duration  // how long after its start a lease is looked at; 0 for not at all
	recheck monotonic.Time // of the last Recheck
	queue   queue
	armed   monotonic.Time // when the loop looks again at the latest
	started bool
	closed  bool
}

// New returns a watchdog that renews at most batch leases by one call of renew.
// observe, if not nil, is told of every try and its outcome and must not block.
func New(renew Renewer, batch int, observe func(l *Lease, err error)) *Watchdog {
	return &Watchdog{
		renew:   renew,
		observe: observe,
		batch:   batch,
		group:   func(*Lease) uint16 { return 0 },
		poke:    make(chan struct{}, 1),
		closing: make(chan struct{}),
	}
}

// Group has leases of different groups never renewed by one call. It is called before the first Start.
func (w *Watchdog) Group(group func(l *Lease) uint16) { w.group = group }

// First has leases that are started from now on looked at when d is over, or renewed if they were
// granted for less than they ask for. With 0, the default, they wait for their first renewal.
func (w *Watchdog) First(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.first = d
}

// Start guards l, which the server granted no earlier than at sent, for ttl at first. The first
// lease starts the goroutine.
func (w *Watchdog) Start(l *Lease, sent time.Time, ttl time.Duration) {
	l.index = -1
	asked := monotonic.Of(sent)
	l.confirm(asked, ttl)
	w.mu.Lock()
	defer w.mu.Unlock()
	// A Recheck after First(d) finds every lease that was started before that, and those that were asked for before.
	if asked.Before(w.recheck) {
		l.again(monotonic.Now())
	} else if first := w.first; first > 0 && !l.Unwatched {
		at := monotonic.Now().Add(first) // not sent: a slow server is not asked more often for it
		l.mu.Lock()
		if l.Renew && ttl < l.TTL && at.Before(l.next) {
			l.next = at
		} else {
			l.look = at
		}
		l.mu.Unlock()
	}
	if w.closed {
		return
	}
	if !w.started {
		w.started = true
		w.requests.Go(w.loop)
	}
	heap.Push(&w.queue, l)
	w.wake(l)
}

// Stop ends guarding l and reports whether it was guarded: false means that Lost has
// been called, or is about to be.
func (w *Watchdog) Stop(l *Lease) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.remove(l)
}

// Lose ends guarding l as if the server had refused it, for a caller who knows better
// than to wait for the next renewal. Nothing happens to a lease that is not guarded.
func (w *Watchdog) Lose(l *Lease, cause error) {
	w.mu.Lock()
	guarded := w.remove(l)
	w.mu.Unlock()
	if guarded {
		l.Lost(cause)
	}
}

// Check returns nil while l can be trusted by the clock, then the cause of its loss. It need
// not wait for the loop to get round to it, as after the process was stopped.
func (w *Watchdog) Check(l *Lease) error {
	if monotonic.Now().Before(l.trusted()) {
		return nil
	}
	cause := l.overdue()
	w.Lose(l, cause)
	return cause
}

// Limit has l not renewed any more from at on; the zero time lifts an earlier limit.
func (w *Watchdog) Limit(l *Lease, at time.Time) {
	w.change(l, func() { l.limit = monotonic.Of(at) })
}

// Extend notes that the server was asked at sent to keep l for ttl, and has confirmed it. Later
// renewals do not take back what is left of it.
func (w *Watchdog) Extend(l *Lease, sent time.Time, ttl time.Duration) {
	asked := monotonic.Of(sent)
	l.confirm(asked, ttl)
	w.change(l, func() { l.least = max(l.least, asked.Add(ttl)) })
}

// change makes a change to l, which may change when it is due.
func (w *Watchdog) change(l *Lease, f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.mu.Lock()
	f()
	l.mu.Unlock()
	if l.index >= 0 {
		heap.Fix(&w.queue, l.index)
		w.wake(l)
	}
}

// Recheck renews every lease now instead of in its turn, and looks at those that are not renewed, for
// a caller who has reason to think that the server may have forgotten them.
func (w *Watchdog) Recheck() { w.RecheckOf(func(string) bool { return true }) }

// RecheckOf is Recheck for the leases of some keys. Of those that are started later every one counts as one of them.
func (w *Watchdog) RecheckOf(some func(key string) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := monotonic.Now()
	w.recheck = now
	for _, l := range w.queue {
		if some(l.Key()) {
			l.again(now)
		}
	}
	heap.Init(&w.queue)
	if len(w.queue) > 0 {
		w.wake(w.queue[0])
	}
}

// Each calls f with the key of every lease.
func (w *Watchdog) Each(f func(key string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.queue {
		f(l.Key())
	}
}

// again has the server asked about l now.
func (l *Lease) again(now monotonic.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = now
	if !l.renews() {
		l.look = now
	}
}

// lookPause is how long the second reason to look at a lease waits; each further one waits twice as
// long as the one before. The second is not always a false alarm: a key that was lost and granted again is
// told of once for that, and the holder is to know of the next loss within 10 ms all the same.
const lookPause = 5 * time.Millisecond

// Look looks at l now, for a caller who was told that somebody changed it. Who has it looked at again
// and again, and is answered each time that it is still there, has to wait, longer each time, until
// its next renewal: an alarm that rings without end costs a bounded number of requests.
func (w *Watchdog) Look(l *Lease) {
	w.change(l, func() {
		at := monotonic.Now()
		if l.looks > 0 {
			at = at.Add(lookPause << (min(l.looks, 16) - 1))
		}
		l.looks++
		if l.look.IsZero() || at.Before(l.look) {
			l.look = at
		}
	})
}

// Close ends the goroutine and waits for it and for the requests under way. Leases are
// no longer renewed; none of them is reported lost.
func (w *Watchdog) Close() {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.closing)
		for _, l := range w.queue {
			l.index = -1
		}
		w.queue = nil
	}
	w.mu.Unlock()
	w.requests.Wait()
}

func (w *Watchdog) remove(l *Lease) bool {
	if l.index < 0 {
		return false
	}
	heap.Remove(&w.queue, l.index)
	return true
}

// wake makes the loop look again if l is due before it would. Mostly it is not: locks that
// come and go leave the loop asleep.
func (w *Watchdog) wake(l *Lease) {
	if !l.due().Before(w.armed) {
		return
	}
	select {
	case w.poke <- struct{}{}:
	default:
	}
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

// pass does what is due.
func (w *Watchdog) pass() {
	now := monotonic.Now()
	var lost []*Lease
	var due []request

	w.mu.Lock()
	for len(w.queue) > 0 {
		l := w.queue[0]
		if !now.Before(l.trusted()) {
			heap.Pop(&w.queue)
			lost = append(lost, l)
			continue
		}
		// Once something is due, what is nearly due joins its batch.
		slack := time.Duration(0)
		if len(due) > 0 {
			slack = l.TTL / 24
		}
		// next and not due: trust that is about to end is no reason to renew, and would stay one.
		l.mu.Lock()
		renew := l.renews() && !l.next.After(now.Add(slack))
		look := !l.look.IsZero() && !l.look.After(now)
		if renew {
			l.next = now.Add(l.TTL / 12) // unless answered before
		}
		if look {
			l.look = 0 // unless there is another reason
		}
		l.mu.Unlock()
		if !renew && !look {
			break
		}
		heap.Fix(&w.queue, l.index)
		due = append(due, request{l, !renew, w.group(l)})
	}
	w.armed = now.Add(time.Hour)
	if len(w.queue) > 0 {
		w.armed = w.queue[0].due()
	}
	if !w.closed {
		slices.SortStableFunc(due, request.compare)
		for len(due) > 0 {
			n := 1
			for n < min(len(due), w.batch) && due[n].compare(due[0]) == 0 {
				n++
			}
			batch := due[:n]
			due = due[n:]
			w.requests.Go(func() { w.send(batch, now) })
		}
	}
	w.mu.Unlock()

	for _, l := range lost {
		l.Lost(l.overdue())
	}
}

// A request is what the server is asked about a lease: to renew it, or only whether it has it.
type request struct {
	lease *Lease
	looks bool
	group uint16
}

// compare sorts requests by what may be in one batch.
func (r request) compare(other request) int {
	if order := strings.Compare(r.lease.Kind(), other.lease.Kind()); order != 0 {
		return order
	}
	return cmp.Compare(r.group, other.group)
}

// send asks about a batch and settles each lease of it. The answers count from now, before
// the request: a slow one must not stretch the trust.
func (w *Watchdog) send(batch []request, now monotonic.Time) {
	leases := make([]*Lease, len(batch))
	ttls := make([]time.Duration, len(batch))
	for i, r := range batch {
		leases[i], ttls[i] = r.lease, r.lease.length(now, r.looks)
	}
	renewed, err := w.renew(leases, ttls)
	for i, l := range leases {
		outcome := err
		switch {
		case err != nil:
			soon := monotonic.Now().Add(min(l.TTL/12, time.Second))
			w.change(l, func() {
				switch {
				case !batch[i].looks:
					l.failing = err
					if soon.Before(l.next) {
						l.next = soon
					}
				case l.look.IsZero() || soon.Before(l.look):
					l.look = soon
				}
			})
		case renewed[i] && batch[i].looks: // as was known
		case renewed[i]:
			w.mu.Lock()
			if l.index >= 0 {
				l.confirm(now, ttls[i])
				heap.Fix(&w.queue, l.index)
				w.wake(l)
			}
			w.mu.Unlock()
		default:
			outcome = ErrRefused
			w.Lose(l, ErrRefused)
		}
		if w.observe != nil && !batch[i].looks {
			w.observe(l, outcome)
		}
	}
}

// overdue explains why the trust in the lease ended by the clock.
func (l *Lease) overdue() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.Renew:
		return ErrElapsed
	case !l.renews():
		return ErrTooLong
	}
	return &UnconfirmedError{For: l.trusted().Sub(l.sent), Last: l.failing}
}

// queue is a heap of leases by the moment at which something is due.
type queue []*Lease

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due().Before(q[j].due()) }

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *queue) Push(x any) {
	l := x.(*Lease)
	l.index = len(*q)
	*q = append(*q, l)
}

func (q *queue) Pop() any {
	old := *q
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	l.index = -1
	return l
}
