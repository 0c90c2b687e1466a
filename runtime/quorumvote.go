package lockrt

import (
	"math/rand/v2"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A vote is the answer of one server in a round, and its messages since.
type vote struct {
	granted  bool // and has released it by now, or will soon
	refused  bool
	released bool // it has announced a release since the round began
}

// listen makes the call hear of releases. The caller holds e.mu.
func (e *quorumAcquire) listen() {
	if e.left || e.listeners != nil {
		return
	}
	for i, m := range e.m.parts {
		e.listeners = append(e.listeners, m.c.net.Listen(protocol.LockChannel(m.key), func(ev hub.Event) {
			if ev.Subscribed {
				return
			}
			e.mu.Lock()
			defer e.mu.Unlock()
			e.latest.votes[i].released = true
			e.prompt(e.latest)
		}))
	}
}

// prompt makes the waiter ask again if r is lost and another round may be won, after a time that differs from one
// process to the next. The caller holds e.mu.
func (e *quorumAcquire) prompt(r *round) {
	if r != e.latest || !r.lost || r.prompted || !e.promising(r) {
		return
	}
	r.prompted = true
	time.AfterFunc(rand.N(time.Millisecond+2*time.Duration(e.took.Load())), func() {
		e.mu.Lock()
		due := r == e.latest
		e.mu.Unlock()
		if due {
			e.w.Poke()
		}
	})
}

// promising reports whether another round may be won where r was lost: as many of the servers that refused have
// announced a release as are missing for a majority. Fewer announcements do not count: while a third caller holds the
// lock on a bare majority, two waiters are granted the other servers in turn, and each release of these is announced.
func (e *quorumAcquire) promising(r *round) bool {
	missing, refused, released := e.m.needs(), 0, 0
	for _, v := range r.votes {
		switch {
		case v.granted:
			missing--
		case v.refused && v.released:
			released++
			fallthrough
		case v.refused:
			refused++
		}
	}
	return released > 0 && released >= min(missing, refused)
}
