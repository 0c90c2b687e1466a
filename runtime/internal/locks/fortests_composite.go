package locks

// QuorumQueues returns for how many RedLocks goroutines of the client wait in the queue.
func QuorumQueues(c *Client) int {
	queues := queuesOf(c)
	queues.mu.Lock()
	defer queues.mu.Unlock()
	return len(queues.all)
}

// RedLockOf returns a RedLock whose parts are mutexes, of whatever servers.
func RedLockOf(mutexes ...*Mutex) *RedLock { return newRedLock(mutexes) }

// MembersOf returns the members of a MultiLock in their order.
func MembersOf(m *MultiLock) []Locker { return m.members }

// PartsOf returns how many parts a lease has by now.
func PartsOf(l *Lease) int { return len(l.rare().parts.all()) }
