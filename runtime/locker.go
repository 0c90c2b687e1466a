package lockrt

import "context"

// A Locker is a lock with at most one holder at a time: what the exclusive locks of this package have in common. TestLocker of package
// locktest tests what it promises, also of other implementations.
type Locker interface {
	Lock(ctx context.Context, opts ...LockOption) (*Lease, error)
	TryLock(ctx context.Context, opts ...LockOption) (*Lease, error)
	// Key names the lock in errors, and says when its turn is among the members of a [MultiLock].
	Key() string
}

var _ Locker = (*Mutex)(nil)
