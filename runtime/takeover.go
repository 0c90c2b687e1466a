package lockrt

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// takeovers is what a client knows of servers of a cluster that have taken over slots from others, as a replica does
// from a master that failed. The new one may miss the last writes, so what is held there is asked about at once, and who
// waits listens there.
//
// The connection to a master that fails breaks. So there is one to each server that has something of this process, on
// which nothing is said; when it breaks, or a request is not answered, the servers are asked who has which slot until
// another one is named.
//
// rueidis asks as well, but up to a second later. Until it knows, a server that has taken over is sent to directly.
type takeovers struct {
	detours atomic.Int32 // len(news)

	// Guarded by cluster.mu.
	news   map[string]bool  // servers that have taken over; true while rueidis is asked whether it knows
	guards map[string]guard // by server
	scan   bool             // something may be held on a server without one
}

// A guard is a channel that is listened to only to hear when the connection breaks.
type guard struct {
	key   string // in the slot of the channel
	leave func()
}

// holds notes that key is held.
func (cl *cluster) holds(key string) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if _, ok := cl.guards[cl.addrOf(key)]; !ok {
		cl.scan = true
	}
}

// look sees to it that there is a guard for each server on which something is held.
func (cl *cluster) look() {
	cl.mu.Lock()
	var astray []guard
	for addr, g := range cl.guards {
		if cl.addrOf(g.key) != addr { // the slot has moved
			delete(cl.guards, addr)
			astray = append(astray, g)
			cl.scan = true
		}
	}
	scan := cl.scan
	cl.scan = false
	cl.mu.Unlock()
	for _, g := range astray {
		cl.guard(g)
	}
	if !scan {
		return
	}
	bare := map[string]string{}
	cl.c.watchdog.Each(func(key string) {
		cl.mu.Lock()
		defer cl.mu.Unlock()
		addr := cl.addrOf(key)
		if _, ok := cl.guards[addr]; !ok {
			bare[addr] = key
		}
	})
	for _, key := range bare {
		cl.guard(guard{key, cl.c.listen(protocol.HashTag(key))})
	}
}

// guard takes g, or ends it if the server has another one.
func (cl *cluster) guard(g guard) {
	cl.mu.Lock()
	addr := cl.addrOf(g.key)
	_, have := cl.guards[addr]
	if !have {
		if cl.guards == nil {
			cl.guards = map[string]guard{}
		}
		cl.guards[addr] = g
	}
	cl.mu.Unlock()
	if have {
		g.leave()
	}
}

// rest ends the guards: nothing is held.
func (cl *cluster) rest() {
	cl.mu.Lock()
	guards := cl.guards
	cl.guards, cl.scan = nil, true
	cl.mu.Unlock()
	for _, g := range guards {
		g.leave()
	}
}

// learn replaces what is known of the owners of slots. It returns those that were another one's before, or nil. The caller
// holds cl.mu.
func (cl *cluster) learn(now *owners) (moved *[protocol.Slots]bool) {
	before := cl.owners
	cl.owners = now
	for i := range protocol.Slots {
		from, to := before.addrs[before.of[i]], now.addrs[now.of[i]]
		if from == to || from == "" || to == "" {
			continue
		}
		if moved == nil {
			moved = new([protocol.Slots]bool)
		}
		moved[i] = true
		if cl.news == nil {
			cl.news = map[string]bool{}
		}
		if !cl.news[to] {
			cl.news[to] = false
		}
	}
	for addr, asked := range cl.news {
		if !asked && !slices.Contains(now.addrs, addr) { // it has lost them again
			delete(cl.news, addr)
		}
	}
	cl.detours.Store(int32(len(cl.news)))
	return moved
}

// tookOver has everything asked about that is held in slots that have moved.
func (cl *cluster) tookOver(moved *[protocol.Slots]bool) {
	cl.c.opts.Logger.Info("lockgen: some slots are with another server now; what is held there is asked about")
	cl.c.watchdog.RecheckOf(func(key string) bool { return moved[protocol.Slot(key)] })
	cl.c.hub.Reassign()
}

// recheck has everything asked about that is held on the server which has the key or channel name.
func (cl *cluster) recheck(name string) {
	addr := cl.nodeOf(name)
	cl.c.watchdog.RecheckOf(func(key string) bool { return cl.nodeOf(key) == addr })
}

// route returns who is sent a request about key.
func (cl *cluster) route(key string) sender {
	if cl.detours.Load() == 0 {
		return cl.c.rc
	}
	cl.mu.Lock()
	addr := cl.addrOf(key)
	asked, ok := cl.news[addr]
	if ok {
		cl.news[addr] = true
	}
	cl.mu.Unlock()
	if !ok {
		return cl.c.rc
	}
	if !asked {
		cl.c.spawn(func() { cl.noNews(addr, key) })
	}
	if node := cl.c.rc.Nodes()[addr]; node != nil {
		return detour{node, cl.c.rc}
	}
	return cl.c.rc // to which it is all news
}

// noNews waits until rueidis gets an answer about key, and so knows that addr has it.
func (cl *cluster) noNews(addr, key string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-cl.c.stopped:
			cancel()
		case <-ctx.Done():
		}
	}()
	for {
		// Every kind of lock needs the permission for it. Whatever is said of the key will do.
		if cl.c.rc.Do(ctx, cl.c.rc.B().Get().Key(key).Build()).NonRedisError() == nil {
			break
		}
		if !cl.c.pause(lookEvery) {
			return
		}
	}
	cl.mu.Lock()
	defer cl.mu.Unlock()
	delete(cl.news, addr)
	cl.detours.Store(int32(len(cl.news)))
}

// A detour sends to one server, and what that does not have to where rueidis finds it.
type detour struct{ node, all sender }

func (d detour) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	cmd = cmd.Pin()
	reply := d.node.Do(ctx, cmd)
	if elsewhere(reply) {
		return d.all.Do(ctx, cmd)
	}
	return reply
}

func (d detour) DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	for i := range multi {
		multi[i] = multi[i].Pin()
	}
	replies := d.node.DoMulti(ctx, multi...)
	for i := range replies {
		if elsewhere(replies[i]) {
			replies[i] = d.all.Do(ctx, multi[i])
		}
	}
	return replies
}

// elsewhere reports whether a server has said that another one has what was asked for.
func elsewhere(reply rueidis.RedisResult) bool {
	said, ok := rueidis.IsRedisErr(reply.Error())
	if !ok {
		return false
	}
	_, moved := said.IsMoved()
	_, asks := said.IsAsk()
	return moved || asks
}
