package policy

import (
	"errors"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/resource"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// MutexGrant returns x and its resource, if x is the grant of a mutex.
func MutexGrant(x any) (g *resource.Grant, r *Mutex, ok bool) {
	if g, ok = x.(*resource.Grant); ok {
		r, ok = g.Resource().Kind.(*Mutex)
	}
	return g, r, ok
}

func (r *Mutex) Holds(g *resource.Grant) (old *resource.Grant) {
	g.Contested = r.Client.Contended.Lately(r.Key, g.Began().Std())
	return r.Exclusive.Holds(g)
}

func (r *Mutex) Remove(g *resource.Grant, cause error) {
	r.Exclusive.Remove(g, cause)
	switch {
	case cause == nil:
	case errors.Is(cause, watchdog.ErrRefused):
		g.Ticket.Traces(trace.Lost)
	default:
		g.Ticket.Traces(trace.RunsOut)
	}
}

// Next returns the head of the queue, if it can have g as it is, in its turn.
func (r *Mutex) Next(g *resource.Grant) (next *resource.Waiter, at monotonic.Time) {
	if w := r.Queue.First; w != nil {
		if at = monotonic.Now(); r.CanPass(g, w, at) {
			return w, at
		}
	}
	return nil, 0
}

// Admit has waiters of one owner enter together.
func (r *Mutex) Admit(g *resource.Grant, owner *leases.Owner) {
	r.Queue.Each(func(w *resource.Waiter) {
		if w.For.Lease != nil && w.For.Lease.Core().Rare().Owner == owner {
			r.Queue.Remove(w)
			w.Place = engine.PlaceGranted
			g.Attach(w.For.Lease)
			w.Notify(engine.Event{Kind: engine.Given})
		}
	})
}

func (r *Mutex) Wanted(g *resource.Grant) {
	r.Client.Contended.Note(r.Key, core.Now())
	g.EndLinger()
}

func (r *Mutex) Shuts() { r.Grant.EndLinger() }

// EndsLinger releases a grant that lingers.
func (r *Mutex) EndsLinger() {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.Grant.EndLinger()
}

func (r *Mutex) Deleted(g *resource.Grant) {
	_, _ = r.Withdrawer().Withdraw([]*engine.Withdrawal{{Number: g.Ticket.Number, Tokens: int(g.Ticket.PlaceTokens)}})
}

// CanPass reports whether w can have the grant as it is, in its turn, at the time at, which is now.
func (r *Mutex) CanPass(g *resource.Grant, w *resource.Waiter, at monotonic.Time) bool {
	if !resource.CanPass(r.Client.Core(), at, &g.Guard, g.Terms(), w.Terms, g.Ticket.Rare().Tokens) {
		return false
	}
	row := r.Client.Settings.Cohort
	switch {
	case g.Ticket.Java > 0:
		row = min(row, CohortBesideJava)
	case g.Ticket.OthersWait:
		return g.InTurnSinceItCame(row, at)
	case row > 1 && r.Client.Heard():
		return g.Guard.Age(at) < g.PassLimit()
	}
	return g.InTurn(row, at)
}

// Releasing has the release of a grant ask for the key once more, if another caller waits. It is sent after the answer to a request of
// the ticket, or that request could take the lock again, in vain.
func (r *Mutex) Releasing(op *resource.ReleaseOp) {
	tk, handed := op.Ticket, op.Ticket.UnclaimedGrant // the key came from another process of this library
	if op.Of != nil {
		handed = op.Of.Handed
	}
	op.Placed, op.Start = tk.Standing, StartAfter(tk.Rare().Start, handed)
	if _, known := r.Client.Starts.Last(r.Key); known || op.Start > 0 {
		op.Heard, _ = r.Client.Net.Heard(r.Channel(nil))
	}
	if op.Of == nil {
		return
	}
	asking := tk.Asking > 0
	if asking {
		tk.More().Pending = op
	} else {
		tk.Traces(trace.Unlocks)
	}
	if next := r.Queue.First; next != nil && r.Client.Granting() && r.Client.Attends(r.Key) {
		op.Again, op.Terms = r.TicketFor(next.Terms), next.Terms
		r.InheritJava(op.Again, tk)
		op.Again.Standing = true
		op.Again.To(engine.TicketQueued)
	}
	switch {
	case asking:
		op.Way = resource.AfterAnswer
	case op.Again == nil && !tk.OthersWait && !tk.Standing:
		op.Way = resource.ByFree
	}
}

// SendRelease chooses the script: free.lua for the first request, if this process knows of no waiter.
func (r *Mutex) SendRelease(op *resource.ReleaseOp, first bool) {
	switch {
	case first && op.Way == resource.AfterAnswer: // [Mutex.settled] sends it
	case first && op.Way == resource.ByFree:
		r.Client.Frees.Submit(op, true)
	default:
		r.Client.Releases.Submit(op, first)
	}
}

func (r *Mutex) Proceed(op *resource.ReleaseOp, done resource.Released, err error) {
	r.Busy--
	r.Answers.Changes()
	r.NoteRelease(op, done.Released)
	if op.Again != nil && op.MayArrive() {
		op.Again.OutcomeUnknown = true
	}
	if op.Again != nil && r.Ticket == op.Again {
		r.Resume(op, done, err)
	} else {
		r.Prompt(r) // op.Again was handed over already, if it was in the wait queue
	}
}

// TakeLingering gives l the grant if that lingers, for a call with the options of cfg. It is the short way to what Join does. The caller
// need not have entered r, for which the grant stays.
func (r *Mutex) TakeLingering(l *leases.Lease, cfg *leases.Config) bool {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	at := monotonic.Now() // not sooner: the trust is judged by it
	g := r.Grant
	if g == nil || !g.CanResume(cfg.Terms, at) {
		return false
	}
	g.Resume(l)
	l.Core().Began = at
	if cfg.Fenced {
		l.Core().SetToken(g.Ticket.More().Tokens.Take())
	}
	g.Attach(l)
	g.LimitTo(cfg.MaxHold, l)
	g.SetLinger(cfg.Linger)
	r.Client.Counts.Waited(0)
	return true
}
