package engine

import (
	"sync"
	"time"
)

// An Event is a message of a contest to a waiter.
type Event struct {
	Kind    EventKind
	Recheck bool          // Reason: nothing was heard for long, so a message may have been lost; there is no hurry
	Final   bool          // Failed: asking again would not tell the outcome of this request
	Foreign bool          // Refused: the holder is no process of this library
	InLine  bool          // Refused: a release by a process of this library finds the waiter
	Behind  bool          // Refused: another waiter of this process is before this one
	Err     error         // Failed, Broken: the error
	TTL     time.Duration // Refused: the rest of the holder's lease; negative for ever
}

// An EventKind says what an event is about.
type EventKind uint8

// Between two requests a waiter gets each of these at most once.
const (
	Reason    EventKind = iota // to ask, if the waiter has the turn
	Given                      // the waiter has what it wants
	Turn                       // the waiter has the turn to ask Redis
	Behind                     // a waiter before this one was refused: wait for the turn
	Refused                    // Redis refused
	Failed                     // Redis did not answer, or failed
	Suspected                  // the waiter has waited for long, once for each wait
	Broken                     // the waiter is in a deadlock: its call ends with the error
)

// An EventQueue keeps the events of a waiter, in order, until the waiter takes them. Its room is unlimited: a contest
// notifies under its lock, and could block for ever if it had to wait for room.
type EventQueue struct {
	Bell chan struct{} // signalled while there are events; perhaps once too often

	mu     sync.Mutex
	events *[]Event // nil while there is no room for events
}

// NewEventQueue returns an empty queue.
func NewEventQueue() EventQueue { return EventQueue{Bell: make(chan struct{}, 1)} }

// Put adds ev at the end. It does not block.
func (b *EventQueue) Put(ev Event) {
	b.mu.Lock()
	if b.events == nil {
		b.events = new([]Event)
	}
	*b.events = append(*b.events, ev)
	b.mu.Unlock()
	b.ring()
}

// Take returns the oldest event, if there is one.
func (b *EventQueue) Take() (ev Event, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.empty() {
		return Event{}, false
	}
	events := *b.events
	ev = events[0]
	last := copy(events, events[1:])
	events[last] = Event{} // so that it keeps no error alive
	if *b.events = events[:last]; last > 0 {
		b.ring()
	}
	return ev, true
}

// TakeIf takes the oldest event if it is of a kind that has no content, and reports whether it did. Another event stays, and the bell is
// rung for it.
func (b *EventQueue) TakeIf(kind EventKind) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.empty() {
		return false
	}
	events := *b.events
	if events[0].Kind != kind {
		b.ring()
		return false
	}
	last := copy(events, events[1:])
	events[last] = Event{}
	if *b.events = events[:last]; last > 0 {
		b.ring()
	}
	return true
}

// Empty reports whether there are no events.
func (b *EventQueue) Empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.empty()
}

// empty is Empty for a caller that holds b.mu.
func (b *EventQueue) empty() bool { return b.events == nil || len(*b.events) == 0 }

// Shrink frees the room for events if there are none. The next event makes it again.
func (b *EventQueue) Shrink() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.empty() {
		b.events = nil
	}
}

// Hold keeps everybody from the events until release is called. A test uses it to see what is done before an event comes.
func (b *EventQueue) Hold() (release func()) {
	b.mu.Lock()
	return b.mu.Unlock
}

func (b *EventQueue) ring() {
	select {
	case b.Bell <- struct{}{}:
	default:
	}
}
