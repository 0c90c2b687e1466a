package watchdog

import (
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// A lease that was handed over is trusted for 2 s at first, and asks for 30: it is tried again in time for the 2 s.
func TestWatchdog_AShortGrantIsRetriedInTime(t *testing.T) {
	for _, name := range []string{"no answer", "an error at once", "errors for half of the trust"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				over := make(chan struct{})
				var tries atomic.Int32
				start := time.Now()
				w := New(said(func([]*Lease, []time.Duration) ([]bool, error) {
					first := tries.Add(1) == 1
					if first && name == "no answer" {
						<-over
					}
					if first || name == "errors for half of the trust" && time.Since(start) < 900*ms {
						return nil, errDown
					}
					return []bool{true}, nil
				}), atMost(10), nil)
				w.First(8 * ms)
				l, lost := lease("k", 30*time.Second, true)
				w.Start(l, start, 2*time.Second)
				advance(5 * time.Second)
				close(over)
				synctest.Wait()
				require.Empty(t, lost)
				require.Greater(t, time.Until(l.Until()), 20*time.Second, "it has its full length")
				w.Close()
			})
		})
	}
}

// Nothing is due for a lease before the time that the queue knows of its bucket, also when others change leases at the same time: else a lease
// that is due would be neither renewed nor ended.
func TestWatchdog_ExtendLeavesTheQueueInOrder(t *testing.T) {
	w := New(said(func(leases []*Lease, _ []time.Duration) ([]bool, error) { return make([]bool, len(leases)), nil }), atMost(10), nil)
	w.looping.Do(func() {}) // no loop: only the order of the queue matters
	now := monotonic.Now()
	first, _ := lease("due first", 90*time.Millisecond, false)
	changed, _ := lease("changed", 30*time.Second, true)
	other, _ := lease("due soon", 300*time.Millisecond, true)
	for _, l := range []*Lease{first, changed, other} {
		w.Start(l, now.Std(), l.TTL)
	}
	require.Equal(t, first.due(), w.queue.first())
	w.mu.Lock() // another goroutine changes a lease
	var extended sync.WaitGroup
	extended.Go(func() { w.Extend(first, now.Std(), time.Hour) })
	for range 10_000 {
		runtime.Gosched()
	}
	changed.next = now.Add(-time.Second)
	w.queue.fix(changed)
	require.Equal(t, changed.next, w.queue.first())
	changed.next = now.Add(time.Minute)
	w.queue.fix(changed)
	w.mu.Unlock()
	extended.Wait()
	w.queue.serve(w.queue.first(), func(*Lease) {})
	require.Equal(t, other.due(), w.queue.first())
}

// An extended lease is renewed as often as any other: else nobody would notice for long that it is gone.
func TestWatchdog_AnExtendedLeaseIsRenewedAsOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gone atomic.Bool
		w := New(said(func([]*Lease, []time.Duration) ([]bool, error) { return []bool{!gone.Load()}, nil }), atMost(10), nil)
		defer w.Close()
		for _, after := range []time.Duration{0, 25 * time.Second} { // before and after its first renewals
			gone.Store(false)
			l, lost := lease("k", 30*time.Second, true)
			w.Start(l, time.Now(), l.TTL)
			advance(after)
			w.Extend(l, time.Now(), time.Hour)
			gone.Store(true)
			start := time.Now()
			require.Equal(t, ErrRefused, <-lost)
			require.LessOrEqual(t, time.Since(start), 10*time.Second)
		}
	})
}

// A busy server answers, though late: what is under way is not sent again, and a bounded number of requests is.
func TestWatchdog_ABusyServerIsNotAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const leases, batch, ttl = 1000, 50, 6 * time.Second
		var mu sync.Mutex
		var under, most, calls int
		turn := make(chan struct{}, 1) // it works on one request at a time
		turn <- struct{}{}
		w := New(said(func(ls []*Lease, _ []time.Duration) ([]bool, error) {
			mu.Lock()
			under++
			most = max(most, under)
			calls++
			mu.Unlock()
			<-turn
			advance(90 * time.Millisecond) // all of them take 1.8 s, a renewal is tried again after 0.5 s
			turn <- struct{}{}
			mu.Lock()
			under--
			mu.Unlock()
			yes := make([]bool, len(ls))
			for i := range yes {
				yes[i] = true
			}
			return yes, nil
		}), atMost(batch), nil)
		defer w.Close()
		start := time.Now()
		lost := make(chan error, leases)
		for range leases {
			w.Start(&Lease{Holding: loser(func(err error) { lost <- err }), TTL: ttl, Renew: true}, start, ttl)
		}
		advance(60 * time.Second)
		synctest.Wait()
		require.Empty(t, lost)
		mu.Lock()
		defer mu.Unlock()
		require.LessOrEqual(t, most, atOnce)
		require.LessOrEqual(t, calls, 31*leases/batch, "each lease every 2 s, once")
	})
}

// A server that says nothing is tried again and again, with a bounded number of requests, and holds up no other.
func TestWatchdog_ASilentServerIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		var under atomic.Int32
		w := New(said(func(ls []*Lease, _ []time.Duration) ([]bool, error) {
			if ls[0].Key() == "mute" {
				under.Add(1)
				<-over
				return nil, errDown
			}
			yes := make([]bool, len(ls))
			for i := range yes {
				yes[i] = true
			}
			return yes, nil
		}), atMost(10), nil)
		w.Group(func(l *Lease) uint16 { return uint16(len(l.Key())) })
		lost := map[string]chan error{"mute": make(chan error, 100), "fine.": make(chan error, 100)}
		for range 100 {
			for key, told := range lost {
				w.Start(&Lease{Holding: holding{key: key, loser: func(err error) { told <- err }}, TTL: 30 * time.Second, Renew: true}, time.Now(), 30*time.Second)
			}
		}
		advance(26 * time.Second)
		require.Greater(t, under.Load(), int32(atOnce), "the next try is sent though the first ones hang")
		require.LessOrEqual(t, under.Load(), int32(atOnce+mostHung))
		advance(10 * time.Second)
		synctest.Wait()
		require.Len(t, lost["mute"], 100)
		require.Empty(t, lost["fine."])
		close(over)
		w.Close()
	})
}

// A renewal that is queued for a server that does not answer is sent to the one that has its key now.
func TestWatchdog_AQueuedRenewalGoesToTheServerOfItsKeyNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var server atomic.Uint32
		over := make(chan struct{})
		var renewed sync.Map // when, by keys
		start := time.Now()
		w := New(said(func(ls []*Lease, _ []time.Duration) ([]bool, error) {
			if server.Load() == 0 {
				<-over
				return nil, errDown
			}
			yes := make([]bool, len(ls))
			for i, l := range ls {
				yes[i] = true
				renewed.LoadOrStore(l.Key(), time.Since(start))
			}
			return yes, nil
		}), atMost(1), nil)
		w.Group(func(*Lease) uint16 { return uint16(server.Load()) })
		keys := []string{"one", "two", "three", "four"}
		for _, key := range keys {
			l, lost := lease(key, 30*time.Second, true)
			w.Start(l, start, l.TTL)
			defer func() { require.Empty(t, lost, key) }()
		}
		advance(10500 * ms)
		server.Store(1)
		w.Recheck()
		synctest.Wait()
		for _, key := range keys {
			at, ok := renewed.Load(key)
			require.True(t, ok, key)
			require.Equal(t, 10500*ms, at, key)
		}
		close(over)
		w.Close()
	})
}

// A refusal that answers a request from before one that was confirmed ends no lease: it may have come late, or from a server that has failed over. The
// server is asked again.
func TestWatchdog_AnOldRefusalIsLookedAt(t *testing.T) {
	for name, has := range map[string]bool{"it has the lease": true, "it has lost the lease": false} {
		synctest.Test(t, func(t *testing.T) {
			late := make(chan struct{})
			var calls atomic.Int32
			var observed []error
			w := New(said(func([]*Lease, []time.Duration) ([]bool, error) {
				switch calls.Add(1) {
				case 1:
					<-late
					return []bool{false}, nil
				case 2:
					return []bool{true}, nil
				}
				return []bool{has}, nil
			}), atMost(1), func(_ *Lease, err error) { observed = append(observed, err) })
			l, lost := lease("k", 30*time.Second, true)
			w.Start(l, time.Now(), l.TTL)
			advance(10500 * ms) // the first renewal is under way
			w.Recheck()
			synctest.Wait()
			require.EqualValues(t, 2, calls.Load(), name)
			close(late)
			synctest.Wait()
			require.EqualValues(t, 3, calls.Load(), name)
			if has {
				require.Empty(t, lost, name)
				require.Equal(t, []error{nil}, observed, name)
			} else {
				require.Equal(t, ErrRefused, <-lost, name)
			}
			w.Close()
		})
	}
}

// The same holds for a refusal of a request that another part of the client has sent.
func TestWatchdog_ARefusalThatAnotherRequestGot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		w := New(said(func([]*Lease, []time.Duration) ([]bool, error) {
			calls.Add(1)
			return []bool{true}, nil
		}), atMost(1), nil)
		l, lost := lease("k", 30*time.Second, true)
		start := time.Now()
		w.Start(l, start, l.TTL)
		advance(10500 * ms)
		require.EqualValues(t, 1, calls.Load())
		require.False(t, w.Refused(l, start.Add(5*time.Second)), "the renewal was sent later")
		synctest.Wait()
		require.EqualValues(t, 2, calls.Load(), "a look")
		require.Empty(t, lost)
		require.True(t, w.Refused(l, time.Now()))
		require.Equal(t, ErrRefused, <-lost)
		require.True(t, w.Refused(l, start), "it is lost already")
		require.Empty(t, lost)
		w.Close()
	})
}

// A Recheck asks what happened until now, which the answer to a renewal that is under way does not say.
func TestWatchdog_RecheckIsNotAnsweredByWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		w := New(said(func([]*Lease, []time.Duration) ([]bool, error) {
			first := calls.Add(1) == 1
			if first {
				advance(time.Second)
			}
			return []bool{first}, nil
		}), atMost(10), nil)
		defer w.Close()
		l, lost := lease("k", 30*time.Second, true)
		start := time.Now()
		w.Start(l, start, l.TTL)
		advance(10500 * ms)
		w.Recheck()
		require.Equal(t, ErrRefused, <-lost)
		require.Equal(t, 10500*ms, time.Since(start))
	})
}

// A lease that ends while it waits for its renewal is not renewed.
func TestWatchdog_WhatEndsInTheQueueIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		asked := map[string]int{}
		w := New(said(func(ls []*Lease, _ []time.Duration) ([]bool, error) {
			mu.Lock()
			asked[ls[0].Key()]++
			mu.Unlock()
			advance(100 * ms)
			return []bool{true}, nil
		}), atMost(1), nil)
		defer w.Close()
		var all []*Lease
		for i := range 10 {
			l, _ := lease(strconv.Itoa(i), 30*time.Second, true)
			w.Start(l, time.Now(), l.TTL)
			all = append(all, l)
		}
		advance(10*time.Second + 50*ms)
		for _, l := range all {
			require.True(t, w.Stop(l))
		}
		advance(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, asked, atOnce, "those that were under way")
	})
}

// The number of leases of one call may change.
func TestWatchdog_BatchesChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var most, largest atomic.Int32
		w := New(func(leases []*Lease, _ []time.Duration) []error {
			largest.Store(max(largest.Load(), int32(len(leases))))
			return make([]error, len(leases))
		}, func() int { return int(most.Load()) }, nil)
		defer w.Close()
		for i := range 100 {
			l, _ := lease(strconv.Itoa(i), 30*time.Second, true)
			w.Start(l, time.Now(), l.TTL)
		}
		for _, n := range []int32{10, 40, 7} {
			most.Store(n)
			largest.Store(0)
			advance(11 * time.Second)
			synctest.Wait()
			require.Equal(t, n, largest.Load())
		}
	})
}

// A heavy holding is one of so many keys.
type heavy struct {
	loser

	keys int
}

func (h heavy) Weight() int { return h.keys }

// A batch is of a bounded weight, unless one lease weighs more.
func TestWatchdog_BatchesAreNotTooHeavy(t *testing.T) {
	ln := new(lane)
	for _, keys := range []int{heaviest / 2, heaviest / 2, 1, heaviest, 2 * heaviest, 3, 4} {
		ln.queue = append(ln.queue, request{lease: &Lease{Holding: heavy{keys: keys}}})
	}
	ln.queue = append(ln.queue, request{lease: &Lease{Holding: loser(nil)}})
	var batches [][]int
	for {
		var weights []int
		for _, r := range ln.take(3) {
			require.Equal(t, stageSent, r.lease.stage)
			weights = append(weights, r.lease.weight())
		}
		if weights == nil {
			break
		}
		batches = append(batches, weights)
	}
	require.Equal(t, [][]int{{heaviest / 2, heaviest / 2}, {1}, {heaviest}, {2 * heaviest}, {3, 4, 1}}, batches)
	require.Empty(t, ln.queue)
}
