package lockrt

import (
	"maps"
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// user is what the transport of a client asks of it.
type user struct{ c *Client }

func (u user) Go(f func()) { u.c.spawn(f) }

func (u user) Aside(f func()) { u.c.aside(f) }

func (u user) Busy() bool { return u.c.holding() || u.c.counts.waiting.Load() > 0 }

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

// Changed has the leases of keys confirmed. If all keys may have changed, those who wait ask too, since their places in the wait
// queues are gone with the rest.
func (u user) Changed(keys []string) {
	c := u.c
	if keys == nil {
		c.watchdog.Recheck()
		c.lookAll(func(connection) bool { return true })
		c.mu.Lock()
		counting := slices.Collect(maps.Values(c.counters))
		c.mu.Unlock()
		for _, ct := range counting {
			ct.wake()
		}
		return
	}
	for _, key := range keys {
		c.mu.Lock()
		r, rw, fair := c.resources[key], c.rws[key], c.fairs[key]
		c.mu.Unlock()
		if rw != nil {
			rw.changed()
		}
		if fair != nil {
			if g := fair.held(); g != nil {
				c.watchdog.Look(&g.guard)
			}
		}
		if r == nil {
			continue // it was given back meanwhile
		}
		if g := r.held(); g != nil {
			c.watchdog.Look(&g.guard)
		}
	}
}

// holding reports whether this process has anything in Redis.
func (c *Client) holding() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.holds > 0
}

// isGranted and takesSome are what scripts reply first when they grant.
func isGranted(first int64) bool { return first == protocol.Granted }
func takesSome(first int64) bool { return first > 0 }
