package lockrt

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/composite"
	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/locks"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// Resources returns how many keys the client keeps a resource for.
func Resources(c *Client) int { return locks.Resources((*locks.Client)(c)) }

// Counters returns how many keys that count the client knows of.
func Counters(c *Client) int { return locks.Counters((*locks.Client)(c)) }

// Fairs returns how many fair locks the client knows of.
func Fairs(c *Client) int { return locks.Fairs((*locks.Client)(c)) }

// QuorumQueues returns for how many RedLocks goroutines of the client wait in the queue.
func QuorumQueues(c *Client) int { return composite.QuorumQueues((*locks.Client)(c)) }

// Longest returns the first pauses of a backoff, as long as they may be.
func Longest(b Backoff, n int) []time.Duration { return locks.Longest(core.Backoff(b), n) }

// SiteOf returns where the client has its keys, by which members of a MultiLock are told apart.
func SiteOf(c *Client) string { return locks.SiteOf((*locks.Client)(c)) }

// PartsOf returns how many parts a lease has by now.
func PartsOf(l *Lease) int { return composite.PartsOf((*leases.Lease)(l)) }

// Hears reports whether the subscription of the client is active.
func Hears(c *Client) bool { return locks.Hears((*locks.Client)(c)) }

// ContendedLately reports whether a key is remembered as contended that long after it was refused, and another one.
func ContendedLately(after time.Duration) (key, other bool) { return locks.ContendedLately(after) }

// BeginStart has Redisson's waiters have a start for a key, for which c does not ask that long; foreign says that one of them
// had it a moment ago.
func BeginStart(c *Client, key string, lasts time.Duration, foreign bool) {
	locks.BeginStart((*locks.Client)(c), key, lasts, foreign)
}

// StartLeft returns for how long a start for a key lasts from now on, and whether c remembers one, which may be over.
func StartLeft(c *Client, key string) (left time.Duration, known bool) {
	return locks.StartLeft((*locks.Client)(c), key)
}

// PassLimit returns how long the grant of a mutex may circulate in a process before the process asks Redis for waiters.
func PassLimit(l *Lease) time.Duration { return locks.PassLimit((*leases.Lease)(l)) }

// Redirects returns how many servers have taken over of which rueidis may not know.
func Redirects(c *Client) int { return locks.Redirects((*locks.Client)(c)) }

// Direct reports whether there is a connection for one command at a time, and it is idle.
func Direct(c *Client) bool { return locks.Direct((*locks.Client)(c)) }

// Asks calls send for a call that waits for an answer in time.
func Asks(ctx context.Context, c *Client, send func() error) error {
	return locks.Asks(ctx, (*locks.Client)(c), send)
}

// RestSoon has c close connections soon that nothing uses, but the two that it has at rest. Call it before its first request.
func RestSoon(c *Client) { locks.RestSoon((*locks.Client)(c)) }

// AtEnd sets f for the leases of c that are made from now on. The goroutine that ends such a lease calls f before another process can have
// the key.
func AtEnd(c *Client, f func(key string)) { locks.AtEnd((*locks.Client)(c), f) }

// ShutsDown returns when c grants nothing any more, and Shutdown has given c's mutex back.
func ShutsDown(c *Client) { locks.ShutsDown((*locks.Client)(c)) }

// SpreadBy has c subscribe again after a random part of d, while it is at rest. Call it before any other method of c.
func SpreadBy(c *Client, d time.Duration) { locks.SpreadBy((*locks.Client)(c), d) }

// AtRest reports whether c needs no messages at present.
func AtRest(c *Client) bool { return locks.AtRest((*locks.Client)(c)) }

// Parked returns how many calls for a mutex of c have nothing to do until an event comes: they have no lease, are in the wait queue of
// Redis, and have read the answer that says so.
func Parked(c *Client, key string) (n int) { return locks.Parked((*locks.Client)(c), key) }

// LingerFor has the mutexes of c linger for d, which may be longer than an option can say.
func LingerFor(c *Client, d time.Duration) { locks.LingerFor((*locks.Client)(c), d) }

// Known returns the start of the last interval that s knows to have begun.
func Known(s *Schedule) time.Time { return locks.Known((*locks.Schedule)(s)) }

// ConnOf returns what the client sends its commands through.
func ConnOf(c *Client) rueidis.Client { return locks.ConnOf((*locks.Client)(c)) }

// LooksForTraces returns whether the client has asked for the traces of the holders of a key, or of any for "", and whether an answer is
// there.
func LooksForTraces(c *Client, key string) (asked, answered bool) {
	return locks.LooksForTraces((*locks.Client)(c), key)
}

// OpenQuestions returns how many questions of the client to other processes are not answered.
func OpenQuestions(c *Client) int { return locks.OpenQuestions((*locks.Client)(c)) }

// KnowsHolder reports whether a look for deadlocks of the client has found a holder of a key in another process.
func KnowsHolder(c *Client, key string) bool { return locks.KnowsHolder((*locks.Client)(c), key) }

// Pause returns the pause after so many refusals.
func Pause(b Backoff, refused int) time.Duration { return core.Backoff(b).Pause(refused) }

// PermitLocker returns a Locker that takes a permit.
func PermitLocker(s *PermitSemaphore) Locker { return permitLocker{s} }

// RedLockOf returns a RedLock whose parts are mutexes, of whatever servers.
func RedLockOf(mutexes ...*Mutex) *RedLock {
	all := make([]*locks.Mutex, len(mutexes))
	for i, m := range mutexes {
		all[i] = (*locks.Mutex)(m)
	}
	return (*RedLock)(composite.RedLockOf(all...))
}

// MembersOf returns the members of a MultiLock in their order.
func MembersOf(m *MultiLock) []Locker {
	var all []Locker
	for _, member := range composite.MembersOf((*composite.MultiLock)(m)) {
		switch l := member.(type) {
		case *locks.Mutex:
			all = append(all, (*Mutex)(l))
		case *locks.FairMutex:
			all = append(all, (*FairMutex)(l))
		case *locks.RWMutex:
			all = append(all, (*RWMutex)(l))
		case locks.ReadLocker:
			all = append(all, rLocker{(*RWMutex)(l.M)})
		case locks.PermitLocker:
			all = append(all, permitLocker{(*PermitSemaphore)(l.PermitSemaphore)})
		case *composite.RedLock:
			all = append(all, (*RedLock)(l))
		case foreign:
			all = append(all, l.of)
		case foreignInspected:
			all = append(all, l.of)
		default:
			panic("a member of another kind")
		}
	}
	return all
}

// AtRate has the clock by which a process waits for the next interval of s go at another rate.
func AtRate(s *Schedule, rate float64) *Schedule {
	return (*Schedule)(locks.AtRate((*locks.Schedule)(s), rate))
}

// SlotOf returns the slot of a key in a cluster.
func SlotOf(key string) uint16 { return protocol.Slot(key) }

// DoUnder is Do of any Locker.
func DoUnder(ctx context.Context, lock Locker, fn func(ctx context.Context, lease *Lease) error, opts ...LockOption) error {
	return do(ctx, lock, fn, opts)
}
