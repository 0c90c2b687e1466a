package transport

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A direct is a connection besides the shared one, for one goroutine at a time, which writes and reads itself: a caller, or a sender.
//
// The shared connection is like that until two commands are under way at once. From then on rueidis has goroutines that write
// and read for all: a command goes through three goroutines there and back. If the processors have other work, each of them waits for one, and
// Go looks only every 10 ms for what it has received, while a goroutine that reads finds an answer that has come. So the second caller
// in a short time that is alone, or one of several, has this connection made, and each command that finds it idle goes over it. A
// connection that nothing has used for a while is closed: the server has a limit, and rueidis asks over each whether it is well.
type direct struct {
	link  *link
	on    bool                      // the time limit of a request is known, and there is one server
	rest  time.Duration             // a connection is closed that is not used for this long; see want, too
	idle  atomic.Pointer[exclusive] // nil while a goroutine has it, or there is none
	made  atomic.Bool               // there is one, or about to be
	asked atomic.Int64              // when it was wanted last, a monotonic.Time; 0 for never
	looks atomic.Bool               // a timer is set that looks whether it was used
}

// directRest is the rest of a direct, but in tests.
const directRest = 4 * time.Second

// An exclusive is a connection that one goroutine at a time has.
type exclusive struct {
	conn rueidis.DedicatedClient
	used monotonic.Time // when it was given back last; read by the goroutine that has it, or when it is idle
}

// take returns the connection, for a goroutine that gives it back, or nil if another one has it, or there is none.
func (d *direct) take() *exclusive {
	if own := d.idle.Load(); own != nil && d.idle.CompareAndSwap(own, nil) {
		return own
	}
	return nil
}

// give returns the connection.
func (d *direct) give(own *exclusive) {
	own.used = monotonic.Now()
	d.keep(own, d.rest)
}

// keep makes the connection one that may be taken, and looks after that time whether it was.
func (d *direct) keep(own *exclusive, look time.Duration) {
	d.idle.Store(own)
	if d.link.stopped() {
		d.drop()
	} else {
		d.watch(look)
	}
}

// watch closes the connection after that time, unless it was used meanwhile: then when its rest is over. It does nothing if a timer
// is set already. It does not block.
func (d *direct) watch(after time.Duration) {
	if d.looks.Load() || !d.looks.CompareAndSwap(false, true) {
		return
	}
	time.AfterFunc(after, func() {
		d.looks.Store(false)
		own := d.take()
		if own == nil {
			return // a goroutine has it, and gives it back, or there is none
		}
		if left := d.rest - monotonic.Since(own.used); left > 0 {
			d.keep(own, left)
			return
		}
		d.end(own)
	})
}

// drop ends the connection if it is idle.
func (d *direct) drop() {
	if own := d.take(); own != nil {
		d.end(own)
	}
}

// end closes own, in place of giving it back. There may be another one from then on.
func (d *direct) end(own *exclusive) {
	own.conn.Close()
	d.made.Store(false)
}

// run sends a command over own, which fails at its deadline, or after OpTimeout without one, and gives own back if it is well. Pipelined, it is of
// no use.
func (d *direct) run(until *deadline, own *exclusive, cmd protocol.Command) rueidis.RedisResult {
	if until == nil {
		until = &deadline{at: monotonic.Now().Add(d.link.cfg.OpTimeout).Std()}
	}
	reply := d.link.broken(d.link.runOn(until, own.conn, cmd))
	switch {
	case until.stop():
		d.link.cfg.User.Go(own.conn.Close) // which waits for a mute server
		d.made.Store(false)
	case reply.NonRedisError() == nil:
		d.give(own)
	default:
		d.end(own)
	}
	return reply
}

// want starts making a connection, unless there is one, or none was wanted within rest before. It does not block.
func (d *direct) want() {
	if !d.on || d.made.Load() || d.link.stopped() {
		return
	}
	at := monotonic.Now()
	before := monotonic.Time(d.asked.Swap(int64(at)))
	if !before.IsZero() && at.Sub(before) < d.rest && d.made.CompareAndSwap(false, true) {
		d.link.cfg.User.Go(d.make)
	}
}

// make makes a connection that works. If it cannot, nothing tries again within rest.
func (d *direct) make() {
	conn := d.link.dedicate(d.link.cfg.Stopped, d.link.rc)
	switch {
	case conn == nil:
	case conn.Do(context.Background(), conn.B().Ping().Build()).NonRedisError() == nil:
		d.give(&exclusive{conn: conn})
		return
	default:
		conn.Close()
		d.link.pause(d.rest)
	}
	d.made.Store(false)
}
