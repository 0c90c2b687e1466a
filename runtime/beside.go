package lockrt

import (
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A connection that has fallen mute is found out by time, a second or more later. Until then others may wait for a key that
// nobody holds: it was granted, or is being given back, by a request whose answer does not come. What may be sent twice is sent
// over another connection long before.

// mostBeside is how many connections are tried at once.
const mostBeside = 3

// beside sends a script, which may be run twice, over a connection that is not the shared one: the one that tells of
// changes, unless it owes an answer for too long, else one of its own.
func (c *Client) beside(cmd protocol.Command) rueidis.RedisResult {
	t := &c.tracker
	if w := t.begin(); w != nil {
		if answered, ok := w.owing.begin(asidePatience); ok {
			reply := c.broken(c.runOn(w.conn, cmd))
			answered()
			err := reply.Error()
			if err == nil {
				t.answered(w)
			} else if _, ok := rueidis.IsRedisErr(err); !ok {
				w.fail(err)
			}
			return reply
		}
	}
	conn, release := c.dedicate(c.rc, c.opts.OpTimeout)
	if conn == nil {
		return c.run(cmd)
	}
	defer release()
	return c.broken(c.runOn(conn, cmd))
}

// runInTime runs a script by first, and also beside it each time that the answer has not come for a while. It returns the first
// answer, or how the last one failed, and whether the script may have run more than once.
func (c *Client) runInTime(first func(protocol.Command) rueidis.RedisResult, cmd protocol.Command) (reply rueidis.RedisResult, again bool) {
	replies := make(chan rueidis.RedisResult, mostBeside)
	send := func(how func(protocol.Command) rueidis.RedisResult) {
		c.spawn(func() { replies <- how(cmd) })
	}
	send(first)
	late := time.NewTimer(asidePatience)
	defer late.Stop()
	for sent, answered := 1, 0; ; {
		select {
		case reply = <-replies:
			answered++
			err := reply.NonRedisError()
			if err == nil || answered == sent && (sent == mostBeside || !errors.Is(err, rueidis.ErrClosing)) {
				return reply, sent > 1
			}
			if answered == sent { // the connection was closed with the client, which has another one as long as this runs
				sent++
				send(c.run)
			}
		case <-late.C:
			if sent < mostBeside {
				sent++
				send(c.beside)
				late.Reset(asidePatience)
			}
		}
	}
}
