package lockrt

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// A redLine is where those of this process stand who want one red lock. Only the first of them asks the servers: those of
// one process would be refused by each other, and by the servers they asked in vain. It stays the first until its lease is
// over, and then the next one has that, for a while, without a word to the servers.
type redLine struct {
	pace atomic.Int64 // how long the server took to answer of late, or before that for longer; 0 if it never did

	mu  sync.Mutex           // guards the rest; held with election.mu, taken after it
	all map[string]*redQueue // by RedLock.line
}

// A redQueue is one line.
type redQueue struct {
	elections []*election
	said      word // by the servers, to the first of them
}

// answered notes how long the server took to answer.
func (r *redLine) answered(took time.Duration) {
	r.pace.Store(max(int64(took), r.pace.Load()/2))
}

// join puts e at the end of its line and reports whether it is the first.
func (r *redLine) join(e *election) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[string]*redQueue{}
	}
	q := r.all[e.m.line]
	if q == nil {
		q = &redQueue{}
		r.all[e.m.line] = q
	}
	q.elections = append(q.elections, e)
	return q.elections[0] == e
}

// asks notes that e asks the servers, if it does so for a line.
func (r *redLine) asks(e *election) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.all[e.m.line]; q != nil && q.elections[0] == e {
		q.said.asks()
	}
}

// says notes what the servers said to e, as word.says does.
func (r *redLine) says(e *election, refused bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.all[e.m.line]; q != nil && q.elections[0] == e {
		q.said.says(refused, err)
	}
}

// withdraws notes that nothing is to be learned any more from what e has asked.
func (r *redLine) withdraws(e *election) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.all[e.m.line]; q != nil && q.elections[0] == e {
		q.said.withdraws()
	}
}

// first returns who is the first of the line of e, and what the servers said last to those who were; nil if e stands in none.
func (r *redLine) first(e *election) (*election, word) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.all[e.m.line]; q != nil {
		return q.elections[0], q.said.look()
	}
	return nil, word{}
}

// leave takes e out of the line, if it stands there. If it was the first it is the turn of the next one, after a pause.
func (r *redLine) leave(e *election, pause time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.remove(e) || r.all[e.m.line] == nil {
		return
	}
	next := r.all[e.m.line].elections[0]
	if pause == 0 {
		next.w.tell(news{kind: turn})
		return
	}
	time.AfterFunc(pause, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if q := r.all[e.m.line]; q != nil && q.elections[0] == next {
			next.w.tell(news{kind: turn})
		}
	})
}

// remove takes e out of the line, and reports whether it was the first.
func (r *redLine) remove(e *election) (first bool) {
	q := r.all[e.m.line]
	if q == nil {
		return false
	}
	i := slices.Index(q.elections, e)
	switch {
	case i < 0:
		return false
	case len(q.elections) == 1:
		delete(r.all, e.m.line)
	default:
		q.elections = slices.Delete(q.elections, i, i+1)
		if i == 0 {
			q.said.asking = 0 // what it still asks is its own affair
		}
	}
	return i == 0
}

// behind returns who is next after e, the first, or nil.
func (r *redLine) behind(e *election) *election {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.all[e.m.line]; q != nil && len(q.elections) > 1 && q.elections[0] == e {
		return q.elections[1]
	}
	return nil
}

// advance makes next, which is behind e, the first, and reports whether it could.
func (r *redLine) advance(e, next *election) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.all[e.m.line]; q == nil || len(q.elections) < 2 || q.elections[0] != e || q.elections[1] != next {
		return false
	}
	return r.remove(e)
}

// pass makes what e had the lease of who is next in line, on the same terms, and returns the union of its parts, or nil.
// Those have it that are trusted and that nobody else has entered; the rest is to be given back.
func (e *election) pass(parts []*Lease) (heir *union, rest []*Lease) {
	c := e.m.parts[0].c
	next := c.reds.behind(e)
	if next == nil || next.cfg.terms != e.cfg.terms || next.cfg.fenced || next.cfg.maxHold > 0 || e.cfg.maxHold > 0 ||
		c.opts.Cohort == 1 || e.round() >= goRound || !c.granting() {
		return nil, parts
	}
	var passed []*Lease
	for _, part := range parts {
		l := newLease(part.client, part.kind, part.key, next.ctx)
		l.name = next.cfg.name
		hd, ok := part.hold.(*hold)
		if ok && part.client.suits(part.guard, e.cfg.terms, e.cfg.terms, tokens{}) && hd.succeed(part, l) {
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
	return next.whole.union, rest
}

// inherit makes parts, which e had, the lease of next, and reports whether that is still wanted.
func (next *election) inherit(e *election, parts []*Lease) bool {
	next.mu.Lock()
	defer next.mu.Unlock()
	if next.left || !e.m.parts[0].c.reds.advance(e, next) {
		return false
	}
	next.began.Store(e.began.Load())
	next.took.Store(e.took.Load())
	next.whole.came = fromHere
	next.unite(parts)
	next.w.tell(news{kind: given})
	return true
}

// round returns for how long the lock has gone round in this process.
func (e *election) round() time.Duration { return monotonic.Now().Sub(monotonic.Time(e.began.Load())) }

// after deals with the end of the lease. Who heard of it elsewhere asks within a moment, and before the next one here if
// it went round for long.
func (e *election) after() {
	pause := time.Duration(0)
	if e.round() >= goRound {
		pause = time.Millisecond + 3*time.Duration(e.took.Load())
	}
	e.m.parts[0].c.reds.leave(e, pause)
}
