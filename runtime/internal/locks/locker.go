package locks

import "context"

// A Locker is a member of a MultiLock.
type Locker interface {
	Lock(ctx context.Context, opts ...LockOption) (*Lease, error)
	TryLock(ctx context.Context, opts ...LockOption) (*Lease, error)
	// Key returns the name of the lock for errors, and for its position among the members of a
	// MultiLock.
	Key() string
}

var _ Locker = (*Mutex)(nil)
