package engine

import (
	"slices"
	"sync"
	"time"
)

// An Inbox has the subscribers of a client: for each owner number the ticket that gets the messages that name it.
// The zero Inbox has none.
type Inbox[S Subscriber] struct {
	mu          sync.Mutex          // guards the rest
	subscribers *Table[uint64, S]   // made for the first one
	lasting     map[uint64]struct{} // numbers of lost leases that Redis may have until the end that their holders were promised
}

// A Subscriber gets the messages about its number.
type Subscriber interface {
	// OwnerNumber returns the number, which does not change while the subscriber is connected.
	OwnerNumber() uint64
}

// Connect directs messages about the number of s to s.
func (x *Inbox[S]) Connect(s S) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.subscribers == nil {
		table := NewTable(S.OwnerNumber)
		x.subscribers = &table
	}
	x.subscribers.Add(s)
}

// Disconnect ends Connect.
func (x *Inbox[S]) Disconnect(n uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.remove(n)
}

// remove is Disconnect for a caller that holds x.mu.
func (x *Inbox[S]) remove(n uint64) {
	if x.subscribers != nil {
		x.subscribers.Remove(n)
	}
}

// Depart ends Connect for the number n of a lost lease. Its key stays in Redis for as long as its holder was promised, which is
// left, even with waiters: the holder may still be ending its work. Depart calls over after that.
func (x *Inbox[S]) Depart(n uint64, left time.Duration, over func()) {
	if left <= 0 {
		x.Disconnect(n)
		over()
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.remove(n)
	if x.lasting == nil {
		x.lasting = map[uint64]struct{}{}
	}
	x.lasting[n] = struct{}{}
	time.AfterFunc(left, func() {
		x.mu.Lock()
		delete(x.lasting, n)
		x.mu.Unlock()
		over()
	})
}

// Find returns the subscriber of the number n, and whether n is of a lost lease that Redis may still have.
func (x *Inbox[S]) Find(n uint64) (s S, known, lasts bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.subscribers != nil {
		s, known = x.subscribers.Get(n)
	}
	_, lasts = x.lasting[n]
	return s, known, lasts
}

// All returns all subscribers.
func (x *Inbox[S]) All() []S {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.subscribers == nil {
		return nil
	}
	return slices.Collect(x.subscribers.All())
}

// Size returns the number of subscribers.
func (x *Inbox[S]) Size() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.subscribers == nil {
		return 0
	}
	return x.subscribers.Size()
}
