package locks

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/runtime/observe"
)

// spread is the longest time for which a client that holds nothing and waits for nothing is not subscribed after its connection has
// ended: a failover ends those of all clients at once.
const spread = 500 * time.Millisecond

// user implements Above for a client.
type user struct{ c *clientLine }

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
		c.each("", registered.changed)
		return
	}
	for _, key := range keys {
		for _, g := range c.grantsOf(key) {
			c.watchdog.Look(&g.guard)
		}
	}
}

func (u user) Renewed(l *watchdog.Lease, err error) { renewed(u.c.core(), l, err) }

func (u user) OwnHolder(kind, key string) *observe.Holder { return u.c.ownHolder(kind, key) }

func (u user) Refuse() { u.c.alarms.Wake() }

func (u user) EndLingers() { u.c.each("", registered.endsLinger) }

func (u user) CloseAll() { u.c.each("", registered.close) }
