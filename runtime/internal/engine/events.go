package engine

import (
	"slices"
	"sync"
	"time"
)

// An Event is a message of a contest to a waiter.
type Event struct {
	Kind     EventKind
	Recheck  bool          // Reason: nothing was heard for long, so a message may have been lost; there is no hurry
	Final    bool          // Failed: asking again would not tell the outcome of this request
	Foreign  bool          // Refused: the holder is no process of this library
	InLine   bool          // Refused: a release by a process of this library finds the waiter
	NotFirst bool          // Refused: another waiter of this process has waited for longer, in the same queue of Redis
	Deputy   bool          // Refused: the head of the queue was, which does not listen: the waiter listens for it
	Err      error         // Failed, Broken: the error
	TTL      time.Duration // Refused: after how long to ask again, as the rest of the holder's lease; negative if that is not known
}

// An EventKind says what an event is about.
type EventKind uint8

// Between two requests, of its own or of the head whose deputy it is, a waiter gets each of these at most once.
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
//
// A waiter that has room is woken by a channel, its bell. One without, that waits for events alone, parks on a semaphore: it needs no memory
// there, for very many may wait for long, and takes a bit longer to wake. The zero EventQueue is empty, and without room.
type EventQueue struct {
	mu   sync.Mutex
	room *eventRoom     // nil before the first event, and after Shrink; parked while the waiter is parked; guarded by mu
	park sync.WaitGroup // has one that is not done while room is parked, and until the waiter is woken
}

// An eventRoom is the room for the events of a waiter.
type eventRoom struct {
	events []Event
	bell   chan struct{} // made when the waiter first waits with this room
}

// parked is in place of the room of a waiter that is parked. It stays empty.
var parked = new(eventRoom)

// Bell returns a channel that is signalled while there are events; perhaps once too often. The waiter alone calls it.
func (b *EventQueue) Bell() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bell()
}

// bell is Bell for a caller that holds b.mu.
func (b *EventQueue) bell() <-chan struct{} {
	if b.room == nil {
		b.room = new(eventRoom)
	}
	if b.room.bell == nil {
		b.room.bell = make(chan struct{}, 1)
		if !b.empty() {
			ring(b.room.bell)
		}
	}
	return b.room.bell
}

// Wait returns when there are events; perhaps once too often. The waiter alone calls it.
func (b *EventQueue) Wait() {
	b.mu.Lock()
	switch {
	case b.room == nil:
		b.room = parked
		b.park.Add(1)
		b.mu.Unlock()
		b.park.Wait()
	case b.empty():
		bell := b.bell()
		b.mu.Unlock()
		<-bell
	default:
		b.mu.Unlock()
	}
}

// Put adds ev at the end. It does not block.
func (b *EventQueue) Put(ev Event) {
	b.mu.Lock()
	b.put(ev)
}

// Remind adds a Reason at the end, unless there is one already, which is a reason to ask now if one of the two is. It does not block.
func (b *EventQueue) Remind(recheck bool) {
	b.mu.Lock()
	if !b.empty() {
		events := b.room.events
		if i := slices.IndexFunc(events, func(ev Event) bool { return ev.Kind == Reason }); i >= 0 {
			events[i].Recheck = events[i].Recheck && recheck
			b.mu.Unlock()
			return
		}
	}
	b.put(Event{Kind: Reason, Recheck: recheck})
}

// put is Put for a caller that holds b.mu, which it releases before it wakes the waiter: that one needs it at once.
func (b *EventQueue) put(ev Event) {
	wakes := b.room == parked
	if wakes || b.room == nil {
		b.room = new(eventRoom)
	}
	b.room.events = append(b.room.events, ev)
	bell := b.room.bell
	b.mu.Unlock()
	switch {
	case wakes:
		b.park.Done()
	case bell != nil:
		ring(bell)
	}
}

// ring signals that there are events.
func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// Take returns the oldest event, if there is one.
func (b *EventQueue) Take() (ev Event, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.empty() {
		return Event{}, false
	}
	return b.take(), true
}

// TakeIf takes the oldest event if it is of a kind that has no content, and reports whether it did. Another event stays, and the bell is
// rung for it.
func (b *EventQueue) TakeIf(kind EventKind) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.empty() {
		return false
	}
	if b.room.events[0].Kind == kind {
		b.take()
		return true
	}
	if b.room.bell != nil {
		ring(b.room.bell)
	}
	return false
}

// take takes the oldest event, for a caller that holds b.mu. There is one.
func (b *EventQueue) take() Event {
	events := b.room.events
	ev := events[0]
	last := copy(events, events[1:])
	events[last] = Event{} // so that it keeps no error alive
	b.room.events = events[:last]
	switch bell := b.room.bell; {
	case bell == nil:
	case last > 0:
		ring(bell)
	default:
		select {
		case <-bell: // for that event
		default:
		}
	}
	return ev
}

// Empty reports whether there are no events.
func (b *EventQueue) Empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.empty()
}

// empty is Empty for a caller that holds b.mu.
func (b *EventQueue) empty() bool { return b.room == nil || len(b.room.events) == 0 }

// Shrink frees the room for events if there are none, but not the bell, if keepBell is set. The next event makes the room again. The waiter
// alone calls it.
func (b *EventQueue) Shrink(keepBell bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.empty():
	case keepBell && b.room != nil && b.room.bell != nil:
		b.room.events = nil
	default:
		b.room = nil
	}
}

// Hold keeps everybody from the events until release is called. A test uses it to see what is done before an event comes.
func (b *EventQueue) Hold() (release func()) {
	b.mu.Lock()
	return b.mu.Unlock
}
