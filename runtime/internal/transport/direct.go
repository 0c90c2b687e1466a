package transport

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// directs are the connections besides the shared one: usually one, and up to mostDirects while commands over the shared one wait for a processor.
//
// If the processors of this process have other work, an answer over the shared connection takes about 10 ms, see [direct]. Over a connection of its own,
// most commands take as long as the server needs. The others have that connection meanwhile, so that one is not enough for several callers.
type directs struct {
	link   *link
	on     bool          // the time limit of a request is known, and there is one server
	rest   time.Duration // a connection is closed that is not used for this long; see direct.want, too
	all    [mostDirects]direct
	own    pace         // over these connections
	shared pace         // over the shared one, of commands that follow each other
	heard  atomic.Int64 // when the last one of these was answered, a monotonic.Time
	until  atomic.Int64 // all of them are used until then, a monotonic.Time; 0 if only the first one is
	failed atomic.Int64 // when one could not be made, a monotonic.Time; 0 for never
}

const (
	// directRest is the rest of directs, but in tests.
	directRest = 4 * time.Second
	// mostDirects was measured with two processors and 40 goroutines that compute: 16 callers lock and unlock a quarter more often than with 8, and as
	// often as with 32.
	mostDirects = 16
	// crossing is the time from which on an answer over the shared connection has waited for a processor, unless it takes as long over a direct one.
	crossing = 5 * time.Millisecond
	// longestCrossing is the most that counts: longer, a command waits for a connection or for the scripts, or the process or the server stands still.
	longestCrossing = 4 * crossing
	// spreadFor is how long all connections are used after commands over the shared one have waited for a processor.
	spreadFor = time.Second
)

func (d *directs) init(l *link) {
	d.link = l
	for i := range d.all {
		d.all[i].of = d
	}
}

// spread reports whether all connections are used.
func (d *directs) spread() bool {
	until := d.until.Load()
	if until == 0 {
		return false
	}
	if monotonic.Now() < monotonic.Time(until) {
		return true
	}
	d.until.CompareAndSwap(until, 0)
	return false
}

// used returns the connections that are used now.
func (d *directs) used() []direct {
	if d.spread() {
		return d.all[:]
	}
	return d.all[:1]
}

// take returns a connection, for a goroutine that gives it back, or nil if none is idle.
func (d *directs) take() *exclusive {
	used := d.used()
	for i := range used {
		if own := used[i].take(); own != nil {
			return own
		}
	}
	return nil
}

// idle reports whether take would return a connection.
func (d *directs) idle() bool {
	used := d.used()
	for i := range used {
		if used[i].idle.Load() != nil {
			return true
		}
	}
	return false
}

// want starts making one more connection, see [direct.want], unless one could not be made within rest before. It does not block.
func (d *directs) want() {
	if failed := d.failed.Load(); !d.on || failed != 0 && monotonic.Since(monotonic.Time(failed)) < d.rest {
		return
	}
	used := d.used()
	for i := range used {
		if !used[i].made.Load() {
			used[i].want()
			return
		}
	}
}

// drop ends the connections that are idle.
func (d *directs) drop() {
	var closing sync.WaitGroup // closing a mute connection takes a second
	for i := range d.all {
		closing.Go(d.all[i].drop)
	}
	closing.Wait()
}

// run sends a command over own, see [direct.run].
func (d *directs) run(until *deadline, own *exclusive, cmd protocol.Command) rueidis.RedisResult {
	began := monotonic.Now()
	reply := own.of.run(until, own, cmd)
	if reply.NonRedisError() == nil {
		d.own.noteFirst(monotonic.Since(began))
	}
	return reply
}

// beside notes how long a command over the shared connection took, unless it began before the answer to the last one that counted: a server that
// stands still once has all commands that are under way take long. All connections are used for a while if commands usually take longer than usual, and
// much longer than over a connection of their own: then it is not the way to the server that takes the time.
func (d *directs) beside(began, answered monotonic.Time, usual time.Duration) {
	last := d.heard.Load()
	if int64(began) < last || !d.heard.CompareAndSwap(last, int64(answered)) {
		return
	}
	d.shared.note(min(answered.Sub(began), longestCrossing))
	if took, own := d.shared.typical(), d.own.typical(); took > usual && own > 0 && own < took/4 {
		d.until.Store(int64(answered.Add(spreadFor)))
	}
}

// A direct is a connection besides the shared one, for one goroutine at a time, which writes and reads itself: a caller, or a sender.
//
// The shared connection is like that until two commands are under way at once. From then on rueidis has goroutines that write
// and read for all: a command goes through three goroutines there and back. If the processors have other work, each of them waits for one, and
// Go looks only every 10 ms for what it has received, while a goroutine that reads finds an answer that has come. So the second caller
// in a short time that is alone, or one of several, has this connection made, and each command that finds it idle goes over it. A
// connection that nothing has used for a while is closed: the server has a limit, and rueidis asks over each whether it is well.
type direct struct {
	of    *directs
	idle  atomic.Pointer[exclusive] // nil while a goroutine has it, or there is none
	made  atomic.Bool               // there is one, or about to be
	asked atomic.Int64              // when it was wanted last, a monotonic.Time; 0 for never
	looks atomic.Bool               // a timer is set that looks whether it was used
}

// An exclusive is a connection that one goroutine at a time has.
type exclusive struct {
	of   *direct
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
	d.keep(own, d.of.rest)
}

// keep makes the connection one that may be taken, and looks after that time whether it was.
func (d *direct) keep(own *exclusive, look time.Duration) {
	d.idle.Store(own)
	if d.of.link.stopped() {
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
		if left := d.of.rest - monotonic.Since(own.used); left > 0 {
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
		until = &deadline{at: monotonic.Now().Add(d.of.link.cfg.OpTimeout).Std()}
	}
	reply := d.of.link.broken(d.of.link.runOn(until, own.conn, cmd))
	switch {
	case until.stop():
		d.of.link.cfg.User.Go(own.conn.Close) // which waits for a mute server
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
	if d.made.Load() || d.of.link.stopped() {
		return
	}
	at := monotonic.Now()
	before := monotonic.Time(d.asked.Swap(int64(at)))
	if !before.IsZero() && at.Sub(before) < d.of.rest && d.made.CompareAndSwap(false, true) {
		d.of.link.cfg.User.Go(d.make)
	}
}

// make makes a connection that works. If it cannot, nothing tries again within rest.
func (d *direct) make() {
	conn := d.of.link.dedicate(d.of.link.cfg.Stopped, d.of.link.rc)
	if conn != nil {
		if conn.Do(context.Background(), conn.B().Ping().Build()).NonRedisError() == nil {
			d.give(&exclusive{of: d, conn: conn})
			return
		}
		conn.Close()
	}
	d.of.failed.Store(int64(monotonic.Now()))
	d.made.Store(false)
}
