package engine

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// A contest notifies waiters under its lock: however much it says, it does not wait for them, and each event comes, in order.
func TestEventQueue_HasRoomForEverything(t *testing.T) {
	t.Parallel()
	w := NewWaiter[int]()
	for i := range 100 {
		w.Notify(Event{Kind: Failed})
		w.Notify(Event{Kind: Refused, Final: i%2 == 0})
	}
	w.Poke()
	w.Poke() // once is enough
	require.False(t, w.Events.Empty())
	for i := range 100 {
		<-w.Events.Bell()
		ev, ok := w.NextEvent()
		require.True(t, ok)
		require.Equal(t, Failed, ev.Kind)
		<-w.Events.Bell()
		ev, ok = w.NextEvent()
		require.True(t, ok)
		require.Equal(t, Event{Kind: Refused, Final: i%2 == 0}, ev)
	}
	<-w.Events.Bell()
	ev, ok := w.NextEvent()
	require.True(t, ok)
	require.Equal(t, Reason, ev.Kind)
	_, ok = w.NextEvent()
	require.False(t, ok)
	require.True(t, w.Events.Empty())
	w.Poke()
	require.False(t, w.Events.Empty())
}

// A waiter that is to ask now does not take that for a reason to recheck, in whatever order the two come.
func TestWaiter_PokeIsNoRecheck(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pokes   func(w *Waiter[int])
		recheck bool
	}{
		"poke":              {func(w *Waiter[int]) { w.Poke() }, false},
		"recheck":           {func(w *Waiter[int]) { w.recheck() }, true},
		"poke, recheck":     {func(w *Waiter[int]) { w.Poke(); w.recheck() }, false},
		"recheck, poke":     {func(w *Waiter[int]) { w.recheck(); w.Poke() }, false},
		"recheck after one": {func(w *Waiter[int]) { w.Poke(); w.NextEvent(); w.recheck() }, true},
	} {
		w := NewWaiter[int]()
		test.pokes(w)
		ev, ok := w.NextEvent()
		require.True(t, ok, name)
		require.Equal(t, Event{Kind: Reason, Recheck: test.recheck}, ev, name)
		_, ok = w.NextEvent()
		require.False(t, ok, name)
	}
}

// waitsFor has a goroutine wait for events of b, and returns a channel that is closed when there are some.
func waitsFor(b *EventQueue) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.Wait()
	}()
	synctest.Wait()
	return done
}

// over reports whether such a wait has ended.
func over(done <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// taken takes all events, which are of these kinds.
func taken(t *testing.T, b *EventQueue, kinds ...EventKind) {
	t.Helper()
	for _, kind := range kinds {
		ev, ok := b.Take()
		require.True(t, ok)
		require.Equal(t, kind, ev.Kind)
	}
	require.True(t, b.Empty())
}

// parksAgain shows that a wait for b goes on until the next event.
func parksAgain(t *testing.T, b *EventQueue) {
	t.Helper()
	done := waitsFor(b)
	require.False(t, over(done))
	b.Put(Event{Kind: Turn})
	require.True(t, over(done))
	taken(t, b, Turn)
}

// TestEventQueue_Wait shows when a waiter is woken that waits for events alone: parked, if it has no room, or by its bell.
func TestEventQueue_Wait(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T, b *EventQueue){
		"put before": func(t *testing.T, b *EventQueue) {
			b.Put(Event{Kind: Turn})
			require.True(t, over(waitsFor(b)))
			require.True(t, over(waitsFor(b)), "it is not taken")
			taken(t, b, Turn)
		},
		"put while it is parked": func(t *testing.T, b *EventQueue) {
			done := waitsFor(b)
			require.False(t, over(done))
			b.Put(Event{Kind: Given})
			require.True(t, over(done))
			taken(t, b, Given)
			parksAgain(t, b)
		},
		"put twice": func(t *testing.T, b *EventQueue) {
			done := waitsFor(b)
			b.Put(Event{Kind: Refused})
			b.Put(Event{Kind: Reason})
			require.True(t, over(done))
			taken(t, b, Refused, Reason)
			parksAgain(t, b)
		},
		"remind while it is parked": func(t *testing.T, b *EventQueue) {
			done := waitsFor(b)
			b.Remind(true)
			b.Remind(false)
			require.True(t, over(done))
			taken(t, b, Reason)
		},
		"others look meanwhile": func(t *testing.T, b *EventQueue) {
			done := waitsFor(b)
			require.True(t, b.Empty())
			require.False(t, b.TakeIf(Given))
			_, ok := b.Take()
			require.False(t, ok)
			b.Put(Event{Kind: Given})
			require.True(t, over(done))
			require.True(t, b.TakeIf(Given))
		},
		"a bell after that": func(t *testing.T, b *EventQueue) {
			done := waitsFor(b)
			b.Put(Event{Kind: Refused})
			require.True(t, over(done))
			<-b.Bell() // of an event that came before it was made
			taken(t, b, Refused)
			require.Empty(t, b.Bell())
			b.Put(Event{Kind: Turn})
			<-b.Bell()
			taken(t, b, Turn)
		},
		"a bell before that": func(t *testing.T, b *EventQueue) {
			bell := b.Bell()
			require.Empty(t, bell)
			for range 3 {
				done := waitsFor(b)
				require.False(t, over(done))
				b.Put(Event{Kind: Turn})
				b.Put(Event{Kind: Given})
				require.True(t, over(done))
				taken(t, b, Turn, Given)
				require.Empty(t, bell, "it is rung for no event that was taken")
			}
			ring(b.room.bell) // late, by one that has put an event
			require.True(t, over(waitsFor(b)), "once too often")
			taken(t, b)
			parksAgain(t, b)
		},
		"without room": func(t *testing.T, b *EventQueue) {
			done := waitsFor(b)
			b.mu.Lock()
			room := b.room
			b.mu.Unlock()
			require.Same(t, parked, room)
			b.Put(Event{Kind: Given})
			require.True(t, over(done))
			taken(t, b, Given)
			require.Equal(t, new(eventRoom), parked)
		},
		"shrunk": func(t *testing.T, b *EventQueue) {
			for _, keepBell := range []bool{false, true} {
				b.Shrink(keepBell)
				require.Nil(t, b.room)
				b.Put(Event{Kind: Turn})
				b.Shrink(keepBell)
				taken(t, b, Turn)
			}
			bell := b.Bell()
			b.Shrink(true)
			require.Equal(t, bell, b.Bell())
			parksAgain(t, b)
			b.Shrink(false)
			require.Nil(t, b.room)
			parksAgain(t, b)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b EventQueue // a waiter that is used again, also by a test in other virtual time
			for range 2 {
				synctest.Test(t, func(t *testing.T) { test(t, &b) })
				b.Shrink(false) // a channel belongs to one test, but not the queue
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				b.Wait()
			}()
			b.Put(Event{Kind: Turn})
			<-done
		})
	}
}

// TestEventQueue_WaitLosesNothing has many put events while the waiter waits for them, and sometimes has no room.
func TestEventQueue_WaitLosesNothing(t *testing.T) {
	t.Parallel()
	for _, shrinks := range []int{1, 3, 1 << 30} { // always, at times, never
		const putters, each = 4, 2000
		var b EventQueue
		var all sync.WaitGroup
		for range putters {
			all.Go(func() {
				for range each {
					b.Put(Event{Kind: Turn})
				}
			})
		}
		for left := putters * each; left > 0; {
			if left%7 == 0 {
				<-b.Bell()
			} else {
				b.Wait()
			}
			for _, ok := b.Take(); ok; _, ok = b.Take() {
				left--
			}
			if left%shrinks == 0 {
				b.Shrink(left%2 == 0)
			}
		}
		all.Wait()
		require.True(t, b.Empty())
	}
}

// TestEventQueue_TakeIf: the oldest event is taken if it is of the kind; another one stays and rings.
func TestEventQueue_TakeIf(t *testing.T) {
	t.Parallel()
	b := new(EventQueue)
	require.False(t, b.TakeIf(Given))
	b.Put(Event{Kind: Given})
	b.Put(Event{Kind: Turn})
	<-b.Bell()
	require.True(t, b.TakeIf(Given))
	<-b.Bell()
	require.False(t, b.TakeIf(Given))
	<-b.Bell()
	ev, ok := b.Take()
	require.True(t, ok)
	require.Equal(t, Turn, ev.Kind)
	require.True(t, b.Empty())
}
