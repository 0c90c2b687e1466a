package lockrt

import (
	"container/list"
	"context"
	"fmt"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// enroll numbers a request.
func (ct *counter) enroll() *list.Element { return ct.numbers.PushBack(ct.c.ticketNumbers.Add(1)) }

// numbered returns a request in the form of the scripts.
func (ct *counter) numbered(number *list.Element) protocol.Request {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	return protocol.Request{Number: number.Value.(uint64), Oldest: ct.numbers.Front().Value.(uint64), Keep: keepResults}
}

// change makes a script change the count, once, however often it is sent: for the caller until ctx ends, at most for
// Options.OpTimeout, and then, if anyway is set, in the background.
func (ct *counter) change(ctx context.Context, anyway bool, cmd func(protocol.Request) protocol.Command) (int64, error) {
	return ct.once(ctx, anyway, func(r protocol.Request) (int64, error) {
		reply, _ := ct.c.net.RunInTime(nil, cmd(r))
		return reply.Int()
	})
}

// once calls send with a numbered request, like change.
func (ct *counter) once(ctx context.Context, anyway bool, send func(protocol.Request) (int64, error)) (int64, error) {
	ct.mu.Lock()
	number := ct.enroll()
	ct.mu.Unlock()
	settled := func() {
		ct.mu.Lock()
		defer ct.mu.Unlock()
		ct.numbers.Remove(number)
	}
	return ct.insist(ctx, anyway, settled, func() (int64, error) {
		n, err := send(ct.numbered(number))
		if err == nil && n == protocol.Outdated {
			err = protocol.ErrOutdated
		}
		return n, err
	})
}

// insist calls send until it is answered, like change, and then settled. It gives up in the end.
func (ct *counter) insist(ctx context.Context, anyway bool, settled func(), send func() (int64, error)) (int64, error) {
	type reply struct {
		n   int64
		err error
	}
	limit := time.Now().Add(min(insistence, ct.c.opts.OpTimeout)) // after that Redis may have forgotten the result
	over := limit
	if anyway {
		over = time.Now().Add(insistence)
	}
	done := make(chan reply, 1)
	ct.stay()
	ct.c.spawn(func() {
		defer ct.quit()
		finish := func(n int64, err error) {
			settled() // first, so that the caller's next request tells Redis that this one is settled
			done <- reply{n, err}
		}
		var down outage
		for last := false; ; {
			n, err := send()
			if err == nil || !passing(err) {
				finish(n, err)
				return
			}
			pause := down.pause(ct.c.opts.Retry, err)
			switch again := time.Now().Add(pause); {
			case again.Before(limit):
				<-time.After(pause)
			case again.Before(over) && ct.c.pause(pause):
			case again.Before(over) && !last: // the client is closed
				last = true
			default:
				finish(n, err)
				if anyway {
					ct.c.opts.Logger.Warn("lockgen: a change may not have been made", "kind", ct.kind, "key", ct.key, "error", err)
				}
				return
			}
		}
	})
	timer := time.NewTimer(ct.c.opts.OpTimeout)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.n, refused(r.err)
	case <-ctx.Done():
		return 0, ended(ctx)
	case <-timer.C:
		if anyway {
			return 0, fmt.Errorf("%w: no answer within %v; it is done as soon as Redis answers", ErrUnavailable, ct.c.opts.OpTimeout)
		}
		return 0, fmt.Errorf("%w: no answer within %v", ErrUnavailable, ct.c.opts.OpTimeout)
	}
}

// change changes the count of a key, and wakes its waiters in this process. A change with anyway does not end with ctx,
// nor when the client is closed.
func (c *Client) change(ctx context.Context, op, kind, key string, anyway bool, make func(ctx context.Context, ct *counter) (int64, error)) (int64, error) {
	fail := func(err error) (int64, error) { return 0, &Error{Op: op, Key: key, Err: err} }
	if ctx = present(ctx); anyway {
		ctx = context.WithoutCancel(ctx)
	}
	if err := c.checkCounted(kind, key); err != nil {
		return fail(err)
	}
	if ctx.Err() != nil {
		return fail(ended(ctx))
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
	ct.wake()
	return n, nil
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
