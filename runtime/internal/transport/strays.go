package transport

import (
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// strays counts the commands that may still lock a key for a call that has returned, or has gone on with another command. Such a command was
// late and was sent again. It has neither an answer nor failed, or was given up a moment ago. The zero value has none.
type strays struct {
	mu      sync.Mutex // guards the rest
	n       int
	settled []func()       // called when there are none
	since   monotonic.Time // when settle was called first
}

// add counts n more.
func (s *strays) add(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(n)
}

// change is add for a caller that holds s.mu.
func (s *strays) change(n int) {
	if s.n += n; s.n > 0 {
		return
	}
	for _, f := range s.settled {
		f()
	}
	s.settled = nil
}

// giveUp counts a command that was given up, with its connection, since its answer was late: it may be under way for a while still.
func (s *strays) giveUp(while time.Duration) {
	s.add(1)
	time.AfterFunc(while, func() { s.add(-1) })
}

// settle returns a channel that is closed when there are none, or when most is over since settle was called first.
func (s *strays) settle(most time.Duration) <-chan struct{} {
	settled := make(chan struct{})
	over := sync.OnceFunc(func() { close(settled) })
	s.mu.Lock()
	defer s.mu.Unlock()
	now := monotonic.Now()
	if s.since.IsZero() {
		s.since = now
	}
	timer := time.AfterFunc(most-now.Sub(s.since), over)
	s.settled = append(s.settled, func() {
		timer.Stop()
		over()
	})
	s.change(0)
	return settled
}
