package transport

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A mute connection is found out by time, a second or more later. Until then others may wait for a key without a
// holder: it was granted, or is being released, by a request whose answer does not come. A command that may be sent
// twice is sent over another connection long before.

// MostBeside is how many connections are tried at once.
const MostBeside = 3

// leastPatience is how long a connection may always take for an answer before another one is tried.
const leastPatience = 250 * time.Millisecond

// Patience returns how long a connection may take for an answer before another one is tried: several times the recent
// response time. Where all answers are slow, a repeated request makes them slower.
func (t *Transport) Patience() time.Duration { return max(leastPatience, 4*t.pace.typical()) }

// A pace is a smoothed response time. The zero value has none.
type pace struct{ took atomic.Int64 }

// note records a response time. Of two concurrent calls, one may be ignored.
func (p *pace) note(d time.Duration) {
	before := p.took.Load()
	p.took.Store(before + (int64(d)-before)/8)
}

func (p *pace) typical() time.Duration { return time.Duration(p.took.Load()) }

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
// unless it has a request without an answer for too long, else the second one.
func (t *Transport) RunBeside(cmd protocol.Command) Reply {
	if reply, ok := t.tracker.beside(cmd); ok {
		return Reply{reply}
	}
	if reply, ok := t.second.run(cmd); ok {
		return Reply{reply}
	}
	if own := t.direct.take(); own != nil {
		return Reply{t.direct.run(context.Background(), own, cmd)}
	}
	return Reply{t.runShared(context.Background(), cmd)}
}

// beside sends a command over the tracked connection, once, if there is one and it answers. It does not have the server report changes: a
// client that holds nothing whose changes matter may not be permitted to ask for that.
func (t *tracker) beside(cmd protocol.Command) (reply rueidis.RedisResult, ok bool) {
	t.mu.Lock()
	w := t.reporting()
	t.mu.Unlock()
	if w == nil {
		return reply, false
	}
	answered, ok := w.pending.begin(t.net.Patience())
	if !ok {
		return reply, false
	}
	reply = t.net.broken(t.net.runOn(context.Background(), w.conn, cmd))
	answered()
	err := reply.Error()
	if err == nil {
		w.answered()
	} else if _, ok := rueidis.IsRedisErr(err); !ok {
		w.avoid()
	}
	return reply, true
}
