package lockrt

// A place is a waiter's position in the queue of a resource or a counter.
type place struct {
	state placeState // guarded by the lock of the queue, with the rest

	before, after *waiter
}

// A placeState says how far a waiter has come.
type placeState uint8

const (
	placeNone    placeState = iota // it is not in the queue
	placeQueued                    // others are before it
	placeLeading                   // it is its turn to ask
	placeAsking                    // at a counter: it has asked, and has had no event since
	placeGranted                   // it has been given the lease, and is not in the queue
)

// queued reports whether the waiter is in the queue.
func (p *place) queued() bool { return p.leading() || p.state == placeQueued }

// leading reports whether it is the turn of the waiter.
func (p *place) leading() bool { return p.state == placeLeading || p.state == placeAsking }

// A waitQueue is a queue of waiters, linked through their places: unlike a list from the library it
// allocates nothing.
type waitQueue struct {
	first, last *waiter
	length      int
}

func (q *waitQueue) push(w *waiter) {
	w.place = place{state: placeQueued, before: q.last}
	if q.last == nil {
		q.first = w
	} else {
		q.last.place.after = w
	}
	q.last = w
	q.length++
}

func (q *waitQueue) remove(w *waiter) {
	p := &w.place
	if p.before == nil {
		q.first = p.after
	} else {
		p.before.place.after = p.after
	}
	if p.after == nil {
		q.last = p.before
	} else {
		p.after.place.before = p.before
	}
	*p = place{}
	q.length--
}

// each calls f for each waiter, in their order.
func (q *waitQueue) each(f func(w *waiter)) {
	for w := q.first; w != nil; w = w.place.after {
		f(w)
	}
}
