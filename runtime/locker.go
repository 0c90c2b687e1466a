package lockrt

import "context"

// A Locker is a lock with at most one holder at a time: the common part of the exclusive locks of this package.
// TestLocker of package locktest tests its promises, also for other implementations.
type Locker interface {
	Lock(ctx context.Context, opts ...LockOption) (*Lease, error)
	TryLock(ctx context.Context, opts ...LockOption) (*Lease, error)
	// Key returns the name of the lock for errors, and for its position among the members of a
	// [MultiLock].
	Key() string
}
