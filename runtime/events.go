package lockrt

import "sync"

// An eventQueue keeps the events of a waiter until the waiter takes them, in order. It has room for as much as there
// is: a contest tells while it is locked, and would be locked for ever if it had to wait for room.
type eventQueue struct {
	bell chan struct{} // rung while there is something; perhaps once too often

	mu     sync.Mutex
	events []event
}

func newEventQueue() eventQueue { return eventQueue{bell: make(chan struct{}, 1)} }

// put adds n behind what there is. It does not block.
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
