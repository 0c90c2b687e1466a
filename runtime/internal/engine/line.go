package engine

// A Policy decides what a waiter can have of the grants that the process has already: exclusive, one waiter at a time; or shared,
// readers together. The caller holds the lock of the resource.
type Policy[T any] interface {
	// Excludes reports whether the process has a grant that excludes w.
	Excludes(w *Waiter[T]) bool
	// Follow gives w, the head, a grant that the process has already, if w can have it without a request, and reports
	// whether it did.
	Follow(w *Waiter[T]) bool
}

// A Line is the wait queue of one key in this process, first come, first served, of which the head asks Redis. The lock of the
// resource guards it.
type Line[T any] struct {
	Queue WaitQueue[T] // the waiters
	Answers
}

// Join adds w to the end of the queue. A waiter that tries once joins only an empty queue, and waits for the answer to an
// earlier request of this process. The deputy of a head that polls has it ask, and gets the answer too.
func (l *Line[T]) Join(w *Waiter[T], by Policy[T]) Entry {
	if w.Once() && (!l.Queue.Empty() || by.Excludes(w)) {
		return TurnedAway
	}
	l.Queue.Push(w)
	if l.Queue.First == w && l.ready(w, by) {
		w.Place = PlaceLeading
		return ToAsk
	}
	if l.Queue.IsDeputy(w) {
		l.Prompt(by)
	}
	return ToWait
}

// ready reports whether w, the head, may ask Redis.
func (l *Line[T]) ready(w *Waiter[T], by Policy[T]) bool { return l.Busy == 0 && !by.Excludes(w) }

// Prompt gives the head the turn to ask, unless there is no need: it may follow others without a request. It reminds a head that
// has the turn already.
func (l *Line[T]) Prompt(by Policy[T]) {
	for w := l.Queue.First; w != nil; w = l.Queue.First {
		if by.Follow(w) {
			continue
		}
		if l.ready(w, by) {
			w.Lead()
		}
		return
	}
}

// Continue ends one reason for which the line was busy.
func (l *Line[T]) Continue(by Policy[T]) {
	l.Busy--
	l.Prompt(by)
}

// Last returns whether the process has a grant that excludes w, or the head, and the last answer of Redis.
func (l *Line[T]) Last(w *Waiter[T], by Policy[T]) (held bool, said AnswerLog) {
	first := l.Queue.First
	return by.Excludes(w) || first != nil && by.Excludes(first), l.Answers.Look()
}
