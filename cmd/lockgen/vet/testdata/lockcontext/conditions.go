package lockcontext

import (
	"context"
	"errors"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// ok reports whether there is no error.
func ok(err error) bool { return err == nil }

func reportsTheError(ctx context.Context, m *lockrt.Mutex) error {
	lease, err := m.Lock(ctx)
	if !ok(err) {
		return work(ctx)
	}
	defer lease.Unlock(ctx)
	return work(lease.Context())
}

func reportsCertainErrors(ctx context.Context, m *lockrt.Mutex) error {
	lease, err := m.Lock(ctx)
	if errors.Is(err, lockrt.ErrNotAcquired) {
		return work(ctx)
	}
	defer lease.Unlock(ctx)
	return work(ctx) // want `ctx does not end when the lock is lost`
}
