package lockrt

import (
	"context"
	"fmt"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// A counter is this process's side of one key that counts, with the client that sends its requests, see [engine.Counter].
type counter struct {
	referenced
	engine.Counter[wish]

	kind    string
	of      counting
	permits map[*Permit]struct{} // that this process holds; guarded by mu
}

// A counting is the thing that a counter counts: permits, or the open latch.
type counting interface {
	engine.Counting[wish]
	// channel is the channel on which Redisson announces a change.
	channel() string
	// hear gets the message of the channel.
	hear(payload string)
}

type (
	countBatch  = engine.CountBatch[wish]
	countAnswer = engine.CountAnswer
)

// A demand is the demand of a waiter at a counter.
type demand struct {
	engine.Demand

	permit *Permit // the permit for the waiter, or nil
}

// pollCounted is the interval in which a waiter asks without any message: some programs release
// without one.
const pollCounted = 5 * time.Second

// counted are the kinds that count.
var counted = []string{kindSemaphore, kindPermit, kindLatch}

// countersOf returns the counters of a kind.
func (c *Client) countersOf(kind string) *registry[*counter] {
	switch kind {
	case kindSemaphore:
		return &c.semaphores
	case kindPermit:
		return &c.permits
	}
	return &c.latches
}

func newCounter(c *Client, kind, key string) *counter {
	ct := &counter{referenced: referenced{c: c, key: key}, kind: kind, permits: map[*Permit]struct{}{}}
	switch kind {
	case kindSemaphore:
		ct.of = semaphoreCounter{ct}
	case kindPermit:
		ct.of = permitCounter{semaphoreCounter{ct}}
	case kindLatch:
		ct.of, ct.Alike = &latchCounter{counter: ct}, true
	}
	ct.Init(ct.of, &ct.mu)
	return ct
}

func (ct *counter) channel(*waiter) string { return ct.of.channel() }
func (ct *counter) hear(payload string)    { ct.of.hear(payload) }
func (ct *counter) join(w *waiter) entry   { return ct.Join(w) }
func (ct *counter) ask(w *waiter)          { ct.Ask(w) }
func (ct *counter) leave(w *waiter)        { ct.Leave(w) }
func (ct *counter) remind(*waiter)         { ct.Wake() }

// last returns the last answer of Redis. Permits of this process are no reason to wait.
func (ct *counter) last(*waiter) (held bool, said engine.AnswerLog) { return false, ct.Last() }

// The common part of countings.

func (ct *counter) Number() uint64                  { return ct.c.ticketNumbers.Add(1) }
func (ct *counter) Granting() bool                  { return ct.c.granting() }
func (ct *counter) Grant(*waiter, time.Time) bool   { return true }
func (ct *counter) Pause(d time.Duration) bool      { return ct.c.pause(d) }
func (ct *counter) Backoff(tries int) time.Duration { return ct.c.opts.Retry.pause(tries) }
func (ct *counter) Fate(err error) (unknown, again bool) {
	return transport.Unknown(err) || transport.Unconfirmed(err), passing(err)
}

func (ct *counter) Spawn(f func()) {
	ct.stay()
	ct.c.spawn(func() {
		defer ct.quit()
		f()
	})
}

func (ct *counter) Abandoned(batch bool, err error) {
	if batch {
		ct.c.opts.Logger.Warn("lockgen: a request could not be withdrawn; what it took may be lost", "kind", ct.kind, "key", ct.key, "error", err)
		return
	}
	ct.c.opts.Logger.Warn("lockgen: a change may not have been made", "kind", ct.kind, "key", ct.key, "error", err)
}

// roundOf returns a batch in the form of the scripts that grant.
func roundOf(b *countBatch, number, oldest uint64) protocol.Round {
	return protocol.Round{Request: numbered(number, oldest), Again: b.Again, Create: b.Parts[0].Demand.Create}
}

// numbered returns a request in the form of the scripts.
func numbered(number, oldest uint64) protocol.Request {
	return protocol.Request{Number: number, Oldest: oldest, Keep: engine.KeepResults}
}

// inTime returns an error for the reply to a request that the client gave up before.
func inTime(n int64, err error) (int64, error) {
	if err == nil && n == protocol.Outdated {
		err = protocol.ErrOutdated
	}
	return n, err
}

// change makes a script change the count, once, however often it is sent: for the caller until ctx ends, at most for
// Options.OpTimeout, and then, if anyway is set, in the background.
func (ct *counter) change(ctx context.Context, anyway bool, cmd func(protocol.Request) protocol.Command) (int64, error) {
	n, answered, err := ct.Change(ctx, ct.c.opts.OpTimeout, anyway, func(number, oldest uint64) (int64, error) {
		reply, _ := ct.c.net.RunInTime(nil, cmd(numbered(number, oldest)))
		return inTime(reply.Int())
	})
	return ct.changed(ctx, anyway, n, answered, err)
}

// insist calls send until it is answered, like change.
func (ct *counter) insist(ctx context.Context, anyway bool, send func() (int64, error)) (int64, error) {
	n, answered, err := ct.Insist(ctx, ct.c.opts.OpTimeout, anyway, send)
	return ct.changed(ctx, anyway, n, answered, err)
}

// changed returns the outcome of a change for its caller.
func (ct *counter) changed(ctx context.Context, anyway bool, n int64, answered bool, err error) (int64, error) {
	switch {
	case answered:
		return n, refused(err)
	case ctx.Err() != nil:
		return 0, ended(ctx)
	case anyway:
		return 0, fmt.Errorf("%w: no answer within %v; it is done as soon as Redis answers", ErrUnavailable, ct.c.opts.OpTimeout)
	}
	return 0, fmt.Errorf("%w: no answer within %v", ErrUnavailable, ct.c.opts.OpTimeout)
}

// change changes the count of a key. A change with anyway does not end with ctx, nor when the client is closed.
func (c *Client) change(ctx context.Context, op, kind, key string, anyway bool, make func(ctx context.Context, ct *counter) (int64, error)) (int64, error) {
	fail := func(err error) (int64, error) { return 0, &Error{Op: op, Key: key, Err: err} }
	if ctx = present(ctx); anyway {
		ctx = context.WithoutCancel(ctx)
	}
	if err := c.ready(ctx, kind, key, nil); err != nil {
		return fail(err)
	}
	ct, err := c.countersOf(kind).enter(key, anyway)
	if err != nil {
		return fail(err)
	}
	defer ct.exit()
	n, err := make(ctx, ct)
	if err != nil {
		return fail(err)
	}
	return n, nil
}

// count makes a call wait at the counter of a key until the demand of want is granted.
func (a *attempt) count(ctx context.Context, want func() *demand) error {
	c, cfg := a.c, a.cfg
	if err := c.ready(ctx, a.kind, a.key, a.err); err != nil {
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

// enough returns why n is unusable as a number of permits, or nil.
func enough(n, least int) error {
	const most = 1<<31 - 1 // Redisson's, which counts in 32 bits
	switch {
	case n < least:
		return fmt.Errorf("%w: %d permits are fewer than %d", ErrBadOption, n, least)
	case n > most:
		return fmt.Errorf("%w: %d permits are more than Redisson can count, %d", ErrBadOption, n, most)
	}
	return nil
}

// close ends the permits of this process, because the client is closed. It sends nothing to Redis.
func (ct *counter) close() {
	ct.mu.Lock()
	permits := make([]*Permit, 0, len(ct.permits))
	for p := range ct.permits {
		permits = append(permits, p)
	}
	ct.mu.Unlock()
	for _, p := range permits {
		p.end(ErrClosed)
	}
}
