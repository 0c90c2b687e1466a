package lockrt

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// After a reconnection the server may be another one, or have lost writes, and its wait queues may name owners that are
// over. The process of such an owner releases it as soon as it hears of it. That process may hear later than the one
// that asks first, which then gets no message. So every process asks again, several times.
const (
	firstEcho = 100 * time.Millisecond
	lastEcho  = 1600 * time.Millisecond
)

// again handles the return of the client's channels, for keys of one hash tag, or of all. It does not block.
func (c *Client) again(tag string) {
	turn := new(int)
	c.echoes.Store(tag, turn)
	latest := func() bool {
		last, _ := c.echoes.Load(tag)
		return last == turn
	}
	c.spawn(func() {
		defer c.echoes.CompareAndDelete(tag, turn)
		c.tend(tag)
		for pause := firstEcho; pause <= lastEcho && c.pause(pause) && latest(); pause *= 2 {
			c.lookAll(func(p subscriber) bool {
				tk, _ := p.(*ticket)
				fair := tk != nil && tk.r.kind.name(tk) == kindFair // tend handles their queue as a whole
				return !fair && (tag == "" || protocol.HashTag(p.lockKey()) == tag)
			})
			c.tend(tag)
		}
	})
}

// lookAll makes those of the subscribers ask that wait. It does not block.
func (c *Client) lookAll(of func(p subscriber) bool) {
	for n, p := range c.subscribers.All() {
		if of(p) {
			p.look(n)
		}
	}
}

// tend cleans up the queues of fair locks in which this process waited, including those that it left. Redisson's queue
// does not expire: a stale owner in it goes away when it is granted the lock.
func (c *Client) tend(tag string) {
	for _, key := range c.stood.All() {
		if tag == "" || protocol.HashTag(key) == tag {
			c.spawn(func() { _, _ = withdrawer{c, kindFair, key}.fair(nil) })
		}
	}
}
