package engine

import (
	"cmp"
	"math"
)

// A Place is a waiter's position in the queue of a resource or a counter.
type Place[T any] struct {
	State placeState // guarded by the lock of the queue, with the rest

	before *Waiter[T] // of the first, the last one
	After  *Waiter[T]
}

// A placeState says how far a waiter has come.
type placeState uint8

const (
	PlaceNone    placeState = iota // it is not in the queue
	PlaceQueued                    // others are before it
	PlaceLeading                   // it is its turn to ask
	PlaceAsking                    // at a counter: it has asked, and has had no event since
	PlaceGranted                   // it has been given the lease, and is not in the queue
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
func (p *Place[T]) Queued() bool { return p.Leading() || p.State == PlaceQueued }

// Leading reports whether it is the turn of the waiter.
func (p *Place[T]) Leading() bool { return p.State == PlaceLeading || p.State == PlaceAsking }

// A WaitQueue is a queue of waiters, linked through their places: unlike a list from the library it
// allocates nothing.
type WaitQueue[T any] struct{ First *Waiter[T] }

// Empty reports whether there is no waiter.
func (q *WaitQueue[T]) Empty() bool { return q.First == nil }

// Length returns the number of waiters, which it counts.
func (q *WaitQueue[T]) Length() int { return q.LengthTo(math.MaxInt) }

// LengthTo returns the number of waiters, or most if there are more.
func (q *WaitQueue[T]) LengthTo(most int) (n int) {
	for w := q.First; w != nil && n < most; w = w.Place.After {
		n++
	}
	return n
}

// Push adds w at the end.
func (q *WaitQueue[T]) Push(w *Waiter[T]) {
	w.Place = Place[T]{State: PlaceQueued, before: w}
	if first := q.First; first == nil {
		q.First = w
	} else {
		last := first.Place.before
		last.Place.After, w.Place.before, first.Place.before = w, last, w
	}
}

// Remove takes w out, which is in the queue.
func (q *WaitQueue[T]) Remove(w *Waiter[T]) {
	p := w.Place
	w.Place = Place[T]{}
	if q.First == w {
		q.First = p.After
	} else {
		p.before.Place.After = p.After
	}
	if behind := cmp.Or(p.After, q.First); behind != nil { // the first, if w was the last
		behind.Place.before = p.before
	}
}

// Each calls f for each waiter, in their order. f may remove it.
func (q *WaitQueue[T]) Each(f func(w *Waiter[T])) {
	for w := q.First; w != nil; {
		next := w.Place.After
		f(w)
		w = next
	}
}
