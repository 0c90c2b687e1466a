package composite

import (
	"slices"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/locks"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/policy"
	"github.com/lockgen/lockgen/runtime/internal/resource"
	"github.com/lockgen/lockgen/runtime/internal/trace"
)

// quorumQueues are the wait queues of this process for RedLocks. Only the first waiter of a queue asks the servers:
// several waiters of one process would refuse each other, and would ask the servers in vain. It stays the first until
// its lease is over. Then the next one gets its grants, for a while without a request to the servers.
type quorumQueues struct {
	mu  sync.Mutex              // guards the rest; held with quorumAcquire.mu, taken after it
	all map[string]*quorumQueue // by quorumAcquire.queueKey
}

// A quorumQueue is one wait queue.
type quorumQueue struct {
	acquires []*quorumAcquire
	answers  engine.Answers // of the servers to the first waiter
}

// queuesOf returns the queues of c.
func queuesOf(c *locks.Client) *quorumQueues {
	return resource.QueuesOf(c.Base(), func() *quorumQueues { return new(quorumQueues) })
}

// join adds e to the end of its queue and reports whether it is the first.
func (r *quorumQueues) join(e *quorumAcquire) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[string]*quorumQueue{}
	}
	q := r.all[e.queueKey]
	if q == nil {
		q = &quorumQueue{}
		r.all[e.queueKey] = q
	}
	q.acquires = append(q.acquires, e)
	return q.acquires[0] == e
}

// headed returns the queue that e is the first of, or nil. The caller holds r.mu.
func (r *quorumQueues) headed(e *quorumAcquire) *quorumQueue {
	if q := r.all[e.queueKey]; q != nil && q.acquires[0] == e {
		return q
	}
	return nil
}

// record records something of the answers of the servers to e, if e is the first of a queue.
func (r *quorumQueues) record(e *quorumAcquire, what func(*engine.Answers)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.headed(e); q != nil {
		what(&q.answers)
	}
}

// first returns the first waiter in the queue of e, and the last answers to the first waiters; nil if e is in none.
func (r *quorumQueues) first(e *quorumAcquire) (*quorumAcquire, engine.AnswerLog) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.all[e.queueKey]; q != nil {
		return q.acquires[0], q.answers.Look()
	}
	return nil, engine.AnswerLog{}
}

// leave removes e from the queue, if it is there. If it was the first, the next one has the turn, after a pause.
func (r *quorumQueues) leave(e *quorumAcquire, pause time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.remove(e) || r.all[e.queueKey] == nil {
		return
	}
	next := r.all[e.queueKey].acquires[0]
	if pause == 0 {
		next.w.Notify(engine.Event{Kind: engine.Turn})
		return
	}
	time.AfterFunc(pause, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.headed(next) != nil {
			next.w.Notify(engine.Event{Kind: engine.Turn})
		}
	})
}

// remove removes e from the queue, and reports whether it was the first.
func (r *quorumQueues) remove(e *quorumAcquire) (first bool) {
	q := r.all[e.queueKey]
	if q == nil {
		return false
	}
	i := slices.Index(q.acquires, e)
	switch {
	case i < 0:
		return false
	case len(q.acquires) == 1:
		delete(r.all, e.queueKey)
	default:
		q.acquires = slices.Delete(q.acquires, i, i+1)
		if i == 0 {
			q.answers.Ignores() // the answers to its requests do not matter any more
		}
	}
	return i == 0
}

// behind returns the waiter after e, the first, or nil.
func (r *quorumQueues) behind(e *quorumAcquire) *quorumAcquire {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.headed(e); q != nil && len(q.acquires) > 1 {
		return q.acquires[1]
	}
	return nil
}

// advance makes next, which is behind e, the first, and reports whether it could.
func (r *quorumQueues) advance(e, next *quorumAcquire) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.headed(e)
	return q != nil && len(q.acquires) > 1 && q.acquires[1] == next && r.remove(e)
}

// EachWaiting calls f for the calls that wait for the RedLock of key, or for all if key is empty.
func (r *quorumQueues) EachWaiting(key string, f func(w *resource.Waiter, kind, key string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range r.all {
		for i, e := range q.acquires {
			if (key == "" || e.m.key == key) && (i > 0 || e.began.Load() == 0) { // the first one stays in the queue until its lease is over
				f(e.w, core.KindRedLock, e.m.key)
			}
		}
	}
}

// pass gives the grants of e to the next waiter, on the same terms, and returns the composite lease of its parts, or
// nil. The next waiter gets the trusted parts that no other call has re-entered; the rest is left to release.
func (e *quorumAcquire) pass(parts []*leases.Lease) (successor *compositeLease, rest []*leases.Lease) {
	c := e.m.parts[0].Client()
	next := queuesOf(c).behind(e)
	if next == nil || next.cfg.Terms != e.cfg.Terms || next.cfg.Fenced || next.cfg.MaxHold > 0 || e.cfg.MaxHold > 0 ||
		c.Base().Settings.Cohort == 1 || e.passedFor() >= resource.LocalPassLimit || !c.Base().Granting() {
		return nil, parts
	}
	var passed []*leases.Lease
	at := monotonic.Now()
	for _, part := range parts {
		l := leases.New(part.Core().Client(), part.Core().Kind(), next.ctx)
		l.Core().Label = next.cfg.Label
		g, _, ok := policy.MutexGrant(part.Core().Grant)
		if ok && resource.CanPass(part.Core().Client(), at, part.Core().Guard(), e.cfg.Terms, e.cfg.Terms, engine.Tokens{}) && g.Succeed(part, l) {
			part.Core().End(failure.ErrReleased)
			passed = append(passed, l)
		} else {
			rest = append(rest, part)
		}
	}
	if len(passed) < e.m.needs() || !next.inherit(e, passed) {
		return nil, append(passed, rest...)
	}
	c.Base().Counts.Local.Add(1)
	return compositeOf(next.whole), rest
}

// inherit makes parts, the grants of e, the lease of next, and reports whether next still wants it.
func (next *quorumAcquire) inherit(e *quorumAcquire, parts []*leases.Lease) bool {
	next.mu.Lock()
	defer next.mu.Unlock()
	if next.left || !queuesOf(e.m.parts[0].Client()).advance(e, next) {
		return false
	}
	next.began.Store(e.began.Load())
	next.rounds.Took.Store(int64(e.took()))
	next.whole.Core().Came = leases.FromHere
	tr := compositeOf(e.whole).tr
	for _, part := range parts {
		tr.Part(trace.Passes, 0, part.Traced())
	}
	next.compose(parts, tr)
	next.w.Notify(engine.Event{Kind: engine.Given})
	return true
}

// passedFor returns for how long the lock has circulated in this process.
func (e *quorumAcquire) passedFor() time.Duration {
	return monotonic.Now().Sub(monotonic.Time(e.began.Load()))
}

// after handles the end of the lease. Waiters of other processes ask within a moment, and before the next one here if
// the lock circulated for long.
func (e *quorumAcquire) after() {
	pause := time.Duration(0)
	if e.passedFor() >= resource.LocalPassLimit {
		pause = time.Millisecond + 3*e.took()
	}
	queuesOf(e.m.parts[0].Client()).leave(e, pause)
}
