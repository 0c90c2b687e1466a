package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// A Waiter is one call that waits in a contest, for what T says.
type Waiter[T any] struct {
	Terms  Terms
	Events EventQueue     // from the contest
	alarm  monotonic.Time // when it is poked; 0 if that was never set, or cancelled
	For    T              // the subject of its wait
	Call   Call           // the waiting call

	before, After *Waiter[T]   // those beside it in the queue, which guards them; the one before the first is the last one
	suspicion     suspicion[T] // its place among the suspects

	Linger  int32         // WithLinger, in microseconds
	Asks    atomic.Int32  // number of its requests under way
	Number  atomic.Uint32 // its number for other processes; 0 as long as it has none
	alarmed int32         // its place among the alarms, counted from 1; 0 if it is none of them
	Follows bool          // it waits only for the answer to an earlier request of this process
	Patient bool          // only an answer can end a request of it
	Quorum  bool          // it asks many servers, one of which may take longer than the others
	Attends bool          // it listens for messages to the wait queue, until it leaves
	Recheck bool          // its request is for a Reason with Recheck; its own goroutine reads and sets this
	early   bool          // it may be poked before its alarm; guarded by the alarms
	suspect bool          // it is a suspect, or was one in this wait; its own goroutine reads and sets this
	Place   Place         // in the contest; guarded by the lock of the queue
}

// A Call describes the call of a waiter, for readers from outside. It does not change once the waiter has joined a
// contest.
type Call struct {
	Ctx   context.Context
	Label *Label // of the lock
	Since monotonic.Time
	Wait  time.Duration // WithWait
}

// A Label has the name of a lock for people, and in generated code the template of its key. It does not change. The nil Label has neither.
type Label struct {
	name, template string
	whole          *Whole // nil for a call that is no part of another one
}

// A Whole is a call that has others as its parts.
type Whole struct {
	Kind  string
	Label *Label
}

// NewLabel returns the label of a lock.
func NewLabel(name, template string) *Label { return &Label{name: name, template: template} }

// In returns the label of a part of whole.
func (l *Label) In(whole *Whole) *Label { return &Label{l.Name(), l.Template(), whole} }

// Whole returns the call that l is a part of, or nil.
func (l *Label) Whole() *Whole {
	if l == nil {
		return nil
	}
	return l.whole
}

// Name returns the name of the lock, or "".
func (l *Label) Name() string {
	if l == nil {
		return ""
	}
	return l.name
}

// Template returns the template of the key of the lock, or "".
func (l *Label) Template() string {
	if l == nil {
		return ""
	}
	return l.template
}

// NewWaiter returns a waiter of no call.
func NewWaiter[T any]() *Waiter[T] { return new(Waiter[T]) }

// Once reports whether the waiter tries once.
func (w *Waiter[T]) Once() bool { return w.Call.Wait == 0 }

// listens reports whether w waits, and hears of a reason to ask.
func (w *Waiter[T]) listens() bool { return !w.Once() && !w.Terms.Polling }

// Reset makes w fit for another call, and reports whether it is: w is in no contest any more, and no request knows it. A late poke
// makes the next call ask once too often.
func (w *Waiter[T]) Reset() bool {
	if w.Asks.Load() > 0 {
		return false
	}
	for ok := true; ok; {
		_, ok = w.NextEvent()
	}
	w.Number.Store(0)
	var none T
	w.Call, w.For = Call{}, none
	w.Place, w.before, w.After = PlaceNone, nil, nil
	w.Patient, w.Attends, w.Quorum = false, false, false
	return true
}

// Break ends the wait with err, since the call is in a deadlock. The caller holds the lock of the contest.
func (w *Waiter[T]) Break(err error) { w.Notify(Event{Kind: Broken, Err: err}) }

// Poke tells w that there is a reason to ask now. It does not block.
func (w *Waiter[T]) Poke() { w.Events.Remind(false) }

// recheck tells w to ask again since it has heard nothing for long.
func (w *Waiter[T]) recheck() { w.Events.Remind(true) }

// Lead gives w, the head of its queue, the turn to ask, or reminds w if it has the turn already. It does not block.
func (w *Waiter[T]) Lead() {
	if w.Place.Leading() {
		w.Poke()
		return
	}
	w.Place = PlaceLeading
	w.Notify(Event{Kind: Turn})
}

// Notify adds ev to the events of w. It does not block: the contest calls it under its lock.
func (w *Waiter[T]) Notify(ev Event) { w.Events.Put(ev) }

// NextEvent takes the oldest of the events of w, if there is one.
func (w *Waiter[T]) NextEvent() (ev Event, ok bool) { return w.Events.Take() }
