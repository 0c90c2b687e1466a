package lockrt

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/scripts"
)

// run sends a script and blocks for its reply. It takes no context: rueidis would put a
// deadline on the connection, which other callers share, and a cancellable context costs it a
// third of its speed. The connection's own timeout bounds the call; callers who must return
// earlier do so beside it.
//
// Scripts are preloaded before the first call. A server that forgot them, because it was
// restarted, failed over or flushed, is given them again.
func (c *Client) run(cmd protocol.Command) rueidis.RedisResult {
	if own := c.direct.take(); own != nil {
		return c.direct.run(own, cmd)
	}
	return c.runShared(cmd)
}

// runShared is run over the connection that all share.
func (c *Client) runShared(cmd protocol.Command) rueidis.RedisResult {
	if c.sending.Add(1) > 1 {
		c.pipelined.Store(true)
		c.direct.meet()
	}
	defer c.sending.Add(-1)
	if c.cluster == nil {
		return c.runOn(c.rc, cmd)
	}
	to := c.cluster.route(cmd.Keys[0])
	reply := c.runOn(to, cmd)
	if err := reply.NonRedisError(); err != nil && !errors.Is(err, rueidis.ErrClosing) {
		c.cluster.ask()
		if now, tookOver := c.cluster.route(cmd.Keys[0]).(detour); tookOver && to == sender(c.rc) {
			return c.runOn(now, cmd)
		}
	}
	return reply
}

// runOn is run over a connection, or the connections, of the same server.
func (c *Client) runOn(rc sender, cmd protocol.Command) rueidis.RedisResult {
	loaded := c.loads.Load()
	if loaded == 0 {
		loaded = c.load(loaded)
	}
	reply := rc.Do(context.Background(), c.evalsha(cmd))
	if !missing(reply) {
		if reply.NonRedisError() == nil {
			c.spoke.Store(int64(monotonic.Now()))
			if c.lookout.needed {
				c.lookout.closing.Store(0)
			}
		}
		return c.unanswered(reply)
	}
	if c.cluster == nil {
		c.load(loaded)
		reply = rc.Do(context.Background(), c.evalsha(cmd))
	}
	for try := 0; missing(reply) && try < 10; try++ {
		if c.cluster != nil && try == 1 {
			c.load(loaded) // the slot is on its way to a server that has no scripts
		}
		// It was flushed again. What is sent together is run together, nearly always.
		replies := rc.DoMulti(context.Background(), c.rc.B().ScriptLoad().Script(cmd.Script.Source()).Build(), c.evalsha(cmd))
		reply = replies[1]
		if _, answered := rueidis.IsRedisErr(replies[0].Error()); answered && missing(reply) {
			return replies[0] // it cannot be loaded, and this is why
		}
	}
	return c.unanswered(reply)
}

// errNoAnswer is the outcome of a request that took longer than the connection allows.
var errNoAnswer = errors.New("no answer for as long as the connection waits for one")

// unanswered replaces what rueidis says then, that a context has ended: callers would
// take it for that of their own. And what it says when another server becomes the master, that the client is closing.
func (c *Client) unanswered(reply rueidis.RedisResult) rueidis.RedisResult {
	err := reply.NonRedisError()
	switch {
	case err == nil:
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return rueidis.NewErrorResult(errNoAnswer)
	case c.switched(err):
		return rueidis.NewErrorResult(errSwitched)
	}
	return reply
}

// A sender is a client or one connection of it.
type sender interface {
	Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult
	DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult
}

// missing reports whether the server did not know the script.
func missing(reply rueidis.RedisResult) bool {
	err, ok := rueidis.IsRedisErr(reply.Error())
	return ok && err.IsNoScript()
}

func (c *Client) evalsha(cmd protocol.Command) rueidis.Completed {
	return c.rc.B().Evalsha().Sha1(cmd.Script.SHA1()).Numkeys(int64(len(cmd.Keys))).Key(cmd.Keys...).Arg(cmd.Args...).Build()
}

// load sends every script to every node, in one round trip each, unless somebody else has
// done so since the caller saw seen loads. It returns the number of loads so far. It need not
// succeed: a script that could not be loaded is missed when it is called, and loaded then. Of many nodes none is
// waited for that does not answer at once, or that is down.
func (c *Client) load(seen uint64) uint64 {
	c.loading <- struct{}{}
	defer func() { <-c.loading }()
	if now := c.loads.Load(); now != seen {
		return now
	}
	if c.cluster != nil {
		c.spawn(c.cluster.ask)
	}
	nodes := c.rc.Nodes()
	done := make(chan error, len(nodes))
	for addr, node := range nodes {
		if c.cluster == nil {
			done <- c.loadOn(addr, node)
		} else {
			c.spawn(func() { done <- c.loadOn(addr, node) })
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
			} else if c.cluster == nil {
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
	return c.loads.Add(1)
}

// loadPatience is for how long a server of many has time to load the scripts while somebody waits for it.
const loadPatience = 250 * time.Millisecond

// loadOn sends every script to one server.
func (c *Client) loadOn(addr string, node rueidis.Client) error {
	all := scripts.All()
	loads := make(rueidis.Commands, len(all))
	for i, s := range all {
		loads[i] = node.B().ScriptLoad().Script(s.Source()).Build()
	}
	for _, reply := range node.DoMulti(context.Background(), loads...) {
		if err := reply.Error(); err != nil {
			c.opts.Logger.Warn("lockgen: scripts could not be loaded", "server", addr, "error", err)
			if _, answered := rueidis.IsRedisErr(err); answered && !passing(err) {
				return nil // it is not permitted, and will not be the next time; others may have loaded them
			}
			return err
		}
	}
	return nil
}
