package lockrt

// A place is a waiter's position in the queue of a resource or a counter.
type place struct {
	queued  bool // guarded by the lock of the queue, with the rest
	leading bool // it is its turn to ask
	asked   bool // at a counter: it has asked, and has had no event since
	granted bool // it has the lease

	before, after *waiter
}

// A waitQueue is a queue of waiters, linked through their places: unlike a list from the library it
// allocates nothing.
type waitQueue struct {
	first, last *waiter
	length      int
}

func (q *waitQueue) push(w *waiter) {
	w.place.queued, w.place.before, w.place.after = true, q.last, nil
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
