package resource

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// A ticket is the subscriber of the messages about its number.

// Handed handles the message that another process handed the lock over to the ticket.
func (tk *Ticket) Handed(m protocol.Message) {
	received := core.Now()
	r := tk.Resource
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if tk.State >= engine.TicketGranted {
		r.Kind.HandedAgain(tk)
		return
	}
	w := tk.Waiter()
	if w == nil {
		tk.HandedOver(m.Granted, received)
		if tk.Use != TicketApart && r.Busy > 0 {
			return // the goroutine that is busy releases it
		}
		if w = r.Kind.Unwanted(tk); w == nil {
			return
		}
	}
	if tk.RefusedSince(m.Granted) {
		tk.promptWaiter()
		return
	}
	tokens := r.Kind.Learns(tk, m)
	from, first := tk.HandedOver(m.Granted, received), min(HandOverLease, w.Terms.TTL) // a renewal makes it that short
	switch {
	case !r.Client.Granting(): // the waiter leaves, and the goroutine that does releases it
	case tk.Forced: // perhaps since: these two messages can come over two connections
		tk.promptWaiter()
	case !r.Client.suffices(w.Terms, from, first, m.Token):
		tk.promptWaiter() // for the terms that the waiter needs
	default:
		if tk.Use == ticketOfHead && tk.State != engine.TicketAsking {
			tk.Standing = false // the hand-over took it out of the wait queue, and no request puts it back
		}
		tk.SetTokens(engine.NewTokens(m.Token, tokens))
		r.Client.Counts.Remote.Add(1)
		r.leaseOf(w).Core().Came = leases.FromThere
		r.Promote(trace.Handed, tk, w, from, first).Handed = true
	}
}

// look makes the waiter ask: it is its turn.
func (tk *Ticket) look() {
	tk.Resource.Mu.Lock()
	defer tk.Resource.Mu.Unlock()
	tk.promptWaiter()
}

// promptWaiter makes the waiter ask: now, or again when the answer that is under way has come, since that may be older than the reason to ask.
func (tk *Ticket) promptWaiter() {
	switch w := tk.Waiter(); {
	case tk.State >= engine.TicketGranted:
	case tk.Use == ticketOfHead:
		tk.Looks = tk.Resource.Busy > 0
		tk.Resource.Prompt(tk.Resource.Kind)
	case w != nil:
		w.Poke()
	}
}

// resubscribed makes the waiter ask: messages during the gap are lost, and the server may be another one, with another clock.
func (tk *Ticket) resubscribed() {
	tk.Resource.Mu.Lock()
	defer tk.Resource.Mu.Unlock()
	tk.Sees(engine.Sighting{})
	if tk.State < engine.TicketGranted {
		tk.Resource.Kind.Displaced(tk)
	}
	tk.promptWaiter()
}

// Soon makes the waiter ask in d, in case the waiter whose turn it is does not come until then.
func (tk *Ticket) Soon(d time.Duration) {
	tk.Resource.Mu.Lock()
	defer tk.Resource.Mu.Unlock()
	if tk.State < engine.TicketGranted {
		tk.More().Recheck.In(tk.Resource.Kind.Soon(tk, d), tk.look)
	}
}

// Wanted records that another call waits for the lock of tk.
func (tk *Ticket) Wanted() {
	tk.Resource.Mu.Lock()
	defer tk.Resource.Mu.Unlock()
	tk.OthersWait = true
	if g := tk.Granted(); g != nil {
		tk.Resource.Kind.Wanted(g)
	}
}

// Taken handles the message that the lock of tk was taken by force: its grant is lost, or the one that it is about to get.
func (tk *Ticket) Taken() {
	tk.Resource.Mu.Lock()
	defer tk.Resource.Mu.Unlock()
	g := tk.Granted()
	if g == nil {
		tk.Forced = true
		return
	}
	tk.Resource.Kind.Displaced(tk)
	g.Taken(watchdog.ErrForced)
}

// suffices reports whether a hand-over for ttl, no earlier than at from, grants what t demands. If not, the ticket asks.
func (c *Client) suffices(t engine.Terms, from time.Time, ttl time.Duration, token int64) bool {
	return c.Settings.Replicas == 0 && !c.Net.ClockUnknown() && t.MetBy(from, ttl, token)
}
