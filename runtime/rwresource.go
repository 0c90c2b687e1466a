package lockrt

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// An rwResource is this process's side of one read-write lock. Those who wait stand in one queue, first come,
// first served, and its head asks Redis. Those who read together share one grant; they pass by the
// queue while it is empty.
//
//	           granted                   the last one unlocks
//	┌── asking ────────► write, or reads ────────────────────► releasing ──┐
//	│    ▲   │             ▲      │                                        │
//	│    └───┘             └──────┘                                        │
//	│   refused: again     read: others join                               │
//	│   by message and     write: the next writer                          │
//	│   by timer           has it, for some times                          │
//	└──────────────────────── the head's turn ◄────────────────────────────┘
//
// Who reads under a write lock of its own, or under a read lock of its own that ends before, asks beside
// the queue: it waits for nobody.
type rwResource struct {
	referenced

	lock protocol.RW

	mu      sync.Mutex // guards the rest; never held while waiting for anything
	queue   waitQueue  // of those who wait
	write   *rwGrant   // what the process has for writing, or nil
	reads   []*rwGrant // what it has for reading: one for each length of lease
	busy    int        // requests of the queue under way, or a loss that is being reported
	shut    bool       // the client is closed: nobody enters again
	answers answerLog  // by Redis

	probed time.Time // when Redis was last asked whether a Java program waits
}

const (
	// lineFor is for how long a line is remembered that nobody asks for any more, and so what it costs if those in it have
	// died. Who stands in one asks twice in that time.
	lineFor = 2 * time.Second

	// probeEvery is how often readers that come and go without end look whether anybody waits to write of whom they do not
	// hear. If so, nobody joins them any more, and it is for Redis to say whose turn it is.
	probeEvery = 250 * time.Millisecond
)

func newRWResource(c *Client, key string) *rwResource {
	return &rwResource{referenced: referenced{c: c, key: key}, lock: c.wire.RW(key)}
}

func (r *rwResource) channel() string { return r.lock.Channel() }

// hear has no use for what is said on the channel: that something was is a reason to ask.
func (r *rwResource) hear(string) {}

// enter makes l one more lease of what this process has, if the caller may have it without waiting and
// without asking. Otherwise it may return what the caller has that lets it read past everybody.
func (r *rwResource) enter(ctx context.Context, l *Lease, cfg lockConfig) (entered bool, under *rwGrant, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shut {
		return false, nil, ErrClosed
	}
	entered, under, err = r.allowed(ctx, l, cfg.terms, cfg.maxHold)
	if entered || under != nil || err != nil || l.kind == kindWrite {
		return entered, under, err
	}
	switch {
	case !r.c.granting():
		return false, nil, ErrClosed
	case r.write != nil || r.queue.length > 0:
		return false, nil, nil
	}
	now := time.Now()
	g := r.joinable(cfg.terms, cfg.maxHold, now)
	if g == nil {
		return false, nil, nil
	}
	g.attach(g, l)
	r.c.counts.waited(0)
	if now.Sub(r.probed) > probeEvery {
		r.probe(now)
	}
	return true, nil, nil
}

// allowed makes l one more lease of what the caller has already, as the holder of an outer lease or as its owner,
// or returns what lets it read past everybody. Neither nor an error means that the caller has nothing.
func (r *rwResource) allowed(ctx context.Context, l *Lease, t terms, limit time.Duration) (entered bool, under *rwGrant, err error) {
	writes, reads := r.of(ctx, l)
	switch {
	case l.kind == kindWrite && writes != nil:
		writes.attach(writes, l)
		return true, nil, nil
	case l.kind == kindWrite && reads != nil:
		return false, nil, ErrUpgrade
	case reads != nil && (reads.renewed() || !reads.terms.renew && !t.renew):
		reads.attach(reads, l)
		return true, nil, nil
	case writes != nil:
		// What is held for reading beside a write lock is of the same holder.
		if g := r.joinable(t, limit, time.Now()); g != nil {
			g.attach(g, l)
			return true, nil, nil
		}
		writes.shown = true
		return false, writes, nil
	case reads != nil:
		return false, reads, nil // it asks to read for longer
	}
	return false, nil, nil
}

// of returns what the caller has: by the context that l is taken under, or by its owner.
func (r *rwResource) of(ctx context.Context, l *Lease) (writes, reads *rwGrant) {
	consider := func(x *Lease) {
		g, ok := x.grant.(*rwGrant)
		switch {
		case !ok || g.resource != r || g.lost != nil || x.unlocked.Load() || x.ended() != nil:
		case g.ticket.write:
			writes = g
		case reads == nil || g.renewed():
			reads = g
		}
	}
	for x := leaseFrom(ctx, r.c, r.key); x != nil; x = leaseFrom(x.parent, r.c, r.key) {
		consider(x)
	}
	if l.owner == nil {
		return writes, reads
	}
	for _, g := range r.all() {
		for _, x := range g.leases {
			if x.owner == l.owner {
				consider(x)
			}
		}
	}
	return writes, reads
}

// all returns what this process has.
func (r *rwResource) all() []*rwGrant {
	if r.write == nil {
		return r.reads
	}
	return append([]*rwGrant{r.write}, r.reads...)
}

// joinable returns the grant that one who wants to read on these terms may join, or nil.
func (r *rwResource) joinable(t terms, limit time.Duration, now time.Time) *rwGrant {
	if !t.renew || limit > 0 {
		return nil
	}
	for _, g := range r.reads {
		if g.terms == t && g.renewed() && g.trusted(now) && !g.ticket.othersWait {
			return g
		}
	}
	return nil
}

// probe asks whether anybody waits to write, since readers that come and go without end would keep out one, and has nobody
// join them if so. They may not hear of it: a Java program tells nobody, and some of this library do not listen.
func (r *rwResource) probe(now time.Time) {
	r.probed = now
	r.stay()
	r.c.spawn(func() {
		defer r.quit()
		waits, err := r.c.net.Run(r.lock.Yield(probeEvery)).Bool()
		if err != nil || !waits {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, g := range r.reads {
			g.ticket.othersWait = true
		}
	})
}

// join puts w at the end of the queue.
func (r *rwResource) join(w *waiter) entry {
	if w.rw.under != nil {
		return toAsk
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.lease.owner != nil { // who may have been granted something a moment ago
		allowed, under, err := r.allowed(w.lease.parent, w.lease, w.terms, w.limit)
		switch {
		case allowed:
			w.place.granted = true
			return entered
		case err != nil:
			w.notify(event{kind: failed, err: err})
			return toWait
		case under != nil:
			w.rw.under = under
			return toAsk
		}
	}
	if w.once && (r.queue.length > 0 || r.has(w)) {
		return turnedAway
	}
	r.queue.push(w)
	w.place.leading = r.queue.first == w && r.ready(w)
	if w.place.leading {
		return toAsk
	}
	return toWait
}

// has reports whether this process has what keeps w out.
func (r *rwResource) has(w *waiter) bool { return r.write != nil || w.rw.write && len(r.reads) > 0 }

// last returns whether this process has what keeps w out, and what Redis said last.
func (r *rwResource) last(w *waiter) (held bool, said answerLog) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.queue.first
	return r.has(w) || first != nil && r.has(first), r.answers.look()
}

// remind has the head of the queue ask.
func (r *rwResource) remind() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.promptHead()
}

// ready reports whether the head of the queue, w, may ask Redis.
func (r *rwResource) ready(w *waiter) bool {
	switch {
	case r.busy > 0 || r.write != nil || w.place.granted:
		return false
	case w.rw.write:
		return len(r.reads) == 0
	}
	return true
}

// promptHead makes it the head's turn to ask, unless there is no need. One who wants to read may find a grant to
// join. A head whose turn it is already is reminded.
func (r *rwResource) promptHead() {
	for {
		w := r.queue.first
		if w == nil {
			return
		}
		if !w.rw.write && w.rw.n == 0 && r.write == nil && r.c.granting() {
			if g := r.joinable(w.terms, w.limit, time.Now()); g != nil {
				r.queue.remove(w)
				r.assign(g, w)
				continue
			}
		}
		switch {
		case !r.ready(w):
		case w.place.leading:
			w.poke()
		default:
			w.place.leading = true
			w.notify(event{kind: turn})
		}
		return
	}
}

// held returns what the process has for reading, or for writing with what it reads under that.
func (r *rwResource) held(write bool) []*rwGrant {
	r.mu.Lock()
	defer r.mu.Unlock()
	if write != (r.write != nil) {
		return nil
	}
	return slices.Clone(r.all())
}

// entered returns how many leases the process has for writing, and for reading.
func (r *rwResource) entered() (writes, reads int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.write != nil {
		writes = len(r.write.leases)
	}
	for _, g := range r.reads {
		reads += len(g.leases)
	}
	return writes, reads
}

// changed has what the process has looked at, since somebody changed it.
func (r *rwResource) changed() {
	r.mu.Lock()
	holds := slices.Clone(r.all())
	r.mu.Unlock()
	for _, g := range holds {
		r.c.watchdog.Look(&g.guard)
	}
}

// close ends the leases of this resource because the client is closed. It sends nothing to Redis.
func (r *rwResource) close() {
	r.mu.Lock()
	r.shut = true
	holds := slices.Clone(r.all())
	r.mu.Unlock()
	for _, g := range holds {
		g.endLeases(ErrClosed)
	}
}

// queueKey says that those who wait get messages in line, though nothing is handed to them.
func (r *rwResource) queueKey() string { return r.key }
