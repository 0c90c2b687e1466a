package resource

import (
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// An Exclusive is the common part of the resources that have one grant at a time: of a mutex or of a fair mutex.
type Exclusive struct {
	LineCore

	Grant *Grant // the grant of this process, or nil; guarded by Mu
}

// Excludes reports whether this process has the lock: its waiters have it one at a time.
func (r *Exclusive) Excludes(*Waiter) bool { return r.Grant != nil }

// Grants returns the present grant, if there is one.
func (r *Exclusive) Grants() []*Grant {
	if r.Grant == nil {
		return nil
	}
	return []*Grant{r.Grant}
}

func (r *Exclusive) Holds(g *Grant) (old *Grant) {
	old, r.Grant = r.Grant, g
	return old
}

func (r *Exclusive) Remove(g *Grant, _ error) {
	if r.Grant == g {
		r.Grant = nil
	}
}

// entered returns how many leases the present grant has, unless there is none or it goes from one to the next.
func (r *Exclusive) entered() (n int, known bool) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	g := r.Grant
	if g == nil {
		return 0, false
	}
	return g.Size(), g.First != nil || g.State == engine.GrantLingering
}

// Reenter makes l one more lease of g, if outer still has it, and it is still trusted: this process may have stood still.
func (r *Exclusive) Reenter(g *Grant, outer, l *leases.Lease) bool {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if !l.Core().SameKind(outer.Core()) || r.Shut || r.Grant != g || outer.Core().Unlocked || outer.Core().Ended() != nil {
		return false
	}
	at := l.Core().Began
	if at.IsZero() { // else the caller has just looked at the clock
		at = monotonic.Now()
	}
	if !g.Guard.TrustedAt(at) {
		return false
	}
	g.Attach(l)
	if owner := l.Core().Rare().Owner; owner != nil {
		r.Kind.Admit(g, owner)
	}
	return true
}

// ReenterBy makes l one more lease of the present grant, if the owner of l has that grant, and reports whether it did.
func (r *Exclusive) ReenterBy(l *leases.Lease) bool {
	if l.Core().Rare().Owner == nil {
		return false
	}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return r.admits(l)
}

// EntersAgain has w enter the present grant, if Redis granted that a moment ago to another call of the same owner. It reports whether w has
// entered. The caller holds r.Mu.
func (r *Exclusive) EntersAgain(w *Waiter) bool {
	if !r.admits(w.For.Lease) {
		return false
	}
	w.Place = engine.PlaceGranted
	return true
}

// admits reports whether a call of owner can enter g: owner has a lease of g, which is neither lost nor over, and whose token is known.
func (g *Grant) admits(owner *leases.Owner) bool {
	if owner == nil || g.Resource().Shut || g.State > engine.GrantLingering || g.TokenPending {
		return false
	}
	return g.worked() && g.Guard.TrustedAt(monotonic.Now()) && g.isOf(owner)
}

// isOf reports whether owner has a lease of g: the first one, or one that has entered under the context of another.
func (g *Grant) isOf(owner *leases.Owner) bool {
	for l := range g.Leases {
		if l.Core().Rare().Owner == owner {
			return true
		}
	}
	return false
}

// HeldBy reports whether a call of owner enters the present grant.
func (r *Exclusive) HeldBy(owner *leases.Owner) bool {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return r.heldBy(owner)
}

// heldBy is HeldBy for a caller that holds r.Mu. A grant that came while its process did not know yet of the loss of the one before, or whose token is not
// known yet, is entered a moment later.
func (r *Exclusive) heldBy(owner *leases.Owner) bool {
	g := r.Grant
	return g != nil && g.Rare().Early == nil && g.admits(owner)
}

// admits is ReenterBy for a caller that holds r.Mu.
func (r *Exclusive) admits(l *leases.Lease) bool {
	if !r.heldBy(l.Core().Rare().Owner) {
		return false
	}
	r.Grant.Attach(l)
	return true
}
