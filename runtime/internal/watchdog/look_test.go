package watchdog

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// asked is one lease in a request.
type asked struct {
	at  time.Duration
	key string
	ttl time.Duration
}

// A record is a server that records the requests.
type record struct {
	made   time.Time
	answer func(at time.Duration) (bool, error)

	mu    sync.Mutex
	asked []asked
	calls int
}

func newRecord(answer func(at time.Duration) (bool, error)) *record {
	return &record{made: time.Now(), answer: answer}
}

func (r *record) renew(leases []*Lease, ttls []time.Duration) ([]bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	at := time.Since(r.made)
	ok, err := r.answer(at)
	answers := make([]bool, len(leases))
	for i, l := range leases {
		r.asked = append(r.asked, asked{at, l.Key(), ttls[i]})
		answers[i] = ok
	}
	return answers, err
}

// take returns the requests since the last call.
func (r *record) take() []asked {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.asked
	r.asked = nil
	return got
}

const ms = time.Millisecond

// lease returns a lease that is not guarded yet.
func lease(key string, ttl time.Duration, renew bool) (*Lease, <-chan error) {
	lost := make(chan error, 1)
	return &Lease{Holding: holding{key: key, loser: func(cause error) { lost <- cause }}, TTL: ttl, Renew: renew}, lost
}

func TestWatchdog_First(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecord(up)
		var observed int
		w := New(said(r.renew), atMost(10), func(*Lease, error) { observed++ })
		defer w.Close()
		w.First(10 * ms)
		long, _ := lease("long", 30*time.Second, true)
		fixed, _ := lease("fixed", 30*time.Second, false)
		handed, _ := lease("handed", 30*time.Second, true)
		short, _ := lease("short", 30*time.Second, true)
		start := time.Now()
		w.Start(long, start, long.TTL)
		w.Start(fixed, start, fixed.TTL)
		w.Start(handed, start, 2*time.Second)
		advance(9 * ms)
		w.Start(short, time.Now(), short.TTL)
		require.Empty(t, r.take())
		advance(ms)
		// A look asks for less than there is, so that nothing is written.
		require.ElementsMatch(t, []asked{
			{10 * ms, "long", 28500*ms - 10*ms},
			{10 * ms, "fixed", 28500*ms - 10*ms},
			{10 * ms, "handed", 30 * time.Second},
		}, r.take())
		require.Equal(t, 1, observed, "only handed was renewed")
		require.WithinDuration(t, start.Add(27*time.Second), long.Until(), 0, "a look confirms nothing")
		require.WithinDuration(t, start.Add(27*time.Second), fixed.Until(), 0)
		require.WithinDuration(t, start.Add(27*time.Second+10*ms), handed.Until(), 0)
		require.True(t, w.Stop(short))
		advance(9 * time.Second)
		require.Empty(t, r.take(), "what ended before is not looked at")
		advance(time.Second)
		require.Equal(t, []asked{{10 * time.Second, "long", 30 * time.Second}, {10 * time.Second, "handed", 30 * time.Second}}, r.take())

		w.First(0)
		again, _ := lease("again", 30*time.Second, true)
		w.Start(again, time.Now(), again.TTL)
		advance(time.Second)
		require.Empty(t, r.take())
	})
}

func TestWatchdog_LookTellsOfALoss(t *testing.T) {
	for _, renew := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := newRecord(taken)
			w := New(said(r.renew), atMost(10), nil)
			defer w.Close()
			l, lost := lease("k", 30*time.Second, renew)
			w.Start(l, time.Now(), l.TTL)
			other, lostOther := lease("other", 30*time.Second, renew)
			w.Start(other, time.Now(), other.TTL)
			advance(time.Second)
			w.Look(l)
			require.Equal(t, []asked{{time.Second, "k", 27500 * ms}}, r.take(), "and nothing about the other")
			require.Equal(t, ErrRefused, <-lost)
			require.Empty(t, lostOther)
			w.Look(l) // is not guarded any more
			require.Empty(t, r.take())
		})
	}
}

func TestWatchdog_LooksOfABurstShareARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecord(up)
		w := New(said(r.renew), atMost(64), nil)
		defer w.Close()
		var all []*Lease
		for range 64 {
			l, _ := lease("k", time.Minute, true)
			w.Start(l, time.Now(), l.TTL)
			all = append(all, l)
		}
		synctest.Wait()
		w.mu.Lock() // the loop is blocked until all were notified
		for _, l := range all {
			l.look = monotonic.Now()
			w.queue.fix(l)
		}
		w.mu.Unlock()
		w.Look(all[0])
		require.Len(t, r.take(), 64)
		require.Equal(t, 1, r.calls)
	})
}

// A server that reports changes again and again though there are none costs a bounded number of requests.
func TestWatchdog_FalseAlarmsAreLookedIntoSeldomAndSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecord(up)
		w := New(said(r.renew), atMost(10), nil)
		defer w.Close()
		l, lost := lease("k", 30*time.Second, true)
		w.Start(l, time.Now(), l.TTL)
		synctest.Wait()
		var looks []time.Duration
		for time.Since(r.made) < 8*time.Second { // long before a renewal, after which the next alarm is believed at once
			w.Look(l)
			for _, a := range r.take() {
				looks = append(looks, a.at)
			}
			advance(ms)
		}
		require.LessOrEqual(t, len(looks), 4+int(8*time.Second/longestLookPause))
		require.Less(t, looks[1]-looks[0], 10*ms, looks)
		require.Equal(t, time.Duration(0), looks[0])
		for i := 1; i < len(looks); i++ {
			require.GreaterOrEqual(t, looks[i]-looks[i-1], lookPause, looks)
			require.LessOrEqual(t, looks[i]-looks[i-1], longestLookPause+ms, looks)
		}
		advance(time.Second)
		r.take() // the last look
		advance(10*time.Second - time.Since(r.made))
		require.Len(t, r.take(), 1, "the renewal")
		w.Look(l)
		require.Len(t, r.take(), 1, "after it the next alarm is believed at once")
		require.Empty(t, lost)
	})
}

func TestWatchdog_AnUnansweredLookIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, renew := range []bool{true, false} {
			start := time.Now()
			r := newRecord(func(at time.Duration) (bool, error) {
				if at < 2*time.Second {
					return false, errDown
				}
				return false, nil
			})
			w := New(said(r.renew), atMost(10), nil)
			l, lost := lease("k", 30*time.Second, renew)
			w.Start(l, start, l.TTL)
			w.Look(l)
			require.Equal(t, ErrRefused, <-lost)
			require.Equal(t, 2*time.Second, time.Since(start), "a failed look says nothing, and is repeated every second")
			require.Len(t, r.take(), 3)
			w.Close()
		}
	})
}

// A reason to look that comes while a look is under way is a reason for another one: the answer may
// be older.
func TestWatchdog_ALookUnderWayDoesNotAnswerForALaterReason(t *testing.T) {
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
		w.Look(l)
		advance(500 * ms)
		w.Look(l)
		require.Equal(t, ErrRefused, <-lost)
		require.Equal(t, 500*ms+lookPause, time.Since(start))
	})
}

// Locks that come and go before they are looked at wake the loop once for as long as it takes until then, not each time.
func TestWatchdog_WhatComesAndGoesLeavesTheLoopAsleep(t *testing.T) {
	for _, held := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := New(said(newRecord(up).renew), atMost(10), nil)
			defer w.Close()
			w.First(8 * ms)
			w.looping.Do(func() {}) // the test is the loop
			pokes := 0
			loop := func() {
				select {
				case <-w.poke:
					pokes++
					w.pass()
				default:
					if !monotonic.Now().Before(w.armed) {
						w.pass()
					}
				}
			}
			if held {
				l, _ := lease("held", 30*time.Second, true)
				w.Start(l, time.Now(), l.TTL)
				loop()
			}
			for i := range 1000 {
				l, _ := lease("k", 30*time.Second, true)
				w.Start(l, time.Now(), l.TTL)
				if i < 500 { // before the loop has got round to it, or after
					w.Stop(l)
				}
				loop()
				w.Stop(l)
				advance(100 * time.Microsecond)
			}
			require.LessOrEqual(t, pokes, 1000/80+3)
			last, _ := lease("k", 30*time.Second, true)
			w.Start(last, time.Now(), last.TTL)
			loop()
			require.LessOrEqual(t, monotonic.Until(w.armed), 8*ms, "a lease that stays is looked at in time")
		})
	}
}

// A Recheck makes a request that is sent after it, and that is sent again if it fails, whatever is answered meanwhile to older requests.
func TestRecheck_WhileRequestsAreUnderWay(t *testing.T) {
	for name, answer := range map[string]func(w *Watchdog, older, newer func(error)){
		"the newer one is answered after the next Recheck": func(w *Watchdog, older, newer func(error)) {
			older(nil)
			w.Recheck()
			newer(nil)
		},
		"the older one is answered after the newer one has failed": func(_ *Watchdog, older, newer func(error)) {
			newer(errDown)
			older(nil)
		},
		"the older one is answered before the newer one has failed": func(_ *Watchdog, older, newer func(error)) {
			older(nil)
			newer(errDown)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := make(chan chan error)
				w := New(said(func([]*Lease, []time.Duration) ([]bool, error) {
					answer := make(chan error)
					asked <- answer
					return []bool{true}, <-answer
				}), atMost(10), nil)
				w.looping.Do(func() {}) // no loop: the test says when a pass comes
				l, lost := lease("k", time.Hour, true)
				w.Start(l, time.Now(), time.Hour)
				recheck := func() func(error) {
					w.Recheck()
					w.pass()
					answer := <-asked
					return func(err error) {
						answer <- err
						synctest.Wait()
					}
				}
				older := recheck()
				advance(ms)
				answer(w, older, recheck())
				advance(time.Second) // a request that has failed is due again by then
				w.pass()
				(<-asked) <- nil
				synctest.Wait()
				require.Greater(t, monotonic.Until(l.next), Interval(l.TTL)-time.Minute)
				w.Close()
				require.Empty(t, lost)
			})
		})
	}
}

// TestWatchdog_ObservesNoOvertakenRenewal shows that a renewal is none that failed, if the server refuses it since the release came first.
func TestWatchdog_ObservesNoOvertakenRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var observed []string
		var w *Watchdog
		w = New(func(leases []*Lease, _ []time.Duration) []error {
			outcomes := make([]error, len(leases))
			for i, l := range leases {
				outcomes[i] = ErrRefused
				if l.Key() == "released" {
					require.True(t, w.Stop(l))
				}
			}
			return outcomes
		}, atMost(10), func(l *Lease, err error) { observed = append(observed, l.Key()+": "+err.Error()) })
		defer w.Close()
		released, _ := lease("released", 30*time.Second, true)
		gone, lost := lease("gone", 30*time.Second, true)
		w.Start(released, time.Now(), released.TTL)
		w.Start(gone, time.Now(), gone.TTL)
		advance(10 * time.Second)
		require.ErrorIs(t, <-lost, ErrRefused)
		require.Equal(t, []string{"gone: " + ErrRefused.Error()}, observed)
	})
}
