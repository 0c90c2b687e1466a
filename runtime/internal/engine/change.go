package engine

import (
	"context"
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// An Outage is a time without answers from Redis.
type Outage struct {
	Tries int
	Last  error
	since monotonic.Time
}

// Longer reports whether Redis has not answered for d.
func (o *Outage) Longer(d time.Duration) bool {
	return !o.since.IsZero() && monotonic.Since(o.since) > d
}

// Pause records one more failure, and returns the pause for it.
func (o *Outage) Pause(backoff func(tries int) time.Duration, err error) time.Duration {
	if o.since.IsZero() {
		o.since = monotonic.Now()
	}
	o.Tries++
	o.Last = err
	return backoff(o.Tries)
}

// enroll numbers a request. The caller holds ct.mu.
func (ct *Counter[T]) enroll() uint64 {
	n := ct.of.Number()
	ct.numbers = append(ct.numbers, n)
	return n
}

// settled ends enroll. The caller holds ct.mu.
func (ct *Counter[T]) settled(number uint64) {
	if i := slices.Index(ct.numbers, number); i >= 0 {
		ct.numbers = slices.Delete(ct.numbers, i, i+1)
	}
}

// Change is Insist for a request that counts once, however often it is sent: send gets its number, and the oldest one that is not settled.
func (ct *Counter[T]) Change(ctx context.Context, limit time.Duration, anyway bool, send func(number, oldest uint64) (int64, error)) (n int64, answered bool, err error) {
	ct.mu.Lock()
	number := ct.enroll()
	ct.mu.Unlock()
	return ct.insist(ctx, limit, anyway, number, func() (int64, error) {
		ct.mu.Lock()
		oldest := ct.numbers[0]
		ct.mu.Unlock()
		return send(number, oldest)
	})
}

// Insist calls send until it is answered, and then wakes the waiters of this process. It returns the answer, or answered is false: the
// caller waits until ctx ends, and for limit at most. After that send goes on in the background if anyway is set. In the end Insist gives up.
func (ct *Counter[T]) Insist(ctx context.Context, limit time.Duration, anyway bool, send func() (int64, error)) (n int64, answered bool, err error) {
	return ct.insist(ctx, limit, anyway, 0, send)
}

func (ct *Counter[T]) insist(ctx context.Context, limit time.Duration, anyway bool, number uint64, send func() (int64, error)) (n int64, answered bool, err error) {
	type reply struct {
		n   int64
		err error
	}
	soon := monotonic.Now().Add(min(insistence, limit)) // after that Redis may have forgotten the result
	over := soon
	if anyway {
		over = monotonic.Now().Add(insistence)
	}
	done := make(chan reply, 1)
	ct.of.Spawn(func() {
		var down Outage
		for last := false; ; {
			n, err := send()
			if err != nil {
				_, passing := ct.of.Fate(err)
				pause := down.Pause(ct.of.Backoff, err)
				switch again := monotonic.Now().Add(pause); {
				case !passing:
				case again.Before(soon):
					<-time.After(pause)
					continue
				case again.Before(over) && ct.of.Pause(pause):
					continue
				case again.Before(over) && !last: // the client is closed
					last = true
					continue
				case anyway:
					defer ct.of.Abandoned(false, err)
				}
			}
			ct.mu.Lock()
			ct.settled(number) // first, so that the caller's next request tells Redis that this one is settled
			if w := ct.Queue.First; w != nil && err == nil {
				w.Poke()
			}
			ct.mu.Unlock()
			done <- reply{n, err}
			return
		}
	})
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.n, true, r.err
	case <-ctx.Done():
	case <-timer.C:
	}
	return 0, false, nil
}
