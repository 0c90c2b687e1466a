package resource

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// LocalPassLimit is how long the callers of a process have a key in a row, where Redis is near. Then the next process that waits has its turn.
// If none is known to wait, the process asks Redis whether that is still so.
const LocalPassLimit = 10 * time.Millisecond

// contestedPassLimit is how often a process asks Redis, where that is near, within a second after another process wanted the key: where
// goroutines pass a grant on without a pause, Go reads the message that another process wants it too late.
const contestedPassLimit = 500 * time.Microsecond

// handOverPart is the part of the time that hand-overs to other processes may take: a tenth. A hand-over takes about as long as an answer
// of the server.
const handOverPart = 10

// rowLimit is how long the callers of a process have a key in a row.
func (g *Grant) rowLimit() time.Duration {
	return max(LocalPassLimit, handOverPart*g.Resource().Client.Net.ResponseTime())
}

// PassLimit returns for how long g may circulate until the process asks Redis whether another one waits. Where Redis is far away, the
// questions take a tenth of the time at most, and half of it within a second after another process wanted the key.
func (g *Grant) PassLimit() time.Duration {
	if g.Contested {
		return max(contestedPassLimit, g.Resource().Client.Net.ResponseTime())
	}
	return g.rowLimit()
}

// InTurn reports whether one more caller of this process may have g at the time at, which is now, while other processes may wait: a row of
// callers has so many at most, and ends after a time. So callers who work for long under the lock do not keep another process waiting for
// the whole row, and hand-overs by a server that is far away do not take most of the time.
func (g *Grant) InTurn(most int, at monotonic.Time) bool {
	return g.fits(row{g.Rare().Passed + 1, g.Guard.Began()}, most, at)
}

// InTurnSinceItCame is InTurn for another process that is known to wait, perhaps since a moment ago. The row began when the key came from
// another process: a process that has kept the key for a whole row owes the next turn.
func (g *Grant) InTurnSinceItCame(most int, at monotonic.Time) bool { return g.fits(g.row(), most, at) }

// row returns the row that g goes on with, or begins.
func (g *Grant) row() row {
	before := g.Rare().before
	if before.callers == 0 {
		before.began = g.Guard.Began()
	}
	return row{before.callers + g.Rare().Passed + 1, before.began}
}

// fits reports whether one more caller fits into a row of so many.
func (g *Grant) fits(x row, most int, at monotonic.Time) bool {
	return x.callers < most && at.Sub(x.began) < g.rowLimit()
}

// GoesOn has g, which Redis has just granted, go on with the row of the grant before, at whose release no other process waited.
func (g *Grant) GoesOn(before *Grant) { g.More().before = before.row() }

// CanPass reports whether a hold on some terms can be passed on to a waiter that wants others, at the time at, which is now: with enough
// trust left, and as [engine.Terms.PassesTo] says.
func CanPass(c *core.Client, at monotonic.Time, guard *watchdog.Lease, held, wanted engine.Terms, left engine.Tokens) bool {
	return held.PassesTo(wanted, left) && c.Granting() &&
		!guard.Extended() && // a holder's extension is not for the next one
		guard.TrustedAt(at.Add(min(held.TTL, HandOverLease)/3))
}

// Trusted reports whether there is enough trust left at the time at, which is now, for one more caller to have the grant.
func (g *Grant) Trusted(at monotonic.Time) bool {
	return g.Guard.TrustedAt(at.Add(min(g.Guard.TTL, HandOverLease) / 3))
}

// Succeed gives the grant to l in place of outer, if no other lease has it, and reports whether it did.
func (g *Grant) Succeed(outer, l *leases.Lease) bool {
	r := g.Resource()
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if r.Shut || g.State > engine.GrantLingering || outer.Core().Unlocked || outer.Core().Ended() != nil || !g.only(outer) {
		return false
	}
	outer.Core().Unlocked = true
	g.remove(outer)
	g.Attach(l)
	return true
}
