package sim

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/redis/rueidis"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// A process is one Client, or one for each server, with goroutines that work.
type process struct {
	w     *world
	id    int // from 1 on
	ctx   context.Context
	kill  context.CancelFunc
	uuid  string // the prefix of its owners
	cs    []*lockrt.Client
	rcs   []rueidis.Client
	links []*link

	// Guarded by w.mu.
	dead   bool // nothing of it runs any more
	closed bool // its clients are, or are being, closed
}

// start starts one more process.
func (w *world) start(ctx context.Context, workers *sync.WaitGroup) {
	p := w.enlist(ctx)
	if w.cluster != nil {
		p.connect(w.servers...)
	} else {
		for _, s := range w.servers {
			p.connect(s)
		}
	}
	p.uuid = p.cs[0].ID()
	for i := range w.plan.workers {
		g := &worker{p: p, id: i, rng: w.random("worker", p.id, i), also: &worker{p: p, id: i, rng: w.random("singly", p.id, i)}}
		workers.Go(g.live)
	}
}

// enlist makes one more process, that does nothing yet.
func (w *world) enlist(ctx context.Context) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := &process{w: w, id: len(w.processes) + 1}
	p.ctx, p.kill = context.WithCancel(ctx)
	w.processes = append(w.processes, p)
	return p
}

// connect makes a client of a server, or of a cluster.
func (p *process) connect(to ...*server) {
	rc := p.reach(to...)
	c, err := lockrt.New(rc, p.w.plan.options)
	if err != nil {
		p.w.t.Fatal(err)
	}
	p.cs, p.rcs = append(p.cs, c), append(p.rcs, rc)
	p.w.clients.Store(c.ID(), client{p.id, to[0].id})
}

// reach connects to a server, or to a cluster, as Open does.
func (p *process) reach(to ...*server) rueidis.Client {
	links := map[int]*link{}
	var addrs []string
	for _, s := range to {
		l := p.w.join(p, s)
		p.links = append(p.links, l)
		links[s.id], addrs = l, append(addrs, address(firstPort+s.id))
	}
	opts := p.w.plan.options
	option := rueidis.ClientOption{
		InitAddress:       addrs,
		ForceSingleClient: len(to) == 1,
		DisableCache:      true,
		PipelineMultiplex: -1,
		ConnWriteTimeout:  min(opts.Watchdog/3, 5*time.Second, 2*time.Second),
		DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return links[serverAt(addr)].dial(ctx, addr)
		},
	}
	option.Dialer.Timeout = min(option.ConnWriteTimeout, time.Second)
	option.Dialer.KeepAlive = option.ConnWriteTimeout / 2
	rc, err := rueidis.NewClient(option)
	if err != nil {
		p.w.t.Fatal(err)
	}
	return rc
}

// die ends a process between two instructions. Its servers are told by the system that its connections are closed, unless the
// machine died with it. The caller holds w.mu.
func (p *process) die(machine bool) {
	w := p.w
	p.dead = true
	for _, l := range p.links {
		for len(l.conns) > 0 {
			c := l.conns[0]
			if machine {
				c.mute[up], c.mute[down] = true, true
				l.drop(c)
				c.in.end(errReset)
				w.net.at(time.Now().Add(time.Minute), func() { // the server finds out
					w.mu.Lock()
					defer w.mu.Unlock()
					c.cut()
				})
				continue
			}
			c.cut()
		}
	}
	p.kill()
}

// shutdown ends the process in an orderly way, once.
func (p *process) shutdown() {
	w := p.w
	w.mu.Lock()
	p.closed = true
	dead := p.dead
	w.mu.Unlock()
	for _, c := range p.cs {
		var err error
		if dead {
			err = c.Close()
		} else {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			err = c.Shutdown(ctx)
			cancel()
		}
		if err != nil && !dead && !w.over() && !w.watch.shaky() {
			w.fail("process %d: %v", p.id, err)
		}
	}
}

func (p *process) disconnect() {
	for _, rc := range p.rcs {
		rc.Close()
	}
}

// gone reports whether nothing of the process is to be looked at any more.
func (p *process) gone() bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return p.dead
}

// leaving reports whether its clients are being closed.
func (p *process) leaving() bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return p.closed
}

// A held is what a worker was granted.
type held interface {
	Context() context.Context
	Err() error
	Until() time.Time
	Extend(ctx context.Context, d time.Duration) error
	Token() int64
	Unlock(ctx context.Context) error
}

// A worker is one goroutine of a process.
type worker struct {
	p       *process
	id      int
	rng     *rand.Rand
	also    *worker // the same, with chances of its own, so that what it does besides changes no other chance
	latches int     // that it has used
}

func (g *worker) chance(n int) bool { return g.rng.IntN(100) < n }

// upTo returns a time below d.
func (g *worker) upTo(d time.Duration) time.Duration { return time.Duration(g.rng.Int64N(int64(d))) }

// pause sleeps, and reports whether the process goes on.
func (g *worker) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
	case <-g.p.ctx.Done():
	}
	return g.p.ctx.Err() == nil
}

func (g *worker) live() {
	w := g.p.w
	if !g.pause(g.upTo(20 * time.Millisecond)) {
		return
	}
	for range w.plan.rounds {
		if g.p.leaving() || time.Since(w.began) > w.plan.horizon && !w.plan.kind.together {
			return
		}
		w.plan.kind.round(g)
		if !g.pause(g.think()) {
			return
		}
	}
}

// think returns how long the worker does something else.
func (g *worker) think() time.Duration {
	switch {
	case g.chance(40):
		return time.Nanosecond
	case g.chance(70):
		return g.upTo(20 * time.Millisecond)
	}
	return g.upTo(g.p.w.plan.watchdog / 2)
}

// work returns for how long it holds what it has.
func (g *worker) work() time.Duration {
	switch {
	case g.chance(60):
		return g.upTo(10 * time.Millisecond)
	case g.chance(60):
		return g.upTo(g.p.w.plan.watchdog / 4)
	}
	return g.upTo(g.p.w.plan.watchdog * 3 / 2)
}

// An acquisition is what a worker is about to ask for.
type acquisition struct {
	keys  []string
	kind  string
	units int  // of what there is of each key; 0 for all of it
	once  bool // it does not wait
	bare  bool // the grant is no lease
	brief bool // it is released at once
	wait  time.Duration
	take  func(ctx context.Context, opts ...lockrt.LockOption) (held, error)
	enter func(ctx context.Context) (held, error) // once more, under what it has; nil if that cannot be
	also  func(c *call, l held)                   // something else that is done under it at times; or nil
}

// hold is one life of a lease: asked for, worked under, perhaps prolonged and entered again, and released.
func (g *worker) hold(a acquisition) {
	w := g.p.w
	ctx, cancel := g.p.ctx, context.CancelFunc(func() {})
	call := &call{p: g.p, worker: g.id, keys: a.keys, kind: a.kind, units: a.units, once: a.once}
	var opts []lockrt.LockOption
	switch {
	case a.once:
	case a.wait > 0:
		call.wait = a.wait
		opts = append(opts, lockrt.WithWait(call.wait))
	case g.chance(15):
		call.limit = g.upTo(w.plan.watchdog)
		ctx, cancel = context.WithTimeout(ctx, call.limit)
	case g.chance(10):
		ctx, cancel = context.WithCancel(ctx)
		time.AfterFunc(g.upTo(2*time.Millisecond), cancel)
		call.limit = time.Nanosecond
	case g.chance(15):
		call.wait = g.upTo(w.plan.watchdog)
		opts = append(opts, lockrt.WithWait(call.wait))
	}
	defer cancel()
	if a.bare {
		// options of leases mean nothing
	} else if w.plan.fixed && g.chance(25) {
		call.fixed = 100*time.Millisecond + g.upTo(w.plan.watchdog)
		opts = append(opts, lockrt.WithLease(call.fixed))
	} else if g.chance(10) {
		call.most = time.Millisecond + g.upTo(w.plan.watchdog)
		opts = append(opts, lockrt.WithMaxHold(call.most))
	}
	w.watch.called(call)
	l, err := a.take(ctx, opts...)
	if err != nil {
		w.watch.failed(call, ctx, err)
		return
	}
	w.watch.granted(call, l)
	g.under(call, l, a)
	w.watch.ending(call)
	err = l.Unlock(ctx)
	w.watch.ended(call, err)
}

// under works under a lease, until it is over.
func (g *worker) under(call *call, l held, a acquisition) {
	w := g.p.w
	if a.brief {
		return
	}
	for left := g.work(); left > 0 && l.Err() == nil; {
		slice := min(left, 1+g.upTo(w.plan.watchdog/2))
		left -= slice
		select {
		case <-time.After(slice):
		case <-l.Context().Done():
			if l.Err() == nil {
				return // the process is over
			}
			if cause := context.Cause(l.Context()); errors.Is(cause, lockrt.ErrLost) != errors.Is(l.Err(), lockrt.ErrLost) && g.p.ctx.Err() == nil && call.limit == 0 {
				w.fail("%s: the context says %v and the lease %v", call, cause, l.Err())
			}
			return
		}
		if a.also != nil {
			a.also(call, l)
		}
		switch {
		case a.enter != nil && g.chance(10):
			if !g.again(call, l, a) {
				return
			}
		case !a.bare && g.chance(10):
			for_ := 100*time.Millisecond + g.upTo(2*w.plan.watchdog)
			if err := l.Extend(g.p.ctx, for_); err != nil && l.Err() == nil && !w.watch.shaky() {
				w.fail("%s: extending by %v: %v", call, for_, err)
			}
			w.watch.extended(call)
		}
	}
}

// again enters a lease once more and leaves it, and reports whether the worker goes on.
func (g *worker) again(c *call, l held, a acquisition) bool {
	w, began := g.p.w, g.p.w.watch.now()
	inner, err := a.enter(l.Context())
	if err != nil {
		if l.Err() == nil && l.Context().Err() == nil && !g.p.leaving() && !w.watch.deniesEntry(c, ownerOf(c, l), began, err) {
			w.fail("%s: entering again: %v", c, err)
		}
		return false
	}
	if inner.Token() != l.Token() {
		w.fail("%s: token %d on entering again, %d before", c, inner.Token(), l.Token())
	}
	if !g.pause(g.upTo(5 * time.Millisecond)) {
		return false
	}
	if err := inner.Unlock(g.p.ctx); err != nil && l.Err() == nil && !w.watch.shaky() {
		w.fail("%s: leaving again: %v", c, err)
	}
	return true
}

func (g *worker) key() string { return fmt.Sprintf("key%d", g.rng.IntN(g.p.w.plan.keys)) }
