package composite

// Functions for the tests of package lockrt, which look at what no program sees. No other code calls them.

import (
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/locks"
)

// QuorumQueues returns for how many RedLocks goroutines of the client wait in the queue.
func QuorumQueues(c *locks.Client) int {
	queues := queuesOf(c)
	queues.mu.Lock()
	defer queues.mu.Unlock()
	return len(queues.all)
}

// RedLockOf returns a RedLock whose parts are mutexes, of whatever servers.
func RedLockOf(mutexes ...*locks.Mutex) *RedLock { return newRedLock(mutexes) }

// MembersOf returns the members of a MultiLock in their order.
func MembersOf(m *MultiLock) []locks.Locker { return m.members }

// PartsOf returns how many parts a lease has by now.
func PartsOf(l *leases.Lease) int { return len(l.Core().Rare().Parts.All()) }
