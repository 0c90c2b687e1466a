package engine

import (
	"cmp"
	"math"
)

// A Place says how far a waiter has come in the queue of a resource or a counter.
type Place uint8

const (
	PlaceNone    Place = iota // it is not in the queue
	PlaceQueued               // others are before it
	PlaceLeading              // it is its turn to ask
	PlaceAsking               // at a counter: it has asked, and has had no event since
	PlaceGranted              // it has been given the lease, and is not in the queue
)

// An Entry is the result of joining a contest.
type Entry uint8

const (
	ToWait     Entry = iota // the waiter waits for an event
	ToAsk                   // the waiter has the turn to ask Redis
	Entered                 // the waiter has what it wants, since another call of its owner has it; there is no event
	TurnedAway              // the waiter tries once, and others are before it: it is not in the contest
)

// Queued reports whether the waiter is in the queue.
func (p Place) Queued() bool { return p.Leading() || p == PlaceQueued }

// Leading reports whether it is the turn of the waiter.
func (p Place) Leading() bool { return p == PlaceLeading || p == PlaceAsking }

// A WaitQueue is a queue of waiters, linked through the waiters: unlike a list from the library it
// allocates nothing.
type WaitQueue[T any] struct{ First *Waiter[T] }

// Empty reports whether there is no waiter.
func (q *WaitQueue[T]) Empty() bool { return q.First == nil }

// Length returns the number of waiters, which it counts.
func (q *WaitQueue[T]) Length() int { return q.LengthTo(math.MaxInt) }

// LengthTo returns the number of waiters, or most if there are more.
func (q *WaitQueue[T]) LengthTo(most int) (n int) {
	for w := q.First; w != nil && n < most; w = w.After {
		n++
	}
	return n
}

// Push adds w at the end.
func (q *WaitQueue[T]) Push(w *Waiter[T]) {
	w.Place, w.before, w.After = PlaceQueued, w, nil
	if first := q.First; first == nil {
		q.First = w
	} else {
		last := first.before
		last.After, w.before, first.before = w, last, w
	}
}

// Remove takes w out, which is in the queue.
func (q *WaitQueue[T]) Remove(w *Waiter[T]) {
	before, after := w.before, w.After
	w.Place, w.before, w.After = PlaceNone, nil, nil
	if q.First == w {
		q.First = after
	} else {
		before.After = after
	}
	if behind := cmp.Or(after, q.First); behind != nil { // the first, if w was the last
		behind.before = before
	}
}

// Deputy returns the first waiter that listens, if the head of the queue polls; else nil. A head that polls learns of nothing during its
// pauses, so the deputy listens instead, and has the head ask when there is a reason to. The answer is for the head.
func (q *WaitQueue[T]) Deputy() *Waiter[T] {
	w := q.First
	if w == nil || w.Once() || !w.Terms.Polling {
		return nil
	}
	for w != nil && !w.listens() {
		w = w.After
	}
	return w
}

// IsDeputy reports whether w is the deputy. It looks at more waiters only if the one before w does not listen.
func (q *WaitQueue[T]) IsDeputy(w *Waiter[T]) bool {
	return w.before != nil && w.listens() && !w.before.listens() && q.Deputy() == w
}

// Refuse lets w know of ev, a refusal by Redis; and the deputy, if w is the head.
func (q *WaitQueue[T]) Refuse(w *Waiter[T], ev Event) {
	w.Notify(ev)
	q.deputize(w, ev)
}

// deputize lets the deputy know of ev, a refusal of w, if w is the head.
func (q *WaitQueue[T]) deputize(w *Waiter[T], ev Event) {
	if q.First != w {
		return
	}
	if d := q.Deputy(); d != nil {
		d.Place, ev.Deputy = PlaceQueued, true
		d.Notify(ev)
	}
}

// Each calls f for each waiter, in their order. f may remove it.
func (q *WaitQueue[T]) Each(f func(w *Waiter[T])) {
	for w := q.First; w != nil; {
		next := w.After
		f(w)
		w = next
	}
}
