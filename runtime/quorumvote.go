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

// prompt makes the waiter ask again if another round than r may be won: when r is lost, after a time that differs from
// one process to the next. The caller holds e.mu.
func (e *quorumAcquire) prompt(r *round) {
	if r != e.latest || r.prompted || !e.promising(r) {
		return
	}
	if !r.lost {
		e.hasten(r)
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

// hasten ends r soon if it waits for missing answers, and does not need them: the servers that answered would grant a
// majority now. Servers that are not slower than these still have the time to answer. Without that two calls that share
// the servers which answer would keep their parts in turn, each for so long that the other one is refused there again.
// The caller holds e.mu.
func (e *quorumAcquire) hasten(r *round) {
	if r.over != nil && !r.decided {
		r.over.Reset(3*r.took - time.Since(r.began))
	}
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
