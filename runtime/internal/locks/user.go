package locks

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// spread is the longest time for which a client that holds nothing and waits for nothing is not subscribed after its connection has
// ended: a failover ends those of all clients at once.
const spread = 500 * time.Millisecond

// user implements transport.User for a client.
type user struct{ c *Client }

func (u user) Go(f func()) { u.c.spawn(f) }

func (u user) Aside(f func()) { u.c.aside(f) }

func (u user) Leave() { u.c.finished() }

func (u user) Return() { u.c.returned() }

func (u user) Busy() bool { return u.c.holding() || u.c.counts.waiting.Load() > 0 }

// Resting allows a pause on the channel of the process alone: a listener to another channel waits for its messages.
func (u user) Resting(channel string) time.Duration {
	if u.c.subscribers.Size() > 0 || u.Busy() || u.c.fleet.Asking() > 0 || channel != protocol.ProcessChannel(u.c.wire.UUID) {
		return 0
	}
	return u.c.spread
}

func (u user) Recheck(some func(key string) bool) {
	if some == nil {
		u.c.watchdog.Recheck()
	} else {
		u.c.watchdog.RecheckOf(some)
	}
}

func (u user) EachKey(f func(key string)) { u.c.watchdog.Each(f) }

func (u user) ListenTo(tag string) (leave func()) { return u.c.listen(tag) }

func (u user) LookFirst(after time.Duration) { u.c.watchdog.First(after) }

// Changed confirms the leases of keys. If all keys may have changed, the waiters ask too, since their places in the
// wait queues may be gone with the rest.
func (u user) Changed(keys []string) {
	c := u.c
	if keys == nil {
		c.watchdog.Recheck()
		c.lookAll(func(*ticket) bool { return true })
		for _, kind := range counted {
			for _, ct := range c.countersOf(kind).some("") {
				ct.Wake()
			}
		}
		return
	}
	for _, key := range keys {
		for _, g := range c.grantsOf(key) {
			c.watchdog.Look(&g.guard)
		}
	}
}

// holding reports whether this process holds anything in Redis.
func (c *Client) holding() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.holds > 0
}

// isGranted recognizes the first value of a reply that grants.
func isGranted(first int64) bool { return first == protocol.Granted }
