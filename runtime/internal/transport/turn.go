package transport

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// A turn is a lock of the senders of an outbox: one sender at a time answers, gathers requests and makes the next command. It sends the command after its
// turn. So the server runs one script while the client prepares the next one. Without turns they wait for each other: Redis answers all scripts at once
// that it has read at once, and then all senders would send at once again. A nil turn is none.
type turn struct {
	mu   sync.Mutex
	long atomic.Int32 // yields in a row that took long
	rest atomic.Int32 // how many more scripts are sent without turns
}

const (
	// mostYields is how often a sender lets other goroutines run, in its turn, until enough requests wait.
	mostYields = 4
	// longYield is the length of a yield that shows that the processors have other work than to lock and unlock.
	longYield = time.Millisecond
	// busyRest is for how many scripts senders take no turns when the processors had other work: a sender would have its turn while
	// it waits for a processor.
	busyRest = 64
)

// begin waits for the turn. It returns nil without a turn, if crowd is false, or while the senders rest since the processors have other work.
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
