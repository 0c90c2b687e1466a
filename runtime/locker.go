package lockrt

import "context"

// A Locker is a lock that at most one holder has at a time, whoever waits where: what all exclusive
// locks of this package have in common. [Mutex] is one. Code that only locks can take it instead of
// one of them. What it promises is tested by TestLocker of package locktest, which other
// implementations may run too.
type Locker interface {
	// Lock waits until the key is granted, ctx ends or [WithWait] runs out. After an error nothing
	// is held.
	Lock(ctx context.Context, opts ...LockOption) (*Lease, error)
	// TryLock tries once and fails with [ErrNotAcquired] if others have the key, and with [ErrUnavailable] if Redis does
	// not say whether they do.
	TryLock(ctx context.Context, opts ...LockOption) (*Lease, error)
	// Key names the lock, in errors too, and says when its turn is among the members of a [MultiLock].
	Key() string
}

var _ Locker = (*Mutex)(nil)
