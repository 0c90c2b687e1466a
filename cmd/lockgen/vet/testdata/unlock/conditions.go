package unlock

import (
	"context"
	"errors"

	lockrt "github.com/lockgen/lockgen/runtime"
)

type reply struct{}

// ok reports whether there is no error, and replies if there is one.
func ok(_ *reply, err error) bool { return err == nil }

func failed(err error) bool { return err != nil }

// code is 0 if there is no error.
func code(err error) int {
	if err == nil {
		return 0
	}
	return 1
}

func asksWhetherAllIsWell(ctx context.Context, m *lockrt.Mutex, r *reply) error {
	lease, err := m.Lock(ctx)
	if !ok(r, err) {
		return nil
	}
	defer lease.Unlock(ctx)
	return work(lease.Context())
}

func asksWhetherItFailed(ctx context.Context, m *lockrt.Mutex) error {
	lease, err := m.Lock(ctx)
	if failed(err) {
		return err
	}
	return lease.Unlock(ctx)
}

func comparesTheCode(ctx context.Context, m *lockrt.Mutex) error {
	lease, err := m.Lock(ctx)
	if code(err) == 0 {
		return lease.Unlock(ctx)
	}
	return err
}

func comparesTheCodeOnce(ctx context.Context, m *lockrt.Mutex) error {
	lease, err := m.Lock(ctx)
	if code(err) < 1 {
		return lease.Unlock(ctx)
	}
	return err
}

func switchesOverTheCode(ctx context.Context, m *lockrt.Mutex) error {
	lease, err := m.Lock(ctx)
	switch code(err) {
	case 0:
		return lease.Unlock(ctx)
	default:
		return err
	}
}

func isNone(ctx context.Context, m *lockrt.Mutex) error {
	lease, err := m.Lock(ctx)
	if errors.Is(err, nil) {
		return lease.Unlock(ctx)
	}
	return err
}

// Whether all is well says nothing where the function does not look at the error of the lock.
func asksAboutAnotherError(ctx context.Context, m *lockrt.Mutex, r *reply) error {
	lease, err := m.Lock(ctx) // want `lease is not unlocked on the way that returns at line \d+`
	if err != nil {
		return err
	}
	if err := work(lease.Context()); !ok(r, err) || code(err) == 1 {
		return nil
	}
	return lease.Unlock(ctx)
}

func asksWhichErrorAlone(ctx context.Context, c *lockrt.Client) error {
	lease, err := c.Mutex("a").Lock(ctx) // want `lease is not unlocked on the way that returns at line \d+`
	var key *lockrt.KeyError
	if errors.Is(err, lockrt.ErrNotAcquired) || errors.As(err, &key) {
		return err
	}
	return work(lease.Context())
}

func leavesBeforeItAsks(ctx context.Context, m *lockrt.Mutex, r *reply, stop bool) error {
	lease, err := m.Lock(ctx) // want `lease is not unlocked on the way that returns at line \d+`
	if stop && !errors.Is(err, lockrt.ErrNotAcquired) {
		return err
	}
	if !ok(r, err) {
		return nil
	}
	return lease.Unlock(ctx)
}

// A call that gets the error says nothing, but nothing unlocks the lease, whatever it says.
func asksAndNeverUnlocks(ctx context.Context, c *lockrt.Client) error {
	lease, err := c.Mutex("a").TryLock(ctx) // want `lease is not unlocked on the way that returns at line \d+`
	if failed(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return work(lease.Context())
}
