package locks

import (
	"context"
	"fmt"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/counting"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/resource"
	"github.com/lockgen/lockgen/runtime/observe"
)

// A counter is this process's side of one key that counts: the entry of a registry, and the contest of the calls that wait.
type counter struct {
	resource.Referenced
	counting.Counter[resource.Wish]
}

// countersOf returns the counters of a kind.
func (c *Client) countersOf(kind string) *resource.Registry[*counter] {
	switch kind {
	case core.KindSemaphore:
		return c.semaphores
	case core.KindPermit:
		return c.permits
	}
	return c.latches
}

// newCounter returns the counter of c for a key of that kind.
func newCounter(c *Client, kind, key string) *counter {
	ct := &counter{Referenced: resource.Referenced{Client: c.Base(), Key: key}}
	ct.Init(&c.counting, kind, key, counting.Entry{Stay: ct.Stay, Quit: ct.Quit}, &ct.Mu)
	return ct
}

func (ct *counter) Channel(*resource.Waiter) string { return ct.Counter.Channel() }
func (ct *counter) Remind(*resource.Waiter)         { ct.Wake() }

// Last returns the last answer of Redis. Permits of this process are no reason to wait.
func (ct *counter) Last(*resource.Waiter) (held bool, said engine.AnswerLog) {
	return false, ct.Counter.Last()
}

func (ct *counter) Held() []*resource.Grant { return nil }

func (ct *counter) Changed() { ct.Wake() }

func (ct *counter) EndsLinger() {}

func (ct *counter) EachWaiting(f func(w *resource.Waiter, kind string)) {
	ct.Mu.Lock()
	defer ct.Mu.Unlock()
	ct.Queue.Each(func(w *resource.Waiter) { f(w, ct.Kind) })
}

func (ct *counter) Subject(*resource.Waiter) (kind, key string) { return ct.Kind, ct.Key }

// A countingHost implements counting.Host for a client.
type countingHost struct {
	resource.Host

	c *Client
}

func (h countingHost) Later(key string, f func(k *counting.Count)) {
	if ct, err := h.c.permits.Enter(key, true); err == nil {
		h.c.base.Spawn(func() {
			defer ct.Exit()
			f(&ct.Count)
		})
	}
}

// change has f change the count of a key. With anyway, the change does not end with ctx, nor when the client is closed.
func (c *Client) change(ctx context.Context, op, kind, key string, anyway bool, f func(k *counting.Count, ctx context.Context) (int64, error)) (int64, error) {
	fail := func(err error) (int64, error) { return 0, &observe.Error{Op: op, Key: key, Err: err} }
	if ctx = core.Present(ctx); anyway {
		ctx = context.WithoutCancel(ctx)
	}
	if err := c.Core().Ready(ctx, kind, key, nil); err != nil {
		return fail(err)
	}
	ct, err := c.countersOf(kind).Enter(key, anyway)
	if err != nil {
		return fail(err)
	}
	defer ct.Exit()
	n, err := f(&ct.Count, ctx)
	if err != nil {
		return fail(err)
	}
	return n, nil
}

// count makes a call wait at the counter of a key until the demand of want is granted.
func (c *Client) count(ctx context.Context, a *leases.Attempt, want func() *counting.Demand) error {
	cfg := a.Config
	if err := c.Core().Ready(ctx, a.Kind, a.Key, a.Err); err != nil {
		return err
	}
	ct, err := c.countersOf(a.Kind).Enter(a.Key, false)
	if err != nil {
		return err
	}
	defer ct.Exit()
	w := resource.NewWaiter(ctx, nil, &cfg)
	w.For.CounterDemand = want()
	w.For.CounterDemand.MaxHold = cfg.MaxHold
	start := time.Now()
	err = c.base.Await(ctx, ct, w, &cfg, a.Waits)
	if err == nil && ctx.Err() != nil {
		err = core.Ended(ctx) // granted, but the caller does not want it any more
	}
	if err != nil {
		ct.Leave(w)
		return err
	}
	c.base.Counts.Waited(time.Since(start))
	return nil
}

// The functions below are for semaphores of both kinds.

// resize changes the number of permits.
func resize(ctx context.Context, c *Client, kind, key string, delta int) (bool, error) {
	if err := enough(max(delta, -delta), 0); err != nil {
		return false, &observe.Error{Op: "resize", Key: key, Err: err}
	}
	return addPermits(ctx, c, "resize", kind, key, delta, protocol.ReportMissing, false)
}

// addPermits adds permits, and reports whether it did, or whether the semaphore existed.
func addPermits(ctx context.Context, c *Client, op, kind, key string, n int, missing protocol.Missing, anyway bool) (bool, error) {
	done, err := c.change(ctx, op, kind, key, anyway, func(k *counting.Count, ctx context.Context) (int64, error) {
		return k.Add(ctx, n, missing, anyway)
	})
	return done == 1, err
}

// trySetPermits creates a semaphore.
func trySetPermits(ctx context.Context, c *Client, kind, key string, n int, ttl time.Duration) (bool, error) {
	err := enough(n, 0)
	if err == nil && ttl != 0 && ttl < leases.MinLease {
		err = leases.TooShort("time to live", ttl)
	}
	if err != nil {
		return false, &observe.Error{Op: "set permits", Key: key, Err: err}
	}
	done, err := c.change(ctx, "set permits", kind, key, false, func(k *counting.Count, ctx context.Context) (int64, error) {
		return k.Create(ctx, n, ttl)
	})
	return done == 1, err
}

// enough returns why n is unusable as a number of permits, or nil.
func enough(n, least int) error {
	const most = 1<<31 - 1 // Redisson's, which counts in 32 bits
	switch {
	case n < least:
		return fmt.Errorf("%w: %d permits are fewer than %d", failure.ErrBadOption, n, least)
	case n > most:
		return fmt.Errorf("%w: %d permits are more than Redisson can count, %d", failure.ErrBadOption, n, most)
	}
	return nil
}
