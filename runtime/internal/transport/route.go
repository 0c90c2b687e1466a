package transport

import (
	"context"

	"github.com/redis/rueidis"
)

// route returns the destination of a request about a key.
func (cl *cluster) route(key string) sender {
	if cl.redirects.Load() == 0 {
		return cl.link.rc
	}
	cl.mu.Lock()
	addr := cl.addrOf(key)
	asked, ok := cl.fresh[addr]
	if ok {
		cl.fresh[addr] = true
	}
	cl.mu.Unlock()
	if !ok {
		return cl.link.rc
	}
	if !asked {
		cl.link.cfg.User.Go(func() { cl.awaitClient(addr, key) })
	}
	if node := cl.link.rc.Nodes()[addr]; node != nil {
		return redirect{node, cl.link.rc}
	}
	return cl.link.rc // which does not know the server yet
}

// awaitClient waits until rueidis gets an answer about a key, and so knows that addr has it.
func (cl *cluster) awaitClient(addr, key string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-cl.link.cfg.Stopped:
			cancel()
		case <-ctx.Done():
		}
	}()
	for {
		// Every kind of lock needs the permission for it. Any answer about the key will do.
		if cl.link.rc.Do(ctx, cl.link.rc.B().Get().Key(key).Build()).NonRedisError() == nil {
			break
		}
		if !cl.link.pause(lookEvery) {
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
