package lockouter

import (
	"context"

	lockrt "github.com/lockgen/lockgen/runtime"
)

type ID string

func again(ctx context.Context, c *lockrt.Client) error {
	return c.Mutex("a").Do(ctx, func(inner context.Context, _ *lockrt.Lease) error {
		lease, err := c.Mutex("a").Lock(ctx) // want `Lock asks with ctx, from outside of the lock that is held here: use the context that the function is given`
		if err != nil {
			return err
		}
		defer lease.Unlock(ctx)
		return c.Mutex("b").Do(ctx, func(context.Context, *lockrt.Lease) error { // want `Do asks with ctx`
			_, err := c.Mutex("c").TryLock(inner)
			return err
		})
	})
}

func innermost(ctx context.Context, c *lockrt.Client) error {
	return c.Mutex("a").Do(ctx, func(ctx context.Context, _ *lockrt.Lease) error {
		return c.FairMutex("b").Do(ctx, func(inner context.Context, _ *lockrt.Lease) error {
			_ = c.RWMutex("c").RDo(ctx, func(context.Context, *lockrt.Lease) error { return nil }) // want `RDo asks with ctx`
			_, _ = c.RWMutex("d").RLock(ctx)                                                       // want `RLock asks with ctx`
			_, _ = c.PermitSemaphore("e", 1).Acquire(ctx)                                          // want `Acquire asks with ctx`
			_, _ = c.Election("f").Campaign(ctx, "")                                               // want `Campaign asks with ctx`
			return c.Mutex("g").Do(inner, func(context.Context, *lockrt.Lease) error { return nil })
		})
	})
}

func leading(ctx context.Context, c *lockrt.Client) error {
	return c.Election("f").Lead(ctx, "", func(inner context.Context, _ *lockrt.Leadership) error {
		go func() {
			_, _ = c.Mutex("a").Lock(ctx) // want `Lock asks with ctx`
		}()
		if _, err := c.Mutex("a").TryLock(ctx); err == nil {
			return nil
		}
		_, err := c.Mutex("a").Inspect(ctx)
		return err
	})
}

func one(ctx context.Context, c *lockrt.Client) error {
	if err := c.Mutex("a").Do(ctx, func(ctx context.Context, _ *lockrt.Lease) error {
		lease, err := c.Mutex("a").Lock(ctx)
		if err != nil {
			return err
		}
		return lease.Unlock(ctx)
	}); err != nil {
		return err
	}
	return c.Mutex("b").Do(ctx, func(context.Context, *lockrt.Lease) error { return nil })
}

func replaced(ctx context.Context, c *lockrt.Client) error {
	return c.Mutex("a").Do(ctx, func(inner context.Context, _ *lockrt.Lease) error {
		ctx = inner
		return c.Mutex("a").Do(ctx, func(context.Context, *lockrt.Lease) error { return nil })
	})
}
