package locks

import (
	"context"
	"fmt"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/counting"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/observe"
)

// A counter is this process's side of one key that counts: the entry of a registry, and the contest of those that wait.
type counter struct {
	referenced
	counting.Counter[wish]
}

// counted are the kinds that count.
var counted = []string{kindSemaphore, kindPermit, kindLatch}

// countersOf returns the counters of a kind.
func (c *Client) countersOf(kind string) *registry[*counter] {
	switch kind {
	case kindSemaphore:
		return c.semaphores
	case kindPermit:
		return c.permits
	}
	return c.latches
}

func newCounter(c *Client, kind, key string) *counter {
	ct := &counter{referenced: referenced{c: c.line(), key: key}}
	ct.Init(&c.counting, kind, key, counting.Entry{Stay: ct.stay, Quit: ct.quit}, &ct.mu)
	return ct
}

func (ct *counter) channel(*waiter) string { return ct.Channel() }
func (ct *counter) hear(payload string)    { ct.Hear(payload) }
func (ct *counter) join(w *waiter) entry   { return ct.Join(w) }
func (ct *counter) ask(w *waiter)          { ct.Ask(w) }
func (ct *counter) leave(w *waiter)        { ct.Leave(w) }
func (ct *counter) remind(*waiter)         { ct.Wake() }
func (ct *counter) close()                 { ct.Close() }

// last returns the last answer of Redis. Permits of this process are no reason to wait.
func (ct *counter) last(*waiter) (held bool, said engine.AnswerLog) { return false, ct.Last() }

// change has f change the count of a key. A change with anyway does not end with ctx, nor when the client is closed.
func (c *Client) change(ctx context.Context, op, kind, key string, anyway bool, f func(k *counting.Count, ctx context.Context) (int64, error)) (int64, error) {
	fail := func(err error) (int64, error) { return 0, &observe.Error{Op: op, Key: key, Err: err} }
	if ctx = present(ctx); anyway {
		ctx = context.WithoutCancel(ctx)
	}
	if err := c.core().ready(ctx, kind, key, nil); err != nil {
		return fail(err)
	}
	ct, err := c.countersOf(kind).enter(key, anyway)
	if err != nil {
		return fail(err)
	}
	defer ct.exit()
	n, err := f(&ct.Count, ctx)
	if err != nil {
		return fail(err)
	}
	return n, nil
}

// count makes a call wait at the counter of a key until the demand of want is granted.
func (c *Client) count(ctx context.Context, a *attempt, want func() *counting.Demand) error {
	cfg := a.cfg
	if err := c.core().ready(ctx, a.kind, a.key, a.err); err != nil {
		return err
	}
	ct, err := c.countersOf(a.kind).enter(a.key, false)
	if err != nil {
		return err
	}
	defer ct.exit()
	w := newWaiter(ctx, nil, cfg)
	w.For.demand = want()
	start := time.Now()
	err = c.await(ctx, ct, w, cfg, a.waits)
	if err == nil && ctx.Err() != nil {
		err = ended(ctx) // granted, but the caller does not want it any more
	}
	if err != nil {
		ct.leave(w)
		return err
	}
	c.counts.waited(time.Since(start))
	return nil
}

// Semaphores of both kinds.

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
	if err == nil && ttl != 0 && ttl < MinLease {
		err = tooShort("time to live", ttl)
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

// A countingHost implements counting.Host for a client.
type countingHost struct {
	host

	c *Client
}

func (h countingHost) Later(key string, f func(k *counting.Count)) {
	if ct, err := h.c.permits.enter(key, true); err == nil {
		h.c.spawn(func() {
			defer ct.exit()
			f(&ct.Count)
		})
	}
}

func (ct *counter) held() []*grant { return nil }
func (ct *counter) changed()       { ct.Wake() }
func (ct *counter) endsLinger()    {}

func (ct *counter) subject(*waiter) (kind, key string) { return ct.Kind, ct.key }
