package transport

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/scripts"
)

// runOn sends a command over a connection, or the connections, of one server. If the server has lost the scripts,
// because it was restarted, failed over or flushed, runOn loads them again, and then ctx bounds it no more.
func (l *link) runOn(ctx context.Context, rc sender, cmd protocol.Command) rueidis.RedisResult {
	loaded := l.loads.Load()
	if loaded == 0 {
		loaded = l.load(loaded)
	}
	asked := monotonic.Now()
	reply := l.send(ctx, rc, cmd)
	if !missing(reply) {
		if _, more := rc.(awaitsMore); more {
			l.spoken(reply)
		} else {
			l.heard(asked, reply)
		}
		return l.translate(reply)
	}
	if l.askAll == nil {
		l.load(loaded)
		reply = rc.Do(context.Background(), l.evalsha(cmd))
	}
	for try := 0; missing(reply) && try < mostLoads; try++ {
		switch {
		case l.askAll == nil || try == 0:
		case try == 1:
			l.load(loaded) // the slot is on its way to a server that has no scripts
		default:
			l.pause(loadPause) // that server gets them now
		}
		// The server was flushed again, or a long script filled the input of the server and others came between.
		replies := rc.DoMulti(context.Background(), l.rc.B().ScriptLoad().Script(cmd.Script.Source()).Build(), l.evalsha(cmd))
		reply = replies[1]
		if _, answered := rueidis.IsRedisErr(replies[0].Error()); answered && missing(reply) {
			return replies[0] // the script cannot be loaded, for this reason
		}
	}
	return l.translate(reply)
}

// awaitsMore is a sender that waits for more than the answer of the server. How long it takes says nothing of that server.
type awaitsMore interface{ awaitsMore() }

// send sends a command. Ahead of a release that may hand a lock over it sends a PING, in the same packet, so that Redis sends the message to the
// next owner before it replies to this process: Redis writes first to the connection that got something to write last, and this one gets the
// reply to the PING before the script publishes the message. Each write takes Redis about as long as a short script, and wakes a process. Nothing
// but speed depends on the order. Redis does not promise it with several I/O threads, or for a command of more than 16 KiB.
//
// The releases of other kinds of locks have no PING: usually nobody waits for them. In a cluster rueidis would send it to any server.
func (l *link) send(ctx context.Context, rc sender, cmd protocol.Command) rueidis.RedisResult {
	if cmd.Script != scripts.Release || l.askAll != nil {
		return rc.Do(ctx, l.evalsha(cmd))
	}
	return rc.DoMulti(ctx, l.rc.B().Ping().Build(), l.evalsha(cmd))[1]
}

// together sends commands over a connection in one round trip, and returns their replies.
func (l *link) together(ctx context.Context, to sender, cmds []protocol.Command) []rueidis.RedisResult {
	if len(cmds) == 1 {
		return []rueidis.RedisResult{l.runOn(ctx, to, cmds[0])}
	}
	if loaded := l.loads.Load(); loaded == 0 {
		l.load(loaded)
	}
	commands := make(rueidis.Commands, len(cmds))
	for i, cmd := range cmds {
		commands[i] = l.evalsha(cmd)
	}
	asked := monotonic.Now()
	replies := to.DoMulti(ctx, commands...)
	l.heard(asked, replies[0])
	for i, cmd := range cmds {
		if missing(replies[i]) {
			replies[i] = l.runOn(ctx, to, cmd)
		} else {
			replies[i] = l.translate(replies[i])
		}
	}
	return replies
}

// heard notes the reply to a request that was sent at asked.
func (l *link) heard(asked monotonic.Time, reply rueidis.RedisResult) {
	if answered, ok := l.spoken(reply); ok {
		l.pace.note(min(answered.Sub(asked), l.Patience())) // one that is later was found to be late
	}
}

// spoken notes that a server has replied, and when.
func (l *link) spoken(reply rueidis.RedisResult) (answered monotonic.Time, ok bool) {
	if reply.NonRedisError() != nil {
		return 0, false
	}
	answered = monotonic.Now()
	l.spoke.Store(int64(answered))
	if l.closing.Load() != 0 {
		l.closing.Store(0)
	}
	return answered, true
}

// translate replaces errors of rueidis. Two say that a context has ended when the timeout of a connection is over, or that of the dial: a
// caller would take that for the end of its own context. One says that the client is closing when another server becomes
// the master, or when a server leaves the cluster.
func (l *link) translate(reply rueidis.RedisResult) rueidis.RedisResult {
	err := reply.NonRedisError()
	switch {
	case err == nil:
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		if slow, ok := dialledTooSlowly(err); ok {
			return rueidis.NewErrorResult(slow) // nothing was sent
		}
		return rueidis.NewErrorResult(ErrNoAnswer)
	case l.failedOver(err):
		return rueidis.NewErrorResult(errFailedOver)
	}
	return reply
}

// missing reports whether the server did not know the script.
func missing(reply rueidis.RedisResult) bool {
	err, ok := rueidis.IsRedisErr(reply.Error())
	return ok && err.IsNoScript()
}

func (l *link) evalsha(cmd protocol.Command) rueidis.Completed {
	return l.rc.B().Evalsha().Sha1(cmd.Script.SHA1()).Numkeys(int64(len(cmd.Keys))).Key(cmd.Keys...).Arg(cmd.Args...).Build()
}

// mostLoads is how often a script is sent again together with a command that was run without it.
const mostLoads = 100

// loadPause is how long a request pauses before it tries again whether a server of many has its script.
const loadPause = 10 * time.Millisecond

// loadPatience is how long requests wait for servers that get the scripts.
const loadPatience = 250 * time.Millisecond

// load has every script sent to every server that lacks it, in two round trips each, unless another caller has done so since this one saw seen loads. It
// returns the number of loads so far. A load may fail, or be late: a script that is not loaded is found missing when it is called, and
// loaded then. No request waits for long for a server that is down or that does not answer soon: the connection over which it gets the scripts
// may be mute, and that of the request is another one. There is one attempt at a time, and none sends to a server while an earlier one still
// does, however many requests come: the texts of all scripts for each of them would make slow servers slower. A client that is stopped waits for
// none.
func (l *link) load(seen uint64) uint64 {
	l.loadMu.Lock()
	if now := l.loads.Load(); now != seen {
		l.loadMu.Unlock()
		return now
	}
	attempt := l.loading
	begins := attempt == nil
	if begins {
		attempt = &loading{over: make(chan struct{}), late: make(chan struct{})}
		l.loading = attempt
	}
	l.loadMu.Unlock()
	if begins {
		if l.askAll != nil {
			l.cfg.User.Go(l.askAll)
		}
		l.cfg.User.Go(func() { l.loadAll(attempt) })
	}
	select {
	case <-attempt.over:
	case <-attempt.late:
	}
	return l.loads.Load()
}

// loadAll makes an attempt. It ends when all servers have answered, or the client is stopped, and sooner if it is late and one of them has the
// scripts, or refuses them: then it leaves the others behind, which get the scripts still.
func (l *link) loadAll(attempt *loading) {
	loaded := false
	defer func() {
		l.loadMu.Lock()
		defer l.loadMu.Unlock()
		if loaded {
			l.loads.Add(1)
		}
		l.loading = nil
		close(attempt.over)
	}()
	nodes := l.rc.Nodes()
	l.without.Range(func(x, _ any) bool {
		if _, there := nodes[x.(lacking).addr]; !there { // servers come and go
			l.without.Delete(x)
		}
		return true
	})
	l.portions.Range(func(addr, _ any) bool {
		if _, there := nodes[addr.(string)]; !there {
			l.portions.Delete(addr)
		}
		return true
	})
	done, missing := make(chan bool, len(nodes)), 0
	for addr, node := range nodes {
		if _, behind := l.sending.LoadOrStore(addr, struct{}{}); behind {
			continue
		}
		missing++
		l.cfg.User.Detach(func() { // Close does not wait for a server that does not answer
			ok := func() bool {
				defer l.sending.Delete(addr) // before the attempt ends: the next one may send to the server again
				return l.loadOn(addr, node)
			}()
			done <- ok
		})
	}
	timer := time.After(loadPatience)
	for late := false; missing > 0 && !(loaded && late); {
		select {
		case ok := <-done:
			loaded = loaded || ok
			missing--
		case <-timer:
			late = true
			close(attempt.late)
		case <-l.cfg.Stopped:
			return
		}
	}
}

// smaller is by how much fewer scripts go together after a failure.
const smaller = 4

// loadOn sends the scripts to one server that it lacks. It reports false if that may succeed later. A permission that is missing will be missing the
// next time, too, and others may have loaded the scripts. A server that is so slow that its connection ends before it has all of them gets fewer
// together at the next attempt.
func (l *link) loadOn(addr string, node rueidis.Client) bool {
	lacks, err := lackedBy(node)
	if err != nil {
		return l.unloaded(addr, err)
	}
	most := len(lacks)
	if x, failed := l.portions.Load(addr); failed {
		most = x.(int) //nolint:forcetypeassert // they all are
	}
	for some := range slices.Chunk(lacks, max(1, most)) {
		loads := make(rueidis.Commands, len(some))
		for i, s := range some {
			loads[i] = node.B().ScriptLoad().Script(s.Source()).Build()
		}
		for _, reply := range node.DoMulti(context.Background(), loads...) {
			if err := reply.Error(); err != nil {
				l.portions.Delete(addr)
				refuses := l.unloaded(addr, err)
				if !refuses {
					l.portions.Store(addr, max(1, len(some)/smaller))
				}
				return refuses
			}
		}
	}
	l.portions.Delete(addr)
	l.without.Delete(lacking{addr, false})
	l.without.Delete(lacking{addr, true})
	return true
}

// lackedBy returns the scripts that a server lacks: usually another process has loaded them, and their texts are half a megabyte. Without the permission
// to ask, those are all.
func lackedBy(node rueidis.Client) (lacks []*scripts.Script, _ error) {
	all := scripts.All()
	sums := make([]string, len(all))
	for i, s := range all {
		sums[i] = s.SHA1()
	}
	reply := node.Do(context.Background(), node.B().ScriptExists().Sha1(sums...).Build())
	if err := reply.Error(); reply.NonRedisError() != nil || err != nil && !rueidis.IsRedisNil(err) && Passing(err) {
		return nil, err
	}
	has, _ := reply.AsIntSlice()
	if len(has) != len(all) { // the user may not ask, or a proxy does not know the command
		return all, nil
	}
	for i, s := range all {
		if has[i] == 0 {
			lacks = append(lacks, s)
		}
	}
	return lacks, nil
}

// A lacking is a server that has no scripts, for a reason that may be over soon, or one that refuses them.
type lacking struct {
	addr    string
	refuses bool
}

// unloaded logs that a server has no scripts, once until it has, and once more if it refuses them when it answers again: an operator has to
// change that. It returns the result of loadOn.
func (l *link) unloaded(addr string, err error) bool {
	_, answered := rueidis.IsRedisErr(err)
	refuses := answered && !Passing(err)
	if _, known := l.without.LoadOrStore(lacking{addr, refuses}, struct{}{}); !known && !l.stopped() {
		l.cfg.Logger.Warn("lockgen: scripts could not be loaded", "server", addr, "error", err)
	}
	return refuses
}

// failedOver reports whether err, of a request, may be that of a connection that rueidis has closed because there is another
// master, or because a server has left the cluster. It is not after [Transport.Over], and not for long: then the client was closed by the program
// that made it.
func (l *link) failedOver(err error) bool {
	if l.rc.Mode() == rueidis.ClientModeStandalone || !errors.Is(err, rueidis.ErrClosing) || l.over.Load() {
		return false
	}
	at := int64(monotonic.Now())
	l.closing.CompareAndSwap(0, at)
	return time.Duration(at-l.closing.Load()) < l.cfg.OpTimeout
}
