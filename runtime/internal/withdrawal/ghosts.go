package withdrawal

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// kindsAbout are the kinds of the locks that a message can be about.
var kindsAbout = map[string]string{protocol.AboutLock: kindMutex, protocol.AboutFair: kindFair, protocol.AboutRW: kindWrite}

// Ghosts withdraws owners that the server names although they are over: it lost the last writes, or came back with an
// older file. The server named them for a key of a kind.
func (c *Client) Ghosts(about, key string, numbers []uint64) {
	kind, ok := kindsAbout[about]
	if !ok {
		return
	}
	var over []*engine.Withdrawal
	for _, n := range numbers {
		if c.Over(n) {
			over = append(over, &engine.Withdrawal{Number: n, Wait: c.FairWait})
		}
	}
	if len(over) > 0 {
		c.Add(c.Of(kind, key), over...)
	}
}

// After a reconnection the server may be another one, or have lost writes, and its wait queues may name owners that are
// over. The process of such an owner releases it as soon as it hears of it. That process may hear later than the one
// that asks first, which then gets no message. So every process asks again, several times.
const (
	firstEcho = 100 * time.Millisecond
	lastEcho  = 1600 * time.Millisecond
)

// Again handles the return of the client's channels, for keys of one hash tag, or of all. It does not block.
func (c *Client) Again(tag string) {
	turn := new(int)
	c.echoes.Store(tag, turn)
	latest := func() bool {
		last, _ := c.echoes.Load(tag)
		return last == turn
	}
	c.Spawn(func() {
		defer c.echoes.CompareAndDelete(tag, turn)
		c.tend(tag)
		for pause := firstEcho; pause <= lastEcho && c.Pause(pause) && latest(); pause *= 2 {
			c.Look(tag)
			c.tend(tag)
		}
	})
}

// Waited records that the process waited in the queue of a fair lock.
func (c *Client) Waited(key string) { c.waited.Note(key) }

// tend cleans up the queues of fair locks in which this process waited, including those that it left. Redisson's queue
// does not expire: a stale owner in it goes away when it is granted the lock.
func (c *Client) tend(tag string) {
	for _, key := range c.waited.All() {
		if tag == "" || protocol.HashTag(key) == tag {
			c.Spawn(func() { _, _ = c.Of(kindFair, key).fair(nil) })
		}
	}
}
