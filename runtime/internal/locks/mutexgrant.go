package locks

import (
	"errors"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// mutexGrant returns x and its resource, if x is the grant of a mutex.
func mutexGrant(x any) (g *grant, r *resource, ok bool) {
	if g, ok = x.(*grant); ok {
		r, ok = g.on().kind.(*resource)
	}
	return g, r, ok
}

func (r *resource) holds(g *grant) (old *grant) {
	g.near = r.c.contended.Lately(r.key, now())
	return r.exclusiveCore.holds(g)
}

func (r *resource) remove(g *grant, cause error) {
	r.exclusiveCore.remove(g, cause)
	switch {
	case cause == nil:
	case errors.Is(cause, watchdog.ErrRefused):
		g.ticket.traces(trace.Lost)
	default:
		g.ticket.traces(trace.RunsOut)
	}
}

// next returns the head of the queue, if it can have g as it is, in its turn.
func (r *resource) next(g *grant) *waiter {
	if w := r.Queue.First; w != nil && r.canPass(g, w) {
		return w
	}
	return nil
}

// admit has waiters of one owner enter together.
func (r *resource) admit(g *grant, owner *Owner) {
	r.Queue.Each(func(w *waiter) {
		if w.For.lease != nil && w.For.lease.rare().owner == owner {
			r.Queue.Remove(w)
			w.Place = engine.PlaceGranted
			g.attach(w.For.lease)
			w.Notify(engine.Event{Kind: engine.Given})
		}
	})
}

func (r *resource) wanted(g *grant) {
	r.c.contended.Note(r.key, now())
	g.endLinger()
}

func (r *resource) shuts() { r.grant.endLinger() }

func (r *resource) deleted(g *grant) {
	_, _ = r.withdrawer().Withdraw([]*engine.Withdrawal{{Number: g.ticket.Number, Tokens: int(g.ticket.inLine)}})
}

// canPass reports whether w can have the grant as it is, in its turn.
func (r *resource) canPass(g *grant, w *waiter) bool {
	if !canPass(r.c.core(), &g.guard, g.terms(), w.Terms, g.ticket.rare().tokens) {
		return false
	}
	if g.ticket.java > 0 {
		return g.rare().passed+1 < min(r.c.opts.Cohort, cohortBesideJava)
	}
	if r.c.opts.Cohort == 1 || g.ticket.OthersWait || !r.c.heard() {
		return g.rare().passed+1 < r.c.opts.Cohort
	}
	return g.guard.Age(monotonic.Now()) < g.passLimit()
}

// releasing has the release of a grant ask for the key once more, if another caller waits. It is sent after the answer to a request of
// the ticket, or that request could take the lock again, in vain.
func (r *resource) releasing(op *releaseOp) {
	tk, handed := op.ticket, op.ticket.UnclaimedGrant // the key came from another process of this library
	if op.of != nil {
		handed = op.of.handed
	}
	op.placed, op.start = tk.Standing, startAfter(tk.rare().start, handed)
	if _, known := r.c.starts.Last(r.key); known || op.start > 0 {
		op.heard, _ = r.c.net.Heard(r.channel(nil))
	}
	if op.of == nil {
		return
	}
	if op.pending = tk.asking > 0; op.pending {
		tk.more().pending = op
	} else {
		tk.traces(trace.Unlocks)
	}
	if next := r.Queue.First; next != nil && r.c.granting() && r.c.attends(r.key) {
		op.again, op.terms = r.ticketFor(next.Terms), next.Terms
		r.follows(op.again, tk)
		op.again.Standing = true
		op.again.To(engine.TicketQueued)
	}
	op.plain = op.again == nil && !tk.OthersWait && !tk.Standing && !op.pending
}

// sendRelease chooses the script: free.lua for the first request, if this process knows of no waiter.
func (r *resource) sendRelease(op *releaseOp, first bool) {
	switch {
	case first && op.pending:
	case first && op.plain:
		r.c.frees.Submit(op, r.c.net.Prompt())
	default:
		r.c.releases.Submit(op, first && r.c.net.Prompt())
	}
}

func (r *resource) proceed(op *releaseOp, done released, err error) {
	r.Busy--
	r.Answers.Changes()
	r.leaves(op, done.Released)
	if op.again != nil && op.twice {
		op.again.OutcomeUnknown = true
	}
	if op.again != nil && r.ticket == op.again {
		r.resume(op.again, op.terms, done, err)
	} else {
		r.Prompt(r) // again was handed over already, if it was in the wait queue
	}
}

// takeLingering gives l the grant if that lingers, for a call with the options of cfg: the short way to what join does. The
// caller need not have entered r, for which the grant stays.
func (r *resource) takeLingering(l *Lease, cfg *lockConfig) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := monotonic.Now() // not sooner: the trust is judged by it
	g := r.grant
	if g == nil || !g.canResume(cfg.Terms, at) {
		return false
	}
	g.resume(l)
	l.began = at
	if cfg.Fenced {
		l.token = g.ticket.more().tokens.Take()
	}
	g.attach(l)
	g.limitTo(cfg.maxHold, l)
	g.lingersFor(cfg.linger)
	r.c.counts.waited(0)
	return true
}
