package watchdog

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/trace"
)

// A lane has the requests that one call of the renewer may handle: about leases of one kind and
// group, which are those of one server.
type lane struct {
	queue   []request      // to be sent
	sending int            // goroutines that send, each with one batch under way
	hung    int            // how many of these may wait for answers that never come: as many more goroutines may send
	heard   monotonic.Time // when the server answered last, or when the first request was queued after it had answered all
}

// A laneID identifies the leases that share a lane.
type laneID struct {
	kind  string
	group uint16
}

// A request is a question to the server about a lease: to renew it, or only whether the server has
// it.
type request struct {
	lease *Lease
	looks bool
	late  bool // nobody guarded the lease any more when the answer came
}

const (
	// atOnce is how many batches of a lane are under way: enough that the server does not wait for the client.
	atOnce = 2
	// mostHung is how many more there may be for those that hang.
	mostHung = 6
	// heaviest is the weight of a batch at most, unless it is that of one lease.
	heaviest = 10_000
)

// lane returns the lane of l.
func (w *Watchdog) lane(l *Lease, now monotonic.Time) *lane {
	id := laneID{l.Kind(), w.group(l)}
	ln := w.lanes[id]
	if ln == nil {
		ln = &lane{heard: now}
		w.lanes[id] = ln
	}
	return ln
}

// regroup moves what is queued to the lanes of the present groups: the server of the old group may not answer. The caller holds Watchdog.mu.
func (w *Watchdog) regroup(now monotonic.Time) {
	var moved []request
	for id, ln := range w.lanes {
		ln.queue = slices.DeleteFunc(ln.queue, func(r request) bool {
			moves := r.lease.index >= 0 && w.group(r.lease) != id.group
			if moves {
				moved = append(moved, r)
			}
			return moves
		})
	}
	for _, r := range moved {
		w.lane(r.lease, now).push(r, now)
	}
}

// pass does all due work.
func (w *Watchdog) pass() {
	now := monotonic.Now()
	type loss struct {
		of    *Lease
		cause error
	}
	var lost []loss

	w.mu.Lock()
	var slack time.Duration // 0 until a renewal is due: from then on those that are nearly due join its batch
	serve := func(l *Lease) {
		if !now.Before(l.trusted()) {
			w.queue.remove(l)
			lost = append(lost, loss{l, l.overdue()})
			return
		}
		soon := now
		if slack > 0 && l.stage == stageIdle {
			soon = now.Add(l.TTL / 24)
		}
		// next and not due: trust that is about to end is no reason to renew, and would stay one.
		renew := l.renews() && !l.next.After(soon)
		look := !l.look.IsZero() && !l.look.After(now)
		if renew || look {
			w.lane(l, now).add(l, now, renew, look)
		}
		if renew {
			slack = max(slack, l.TTL/24)
		}
	}
	w.queue.serve(now, serve)
	if slack > 0 {
		w.queue.serve(now.Add(slack), serve)
	}
	next := now.Add(time.Hour)
	if w.queue.size > 0 {
		next = w.queue.first()
	}
	if !w.armed.After(now) || next.Before(w.armed) { // otherwise it is armed for a lease that has come, and may have gone since
		w.armed = next
	}
	for id, ln := range w.lanes {
		w.start(id, ln)
	}
	w.mu.Unlock()

	for _, l := range lost {
		l.of.Lost(l.cause)
	}
}

// add queues the due work of l. The caller holds Watchdog.mu. A renewal that waits in the queue or is under way is not
// sent again, except one without an answer while the server answers nothing, and one whose answer would come too late.
func (ln *lane) add(l *Lease, now monotonic.Time, renew, look bool) {
	patience := l.patience(now)
	if renew {
		l.next = now.Add(patience) // unless answered before
		silent := l.stage != stageIdle && now.Sub(ln.heard) >= patience
		if silent && ln.hung < min(ln.sending, mostHung) {
			ln.hung++
		}
		if renew = l.stage == stageIdle || l.stage == stageSent && (silent || l.anew); renew {
			l.stage, l.anew = stageQueued, false
		}
	}
	if look {
		l.look = 0 // unless there is another reason to look
	}
	if renew || look {
		ln.push(request{lease: l, looks: !renew}, now)
	}
}

// push adds r to the queue.
func (ln *lane) push(r request, now monotonic.Time) {
	if ln.sending == 0 && len(ln.queue) == 0 {
		ln.heard = now
	}
	ln.queue = append(ln.queue, r)
}

// start makes goroutines send the queue of ln. A lane without work is dropped.
func (w *Watchdog) start(id laneID, ln *lane) {
	if ln.sending == 0 && len(ln.queue) == 0 {
		delete(w.lanes, id)
		return
	}
	batch := w.batch()
	if len(ln.queue) > batch { // earliest end of trust first
		slices.SortStableFunc(ln.queue, func(a, b request) int { return cmp.Compare(a.lease.trusted(), b.lease.trusted()) })
	}
	for n := len(ln.queue); n > 0 && ln.sending < atOnce+ln.hung && !w.closed; n -= batch {
		ln.sending++
		w.requests.Go(func() { w.send(ln) })
	}
}

// take returns the next requests to send, of leases that are still guarded.
func (ln *lane) take(most int) []request {
	var batch []request
	n, weight := 0, 0
	for ; n < len(ln.queue) && len(batch) < most; n++ {
		r := ln.queue[n]
		if r.lease.index < 0 {
			continue
		}
		if weight += r.lease.weight(); weight > heaviest && len(batch) > 0 {
			break
		}
		if !r.looks {
			r.lease.stage = stageSent
		}
		batch = append(batch, r)
	}
	if ln.queue = ln.queue[n:]; len(ln.queue) == 0 {
		ln.queue = nil
	}
	return batch
}

// send sends what is in the queue of ln, batch after batch.
func (w *Watchdog) send(ln *lane) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		batch := ln.take(w.batch())
		if len(batch) == 0 {
			ln.sending--
			return
		}
		for _, r := range batch {
			if w.traced != nil {
				w.traced(trace.Renews, r.lease, 0)
			}
		}
		w.mu.Unlock()
		w.ask(ln, batch)
		w.mu.Lock()
	}
}

// ask sends a batch and settles each lease of it. The answers count from before the request: a slow
// one must not stretch the trust.
func (w *Watchdog) ask(ln *lane, batch []request) {
	now := monotonic.Now()
	leases := make([]*Lease, len(batch))
	ttls := make([]time.Duration, len(batch))
	w.mu.Lock()
	for i, r := range batch {
		leases[i], ttls[i] = r.lease, r.lease.length(now, r.looks)
	}
	w.mu.Unlock()
	outcomes := w.renew(leases, ttls)

	w.mu.Lock()
	answered := monotonic.Now()
	ln.heard, ln.hung = answered, 0
	var lost []*Lease
	for i, r := range batch {
		l := r.lease
		if !r.looks {
			l.stage = stageIdle
		}
		refused := errors.Is(outcomes[i], ErrRefused)
		old := refused && l.overtakes(now)
		batch[i].late = l.index < 0 || old
		switch {
		case old && l.index >= 0:
			refused, l.look = false, answered
		case l.index < 0 || refused:
		case outcomes[i] != nil:
			r.failed(answered, outcomes[i])
		case !r.looks: // the answer to a look is as was known
			w.confirm(l, now, ttls[i])
			if w.traced != nil {
				w.traced(trace.Renewed, l, l.end())
			}
		}
		switch {
		case l.index < 0:
		case refused:
			w.remove(l)
			lost = append(lost, l)
		default:
			w.queue.fix(l)
			w.wake(l)
		}
	}
	w.mu.Unlock()

	for i, r := range batch {
		if w.observe != nil && !r.looks && !(r.late && errors.Is(outcomes[i], ErrRefused)) { // the lease had ended before
			w.observe(r.lease, outcomes[i])
		}
	}
	for _, l := range lost {
		l.Lost(ErrRefused)
	}
}

// failed makes the question of r due again soon, since the outcome is unknown. The caller holds Watchdog.mu.
func (r request) failed(now monotonic.Time, err error) {
	l := r.lease
	soon := now.Add(min(l.patience(now), time.Second))
	switch {
	case !r.looks:
		l.more().failing = err
		if soon.Before(l.next) {
			l.next = soon
		}
	case l.look.IsZero() || soon.Before(l.look):
		l.look = soon
	}
}
