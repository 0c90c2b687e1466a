package resource

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
)

// Host implements election.Host and withdrawal.Host for a client, and most of counting.Host.
type Host struct{ Of *Client }

func (h Host) Number() uint64                  { return h.Of.ticketNumbers.Add(1) }
func (h Host) Granting() bool                  { return h.Of.Granting() }
func (h Host) Closing() <-chan struct{}        { return h.Of.Closing }
func (h Host) Spawn(f func())                  { h.Of.Spawn(f) }
func (h Host) Pause(d time.Duration) bool      { return h.Of.Pause(d) }
func (h Host) Backoff(tries int) time.Duration { return h.Of.Settings.Retry.Pause(tries) }
func (h Host) Held(change int)                 { h.Of.Held(change) }
func (h Host) Listen(key string)               { h.Of.hearFor(key) }

func (h Host) Over(number uint64) bool {
	_, known, _ := h.Of.Subscribers.Find(number)
	return !known && number <= h.Of.ticketNumbers.Load()
}

func (h Host) Look(tag string) {
	h.Of.lookAll(func(tk *Ticket) bool {
		fair := tk.Resource.Kind.Name(tk) == core.KindFair // the withdrawals handle the queue of a fair lock as a whole
		return !fair && (tag == "" || protocol.HashTag(tk.Resource.Key) == tag)
	})
}

func (h Host) GivesBack(key string, number uint64) { h.Of.Traces(trace.GivesBack, key, number) }

// lookAll makes the waiters ask whose tickets satisfy of. It does not block.
func (c *Client) lookAll(of func(tk *Ticket) bool) {
	for _, tk := range c.Subscribers.All() {
		if of(tk) {
			tk.look()
		}
	}
}
