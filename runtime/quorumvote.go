package lockrt

import (
	"math/rand/v2"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A vote is what one server said in a round, and since.
type vote struct {
	granted  bool // and has it back by now, or will have it soon
	refused  bool
	released bool // it has announced a release since the round began
}

// listen has the call hear of releases. e.mu is held.
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

// prompt has the waiter ask again if r is lost and another round may be won, after a time that differs from one process to the
// next. e.mu is held.
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
			e.w.poke()
		}
	})
}

// promising reports whether another round may be won where r was lost: as many of the servers that refused have announced
// a release as are missing for a majority. Fewer announcements do not count: two who wait for a lock that a bare majority
// of the servers has for a third one are granted the other servers in turn, and each announces that it gives them back.
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
