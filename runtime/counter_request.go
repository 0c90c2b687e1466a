package lockrt

import (
	"container/list"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// A batchRequest is one request for several waiters. Waiters that leave meanwhile stay in it: a repeated request must
// be the same.
type batchRequest struct {
	number         *list.Element
	waiters        []*waiter
	demands        []demand
	sent           time.Time // for the first time: a repetition does not prolong the leases of its permits
	outcomeUnknown bool      // it may have taken effect without our knowing
	deleted        bool      // the latch that they wait for was deleted
	last           bool      // it is sent once more, because the client is closed
	down           outage    // since its outcome is unknown
}

// send sends the request with an unknown outcome again, or a new one for the waiters, unless one is
// under way.
func (ct *counter) send() {
	if ct.asking {
		return
	}
	b := ct.round
	if b == nil {
		if ct.queue.Length == 0 {
			return
		}
		b = &batchRequest{number: ct.enroll()}
		for w := ct.queue.First; w != nil && (ct.alike || len(b.waiters) < ct.width); w = w.Place.After {
			b.waiters = append(b.waiters, w)
			b.demands = append(b.demands, *w.For.demand)
		}
		ct.round = b
	}
	wanted := false
	for _, w := range b.waiters {
		wanted = wanted || w.Place.Queued()
	}
	if b.sent.IsZero() {
		b.sent = time.Now() // before the request: the trust counts from here
	}
	ct.asking = true
	ct.answers.Asks()
	ct.stay()
	ct.c.spawn(func() {
		defer ct.quit()
		granted, ttl, err := ct.of.ask(b, wanted)
		for _, w := range ct.settle(b, granted, ttl, err) {
			ct.of.undo(w)
		}
	})
}

// settle handles the answer to b, and returns the grants for waiters that do not want them any
// more.
func (ct *counter) settle(b *batchRequest, granted int, ttl time.Duration, err error) (vain []demand) {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	ct.asking = false
	ct.answers.Says(err == nil && granted < len(b.waiters), err)
	if err != nil {
		ct.failed(b, err)
		return nil
	}
	ct.round = nil
	ct.numbers.Remove(b.number)
	ct.width = granted + 1
	if granted == len(b.waiters) {
		ct.width = min(2*granted, mostAtOnce)
	}
	for i, w := range b.waiters[:granted] {
		switch {
		case !w.Place.Queued() || !ct.c.granting():
			vain = append(vain, b.demands[i])
		case !ct.of.grant(w, b.sent):
			vain = append(vain, b.demands[i])
			ct.notify(w, engine.Event{Kind: engine.Failed, Err: engine.ErrLate})
		default:
			ct.queue.Remove(w)
			if b.deleted && w.For.demand.seen {
				w.Notify(engine.Event{Kind: engine.Failed, Err: ErrDeleted})
				continue
			}
			w.Place.State = engine.PlaceGranted
			w.Notify(engine.Event{Kind: engine.Given})
		}
	}
	head := ct.queue.First
	switch {
	case head == nil:
		ct.full = false
	case granted < len(b.waiters) && b.waiters[granted] == head:
		ct.refuse(head, ttl)
	default:
		ct.full = false
		ct.resume()
	}
	return vain
}

// refuse tells the head that it has to wait, and the others that they wait behind it. A waiter that
// tries once makes room for them instead.
func (ct *counter) refuse(head *waiter, ttl time.Duration) {
	head.For.demand.seen = true
	if head.Once() || head.Place.State != engine.PlaceLeading { // or it is about to ask by itself
		head.Place.State = engine.PlaceLeading
		head.Notify(engine.Event{Kind: engine.Refused, TTL: ttl, Foreign: true, InLine: true})
	}
	if head.Once() { // and will not ask again
		ct.queue.Remove(head)
		ct.full = false
		ct.resume()
		return
	}
	ct.full = true
	for w := head.Place.After; w != nil; w = w.Place.After {
		w.For.demand.seen = true
		if w.Place.State != engine.PlaceAsking {
			continue
		}
		w.Place.State = engine.PlaceQueued
		w.Notify(engine.Event{Kind: engine.Behind})
	}
}

// failed tells the waiters of b that there was no answer. If the outcome is unknown and they have
// gone, settleLater finds it out.
func (ct *counter) failed(b *batchRequest, err error) {
	b.outcomeUnknown = b.outcomeUnknown || transport.Unknown(err) || transport.Unconfirmed(err)
	pause := b.down.pause(ct.c.opts.Retry, err)
	for w := ct.queue.First; w != nil; w = w.Place.After {
		ct.notify(w, engine.Event{Kind: engine.Failed, Err: err})
	}
	if !b.outcomeUnknown {
		ct.round = nil
		ct.numbers.Remove(b.number)
	}
	if ct.queue.Length > 0 {
		ct.lead() // the waiter that asked may have left, or may be about to
		return
	}
	ct.full = false // the refused waiter has left, and the next to come asks
	if b.outcomeUnknown {
		ct.settleLater(b, err, pause)
	}
}

// settleLater sends b again after a pause, although no waiter waits for the answer, unless it is too late for that.
func (ct *counter) settleLater(b *batchRequest, err error, pause time.Duration) {
	ct.stay()
	ct.c.spawn(func() {
		defer ct.quit()
		again := (err == nil || passing(err)) && !b.down.longer(insistence)
		if again && !ct.c.pause(pause) {
			again, b.last = !b.last, true
		}
		ct.mu.Lock()
		defer ct.mu.Unlock()
		switch {
		case ct.round != b || ct.asking:
		case again:
			ct.send()
		default:
			ct.round = nil
			ct.numbers.Remove(b.number)
			ct.c.opts.Logger.Warn("lockgen: a request could not be withdrawn; what it took may be lost", "kind", ct.kind, "key", ct.key, "error", err)
			ct.resume()
		}
	})
}

// asked returns b in the form of the scripts that grant.
func (ct *counter) asked(b *batchRequest) protocol.Round {
	return protocol.Round{Request: ct.numbered(b.number), Again: b.outcomeUnknown, Create: b.demands[0].create}
}
