package locks

import (
	"github.com/lockgen/lockgen/runtime/internal/engine"
)

// An exclusiveCore is the common part of the resources that have one grant at a time: of a mutex or of a fair mutex.
type exclusiveCore struct {
	lineCore

	grant *grant // the grant of this process, or nil; guarded by mu
}

// Excludes reports whether this process has the lock: its waiters have it one at a time.
func (r *exclusiveCore) Excludes(*waiter) bool { return r.grant != nil }

// grants returns the present grant, if there is one.
func (r *exclusiveCore) grants() []*grant {
	if r.grant == nil {
		return nil
	}
	return []*grant{r.grant}
}

func (r *exclusiveCore) holds(g *grant) (old *grant) {
	old, r.grant = r.grant, g
	return old
}

func (r *exclusiveCore) remove(g *grant, _ error) {
	if r.grant == g {
		r.grant = nil
	}
}

// entered returns how many leases the present grant has, unless there is none or it goes from one to the next.
func (r *exclusiveCore) entered() (n int, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.grant
	if g == nil {
		return 0, false
	}
	return g.size(), g.first != nil || g.state == engine.GrantLingering
}

// reenter makes l one more lease of g, if outer still has it.
func (r *exclusiveCore) reenter(g *grant, outer, l *Lease) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.kind() != outer.kind() || r.shut || r.grant != g || outer.unlocked || outer.ended() != nil {
		return false
	}
	g.attach(l)
	return true
}

// reenterBy makes l one more lease of the present grant, if its owner has that.
func (r *exclusiveCore) reenterBy(l *Lease) bool {
	if l.rare().owner == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.admits(l)
}

// entersAgain has w enter the present grant again, which was granted a moment ago to another call of its owner, and reports whether it has. The
// caller holds r.mu.
func (r *exclusiveCore) entersAgain(w *waiter) bool {
	if !r.admits(w.For.lease) {
		return false
	}
	w.Place = engine.PlaceGranted
	return true
}

// admits is reenterBy for a caller that holds r.mu.
func (r *exclusiveCore) admits(l *Lease) bool {
	g := r.grant
	if l.rare().owner == nil || r.shut || g == nil {
		return false
	}
	if g.rare().lost != nil || g.tokenPending || !g.worked() || g.first.rare().owner != l.rare().owner {
		return false
	}
	g.attach(l)
	return true
}
