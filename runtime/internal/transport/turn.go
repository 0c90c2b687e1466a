package transport

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// A turn has senders answer, gather and send one after the other. Redis answers all scripts at once that it has read at once. If all senders went on
// at once, then all scripts would be sent at once again, and the client and the server would wait for each other in turns. A sender that has its turn
// is about to send the next script when the next sender begins with its answer, so that the server works on the one while the client works on the other.
// A nil turn is none.
type turn struct {
	mu   sync.Mutex
	long atomic.Int32 // yields in a row that took long
	rest atomic.Int32 // how many more scripts are sent without turns
}

const (
	// mostYields is how often a sender lets other goroutines run, in its turn, until enough requests wait.
	mostYields = 4
	// longYield is how long all goroutines take at least that can run, if some of them have other work than to lock and unlock.
	longYield = time.Millisecond
	// busyRest is for how many scripts senders take no turns when the processors had other work: a sender would have its turn while
	// it waits for a processor.
	busyRest = 64
)

// begin waits for the turn, and returns nil if there are none now. crowd says that there are, unless the processors have other work.
func (t *turn) begin(crowd bool) *turn {
	if t == nil || !crowd {
		return nil
	}
	if t.rest.Load() > 0 {
		t.rest.Add(-1)
		return nil
	}
	t.mu.Lock()
	if t.rest.Load() > 0 { // since a moment ago
		t.mu.Unlock()
		return nil
	}
	return t
}

// end ends the turn that a sender has, if it has one.
func (t *turn) end() {
	if t != nil {
		t.mu.Unlock()
	}
}

// gather lets other goroutines run, in the turn of a sender, until part requests wait.
func (t *turn) gather(part int, waits func() int) {
	waiting := waits()
	for range mostYields {
		if waiting >= part || t.rest.Load() > 0 {
			return
		}
		began := monotonic.Now()
		runtime.Gosched()
		t.yielded(monotonic.Since(began))
		waiting = waits()
	}
}

// yielded records how long other goroutines ran. Twice in a row too long is not by chance.
func (t *turn) yielded(took time.Duration) {
	if took < longYield {
		t.long.Store(0)
		return
	}
	if t.long.Add(1) > 1 {
		t.long.Store(0)
		t.rest.Store(busyRest)
	}
}
