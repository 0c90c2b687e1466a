package lockrt

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A quorumAcquire is the contest of one call: it competes with others on the servers.
type quorumAcquire struct {
	m     *RedLock
	ctx   context.Context
	opts  []LockOption
	cfg   lockConfig
	whole *Lease
	w     *waiter // of the call

	inLine bool // it waits in the queue of this process
	took   atomic.Int64
	began  atomic.Int64 // when the servers granted its parts, perhaps to another call here; monotonic

	mu        sync.Mutex // guards the rest
	left      bool       // the call is over
	listeners []*hub.Listener
	latest    *round // the latest round, or nil
	refusals  int    // consecutive refusals by a majority
	ties      int    // rounds in which others asked at the same time
}

// errTokenUnwritten is the outcome of a round whose majority lost a server before the end.
var errTokenUnwritten = errors.New("a server of the majority did not learn of the token")

// following makes a call that tries once wait for the answer to an earlier request of this process, without which it
// has none.
var following = lockOption(func(c *lockConfig) { c.follows = true })

// A round is one request to each of the servers. quorumAcquire.mu guards it.
type round struct {
	began     time.Time
	cancel    context.CancelFunc
	parts     []*Lease
	asked     []*Mutex // have not answered yet
	missing   []*Mutex // have not granted it, and may later
	votes     []vote   // by parts of the lock
	refused   int
	failures  int
	err       error           // of the failed requests, a permanent one if there is one
	over      *time.Timer     // ends a round without agreement of a majority, while answers are missing
	took      time.Duration   // the response time of a majority; 0 if there was none before the decision
	decided   bool            // there is a majority, or cannot be one
	won       bool            // there is a majority, but the tokens may have to be written back yet
	lost      bool            // its grants are released
	composite *compositeLease // its grants join this one
	prompted  bool            // the waiter has a reason to ask again
}

func (e *quorumAcquire) channel() string { return protocol.LockChannel(e.m.key) }
func (e *quorumAcquire) hear(string)     {}

func (e *quorumAcquire) join(*waiter) entry {
	if !e.inLine || e.m.parts[0].c.quorums.join(e) {
		return toAsk
	}
	return toWait
}

// last returns whether the first waiter of this process has the lock, and the last answers of the servers.
func (e *quorumAcquire) last(*waiter) (held bool, said engine.AnswerLog) {
	first, said := e.m.parts[0].c.quorums.first(e)
	if first == nil || first == e {
		return false, said // its turn is next
	}
	first.mu.Lock()
	defer first.mu.Unlock()
	return first.whole.composite != nil, said
}

// remind makes the first waiter ask.
func (e *quorumAcquire) remind() {
	if first, _ := e.m.parts[0].c.quorums.first(e); first != nil && first != e {
		first.w.Poke()
	}
}

// leave ends the call. The caller releases its grants.
func (e *quorumAcquire) leave(*waiter) {
	e.mu.Lock()
	e.left = true
	listeners := e.listeners
	e.listeners = nil
	e.mu.Unlock()
	for _, l := range listeners {
		l.Close()
	}
}

// ask asks all servers. A reentry asks only those with a part of the outer lease: the others first have to grant that a
// part.
func (e *quorumAcquire) ask(*waiter) {
	e.m.parts[0].c.quorums.asks(e)
	r := &round{began: now(), asked: slices.Clone(e.m.parts), votes: make([]vote, len(e.m.parts))}
	var ctx context.Context
	ctx, r.cancel = context.WithTimeout(e.ctx, e.limit())
	e.mu.Lock()
	e.latest = r
	e.mu.Unlock()
	open := e.open()
	for _, m := range e.m.parts {
		m.c.spawn(func() {
			lease, err := (*Lease)(nil), ErrNotAcquired
			if slices.Contains(open, m) {
				lease, err = m.acquire(ctx, e.opts)
				err = withoutTheCaller(ctx, e.ctx, err)
			}
			e.answered(r, m, lease, err)
		})
	}
}

// open returns the mutexes that may be asked.
func (e *quorumAcquire) open() []*Mutex {
	var entered []*Mutex
	for _, m := range e.m.parts {
		if l := leaseFrom(e.ctx, m.c, m.key); l != nil && l.Err() == nil {
			entered = append(entered, m)
		}
	}
	if len(entered) >= e.m.needs() {
		return entered
	}
	return e.m.parts
}

// limit is the time limit for an answer.
func (e *quorumAcquire) limit() time.Duration {
	return min(e.m.parts[0].c.opts.RedLockTimeout, e.cfg.TTL/2)
}

// unheardPace is the assumed response time of a server that has not answered yet.
const unheardPace = 100 * time.Millisecond

// grace is how long to wait for the mutexes some when a majority has answered within took: for longer than they usually
// take.
func (e *quorumAcquire) grace(took time.Duration, some []*Mutex) time.Duration {
	for _, m := range some {
		took = max(took, cmp.Or(time.Duration(m.c.quorums.pace.Load()), unheardPace))
	}
	return min(10*time.Millisecond+3*took, e.limit())
}

// hurry returns how long to wait for the missing answers to r when a majority has answered within took, but not alike.
// These servers may be needed, or be away or slow, while other processes wait for the parts that this call was granted.
// So a call that may ask again usually does not wait for them, and never before it hears of releases: hasten could not
// end that wait. A call that tries once waits as long as they may decide. The caller holds e.mu.
func (e *quorumAcquire) hurry(r *round, took time.Duration) time.Duration {
	switch {
	case e.cfg.wait == 0:
		return e.limit()
	case e.listeners == nil || rand.N(16) > 0:
		return e.grace(took, nil)
	}
	return e.grace(took, r.asked)
}

// answered handles the answer of the server of m, or its absence.
func (e *quorumAcquire) answered(r *round, m *Mutex, part *Lease, err error) {
	took := time.Since(r.began)
	e.mu.Lock()
	r.asked = slices.DeleteFunc(r.asked, func(x *Mutex) bool { return x == m })
	if len(r.asked) == 0 {
		r.cancel()
	}
	if err != nil && (errors.Is(err, ErrNotAcquired) || passing(err)) {
		if r.missing = append(r.missing, m); r.composite != nil {
			e.complete(r.composite, m, localPassLimit)
		}
	}
	v := &r.votes[slices.Index(e.m.parts, m)]
	v.granted, v.refused = err == nil, errors.Is(err, ErrNotAcquired)
	switch {
	case err == nil && r.composite == nil && !r.lost:
		r.parts = append(r.parts, part)
	case err == nil:
		defer func(co *compositeLease, lost bool) { // without e.mu
			if lost {
				_ = part.grant.unlock(part)
			} else {
				e.admit(co, m, part)
			}
		}(r.composite, r.lost)
	case v.refused:
		r.refused++
	default:
		r.failures++
		if !errors.Is(err, ErrClosed) && (r.err == nil || passing(r.err)) {
			r.err = err
		}
	}
	needs := e.m.needs()
	decides := !r.decided
	r.won = r.won || len(r.parts) >= needs
	r.decided = r.decided || r.won || r.refused+r.failures > len(e.m.parts)-needs
	decides = decides && r.decided
	switch {
	case decides && r.over != nil:
		r.over.Stop()
	case !r.decided && r.over == nil && len(r.parts)+r.refused >= needs:
		r.took = took
		r.over = time.AfterFunc(e.hurry(r, took)-took, func() { e.cut(r, took) })
	}
	won, parts := r.won, slices.Clone(r.parts)
	e.prompt(r)
	e.mu.Unlock()

	if !decides {
		return
	}
	e.took.Store(int64(took))
	if won {
		switch err = e.win(r, parts); {
		case err == nil:
			e.w.Notify(engine.Event{Kind: engine.Given})
			return
		case errors.Is(err, errTokenUnwritten) && e.cfg.wait != 0:
			won = false // another round may be won without the missing answers
		}
	}
	e.w.Notify(e.abandonRound(r, err, won))
}

// cut ends a round that a majority has answered, but not alike, without the others: they may be away, and another round
// may be won without them.
func (e *quorumAcquire) cut(r *round, took time.Duration) {
	e.mu.Lock()
	decides := !r.decided
	r.decided = true
	e.mu.Unlock()
	if decides {
		e.took.Store(int64(took))
		e.w.Notify(e.abandonRound(r, nil, false))
	}
}

// win makes parts, a majority, the lease.
func (e *quorumAcquire) win(r *round, parts []*Lease) error {
	token := int64(0)
	if e.cfg.Fenced {
		var err error
		if token, err = e.raise(parts); err != nil {
			return err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	trusted := 0
	for _, part := range parts {
		if part.Err() == nil {
			trusted++
		}
	}
	switch {
	case e.left:
		return ErrNotAcquired // the call is over
	case trusted < e.m.needs():
		return engine.ErrLate
	}
	for _, part := range parts {
		part.stamp(token)
	}
	e.m.parts[0].c.quorums.says(e, false, nil)
	e.whole.token = token
	e.began.Store(int64(monotonic.Now()))
	e.compose(parts)
	r.composite = e.whole.composite
	for _, part := range r.parts[len(parts):] { // those that came meanwhile
		part.client.spawn(func() { e.admit(r.composite, e.mutexOf(part), part) })
	}
	for _, m := range r.missing {
		e.complete(r.composite, m, localPassLimit)
	}
	return nil
}

// mutexOf returns the mutex among the parts of the lock whose lease is part.
func (e *quorumAcquire) mutexOf(part *Lease) *Mutex {
	i := slices.IndexFunc(e.m.parts, func(m *Mutex) bool { return m.c == part.client && m.key == part.key })
	return e.m.parts[i]
}

// compose makes parts the lease.
func (e *quorumAcquire) compose(parts []*Lease) {
	co := &compositeLease{whole: e.whole, needs: e.m.needs(), most: len(e.m.parts), parts: parts, pass: e.pass, replace: e.replace, after: e.after}
	co.begin()
}

// raise returns the largest token of parts once all their servers know it.
func (e *quorumAcquire) raise(parts []*Lease) (token int64, err error) {
	for _, part := range parts {
		token = max(token, part.token)
	}
	patience := e.limit()
	if e.cfg.wait != 0 { // otherwise there is no other round
		patience = e.grace(time.Duration(e.took.Load()), e.m.parts)
	}
	ctx, cancel := context.WithTimeout(e.ctx, patience)
	defer cancel()
	_, err = most(parts, len(parts), func(part *Lease) (struct{}, error) {
		if part.token == token {
			return struct{}{}, nil
		}
		return struct{}{}, e.writeToken(ctx, part, token)
	})
	if err != nil && (ctx.Err() != nil || passing(err)) {
		err = errTokenUnwritten
	}
	return token, err
}

// writeToken writes the token to the server of part.
func (e *quorumAcquire) writeToken(ctx context.Context, part *Lease, token int64) error {
	return within(ctx, part.client, func() error {
		return part.client.net.Run(part.client.wire.RaiseToken(part.key, token)).Err()
	})
}

// stamp gives a lease the token of its composite lease, for reentries.
func (l *Lease) stamp(token int64) {
	if g, ok := l.grant.(*grant); ok && token > 0 {
		g.resource.mu.Lock()
		defer g.resource.mu.Unlock()
		if token != l.token && g.ticket.extra != nil {
			g.ticket.extra.tokens = engine.Tokens{} // the others are smaller
		}
		l.token, g.tokenPending = token, false
	}
}

// tiesOfAPace is how many ties leave the pauses as they are. A holder of a bare majority, while other servers are away,
// looks like competitors that ask at the same time, for as long as it holds: so the pauses double after some ties, up
// to 32 times the first one.
const tiesOfAPace = 8

// abandonRound releases the grants, and returns the event for the waiter. err is why a majority was lost.
func (e *quorumAcquire) abandonRound(r *round, err error, won bool) engine.Event {
	spare := len(e.m.parts) - e.m.needs()
	e.mu.Lock()
	r.lost = true
	parts := r.parts
	switch {
	case won:
	case e.closed() > spare:
		err = ErrClosed
	case r.failures > spare:
		err = r.err
	default:
		err = nil
	}
	// A failure because the call is over is no answer of a server.
	over := !won && err != nil && e.ctx.Err() != nil && errors.Is(err, e.ctx.Err())
	if e.refusals++; len(parts) > 0 && len(parts) >= r.refused { // others ask at the same time, and none of them got more
		e.ties++
		e.refusals = min(e.ties/tiesOfAPace, 5)
	}
	refusals := e.refusals
	if over {
		e.m.parts[0].c.quorums.withdraws(e)
	} else {
		e.m.parts[0].c.quorums.says(e, err == nil, err)
	}
	if err == nil && e.cfg.wait != 0 {
		e.listen()
	}
	e.prompt(r)
	e.mu.Unlock()

	r.cancel() // missing answers are not waited for
	undo(e.ctx, parts)
	if err != nil {
		// Each server was asked again if necessary.
		return engine.Event{Kind: engine.Failed, Err: err, Final: true}
	}
	took := time.Duration(e.took.Load())
	pause := min((time.Millisecond+took)<<min(refusals, 8), 250*time.Millisecond)
	return engine.Event{Kind: engine.Refused, TTL: pause/2 + rand.N(pause), InLine: true}
}

// closed returns how many of the servers are not asked any more, since their Clients are closed.
func (e *quorumAcquire) closed() (n int) {
	for _, m := range e.m.parts {
		if !m.c.granting() {
			n++
		}
	}
	return n
}
