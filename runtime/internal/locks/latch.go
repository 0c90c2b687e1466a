package locks

import (
	"context"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/counting"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/observe"
)

// A CountDownLatch is a count for whose end calls wait: lockrt.CountDownLatch.
type CountDownLatch struct {
	c    *Client
	key  string
	opts []leases.Option
}

func (c *Client) CountDownLatch(key string, opts ...leases.Option) *CountDownLatch {
	return &CountDownLatch{c: c.Made(), key: key, opts: opts}
}

func (l *CountDownLatch) Key() string { return core.OrZero(l).key }

func (l *CountDownLatch) SetCount(ctx context.Context, n int) (bool, error) {
	l = core.OrZero(l)
	if err := enough(n, 1); err != nil {
		return false, &observe.Error{Op: "set count", Key: l.key, Err: err}
	}
	started, err := l.c.change(ctx, "set count", core.KindLatch, l.key, false, func(k *counting.Count, ctx context.Context) (int64, error) {
		return k.Start(ctx, n)
	})
	return started == 1, err
}

// CountDown goes on in the background for a minute: after an error, another call could count twice.
func (l *CountDownLatch) CountDown(ctx context.Context) (int, error) {
	l = core.OrZero(l)
	left, err := l.c.change(ctx, "count down", core.KindLatch, l.key, true, (*counting.Count).CountDown)
	return int(left), err
}

func (l *CountDownLatch) Count(ctx context.Context) (int, error) {
	l = core.OrZero(l)
	if err := l.c.Core().CheckCounted(core.KindLatch, l.key); err != nil {
		return 0, &observe.Error{Op: "count", Key: l.key, Err: err}
	}
	return core.Answer(ctx, l.c.Core(), "count", l.key, func() (int, error) {
		latch := l.c.base.Wire.Latch(l.key)
		n, err := l.c.base.Net.Ask(latch.Count()).Int()
		return int(max(n, 0)), err
	})
}

func (l *CountDownLatch) Wait(ctx context.Context, opts ...leases.Option) error {
	l, ctx = core.OrZero(l), core.Present(ctx)
	a := leases.Attempt{Client: l.c.Core(), Op: "wait", Kind: core.KindLatch, Key: l.key}
	a.Begin(ctx, l.opts, opts)
	err := l.c.count(ctx, &a, func() *counting.Demand { return new(counting.Demand) })
	return a.Counted(err)
}

func (l *CountDownLatch) Delete(ctx context.Context) (bool, error) {
	l = core.OrZero(l)
	deleted, err := l.c.change(ctx, "delete", core.KindLatch, l.key, false, (*counting.Count).Delete)
	return deleted == 1, err
}
