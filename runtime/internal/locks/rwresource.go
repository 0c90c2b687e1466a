package locks

import (
	"context"
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// An rwResource is this process's side of one read-write lock. Readers share one grant; new readers join it while the queue
// is empty. A writer's grant goes to the next writer without a request, at most Options.Cohort times in a row.
//
// A call that reads under its own write lock, or under its own read lock that ends before, asks outside of the queue:
// it waits for no other call.
type rwResource struct {
	lineCore

	lock protocol.RW

	// Guarded by mu:
	write  *grant    // the grant of this process for writing, or nil
	reads  []*grant  // the grants for reading: one for each length of lease
	probed time.Time // when Redis was last asked for waiting Java programs
}

const (
	// lineFor is how long Redis keeps a queue whose waiters do not ask, and so the delay by dead waiters. A waiter asks
	// twice in that time.
	lineFor = 2 * time.Second

	// probeEvery is how often readers that come and go without end ask for writers whose messages they do not get. If
	// there is one, no reader joins them any more, and Redis decides whose turn it is.
	probeEvery = 250 * time.Millisecond
)

func newRWResource(c *clientLine, key string) *rwResource {
	r := &rwResource{lock: c.wire.RW(key)}
	r.c, r.key, r.kind = c, key, r
	return r
}

func (r *rwResource) channel(*waiter) string { return r.lock.Channel() }

// enter makes l one more lease of this process's grants, if the caller may have it without waiting
// and without asking. Otherwise it may return the caller's grant under which it may read ahead of
// all waiters.
func (r *rwResource) enter(ctx context.Context, l *Lease, cfg lockConfig) (entered bool, under *grant, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shut {
		return false, nil, failure.ErrClosed
	}
	entered, under, err = r.allowed(ctx, l, cfg.Terms, cfg.maxHold)
	if entered || under != nil || err != nil || l.kind() == kindWrite {
		return entered, under, err
	}
	switch {
	case !r.c.granting():
		return false, nil, failure.ErrClosed
	case r.write != nil || !r.Queue.Empty():
		return false, nil, nil
	}
	now := time.Now()
	g := r.joinable(cfg.Terms, cfg.maxHold, now)
	if g == nil {
		return false, nil, nil
	}
	g.attach(l)
	r.c.counts.waited(0)
	if now.Sub(r.probed) > probeEvery {
		r.probe(now)
	}
	return true, nil, nil
}

// allowed makes l one more lease of the caller's grant, as the holder of an outer lease or as its owner, or returns the
// grant under which it may read ahead of all waiters. Neither, without an error, means that the caller has no grant.
func (r *rwResource) allowed(ctx context.Context, l *Lease, t engine.Terms, limit time.Duration) (entered bool, under *grant, err error) {
	writes, reads := r.of(ctx, l)
	switch {
	case l.kind() == kindWrite && writes != nil:
		writes.attach(l)
		return true, nil, nil
	case l.kind() == kindWrite && reads != nil:
		return false, nil, failure.ErrUpgrade
	case reads != nil && (reads.renewed() || !reads.guard.Renew && !t.Renew):
		reads.attach(l)
		return true, nil, nil
	case writes != nil:
		// A read grant beside a write grant is of the same holder.
		if g := r.joinable(t, limit, time.Now()); g != nil {
			g.attach(l)
			return true, nil, nil
		}
		writes.shown = true
		return false, writes, nil
	case reads != nil:
		return false, reads, nil // it asks to read for longer
	}
	return false, nil, nil
}

// of returns the grants of the caller: by the context of l, or by its owner.
func (r *rwResource) of(ctx context.Context, l *Lease) (writes, reads *grant) {
	consider := func(x *Lease) {
		g, ok := x.grant.(*grant)
		switch {
		case !ok || g.on() != &r.lineCore || g.rare().lost != nil || x.unlocked || x.ended() != nil:
		case isWriter(g):
			writes = g
		case reads == nil || g.renewed():
			reads = g
		}
	}
	for x := leaseFrom(ctx, r.c.core(), r.key); x != nil; x = leaseFrom(x.parent, r.c.core(), r.key) {
		consider(x)
	}
	if l.rare().owner == nil {
		return writes, reads
	}
	for _, g := range r.grants() {
		for x := range g.leases {
			if x.rare().owner == l.rare().owner {
				consider(x)
			}
		}
	}
	return writes, reads
}

// grants returns all grants of this process.
func (r *rwResource) grants() []*grant {
	if r.write == nil {
		return slices.Clone(r.reads)
	}
	return append([]*grant{r.write}, r.reads...)
}

// joinable returns the grant that a reader on these terms may join, or nil.
func (r *rwResource) joinable(t engine.Terms, limit time.Duration, now time.Time) *grant {
	if !t.Renew || limit > 0 {
		return nil
	}
	for _, g := range r.reads {
		if g.terms() == t && g.renewed() && g.trusted(now) && !g.ticket.OthersWait {
			return g
		}
	}
	return nil
}

// probe asks for waiting writers, since readers that come and go without end would keep them out, and stops new readers
// from joining if there is one. The process may get no message of them: a Java program sends none, and some of this
// library do not listen.
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
			g.ticket.OthersWait = true
		}
	})
}

// join adds w to the end of the queue.
func (r *rwResource) join(w *waiter) entry {
	if w.For.ticket.use == ticketApart {
		return toAsk
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.For.lease.rare().owner != nil { // which may have been granted the lock a moment ago
		allowed, under, err := r.allowed(w.For.lease.parent, w.For.lease, w.Terms, w.Limit)
		switch {
		case allowed:
			w.Place = engine.PlaceGranted
			return entered
		case err != nil:
			w.Notify(engine.Event{Kind: engine.Failed, Err: err})
			return toWait
		case under != nil:
			rwTicketOf(w).readsUnder(under)
			return toAsk
		}
	}
	return r.Join(w, r)
}

func (r *rwResource) Excludes(w *waiter) bool {
	return r.write != nil || rwTicketOf(w).write && len(r.reads) > 0
}

// Follow has a reader join the readers of this process.
func (r *rwResource) Follow(w *waiter) bool {
	if rwTicketOf(w).write || w.For.ticket.Number > 0 || r.write != nil || !r.c.granting() {
		return false
	}
	g := r.joinable(w.Terms, w.Limit, time.Now())
	if g == nil {
		return false
	}
	r.Queue.Remove(w)
	r.give(g, w)
	return true
}

// heldFor returns the grants of this process for reading, or for writing with its reads under that.
func (r *rwResource) heldFor(write bool) []*grant {
	if all := r.held(); len(all) > 0 && write == isWriter(all[0]) {
		return all
	}
	return nil
}

// entered returns the number of leases of the process for writing, and for reading.
func (r *rwResource) entered() (writes, reads int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.write != nil {
		writes = r.write.size()
	}
	for _, g := range r.reads {
		reads += g.size()
	}
	return writes, reads
}
