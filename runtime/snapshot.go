package lockrt

import (
	"cmp"
	"context"
	hexes "encoding/hex"
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// Snapshot returns the holds of the Client and its waiting calls. It does not contact Redis. It leaves out calls that
// try once and, as a rule, calls that Redis has not refused yet. The first Client of a RedLock or MultiLock lists its
// calls.
func (c *Client) Snapshot() Snapshot {
	return c.look("", 0)
}

// look is Snapshot of one key, or of all, with at most most entries, or all for 0.
func (c *Client) look(key string, most int) Snapshot {
	if c.made() == nil {
		return Snapshot{Version: SnapshotVersion, At: time.Now()}
	}
	s := Snapshot{Version: SnapshotVersion, At: time.Now(), Process: c.Process()}
	waiting := c.waitingCalls(key)
	if most > 0 && len(waiting) > most/2 {
		s.Omitted = len(waiting) - most/2
		waiting = waiting[:most/2]
	}
	for _, w := range waiting {
		s.Waiting = append(s.Waiting, w.describe(c))
	}
	guards, omitted := c.guards(key, most)
	s.Omitted += omitted
	for _, guard := range guards {
		if held, ok := c.describe(guard); ok {
			s.Held = append(s.Held, held)
		}
	}
	slices.SortFunc(s.Held, func(a, b HeldLock) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Key, b.Key))
	})
	slices.SortFunc(s.Waiting, func(a, b WaitingCall) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Key, b.Key))
	})
	return s
}

// guards returns the leases of a key, or of all: at most most, or all for 0. It also returns how many it leaves out.
func (c *Client) guards(key string, most int) (all []*watchdog.Lease, omitted int) {
	if key == "" {
		return c.watchdog.Leases(max(0, most-most/2))
	}
	for _, g := range c.grantsOf(key) {
		all = append(all, &g.guard)
	}
	if permits, known := c.permits.known(key); known {
		permits.mu.Lock()
		for p := range permits.permits {
			all = append(all, &p.lease)
		}
		permits.mu.Unlock()
	}
	if most > 0 && len(all) > most {
		return all[:most], len(all) - most
	}
	return all, 0
}

// A visible grant can be inspected.
type visible interface {
	// show returns its leases, of which the first is that of the present holder, and how many calls of this process
	// wait for the key. There are none for a moment between two holders.
	show() (leases []shownLease, queued int)
}

// A shownLease is a lease as it was at one moment.
type shownLease struct {
	*leaseCore

	token   int64
	permits int // number of its permits; 0 for a lock
}

// describe returns the held lock of guard, unless no call has it by now.
func (c *Client) describe(guard *watchdog.Lease) (HeldLock, bool) {
	v, ok := guard.Holding.(visible)
	if !ok {
		return HeldLock{}, false
	}
	leases, queued := v.show()
	if len(leases) == 0 {
		return lingeringLock(guard)
	}
	first := leases[0]
	held := HeldLock{
		Key: guard.Key(), Kind: Kind(guard.Kind()), Owner: ownerOf(guard), Name: first.name, Since: first.began.Std(),
		Holds: len(leases), Lease: guard.TTL, Renewed: guard.Renew, Left: max(0, time.Until(guard.Ends())),
		Token: first.token, Queued: queued,
	}
	if first.permits > 0 {
		held.Holds = first.permits
	}
	for _, l := range leases[1:] {
		if since := l.began.Std(); since.Before(held.Since) {
			held.Since = since
		}
	}
	held.Trace = c.traceOf(first.parent)
	return held, true
}

// ownerOf returns the name of the owner of a lease in Redis; for permits, the id of the first.
func ownerOf(guard *watchdog.Lease) string {
	owner := guard.Owner()
	if guard.Kind() == kindPermit {
		return hexes.EncodeToString([]byte(owner[:min(idLength, len(owner))]))
	}
	return owner
}

func (c *Client) traceOf(ctx context.Context) string {
	if hook := c.opts.Hooks.TraceParent; hook != nil && ctx != nil {
		return hook(ctx)
	}
	return ""
}

func shownLeases(leases []*Lease) []shownLease {
	shown := make([]shownLease, len(leases))
	for i, l := range leases {
		shown[i] = shownLease{&l.leaseCore, l.token, 0}
	}
	return shown
}

func (g *grantCore) show() (leases []shownLease, queued int) {
	of := g.guard.Holding.(interface{ queued() int }) //nolint:forcetypeassert // a grant guards itself
	g.on.mu.Lock()
	defer g.on.mu.Unlock()
	return shownLeases(slices.Collect(g.leases.all)), of.queued()
}

func (g *grant) queued() int { return g.resource.Queue.Length() }

func (g *lineGrant) queued() int { return g.ticket.r.Queue.Length() }

func (g *fairGrant) queued() int { return len(g.resource.tickets) }

func (p permitHolding) show() (leases []shownLease, queued int) {
	p.counter.mu.Lock()
	defer p.counter.mu.Unlock()
	if p.state != permitHeld {
		return nil, 0
	}
	return []shownLease{{p.leaseCore, 0, len(p.ids) / idLength}}, p.counter.Queue.Length()
}

// A shownCall is a call that waits, as it was at one moment.
type shownCall struct {
	engine.Call

	kind, key string
	permits   int
}

// waitingCalls returns the calls that wait for a key or for any.
func (c *Client) waitingCalls(key string) (all []shownCall) {
	c.eachWaiting(key, func(w *waiter, kind, key string) {
		permits := 0
		if w.For.demand != nil {
			permits = w.For.demand.N
		}
		all = append(all, shownCall{w.Call, kind, key, permits})
	})
	return all
}

// eachWaiting calls f for each call that waits for a key or for any, under the lock of its contest.
func (c *Client) eachWaiting(key string, f func(w *waiter, kind, key string)) {
	if c.counts.waiting.Load() == 0 {
		return
	}
	add := func(w *waiter, kind, key string) {
		if w.Once() {
			return
		}
		if w.For.lease != nil {
			kind = w.For.lease.kind()
		}
		f(w, kind, key)
	}
	for _, r := range c.resources.some(key) {
		r.mu.Lock()
		r.Queue.Each(func(w *waiter) { add(w, kindMutex, r.key) })
		r.mu.Unlock()
	}
	for _, r := range c.rws.some(key) {
		r.mu.Lock()
		r.Queue.Each(func(w *waiter) { add(w, kindRead, r.key) })
		r.mu.Unlock()
	}
	for _, r := range c.fairs.some(key) {
		r.mu.Lock()
		for _, tk := range r.tickets {
			add(tk.w, kindFair, r.key)
		}
		r.mu.Unlock()
	}
	for _, kind := range counted {
		for _, ct := range c.countersOf(kind).some(key) {
			ct.mu.Lock()
			ct.Queue.Each(func(w *waiter) { add(w, kind, ct.key) })
			ct.mu.Unlock()
		}
	}
	c.quorums.mu.Lock()
	for _, q := range c.quorums.all {
		for i, e := range q.acquires {
			if (key == "" || e.m.key == key) && (i > 0 || e.began.Load() == 0) { // the first one stays in the queue until its lease is over
				add(e.w, kindRedLock, e.m.key)
			}
		}
	}
	c.quorums.mu.Unlock()
}

func (w shownCall) describe(c *Client) WaitingCall {
	s := WaitingCall{Key: w.key, Kind: Kind(w.kind), Name: w.Name, Since: w.Since.Std(), Permits: w.permits, Under: under(w.Ctx), Trace: c.traceOf(w.Ctx)}
	if w.Wait != UntilDone {
		over := s.Since.Add(w.Wait)
		s.Deadline = &over
	}
	if over, ok := w.Ctx.Deadline(); ok && (s.Deadline == nil || over.Before(*s.Deadline)) {
		s.Deadline = &over
	}
	return s
}

// mostUnder is the largest number of leases listed for a waiting call.
const mostUnder = 16

// under returns the leases in ctx that have not ended, the innermost first.
func under(ctx context.Context) (refs []LeaseRef) {
	eachLease(ctx, func(t *leaseCore) {
		ref := LeaseRef{Key: t.key, Owner: ownerOf(t.guard)}
		if !slices.Contains(refs, ref) && len(refs) < mostUnder {
			refs = append(refs, ref)
		}
	})
	return refs
}

// eachLease calls f for each lease in ctx that has not ended, the innermost first, and for the parts of one that has
// some.
func eachLease(ctx context.Context, f func(t *leaseCore)) {
	var parts func(t *leaseCore)
	parts = func(t *leaseCore) {
		if t.composite == nil {
			if t.guard != nil && t.ended() == nil {
				f(t)
			}
			return
		}
		for _, part := range t.composite.all() {
			parts(&part.leaseCore)
		}
	}
	for {
		x, _ := ctx.Value(leaseCoreKey{}).(*leaseContext)
		if x == nil {
			return
		}
		parts((*leaseCore)(x))
		ctx = x.parent
	}
}
