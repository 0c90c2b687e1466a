package policy

import (
	"context"
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/resource"
)

// An RW is this process's side of one read-write lock. Readers share one grant; new readers join it while the queue
// is empty. A writer's grant goes to the next writer without a request, at most Options.Cohort times in a row.
//
// A call that reads under its own write lock, or under its own read lock that ends before, asks outside of the queue:
// it waits for no other call.
type RW struct {
	resource.LineCore

	Lock protocol.RW

	// Guarded by Mu:
	write  *resource.Grant   // the grant of this process for writing, or nil
	reads  []*resource.Grant // the grants for reading: one for each length of lease
	probed monotonic.Time    // when Redis was last asked for waiting Java programs
}

const (
	// lineFor is how long Redis keeps a queue whose waiters do not ask, and so the delay by dead waiters. A waiter asks
	// twice in that time.
	lineFor = 2 * time.Second

	// probeEvery is how often readers that come and go without end ask for writers whose messages they do not get. If
	// there is one, no reader joins them any more, and Redis decides whose turn it is.
	probeEvery = 250 * time.Millisecond
)

// NewRW returns the resource of the read-write lock of key.
func NewRW(c *resource.Client, key string) *RW {
	r := &RW{Lock: c.Wire.RW(key)}
	r.Client, r.Key, r.Kind = c, key, r
	return r
}

func (r *RW) Channel(*resource.Waiter) string { return r.Lock.Channel() }

// Enter makes l one more lease of this process's grants, if the caller may have it without waiting and without asking. Otherwise it may
// return the caller's grant under which it may read ahead of all waiters.
func (r *RW) Enter(ctx context.Context, l *leases.Lease, cfg *leases.Config) (entered bool, under *resource.Grant, err error) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if r.Shut {
		return false, nil, failure.ErrClosed
	}
	entered, under, err = r.allowed(ctx, l, cfg.Terms, cfg.MaxHold)
	if entered || under != nil || err != nil || l.Core().Kind() == core.KindWrite {
		return entered, under, err
	}
	switch {
	case !r.Client.Granting():
		return false, nil, failure.ErrClosed
	case r.write != nil || !r.Queue.Empty():
		return false, nil, nil
	}
	now := monotonic.Now()
	g := r.joinable(cfg.Terms, cfg.MaxHold, now)
	if g == nil {
		return false, nil, nil
	}
	l.Core().Began = now
	g.Attach(l)
	r.Client.Counts.Waited(0)
	if now.Sub(r.probed) > probeEvery {
		r.probe(now)
	}
	return true, nil, nil
}

// allowed makes l one more lease of the caller's grant, as the holder of an outer lease or as its owner, or returns the
// grant under which it may read ahead of all waiters. Neither, without an error, means that the caller has no grant.
func (r *RW) allowed(ctx context.Context, l *leases.Lease, t engine.Terms, limit time.Duration) (entered bool, under *resource.Grant, err error) {
	writes, reads := r.of(ctx, l)
	switch {
	case l.Core().Kind() == core.KindWrite && writes != nil:
		r.enter(writes, l)
		return true, nil, nil
	case l.Core().Kind() == core.KindWrite && reads != nil:
		return false, nil, failure.ErrUpgrade
	case reads != nil && readsWith(reads, t):
		r.enter(reads, l)
		return true, nil, nil
	case writes != nil:
		// A read grant beside a write grant is of the same holder.
		if g := r.joinable(t, limit, monotonic.Now()); g != nil {
			r.enter(g, l)
			return true, nil, nil
		}
		writes.Named = true
		return false, writes, nil
	case reads != nil:
		return false, reads, nil // it asks to read for longer
	}
	return false, nil, nil
}

// enter makes l one more lease of g, which the caller has, and admits the other waiters of its owner.
func (r *RW) enter(g *resource.Grant, l *leases.Lease) {
	g.Attach(l)
	if owner := l.Core().Rare().Owner; owner != nil {
		r.Admit(g, owner)
		r.Prompt(r) // the head may have gone
	}
}

// of returns the grants of the caller: those of the leases above ctx, and those of the owner of l.
func (r *RW) of(ctx context.Context, l *leases.Lease) (writes, reads *resource.Grant) {
	consider := func(x *leases.Lease) {
		g, ok := x.Core().Grant.(*resource.Grant)
		switch {
		case !ok || g.Resource() != &r.LineCore || !holds(x, g):
		case isWriter(g):
			writes = g
		case reads == nil || g.Renewed():
			reads = g
		}
	}
	for x := leases.Enterable(ctx, r.Client.Core(), r.Key); x != nil; x = leases.Enterable(x.Core().Parent, r.Client.Core(), r.Key) {
		consider(x)
	}
	if l.Core().Rare().Owner == nil {
		return writes, reads
	}
	for _, g := range r.Grants() {
		for x := range g.Leases {
			if x.Core().Rare().Owner == l.Core().Rare().Owner {
				consider(x)
			}
		}
	}
	return writes, reads
}

// heldBy returns the grant by which an owner writes, or else one by which it reads, or nil.
func (r *RW) heldBy(owner *leases.Owner) *resource.Grant {
	for _, g := range r.Grants() {
		for x := range g.Leases {
			if x.Core().Rare().Owner == owner && holds(x, g) {
				return g
			}
		}
	}
	return nil
}

// holds reports whether a caller has g by x, one of its leases, and g is still trusted: this process may have stood still.
func holds(x *leases.Lease, g *resource.Grant) bool {
	return g.Rare().Lost == nil && !x.Core().Unlocked && x.Core().Ended() == nil && g.Guard.TrustedAt(monotonic.Now())
}

// Grants returns all grants of this process.
func (r *RW) Grants() []*resource.Grant {
	if r.write == nil {
		return slices.Clone(r.reads)
	}
	return append([]*resource.Grant{r.write}, r.reads...)
}

// joinable returns the grant that a reader on these terms may join, or nil. An extension by one reader is not for those that come later.
func (r *RW) joinable(t engine.Terms, limit time.Duration, now monotonic.Time) *resource.Grant {
	if !t.Renew || limit > 0 {
		return nil
	}
	for _, g := range r.reads {
		if g.Terms() == t && g.Renewed() && !g.Guard.Extended() && g.Trusted(now) && !g.Ticket.OthersWait {
			return g
		}
	}
	return nil
}

// probe asks for waiting writers, since readers that come and go without end would keep them out, and stops new readers
// from joining if there is one. The process may get no message of them: a Java program sends none, and some of this
// library do not listen.
func (r *RW) probe(now monotonic.Time) {
	r.probed = now
	r.Stay()
	r.Client.Spawn(func() {
		defer r.Quit()
		waits, err := r.Client.Net.Run(r.Lock.Yield(probeEvery)).Bool()
		if err != nil || !waits {
			return
		}
		r.Mu.Lock()
		defer r.Mu.Unlock()
		for _, g := range r.reads {
			g.Ticket.OthersWait = true
		}
	})
}

// Join adds w to the end of the queue.
func (r *RW) Join(w *resource.Waiter) resource.Entry {
	if w.For.Ticket.Use == resource.TicketApart {
		return resource.ToAsk
	}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if w.For.Lease.Core().Rare().Owner != nil && !r.Shut { // which may have been granted the lock a moment ago
		allowed, under, err := r.allowed(w.For.Lease.Core().Parent, w.For.Lease, w.Terms, w.For.Lease.Core().Rare().MaxHold)
		switch {
		case allowed:
			w.Place = engine.PlaceGranted
			return resource.Entered
		case err != nil:
			w.Notify(engine.Event{Kind: engine.Failed, Err: err})
			return resource.ToWait
		case under != nil:
			rwTicketOf(w).readsUnder(under)
			return resource.ToAsk
		}
	}
	return r.Line.Join(w, r)
}

func (r *RW) Excludes(w *resource.Waiter) bool {
	return r.write != nil || rwTicketOf(w).write && len(r.reads) > 0
}

// Follow has a reader join the readers of this process.
func (r *RW) Follow(w *resource.Waiter) bool {
	if rwTicketOf(w).write || w.For.Ticket.Number > 0 || r.write != nil || !r.Client.Granting() {
		return false
	}
	at := monotonic.Now()
	g := r.joinable(w.Terms, w.For.Lease.Core().Rare().MaxHold, at)
	if g == nil {
		return false
	}
	r.Queue.Remove(w)
	r.Give(g, w, at)
	return true
}

// HeldFor returns the grants of this process for reading, or for writing with its reads under that.
func (r *RW) HeldFor(write bool) []*resource.Grant {
	if all := r.Held(); len(all) > 0 && write == isWriter(all[0]) {
		return all
	}
	return nil
}

// Entered returns the number of leases of the process for writing, and for reading.
func (r *RW) Entered() (writes, reads int) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if r.write != nil {
		writes = r.write.Size()
	}
	for _, g := range r.reads {
		reads += g.Size()
	}
	return writes, reads
}
