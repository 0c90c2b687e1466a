package lockrt

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// A grantCore is the common part of the grants of all kinds of locks: leases that enter it and leave it, and a guard,
// which renews it.
type grantCore struct {
	on    *referenced // the resource of the grant
	mu    *sync.Mutex // the lock of that
	terms terms
	guard watchdog.Lease

	// of the present holder, one and one more for each reentry; or of all readers
	state  grantState
	leases []*Lease      // of the present holder, one and one more for each reentry; or of all readers
	one    [1]*Lease     // room for the first
	limit  time.Duration // of the present holder: WithMaxHold, or 0
	lost   error         // why the watchdog gave up, or nil
}

func (g *grantCore) Key() string { return g.on.key }

// start starts the renewal of the grant. Redis granted it no earlier than at from, for ttl at
// first.
func (g *grantCore) start(as watchdog.Holding, from time.Time, ttl time.Duration) {
	c := g.on.c
	g.guard = watchdog.Lease{Holding: as, TTL: g.terms.ttl, Renew: g.terms.renew}
	g.on.stay()
	c.held(1)
	if !g.terms.polling {
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

// limitTo ends the renewal when w, which is given the grant, has had it for its max hold.
func (g *grantCore) limitTo(w *waiter) {
	if w.limit == g.limit && w.limit == 0 {
		return
	}
	g.limit = w.limit
	var at time.Time
	if w.limit > 0 {
		at = w.lease.began.Add(w.limit).Std()
	}
	g.on.c.watchdog.Limit(&g.guard, at)
}

// endLeases ends the leases because of cause.
func (g *grantCore) endLeases(cause error) {
	g.mu.Lock()
	leases := slices.Clone(g.leases)
	g.mu.Unlock()
	for _, l := range leases {
		l.end(cause)
	}
}

// bearer returns the first of the leases that have it at present, or nil.
func (g *grantCore) bearer() *leaseCore {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.leases) == 0 {
		return nil
	}
	return &g.leases[0].leaseCore
}

// outcome returns the outcome for the grant, whose last lease was l: the value of done, at most Options.OpTimeout after
// the release began.
func (g *grantCore) outcome(l *Lease, done <-chan error) error {
	limit := g.on.c.opts.OpTimeout
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-done:
		if cause := l.ended(); err == nil && errors.Is(cause, ErrLost) {
			return cause // by the clock, before the watchdog could report it
		}
		return err
	case <-timer.C:
		return unanswered(limit)
	}
}

// unanswered is the outcome of a release without an answer of Redis within limit.
func unanswered(limit time.Duration) error {
	return fmt.Errorf("no answer within %v; the key is given back as soon as Redis answers, or expires", limit)
}
