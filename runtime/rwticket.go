package lockrt

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// An rwTicket is one owner for the requests of one waiter. An owner is never used for another ticket, so a late request
// that names it cannot harm a later one.
type rwTicket struct {
	r     *rwResource
	w     *waiter // the waiter with the ticket; nil when it has gone
	write bool
	under *rwGrant // of the same holder, under which it may read ahead of all waiters; or nil

	// Guarded by rwResource.mu.
	engine.TicketCore          // the ticket whose Number is 0 before it asks
	field             string   // its name in Redis
	grant             *rwGrant // its grant, or nil
	ttl               time.Duration

	recheck engine.Recheck // when the turn of another waiter is over
	counted *hub.Listener  // while it listens to Redisson's channel, so that it does not count as a Java program
}

// ask sends one request for w.
func (r *rwResource) ask(w *waiter) {
	tk := w.For.rw
	r.mu.Lock()
	if w.Place.State == engine.PlaceGranted {
		r.mu.Unlock()
		return // it got what it wants a moment ago
	}
	if tk.Number == 0 {
		tk.Number = r.c.ticketNumbers.Add(1)
		tk.field = r.lock.Field(tk.Number, tk.write)
		tk.ttl = w.Terms.TTL
		r.c.connect(tk.Number, tk)
	}
	tk.To(engine.TicketAsking)
	if tk.under == nil {
		r.busy++
		r.answers.Asks()
	}
	var place protocol.Stay
	if !w.Once() {
		place = protocol.Stay{For: lineFor, Deaf: w.Terms.Polling || tk.Standing && !r.c.attends(r.key)}
		tk.Standing = true
	}
	fenced := w.Terms.Fenced
	r.mu.Unlock()

	w.Asks.Add(1)
	r.stay()
	r.c.spawn(func() {
		defer r.quit()
		sent := time.Now() // before the request: the trust counts from here
		reply, again, err := r.send(tk, place, fenced)
		r.settle(tk, sent, reply, again, err)
		w.Asks.Add(-1)
	})
}

// send sends a request for tk to Redis, more than once if the answer is late.
func (r *rwResource) send(tk *rwTicket, place protocol.Stay, fenced bool) (verdict protocol.Verdict, again bool, err error) {
	if tk.write {
		tokens := 0
		if fenced {
			tokens = 1
		}
		reply, again := r.c.net.RunGrantInTime(r.lock.Write(tk.field, place, tokens, tk.ttl), isGranted)
		numbers, err := reply.Ints()
		if err == nil {
			verdict, err = protocol.ReadRWWrite(numbers)
		}
		return verdict, again, err
	}
	under := ""
	if tk.under != nil {
		under = tk.under.ticket.field
	}
	reply, again := r.c.net.RunGrantInTime(r.lock.Read(tk.field, under, place, tk.ttl), isGranted)
	n, err := reply.Int()
	return protocol.ReadRWRead(n), again, err
}

// settle handles the answer to the request for tk. A request that was sent again may still arrive.
func (r *rwResource) settle(tk *rwTicket, sent time.Time, reply protocol.Verdict, again bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer tk.Rest()
	if tk.under == nil {
		r.busy--
		r.answers.Says(err == nil && !reply.Granted(), err)
	}
	judged, err := tk.Judge(answerOf(sent, tk.ttl, reply.Granted(), err), true, r.c.refusal())
	tk.OutcomeUnknown = tk.OutcomeUnknown || again
	if judged == engine.JudgedRefused {
		tk.UnclaimedGrant, tk.Forced = false, false
	}
	w := tk.w
	switch {
	case w == nil:
		tk.Rest()
		r.drop(tk)
		r.promptHead()
	case judged == engine.JudgedFailed:
		w.Notify(engine.Event{Kind: engine.Failed, Err: err})
	case judged == engine.JudgedAgain:
		w.Notify(engine.Event{Kind: engine.Turn})
	case judged == engine.JudgedRefused:
		if tk.counted == nil && !w.Once() && !w.Terms.Polling {
			tk.counted = r.c.net.Listen(r.lock.WaiterChannel(), func(hub.Event) {})
		}
		pause := lineFor / 2
		if reply.Wait >= 0 {
			pause = min(pause, time.Duration(reply.Wait)*time.Millisecond)
		}
		w.Notify(engine.Event{Kind: engine.Refused, TTL: pause, Foreign: true, InLine: true})
	default:
		g := r.promote(tk, sent)
		if w.Terms.Fenced {
			w.For.lease.token = reply.Token
		}
		if tk.under == nil {
			r.queue.Remove(w)
		}
		r.assign(g, w)
		r.promptHead()
	}
}

// leave removes w. If it got the lease after all, leave unlocks it.
func (r *rwResource) leave(w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.Place.State == engine.PlaceGranted {
		l := w.For.lease
		r.c.spawn(func() { _ = l.grant.unlock(l) })
		return
	}
	tk := w.For.rw
	if w.Place.Queued() {
		r.queue.Remove(w)
	}
	tk.w = nil
	if tk.State != engine.TicketAsking {
		r.drop(tk)
	}
	r.promptHead()
}

// drop gives up a ticket whose waiter has gone.
func (r *rwResource) drop(tk *rwTicket) {
	tk.uncount()
	if tk.UnclaimedGrant {
		tk.To(engine.TicketReleasing)
		r.busy++
		r.stay()
		tk.release(nil)
		return
	}
	if tk.Number > 0 {
		r.c.disconnect(tk.Number)
	}
	switch {
	case tk.OutcomeUnknown:
		r.withdraw(tk, tk.ttl)
	case tk.Standing:
		r.withdraw(tk, 0)
	default:
		tk.To(engine.TicketDone)
	}
}

// release releases the ticket, and its grant unless that is nil. It does not block.
func (tk *rwTicket) release(of *grantCore) *releaseOp {
	op := releaseOf(tk, &tk.r.referenced, &tk.TicketCore, of)
	tk.sendRelease(op)
	return op
}

func (tk *rwTicket) sendRelease(op *releaseOp) {
	r := tk.r
	op.run(func() (protocol.Outcome, error) { return r.c.runRelease(r.lock.Release(tk.field), tk.OutcomeUnknown) })
}

func (tk *rwTicket) giveUp(*releaseOp) { tk.r.withdraw(tk, tk.ttl) }

func (tk *rwTicket) proceed(*releaseOp, released, error) {
	tk.r.busy--
	tk.r.promptHead()
}

// uncount records that the waiter listens no more, and has no turn to wait for.
func (tk *rwTicket) uncount() {
	if tk.counted != nil {
		tk.counted.Close()
	}
	tk.recheck.Stop()
}

// withdraw makes sure that Redis does not keep the lock, or a place in the wait queue, for a ticket without a waiter. A
// request for it may still take effect for as long as watch says. withdraw does not block. The caller holds r.mu.
func (r *rwResource) withdraw(tk *rwTicket, watch time.Duration) {
	tk.To(engine.TicketWithdrawing)
	r.c.withdrawals.Add(r.c.withdrawsRW(r.key), &engine.Withdrawal{Number: tk.Number, Field: tk.field, Watch: watch, Aside: tk.OutcomeUnknown})
}

// lockKey returns the key that messages to the ticket are about.
func (tk *rwTicket) lockKey() string { return tk.r.key }

// handed is never called: no script hands a read-write lock over.
func (tk *rwTicket) handed(uint64, handOver) {}

// look makes the waiter ask: it is its turn.
func (tk *rwTicket) look(uint64) {
	tk.r.mu.Lock()
	defer tk.r.mu.Unlock()
	if tk.grant == nil && tk.w != nil {
		tk.w.Poke()
	}
}

// soon makes the waiter ask in d, in case the waiter whose turn it is does not come until then.
func (tk *rwTicket) soon(n uint64, d time.Duration) {
	tk.r.mu.Lock()
	defer tk.r.mu.Unlock()
	if tk.grant == nil && tk.w != nil {
		tk.recheck.In(d, n, tk.look)
	}
}

// resubscribed makes the waiter ask: messages during the gap are lost. A reader asks soon by itself, see probe.
func (tk *rwTicket) resubscribed(n uint64) { tk.look(n) }

// wanted records that another call waits for the lock of tk.
func (tk *rwTicket) wanted(uint64) {
	tk.r.mu.Lock()
	defer tk.r.mu.Unlock()
	tk.OthersWait = true
}

// taken handles the message that the lock of tk was taken by force.
func (tk *rwTicket) taken(uint64) {
	tk.r.mu.Lock()
	defer tk.r.mu.Unlock()
	if g := tk.grant; g != nil {
		g.taken()
		return
	}
	tk.Forced = true
}
