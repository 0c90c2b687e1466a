package lockrt

import "sync"

// An inbox holds what a contest has told a waiter until the waiter takes it, in order. It has room for as much as there
// is: a contest tells while it is locked, and would be locked for ever if it had to wait for room.
type inbox struct {
	bell chan struct{} // rung while there is something; perhaps once too often

	mu   sync.Mutex
	news []news
}

func newInbox() inbox { return inbox{bell: make(chan struct{}, 1)} }

// put adds n behind what there is. It does not block.
func (b *inbox) put(n news) {
	b.mu.Lock()
	b.news = append(b.news, n)
	b.mu.Unlock()
	b.ring()
}

// take returns the oldest of what there is, if there is anything.
func (b *inbox) take() (n news, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.news) == 0 {
		return news{}, false
	}
	n = b.news[0]
	last := copy(b.news, b.news[1:])
	b.news[last] = news{} // keeps no error alive
	if b.news = b.news[:last]; last > 0 {
		b.ring()
	}
	return n, true
}

// empty reports whether there is nothing.
func (b *inbox) empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.news) == 0
}

func (b *inbox) ring() {
	select {
	case b.bell <- struct{}{}:
	default:
	}
}
