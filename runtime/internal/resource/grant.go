package resource

import (
	"errors"
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/fleet"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// A Grant is a granted ticket: the hold of this process in Redis. Leases enter it and leave it, it goes from waiter to waiter, and a
// guard renews it, until it is released or lost.
type Grant struct {
	Guard  watchdog.Lease // has a part of the terms
	Ticket *Ticket        // the ticket that Redis granted; the lock of its resource guards the rest
	First  *leases.Lease  // of its leases, see leaselist.go; or nil
	Extra  *grantExtra    // nil for most grants

	State           engine.GrantState
	Idle            bool // no caller works under it, it only stays locked for a while; Shutdown does not wait for it
	TokenPending    bool // the token of a RedLock is not known yet
	fenced, polling bool // of the terms
	Handed          bool // it came with the release of another grant, of this process or of another one of this library: the next turn is Redisson's
	Contested       bool // another process wanted the key, or had it, a moment ago
	Named           bool // a reader's ticket names it to Redis, which admits the reader under it, whichever call has the grant by then
}

// A grantExtra is what few grants have.
type grantExtra struct {
	others []*leases.Lease // besides the first
	Passed int             // number of times it went to another call without a request to Redis
	before row             // of the grants before it, since the key came from another process; zero if it has just come
	limit  time.Time       // when the present holder has had it for WithMaxHold; zero for never
	spent  bool            // it is not renewed, since its leases are parts of leases that are lost
	Lost   error           // why the watchdog gave up, or nil
	Early  *Grant          // the grant before, while its holder does not know yet that it is lost
}

// A row is of callers of this process that have a key one after another.
type row struct {
	callers int
	began   monotonic.Time
}

// noGrantExtra is the extra of grants without one. It does not change.
var noGrantExtra grantExtra

// Rare returns the extra of the grant, to read it.
func (g *Grant) Rare() *grantExtra {
	if x := g.Extra; x != nil {
		return x
	}
	return &noGrantExtra
}

// More returns the extra of the grant, to change it.
func (g *Grant) More() *grantExtra {
	if g.Extra == nil {
		g.Extra = new(grantExtra)
	}
	return g.Extra
}

// agree sets the terms of a new grant.
func (g *Grant) agree(t engine.Terms) {
	g.Guard.TTL, g.Guard.Renew, g.fenced, g.polling = t.TTL, t.Renew, t.Fenced, t.Polling
}

// Terms returns the terms of the grant.
func (g *Grant) Terms() engine.Terms {
	return engine.Terms{TTL: g.Guard.TTL, Renew: g.Guard.Renew, Fenced: g.fenced, Polling: g.polling}
}

// Resource returns the resource of the grant, whose lock guards it.
func (g *Grant) Resource() *LineCore { return g.Ticket.Resource }

func (g *Grant) Client() *core.Client { return g.Resource().Client.Core() }

// Began returns when it was granted.
func (g *Grant) Began() monotonic.Time { return g.Ticket.Since }

// Guarded returns the guard.
func (g *Grant) Guarded() *watchdog.Lease { return &g.Guard }

func (g *Grant) Key() string { return g.Resource().Key }

func (g *Grant) Kind() string { return g.Resource().Kind.Name(g.Ticket) }

func (g *Grant) Owner() string { return g.Resource().Kind.Owner(g.Ticket) }

func (g *Grant) Reenter(outer, l *leases.Lease) bool { return g.Resource().Kind.Reenter(g, outer, l) }

// worked reports whether a caller works under g.
func (g *Grant) worked() bool {
	for l := range g.Leases {
		if l.Core().Ended() == nil {
			return true
		}
	}
	return false
}

// Attach makes l a lease of the grant: the first, or a reentry. A grant whose other leases were lost as parts is renewed again for it.
func (g *Grant) Attach(l *leases.Lease) {
	if outer := g.First; outer != nil {
		l.Core().Came = leases.FromItself
		l.Core().SetToken(outer.Core().Token())
	}
	l.Begin(g)
	g.add(l)
	if g.Rare().spent {
		g.More().spent = false
		g.Resource().Client.Watchdog.Limit(&g.Guard, g.Rare().limit)
	}
}

// EndLeases ends the leases because of cause.
func (g *Grant) EndLeases(cause error) {
	g.Resource().Mu.Lock()
	leases := slices.Collect(g.Leases)
	g.Resource().Mu.Unlock()
	for _, l := range leases {
		l.Core().End(cause)
	}
}

// Bearer returns the first of the leases that have it at present, or nil.
func (g *Grant) Bearer() *leases.Core {
	g.Resource().Mu.Lock()
	defer g.Resource().Mu.Unlock()
	if g.First == nil {
		return nil
	}
	return g.First.Core()
}

// Promote turns the ticket into a grant, has it guarded, and gives it to w, whose wait ends. Redis granted it no earlier than at from,
// for ttl at first.
func (r *LineCore) Promote(how trace.Action, tk *Ticket, w *Waiter, from time.Time, ttl time.Duration) *Grant {
	return r.promote(new(Grant), how, tk, w, from, ttl)
}

// promote is Promote, and g is the grant, which is new.
func (r *LineCore) promote(g *Grant, how trace.Action, tk *Ticket, w *Waiter, from time.Time, ttl time.Duration) *Grant {
	tk.tracesGrant(how, from, ttl)
	tk.To(engine.TicketGranted)
	tk.Since, tk.UnclaimedGrant = monotonic.Now(), false
	tk.End()
	g.Ticket = tk
	g.agree(w.Terms)
	g.Guard.Holding = g
	old := r.Kind.Holds(g)
	if old != nil {
		g.More().Early = old
	}
	r.Answers.Changes()
	r.Stay()
	r.Client.Held(1)
	if !g.polling {
		r.Client.hearFor(r.Key)
	}
	sooner := r.Client.Watchdog.Guard(&g.Guard, from, ttl)
	r.serve(g, w, tk.Since)
	if old != nil {
		r.oust(old, g, w)
	} else {
		w.Notify(engine.Event{Kind: engine.Given}) // from here on another call may use w
	}
	if sooner { // not before w has it: the watchdog is in no hurry
		r.Client.Watchdog.Hurry()
	}
	return g
}

// oust has old lost, and then notifies w, which has g, and the other waiters of its owner: Redis would not have granted g if it had old still.
func (r *LineCore) oust(old, g *Grant, w *Waiter) {
	owner := w.For.Lease.Core().Rare().Owner
	w.Asks.Add(1)
	r.Client.Spawn(func() {
		r.Client.Watchdog.Lose(&old.Guard, watchdog.ErrRefused)
		old.EndLeases(failure.Lost(watchdog.ErrRefused))
		r.Mu.Lock()
		g.Extra.Early = nil
		if g.admits(owner) { // else w has left, or g is lost, too
			r.Kind.Admit(g, owner)
		}
		r.Mu.Unlock()
		w.Notify(engine.Event{Kind: engine.Given})
		w.Asks.Add(-1)
	})
}

// serve makes the lease of w one of g from the time at on, and those of its owner's other waiters.
func (r *LineCore) serve(g *Grant, w *Waiter, at monotonic.Time) {
	if w.Place.Queued() {
		r.Queue.Remove(w)
	}
	w.Place = engine.PlaceGranted
	l := r.leaseOf(w)
	if l.Core().Began.IsZero() {
		l.Core().Began = at
	}
	if w.Terms.Fenced {
		l.Core().SetToken(g.Ticket.More().Tokens.Take())
	}
	g.TokenPending = w.Follows && w.Terms.Fenced
	g.Attach(l)
	g.LimitTo(l.Core().Rare().MaxHold, l)
	if g.Ticket.Use == ticketOfHead { // keys of other kinds do not linger
		g.SetLinger(time.Duration(w.Linger) * time.Microsecond)
	}
	if l.Core().Rare().Owner != nil && g.Rare().Early == nil {
		r.Kind.Admit(g, l.Core().Rare().Owner)
	}
}

// Give gives g to w, whose wait ends at the time at, which is now.
func (r *LineCore) Give(g *Grant, w *Waiter, at monotonic.Time) {
	r.serve(g, w, at)
	w.Notify(engine.Event{Kind: engine.Given}) // from here on another call may use w
}

// pass gives g to the next waiter of this process without a request, if there is one that may have it as it is, and reports whether it did.
func (r *LineCore) pass(g *Grant) bool {
	w, at := r.Kind.Next(g)
	if w == nil {
		return false
	}
	g.More().Passed++
	r.Client.Counts.Local.Add(1)
	r.leaseOf(w).Core().Came = leases.FromHere
	if g.Idle {
		g.Idle = false
		r.Client.Held(1)
	}
	r.Give(g, w, at)
	return true
}

// Unlock ends l. The last lease of a grant passes it on or frees it.
func (g *Grant) Unlock(l *leases.Lease) error {
	op, err := g.End(l)
	if op == nil {
		return err
	}
	g.Resource().Kind.SendRelease(op, true)
	return op.Outcome(l)
}

// End ends l. If l was the last lease and no caller of this process can have the grant, End returns the release to send to Redis. Otherwise
// it returns the result.
func (g *Grant) End(l *leases.Lease) (*ReleaseOp, error) {
	r := g.Resource()
	l.Core().End(failure.ErrReleased) // before another caller can get it

	r.Mu.Lock()
	defer r.Mu.Unlock()
	if l.Core().Unlocked {
		return nil, failure.ErrReleased
	}
	l.Core().Unlocked = true
	g.remove(l)
	loss := g.Rare().Lost
	switch outer := g.First; {
	case outer != nil:
		if !g.Idle && outer.Core().Ended() != nil {
			g.rest()
		}
		g.expire()
	case loss != nil:
		g.forget()
	case errors.Is(l.Core().Ended(), failure.ErrLost), g.Rare().Early != nil:
		return r.EndGrant(g), nil
	case r.pass(g), g.Linger() != nil && g.BeginLinger():
	default:
		return r.EndGrant(g), nil
	}
	return nil, loss
}

// rest records that no caller works under g any more, if that is so.
func (g *Grant) rest() {
	if g.State <= engine.GrantLingering && !g.Idle && !g.worked() {
		g.Idle = true
		g.Resource().Client.Held(-1)
	}
}

// Keep ends l and leaves the key locked.
func (g *Grant) Keep(l *leases.Lease) {
	l.Core().End(failure.ErrReleased)
	r := g.Resource()
	r.Mu.Lock()
	defer r.Mu.Unlock()
	g.rest()
}

// EndGrant ends the grant, and returns its release.
func (r *LineCore) EndGrant(g *Grant) *ReleaseOp {
	r.Busy++
	g.State.To(engine.GrantReleasing)
	g.Ticket.To(engine.TicketReleasing)
	g.Linger().stop()
	r.Kind.Remove(g, nil)
	r.Client.Watchdog.Stop(&g.Guard)
	return r.ReleaseOf(g.Ticket, g)
}

// forget has Redis release a lost grant, once, if Redis may still have it for us, or may get it again. If Redis has not said that it does not have it, no
// caller may work under it any more.
func (g *Grant) forget() {
	refused := errors.Is(g.Rare().Lost, watchdog.ErrRefused)
	if tk := g.Ticket; tk.State != engine.TicketWithdrawing && (!refused || tk.OutcomeUnknown || tk.UnclaimedGrant || tk.Asking > 0) {
		tk.UnclaimedGrant = tk.UnclaimedGrant || !refused
		g.Resource().Kind.Retire(tk)
	}
}

// Taken has the grant lost because of cause: Redis does not have it any more. It does not block.
func (g *Grant) Taken(cause error) {
	g.Resource().Client.Spawn(func() { g.Resource().Client.Watchdog.Lose(&g.Guard, cause) })
}

// RefusedAt has the grant lost if the server has refused its ticket, at the time at by its clock, since another process handed the lock over to it. If
// that clock was set meanwhile, the refusal may be older: then the watchdog asks whether the server has the grant. RefusedAt does not block.
func (g *Grant) RefusedAt(at time.Time) {
	c := g.Resource().Client
	switch refused, sure := g.Ticket.RefusedSinceHandOver(at); {
	case refused && sure:
		g.Taken(watchdog.ErrRefused)
	case refused:
		c.Spawn(func() { c.Watchdog.Look(&g.Guard) })
	}
}

// Lost revokes a grant that Redis has for another owner now, or may have soon: it ends the leases.
func (g *Grant) Lost(cause error) {
	r := g.Resource()
	r.Mu.Lock()
	if g.State > engine.GrantLingering {
		r.Mu.Unlock()
		return // it is being released
	}
	r.Busy++ // the next waiter asks when the present holders know
	g.More().Lost = failure.Lost(cause)
	g.State.To(engine.GrantLost)
	g.Ticket.To(engine.TicketDone)
	g.Linger().stop()
	r.Kind.Remove(g, cause)
	if g.First == nil || g.Ticket.OutcomeUnknown && errors.Is(cause, watchdog.ErrRefused) { // it lingered, or a late copy of a request may lock the key again
		g.forget()
	}
	r.Mu.Unlock()

	g.notifyLoss(failure.Lost(cause))
	if errors.Is(cause, watchdog.ErrRefused) {
		r.Client.Spawn(func() { r.Kind.Deleted(g) })
	}
}

// notifyLoss ends the leases because of cause, and then continues the queue if the grant is lost.
func (g *Grant) notifyLoss(cause error) {
	g.EndLeases(cause)
	r := g.Resource()
	r.Mu.Lock()
	first := g.State == engine.GrantLost
	if first {
		g.State.To(engine.GrantNotified)
		r.Continue(r.Kind)
	}
	r.Mu.Unlock()
	if !first {
		return
	}
	left := g.Guard.Ends().Sub(core.Now())
	if errors.Is(cause, watchdog.ErrRefused) {
		left = 0
	}
	r.Client.Subscribers.Depart(g.Ticket.Number, left, g.outlived)
	if !g.Idle {
		r.Client.Held(-1)
	}
	r.Quit()
}

// outlived is called when the time is over for which the last holder of a lost grant had it.
func (g *Grant) outlived() {
	g.Resource().Mu.Lock()
	defer g.Resource().Mu.Unlock()
	longest := g.Ticket.TTL
	if g.Ticket.HandedAt() != 0 {
		longest = max(longest, HandOverLease)
	}
	if longest > g.Guard.TTL || g.Named { // Redis may have it for longer than its last holder asked for; a write lock, for as long as somebody reads under it
		g.Resource().withdraw(g.Ticket, longest)
	}
}

// Show describes the leases of the grant, or says that it lingers.
func (g *Grant) Show() (s fleet.Shown) {
	g.Resource().Mu.Lock()
	defer g.Resource().Mu.Unlock()
	if g.State == engine.GrantLingering {
		return fleet.Shown{Since: g.Linger().Over.Add(-g.Linger().d), Lingers: true}
	}
	for l := range g.Leases {
		if s.Holds == 0 {
			s = fleet.Shown{Name: l.Core().Label.Name(), Since: l.Core().Began, Token: l.Core().Token(), Ctx: l.Core().Parent}
		}
		s.Holds, s.Since = s.Holds+1, min(s.Since, l.Core().Began)
	}
	s.Queued = g.Resource().Kind.Queued()
	return s
}
