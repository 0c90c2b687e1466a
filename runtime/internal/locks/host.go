package locks

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
)

// host implements election.Host and withdrawal.Host for a client, and most of counting.Host.
type host struct{ c *clientLine }

func (h host) Number() uint64                  { return h.c.ticketNumbers.Add(1) }
func (h host) Granting() bool                  { return h.c.granting() }
func (h host) Closing() <-chan struct{}        { return h.c.closing }
func (h host) Spawn(f func())                  { h.c.spawn(f) }
func (h host) Pause(d time.Duration) bool      { return h.c.pause(d) }
func (h host) Backoff(tries int) time.Duration { return h.c.opts.Retry.Pause(tries) }
func (h host) Held(change int)                 { h.c.held(change) }
func (h host) Listen(key string)               { h.c.hearFor(key) }

func (h host) Over(number uint64) bool {
	_, known, _ := h.c.subscribers.Find(number)
	return !known && number <= h.c.ticketNumbers.Load()
}

func (h host) Look(tag string) {
	h.c.lookAll(func(tk *ticket) bool {
		fair := tk.r.kind.name(tk) == kindFair // the withdrawals handle the queue of a fair lock as a whole
		return !fair && (tag == "" || protocol.HashTag(tk.r.key) == tag)
	})
}

func (h host) GivesBack(key string, number uint64) { h.c.traces(trace.GivesBack, key, number) }

// lookAll makes the waiters with those of the tickets ask. It does not block.
func (c *clientLine) lookAll(of func(tk *ticket) bool) {
	for _, tk := range c.subscribers.All() {
		if of(tk) {
			tk.look()
		}
	}
}
