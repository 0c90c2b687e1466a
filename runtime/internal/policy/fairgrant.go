package policy

import (
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/resource"
)

// The grant of a fair mutex goes from waiter to waiter, as long as Redis has said who follows.

// First returns the ticket that Redis has the present grant for.
func (r *Fair) First() *FairTicket { return FairTicketFrom(r.Grant.Ticket) }

// Next has the next of the tickets that follow share g, and returns the waiter of that ticket, if it can have g as it is. Otherwise it
// returns nil.
func (r *Fair) Next(g *resource.Grant) (next *resource.Waiter, at monotonic.Time) {
	if r.Grant != g {
		return nil, 0
	}
	first := r.First()
	i := slices.IndexFunc(first.Behind, func(n uint64) bool { return r.Tickets[n] != nil })
	if i < 0 {
		return nil, 0
	}
	tk := r.Tickets[first.Behind[i]]
	first.Behind = first.Behind[i:]
	at = monotonic.Now()
	if len(first.after)+1 >= r.Client.Settings.Cohort || tk.Wait != first.Wait || !resource.CanPass(r.Client.Core(), at, &g.Guard, g.Terms(), tk.Terms, first.Own.Tokens) {
		return nil, 0
	}
	first.Behind, first.after, first.Placed = first.Behind[1:], append(first.after, tk), true
	tk.End()
	tk.To(engine.TicketGranted)
	tk.Own.Grant = g
	return tk.Own.Waiter, at
}

// finish ends the tickets that had the grant of tk after it. A request of one of them that is under way, or was not answered, could
// put that ticket in the queue again, or give it the lock: such a ticket is withdrawn.
func (r *Fair) finish(tk *FairTicket) {
	for _, x := range tk.after {
		if x.Asking == 0 && !x.OutcomeUnknown {
			x.To(engine.TicketDone)
			continue
		}
		x.Own.Grant = nil
		r.Retire(&x.Ticket)
	}
}

// dismiss withdraws the tickets that had the grant of tk after it. tk itself may have the lock still. For Redis, which hands the lock
// to the head of the queue, these tickets still wait.
func (r *Fair) dismiss(tk *FairTicket) {
	for _, x := range tk.after {
		r.Retire(&x.Ticket)
	}
	tk.after = nil
}

// Admit makes the waiters of owner, which was given g, holders of g too: otherwise owner would wait for itself. Their places are given
// up. The release names them too: it may come first, and would find one of them at the head of the queue, and give the key to no waiter.
func (r *Fair) Admit(g *resource.Grant, owner *leases.Owner) {
	for _, tk := range r.Tickets {
		w := tk.Own.Waiter
		if w.For.Lease.Core().Rare().Owner != owner {
			continue
		}
		g.Attach(w.For.Lease)
		w.Place = engine.PlaceGranted
		tk.End()
		tk.Own.Waiter = nil
		r.Retire(&tk.Ticket)
		first := FairTicketFrom(g.Ticket)
		first.entered = append(first.entered, tk)
		w.Notify(engine.Event{Kind: engine.Given})
	}
}

func (r *Fair) Remove(g *resource.Grant, cause error) {
	r.Exclusive.Remove(g, cause)
	first := FairTicketFrom(g.Ticket)
	r.finish(first)
	if cause != nil {
		r.dismiss(first)
	}
}

func (r *Fair) Deleted(g *resource.Grant) { // and perhaps the queue, too
	_, _, _ = r.release(g.Ticket)
	r.Mu.Lock()
	defer r.Mu.Unlock()
	for _, tk := range r.Tickets {
		tk.Own.Waiter.Poke()
	}
}

func (r *Fair) GiveUp(op *resource.ReleaseOp) {
	op.Ticket.OutcomeUnknown = true
	r.Retire(op.Ticket)
	for _, x := range FairTicketFrom(op.Ticket).after {
		r.Retire(&x.Ticket)
	}
}

func (r *Fair) Proceed(op *resource.ReleaseOp, _ resource.Released, _ error) {
	tk := op.Ticket
	for _, x := range FairTicketFrom(tk).after {
		r.Client.Subscribers.Disconnect(x.Number)
	}
	if tk.State == engine.TicketRevived {
		tk.To(engine.TicketDone)
		r.Retire(tk)
	}
	if op.Of != nil {
		r.Continue(r)
	}
}

func (r *Fair) SendRelease(op *resource.ReleaseOp, _ bool) {
	op.Run(func() (protocol.Outcome, bool, error) { return r.release(op.Ticket) })
}

// release sends the release of a ticket.
func (r *Fair) release(of *resource.Ticket) (protocol.Outcome, bool, error) {
	tk := FairTicketFrom(of)
	r.Mu.Lock()
	var after []protocol.Departure
	for _, x := range slices.Concat(tk.after, tk.entered) {
		after = append(after, protocol.Departure{Number: x.Number, Wait: x.Wait})
	}
	aside := tk.Asking > 0 || tk.OutcomeUnknown
	r.Mu.Unlock()
	outcome, again, err := r.Client.Withdrawals.Release(r.Lock.Release(r.Owner(of), tk.Wait, time.Now(), after), aside)
	freed := outcome
	if outcome == protocol.NotOurs {
		freed = protocol.FreedForNobody // perhaps: the reply does not say whose turn it is, nor whether an earlier request released it
	}
	r.Client.Withdrawals.PassOn(freed, func() { _, _ = r.Withdrawer().Withdraw(nil) })
	return outcome, again, err
}
