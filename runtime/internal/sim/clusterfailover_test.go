package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// perServer is by how much the port of the replica is larger than that of the server whose place it takes.
const perServer = 10

// serverAt returns the number of the server that is, was or will be at an address.
func serverAt(addr string) int {
	port := 0
	_, _ = fmt.Sscanf(addr, "sim:%d", &port)
	return (port - firstPort) % perServer
}

// failedOver is the fault that a server of a cluster fails and its replica takes its place, at another address. The replica lacks what was
// written since the fault began.
var failedOver = &fault{name: "failover in a cluster that loses writes", forgets: true, make: func(p *plan, r *rand.Rand) (begin, end func(w *world)) {
	where := somewhere(p, r)
	away, late := time.Duration(r.Int64N(int64(p.watchdog/2))), time.Duration(r.Int64N(int64(time.Second)))
	var behind *copied
	return func(w *world) { behind = where(w).copy(nil) },
		func(w *world) {
			where(w).down = true
			where(w).hangUp()
			w.net.at(time.Now().Add(away), func() { w.cluster.failOver(where(w), behind, late) })
		}
}}

// loseAll has a server forget all keys. Half of a semaphore with permits is none: of a slot that is being handed away the other
// server forgets them, too. The caller holds w.mu.
func (s *server) loseAll() {
	s.empty()
	if s.w.cluster == nil || s.w.plan.kind.lock != permits.name {
		return
	}
	for slot, m := range s.w.cluster.moves {
		for _, part := range []*server{m.from, m.to} {
			for _, key := range part.m.Keys() {
				if (m.from == s || m.to == s) && protocol.Slot(key) == slot {
					part.m.Del(key)
				}
			}
		}
	}
}

// failOver has a replica take the place of a server. It knows what the server knew then; but what it has of slots that have been
// handed away since, or are, is what the server had. The others know where it is after late.
func (cl *cluster) failOver(s *server, behind *copied, late time.Duration) {
	w := cl.w
	w.mu.Lock()
	defer w.mu.Unlock()
	stays := func(key string) bool {
		slot := protocol.Slot(key)
		return cl.moves[slot] != nil || cl.moved[slot].After(behind.at)
	}
	kept := s.copy(stays)
	for key := range behind.keys {
		if stays(key) {
			delete(behind.keys, key)
		}
	}
	s.hangUp()
	clear(s.known)
	s.restore(behind)
	kept.put(s.m)
	s.down = false
	s.port += perServer
	s.ports[s.id] = s.port
	w.tellFault()
	w.watch.disturbed()
	w.watch.forgets()
	w.signal()
	port := s.port
	w.net.at(time.Now().Add(late), func() {
		for _, other := range w.servers {
			other.ports[s.id] = max(other.ports[s.id], port)
		}
	})
}
