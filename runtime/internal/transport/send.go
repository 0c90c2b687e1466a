package transport

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A way is a connection that a command is sent over: the direct one, or the shared one, or another one beside that.
type way struct {
	own    *exclusive
	beside bool
}

// way returns the way of a command: over a direct connection that is idle, else over the shared one unless that has a request
// whose answer is late. A direct one is made if several requests were under way at once lately.
func (t *Transport) way(cmd protocol.Command) way {
	own := t.direct.take()
	if own == nil && t.crowd.size() > 1 {
		t.direct.want()
	}
	return way{own: own, beside: own == nil && t.overdue(cmd)}
}

// run sends a command over its way.
func (t *Transport) run(cmd protocol.Command) rueidis.RedisResult { return t.runBy(t.way(cmd), cmd) }

func (t *Transport) runBy(w way, cmd protocol.Command) rueidis.RedisResult {
	switch {
	case w.own != nil:
		return t.direct.run(nil, w.own, cmd)
	case w.beside:
		return t.RunBeside(cmd).result
	}
	return t.runShared(context.Background(), cmd)
}

// runShared sends a command over the connection that all callers share.
func (t *Transport) runShared(ctx context.Context, cmd protocol.Command) rueidis.RedisResult {
	if t.traffic.begin() {
		t.pipelined.Store(true)
	}
	defer t.traffic.end()
	if t.cluster == nil {
		began := monotonic.Now()
		reply := t.runOn(ctx, t.rc, cmd)
		if t.direct.on && reply.NonRedisError() == nil {
			t.direct.beside(began, monotonic.Now(), crossing+t.crowd.handling())
		}
		return reply
	}
	return t.runRouted([]protocol.Command{cmd})[0]
}

// runRouted sends commands whose keys one server of a cluster has, in one round trip. Those whose connection broke are sent again if
// another server has the slots meanwhile.
func (t *Transport) runRouted(cmds []protocol.Command) []rueidis.RedisResult {
	key := cmds[0].Keys[0]
	to := t.cluster.route(key)
	replies := t.together(context.Background(), to, cmds)
	var broke []int
	var rest []protocol.Command
	for i, reply := range replies {
		if err := reply.NonRedisError(); err != nil && !errors.Is(err, rueidis.ErrClosing) {
			broke, rest = append(broke, i), append(rest, cmds[i])
		}
	}
	if len(broke) == 0 {
		return replies
	}
	t.cluster.ask()
	if now, moved := t.cluster.route(key).(redirect); moved && to == sender(t.rc) {
		t.cluster.resends.Add(1)
		for i, reply := range t.together(context.Background(), now, rest) {
			replies[broke[i]] = reply
		}
	}
	return replies
}

// Run sends a command and blocks for its reply. It takes no context: rueidis would set a deadline on the connection, which
// other callers share, and a context that can be cancelled costs it a third of its speed. The timeout of the connection
// bounds the call; a caller that has to return earlier waits beside it.
func (t *Transport) Run(cmd protocol.Command) Reply { return Reply{t.run(cmd)} }

// alone returns the connection over which a caller that cannot be cancelled sends on its own goroutine, or nil for the shared one, and whether it may. A request there is
// likely to be answered at once, since the server has answered a moment ago, and if not, to fail within OpTimeout: an
// exclusive connection has a deadline for each request, a shared one takes longer to be found mute. No connection is the
// shared one, unless that has a request under way.
func (t *Transport) alone() (own *exclusive, ok bool) {
	if !t.Prompt() {
		return nil, false
	}
	if !t.pipelined.Load() {
		return nil, t.traffic.none() && !t.lateness.anywhere.Load()
	}
	if own = t.direct.take(); own == nil {
		t.direct.want()
	}
	return own, own != nil
}

// Prompt reports whether a request may be sent inline, see [Batcher.Submit]: the server has answered a moment ago.
func (t *Transport) Prompt() bool {
	return t.brief && (!t.pipelined.Load() || t.direct.on) && monotonic.Since(monotonic.Time(t.spoke.Load())) < 50*time.Millisecond
}

// Idle reports whether there is a direct connection that no caller has and that may be taken.
func (t *Transport) Idle() bool { return t.direct.idle() }

// RunAside sends a command over the tracked connection, if there is one and it answers: the shared one has a request without
// an answer, and may hold up what is sent behind that for as long. The command is sent once: a caller that sends it again has
// to know that it may have been done.
func (t *Transport) RunAside(cmd protocol.Command) Reply {
	if reply, ok := t.tracker.beside(cmd); ok {
		return Reply{reply}
	}
	return t.Run(cmd)
}

// RunBeside sends a command, which may be run twice, over a connection that is not the shared one: the tracked connection,
// unless it has a request without an answer for too long, else a spare one.
func (t *Transport) RunBeside(cmd protocol.Command) Reply { return t.runBesideIf(nil, cmd) }

// runBesideIf is RunBeside for a command that may be needed no more when there is a connection. Then it is not sent, and the reply is errUnneeded. needed
// is nil for one that always is.
func (t *Transport) runBesideIf(needed func() bool, cmd protocol.Command) Reply {
	if reply, ok := t.tracker.beside(cmd); ok {
		return Reply{reply}
	}
	if reply, ok := t.spares.run(needed, cmd); ok {
		if reply.NonRedisError() == nil {
			t.tracker.answersElsewhere()
		}
		return Reply{reply}
	}
	if own := t.direct.take(); own != nil {
		return Reply{t.direct.run(nil, own, cmd)}
	}
	return Reply{t.runShared(context.Background(), cmd)}
}
