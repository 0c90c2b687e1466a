package locks

import (
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// The grant of a fair mutex goes from waiter to waiter, as long as Redis has said who follows.

// first returns the ticket that Redis has the present grant for.
func (r *fairResource) first() *fairTicket { return fairTicketFrom(r.grant.ticket) }

// next has the next ticket that follows share g, and returns its waiter, if that can have g as it is; or it returns nil.
func (r *fairResource) next(g *grant) *waiter {
	if r.grant != g || g.rare().early != nil {
		return nil
	}
	first := r.first()
	i := slices.IndexFunc(first.behind, func(n uint64) bool { return r.tickets[n] != nil })
	if i < 0 {
		return nil
	}
	tk := r.tickets[first.behind[i]]
	first.behind = first.behind[i:]
	if len(first.after)+1 >= r.c.opts.Cohort || tk.wait != first.wait || !canPass(r.c.core(), &g.guard, g.terms(), tk.terms, first.own.tokens) {
		return nil
	}
	first.behind, first.after, first.placed = first.behind[1:], append(first.after, tk), true
	tk.end()
	tk.To(engine.TicketGranted)
	tk.own.grant = g
	return tk.own.w
}

// finish ends the tickets that had the grant of tk after it. A request of one of them that is under way, or was not answered, could
// put that ticket in the queue again, or give it the lock: such a ticket is withdrawn.
func (r *fairResource) finish(tk *fairTicket) {
	for _, x := range tk.after {
		if x.asking == 0 && !x.OutcomeUnknown {
			x.To(engine.TicketDone)
			continue
		}
		x.own.grant = nil
		r.retire(&x.ticket)
	}
}

// dismiss withdraws the tickets that had the grant of tk after it. tk itself may have the lock still. For Redis, which hands the lock
// to the head of the queue, these tickets still wait.
func (r *fairResource) dismiss(tk *fairTicket) {
	for _, x := range tk.after {
		r.retire(&x.ticket)
	}
	tk.after = nil
}

// admit makes the waiters of owner, which was given g, holders of g too: otherwise owner would wait for itself. Their places are given
// up. The release names them too: it may come first, and would find one of them at the head of the queue, and give the key to no waiter.
func (r *fairResource) admit(g *grant, owner *Owner) {
	for _, tk := range r.tickets {
		w := tk.own.w
		if w.For.lease.rare().owner != owner {
			continue
		}
		g.attach(w.For.lease)
		w.Place = engine.PlaceGranted
		tk.end()
		tk.own.w = nil
		r.retire(&tk.ticket)
		first := fairTicketFrom(g.ticket)
		first.entered = append(first.entered, tk)
		w.Notify(engine.Event{Kind: engine.Given})
	}
}

func (r *fairResource) remove(g *grant, cause error) {
	r.exclusiveCore.remove(g, cause)
	first := fairTicketFrom(g.ticket)
	r.finish(first)
	if cause != nil {
		r.dismiss(first)
	}
}

func (r *fairResource) deleted(g *grant) { // and perhaps the queue, too
	_, _ = r.release(g.ticket)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, tk := range r.tickets {
		tk.own.w.Poke()
	}
}

func (r *fairResource) giveUp(op *releaseOp) {
	op.ticket.OutcomeUnknown = true
	r.retire(op.ticket)
	for _, x := range fairTicketFrom(op.ticket).after {
		r.retire(&x.ticket)
	}
}

func (r *fairResource) proceed(op *releaseOp, _ released, _ error) {
	tk := op.ticket
	for _, x := range fairTicketFrom(tk).after {
		r.c.subscribers.Disconnect(x.Number)
	}
	if tk.State == engine.TicketRevived {
		tk.To(engine.TicketDone)
		r.retire(tk)
	}
	if op.of != nil {
		r.Continue(r)
	}
}

func (r *fairResource) sendRelease(op *releaseOp, _ bool) {
	op.run(func() (protocol.Outcome, error) { return r.release(op.ticket) })
}

func (r *fairResource) release(of *ticket) (protocol.Outcome, error) {
	tk := fairTicketFrom(of)
	r.mu.Lock()
	var after []protocol.Departure
	for _, x := range slices.Concat(tk.after, tk.entered) {
		after = append(after, protocol.Departure{Number: x.Number, Wait: x.wait})
	}
	aside := tk.asking > 0 || tk.OutcomeUnknown
	r.mu.Unlock()
	outcome, err := r.c.withdrawals.Release(r.lock.Release(r.owner(of), tk.wait, time.Now(), after), aside)
	r.c.withdrawals.PassOn(outcome, func() { _, _ = r.release(of) })
	return outcome, err
}
