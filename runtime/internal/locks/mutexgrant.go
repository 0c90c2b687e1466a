package locks

import (
	"errors"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
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

// succeed gives the grant to l in place of outer, if no other lease has it, and reports whether it
// did.
func (g *grant) succeed(outer, l *Lease) bool {
	r := g.on()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shut || g.state > engine.GrantLingering || outer.unlocked || outer.ended() != nil || !g.only(outer) {
		return false
	}
	outer.unlocked = true
	g.remove(outer)
	g.attach(l)
	return true
}

// expire stops the renewal of the grant, unless another lease gets it or has entered it: l, its only lease, is of no
// use.
func (g *grant) expire(l *Lease) {
	r := g.on()
	r.mu.Lock()
	defer r.mu.Unlock()
	if g.state <= engine.GrantLingering && g.only(l) {
		g.more().limit = 1 // the next holder has a limit of its own
		r.c.watchdog.Limit(&g.guard, now())
	}
}

// keep ends l and leaves the key locked.
func (g *grant) keep(l *Lease) {
	l.end(failure.ErrReleased)
	r := g.on()
	r.mu.Lock()
	defer r.mu.Unlock()
	g.rest()
}

// While no other process is known to wait, a grant may circulate in a process for this long before
// the process asks Redis whether that is still so.
const localPassLimit = 10 * time.Millisecond

// Within a second after another process wanted the key, the process asks this often: where goroutines pass a grant on
// without a pause, Go reads the message that another process wants it too late.
const nearPassLimit = 500 * time.Microsecond

// canPass reports whether w can have the grant as it is, in its turn.
func (r *resource) canPass(g *grant, w *waiter) bool {
	if !r.c.canPass(&g.guard, g.terms(), w.Terms, g.ticket.rare().tokens) {
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

// passLimit returns for how long g may circulate.
func (g *grant) passLimit() time.Duration {
	if g.near {
		return nearPassLimit
	}
	return localPassLimit
}

// canPass reports whether a hold on some terms can be passed on to a waiter that wants others: with enough trust left, and as
// [engine.Terms.PassesTo] says.
func (c *Client) canPass(guard *watchdog.Lease, held, wanted engine.Terms, left engine.Tokens) bool {
	return c.canPassAt(monotonic.Now(), guard, held, wanted, left)
}

// canPassAt is canPass at the time at, which is now.
func (c *Client) canPassAt(at monotonic.Time, guard *watchdog.Lease, held, wanted engine.Terms, left engine.Tokens) bool {
	return held.PassesTo(wanted, left) && c.granting() &&
		!guard.Extended() && // a holder's extension is not for the next one
		guard.TrustedAt(at.Add(min(held.TTL, handOverLease)/3))
}

// releasing has the release of a grant ask for the key once more, if another caller waits. It is sent after the answer to a request of
// the ticket, or that request could take the lock again, in vain.
func (r *resource) releasing(op *releaseOp) {
	tk, handed := op.ticket, op.ticket.UnclaimedGrant // the key came from another process of this library
	if op.of != nil {
		handed = op.of.handed
	}
	op.placed, op.start = tk.Standing, tk.startAfter(handed)
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
		op.again.follows(tk)
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

func (op *releaseOp) Key() string { return op.ticket.r.key }

func (op *releaseOp) Append(keys, args []string, _ bool) (allKeys, allArgs []string) {
	tk, on := op.ticket, op.ticket.r
	tk.traces(trace.GivesBack)
	if op.plain {
		return on.c.wire.Free(keys, args, on.key, tk.Number)
	}
	r := protocol.Release{Of: tk.onWire(), Start: op.start}
	if op.again != nil {
		r.Again, r.Lease = op.again.onWire(), op.terms.TTL
		op.again.traces(trace.Joins)
	}
	return on.c.wire.Release(keys, args, on.key, r)
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
