package transport

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A direct is a connection besides the shared one, for one caller at a time, which writes and reads on its own
// goroutine.
//
// The shared connection is like that until two commands are under way at once. From then on rueidis has goroutines that write
// and read for all callers. A crowd gains by them. A lone caller loses: its command goes through three goroutines there
// and back. So the second lone caller in a short time has this connection made, and every caller that finds it idle takes it. A
// connection that no caller has used for a while is closed: the server has a limit, and rueidis asks over each whether it is well.
type direct struct {
	net   *Transport
	on    bool                      // the time limit of a request is known, and there is one server
	rest  time.Duration             // a connection is closed that is not used for this long, or at most twice as long; see want, too
	idle  atomic.Pointer[exclusive] // nil while a caller has it, or there is none
	made  atomic.Bool               // there is one, or about to be
	met   atomic.Int64              // when two callers were about to send at once for the last time, a monotonic.Time
	asked atomic.Int64              // when a lone caller wanted one last, a monotonic.Time; 0 for never
	looks atomic.Bool               // a timer is set that looks whether it was used
}

// directRest is the rest of a direct, but in tests.
const directRest = 4 * time.Second

// An exclusive is a connection that one caller at a time has.
type exclusive struct {
	conn rueidis.DedicatedClient
	uses atomic.Uint64
}

// aloneFor is how long no other caller has sent when a caller counts as alone. In a crowd it pays to send together.
const aloneFor = time.Millisecond

// meet records that two callers are about to send at once.
func (d *direct) meet() {
	if d.on {
		d.met.Store(int64(monotonic.Now()))
	}
}

// take returns the connection, for a caller that is alone and releases it, or nil.
func (d *direct) take() *exclusive {
	if d.idle.Load() == nil || monotonic.Since(monotonic.Time(d.met.Load())) < aloneFor {
		return nil
	}
	return d.seize()
}

// seize returns the connection unless another caller has it, or there is none.
func (d *direct) seize() *exclusive {
	if own := d.idle.Load(); own != nil && d.idle.CompareAndSwap(own, nil) {
		return own
	}
	return nil
}

// give returns the connection.
func (d *direct) give(own *exclusive) {
	d.idle.Store(own)
	select {
	case <-d.net.cfg.Stopped:
		d.drop()
	default:
		d.watch(own)
	}
}

// watch closes the connection when no caller has used it for long, unless that is seen to already. It does not block.
func (d *direct) watch(own *exclusive) {
	if d.looks.Load() || !d.looks.CompareAndSwap(false, true) {
		return
	}
	uses := own.uses.Load()
	time.AfterFunc(d.rest, func() {
		d.looks.Store(false)
		switch now := d.idle.Load(); {
		case now == nil: // a caller has it, and gives it back, or there is none
		case now != own || now.uses.Load() != uses:
			d.watch(now)
		case d.idle.CompareAndSwap(own, nil):
			own.conn.Close()
			d.made.Store(false)
		}
	})
}

// drop ends the connection if no caller has it.
func (d *direct) drop() {
	if own := d.seize(); own != nil {
		own.conn.Close()
		d.made.Store(false)
	}
}

// run sends a command over own, which fails at the deadline of ctx, and returns own if it is well. Pipelined, it is of no use to a
// lone caller.
func (d *direct) run(ctx context.Context, own *exclusive, cmd protocol.Command) rueidis.RedisResult {
	if d.net.crowded() {
		d.meet()
	}
	defer d.net.sending.Add(-1)
	own.uses.Add(1)
	reply := d.net.broken(d.net.runOn(ctx, own.conn, cmd))
	until, timed := ctx.(*deadline)
	switch {
	case timed && until.stop():
		d.net.cfg.User.Go(own.conn.Close) // which waits for a mute server
		d.made.Store(false)
	case reply.NonRedisError() == nil:
		d.give(own)
	default:
		own.conn.Close()
		d.made.Store(false)
	}
	return reply
}

// broken returns reply, which came over an exclusive connection. When that breaks, rueidis can say that the client is
// closing, as it does of a request that was not sent. But this request may have been, and the client goes on.
func (t *Transport) broken(reply rueidis.RedisResult) rueidis.RedisResult {
	if !errors.Is(reply.NonRedisError(), rueidis.ErrClosing) {
		return reply
	}
	select {
	case <-t.cfg.Stopped:
		return reply
	default:
		return rueidis.NewErrorResult(errBroke)
	}
}

// want starts making a connection, unless there is one, or no other caller has wanted one within rest. It does not block.
func (d *direct) want() {
	if !d.on || d.made.Load() {
		return
	}
	at := monotonic.Now()
	before := monotonic.Time(d.asked.Swap(int64(at)))
	if !before.IsZero() && at.Sub(before) < d.rest && d.made.CompareAndSwap(false, true) {
		d.net.cfg.User.Go(d.make)
	}
}

// make makes a connection that works. If it cannot, no caller tries again for a while.
func (d *direct) make() {
	conn := d.net.dedicate(d.net.rc, d.net.cfg.OpTimeout)
	if conn == nil {
		d.made.Store(false)
		return
	}
	if err := conn.Do(context.Background(), conn.B().Ping().Build()).NonRedisError(); err != nil {
		conn.Close()
		d.net.pause(time.Second)
		d.made.Store(false)
		return
	}
	d.give(&exclusive{conn: conn})
}

// alone returns the connection over which a caller that cannot be cancelled sends on its own goroutine. A request there is
// likely to be answered at once, since the server has answered a moment ago, and if not, to fail within OpTimeout: an
// exclusive connection has a deadline for each request, a shared one takes longer to be found mute. No connection is the
// shared one, unless that has a request whose answer is late.
func (t *Transport) alone() (own *exclusive, ok bool) {
	if !t.Prompt() {
		return nil, false
	}
	if !t.pipelined.Load() {
		return nil, !t.lateness.anywhere.Load()
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

// Idle reports whether there is a direct connection that no caller has.
func (t *Transport) Idle() bool { return t.direct.idle.Load() != nil }
