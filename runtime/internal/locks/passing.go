package locks

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// succeed gives the grant to l in place of outer, if no other lease has it, and reports whether it
// did.
func (g *grant) succeed(outer, l *Lease) bool {
	r := g.on()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shut || g.state > engine.GrantLingering || outer.unlocked || outer.ended() != nil || !g.only(outer) {
		return false
	}
	outer.unlocked = true
	g.remove(outer)
	g.attach(l)
	return true
}

// expire stops the renewal of the grant, unless another lease gets it or has entered it: l, its only lease, is of no
// use.
func (g *grant) expire(l *Lease) {
	r := g.on()
	r.mu.Lock()
	defer r.mu.Unlock()
	if g.state <= engine.GrantLingering && g.only(l) {
		g.more().limit = 1 // the next holder has a limit of its own
		r.c.watchdog.Limit(&g.guard, now())
	}
}

// keep ends l and leaves the key locked.
func (g *grant) keep(l *Lease) {
	l.end(failure.ErrReleased)
	r := g.on()
	r.mu.Lock()
	defer r.mu.Unlock()
	g.rest()
}

// While no other process is known to wait, a grant may circulate in a process for this long before
// the process asks Redis whether that is still so.
const localPassLimit = 10 * time.Millisecond

// Within a second after another process wanted the key, the process asks this often: where goroutines pass a grant on
// without a pause, Go reads the message that another process wants it too late.
const nearPassLimit = 500 * time.Microsecond

// passLimit returns for how long g may circulate.
func (g *grant) passLimit() time.Duration {
	if g.near {
		return nearPassLimit
	}
	return localPassLimit
}

// canPass reports whether a hold on some terms can be passed on to a waiter that wants others: with enough trust left, and as
// [engine.Terms.PassesTo] says.
func canPass(c *clientCore, guard *watchdog.Lease, held, wanted engine.Terms, left engine.Tokens) bool {
	return canPassAt(c, monotonic.Now(), guard, held, wanted, left)
}

// canPassAt is canPass at the time at, which is now.
func canPassAt(c *clientCore, at monotonic.Time, guard *watchdog.Lease, held, wanted engine.Terms, left engine.Tokens) bool {
	return held.PassesTo(wanted, left) && c.granting() &&
		!guard.Extended() && // a holder's extension is not for the next one
		guard.TrustedAt(at.Add(min(held.TTL, handOverLease)/3))
}

// renewed reports whether the grant lives as long as its leases do.
func (g *grant) renewed() bool { return g.guard.Renew && g.rare().limit == 0 }

// trusted reports whether there is enough trust left to pass it on.
func (g *grant) trusted(now time.Time) bool {
	return g.guard.Until().Sub(now) >= min(g.guard.TTL, handOverLease)/3
}
