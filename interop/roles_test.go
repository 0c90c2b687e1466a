package interop

import (
	"context"
	"fmt"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// release gives back what was acquired.
type release func(ctx context.Context) error

// acquire waits until it has what key names.
type acquire func(ctx context.Context, key string) (release, error)

// A role is what one side does with a key, in either language.
type role struct {
	inGo   func(c *lockrt.Client) acquire
	inJava func(th thread) acquire
}

// locking is the role of who locks. Redisson's kind of lock is one that the Java program knows.
func locking(kind string, lock func(c *lockrt.Client, key string) lockrt.Locker) role {
	return role{
		inGo: func(c *lockrt.Client) acquire {
			return func(ctx context.Context, key string) (release, error) {
				lease, err := lock(c, key).Lock(ctx)
				if err != nil {
					return nil, err
				}
				return lease.Unlock, nil
			}
		},
		inJava: func(th thread) acquire {
			return func(ctx context.Context, key string) (release, error) {
				if _, err := th.call(ctx, "lock", kind, key, "0"); err != nil {
					return nil, err
				}
				return func(ctx context.Context) error {
					_, err := th.call(ctx, "unlock", kind, key)
					return err
				}, nil
			}
		},
	}
}

var (
	mutexRole = locking("lock", func(c *lockrt.Client, key string) lockrt.Locker { return c.Mutex(key) })

	fencedRole = locking("fenced", func(c *lockrt.Client, key string) lockrt.Locker {
		return c.Mutex(key, lockrt.WithFencing())
	})

	writeRole = locking("write", func(c *lockrt.Client, key string) lockrt.Locker { return c.RWMutex(key) })

	readRole = locking("read", func(c *lockrt.Client, key string) lockrt.Locker { return c.RWMutex(key).RLocker() })

	// semaphoreRole takes the only permit.
	semaphoreRole = role{
		inGo: func(c *lockrt.Client) acquire {
			return func(ctx context.Context, key string) (release, error) {
				s := c.Semaphore(key, 0)
				if _, err := s.TrySetPermits(ctx, 1, 0); err != nil {
					return nil, err
				}
				return func(ctx context.Context) error { return s.Release(ctx, 1) }, s.Acquire(ctx, 1)
			}
		},
		inJava: func(th thread) acquire {
			return func(ctx context.Context, key string) (release, error) {
				if _, err := th.call(ctx, "semaphoreSet", key, "1"); err != nil {
					return nil, err
				}
				_, err := th.call(ctx, "semaphoreAcquire", key, "1")
				return func(ctx context.Context) error {
					_, err := th.call(ctx, "semaphoreRelease", key, "1")
					return err
				}, err
			}
		},
	}

	// permitRole takes the only permit, for as long as it is renewed, or in Java for ever.
	permitRole = role{
		inGo: func(c *lockrt.Client) acquire {
			return func(ctx context.Context, key string) (release, error) {
				permit, err := c.PermitSemaphore(key, 1).Acquire(ctx)
				if err != nil {
					return nil, err
				}
				return permit.Release, nil
			}
		},
		inJava: func(th thread) acquire {
			return func(ctx context.Context, key string) (release, error) {
				if _, err := th.call(ctx, "permitSet", key, "1"); err != nil {
					return nil, err
				}
				id, err := th.call(ctx, "permitAcquire", key, "0")
				return func(ctx context.Context) error {
					_, err := th.call(ctx, "permitRelease", key, id)
					return err
				}, err
			}
		},
	}

	// setRole starts a latch, and counts it down to give it back.
	setRole = role{
		inGo: func(c *lockrt.Client) acquire {
			return func(ctx context.Context, key string) (release, error) {
				latch := c.CountDownLatch(key)
				started, err := latch.SetCount(ctx, 1)
				if err == nil && !started {
					err = fmt.Errorf("latch %s is running", key)
				}
				return func(ctx context.Context) error {
					_, err := latch.CountDown(ctx)
					return err
				}, err
			}
		},
		inJava: func(th thread) acquire {
			return func(ctx context.Context, key string) (release, error) {
				started, err := th.call(ctx, "latchSet", key, "1")
				if err == nil && started != "true" {
					err = fmt.Errorf("latch %s is running", key)
				}
				return func(ctx context.Context) error {
					_, err := th.call(ctx, "latchDown", key)
					return err
				}, err
			}
		},
	}

	// awaitRole waits for a latch, which leaves nothing to give back.
	awaitRole = role{
		inGo: func(c *lockrt.Client) acquire {
			return func(ctx context.Context, key string) (release, error) {
				return nothing, c.CountDownLatch(key).Wait(ctx)
			}
		},
		inJava: func(th thread) acquire {
			return func(ctx context.Context, key string) (release, error) {
				_, err := th.call(ctx, "latchAwait", key)
				return nothing, err
			}
		},
	}
)

func nothing(context.Context) error { return nil }
