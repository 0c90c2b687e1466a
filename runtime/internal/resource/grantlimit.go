package resource

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/leases"
)

// This file decides for how long a grant is renewed.

// Renewed reports whether the grant lives as long as its leases do.
func (g *Grant) Renewed() bool { return g.Guard.Renew && g.Rare().limit.IsZero() && !g.Rare().spent }

// LimitTo ends the renewal of the grant when l has had it for hold; never, for 0.
func (g *Grant) LimitTo(hold time.Duration, l *leases.Lease) {
	if hold == 0 && g.Rare().limit.IsZero() {
		return
	}
	var at time.Time
	if hold > 0 {
		at = l.Core().Began.Add(hold).Std()
	}
	g.More().limit = at
	g.Resource().Client.Watchdog.Limit(&g.Guard, at)
}

// Expire stops the renewal of the grant for l, a part of a lease that is lost. It goes on while another lease of the grant needs it. A lease that gets
// the grant later has it renewed again.
func (g *Grant) Expire(l *leases.Lease) {
	r := g.Resource()
	r.Mu.Lock()
	defer r.Mu.Unlock()
	l.Core().Spent = true
	g.expire()
}

// expire stops the renewal if all leases of g are parts of leases that are lost.
func (g *Grant) expire() {
	for one := range g.Leases {
		if !one.Core().Spent {
			return
		}
	}
	if g.State <= engine.GrantLingering && g.First != nil {
		g.More().spent = true
		g.Resource().Client.Watchdog.Limit(&g.Guard, core.Now())
	}
}
