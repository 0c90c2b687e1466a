package resource

import (
	"errors"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// A lingering is the time for which a grant stays with the process after an Unlock. Meanwhile no lease has it, and no call
// waits. The lock of the resource guards it.
type lingering struct {
	d     time.Duration  // WithLinger of the last holder
	Over  monotonic.Time // when the last one ends, or ended
	due   monotonic.Time // when the alarm rings, or 0
	alarm *time.Timer    // made when first needed
}

// Linger returns the lingering of g, or nil if no holder has asked for that.
func (g *Grant) Linger() *lingering {
	if g.Ticket.Extra == nil {
		return nil
	}
	return g.Ticket.Extra.linger
}

// SetLinger sets for how long g stays with the process after the Unlock of its present holder.
func (g *Grant) SetLinger(d time.Duration) {
	switch {
	case g.Linger() != nil:
		g.Linger().d = d
	case d > 0:
		g.Ticket.More().linger = &lingering{d: d}
	}
}

// PreventLinger has the key of l not linger after the Unlock of l, if l is the only lease of g.
func (g *Grant) PreventLinger(l *leases.Lease) {
	g.Resource().Mu.Lock()
	defer g.Resource().Mu.Unlock()
	if g.only(l) {
		g.SetLinger(0)
	}
}

// BeginLinger leaves g, which no lease has any more, with the process, and reports whether it does. It does not while
// another process waits, if no message would report one, or if the next call could not have g as it is.
func (g *Grant) BeginLinger() bool {
	c, at := g.Resource().Client, monotonic.Now()
	switch {
	case g.Linger().d == 0, !g.Resource().Queue.Empty(), g.Idle, g.Ticket.OthersWait, g.Ticket.Java > 0, c.Settings.Cohort == 1, !c.Heard():
		return false
	case g.Rare().Passed > 0 && g.Guard.Age(at) >= LocalPassLimit: // Redisson's waiters send no message
		return false
	case !CanPass(c.Core(), at, &g.Guard, g.Terms(), g.Terms(), g.Ticket.Rare().Tokens):
		return false
	}
	g.State.To(engine.GrantLingering)
	g.Linger().Over = at.Add(g.Linger().d)
	g.wakeAt(g.Linger().Over)
	return true
}

// wakeAt has the alarm ring at that time, or before. An alarm that rings before the end is set again, so calls that come
// and go do not touch it.
func (g *Grant) wakeAt(at monotonic.Time) {
	l := g.Linger()
	switch {
	case l.due != 0 && !at.Before(l.due):
		return
	case l.alarm == nil:
		l.alarm = time.AfterFunc(monotonic.Until(at), g.Wake)
	default:
		l.alarm.Reset(monotonic.Until(at))
	}
	l.due = at
}

// Wake is called when the alarm rings.
func (g *Grant) Wake() {
	g.Resource().Mu.Lock()
	defer g.Resource().Mu.Unlock()
	g.Linger().due = 0
	switch {
	case g.State != engine.GrantLingering: // the next Unlock sets the alarm again
	case monotonic.Until(g.Linger().Over) > 0:
		g.wakeAt(g.Linger().Over)
	default:
		g.EndLinger()
	}
}

// stop stops the alarm.
func (l *lingering) stop() {
	if l != nil && l.alarm != nil {
		l.alarm.Stop()
	}
}

// CanResume reports whether a call on the terms t can have g, which lingers, at the time at.
func (g *Grant) CanResume(t engine.Terms, at monotonic.Time) bool {
	return g.State == engine.GrantLingering && at.Before(g.Linger().Over) && CanPass(g.Resource().Client.Core(), at, &g.Guard, g.Terms(), t, g.Ticket.Rare().Tokens)
}

// Resume ends the lingering of g, which l is about to get.
func (g *Grant) Resume(l *leases.Lease) {
	g.State.To(engine.GrantHeld)
	g.More().Passed++
	g.Resource().Client.Counts.Local.Add(1)
	l.Core().Came = leases.FromHere
}

// EndLinger releases the grant if it lingers. It does not block. The caller holds the lock of the resource.
func (g *Grant) EndLinger() {
	if g == nil || g.State != engine.GrantLingering {
		return
	}
	r := g.Resource()
	op := r.EndGrant(g)
	r.Client.Spawn(func() {
		r.Kind.SendRelease(op, true)
		if err := op.Outcome(nil); err != nil && !errors.Is(err, failure.ErrLost) {
			r.Client.Settings.Logger.Warn("lockgen: a key that lingered could not be given back", "kind", core.KindMutex, "key", r.Key, "owner", g.Owner(), "error", err)
		}
	})
}
