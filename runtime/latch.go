package lockrt

import (
	"context"

	"github.com/lockgen/lockgen/runtime/internal/locks"
)

// A CountDownLatch lets processes wait until a count is zero. A latch at zero does not exist and can be set again.
// Waiting calls fail with [ErrDeleted] when the latch is deleted. Redisson's RCountDownLatch.
type CountDownLatch locks.CountDownLatch

// CountDownLatch returns the latch named key. Redisson's getCountDownLatch.
func (c *Client) CountDownLatch(key string, opts ...LockOption) *CountDownLatch {
	return (*CountDownLatch)((*locks.Client)(c).CountDownLatch(key, optionsOf(opts)...))
}

// Key returns the name of the latch, its key in Redis.
func (l *CountDownLatch) Key() string { return (*locks.CountDownLatch)(l).Key() }

// SetCount starts the latch at n, at least 1, and reports false if it is running already. Redisson's trySetCount.
func (l *CountDownLatch) SetCount(ctx context.Context, n int) (bool, error) {
	return (*locks.CountDownLatch)(l).SetCount(ctx, n)
}

// CountDown lowers the count by one and returns the new count; at zero it wakes all waiting calls. For a latch that does not
// exist it changes nothing and returns 0. Its context is that of [Lease.Unlock]; it goes on in the background for a
// minute: after an error, another call could count twice. Redisson's countDown.
func (l *CountDownLatch) CountDown(ctx context.Context) (int, error) {
	return (*locks.CountDownLatch)(l).CountDown(ctx)
}

// Count asks Redis for the count, 0 without a latch. Redisson's getCount.
func (l *CountDownLatch) Count(ctx context.Context) (int, error) {
	return (*locks.CountDownLatch)(l).Count(ctx)
}

// Wait returns nil when the count is zero, at once if the latch does not exist. It fails with [ErrDeleted] if any program
// deletes the latch, also in Java. If a latch is set again right after zero, calls that have not learned of the
// zero yet may go on waiting. Redisson's await.
func (l *CountDownLatch) Wait(ctx context.Context, opts ...LockOption) error {
	return (*locks.CountDownLatch)(l).Wait(ctx, optionsOf(opts)...)
}

// Delete removes the latch and reports whether there was one. Waiting Java threads go on waiting. Redisson's delete.
func (l *CountDownLatch) Delete(ctx context.Context) (bool, error) {
	return (*locks.CountDownLatch)(l).Delete(ctx)
}
