package lockrt

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/leases"
)

// A Backoff is the pauses between requests that Redis refused or did not answer, and their number; see [WithBackoff]
// and [Options.Retry]. A random half of each pause keeps processes apart. The first pause is at least 1ms. The zero value
// is no policy: WithBackoff refuses it, and as Retry it stands for the default. Redisson's LockOptions.BackOff.
type Backoff core.Backoff

// ConstantBackoff pauses for d each time. Redisson's: 64ms.
func ConstantBackoff(d time.Duration) Backoff { return Backoff(core.ConstantBackoff(d)) }

// LinearBackoff pauses for first, and step longer each time, up to most.
func LinearBackoff(first, step, most time.Duration) Backoff {
	return Backoff(core.LinearBackoff(first, step, most))
}

// ExponentialBackoff pauses for first and doubles up to most. Redisson's: 1ms, 128ms.
func ExponentialBackoff(first, most time.Duration) Backoff {
	return Backoff(core.ExponentialBackoff(first, most))
}

// Attempts bounds b to n, at least 1. With [WithBackoff] a call fails with [ErrNotAcquired] after n refusals. With
// [Options.Retry] it fails with [ErrUnavailable] and the last error after n requests without an answer.
func (b Backoff) Attempts(n int) Backoff { return Backoff(core.Backoff(b).Attempts(n)) }

// WithBackoff makes waiting calls ask again with the pauses of b, instead of listening: for servers and permissions
// without subscriptions. Goroutines of one process still hand a Mutex to each other. A Client whose calls all have it
// subscribes to nothing; [Options.Tracking] or the next renewal shows it that a lock was taken by force. Calls with and
// without it wait in one queue for a key: the first one without it listens for all, and has the first of the queue ask,
// which is no attempt. Only a [RedLock] has a queue for each of the two. Redisson's RSpinLock.
func WithBackoff(b Backoff) LockOption { return leases.WithBackoff(core.Backoff(b)) }
