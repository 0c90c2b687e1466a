package core

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/failure"
)

// A Backoff says how long a client pauses between requests, and how often it sends them: lockrt.Backoff.
type Backoff struct {
	first, step, most time.Duration
	double            bool
	limit             int // number of attempts; 0 for any number, and less for an unusable one
}

// ConstantBackoff returns a backoff whose pauses are d at most.
func ConstantBackoff(d time.Duration) Backoff { return Backoff{first: d, most: d} }

// LinearBackoff returns a backoff whose pauses are first at most, and then each longer by step, up to most.
func LinearBackoff(first, step, most time.Duration) Backoff {
	return Backoff{first: first, step: step, most: most}
}

// ExponentialBackoff returns a backoff whose pauses are first at most, and then each twice as long, up to most.
func ExponentialBackoff(first, most time.Duration) Backoff {
	return Backoff{first: first, most: most, double: true}
}

// Attempts returns b with n attempts at most.
func (b Backoff) Attempts(n int) Backoff {
	b.limit = n
	if n < 1 {
		b.limit = -1
	}
	return b
}

// Limit returns the number of attempts, or 0 for any number.
func (b Backoff) Limit() int { return b.limit }

// Check returns why b is unusable, or nil.
func (b Backoff) Check() error {
	switch {
	case b.first < time.Millisecond:
		return fmt.Errorf("%w: a backoff that begins with %v is shorter than 1ms", failure.ErrBadOption, b.first)
	case b.step < 0:
		return fmt.Errorf("%w: a backoff whose pauses grow by %v is negative", failure.ErrBadOption, b.step)
	case b.most < b.first:
		return fmt.Errorf("%w: a backoff of at most %v begins with %v, which is longer", failure.ErrBadOption, b.most, b.first)
	case b.limit < 0:
		return fmt.Errorf("%w: a backoff with less than one attempt", failure.ErrBadOption)
	}
	return nil
}

// Longest returns the longest pause after this many refusals. Pause takes at least a half of it.
func (b Backoff) Longest(refused int) time.Duration {
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

// Pause returns a random pause after this many refusals.
func (b Backoff) Pause(refused int) time.Duration {
	d := b.Longest(refused)
	return d/2 + rand.N(d-d/2+1)
}
