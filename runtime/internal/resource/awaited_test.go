package resource

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// Each release is late at its own limit, in whatever order callers begin to wait, and one that was answered never.
func TestAwaitedReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a awaitedReleases
		start := core.Now()
		after := func(d time.Duration) *ReleaseOp {
			op := &ReleaseOp{done: make(chan error, 2), limit: start.Add(d)}
			a.add(op)
			return op
		}
		third, first, answered, second := after(3*time.Second), after(time.Second), after(time.Second), after(2*time.Second)
		require.True(t, a.remove(answered))
		for i, op := range []*ReleaseOp{first, second, third} {
			require.Equal(t, errLate, <-op.done)
			require.Equal(t, time.Duration(i+1)*time.Second, core.Now().Sub(start))
			require.False(t, a.remove(op), "it has errLate")
		}
		require.Empty(t, answered.done)
		require.Empty(t, a.all)
		require.True(t, a.armed.IsZero())

		again := after(5 * time.Second)
		require.Equal(t, errLate, <-again.done)
		require.Equal(t, 5*time.Second, core.Now().Sub(start))
	})
}

// TestAwaitedReleases_AfterAStandstill has the timer come much too late, as after the process was stopped: each release whose limit is over gets
// some more time, once, in which an answer counts. It ends for all at the same moment, also for one that is awaited only then.
func TestAwaitedReleases_AfterAStandstill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a awaitedReleases
		op := func(limit time.Time) *ReleaseOp {
			op := &ReleaseOp{done: make(chan error, 2), limit: limit}
			a.add(op)
			return op
		}
		standsStill := func(d time.Duration) {
			a.mu.Lock()
			a.armed = a.armed.Add(-d)
			for _, op := range a.all {
				op.until, op.limit = op.until.Add(-d), op.limit.Add(-d)
			}
			a.mu.Unlock()
			a.come()
		}
		start := core.Now()
		answered, never, later := op(start.Add(time.Second)), op(start.Add(time.Second)), op(start.Add(time.Minute+monotonic.Grace/4))
		standsStill(time.Minute)
		require.Equal(t, errLate, <-later.done)
		require.Equal(t, monotonic.Grace/4, core.Now().Sub(start), "its limit was not over")
		require.Empty(t, answered.done)
		require.True(t, a.remove(answered), "an answer is in time")
		require.Equal(t, errLate, <-never.done)
		require.Equal(t, monotonic.Grace, core.Now().Sub(start))
		require.Empty(t, a.all)
		require.Equal(t, errLate, <-op(never.limit).done, "awaited after it, with the same limit")
		require.Equal(t, monotonic.Grace, core.Now().Sub(start))

		time.Sleep(time.Hour)
		start = core.Now()
		require.Equal(t, errLate, <-op(start.Add(-time.Second)).done, "nothing stood still")
		require.Zero(t, core.Now().Sub(start))
		twice := op(start.Add(time.Second))
		standsStill(time.Minute)
		require.Empty(t, twice.done)
		standsStill(time.Minute)
		require.Equal(t, errLate, <-twice.done, "the process stood still once more")
		require.Zero(t, core.Now().Sub(start))
	})
}

// TestAwaitedReleases_Random has releases that begin, and are answered, at any time, many of them in the same moment: each is late at its
// limit if it is not answered before, and an answer at that moment counts unless the release is late already.
func TestAwaitedReleases_Random(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a awaitedReleases
		answer := errors.New("answered")
		var late, inTime atomic.Int64
		var waits sync.WaitGroup
		for range 2000 {
			begins := time.Duration(rand.IntN(300)) * time.Millisecond
			takes, limit := time.Duration(rand.IntN(40))*time.Millisecond, time.Duration(1+rand.IntN(30))*time.Millisecond
			waits.Go(func() {
				time.Sleep(begins)
				start := core.Now()
				op := &ReleaseOp{done: make(chan error, 2), limit: start.Add(limit)}
				waits.Go(func() {
					time.Sleep(takes)
					op.done <- answer
				})
				a.add(op)
				err := <-op.done
				removed := a.remove(op)
				took := core.Now().Sub(start)
				if errors.Is(err, errLate) {
					late.Add(1)
					assert.Equal(t, limit, took)
					assert.False(t, removed)
					assert.LessOrEqual(t, limit, takes)
				} else {
					inTime.Add(1)
					assert.Equal(t, takes, took)
					assert.LessOrEqual(t, takes, limit)
					assert.True(t, removed || takes == limit)
				}
			})
		}
		waits.Wait()
		require.NotZero(t, late.Load())
		require.NotZero(t, inTime.Load())
		time.Sleep(time.Second)
		a.mu.Lock()
		defer a.mu.Unlock()
		require.Empty(t, a.all)
		require.True(t, a.armed.IsZero(), "the timer rests")
	})
}
