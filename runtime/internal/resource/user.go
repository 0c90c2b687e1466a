package resource

import (
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/runtime/observe"
)

// spread is the longest time for which a client that holds nothing and waits for nothing is not subscribed after its connection has
// ended: a failover ends those of all clients at once.
const spread = 500 * time.Millisecond

// user implements core.Above for a client.
type user struct{ of *Client }

func (u user) Go(f func()) { u.of.Spawn(f) }

func (u user) Detach(f func()) { u.of.Detach(f) }

func (u user) Leave() { u.of.Finished() }

func (u user) Return() { u.of.Returned() }

func (u user) Busy() bool { return u.of.Holding() || u.of.Counts.Waiting.Load() > 0 }

// Resting allows a pause on the channel of the process alone: a listener to another channel waits for its messages.
func (u user) Resting(channel string) time.Duration {
	if u.of.Subscribers.Size() > 0 || u.Busy() || u.of.Fleet.Asking() > 0 || channel != protocol.ProcessChannel(u.of.Wire.UUID) {
		return 0
	}
	return u.of.Spread
}

func (u user) Recheck(some func(key string) bool) {
	if some == nil {
		u.of.Watchdog.Recheck()
	} else {
		u.of.Watchdog.RecheckOf(some)
	}
}

func (u user) EachKey(f func(key string)) { u.of.Watchdog.Each(f) }

func (u user) ListenTo(tag string) (leave func()) { return u.of.Listen(tag) }

func (u user) LookFirst(after time.Duration) { u.of.Watchdog.First(after) }

// Changed confirms the leases of keys. If all keys may have changed, the waiters ask too, since their places in the
// wait queues may be gone with the rest.
func (u user) Changed(keys []string) {
	c := u.of
	if keys == nil {
		c.Watchdog.Recheck()
		c.lookAll(func(*Ticket) bool { return true })
		c.each("", Registered.Changed)
		return
	}
	for _, key := range keys {
		for _, g := range c.GrantsOf(key) {
			c.Watchdog.Look(&g.Guard)
		}
	}
}

func (u user) Renewed(l *watchdog.Lease, err error) { leases.Renewed(u.of.Core(), l, err) }

func (u user) OwnHolder(kind, key string) *observe.Holder { return u.of.ownHolder(kind, key) }

// ownHolder returns the call of this client that holds a lock, or nil. For a call that reads, that is one that writes.
func (c *Client) ownHolder(kind, key string) *observe.Holder {
	held := c.GrantsOf(key)
	i := slices.IndexFunc(held, func(g *Grant) bool {
		of := g.Guard.Kind()
		return of == kind && of != core.KindRead || of == core.KindWrite && kind == core.KindRead || of == core.KindRead && kind == core.KindWrite
	})
	if i < 0 {
		return nil
	}
	g := held[i]
	s := g.Show()
	if s.Holds == 0 {
		return nil // for a moment between two holders
	}
	return &observe.Holder{Own: true, Process: c.Fleet.Process(), Owner: g.Guard.Owner(), Since: s.Since.SteadyDate(), Seen: time.Now()}
}

// Refuse wakes the calls that are parked, those that stand in line, and those that wait for their first event, see [Client.begin]. A call that
// begins to wait later finds the end of the client itself.
func (u user) Refuse() {
	u.of.alarms.Wake()
	u.of.each("", func(one Registered) { one.EachWaiting(func(w *Waiter, _ string) { w.Poke() }) })
}

func (u user) EndLingers() { u.of.each("", Registered.EndsLinger) }

func (u user) CloseAll() { u.of.each("", Registered.Close) }

// AtRest reports whether c needs no messages at present. Tests alone call it.
func AtRest(c *Client) bool { return user{c}.Resting(protocol.ProcessChannel(c.Wire.UUID)) > 0 }
