package lockrt

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// A Backoff is the pauses between requests that Redis refused or did not answer, and their number; see [WithBackoff]
// and [Options.Retry]. A random half of each pause keeps processes apart. The zero value is none. Redisson's
// LockOptions.BackOff.
type Backoff struct {
	first, step, most time.Duration
	double            bool
	attempts          int
}

// ConstantBackoff pauses for d each time. Redisson's: 64ms.
func ConstantBackoff(d time.Duration) Backoff { return Backoff{first: d, most: d} }

// LinearBackoff pauses for first, and step longer each time, up to most.
func LinearBackoff(first, step, most time.Duration) Backoff {
	return Backoff{first: first, step: step, most: most}
}

// ExponentialBackoff pauses for first and doubles up to most. Redisson's: 1ms, 128ms.
func ExponentialBackoff(first, most time.Duration) Backoff {
	return Backoff{first: first, most: most, double: true}
}

// Attempts bounds b: after n refusals the call fails with [ErrNotAcquired], after n calls without an answer with [ErrUnavailable] and the
// last error.
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

// longest returns the pause after this many refusals; at least a half of it passes, or 1.5s less if that is 15s or more.
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

// pause returns a random pause.
func (b Backoff) pause(refused int) time.Duration {
	d := b.longest(refused)
	return d/2 + rand.N(d-d/2+1)
}

// WithBackoff makes waiting calls ask again with the pauses of b, instead of listening: for servers and permissions
// without subscriptions. Goroutines of one process still hand a Mutex to each other. A Client whose calls all have it
// subscribes to nothing; [Options.Tracking] or the next renewal shows it that a lock was taken by force. Redisson's
// RSpinLock.
func WithBackoff(b Backoff) LockOption {
	return lockOption(func(c *lockConfig) { c.backoff, c.Polling = b, true })
}
