package locks

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
)

// A ticket is the subscriber of the messages about its number.

// handed handles the message that another process handed the lock over to the ticket.
func (tk *ticket) handed(m protocol.Message) {
	received := now()
	r := tk.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if tk.State >= engine.TicketGranted {
		r.kind.handedAgain(tk)
		return
	}
	w := tk.waiter()
	if w == nil {
		tk.HandedOver(m.Granted, received)
		if tk.use != ticketApart && r.Busy > 0 {
			return // the goroutine that is busy releases it
		}
		if w = r.kind.unwanted(tk); w == nil {
			return
		}
	}
	if tk.RefusedSince(m.Granted) {
		tk.askFor()
		return
	}
	tokens := r.kind.learns(tk, m)
	from, first := tk.HandedOver(m.Granted, received), min(handOverLease, w.Terms.TTL) // a renewal makes it that short
	switch {
	case !r.c.granting(): // the waiter leaves, and the goroutine that does releases it
	case !r.c.suffices(w.Terms, from, first, m.Token):
		tk.askFor() // for the terms that the waiter needs
	default:
		if tk.use == ticketOfHead && tk.State != engine.TicketAsking {
			tk.Standing = false // the hand-over took it out of the wait queue, and no request puts it back
		}
		tk.gets(engine.NewTokens(m.Token, tokens))
		r.c.counts.remote.Add(1)
		r.leaseOf(w).came = fromThere
		r.promote(trace.Handed, tk, w, from, first).handed = true
	}
}

// look makes the waiter ask: it is its turn.
func (tk *ticket) look() {
	tk.r.mu.Lock()
	defer tk.r.mu.Unlock()
	tk.askFor()
}

// askFor makes the waiter ask: now, or again when the answer that is under way has come, since that may be older than the reason to ask.
func (tk *ticket) askFor() {
	switch w := tk.waiter(); {
	case tk.State >= engine.TicketGranted:
	case tk.use == ticketOfHead:
		tk.looks = tk.r.Busy > 0
		tk.r.Prompt(tk.r.kind)
	case w != nil:
		w.Poke()
	}
}

// resubscribed makes the waiter ask: messages during the gap are lost, and the server may be another one, with another clock.
func (tk *ticket) resubscribed() {
	tk.r.mu.Lock()
	defer tk.r.mu.Unlock()
	tk.Sees(engine.Sighting{})
	if tk.State < engine.TicketGranted {
		tk.r.kind.displaced(tk)
	}
	tk.askFor()
}

// soon makes the waiter ask in d, in case the waiter whose turn it is does not come until then.
func (tk *ticket) soon(d time.Duration) {
	tk.r.mu.Lock()
	defer tk.r.mu.Unlock()
	if tk.State < engine.TicketGranted {
		tk.more().recheck.In(tk.r.kind.soon(tk, d), tk.look)
	}
}

// wanted records that another call waits for the lock of tk.
func (tk *ticket) wanted() {
	tk.r.mu.Lock()
	defer tk.r.mu.Unlock()
	tk.OthersWait = true
	if g := tk.granted(); g != nil {
		tk.r.kind.wanted(g)
	}
}

// taken handles the message that the lock of tk was taken by force: its grant is lost, or the one that it is about to get.
func (tk *ticket) taken() {
	tk.r.mu.Lock()
	defer tk.r.mu.Unlock()
	g := tk.granted()
	if g == nil {
		tk.Forced = true
		return
	}
	tk.r.kind.displaced(tk)
	g.taken()
}

// suffices reports whether a hand-over for ttl, no earlier than at from, grants what t demands. If not, the ticket asks.
func (c *clientLine) suffices(t engine.Terms, from time.Time, ttl time.Duration, token int64) bool {
	return c.opts.Replicas == 0 && !c.net.ClockUnknown() && t.MetBy(from, ttl, token)
}
