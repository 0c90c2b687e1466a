package transport

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// failover has the servers of a cluster that have taken slots from others, as a replica does from a master that failed.
// The new master may miss the last writes, so the leases there are confirmed at once, and waiters listen there.
//
// The connection to a master that fails breaks. So the transport keeps an idle connection to each server on which the
// process holds something. When it breaks, or a request has no answer, the transport asks the servers for the owners of
// the slots until they name another one.
//
// rueidis asks as well, but up to a second later. Until it knows the new master, commands are redirected there.
type failover struct {
	redirects atomic.Int32 // len(fresh)

	// Guarded by cluster.mu.
	fresh  map[string]bool  // new masters; true while rueidis is asked whether it knows one
	guards map[string]guard // by server
	scan   bool             // the client may hold something on a server without one
}

// Redirects returns to how many servers of a cluster commands are redirected.
func (t *Transport) Redirects() int {
	if t.cluster == nil {
		return 0
	}
	return int(t.cluster.redirects.Load())
}

// A guard is a subscription whose only purpose is that its connection breaks when the server fails.
type guard struct {
	key   string // in the slot of the channel
	leave func()
}

// holds notes that the client holds a key.
func (cl *cluster) holds(key string) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if _, ok := cl.guards[cl.addrOf(key)]; !ok {
		cl.scan = true
	}
}

// look subscribes a guard on each server on which the client holds something.
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
	cl.net.cfg.User.EachKey(func(key string) {
		cl.mu.Lock()
		defer cl.mu.Unlock()
		addr := cl.addrOf(key)
		if _, ok := cl.guards[addr]; !ok {
			bare[addr] = key
		}
	})
	for _, key := range bare {
		cl.guard(guard{key, cl.net.cfg.User.ListenTo(protocol.HashTag(key))})
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

// rest ends the guards: the client holds nothing.
func (cl *cluster) rest() {
	cl.mu.Lock()
	guards := cl.guards
	cl.guards, cl.scan = nil, true
	cl.mu.Unlock()
	for _, g := range guards {
		g.leave()
	}
}

// learn replaces the known owners of slots. It returns the slots that had another owner before, or nil. The caller holds cl.mu.
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
		if cl.fresh == nil {
			cl.fresh = map[string]bool{}
		}
		if !cl.fresh[to] {
			cl.fresh[to] = false
		}
	}
	for addr, asked := range cl.fresh {
		if !asked && !slices.Contains(now.addrs, addr) { // it has lost them again
			delete(cl.fresh, addr)
		}
	}
	cl.redirects.Store(int32(len(cl.fresh)))
	return moved
}

// moved confirms the leases whose slots have another owner.
func (cl *cluster) moved(moved *[protocol.Slots]bool) {
	cl.net.cfg.Logger.Info("lockgen: some slots are with another server now; what is held there is asked about")
	cl.net.cfg.User.Recheck(func(key string) bool { return moved[protocol.Slot(key)] })
	cl.net.hub.Reassign()
}

// route returns the destination of a request about a key.
func (cl *cluster) route(key string) sender {
	if cl.redirects.Load() == 0 {
		return cl.net.rc
	}
	cl.mu.Lock()
	addr := cl.addrOf(key)
	asked, ok := cl.fresh[addr]
	if ok {
		cl.fresh[addr] = true
	}
	cl.mu.Unlock()
	if !ok {
		return cl.net.rc
	}
	if !asked {
		cl.net.cfg.User.Go(func() { cl.awaitClient(addr, key) })
	}
	if node := cl.net.rc.Nodes()[addr]; node != nil {
		return redirect{node, cl.net.rc}
	}
	return cl.net.rc // which does not know the server yet
}

// awaitClient waits until rueidis gets an answer about a key, and so knows that addr has it.
func (cl *cluster) awaitClient(addr, key string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-cl.net.cfg.Stopped:
			cancel()
		case <-ctx.Done():
		}
	}()
	for {
		// Every kind of lock needs the permission for it. Any answer about the key will do.
		if cl.net.rc.Do(ctx, cl.net.rc.B().Get().Key(key).Build()).NonRedisError() == nil {
			break
		}
		if !cl.net.pause(lookEvery) {
			return
		}
	}
	cl.mu.Lock()
	defer cl.mu.Unlock()
	delete(cl.fresh, addr)
	cl.redirects.Store(int32(len(cl.fresh)))
}

// A redirect sends to one server, and a command for a key that this one does not have to where rueidis finds it.
type redirect struct{ node, all sender }

func (d redirect) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	cmd = cmd.Pin()
	reply := d.node.Do(ctx, cmd)
	if elsewhere(reply) {
		return d.all.Do(ctx, cmd)
	}
	return reply
}

func (d redirect) DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
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

// elsewhere reports whether a server replied that another one has the key.
func elsewhere(reply rueidis.RedisResult) bool {
	said, ok := rueidis.IsRedisErr(reply.Error())
	if !ok {
		return false
	}
	_, moved := said.IsMoved()
	_, asks := said.IsAsk()
	return moved || asks
}
