package lockrt

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// A Backoff says for how long one who was refused, or not answered, pauses before it asks again, and how often it asks; see
// [WithBackoff] and [Options.Retry]. Of each pause a half is at random, so that those who were refused together do not come
// back together. Make one by [ConstantBackoff], [LinearBackoff] or [ExponentialBackoff]; the zero value is no policy.
// Redisson's LockOptions.BackOff.
type Backoff struct {
	first, step, most time.Duration
	double            bool
	attempts          int
}

// ConstantBackoff pauses for d each time. Redisson's ConstantBackOff, which has 64ms by default.
func ConstantBackoff(d time.Duration) Backoff { return Backoff{first: d, most: d} }

// LinearBackoff pauses for first, and for step longer each time, up to most. Redisson has none like it.
func LinearBackoff(first, step, most time.Duration) Backoff {
	return Backoff{first: first, step: step, most: most}
}

// ExponentialBackoff pauses for first, and for twice as long each time, up to most. Redisson's ExponentialBackOff, which
// has 1ms and 128ms by default.
func ExponentialBackoff(first, most time.Duration) Backoff {
	return Backoff{first: first, most: most, double: true}
}

// Attempts returns b with a bound: who was refused n times fails with [ErrNotAcquired], and who was not answered n times in a
// row with [ErrUnavailable] and what Redis failed with. Without one the wait and the context bound it.
func (b Backoff) Attempts(n int) Backoff {
	b.attempts = n
	if n < 1 {
		b.attempts = -1
	}
	return b
}

// check returns why b is unusable, or nil.
func (b Backoff) check() error {
	switch {
	case b.first < time.Millisecond:
		return fmt.Errorf("%w: a backoff that begins with %v is shorter than 1ms", ErrBadOption, b.first)
	case b.step < 0:
		return fmt.Errorf("%w: a backoff whose pauses grow by %v is negative", ErrBadOption, b.step)
	case b.most < b.first:
		return fmt.Errorf("%w: a backoff of at most %v begins with %v, which is longer", ErrBadOption, b.most, b.first)
	case b.attempts < 0:
		return fmt.Errorf("%w: a backoff with less than one attempt", ErrBadOption)
	}
	return nil
}

// longest returns the pause after one who was refused so many times, of which a half is certain.
func (b Backoff) longest(refused int) time.Duration {
	d := b.first
	switch {
	case b.double:
		for range refused - 1 {
			if d > b.most/2 {
				return b.most
			}
			d *= 2
		}
	case b.step > 0:
		if refused-1 > int((b.most-b.first)/b.step) {
			return b.most
		}
		d += time.Duration(refused-1) * b.step
	}
	return min(d, b.most)
}

// pause returns for how long to pause.
func (b Backoff) pause(refused int) time.Duration {
	d := b.longest(refused)
	return d/2 + rand.N(d-d/2+1)
}

// WithBackoff has those who wait ask again and again, with the pauses of b, in place of listening to what Redis tells: for
// servers and permissions that have no subscriptions. Goroutines of one process still hand a [Mutex] to each other. A
// client all of whose calls have it subscribes to nothing; then a lease that was taken by force is noticed where the
// server tells of changes, see [Options.Tracking], or at the next renewal. Redisson's RSpinLock.
func WithBackoff(b Backoff) LockOption {
	return lockOption(func(c *lockConfig) { c.backoff, c.polling = b, true })
}
