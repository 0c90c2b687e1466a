package lockrt

import (
	"context"

	"github.com/lockgen/lockgen/runtime/internal/locks"
)

// A FairMutex is a [Mutex] that Redis grants in the order of the requests, of all goroutines and Java threads. A call that gives up leaves
// its place to the next call of its Client, if that begins within 10ms and has the same options: so calls with short contexts get the key, too.
// Redisson's RFairLock.
//
// Each waiting goroutine is an owner of its own in Redisson's wait queue. Neighbours of one process hand the key on
// without a round trip, [Options.Cohort] at most in a row, and 64 at most; so a grant costs one command, and a hand-over to another
// process one more. A dead waiting process delays the waiters behind it for two seconds when it is next, each waiting thread of a
// dead Java program for [Options.FairWait] at most. The Client sends a request without an answer again after 250ms, over another connection.
// docs/details.md has the exact rules.
type FairMutex locks.FairMutex

// FairMutex returns the fair mutex named key. Redisson's getFairLock.
func (c *Client) FairMutex(key string, opts ...LockOption) *FairMutex {
	return (*FairMutex)((*locks.Client)(c).FairMutex(key, optionsOf(opts)...))
}

// Key returns the name of the mutex, its key in Redis.
func (m *FairMutex) Key() string { return (*locks.FairMutex)(m).Key() }

// Lock waits for the key. Redisson's lock and tryLock(waitTime, ...).
func (m *FairMutex) Lock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	lease, err := (*locks.FairMutex)(m).Lock(ctx, optionsOf(opts)...)
	return (*Lease)(lease), err
}

// TryLock tries once, without entering the queue; it fails if there is a holder or a waiter. Redisson's tryLock.
func (m *FairMutex) TryLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	lease, err := (*locks.FairMutex)(m).TryLock(ctx, optionsOf(opts)...)
	return (*Lease)(lease), err
}

// Do is [Mutex.Do].
func (m *FairMutex) Do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error, opts ...LockOption) error {
	return do(ctx, m, fn, opts)
}

// ForceUnlock is [Mutex.ForceUnlock]. The next waiter has the key.
func (m *FairMutex) ForceUnlock(ctx context.Context) (bool, error) {
	return (*locks.FairMutex)(m).ForceUnlock(ctx)
}

// Inspect asks Redis for the holder of the key and the number of waiters. Redisson's isLocked.
func (m *FairMutex) Inspect(ctx context.Context) (Standing, error) {
	return (*locks.FairMutex)(m).Inspect(ctx)
}
