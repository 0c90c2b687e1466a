package lockcontext

import (
	"context"
	"log/slog"

	lockrt "github.com/lockgen/lockgen/runtime"
)

type ID string

func work(context.Context, ...any) error { return nil }

func show(context.Context, lockrt.Held[ID]) error { return nil }

func old(ctx context.Context, c *lockrt.Client) error {
	lease, err := c.Mutex("a").Lock(ctx)
	if err != nil {
		return work(ctx)
	}
	defer lease.Unlock(ctx)
	slog.InfoContext(ctx, "locked")
	go func() {
		work(ctx) // want `ctx does not end when the lock is lost: work under lease.Context\(\)`
	}()
	return work(ctx, 1) // want `ctx does not end when the lock is lost`
}

func derived(ctx context.Context, m lockrt.EntityMutex[ID]) error {
	held, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer held.Unlock(ctx)
	own, cancel := context.WithTimeout(ctx, 1) // want `work under held.Context\(\)`
	defer cancel()
	if err := show(ctx, held.Held()); err != nil {
		return work(context.WithoutCancel(ctx))
	}
	return work(own)
}

func afterwards(ctx context.Context, c *lockrt.Client) error {
	lease, err := c.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	if err := lease.Unlock(ctx); err != nil {
		return err
	}
	return work(ctx)
}

func replaced(ctx context.Context, c *lockrt.Client) error {
	lease, err := c.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Unlock(ctx)
	ctx = lease.Context()
	return work(ctx)
}

func shadowed(ctx context.Context, c *lockrt.Client) error {
	lease, err := c.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Unlock(ctx)
	{
		ctx := lease.Context()
		return work(ctx)
	}
}

func do(ctx context.Context, c *lockrt.Client, m lockrt.EntityMutex[ID]) error {
	err := c.Mutex("a").Do(ctx, func(locked context.Context, lease *lockrt.Lease) error {
		return work(ctx) // want `work under the context that the function is given`
	})
	if err != nil {
		return work(ctx)
	}
	return m.Do(ctx, func(ctx context.Context, held lockrt.Held[ID]) error {
		return work(ctx)
	})
}

func doOthers(ctx context.Context, rw *lockrt.RWMutex, e lockrt.EntityRWMutex[ID], s lockrt.EntitySemaphore[ID], m lockrt.EntityMulti[ID], f lockrt.EntityFairMutex[ID]) error {
	_ = rw.RDo(ctx, func(locked context.Context, lease *lockrt.Lease) error {
		return work(ctx) // want `work under the context that the function is given`
	})
	_ = e.RDo(ctx, func(locked context.Context, held lockrt.HeldShared[ID]) error {
		return work(ctx) // want `work under the context that the function is given`
	})
	_ = s.Do(ctx, func(locked context.Context, held lockrt.HeldPermit[ID]) error {
		return work(ctx) // want `work under the context that the function is given`
	})
	_ = m.Do(ctx, func(locked context.Context, held lockrt.HeldMulti[ID]) error {
		return work(ctx) // want `work under the context that the function is given`
	})
	return f.Do(ctx, func(locked context.Context, held lockrt.Held[ID]) error {
		_ = work(locked)
		return work(ctx) // want `work under the context that the function is given`
	})
}

func others(ctx context.Context, s lockrt.EntitySemaphore[ID]) error {
	held, err := s.Acquire(ctx)
	if err != nil {
		return err
	}
	defer held.Release(ctx)
	_ = work(held.Context())
	return work(ctx) // want `ctx does not end when the lock is lost: work under held.Context\(\)`
}
