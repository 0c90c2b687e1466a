package engine

import (
	"maps"
	"sync"
	"time"
)

// An Inbox has the subscribers of a client: for each owner number the ticket that gets the messages that name it.
// The zero Inbox has none.
type Inbox[S any] struct {
	mu          sync.Mutex // guards the rest
	subscribers map[uint64]S
	lasting     map[uint64]struct{} // numbers of lost leases that Redis may have until the end that their holders were promised
}

// Connect directs messages about the number n to s.
func (x *Inbox[S]) Connect(n uint64, s S) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.subscribers == nil {
		x.subscribers = map[uint64]S{}
	}
	x.subscribers[n] = s
}

// Disconnect ends Connect.
func (x *Inbox[S]) Disconnect(n uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.subscribers, n)
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
	delete(x.subscribers, n)
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
	s, known = x.subscribers[n]
	_, lasts = x.lasting[n]
	return s, known, lasts
}

// All returns all subscribers.
func (x *Inbox[S]) All() map[uint64]S {
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Clone(x.subscribers)
}

// Size returns the number of subscribers.
func (x *Inbox[S]) Size() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.subscribers)
}
