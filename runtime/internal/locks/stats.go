package locks

import (
	"context"
	"errors"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/observe"
)

func (c *clientCore) Stats() observe.Stats {
	if c.made() == nil {
		return observe.Stats{}
	}
	c.mu.Lock()
	held := c.holds
	c.mu.Unlock()
	n := &c.counts
	s := observe.Stats{
		Held:            held,
		Waiting:         int(n.waiting.Load()),
		Renewals:        n.renewals.Load(),
		RenewalFailures: n.renewalFailures.Load(),
		Losses:          n.losses.Load(),
		HandOversLocal:  n.local.Load(),
		HandOversRemote: n.remote.Load(),
		Waits:           make([]observe.WaitBucket, len(n.waits)),
	}
	for i := range n.waits {
		s.Waits[i] = observe.WaitBucket{UpTo: firstBucket << i, Count: n.waits[i].Load()}
	}
	s.Waits[len(s.Waits)-1].UpTo = math.MaxInt64
	s.WaitSum = time.Duration(n.waitSum.Load())
	for i := range n.calls {
		for j := range n.calls[i] {
			if count := n.calls[i][j].Load(); count > 0 {
				s.Calls = append(s.Calls, observe.CallCount{Kind: observe.Kind(countedKinds[i]), Outcome: countedOutcomes[j], Count: count})
			}
		}
	}
	return s
}

// The labels of call counts.
var (
	countedKinds    = [...]string{kindMutex, kindFair, kindWrite, kindRead, kindMulti, kindRedLock, kindPermit, kindSemaphore, kindLatch}
	countedOutcomes = [...]observe.Outcome{observe.OutcomeAcquired, observe.OutcomeBusy, observe.OutcomeCancelled, observe.OutcomeLost, observe.OutcomeError}
)

const firstBucket = 128 * time.Microsecond

// counts are the counts of Stats.
type counts struct {
	waiting                   atomic.Int64
	renewals, renewalFailures atomic.Uint64
	losses                    atomic.Uint64
	local, remote             atomic.Uint64
	waits                     [20]atomic.Uint64
	waitSum                   atomic.Int64
	calls                     [len(countedKinds)][len(countedOutcomes)]atomic.Uint64
}

// waited counts a call that took d.
func (n *counts) waited(d time.Duration) {
	bucket := bits.Len64(uint64(max(0, d-1) / firstBucket))
	n.waits[min(bucket, len(n.waits)-1)].Add(1)
	n.waitSum.Add(int64(max(0, d)))
}

// called counts a call of a kind that ended with err.
func (n *counts) called(kind string, err error) {
	i, outcome := slices.Index(countedKinds[:], kind), 0
	if err != nil {
		outcome = slices.Index(countedOutcomes[:], outcomeOf(err))
	}
	n.calls[i][outcome].Add(1)
}

// outcomeOf returns the outcome of a call that ended with err.
func outcomeOf(err error) observe.Outcome {
	switch {
	case err == nil:
		return observe.OutcomeAcquired
	case errors.Is(err, failure.ErrNotAcquired):
		return observe.OutcomeBusy
	case errors.Is(err, failure.ErrLost):
		return observe.OutcomeLost
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return observe.OutcomeCancelled
	}
	return observe.OutcomeError
}
