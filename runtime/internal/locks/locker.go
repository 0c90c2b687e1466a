package locks

import (
	"context"

	"github.com/lockgen/lockgen/runtime/internal/leases"
)

// A Locker is a member of a MultiLock.
type Locker interface {
	Lock(ctx context.Context, opts ...leases.Option) (*leases.Lease, error)
	TryLock(ctx context.Context, opts ...leases.Option) (*leases.Lease, error)
	// Key returns the name of the lock for errors, and for its position among the members of a MultiLock.
	Key() string
}
