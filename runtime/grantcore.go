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
	on    *referenced // the resource of the grant, whose lock guards the rest
	terms engine.Terms
	guard watchdog.Lease

	state        engine.GrantState
	idle         bool          // no caller works under it, it only stays locked for a while; Shutdown does not wait for it
	tokenPending bool          // the token of a RedLock is not known yet
	leases       []*Lease      // of the present holder, one and one more for each reentry; or of all readers
	one          [1]*Lease     // room for the first
	limit        time.Duration // of the present holder: WithMaxHold, or 0
	lost         error         // why the watchdog gave up, or nil
}

func (g *grantCore) Key() string { return g.on.key }

func (g *grantCore) base() *grantCore { return g }

// worked reports whether a caller works under g.
func (g *grantCore) worked() bool {
	return slices.ContainsFunc(g.leases, func(l *Lease) bool { return l.ended() == nil })
}

// start starts the renewal of the grant. Redis granted it no earlier than at from, for ttl at
// first.
func (g *grantCore) start(as watchdog.Holding, from time.Time, ttl time.Duration) {
	c := g.on.c
	g.guard = watchdog.Lease{Holding: as, TTL: g.terms.TTL, Renew: g.terms.Renew}
	g.on.stay()
	c.held(1)
	if !g.terms.Polling {
		c.hearFor(g.on.key)
	}
	c.watchdog.Start(&g.guard, from, ttl)
}

// attach makes l a lease of the grant: the first, or a reentry.
func (g *grantCore) attach(as anyGrant, l *Lease) {
	if g.leases == nil {
		g.leases = g.one[:0]
	}
	if len(g.leases) > 0 {
		l.token, l.came = g.leases[0].token, fromItself
	}
	l.begin(as, &g.guard)
	l.at = int32(len(g.leases))
	g.leases = append(g.leases, l)
}

// detach removes l from the leases.
func (g *grantCore) detach(l *Lease) {
	last := len(g.leases) - 1
	g.leases[l.at] = g.leases[last]
	g.leases[l.at].at = l.at
	g.leases[last] = nil
	g.leases = g.leases[:last]
}

// limitTo ends the renewal when l, which is given the grant, has had it for its max hold, or for 0 never.
func (g *grantCore) limitTo(hold time.Duration, l *Lease) {
	if hold == g.limit && hold == 0 {
		return
	}
	g.limit = hold
	var at time.Time
	if hold > 0 {
		at = l.began.Add(hold).Std()
	}
	g.on.c.watchdog.Limit(&g.guard, at)
}

// endLeases ends the leases because of cause.
func (g *grantCore) endLeases(cause error) {
	g.on.mu.Lock()
	leases := slices.Clone(g.leases)
	g.on.mu.Unlock()
	for _, l := range leases {
		l.end(cause)
	}
}

// bearer returns the first of the leases that have it at present, or nil.
func (g *grantCore) bearer() *leaseCore {
	g.on.mu.Lock()
	defer g.on.mu.Unlock()
	if len(g.leases) == 0 {
		return nil
	}
	return &g.leases[0].leaseCore
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
func (*grantCore) notified() {}
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
	g.detach(l)
	var op *releaseOp
	switch {
	case len(g.leases) > 0:
	case g.lost != nil:
		of.forget(errors.Is(g.lost, watchdog.ErrRefused))
	case !errors.Is(l.ended(), ErrLost) && of.pass():
	default:
		g.state.To(engine.GrantReleasing)
		of.core().To(engine.TicketReleasing)
		of.remove(nil)
		g.on.c.watchdog.Stop(&g.guard)
		op = of.free()
	}
	cause := g.lost
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
	g.lost = lost(cause)
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
