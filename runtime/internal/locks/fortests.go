package locks

// Functions for the tests of package lockrt, which look at what no program sees. No other code calls them.

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/policy"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/resource"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/observe"
)

// Resources returns how many keys the client keeps a resource for.
func Resources(c *Client) int { return c.mutexes.Size() + c.rws.Size() }

// MutexOf returns the resource of a mutex of c, if there is one.
func MutexOf(c *Client, key string) (r *policy.Mutex, known bool) { return c.mutexes.Find(key) }

// Counters returns how many keys that count the client knows of.
func Counters(c *Client) int { return c.semaphores.Size() + c.permits.Size() + c.latches.Size() }

// Fairs returns how many fair locks the client knows of.
func Fairs(c *Client) int { return c.fairs.Size() }

// Longest returns the first pauses of a backoff, as long as they may be.
func Longest(b core.Backoff, n int) []time.Duration {
	var all []time.Duration
	for i := range n {
		all = append(all, b.Longest(i+1))
	}
	return all
}

// SiteOf returns where the client has its keys, by which a MultiLock tells its members apart.
func SiteOf(c *Client) string { return c.Core().Site() }

// Hears reports whether the subscription of the client is active.
func Hears(c *Client) bool { return c.base.Heard() }

// ContendedLately reports whether a key is remembered as contended that long after it was refused, and another one.
func ContendedLately(after time.Duration) (key, other bool) {
	var c engine.Contended
	at := time.Now()
	c.Note("k", at)
	return c.Lately("k", at.Add(after)), c.Lately("other", at.Add(after))
}

// BeginStart has Redisson's waiters have a start for a key, for which c does not ask that long; foreign says that one of them
// had it a moment ago.
func BeginStart(c *Client, key string, lasts time.Duration, foreign bool) {
	if foreign {
		c.base.Starts.Refused(key, true, time.Now())
	}
	heard, _ := c.base.Net.Heard(protocol.LockChannel(key))
	c.base.Starts.Begin(key, lasts, heard)
}

// StartLeft returns for how long a start for a key lasts from now on, and whether c remembers one, which may be over.
func StartLeft(c *Client, key string) (left time.Duration, known bool) {
	_, known = c.base.Starts.Last(key)
	return c.base.Starts.Left(key), known
}

// PassLimit returns how long the grant of a mutex may circulate in a process before the process asks Redis for waiters.
func PassLimit(l *leases.Lease) time.Duration { return l.Core().Grant.(*resource.Grant).PassLimit() }

// Redirects returns how many servers have taken over of which rueidis may not know.
func Redirects(c *Client) int { return c.base.Net.Redirects() }

// Direct reports whether there is a connection for one command at a time, and it is idle.
func Direct(c *Client) bool { return c.base.Net.Idle() }

// Asks calls send for a call that waits for an answer in time.
func Asks(ctx context.Context, c *Client, send func() error) error {
	return transport.Within(core.Present(ctx), c.base.Net, send)
}

// RestSoon has c close connections soon that nothing uses, but the two that it has at rest. Call it before its first request.
func RestSoon(c *Client) { c.base.Net.Rest(500*time.Millisecond, 500*time.Millisecond) }

// AtEnd has f called by the goroutine that ends a lease of c that is made from now on, before anybody else can have the key.
func AtEnd(c *Client, f func(key string)) { c.base.AtEnd = f }

// SpreadBy has c subscribe again after a random part of d, while it is at rest. Call it before any other method of c.
func SpreadBy(c *Client, d time.Duration) { c.base.Spread = d }

// AtRest reports whether c needs no messages at present.
func AtRest(c *Client) bool {
	return resource.AtRest(c.Base())
}

// Parked returns how many calls for a mutex of c have nothing to do until an event comes: they have no lease, are in the wait queue of
// Redis, and have read the answer that says so.
func Parked(c *Client, key string) (n int) {
	for _, r := range c.mutexes.Entries(key) {
		r.Mu.Lock()
		r.Queue.Each(func(w *resource.Waiter) {
			if w.For.Lease == nil && w.Events.Empty() && r.Ticket != nil && r.Ticket.Standing && r.Ticket.State == engine.TicketQueued {
				n++
			}
		})
		r.Mu.Unlock()
	}
	return n
}

// LingerFor has the mutexes of c linger for d, which may be longer than an option can say.
func LingerFor(c *Client, d time.Duration) { c.base.Settings.Linger = d }

// AtRate has the clock by which a process waits for the next interval of s go at another rate.
func AtRate(s *Schedule, rate float64) *Schedule {
	s.of.Rate = rate
	return s
}

// Known returns the start of the last interval of which s knows that it has begun.
func Known(s *Schedule) time.Time {
	return s.of.Known().Begun
}

// ConnOf returns what the client sends its commands through.
func ConnOf(c *Client) rueidis.Client { return c.base.RC }

// LooksForTraces returns whether the client has asked for the traces of the holders of a key, or of any for "", and whether an answer is
// there.
func LooksForTraces(c *Client, key string) (asked, answered bool) {
	all, known := c.base.Fleet.Inquiries(key)
	return all > 0, known > 0
}

// OpenQuestions returns how many questions of the client to other processes are not answered.
func OpenQuestions(c *Client) int { return c.base.Fleet.Asking() }

// KnowsHolder reports whether a look for deadlocks of the client has found a holder of a key in another process.
func KnowsHolder(c *Client, key string) bool {
	return c.base.Fleet.LastHolder(observe.KindMutex, key) != nil
}

// ShutsDown returns when c grants nothing any more, and Shutdown has given c's mutex back.
func ShutsDown(c *Client) {
	<-c.Core().Closing
	c.Core().Mu.Lock()
	defer c.Core().Mu.Unlock()
}
