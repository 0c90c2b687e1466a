package lockrt

import (
	"context"

	"github.com/lockgen/lockgen/runtime/internal/counting"
)

// A CountDownLatch lets processes wait until a count is zero. A latch at zero does not exist and can be set again.
// Waiting calls fail with [ErrDeleted] when the latch is deleted. Redisson's RCountDownLatch.
type CountDownLatch struct {
	c    *Client
	key  string
	opts []LockOption
}

// CountDownLatch returns the latch named key. Redisson's getCountDownLatch.
func (c *Client) CountDownLatch(key string, opts ...LockOption) *CountDownLatch {
	return &CountDownLatch{c: c.made(), key: key, opts: opts}
}

// Key returns the name of the latch, its key in Redis.
func (l *CountDownLatch) Key() string { return orZero(l).key }

// SetCount starts the latch at n, at least 1, and reports false if it is running already. Redisson's trySetCount.
func (l *CountDownLatch) SetCount(ctx context.Context, n int) (bool, error) {
	l = orZero(l)
	if err := enough(n, 1); err != nil {
		return false, &Error{Op: "set count", Key: l.key, Err: err}
	}
	started, err := l.c.change(ctx, "set count", kindLatch, l.key, false, func(k *counting.Count, ctx context.Context) (int64, error) {
		return k.Start(ctx, n)
	})
	return started == 1, err
}

// CountDown lowers the count by one and returns the new count; at zero it wakes all waiting calls. For a latch that does not
// exist it changes nothing and returns 0. Its context is that of [Lease.Unlock]; it goes on in the background for a
// minute: after an error, another call could count twice. Redisson's countDown.
func (l *CountDownLatch) CountDown(ctx context.Context) (int, error) {
	l = orZero(l)
	left, err := l.c.change(ctx, "count down", kindLatch, l.key, true, (*counting.Count).CountDown)
	return int(left), err
}

// Count asks Redis for the count, 0 without a latch. Redisson's getCount.
func (l *CountDownLatch) Count(ctx context.Context) (int, error) {
	l = orZero(l)
	if err := l.c.checkCounted(kindLatch, l.key); err != nil {
		return 0, &Error{Op: "count", Key: l.key, Err: err}
	}
	return answer(ctx, l.c, "count", l.key, func() (int, error) {
		latch := l.c.wire.Latch(l.key)
		n, err := l.c.net.Ask(latch.Count()).Int()
		return int(max(n, 0)), err
	})
}

// Wait returns nil when the count is zero, at once if the latch does not exist. It fails with [ErrDeleted] if any program
// deletes the latch, also in Java. If a latch is set again right after zero, calls that have not learned of the
// zero yet may go on waiting. Redisson's await.
func (l *CountDownLatch) Wait(ctx context.Context, opts ...LockOption) error {
	l, ctx = orZero(l), present(ctx)
	a := attempt{c: l.c, op: "wait", kind: kindLatch, key: l.key}
	a.begin(ctx, l.opts, opts)
	err := a.count(ctx, func() *counting.Demand { return new(counting.Demand) })
	return a.counted(err)
}

// Delete removes the latch and reports whether there was one. Waiting Java threads go on waiting. Redisson's delete.
func (l *CountDownLatch) Delete(ctx context.Context) (bool, error) {
	l = orZero(l)
	deleted, err := l.c.change(ctx, "delete", kindLatch, l.key, false, (*counting.Count).Delete)
	return deleted == 1, err
}
