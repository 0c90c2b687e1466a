package lockrt

import (
	"sync"
	"time"
)

// An event is a message of a contest to a waiter.
type event struct {
	kind    eventKind
	final   bool          // failed: asking again would not tell the outcome of this request
	foreign bool          // refusedFor: the holder is no process of this library
	inLine  bool          // refusedFor: a release by a process of this library finds the waiter
	behind  bool          // refusedFor: another waiter of this process is before this one
	err     error         // failed: the error
	ttl     time.Duration // refusedFor: the rest of the holder's lease; negative for ever
}

type eventKind uint8

// Between two requests a waiter gets each of these at most once.
const (
	reason     eventKind = iota // to ask, if the waiter has the turn
	given                       // the waiter has what it wants
	turn                        // the waiter has the turn to ask Redis
	behind                      // a waiter before this one was refused: wait for the turn
	refusedFor                  // Redis refused
	failed                      // Redis did not answer, or failed
	suspected                   // the waiter has waited for long, once for each wait
)

// An eventQueue keeps the events of a waiter, in order, until the waiter takes them. Its room is unlimited: a contest
// notifies under its lock, and could block for ever if it had to wait for room.
type eventQueue struct {
	bell chan struct{} // signalled while there are events; perhaps once too often

	mu     sync.Mutex
	events []event
}

func newEventQueue() eventQueue { return eventQueue{bell: make(chan struct{}, 1)} }

// put adds ev at the end. It does not block.
func (b *eventQueue) put(ev event) {
	b.mu.Lock()
	b.events = append(b.events, ev)
	b.mu.Unlock()
	b.ring()
}

// take returns the oldest event, if there is one.
func (b *eventQueue) take() (ev event, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.events) == 0 {
		return event{}, false
	}
	ev = b.events[0]
	last := copy(b.events, b.events[1:])
	b.events[last] = event{} // so that it keeps no error alive
	if b.events = b.events[:last]; last > 0 {
		b.ring()
	}
	return ev, true
}

// empty reports whether there are no events.
func (b *eventQueue) empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.events) == 0
}

func (b *eventQueue) ring() {
	select {
	case b.bell <- struct{}{}:
	default:
	}
}
