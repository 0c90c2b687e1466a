package lockrt

import (
	"github.com/lockgen/lockgen/runtime/internal/engine"
)

// An exclusiveCore is the common part of the resources that have one grant at a time: *grant of a mutex, or *fairGrant of a fair mutex.
type exclusiveCore[G exclusiveGrant] struct {
	referenced

	grant G // the grant of this process, or nil; guarded by mu
}

type exclusiveGrant interface {
	comparable
	anyGrant
	base() *grantCore
}

// held returns the present grant, if there is one.
func (r *exclusiveCore[G]) held() []*grantCore {
	r.mu.Lock()
	defer r.mu.Unlock()
	var none G
	if r.grant == none {
		return nil
	}
	return []*grantCore{r.grant.base()}
}

// entered returns how many leases the present grant has, unless there is none or it goes from one to the next.
func (r *exclusiveCore[G]) entered() (n int, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var none G
	if r.grant == none {
		return 0, false
	}
	g := r.grant.base()
	return g.leases.size(), g.leases.first != nil || g.state == engine.GrantLingering
}

// reenter makes l one more lease of g, if outer still has it.
func (r *exclusiveCore[G]) reenter(g G, outer, l *Lease) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.kind() != outer.kind() || r.shut || r.grant != g || outer.unlocked.Load() || outer.ended() != nil {
		return false
	}
	g.base().attach(g, l)
	return true
}

// reenterBy makes l one more lease of the present grant, if its owner has that.
func (r *exclusiveCore[G]) reenterBy(l *Lease) bool {
	if l.owner == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.admits(l)
}

// entersAgain has w enter the present grant again, which was granted a moment ago to another call of its owner, and reports whether it has. The
// caller holds r.mu.
func (r *exclusiveCore[G]) entersAgain(w *waiter) bool {
	if !r.admits(w.For.lease) {
		return false
	}
	w.Place.State = engine.PlaceGranted
	return true
}

// admits is reenterBy for a caller that holds r.mu.
func (r *exclusiveCore[G]) admits(l *Lease) bool {
	var none G
	if l.owner == nil || r.shut || r.grant == none {
		return false
	}
	g := r.grant.base()
	if g.rare().lost != nil || g.tokenPending || !g.worked() || g.leases.first.owner != l.owner {
		return false
	}
	g.attach(r.grant, l)
	return true
}
