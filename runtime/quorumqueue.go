package lockrt

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// A quorumQueues are where those of this process stand who want one red lock. Only the first of them asks the servers: those of
// one process would be refused by each other, and by the servers they asked in vain. It stays the first until its lease is
// over, and then the next one has that, for a while, without a word to the servers.
type quorumQueues struct {
	pace atomic.Int64 // how long the server took to answer of late, or before that for longer; 0 if it never did

	mu  sync.Mutex              // guards the rest; held with quorumAcquire.mu, taken after it
	all map[string]*quorumQueue // by RedLock.queueKey
}

// A quorumQueue is one wait queue.
type quorumQueue struct {
	acquires []*quorumAcquire
	answers  answerLog // by the servers, to the first of them
}

// answered notes how long the server took to answer.
func (r *quorumQueues) answered(took time.Duration) {
	r.pace.Store(max(int64(took), r.pace.Load()/2))
}

// join puts e at the end of its line and reports whether it is the first.
func (r *quorumQueues) join(e *quorumAcquire) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[string]*quorumQueue{}
	}
	q := r.all[e.m.queueKey]
	if q == nil {
		q = &quorumQueue{}
		r.all[e.m.queueKey] = q
	}
	q.acquires = append(q.acquires, e)
	return q.acquires[0] == e
}

// asks notes that e asks the servers, if it does so for a line.
func (r *quorumQueues) asks(e *quorumAcquire) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.all[e.m.queueKey]; q != nil && q.acquires[0] == e {
		q.answers.asks()
	}
}

// says notes what the servers said to e, as answerLog.says does.
func (r *quorumQueues) says(e *quorumAcquire, refused bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.all[e.m.queueKey]; q != nil && q.acquires[0] == e {
		q.answers.says(refused, err)
	}
}

// withdraws notes that nothing is to be learned any more from what e has asked.
func (r *quorumQueues) withdraws(e *quorumAcquire) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.all[e.m.queueKey]; q != nil && q.acquires[0] == e {
		q.answers.withdraws()
	}
}

// first returns who is the first of the line of e, and what the servers said last to those who were; nil if e stands in none.
func (r *quorumQueues) first(e *quorumAcquire) (*quorumAcquire, answerLog) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.all[e.m.queueKey]; q != nil {
		return q.acquires[0], q.answers.look()
	}
	return nil, answerLog{}
}

// leave takes e out of the line, if it stands there. If it was the first it is the turn of the next one, after a pause.
func (r *quorumQueues) leave(e *quorumAcquire, pause time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.remove(e) || r.all[e.m.queueKey] == nil {
		return
	}
	next := r.all[e.m.queueKey].acquires[0]
	if pause == 0 {
		next.w.notify(event{kind: turn})
		return
	}
	time.AfterFunc(pause, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if q := r.all[e.m.queueKey]; q != nil && q.acquires[0] == next {
			next.w.notify(event{kind: turn})
		}
	})
}

// remove takes e out of the line, and reports whether it was the first.
func (r *quorumQueues) remove(e *quorumAcquire) (first bool) {
	q := r.all[e.m.queueKey]
	if q == nil {
		return false
	}
	i := slices.Index(q.acquires, e)
	switch {
	case i < 0:
		return false
	case len(q.acquires) == 1:
		delete(r.all, e.m.queueKey)
	default:
		q.acquires = slices.Delete(q.acquires, i, i+1)
		if i == 0 {
			q.answers.asking = 0 // what it still asks is its own affair
		}
	}
	return i == 0
}

// behind returns who is next after e, the first, or nil.
func (r *quorumQueues) behind(e *quorumAcquire) *quorumAcquire {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.all[e.m.queueKey]; q != nil && len(q.acquires) > 1 && q.acquires[0] == e {
		return q.acquires[1]
	}
	return nil
}

// advance makes next, which is behind e, the first, and reports whether it could.
func (r *quorumQueues) advance(e, next *quorumAcquire) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.all[e.m.queueKey]; q == nil || len(q.acquires) < 2 || q.acquires[0] != e || q.acquires[1] != next {
		return false
	}
	return r.remove(e)
}

// pass makes what e had the lease of who is next in line, on the same terms, and returns the composite lease of its parts, or nil.
// Those have it that are trusted and that nobody else has entered; the rest is to be given back.
func (e *quorumAcquire) pass(parts []*Lease) (successor *compositeLease, rest []*Lease) {
	c := e.m.parts[0].c
	next := c.quorums.behind(e)
	if next == nil || next.cfg.terms != e.cfg.terms || next.cfg.fenced || next.cfg.maxHold > 0 || e.cfg.maxHold > 0 ||
		c.opts.Cohort == 1 || e.passedFor() >= localPassLimit || !c.granting() {
		return nil, parts
	}
	var passed []*Lease
	for _, part := range parts {
		l := newLease(part.client, part.kind, part.key, next.ctx)
		l.name = next.cfg.name
		g, ok := part.grant.(*grant)
		if ok && part.client.canPass(part.guard, e.cfg.terms, e.cfg.terms, tokens{}) && g.succeed(part, l) {
			part.end(ErrReleased)
			passed = append(passed, l)
		} else {
			rest = append(rest, part)
		}
	}
	if len(passed) < e.m.needs() || !next.inherit(e, passed) {
		return nil, append(passed, rest...)
	}
	c.counts.local.Add(1)
	return next.whole.composite, rest
}

// inherit makes parts, which e had, the lease of next, and reports whether that is still wanted.
func (next *quorumAcquire) inherit(e *quorumAcquire, parts []*Lease) bool {
	next.mu.Lock()
	defer next.mu.Unlock()
	if next.left || !e.m.parts[0].c.quorums.advance(e, next) {
		return false
	}
	next.began.Store(e.began.Load())
	next.took.Store(e.took.Load())
	next.whole.came = fromHere
	next.compose(parts)
	next.w.notify(event{kind: given})
	return true
}

// passedFor returns for how long the lock has gone round in this process.
func (e *quorumAcquire) passedFor() time.Duration {
	return monotonic.Now().Sub(monotonic.Time(e.began.Load()))
}

// after deals with the end of the lease. Who heard of it elsewhere asks within a moment, and before the next one here if
// it went round for long.
func (e *quorumAcquire) after() {
	pause := time.Duration(0)
	if e.passedFor() >= localPassLimit {
		pause = time.Millisecond + 3*time.Duration(e.took.Load())
	}
	e.m.parts[0].c.quorums.leave(e, pause)
}
