package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// A kind is a kind of lock as the worlds use it.
type kind struct {
	name     string
	lock     string // of worlds with a cluster: the kind of lock; else empty
	servers  int
	room     int  // how much there is of a key
	most     int  // keys, or 0 for one or two
	hash     bool // a key is Redisson's hash of a lock, with its owners
	prompt   bool // a key that is free is granted at once to a waiter
	together bool // all take part in each round
	round    func(g *worker)

	bears func(f *fault) bool   // which faults it is tried with; nil for all
	keeps func(key string) bool // the keys that it leaves in Redis for ever, as Redisson does; nil for none
	lives func(key string) bool // the keys that do not expire during its use; nil for none
}

// eternal reports whether a key does not expire.
func (k *kind) eternal(key string) bool { return k.keeps != nil && k.keeps(key) }

// undying reports whether a key does not expire while the lock is used.
func (k *kind) undying(key string) bool { return k.lives != nil && k.lives(key) }

// remains reports whether a key may be there when all is released.
func (k *kind) remains(key string) bool {
	return k.eternal(key) || strings.HasPrefix(key, "redisson_lock_token:") || strings.HasPrefix(key, "lockgen_requests:")
}

var kinds = []*kind{mutex, mutex, fair, rw, permits, semaphore, latch, multi, red}

func kindNamed(name string) *kind {
	for _, k := range slices.Concat(kinds, []*kind{besides, fairBesides}, slices.Collect(maps.Values(clustered))) {
		if k.name == name {
			return k
		}
	}
	panic("there is no kind " + name)
}

// options are those of the primitive itself.
func (g *worker) options() []lockrt.LockOption {
	if g.p.w.plan.fenced {
		return []lockrt.LockOption{lockrt.WithFencing()}
	}
	return nil
}

// A locker is what can be locked.
type locker interface {
	Lock(ctx context.Context, opts ...lockrt.LockOption) (*lockrt.Lease, error)
	TryLock(ctx context.Context, opts ...lockrt.LockOption) (*lockrt.Lease, error)
}

// of returns an acquisition of a locker.
func (g *worker) of(m locker, kind string, units int, keys ...string) acquisition {
	a := acquisition{keys: keys, kind: kind, units: units, once: g.chance(15)}
	a.take = func(ctx context.Context, opts ...lockrt.LockOption) (held, error) {
		if a.once {
			return lease(m.TryLock(ctx, opts...))
		}
		return lease(m.Lock(ctx, opts...))
	}
	a.enter = func(ctx context.Context) (held, error) { return lease(m.Lock(ctx)) }
	return a
}

// lease returns what was granted, or nothing, as what it is.
func lease(l *lockrt.Lease, err error) (held, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

var mutex = &kind{name: "mutex", servers: 1, room: 1, hash: true, prompt: true, round: func(g *worker) {
	key := g.key()
	g.hold(g.of(g.p.cs[0].Mutex(key, g.options()...), "mutex", 1, key))
}}

var fair = &kind{name: "fair", servers: 1, room: 1, hash: true, prompt: true, round: func(g *worker) {
	key := g.key()
	g.hold(g.of(g.p.cs[0].FairMutex(key, g.options()...), "fair", 1, key))
}, lives: func(key string) bool {
	return strings.HasPrefix(key, "redisson_lock_queue:") || strings.HasPrefix(key, "redisson_lock_timeout:")
}}

var rw = &kind{name: "rw", servers: 1, room: 1000, hash: true, prompt: true, round: func(g *worker) {
	key := g.key()
	m := g.p.cs[0].RWMutex(key, g.options()...)
	if g.chance(40) {
		g.hold(g.of(m, "write", 0, key))
	} else {
		g.hold(g.of(g.p.cs[0].RWMutex(key).RLocker(), "read", 1, key)) // readers have no tokens
	}
}}

var permits = &kind{name: "permits", servers: 1, room: 3, round: func(g *worker) {
	key := g.key()
	s, n := g.p.cs[0].PermitSemaphore(key, 3), 1+g.rng.IntN(3)
	a := acquisition{keys: []string{key}, kind: "permits", units: n, once: g.chance(15)}
	a.take = func(ctx context.Context, opts ...lockrt.LockOption) (held, error) {
		take := s.AcquireN
		if a.once {
			take = s.TryAcquireN
		}
		p, err := take(ctx, n, opts...)
		if err != nil {
			return nil, err
		}
		return permit{p}, nil
	}
	if g.p.w.plan.singly {
		a.also = func(c *call, l held) { g.singly(c, s, l.(permit).Permit) }
	}
	g.hold(a)
}, keeps: func(key string) bool { return strings.HasPrefix(key, "key") }, // the count, as Redisson has it
	lives: func(key string) bool { return strings.HasSuffix(key, ":timeout") },
	bears: func(f *fault) bool { return !f.tampers }} // half of a semaphore is none

// permit is a Permit as a lease.
type permit struct{ *lockrt.Permit }

func (permit) Token() int64                       { return 0 }
func (p permit) Unlock(ctx context.Context) error { return p.Release(ctx) }

var semaphore = &kind{name: "semaphore", servers: 1, room: 3, round: func(g *worker) {
	key := g.key()
	s, n := g.p.cs[0].Semaphore(key, 3), 1+g.rng.IntN(3)
	a := acquisition{keys: []string{key}, kind: "semaphore", units: n, once: g.chance(15), bare: true}
	if !a.once {
		a.wait = g.p.w.plan.watchdog // with a bound: what somebody could not release is gone
	}
	a.take = func(ctx context.Context, opts ...lockrt.LockOption) (held, error) {
		take := s.Acquire
		if a.once {
			take = s.TryAcquire
		}
		if err := take(ctx, n, opts...); err != nil {
			return nil, err
		}
		return &counted{s: s, n: n, process: g.p.ctx}, nil
	}
	g.hold(a)
}, bears: (*fault).losesNothing, keeps: func(key string) bool { return strings.HasPrefix(key, "key") }}

// losesNothing reports whether what takes without a lease can bear the fault.
func (f *fault) losesNothing() bool { return !f.forgets && !f.counts }

// counted is what was taken of a Semaphore.
type counted struct {
	s       *lockrt.Semaphore
	n       int
	process context.Context
}

func (c *counted) Context() context.Context                  { return c.process }
func (*counted) Err() error                                  { return nil }
func (*counted) Until() time.Time                            { return time.Now().Add(time.Hour) }
func (*counted) Extend(context.Context, time.Duration) error { return nil }
func (*counted) Token() int64                                { return 0 }
func (c *counted) Unlock(ctx context.Context) error          { return c.s.Release(ctx, c.n) }

// All workers take part in each round of a latch.
var latch = &kind{name: "latch", servers: 1, room: 1, together: true, round: func(g *worker) {
	w := g.p.w
	all := int64(w.plan.processes * w.plan.workers)
	g.latches++
	n := g.latches
	l := g.p.cs[0].CountDownLatch(fmt.Sprintf("latch%d", n))
	what := fmt.Sprintf("latch %d (process %d, goroutine %d)", n, g.p.id, g.id)
	began := w.watch.now()
	started, err := l.SetCount(g.p.ctx, int(all)) // all of them do: one of them starts it
	w.latches[n].did(g, latchStep{start: int(all), started: started, unknown: err != nil}, began)
	if err != nil {
		w.latches[n].broken.Store(true)
	}
	if w.latches[n].set.Add(1) == all {
		close(w.latches[n].ready)
	}
	select {
	case <-w.latches[n].ready: // else it may be started again when it is over
	case <-g.p.ctx.Done():
		return
	}
	g.pause(g.think())
	w.latches[n].down.Add(1)
	began = w.watch.now()
	left, err := l.CountDown(g.p.ctx)
	w.latches[n].did(g, latchStep{down: true, left: left, unknown: err != nil}, began)
	if err != nil {
		w.latches[n].broken.Store(true)
	}
	ctx, cancel := context.WithTimeout(g.p.ctx, 3*w.plan.watchdog+10*time.Second)
	defer cancel()
	began = w.watch.now()
	if err = l.Wait(ctx); err == nil {
		w.latches[n].did(g, latchStep{}, began)
	}
	w.note("%s: waited: %v", what, err)
	switch {
	case g.p.ctx.Err() != nil:
	case err == nil && w.latches[n].down.Load() < all && !w.latches[n].broken.Load():
		w.fail("%s: open when %d of %d had counted down", what, w.latches[n].down.Load(), all)
	case err != nil && !w.plan.disturbs && w.latches[n].down.Load() == all:
		w.fail("%s: %v", what, err)
	}
}, bears: (*fault).losesNothing, keeps: func(key string) bool { return strings.HasPrefix(key, "latch") }}

// A latched is what is known of a latch.
type latched struct {
	set, down atomic.Int64
	ready     chan struct{} // closed when all have called SetCount
	broken    atomic.Bool   // the outcome of a call is not known

	mu      sync.Mutex // guards the rest
	history []porcupine.Operation
}

var multi = &kind{name: "multi", servers: 1, room: 1, most: 3, hash: true, prompt: false, round: func(g *worker) {
	// A brief call releases its keys at about the moment when another call of its process, which was turned away, asks for them again.
	calls, brief := 1, g.also.chance(50)
	if brief {
		calls = 4
	}
	for n := 0; n < calls && g.p.ctx.Err() == nil && !g.p.leaving(); n++ {
		var keys []string
		var members []lockrt.Locker
		for _, i := range g.rng.Perm(3)[:1+g.rng.IntN(3)] {
			key := fmt.Sprintf("key%d", i)
			keys = append(keys, key)
			members = append(members, g.p.cs[0].Mutex(key, g.options()...))
		}
		m := lockrt.NewMultiLock(members...)
		a := g.of(m, "multi", 1, keys...)
		if a.brief = brief; brief && g.also.chance(60) {
			a.once = true
			a.take = func(ctx context.Context, opts ...lockrt.LockOption) (held, error) {
				return lease(m.TryLock(ctx, opts...))
			}
		}
		g.hold(a)
	}
}}

var red = &kind{name: "red", servers: 5, room: 1, round: func(g *worker) {
	key := g.key()
	g.hold(g.of(lockrt.NewRedLock(key, g.p.cs, g.options()...), "red", 1, key))
}}
