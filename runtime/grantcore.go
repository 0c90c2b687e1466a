package lockrt

import (
	"errors"
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// A grantCore is the common part of the grants of all kinds of locks: leases that enter it and leave it, and a guard,
// which renews it.
type grantCore struct {
	on    *referenced    // the resource of the grant, whose lock guards the rest
	guard watchdog.Lease // has a part of the terms

	state           engine.GrantState
	idle            bool        // no caller works under it, it only stays locked for a while; Shutdown does not wait for it
	tokenPending    bool        // the token of a RedLock is not known yet
	fenced, polling bool        // of the terms
	leases          leaseList   // of the present holder, one and one more for each reentry; or of all readers
	extra           *grantExtra // nil for most grants
}

// A grantExtra is what few grants have.
type grantExtra struct {
	limit time.Duration // of the present holder: WithMaxHold, or 0
	lost  error         // why the watchdog gave up, or nil
}

// rare returns the extra of the grant as it is.
func (g *grantCore) rare() grantExtra {
	if g.extra == nil {
		return grantExtra{}
	}
	return *g.extra
}

// more returns the extra of the grant, to change it.
func (g *grantCore) more() *grantExtra {
	if g.extra == nil {
		g.extra = new(grantExtra)
	}
	return g.extra
}

// agree sets the terms of a new grant.
func (g *grantCore) agree(t engine.Terms) {
	g.guard.TTL, g.guard.Renew, g.fenced, g.polling = t.TTL, t.Renew, t.Fenced, t.Polling
}

// terms returns the terms of the grant.
func (g *grantCore) terms() engine.Terms {
	return engine.Terms{TTL: g.guard.TTL, Renew: g.guard.Renew, Fenced: g.fenced, Polling: g.polling}
}

func (g *grantCore) Key() string { return g.on.key }

func (g *grantCore) base() *grantCore { return g }

// worked reports whether a caller works under g.
func (g *grantCore) worked() bool {
	for l := range g.leases.all {
		if l.ended() == nil {
			return true
		}
	}
	return false
}

// start starts the renewal of the grant. Redis granted it no earlier than at from, for ttl at
// first.
func (g *grantCore) start(as watchdog.Holding, from time.Time, ttl time.Duration) {
	c := g.on.c
	g.guard.Holding = as
	g.on.stay()
	c.held(1)
	if !g.polling {
		c.hearFor(g.on.key)
	}
	c.watchdog.Start(&g.guard, from, ttl)
}

// attach makes l a lease of the grant: the first, or a reentry.
func (g *grantCore) attach(as anyGrant, l *Lease) {
	if outer := g.leases.first; outer != nil {
		l.token, l.came = outer.token, fromItself
	}
	l.begin(as, &g.guard)
	g.leases.add(l)
}

// limitTo ends the renewal when l, which is given the grant, has had it for its max hold, or for 0 never.
func (g *grantCore) limitTo(hold time.Duration, l *Lease) {
	if hold == 0 && g.rare().limit == 0 {
		return
	}
	g.more().limit = hold
	var at time.Time
	if hold > 0 {
		at = l.began.Add(hold).Std()
	}
	g.on.c.watchdog.Limit(&g.guard, at)
}

// endLeases ends the leases because of cause.
func (g *grantCore) endLeases(cause error) {
	g.on.mu.Lock()
	leases := slices.Collect(g.leases.all)
	g.on.mu.Unlock()
	for _, l := range leases {
		l.end(cause)
	}
}

// bearer returns the first of the leases that have it at present, or nil.
func (g *grantCore) bearer() *leaseCore {
	g.on.mu.Lock()
	defer g.on.mu.Unlock()
	if g.leases.first == nil {
		return nil
	}
	return &g.leases.first.leaseCore
}

// A losable grant says what its loss means for its resource.
type losable interface {
	// core returns its ticket.
	core() *engine.TicketCore
	// remove takes it from its resource, because of cause, or without one to release it: no other call gets it. The caller
	// holds the lock of that.
	remove(cause error)
	// notified continues the queue when its leases have ended. The caller holds the lock.
	notified()
	// outlived is called when the lease is over that its holder was promised.
	outlived()
	// deleted is called when Redis does not have it: the deletion of its key notified no waiter.
	deleted()
}

// Most losses need no more than this.
func (*grantCore) outlived() {}
func (*grantCore) deleted()  {}

// An unlockable grant, of a read-write lock or of a fair mutex, says what to do when nobody has it any more. The caller
// holds the lock of its resource.
type unlockable interface {
	losable
	// pass gives it to the next waiter of this process, if there is one that may have it as it is, and reports whether it
	// did.
	pass() bool
	// free releases its ticket.
	free() *releaseOp
	// forget withdraws its ticket after a loss, if Redis may still have it, or may have it again. refused tells that Redis
	// had it no more.
	forget(refused bool)
}

var (
	_ losable = (*grant)(nil)
	_         = []unlockable{(*rwGrant)(nil), (*fairGrant)(nil)}
)

// unlock ends l. The last lease of a grant passes it on or frees it.
func (g *grantCore) unlock(l *Lease) error {
	if l.unlocked.Swap(true) {
		return ErrReleased
	}
	l.end(ErrReleased) // before another caller can get it

	of := g.guard.Holding.(unlockable) //nolint:forcetypeassert // a mutex has its own unlock
	g.on.mu.Lock()
	g.leases.remove(l)
	var op *releaseOp
	switch {
	case g.leases.first != nil:
	case g.rare().lost != nil:
		of.forget(errors.Is(g.rare().lost, watchdog.ErrRefused))
	case !errors.Is(l.ended(), ErrLost) && of.pass():
	default:
		g.state.To(engine.GrantReleasing)
		of.core().To(engine.TicketReleasing)
		of.remove(nil)
		g.on.c.watchdog.Stop(&g.guard)
		op = of.free()
	}
	cause := g.rare().lost
	g.on.mu.Unlock()
	if op == nil {
		return cause
	}
	return op.outcome(l)
}

// taken has the grant lost, which Redis does not have any more. It does not block.
func (g *grantCore) taken() {
	g.on.c.spawn(func() { g.on.c.watchdog.Lose(&g.guard, watchdog.ErrRefused) })
}

// Lost revokes a grant that Redis has for another owner now, or may have soon: it ends the leases.
func (g *grantCore) Lost(cause error) {
	of := g.guard.Holding.(losable) //nolint:forcetypeassert // a grant guards itself
	g.on.mu.Lock()
	if g.state > engine.GrantLingering {
		g.on.mu.Unlock()
		return // it is being released
	}
	g.more().lost = lost(cause)
	g.state.To(engine.GrantLost)
	of.core().To(engine.TicketDone)
	of.remove(cause)
	g.on.mu.Unlock()

	g.notifyLoss(lost(cause))
	if errors.Is(cause, watchdog.ErrRefused) {
		g.on.c.spawn(of.deleted)
	}
}

// notifyLoss ends the leases because of cause, and then continues the queue if the grant is lost.
func (g *grantCore) notifyLoss(cause error) {
	g.endLeases(cause)
	of := g.guard.Holding.(losable) //nolint:forcetypeassert // a grant guards itself
	g.on.mu.Lock()
	first := g.state == engine.GrantLost
	if first {
		g.state.To(engine.GrantNotified)
		of.notified()
	}
	g.on.mu.Unlock()
	if !first {
		return
	}
	left := g.guard.Ends().Sub(now())
	if errors.Is(cause, watchdog.ErrRefused) {
		left = 0
	}
	g.on.c.subscribers.Depart(of.core().Number, left, of.outlived)
	if !g.idle {
		g.on.c.held(-1)
	}
	g.on.quit()
}
