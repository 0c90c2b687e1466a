package locks

import (
	"errors"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// A lingering is the time for which a grant stays with the process after an Unlock. Meanwhile no lease has it, and no call
// waits. The lock of the resource guards it.
type lingering struct {
	d     time.Duration  // WithLinger of the last holder
	over  monotonic.Time // when the last one ends, or ended
	due   monotonic.Time // when the alarm rings, or 0
	alarm *time.Timer    // made when first needed
}

// linger returns the lingering of g, or nil if no holder has asked for that.
func (g *grant) linger() *lingering {
	if g.ticket.extra == nil {
		return nil
	}
	return g.ticket.extra.linger
}

// lingersFor sets for how long g stays with the process after the Unlock of its present holder.
func (g *grant) lingersFor(d time.Duration) {
	switch {
	case g.linger() != nil:
		g.linger().d = d
	case d > 0:
		g.ticket.more().linger = &lingering{d: d}
	}
}

// lingersNot has the key of l not linger after the Unlock of l, if l is its only lease.
func (g *grant) lingersNot(l *Lease) {
	g.on().mu.Lock()
	defer g.on().mu.Unlock()
	if g.only(l) {
		g.lingersFor(0)
	}
}

// beginLinger leaves g, which no lease has any more, with the process, and reports whether it does. It does not while
// another process waits, if no message would report one, or if the next call could not have g as it is.
func (g *grant) beginLinger() bool {
	c, at := g.on().c, monotonic.Now()
	switch {
	case g.linger().d == 0, !g.on().Queue.Empty(), g.idle, g.ticket.OthersWait, g.ticket.java > 0, c.opts.Cohort == 1, !c.heard():
		return false
	case g.rare().passed > 0 && g.guard.Age(at) >= localPassLimit: // Redisson's waiters send no message
		return false
	case !canPassAt(c.core(), at, &g.guard, g.terms(), g.terms(), g.ticket.rare().tokens):
		return false
	}
	g.state.To(engine.GrantLingering)
	g.linger().over = at.Add(g.linger().d)
	g.wakeAt(g.linger().over)
	return true
}

// wakeAt has the alarm ring at that time, or before. An alarm that rings before the end is set again, so calls that come
// and go do not touch it.
func (g *grant) wakeAt(at monotonic.Time) {
	l := g.linger()
	switch {
	case l.due != 0 && !at.Before(l.due):
		return
	case l.alarm == nil:
		l.alarm = time.AfterFunc(monotonic.Until(at), g.wake)
	default:
		l.alarm.Reset(monotonic.Until(at))
	}
	l.due = at
}

// wake is called when the alarm rings.
func (g *grant) wake() {
	g.on().mu.Lock()
	defer g.on().mu.Unlock()
	g.linger().due = 0
	switch {
	case g.state != engine.GrantLingering: // the next Unlock sets the alarm again
	case monotonic.Until(g.linger().over) > 0:
		g.wakeAt(g.linger().over)
	default:
		g.endLinger()
	}
}

// stop stops the alarm.
func (l *lingering) stop() {
	if l != nil && l.alarm != nil {
		l.alarm.Stop()
	}
}

// canResume reports whether a call on the terms t can have g, which lingers, at the time at.
func (g *grant) canResume(t engine.Terms, at monotonic.Time) bool {
	return g.state == engine.GrantLingering && at.Before(g.linger().over) && canPassAt(g.on().c.core(), at, &g.guard, g.terms(), t, g.ticket.rare().tokens)
}

// resume ends the lingering of g, which l is about to get.
func (g *grant) resume(l *Lease) {
	g.state.To(engine.GrantHeld)
	g.more().passed++
	g.on().c.counts.local.Add(1)
	l.came = fromHere
}

// endLinger releases the grant if it lingers. It does not block. The caller holds the lock.
func (g *grant) endLinger() {
	if g == nil || g.state != engine.GrantLingering {
		return
	}
	r := g.on()
	op := r.endGrant(g)
	r.c.spawn(func() {
		r.kind.sendRelease(op, true)
		if err := op.outcome(nil); err != nil && !errors.Is(err, failure.ErrLost) {
			r.c.opts.Logger.Warn("lockgen: a key that lingered could not be given back", "kind", kindMutex, "key", r.key, "owner", g.Owner(), "error", err)
		}
	})
}
