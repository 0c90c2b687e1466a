package unlock

import (
	"context"
	"errors"
	"time"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/gen"
)

type ID string

func dropped(ctx context.Context, c *lockrt.Client) error {
	c.Mutex("a").Lock(ctx)              // want `the lease is dropped`
	_, err := c.Mutex("a").TryLock(ctx) // want `the lease is dropped`
	return err
}

func meantToStay(ctx context.Context, c *lockrt.Client) error {
	_, err := c.Mutex("a").Lock(ctx, lockrt.WithLease(time.Hour))
	return err
}

func meantToStayAsTheLockSays(ctx context.Context, c *lockrt.Client, opts []lockrt.LockOption) error {
	if _, err := c.Mutex("a", lockrt.WithLease(time.Hour)).TryLock(ctx); err != nil {
		return err
	}
	rw := c.RWMutex("a", lockrt.WithMaxHold(time.Hour))
	if _, err := rw.RLocker().Lock(ctx); err != nil {
		return err
	}
	m := c.Mutex("a", opts...)
	if _, err := m.TryLock(ctx); err != nil {
		return err
	}
	m2 := c.Mutex("a", lockrt.WithWait(time.Second))
	_, err := m2.TryLock(ctx) // want `the lease is dropped`
	return err
}

func onOnePath(ctx context.Context, c *lockrt.Client, stop bool) error {
	lease, err := c.Mutex("a").Lock(ctx) // want `lease is not unlocked on the way that returns at line 48: defer lease.Unlock\(ctx\)`
	if err != nil {
		return err
	}
	if stop {
		return nil
	}
	return lease.Unlock(ctx)
}

func never(ctx context.Context, c *lockrt.Client) {
	held, err := c.Mutex("a").Lock(ctx) // want `held is not unlocked on the way that returns at line 58`
	if err == nil {
		println(held.Context(), held.Err())
	}
}

func generated(ctx context.Context, c *lockrt.Client, spec *gen.Spec) (err error) {
	held, err := gen.With(c).Acquire(ctx, spec, "a") // want `defer held.Release\(&err\)`
	if err != nil {
		return err
	}
	if err := work(held.Context()); err != nil {
		return err
	}
	held.Release(&err)
	return err
}

func laterError(ctx context.Context, c *lockrt.Client) error {
	lease, err := c.Mutex("a").Lock(ctx) // want `lease is not unlocked on the way that returns at line \d+`
	if err != nil {
		return err
	}
	err = work(lease.Context())
	if err != nil {
		return err
	}
	return lease.Unlock(ctx)
}

func deferred(ctx context.Context, c *lockrt.Client) error {
	lease, err := c.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Unlock(ctx)
	return work(lease.Context())
}

func deferredInside(ctx context.Context, c *lockrt.Client) (err error) {
	lease, err := c.Mutex("a").Lock(ctx)
	if errors.Is(err, lockrt.ErrNotAcquired) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Unlock(ctx)) }()
	return work(lease.Context())
}

func eachWay(ctx context.Context, c *lockrt.Client) error {
	lease, err := c.Mutex("a").Lock(ctx)
	switch {
	case errors.Is(err, lockrt.ErrNotAcquired):
		return nil
	case err != nil:
		return err
	}
	if err := work(lease.Context()); err != nil {
		lease.Unlock(ctx)
		return err
	}
	return lease.Unlock(ctx)
}

func inLoop(ctx context.Context, c *lockrt.Client) error {
	for range 3 {
		lease, err := c.Mutex("a").TryLock(ctx)
		if !errors.Is(err, lockrt.ErrNotAcquired) && err != nil {
			return err
		}
		if err != nil || lease == nil {
			continue
		}
		if err := lease.Unlock(ctx); err != nil {
			return err
		}
	}
	return nil
}

func ifLocked(ctx context.Context, c *lockrt.Client) {
	if lease, err := c.Mutex("a").TryLock(ctx); err == nil {
		defer lease.Unlock(ctx)
		work(lease.Context())
	}
}

func panics(ctx context.Context, c *lockrt.Client) {
	lease, err := c.Mutex("a").TryLock(ctx)
	if err != nil {
		panic(err)
	}
	_ = lease
	panic("the process ends")
}

// The caller gets it, and has to unlock it.

func returned(ctx context.Context, c *lockrt.Client) (*lockrt.Lease, error) {
	lease, err := c.Mutex("a").Lock(ctx)
	return lease, err
}

func handedOn(ctx context.Context, m lockrt.EntityMutex[ID]) error {
	held, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	go finish(ctx, held)
	return nil
}

func finish(ctx context.Context, held lockrt.EntityLease[lockrt.Held[ID]]) { held.Unlock(ctx) }

func closure(ctx context.Context, c *lockrt.Client) (func(), error) {
	lease, err := c.Mutex("a").Lock(ctx)
	if err != nil {
		return nil, err
	}
	return func() { lease.Unlock(ctx) }, nil
}

func methodValue(ctx context.Context, c *lockrt.Client, cleanup func(func(context.Context) error)) error {
	lease, err := c.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	cleanup(lease.Unlock)
	return nil
}

type keeper struct{ lease *lockrt.Lease }

func (k *keeper) field(ctx context.Context, c *lockrt.Client) (err error) {
	k.lease, err = c.Mutex("a").Lock(ctx)
	return err
}

func named(ctx context.Context, c *lockrt.Client) (lease *lockrt.Lease, err error) {
	lease, err = c.Mutex("a").Lock(ctx)
	return
}

func work(context.Context) error { return nil }

func permit(ctx context.Context, s *lockrt.PermitSemaphore, stop bool) error {
	p, err := s.Acquire(ctx) // want `p is not released on the way that returns at line \d+: defer p.Release\(ctx\)`
	if err != nil {
		return err
	}
	if stop {
		return nil
	}
	return p.Release(ctx)
}

func shared(ctx context.Context, c *lockrt.Client) error {
	lease, err := c.RWMutex("a").RLock(ctx) // want `lease is not unlocked`
	if err != nil {
		return err
	}
	return work(lease.Context())
}

func otherError(ctx context.Context, c *lockrt.Client) error {
	lease, err := c.Mutex("a").Lock(ctx)
	if err := errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	return lease.Unlock(ctx)
}

func kinds(ctx context.Context, s lockrt.EntitySemaphore[ID], m lockrt.EntityMulti[ID], f lockrt.EntityFairMutex[ID]) error {
	permit, err := s.TryAcquire(ctx) // want `permit is not released on the way that returns at line \d+: defer permit.Release\(ctx\)`
	if err != nil {
		return err
	}
	several, err := m.Lock(ctx) // want `several is not unlocked on the way that returns at line \d+: defer several.Unlock\(ctx\)`
	if err != nil {
		return errors.Join(err, permit.Release(ctx))
	}
	fair, err := f.Lock(ctx) // want `fair is not unlocked on the way that returns at line \d+: defer fair.Unlock\(ctx\)`
	if err != nil {
		return errors.Join(err, several.Unlock(ctx), permit.Release(ctx))
	}
	if fair.Err() == nil {
		return errors.Join(several.Err(), permit.Err())
	}
	return fair.Unlock(ctx)
}

func byItsID(ctx context.Context, s *lockrt.PermitSemaphore) error {
	permit, err := s.Acquire(ctx)
	if err != nil {
		return err
	}
	defer s.Release(ctx, permit.PermitID())
	return work(permit.Context())
}
