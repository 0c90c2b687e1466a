package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/scripts"
)

// A RedLock is held on a majority of independent Redis servers, so it outlives the loss of the others: of two
// of five, say. Most programs want a [Mutex] with [WithFencing] on one server, with a replica, instead: it costs a
// request where this costs five, and its token guards what a lock alone cannot. Redisson's RRedLock, which
// is deprecated for the same reason; the algorithm is antirez' Redlock, with Kleppmann's objections
// in mind.
//
// All servers are asked at once. A majority that grants in time makes the lease; what the others grant later joins it,
// and what was granted without a majority is given back. The lease is trusted as long as a majority of its
// parts is, each counted from before its own request was sent, less a margin for clocks that run at different
// speeds: a tenth of its time, 3 seconds at most. Each part is renewed by its own Client. A server that has no part in a
// lease that is renewed, because it refused, did not answer or lost it, is asked again while the majority has it, so the lease
// is lost with a majority at a time, and not with one server after the other.
//
// A minority that is down, slow or cut off delays nobody: the answer of the majority is enough to lock, to
// renew, to extend and to unlock.
//
// Of one process only one at a time asks the servers, in the order in which they came, if all use the same Clients; what
// it was granted goes from one to the next for up to 10ms, except with fencing, [WithLease] or [WithMaxHold]. Who is
// refused asks again when a server says that the lock was released, after a random pause; pauses also grow to a third of
// a second while nobody says anything. There is no order among processes.
//
// # What it does not give
//
// It takes the servers' word for what they granted. A server that was restarted without what it knew grants
// again: a majority of servers restarted while the lock is held makes a second holder. The first one is told at its
// next renewal, or at once where the server tells of changes. So have each write to disk with appendfsync always, or
// keep one that was restarted away for as long as the longest watchdog or lease time of its locks, or what [Lease.Extend] made of
// it, before it serves again. The same goes for a replica that takes over: make every server a single one.
//
// A holder that is stopped for longer than its lease, or whose writes are under way for that long, is not kept
// from what the next one does. With WithFencing the lease has a token, larger than that of every earlier lease
// of the key: the largest of those that the majority gave, written back to a majority before Lock returns.
type RedLock struct {
	key   string
	parts []*Mutex
	line  string // names the line of those of this process who want it: the key, and the servers
}

var _ Locker = (*RedLock)(nil)

// NewRedLock returns the lock named key on the servers of clients: three or more, of an odd number, each another
// server. It does not contact them. It fails with [ErrBadOption] if they are not; an unusable key or other
// option is reported by what uses it. The Clients remain the caller's to close, and closing one of
// them is the loss of its server; closing the first also ends the calls that wait.
func NewRedLock(key string, clients []*Client, opts ...LockOption) (*RedLock, error) {
	fail := func(format string, args ...any) (*RedLock, error) {
		return nil, fmt.Errorf("lockgen: red lock %q: %w: %s", key, ErrBadOption, fmt.Sprintf(format, args...))
	}
	if n := len(clients); n < 3 || n%2 == 0 {
		return fail("%d servers, and not an odd number of three or more", n)
	}
	parts := make([]*Mutex, 0, len(clients))
	seen := make(map[string]bool)
	for i, c := range clients {
		if c == nil {
			return fail("client %d is nil", i)
		}
		for addr := range maps.Keys(c.rc.Nodes()) {
			if seen[addr] {
				return fail("the server %s twice", addr)
			}
			seen[addr] = true
		}
		parts = append(parts, c.Mutex(key, opts...))
	}
	return newRedLock(parts), nil
}

func newRedLock(parts []*Mutex) *RedLock {
	m := &RedLock{key: parts[0].key, parts: parts}
	for _, part := range parts {
		m.line += part.c.uuid + ":" + part.key + " "
	}
	return m
}

// Key returns the name of the lock, which is its key in Redis, on each server.
func (m *RedLock) Key() string { return m.key }

// Lock waits until a majority of the servers has granted the key, ctx ends or [WithWait] runs out. Otherwise it
// is like [Mutex.Lock]: after an error nothing is held, what was granted without a majority is given
// back, in the background if a server does not answer within 100ms. It fails with the error of a server only if a
// majority cannot be had without those that fail. An attempt waits for an answer for as long as [Options.OpTimeout] of the
// first client, or half of the watchdog or lease time if that is shorter; but, as a rule, a moment only when a majority has answered
// and does not agree: then it gives back what it has and asks again, since the others may be away.
func (m *RedLock) Lock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.lock(ctx, "lock", opts)
}

// TryLock asks all servers once, without waiting for others, and fails with [ErrNotAcquired]. Two who
// try at the same time may both fail.
func (m *RedLock) TryLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.lock(ctx, "try lock", append(slices.Clip(opts), WithWait(0)))
}

// Do is [Mutex.Do].
func (m *RedLock) Do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error, opts ...LockOption) error {
	lease, err := m.Lock(ctx, opts...)
	if err != nil {
		return err
	}
	return lease.do(ctx, func(ctx context.Context) error { return fn(ctx, lease) })
}

func (m *RedLock) lock(ctx context.Context, op string, opts []LockOption) (*Lease, error) {
	a := attempt{c: m.parts[0].c, op: op, kind: kindRedLock, key: m.key}
	ctx = a.begin(ctx)
	lease, err := m.acquire(ctx, opts, a.waits)
	return a.granted(ctx, lease, err)
}

func (m *RedLock) acquire(ctx context.Context, opts []LockOption, waiting func()) (*Lease, error) {
	c := m.parts[0].c
	cfg, err := c.configure(m.parts[0].opts, opts)
	if err != nil {
		return nil, err
	}
	for _, part := range m.parts {
		if err := part.c.checkKey(m.key); err != nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	whole := newLease(c, kindRedLock, m.key, ctx)
	e := &election{m: m, ctx: ctx, opts: append(slices.Clip(opts), WithWait(0), following), cfg: cfg, whole: whole}
	e.w = newWaiter(whole, cfg) // not used again: it may be poked late
	e.inLine = cfg.wait != 0 && !m.entered(whole)
	err = c.await(ctx, e, e.w, cfg, waiting)
	if err == nil && ctx.Err() != nil {
		err = ended(ctx) // granted, but not wanted any more
	}
	e.leave(e.w)
	if err == nil {
		return whole, nil
	}
	if whole.union == nil {
		c.reds.leave(e, 0)
	} else {
		c.spawn(func() { _ = whole.hold.unlock(whole) })
	}
	return nil, err
}

// entered reports whether l may enter what its caller has: it does not wait for itself.
func (m *RedLock) entered(l *Lease) bool {
	return l.owner != nil || slices.ContainsFunc(m.parts, func(part *Mutex) bool { return leaseFrom(l.parent, part.c, part.key) != nil })
}

// following has a call that does not wait do so for the answer to an earlier request of this process, without which its own
// is none.
var following = lockOption(func(c *lockConfig) { c.follows = true })

// needs returns how many parts are a majority.
func (m *RedLock) needs() int { return len(m.parts)/2 + 1 }

// An election is the contest that one call takes part in, alone: against others it stands on the servers.
type election struct {
	m     *RedLock
	ctx   context.Context
	opts  []LockOption
	cfg   lockConfig
	whole *Lease
	w     *waiter // of the call

	inLine bool        // it waits for others of this process
	poking atomic.Bool // a poke is due
	took   atomic.Int64
	began  atomic.Int64 // when the servers granted what the call got, perhaps to another one here; monotonic

	mu        sync.Mutex // guards the rest
	left      bool       // the call is over
	listeners []*hub.Listener
	deaf      []atomic.Bool // to whom granted it last: that it is free there is no news; by parts, or nil
	refusals  int           // in a row, by a majority
}

// errUntold is the outcome of a ballot that was won by a majority of which one went away.
var errUntold = errors.New("a server of the majority did not learn of the token")

// A ballot is one request to each of the servers. election.mu guards it.
type ballot struct {
	began    time.Time
	cancel   context.CancelFunc
	parts    []*Lease
	asked    []*Mutex // have not answered yet
	missing  []*Mutex // have not granted it, and may later
	refused  int
	failures int
	err      error       // of those that failed, one that does not pass if there is one
	over     *time.Timer // ends it, since a majority does not agree
	decided  bool        // there is a majority, or cannot be one
	won      bool        // the former, but the tokens may have to be written back yet
	lost     bool        // what is granted is given back
	union    *union      // what is granted joins it
}

func (e *election) channel() string { return namesOf(e.m.key).channel }
func (e *election) hear(string)     {}

func (e *election) join(*waiter) bool {
	return !e.inLine || e.m.parts[0].c.reds.join(e)
}

// leave ends the election. What was granted the call by then is the caller's to give back.
func (e *election) leave(*waiter) {
	e.mu.Lock()
	e.left = true
	listeners := e.listeners
	e.listeners = nil
	e.mu.Unlock()
	for _, l := range listeners {
		l.Close()
	}
}

// ask asks all servers; of those who enter what they have, the ones that have a part of it: the others are to have one of that first.
func (e *election) ask(*waiter) {
	r := &ballot{began: now(), asked: slices.Clone(e.m.parts)}
	var ctx context.Context
	ctx, r.cancel = context.WithTimeout(e.ctx, e.limit())
	open := e.open()
	for _, m := range e.m.parts {
		m.c.spawn(func() {
			lease, err := (*Lease)(nil), ErrNotAcquired
			if slices.Contains(open, m) {
				lease, err = m.acquire(ctx, e.opts, nil)
			}
			e.answered(r, m, lease, err)
		})
	}
}

// open returns who may be asked.
func (e *election) open() []*Mutex {
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

// limit is for how long an answer is waited for.
func (e *election) limit() time.Duration { return min(e.m.parts[0].c.opts.OpTimeout, e.cfg.ttl/2) }

// unheardPace is how long a server is taken to need for an answer that has not given one yet.
const unheardPace = 100 * time.Millisecond

// grace is for how long some are waited for when a majority has answered within took: for longer than they use to take.
func (e *election) grace(took time.Duration, some []*Mutex) time.Duration {
	for _, m := range some {
		took = max(took, cmp.Or(time.Duration(m.c.reds.pace.Load()), unheardPace))
	}
	return min(10*time.Millisecond+3*took, e.limit())
}

// hurry returns for how long those are waited for who have not answered r, when a majority has within took, but not alike. They
// may be needed, or be away or slow, while others wait for what those have granted who did answer. So one who may ask
// again does not wait for them as a rule.
func (e *election) hurry(r *ballot, took time.Duration) time.Duration {
	if e.cfg.wait != 0 && rand.N(16) > 0 {
		return e.grace(took, nil)
	}
	return e.grace(took, r.asked)
}

// answered deals with what the server of m has said, or not said in time.
func (e *election) answered(r *ballot, m *Mutex, part *Lease, err error) {
	took := time.Since(r.began)
	e.mu.Lock()
	r.asked = slices.DeleteFunc(r.asked, func(x *Mutex) bool { return x == m })
	if len(r.asked) == 0 {
		r.cancel()
	}
	if err != nil && (errors.Is(err, ErrNotAcquired) || passing(err)) {
		if r.missing = append(r.missing, m); r.union != nil {
			e.complete(r.union, m, goRound)
		}
	}
	switch {
	case err == nil && r.union == nil && !r.lost:
		r.parts = append(r.parts, part)
	case err == nil:
		if r.lost {
			e.heeds(m, false)
		}
		defer func(u *union, lost bool) { // without e.mu
			if lost {
				_ = part.hold.unlock(part)
			} else {
				e.admit(u, m, part)
			}
		}(r.union, r.lost)
	case errors.Is(err, ErrNotAcquired):
		r.refused++
		e.heeds(m, true)
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
		r.over = time.AfterFunc(e.hurry(r, took)-took, func() { e.cut(r, took) })
	}
	won, parts := r.won, slices.Clone(r.parts)
	e.mu.Unlock()

	if !decides {
		return
	}
	e.took.Store(int64(took))
	if won {
		switch err = e.win(r, parts); {
		case err == nil:
			e.w.news <- news{kind: given}
			return
		case errors.Is(err, errUntold) && e.cfg.wait != 0:
			won = false // another ballot may be won without those who did not answer
		}
	}
	e.w.news <- e.lose(r, err, won)
}

// cut ends a ballot that a majority has answered, but not alike, without the others: they may be away, and another ballot
// be won without them.
func (e *election) cut(r *ballot, took time.Duration) {
	e.mu.Lock()
	decides := !r.decided
	r.decided = true
	e.mu.Unlock()
	if decides {
		e.took.Store(int64(took))
		e.w.news <- e.lose(r, nil, false)
	}
}

// win makes parts, a majority, the lease.
func (e *election) win(r *ballot, parts []*Lease) error {
	token := int64(0)
	if e.cfg.fenced {
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
		return ErrNotAcquired // nobody hears it
	case trusted < e.m.needs():
		return errLate
	}
	for _, part := range parts {
		part.stamp(token)
	}
	e.whole.token = token
	e.began.Store(int64(monotonic.Now()))
	e.unite(parts)
	r.union = e.whole.union
	for _, part := range r.parts[len(parts):] { // those that came meanwhile
		part.client.spawn(func() { e.admit(r.union, e.mutexOf(part), part) })
	}
	for _, m := range r.missing {
		e.complete(r.union, m, goRound)
	}
	return nil
}

// mutexOf returns which of the parts of the lock part is a lease of.
func (e *election) mutexOf(part *Lease) *Mutex {
	i := slices.IndexFunc(e.m.parts, func(m *Mutex) bool { return m.c == part.client && m.key == part.key })
	return e.m.parts[i]
}

// unite makes parts the lease.
func (e *election) unite(parts []*Lease) {
	u := &union{whole: e.whole, needs: e.m.needs(), most: len(e.m.parts), parts: parts, pass: e.pass, replace: e.replace, after: e.after}
	u.begin()
}

// raise returns the largest token of parts when all of them know of it.
func (e *election) raise(parts []*Lease) (token int64, err error) {
	for _, part := range parts {
		token = max(token, part.token)
	}
	patience := e.limit()
	if e.cfg.wait != 0 { // else there is no other ballot
		patience = e.grace(time.Duration(e.took.Load()), e.m.parts)
	}
	ctx, cancel := context.WithTimeout(e.ctx, patience)
	defer cancel()
	_, err = most(parts, len(parts), func(part *Lease) (struct{}, error) {
		if part.token == token {
			return struct{}{}, nil
		}
		return struct{}{}, e.tell(ctx, part, token)
	})
	if err != nil && (ctx.Err() != nil || passing(err)) {
		err = errUntold
	}
	return token, err
}

// tell has the server of part know that token was given.
func (e *election) tell(ctx context.Context, part *Lease, token int64) error {
	got, err := bounded(ctx, part.client, func() error {
		return part.client.run(scripts.Raise, []string{namesOf(part.key).counter},
			[]string{fmt.Sprint(token), part.client.keepTokens}).Error()
	})
	return cmpOr(err, got)
}

// stamp gives a lease the token of what it is a part of, which those who enter it again get.
func (l *Lease) stamp(token int64) {
	if hd, ok := l.hold.(*hold); ok && token > 0 {
		hd.home.mu.Lock()
		defer hd.home.mu.Unlock()
		l.token, hd.vague = token, false
	}
}

// lose gives back what was granted, and says what that means to the waiter. err is why what was won is lost.
func (e *election) lose(r *ballot, err error, won bool) news {
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
	if e.refusals++; r.refused <= spare { // others ask at the same time
		e.refusals = 0
	}
	refusals := e.refusals
	if err == nil && e.cfg.wait != 0 {
		e.listen()
	}
	for _, part := range parts {
		e.heeds(e.mutexOf(part), false)
	}
	e.mu.Unlock()

	r.cancel() // who has not answered yet is not waited for
	undo(e.ctx, parts)
	if err != nil {
		// Each server was asked again if need be.
		return news{kind: failed, err: err, final: true}
	}
	took := time.Duration(e.took.Load())
	pause := min((time.Millisecond+took)<<min(refusals, 8), 250*time.Millisecond)
	return news{kind: refusedFor, ttl: pause/2 + rand.N(pause), inLine: true}
}

// closed returns how many of the servers are not asked any more, since their Clients are closed.
func (e *election) closed() (n int) {
	for _, m := range e.m.parts {
		if !m.c.granting() {
			n++
		}
	}
	return n
}

// listen has the waiter poked when a server says that the key is free, after a time that differs from
// one process to the next. e.mu is held.
func (e *election) listen() {
	if e.left || e.listeners != nil {
		return
	}
	e.deaf = make([]atomic.Bool, len(e.m.parts))
	for i, m := range e.m.parts {
		deaf := &e.deaf[i]
		e.listeners = append(e.listeners, m.c.hub.Listen(e.channel(), func(ev hub.Event) {
			if ev.Subscribed || deaf.Load() || !e.poking.CompareAndSwap(false, true) {
				return
			}
			time.AfterFunc(rand.N(time.Millisecond+2*time.Duration(e.took.Load())), func() {
				e.poking.Store(false)
				e.w.poke()
			})
		}))
	}
}

// heeds notes whether it means anything to the election that the server of m says that the key is free. e.mu is held.
func (e *election) heeds(m *Mutex, does bool) {
	if e.deaf != nil {
		e.deaf[slices.Index(e.m.parts, m)].Store(!does)
	}
}
