package core

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

// Stats returns the counts since c was made.
func (c *Client) Stats() observe.Stats {
	if c.Made() == nil {
		return observe.Stats{}
	}
	held := int(c.holds.Load())
	n := &c.Counts
	s := observe.Stats{
		Held:            held,
		Waiting:         int(n.Waiting.Load()),
		Renewals:        n.Renewals.Load(),
		RenewalFailures: n.RenewalFailures.Load(),
		Losses:          n.Losses.Load(),
		HandOversLocal:  n.Local.Load(),
		HandOversRemote: n.Remote.Load(),
		ResponseTime:    c.Net.ResponseTime(),
		SentAgain:       c.Net.SentAgain(),
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
				s.Calls = append(s.Calls, observe.CallCount{Kind: observe.Kind(CountedKinds[i]), Outcome: countedOutcomes[j], Count: count})
			}
		}
	}
	return s
}

// The labels of call counts.
var (
	CountedKinds    = [...]string{KindMutex, KindFair, KindWrite, KindRead, KindMulti, KindRedLock, KindPermit, KindSemaphore, KindLatch}
	countedOutcomes = [...]observe.Outcome{observe.OutcomeAcquired, observe.OutcomeBusy, observe.OutcomeCancelled, observe.OutcomeLost, observe.OutcomeError}
)

// firstBucket is the longest wait that the first of Stats.Waits counts.
const firstBucket = 128 * time.Microsecond

// counts are the counts that Stats returns.
type counts struct {
	Waiting                   atomic.Int64
	Renewals, RenewalFailures atomic.Uint64
	Losses                    atomic.Uint64
	Local, Remote             atomic.Uint64
	waits                     [20]atomic.Uint64
	waitSum                   atomic.Int64
	calls                     [len(CountedKinds)][len(countedOutcomes)]atomic.Uint64
}

// Waited counts a call that got its lock after d.
func (n *counts) Waited(d time.Duration) {
	bucket := bits.Len64(uint64(max(0, d-1) / firstBucket))
	n.waits[min(bucket, len(n.waits)-1)].Add(1)
	if d > 0 {
		n.waitSum.Add(int64(d))
	}
}

// Called counts a call of a kind that ended with err.
func (n *counts) Called(kind string, err error) {
	i, outcome := slices.Index(CountedKinds[:], kind), 0
	if err != nil {
		outcome = slices.Index(countedOutcomes[:], OutcomeOf(err))
	}
	n.calls[i][outcome].Add(1)
}

// OutcomeOf returns the outcome of a call that ended with err.
func OutcomeOf(err error) observe.Outcome {
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
