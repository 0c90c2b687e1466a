package locks

import (
	"context"

	"github.com/lockgen/lockgen/runtime/internal/counting"
	"github.com/lockgen/lockgen/runtime/observe"
)

// A CountDownLatch is a count for whose end calls wait: lockrt.CountDownLatch.
type CountDownLatch struct {
	c    *Client
	key  string
	opts []LockOption
}

func (c *Client) CountDownLatch(key string, opts ...LockOption) *CountDownLatch {
	return &CountDownLatch{c: c.made(), key: key, opts: opts}
}

func (l *CountDownLatch) Key() string { return orZero(l).key }

func (l *CountDownLatch) SetCount(ctx context.Context, n int) (bool, error) {
	l = orZero(l)
	if err := enough(n, 1); err != nil {
		return false, &observe.Error{Op: "set count", Key: l.key, Err: err}
	}
	started, err := l.c.change(ctx, "set count", kindLatch, l.key, false, func(k *counting.Count, ctx context.Context) (int64, error) {
		return k.Start(ctx, n)
	})
	return started == 1, err
}

// CountDown goes on in the background for a minute: after an error, another call could count twice.
func (l *CountDownLatch) CountDown(ctx context.Context) (int, error) {
	l = orZero(l)
	left, err := l.c.change(ctx, "count down", kindLatch, l.key, true, (*counting.Count).CountDown)
	return int(left), err
}

func (l *CountDownLatch) Count(ctx context.Context) (int, error) {
	l = orZero(l)
	if err := l.c.core().checkCounted(kindLatch, l.key); err != nil {
		return 0, &observe.Error{Op: "count", Key: l.key, Err: err}
	}
	return answer(ctx, l.c.core(), "count", l.key, func() (int, error) {
		latch := l.c.wire.Latch(l.key)
		n, err := l.c.net.Ask(latch.Count()).Int()
		return int(max(n, 0)), err
	})
}

func (l *CountDownLatch) Wait(ctx context.Context, opts ...LockOption) error {
	l, ctx = orZero(l), present(ctx)
	a := attempt{c: l.c.core(), op: "wait", kind: kindLatch, key: l.key}
	a.begin(ctx, l.opts, opts)
	err := l.c.count(ctx, &a, func() *counting.Demand { return new(counting.Demand) })
	return a.counted(err)
}

func (l *CountDownLatch) Delete(ctx context.Context) (bool, error) {
	l = orZero(l)
	deleted, err := l.c.change(ctx, "delete", kindLatch, l.key, false, (*counting.Count).Delete)
	return deleted == 1, err
}
