package lockrt

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A direct is a connection besides the shared one, for one caller at a time, who writes and reads on his own goroutine.
//
// The shared connection is like that until two commands are under way at once. From then on it has goroutines that write and
// read for all, which a crowd gains by and one who is alone loses by: his command goes through three goroutines
// there and back. So the first who is alone after that has this connection made, and whoever finds it idle takes it.
type direct struct {
	c    *Client
	on   bool                        // by Open, of one server: it is known how long a request takes at most
	idle atomic.Pointer[privateLine] // nil while it is taken, or there is none
	made atomic.Bool                 // there is one, or about to be
	met  atomic.Int64                // when two were about to send at once for the last time, a monotonic.Time
}

// A privateLine is what one caller at a time has.
type privateLine struct{ conn rueidis.DedicatedClient }

// aloneFor is how long nobody else has sent where one is alone. In a crowd it pays to gather, and to send together.
const aloneFor = time.Millisecond

// meet notes that two are about to send at once.
func (d *direct) meet() {
	if d.on {
		d.met.Store(int64(monotonic.Now()))
	}
}

// take returns the connection, for a caller who is alone and gives it back, or nil.
func (d *direct) take() *privateLine {
	if d.idle.Load() == nil || monotonic.Since(monotonic.Time(d.met.Load())) < aloneFor {
		return nil
	}
	return d.seize()
}

// seize returns the connection unless somebody has it, or there is none.
func (d *direct) seize() *privateLine {
	if l := d.idle.Load(); l != nil && d.idle.CompareAndSwap(l, nil) {
		return l
	}
	return nil
}

// give gives the connection back.
func (d *direct) give(l *privateLine) {
	d.idle.Store(l)
	select {
	case <-d.c.stopped:
		d.drop()
	default:
	}
}

// drop ends the connection if nobody has it.
func (d *direct) drop() {
	if l := d.seize(); l != nil {
		l.conn.Close()
		d.made.Store(false)
	}
}

// run sends a script over l, and gives l back if it is well.
func (d *direct) run(l *privateLine, cmd protocol.Command) rueidis.RedisResult {
	if d.c.sending.Add(1) > 1 {
		d.meet()
	}
	defer d.c.sending.Add(-1)
	reply := d.c.broken(d.c.runOn(l.conn, cmd))
	if reply.NonRedisError() == nil {
		d.give(l)
	} else {
		l.conn.Close()
		d.made.Store(false)
	}
	return reply
}

// errBroke is what a connection of its own ends with that somebody else found broken.
var errBroke = errors.New("the connection broke")

// broken returns reply, which came over a connection of its own. When that breaks, rueidis can say of it that the client is
// closing, as it does of a request that was not sent. But this one may have been, and the client goes on.
func (c *Client) broken(reply rueidis.RedisResult) rueidis.RedisResult {
	if !errors.Is(reply.NonRedisError(), rueidis.ErrClosing) {
		return reply
	}
	select {
	case <-c.stopped:
		return reply
	default:
		return rueidis.NewErrorResult(errBroke)
	}
}

// want has a connection made, unless there is one. It does not block.
func (d *direct) want() {
	if d.on && d.made.CompareAndSwap(false, true) {
		d.c.spawn(d.make)
	}
}

// make makes a connection that works. If it cannot, nobody tries again for a while.
func (d *direct) make() {
	conn, _ := d.c.dedicate(d.c.rc, d.c.opts.OpTimeout)
	if conn == nil {
		d.made.Store(false)
		return
	}
	if err := conn.Do(context.Background(), conn.B().Ping().Build()).NonRedisError(); err != nil {
		conn.Close()
		d.c.pause(time.Second)
		d.made.Store(false)
		return
	}
	d.give(&privateLine{conn})
}

// alone returns over what a caller who cannot be called away sends on his own goroutine. A request there is likely to be answered
// at once, since the server has answered a moment ago, and if not, to fail within Options.OpTimeout: a connection that one
// request at a time uses has a deadline for each, one that is shared takes longer to be found mute.
// No connection is the shared one.
func (c *Client) alone() (own *privateLine, ok bool) {
	if !c.prompt() {
		return nil, false
	}
	if !c.pipelined.Load() {
		return nil, true
	}
	if own = c.direct.take(); own == nil {
		c.direct.want()
	}
	return own, own != nil
}

// prompt reports whether alone may say yes.
func (c *Client) prompt() bool {
	return c.brief && (!c.pipelined.Load() || c.direct.on) && monotonic.Since(monotonic.Time(c.spoke.Load())) < 50*time.Millisecond
}
