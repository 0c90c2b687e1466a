package transport

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/scripts"
)

// A sender is a client of rueidis, or one connection of it.
type sender interface {
	Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult
	DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult
}

// A deadline is a context that ends at a time. A connection that one caller has fails at that time, and asks for no more than the
// time. Its cost is that of the connection's own deadline, while a context that can be cancelled costs a third of the speed. Two things wait
// until the context is done: a connection that rueidis has pipelined by itself, since it asked over it whether it is well, and the dialling of
// a new connection, which does so on goroutines of its own.
type deadline struct {
	at    time.Time
	mu    sync.Mutex    // guards the rest
	done  chan struct{} // nil until something waits for it
	timer *time.Timer
}

func (d *deadline) Deadline() (at time.Time, ok bool) { return d.at, true }
func (*deadline) Value(any) any                       { return nil }

// Done is called before the request ends, if at all, and perhaps later as well.
func (d *deadline) Done() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done == nil {
		done := make(chan struct{})
		d.done, d.timer = done, time.AfterFunc(time.Until(d.at), func() { close(done) })
	}
	return d.done
}

func (d *deadline) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// stop ends the wait for the context, and reports whether there was one: the connection is pipelined, or new. Then goroutines of the dialling
// may ask the context still.
func (d *deadline) stop() (awaited bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer == nil {
		return false
	}
	d.timer.Stop()
	return true
}

// A way is a connection that a command is sent over: the direct one of the caller, or the shared one, or another one beside that.
type way struct {
	own    *exclusive
	beside bool
}

// way returns the way of a command: over the direct connection if that is idle, else over the shared one unless that has a request
// whose answer is late.
func (t *Transport) way(cmd protocol.Command) way {
	own := t.direct.take()
	return way{own: own, beside: own == nil && t.overdue(cmd)}
}

// run sends a command over its way.
func (t *Transport) run(cmd protocol.Command) rueidis.RedisResult { return t.runBy(t.way(cmd), cmd) }

func (t *Transport) runBy(w way, cmd protocol.Command) rueidis.RedisResult {
	switch {
	case w.own != nil:
		return t.direct.run(context.Background(), w.own, cmd)
	case w.beside:
		return t.RunBeside(cmd).result
	}
	return t.runShared(context.Background(), cmd)
}

// crowded counts one more script under way, and reports whether there are others. A script behind a mute connection is none of them: it
// says nothing about how many callers there are now.
func (t *Transport) crowded() bool { return t.sending.Add(1)-t.stuck.Load() > 1 }

// runShared sends a command over the connection that all callers share.
func (t *Transport) runShared(ctx context.Context, cmd protocol.Command) rueidis.RedisResult {
	if t.crowded() {
		t.pipelined.Store(true)
		t.direct.meet()
	}
	defer t.sending.Add(-1)
	if t.cluster == nil {
		return t.runOn(ctx, t.rc, cmd)
	}
	to := t.cluster.route(cmd.Keys[0])
	reply := t.runOn(ctx, to, cmd)
	if err := reply.NonRedisError(); err != nil && !errors.Is(err, rueidis.ErrClosing) {
		t.cluster.ask()
		if now, moved := t.cluster.route(cmd.Keys[0]).(redirect); moved && to == sender(t.rc) {
			t.cluster.resends.Add(1)
			return t.runOn(ctx, now, cmd)
		}
	}
	return reply
}

// runOn sends a command over a connection, or the connections, of one server. If the server has lost the scripts,
// because it was restarted, failed over or flushed, runOn loads them again, and then ctx bounds it no more.
func (t *Transport) runOn(ctx context.Context, rc sender, cmd protocol.Command) rueidis.RedisResult {
	loaded := t.loads.Load()
	if loaded == 0 {
		loaded = t.load(loaded)
	}
	asked := monotonic.Now()
	reply := rc.Do(ctx, t.evalsha(cmd))
	if !missing(reply) {
		t.heard(asked, reply)
		return t.translate(reply)
	}
	if t.cluster == nil {
		t.load(loaded)
		reply = rc.Do(context.Background(), t.evalsha(cmd))
	}
	for try := 0; missing(reply) && try < mostLoads; try++ {
		if t.cluster != nil && try == 1 {
			t.load(loaded) // the slot is on its way to a server that has no scripts
		}
		// The server was flushed again, or a long script filled the input of the server and others came between.
		replies := rc.DoMulti(context.Background(), t.rc.B().ScriptLoad().Script(cmd.Script.Source()).Build(), t.evalsha(cmd))
		reply = replies[1]
		if _, answered := rueidis.IsRedisErr(replies[0].Error()); answered && missing(reply) {
			return replies[0] // the script cannot be loaded, for this reason
		}
	}
	return t.translate(reply)
}

// heard notes the reply to a request that was sent at asked.
func (t *Transport) heard(asked monotonic.Time, reply rueidis.RedisResult) {
	if reply.NonRedisError() != nil {
		return
	}
	answered := monotonic.Now()
	t.spoke.Store(int64(answered))
	t.pace.note(min(answered.Sub(asked), t.Patience())) // one that is later was found to be late
	if t.watcher.sentinel {
		t.watcher.closing.Store(0)
	}
}

// translate replaces two errors of rueidis. One says that a context has ended when the connection's timeout is over: a
// caller would take that for the end of its own context. One says that the client is closing when another server becomes
// the master.
func (t *Transport) translate(reply rueidis.RedisResult) rueidis.RedisResult {
	err := reply.NonRedisError()
	switch {
	case err == nil:
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return rueidis.NewErrorResult(ErrNoAnswer)
	case t.failedOver(err):
		return rueidis.NewErrorResult(errFailedOver)
	}
	return reply
}

// missing reports whether the server did not know the script.
func missing(reply rueidis.RedisResult) bool {
	err, ok := rueidis.IsRedisErr(reply.Error())
	return ok && err.IsNoScript()
}

func (t *Transport) evalsha(cmd protocol.Command) rueidis.Completed {
	return t.rc.B().Evalsha().Sha1(cmd.Script.SHA1()).Numkeys(int64(len(cmd.Keys))).Key(cmd.Keys...).Arg(cmd.Args...).Build()
}

// mostLoads is how often a script is sent again together with a command that was run without it.
const mostLoads = 100

// loadPatience is how long one server of many has for loading the scripts while a request waits for it.
const loadPatience = 250 * time.Millisecond

// load sends every script to every server, in one round trip each, unless another caller has done so since this one saw
// seen loads. It returns the number of loads so far. It may fail: a script that is not loaded is found missing when it is
// called, and loaded then. Of many servers, no request waits for one that is down or that does not answer soon.
func (t *Transport) load(seen uint64) uint64 {
	t.loading <- struct{}{}
	defer func() { <-t.loading }()
	if now := t.loads.Load(); now != seen {
		return now
	}
	if t.cluster != nil {
		t.cfg.User.Go(t.cluster.ask)
	}
	nodes := t.rc.Nodes()
	done := make(chan error, len(nodes))
	for addr, node := range nodes {
		if t.cluster == nil {
			done <- t.loadOn(addr, node)
		} else {
			t.cfg.User.Go(func() { done <- t.loadOn(addr, node) })
		}
	}
	timer := time.NewTimer(loadPatience)
	defer timer.Stop()
	loaded := false
	for range nodes {
		select {
		case err := <-done:
			if err == nil {
				loaded = true
			} else if t.cluster == nil {
				return seen
			}
			continue
		case <-timer.C:
		}
		break
	}
	if !loaded {
		return seen
	}
	return t.loads.Add(1)
}

// loadOn sends every script to one server.
func (t *Transport) loadOn(addr string, node rueidis.Client) error {
	all := scripts.All()
	loads := make(rueidis.Commands, len(all))
	for i, s := range all {
		loads[i] = node.B().ScriptLoad().Script(s.Source()).Build()
	}
	for _, reply := range node.DoMulti(context.Background(), loads...) {
		if err := reply.Error(); err != nil {
			t.cfg.Logger.Warn("lockgen: scripts could not be loaded", "server", addr, "error", err)
			if _, answered := rueidis.IsRedisErr(err); answered && !Passing(err) {
				return nil // the permission is missing, and will be the next time; others may have loaded them
			}
			return err
		}
	}
	return nil
}
