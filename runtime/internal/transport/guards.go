package transport

import (
	"sync"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// guards are subscriptions to channels of a cluster whose only purpose is that their connections break when a server fails: one for each
// server on which the process holds something. When a connection breaks, or a request has no answer, the transport asks the servers for
// the owners of the slots until they name another one.
type guards struct {
	cluster *cluster

	mu   sync.Mutex        // guards the rest; taken before cluster.mu
	of   map[string]guard  // by server; changed by the watcher alone
	held map[string]string // by server: a key that the client holds, or is about to, noted since the last look
	scan bool              // the client may hold something else on a server without one
	seen *owners           // of the slots, at the last look
}

type guard struct {
	key   string // in the slot of the channel
	leave func()
}

// holds notes that the client holds a key, or is about to: [User.EachKey] may not have it yet. It does so also where a guard is, which may end
// at the next look.
func (g *guards) holds(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held == nil {
		g.held = map[string]string{}
	}
	g.held[g.cluster.nodeOf(key)] = key
}

// look subscribes a guard on each server on which the client holds something.
func (g *guards) look() {
	g.mu.Lock()
	var astray []guard // of slots that have moved
	for addr, one := range g.of {
		if g.cluster.nodeOf(one.key) != addr {
			delete(g.of, addr)
			astray = append(astray, one)
			g.scan = true
		}
	}
	now := g.cluster.present()
	scan := g.scan || g.seen != now // another slot may have moved to a server without one
	held := g.held
	g.scan, g.seen, g.held = false, now, nil
	g.mu.Unlock()
	if !scan && held == nil {
		return
	}
	bare := map[string]string{}
	add := func(key string) {
		addr := g.cluster.nodeOf(key)
		if _, ok := g.of[addr]; !ok {
			bare[addr] = key
		}
	}
	if scan {
		g.cluster.link.cfg.User.EachKey(add)
	}
	for _, key := range held {
		add(key)
	}
	for addr, key := range bare {
		one := guard{key, g.cluster.link.cfg.User.ListenTo(protocol.HashTag(key))}
		g.mu.Lock()
		g.of[addr] = one
		g.mu.Unlock()
	}
	for _, one := range astray {
		one.leave()
	}
}

// rest ends the guards: the client holds nothing.
func (g *guards) rest() {
	g.mu.Lock()
	ended := g.of
	g.of, g.scan = map[string]guard{}, true
	g.mu.Unlock()
	for _, one := range ended {
		one.leave()
	}
}
