package engine

import (
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// Suspects are the calls of a client that may wait for ever. Each call becomes a suspect when it has taken for the same time, so calls are due
// in the order in which they begin to wait, nearly: a list and one timer serve any number of calls. One that began before the call ahead of it in
// the list is suspected with that.
type Suspects[T any] struct {
	mu          sync.Mutex // guards the rest, and the suspicions of waiters
	after       time.Duration
	first, last *Waiter[T]
	timer       *time.Timer // made for the first of them
	armed       bool
}

// A suspicion is the place of a waiter among the suspects.
type suspicion[T any] struct{ before, after *Waiter[T] }

// due returns when w is a suspect.
func (s *Suspects[T]) due(w *Waiter[T]) monotonic.Time { return w.Call.Since.Add(s.after) }

// Begin makes w, which waits for others, a suspect when its call has taken for as long as after, once for each wait. That is the same for all
// calls.
func (s *Suspects[T]) Begin(w *Waiter[T], after time.Duration) {
	if w.suspect {
		return
	}
	w.suspect = true
	s.mu.Lock()
	defer s.mu.Unlock()
	s.after = after
	w.suspicion = suspicion[T]{before: s.last}
	if s.last == nil {
		s.first = w
	} else {
		s.last.suspicion.after = w
	}
	s.last = w
	if s.armed {
		return
	}
	s.armed = true
	in := monotonic.Until(s.due(w))
	if s.timer == nil {
		s.timer = time.AfterFunc(in, s.come)
	} else {
		s.timer.Reset(in)
	}
}

// End removes w, if it is a suspect: its wait is over. After that w gets no event of the suspects.
func (s *Suspects[T]) End(w *Waiter[T]) {
	if !w.suspect {
		return
	}
	w.suspect = false
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(w)
}

// remove is end for a caller that holds s.mu.
func (s *Suspects[T]) remove(w *Waiter[T]) {
	p := &w.suspicion
	switch {
	case p.before != nil:
		p.before.suspicion.after = p.after
	case s.first == w:
		s.first = p.after
	default:
		return
	}
	if p.after == nil {
		s.last = p.before
	} else {
		p.after.suspicion.before = p.before
	}
	p.before, p.after = nil, nil
}

// come notifies those that are due, and sets the timer for the next one. It stays set when that one has gone, so calls that come
// and go do not touch it.
func (s *Suspects[T]) come() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := monotonic.Now()
	for s.first != nil && !s.due(s.first).After(now) {
		w := s.first
		s.remove(w)
		w.Notify(Event{Kind: Suspected})
	}
	if s.armed = s.first != nil; s.armed {
		s.timer.Reset(s.due(s.first).Sub(now))
	}
}
