package lockrt

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// A janitor makes sure that Redis does not keep anything for claims that nobody wants any more: a request for one may
// have been answered without our knowing, or may reach the server only after the claim was withdrawn. No other claim has
// its number, so withdrawing it too often harms nobody.
//
// It watches a claim for as long as a lease of it lasts, counted from the first answer, if a request may still be on its
// way; else the first answer is enough. It gives up after a minute without one. When the client is closed it sends what it has once more, and
// again if the connection breaks or stays mute, but does not wait for a server that is away. An error is
// no answer, whatever it is: a key of another type is deleted, a permission is given back.
//
// Claims that one request can withdraw are one litter. What comes while a request of its litter is under way goes with
// the next one, but does not wait for long: on a mute connection requests arrive and answers do not.
type janitor struct {
	c *Client

	mu      sync.Mutex // guards the rest
	litters map[sweeper]*litter
}

// A sweeper withdraws claims, all of them with one request.
type sweeper interface {
	sweep(c *Client, claims []*remains) error
	about() string // what the log calls it
}

// remains are what is left of a claim. What is not said when it is thrown away is the janitor's.
type remains struct {
	n      uint64
	tokens int           // with which a mutex is handed over
	wait   time.Duration // by which the place of a fair mutex is reckoned
	watch  time.Duration // for how long a request for it may still come to pass, from the first answer on
	aside  bool          // a request for it is not answered: another connection may be better
	over   func()        // called when it is withdrawn, or given up; may be nil

	limit  time.Time // of the first answer
	until  time.Time // of the last one; zero before the first
	fresh  bool      // no request was sent since it was thrown away
	thrown int       // how often it was
}

// A litter is the claims that are withdrawn together. Its fields are guarded by janitor.mu.
type litter struct {
	by       sweeper
	all      map[uint64]*remains
	fresh    int           // of them, so many
	underWay int           // requests
	failed   bool          // the last one
	broke    bool          // likewise, though there was a connection to send it over
	last     int           // requests since the client was closed
	told     bool          // the log was told that a permission is missing
	kick     chan struct{} // at most one token
}

const (
	leastSweep, mostSweep = 25 * time.Millisecond, 5 * time.Second
	mostFailingSweep      = 250 * time.Millisecond
	sweepLimit            = time.Minute

	// sweepTogether is for how long at most claims are collected while a request of their litter is under way.
	sweepTogether = 5 * time.Millisecond

	// mostLast is how often what is left is sent when the client is closed.
	mostLast = 3

	// mostSwept is how many claims one request withdraws.
	mostSwept = 500
)

// throw has a claim withdrawn. It does not block. A claim that was thrown away before is withdrawn anew.
func (j *janitor) throw(by sweeper, claims ...*remains) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.litters == nil {
		j.litters = map[sweeper]*litter{}
	}
	l := j.litters[by]
	if l == nil {
		l = &litter{by: by, all: map[uint64]*remains{}, kick: make(chan struct{}, 1)}
		j.litters[by] = l
		j.c.spawn(func() { j.work(l) })
	}
	limit := now().Add(sweepLimit)
	for _, r := range claims {
		old := l.all[r.n]
		if old == nil {
			l.all[r.n], old = r, r
		}
		if !old.fresh {
			l.fresh++
		}
		old.aside = r.aside
		old.watch, old.until, old.limit, old.fresh = max(old.watch, r.watch), time.Time{}, limit, true
		old.thrown++
		switch first, then := old.over, r.over; {
		case old == r || then == nil:
		case first == nil:
			old.over = then
		default:
			old.over = func() { first(); then() }
		}
	}
	l.touch()
}

func (l *litter) touch() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// work sweeps a litter until nothing is left of it.
func (j *janitor) work(l *litter) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var last, next time.Time
	pause, stopped := leastSweep, j.c.stopped
	for {
		at := now()
		var batch []swept
		j.mu.Lock()
		switch {
		case l.fresh > 0 && (l.underWay == 0 || stopped == nil || at.Sub(last) >= sweepTogether):
			batch, pause = l.pick(true), leastSweep
		case stopped == nil && l.underWay == 0 && l.broke && l.last < mostLast && len(l.all) > 0:
			batch = l.pick(false)
		case len(l.all) == 0 && l.underWay == 0, stopped == nil && l.underWay == 0:
			delete(j.litters, l.by)
			j.mu.Unlock()
			l.end()
			return
		case l.underWay == 0 && !at.Before(next):
			batch, pause = l.pick(false), min(2*pause, mostSweep)
			if l.failed {
				pause = min(pause, mostFailingSweep)
			}
		}
		wait := next.Sub(at)
		switch {
		case l.fresh > 0:
			wait = last.Add(sweepTogether).Sub(at)
		case l.underWay > 0:
			wait = time.Hour
		}
		j.mu.Unlock()
		if batch != nil && stopped == nil {
			l.last++
		}
		if batch != nil {
			last, next = at, at.Add(pause)
			j.c.spawn(func() { j.sweep(l, batch) })
			continue
		}
		timer.Reset(max(wait, 0))
		select {
		case <-l.kick:
		case <-timer.C:
		case <-stopped:
			stopped = nil
		}
	}
}

// swept is a claim in a request, as it was by then: it may be thrown away once more meanwhile.
type swept struct {
	*remains
	then remains
}

// pick returns the claims of the next request: all, or those that no request was sent for. The caller holds janitor.mu.
func (l *litter) pick(fresh bool) (batch []swept) {
	for _, r := range l.all {
		if r.fresh || !fresh {
			r.fresh = false
			batch = append(batch, swept{r, *r})
		}
	}
	l.fresh = 0
	l.underWay++
	return batch
}

// sweep sends one request, or a few if there are many claims, and notes the answers.
func (j *janitor) sweep(l *litter, batch []swept) {
	for some := range slices.Chunk(batch, mostSwept) {
		claims := make([]*remains, len(some))
		for i := range some {
			claims[i] = &some[i].then
		}
		err := l.by.sweep(j.c, claims)
		j.answered(l, some, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	l.underWay--
	l.touch()
}

// answered notes the answer to a request, or that there was none.
func (j *janitor) answered(l *litter, batch []swept, err error) {
	at := now()
	var over []func()
	failed := 0
	j.mu.Lock()
	l.failed, l.broke = err != nil, transport.Unknown(err)
	tell := transport.Denied(err) && !l.told
	l.told = l.told || tell
	for _, s := range batch {
		r := s.remains
		if r.thrown != s.then.thrown {
			continue // once more, meanwhile
		}
		if err == nil && r.until.IsZero() {
			r.until = at.Add(r.watch)
		}
		switch {
		case err == nil && !at.Before(r.until), errors.Is(err, rueidis.ErrClosing):
		case !r.until.IsZero() && at.After(r.until):
		case r.until.IsZero() && at.After(r.limit):
			failed++
		default:
			continue
		}
		delete(l.all, r.n)
		if r.over != nil {
			over = append(over, r.over)
		}
	}
	j.mu.Unlock()
	if tell {
		j.c.opts.Logger.Warn("lockgen: claims cannot be withdrawn, and this is tried again", "key", l.by.about(), "error", refused(err))
	}
	if failed > 0 {
		j.c.opts.Logger.Warn("lockgen: claims could not be withdrawn; their key expires", "key", l.by.about(), "claims", failed, "error", err)
	}
	for _, f := range over {
		f()
	}
}

// end is called when nobody waits for answers any more.
func (l *litter) end() {
	for _, r := range l.all {
		if r.over != nil {
			r.over()
		}
	}
}

// A lockSweeper withdraws claims to a mutex.
type lockSweeper struct{ key string }

func (s lockSweeper) about() string { return s.key }

func (s lockSweeper) sweep(c *Client, claims []*remains) error {
	batch := c.wire.Releases()
	cmd := protocol.Command{Script: batch.Script, Args: slices.Clone(batch.Common)}
	for _, r := range claims {
		c.traces(trace.GivesBack, s.key, r.n)
		release := protocol.Release{Of: protocol.Ticket{Number: r.n, Tokens: r.tokens}}
		cmd.Keys, cmd.Args = c.wire.Release(cmd.Keys, cmd.Args, s.key, release)
	}
	return c.net.RunBatch(cmd)
}

// A fairSweeper withdraws claims to a fair mutex. Without any it sees to it that somebody is served: whose the free lock
// is has it, and who has it is asked whether that is so.
type fairSweeper struct{ key string }

func (s fairSweeper) about() string { return s.key }

func (s fairSweeper) sweep(c *Client, claims []*remains) error {
	tickets := make([]protocol.Departure, len(claims))
	for i, r := range claims {
		tickets[i] = protocol.Departure{Number: r.n, Wait: r.wait}
	}
	lock := c.wire.Fair(s.key)
	run := c.net.Run
	if slices.ContainsFunc(claims, func(r *remains) bool { return r.aside }) {
		run = c.net.RunAside
	}
	reply, _ := c.net.RunInTime(run, lock.Leave(tickets, time.Now()))
	done, err := reply.Int()
	if protocol.Outcome(done) == protocol.FreedForNobody {
		c.spawn(func() {
			if c.pause(claimLease) {
				_ = s.sweep(c, nil)
			}
		})
	}
	return err
}

// An rwSweeper withdraws claims to a read-write lock of which nothing is known but the number.
type rwSweeper struct{ key string }

func (s rwSweeper) about() string { return s.key }

func (s rwSweeper) sweep(c *Client, claims []*remains) error {
	h := rwHome{c: c, key: s.key, lock: c.wire.RW(s.key)}
	var errs []error
	for _, r := range claims {
		reader, writer := h.lock.Field(r.n, false), h.lock.Field(r.n, true)
		_, asReader := h.releaseOnce(&rwClaim{field: reader})
		_, asWriter := h.releaseOnce(&rwClaim{field: writer, write: true})
		errs = append(errs, asReader, asWriter)
	}
	return errors.Join(errs...)
}

// ghosts has those given back that the server names although they are over: it lost the last writes, or came back with an
// older file. It said so of a key of a kind.
func (c *Client) ghosts(kind, key string, numbers []uint64) {
	var by sweeper
	switch kind {
	case protocol.AboutLock:
		by = lockSweeper{key}
	case protocol.AboutFair:
		by = fairSweeper{key}
	case protocol.AboutRW:
		by = rwSweeper{key}
	default:
		return
	}
	var over []*remains
	c.lines.Lock()
	for _, n := range numbers {
		if _, known := c.parties[n]; !known && n <= c.claims.Load() {
			over = append(over, &remains{n: n, wait: c.opts.FairWait})
		}
	}
	c.lines.Unlock()
	if len(over) > 0 {
		c.janitor.throw(by, over...)
	}
}
