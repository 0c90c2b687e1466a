package lockrt

import (
	"sync"
	"time"
)

// An event is what a contest tells a waiter.
type event struct {
	kind    eventKind
	final   bool          // failed: asking again would not tell what this request did
	foreign bool          // refusedFor: the other is not of this library
	inLine  bool          // refusedFor: a release by one of this library finds us
	behind  bool          // refusedFor: another one of this process stands before us
	err     error         // failed: what went wrong
	ttl     time.Duration // refusedFor: how long the other's lease has to run; negative if for ever
}

type eventKind uint8

// Between two requests a waiter gets each of these once at most.
const (
	reason     eventKind = iota // to ask, if it is on you
	given                       // it is yours
	turn                        // it is on you to ask Redis
	behind                      // somebody before you was refused: wait for your turn
	refusedFor                  // Redis said no
	failed                      // Redis said nothing, or something else
)

// An eventQueue keeps the events of a waiter until the waiter takes them, in order. It has room for as much as there
// is: a contest notifies while it is locked, and would be locked for ever if it had to wait for room.
type eventQueue struct {
	bell chan struct{} // rung while there is something; perhaps once too often

	mu     sync.Mutex
	events []event
}

func newEventQueue() eventQueue { return eventQueue{bell: make(chan struct{}, 1)} }

// put adds ev behind what there is. It does not block.
func (b *eventQueue) put(ev event) {
	b.mu.Lock()
	b.events = append(b.events, ev)
	b.mu.Unlock()
	b.ring()
}

// take returns the oldest of what there is, if there is anything.
func (b *eventQueue) take() (ev event, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.events) == 0 {
		return event{}, false
	}
	ev = b.events[0]
	last := copy(b.events, b.events[1:])
	b.events[last] = event{} // keeps no error alive
	if b.events = b.events[:last]; last > 0 {
		b.ring()
	}
	return ev, true
}

// empty reports whether there is nothing.
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
