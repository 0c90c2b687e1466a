package watchdog

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// server is a Redis that answers renewals as answer says, at a time counted from its making.
type server struct {
	made   time.Time
	answer func(at time.Duration) (bool, error)

	mu      sync.Mutex
	asked   []time.Duration
	batches []int
}

func newServer(answer func(at time.Duration) (bool, error)) *server {
	return &server{made: time.Now(), answer: answer}
}

func (s *server) renew(leases []*Lease, _ []time.Duration) ([]bool, error) {
	at := time.Since(s.made)
	s.mu.Lock()
	s.asked = append(s.asked, at)
	s.batches = append(s.batches, len(leases))
	s.mu.Unlock()
	ok, err := s.answer(at)
	answers := make([]bool, len(leases))
	for i := range answers {
		answers[i] = ok
	}
	return answers, err
}

func (s *server) times() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Duration(nil), s.asked...)
}

// said is a Renewer that asks a server which says yes or no, or nothing at all.
func said(renew func([]*Lease, []time.Duration) ([]bool, error)) Renewer {
	return func(leases []*Lease, ttls []time.Duration) []error {
		yes, err := renew(leases, ttls)
		outcomes := make([]error, len(leases))
		for i := range outcomes {
			if outcomes[i] = err; err == nil && !yes[i] {
				outcomes[i] = ErrRefused
			}
		}
		return outcomes
	}
}

var errDown = errors.New("connection refused")

// A loser is a holding without a name: a function that is called with its loss.
type loser func(cause error)

func (loser) Kind() string          { return "" }
func (loser) Key() string           { return "" }
func (loser) Owner() string         { return "" }
func (loser) Began() monotonic.Time { return monotonic.Now() }
func (f loser) Lost(cause error)    { f(cause) }

// A holding has a name.
type holding struct {
	loser

	kind, key string
}

func (h holding) Kind() string { return h.kind }
func (h holding) Key() string  { return h.key }

func up(time.Duration) (bool, error)    { return true, nil }
func taken(time.Duration) (bool, error) { return false, nil }

// silent does not answer until the test is over.
func silent(over <-chan struct{}) func(time.Duration) (bool, error) {
	return func(time.Duration) (bool, error) {
		<-over
		return false, errDown
	}
}

// upBefore answers until d has passed and fails from then on.
func upBefore(d time.Duration) func(time.Duration) (bool, error) {
	return func(at time.Duration) (bool, error) {
		if at < d {
			return true, nil
		}
		return false, errDown
	}
}

// downAt fails the n-th renewal and answers the others.
func downAt(n int) func(time.Duration) (bool, error) {
	var calls atomic.Int32
	return func(time.Duration) (bool, error) {
		if calls.Add(1) == int32(n) {
			return false, errDown
		}
		return true, nil
	}
}

type loss struct {
	at    time.Duration
	cause error
}

// guard starts a lease and returns where its loss is told.
func guard(w *Watchdog, ttl time.Duration, renew bool) (*Lease, <-chan loss) {
	start := time.Now()
	lost := make(chan loss, 2)
	l := &Lease{Holding: loser(func(cause error) { lost <- loss{time.Since(start), cause} }), TTL: ttl, Renew: renew}
	w.Start(l, start, ttl)
	return l, lost
}

func TestWatchdog_TellsOfLoss(t *testing.T) {
	tests := []struct {
		name   string
		answer func(over <-chan struct{}) func(time.Duration) (bool, error)
		renew  bool
		lost   time.Duration // 0 for never
		cause  error
		asked  []time.Duration
	}{
		{
			name: "server silent: told at 27s, the key expires at 30s", answer: silent, renew: true,
			lost:  27 * time.Second,
			cause: &UnconfirmedError{For: 27 * time.Second},
			asked: []time.Duration{10 * time.Second, 12500 * time.Millisecond, 15 * time.Second, 17500 * time.Millisecond, 19875 * time.Millisecond, 21656 * time.Millisecond, 22992 * time.Millisecond, 23994 * time.Millisecond},
		},
		{
			name: "server down after the first renewal", answer: ignoring(upBefore(15 * time.Second)), renew: true,
			lost:  37 * time.Second,
			cause: &UnconfirmedError{For: 27 * time.Second, Last: errDown},
		},
		{
			name: "one failed renewal is ridden out", answer: ignoring(downAt(1)), renew: true,
			asked: []time.Duration{10 * time.Second, 11 * time.Second, 21 * time.Second, 31 * time.Second, 41 * time.Second, 51 * time.Second},
		},
		{
			name: "taken: believed at once", answer: ignoring(taken), renew: true,
			lost: 10 * time.Second, cause: ErrRefused,
			asked: []time.Duration{10 * time.Second},
		},
		{
			name: "a fixed lease is not renewed and ends before the key", answer: ignoring(up),
			lost: 27 * time.Second, cause: ErrElapsed,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				over := make(chan struct{})
				s := newServer(tt.answer(over))
				w := New(said(s.renew), atMost(10), nil)
				_, lost := guard(w, 30*time.Second, tt.renew)
				select {
				case got := <-lost:
					require.Equal(t, tt.lost, got.at)
					require.Equal(t, tt.cause, got.cause)
				case <-time.After(time.Minute):
					require.Zero(t, tt.lost, "the loss was not told")
				}
				if tt.asked != nil {
					require.Equal(t, tt.asked, round(s.times()))
				}
				close(over)
				w.Close()
				require.Empty(t, lost, "told twice")
			})
		})
	}
}

func ignoring(answer func(time.Duration) (bool, error)) func(<-chan struct{}) func(time.Duration) (bool, error) {
	return func(<-chan struct{}) func(time.Duration) (bool, error) { return answer }
}

func TestWatchdog_RenewsEveryThirdForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(up)
		w := New(said(s.renew), atMost(10), nil)
		defer w.Close()
		l, lost := guard(w, 30*time.Second, true)
		advance(24 * time.Hour) // virtual
		synctest.Wait()

		require.Empty(t, lost)
		times := s.times()
		require.Len(t, times, 8640)
		for i, at := range times {
			require.Equal(t, time.Duration(i+1)*10*time.Second, at)
		}
		require.Equal(t, 27*time.Second, time.Until(l.Until()), "trusted from when the renewal was sent, less the margin")
	})
}

func TestWatchdog_TrustCountsFromBeforeTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(func(time.Duration) (bool, error) {
			advance(2 * time.Second) // a slow, but not a lost answer
			return true, nil
		})
		w := New(said(s.renew), atMost(10), nil)
		defer w.Close()
		start := time.Now()
		l, _ := guard(w, 30*time.Second, true)
		advance(13 * time.Second)
		synctest.Wait()
		require.WithinDuration(t, start.Add(37*time.Second), l.Until(), 0, "sent at 10s, answered at 12s")
	})
}

func TestWatchdog_AShortFirstLeaseIsRenewedToItsFullLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(up)
		w := New(said(s.renew), atMost(10), nil)
		defer w.Close()
		start := time.Now()
		l := &Lease{Holding: loser(func(error) {}), TTL: 30 * time.Second, Renew: true}
		w.Start(l, start, 3*time.Second)
		require.WithinDuration(t, start.Add(2700*time.Millisecond), l.Until(), 0)
		advance(30 * time.Second)
		synctest.Wait()
		require.Equal(t, []time.Duration{time.Second, 11 * time.Second, 21 * time.Second}, s.times())
		require.WithinDuration(t, start.Add(48*time.Second), l.Until(), 0)
	})
}

func TestWatchdog_HurryAfterGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(up)
		w := New(said(s.renew), atMost(10), nil)
		defer w.Close()
		guard(w, 30*time.Second, true)
		synctest.Wait() // the goroutine sleeps until that lease is due
		short := &Lease{Holding: loser(func(error) {}), TTL: 6 * time.Second, Renew: true}
		require.True(t, w.Guard(short, time.Now(), short.TTL))
		later := &Lease{Holding: loser(func(error) {}), TTL: 9 * time.Second, Renew: true}
		require.False(t, w.Guard(later, time.Now(), later.TTL), "the goroutine is about to look before that")
		w.Hurry()
		advance(3 * time.Second)
		synctest.Wait()
		require.Equal(t, []time.Duration{2 * time.Second}, s.times()[:1])
	})
}

func TestWatchdog_StoppedLeaseIsNeitherRenewedNorLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(up)
		w := New(said(s.renew), atMost(10), nil)
		defer w.Close()
		l, lost := guard(w, 30*time.Second, true)
		advance(15 * time.Second)
		require.True(t, w.Stop(l))
		require.False(t, w.Stop(l), "stopped before")
		w.Lose(l, ErrRefused)
		advance(time.Hour)
		require.Equal(t, []time.Duration{10 * time.Second}, s.times())
		require.Empty(t, lost)
	})
}

func TestWatchdog_AnswerAfterStopChangesNothing(t *testing.T) {
	for _, answer := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			s := newServer(func(time.Duration) (bool, error) { <-release; return answer, nil })
			w := New(said(s.renew), atMost(10), nil)
			l, lost := guard(w, 30*time.Second, true)
			advance(11 * time.Second)
			until := l.Until()
			require.True(t, w.Stop(l))
			close(release)
			synctest.Wait()
			require.Equal(t, until, l.Until())
			require.Empty(t, lost)
			w.Close()
		})
	}
}

func TestWatchdog_RenewsInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(up)
		w := New(said(s.renew), atMost(128), nil)
		defer w.Close()
		for range 300 {
			guard(w, 30*time.Second, true)
			advance(time.Millisecond) // they come one after the other, and are renewed together
		}
		advance(11 * time.Second)
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		require.ElementsMatch(t, []int{128, 128, 44}, s.batches)
	})
}

func TestWatchdog_AHungRequestHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		var calls atomic.Int32
		w := New(said(func(leases []*Lease, _ []time.Duration) ([]bool, error) {
			if calls.Add(1) == 1 {
				<-over // the first request is never answered
				return nil, errDown
			}
			return make([]bool, len(leases)), nil
		}), atMost(10), nil)
		_, lost := guard(w, 3*time.Second, true)
		_, other := guard(w, 30*time.Second, true)
		require.Equal(t, loss{1250 * time.Millisecond, ErrRefused}, <-lost, "the second try, a twelfth later")
		require.Equal(t, loss{10 * time.Second, ErrRefused}, <-other)
		close(over)
		w.Close()
	})
}

func TestWatchdog_CheckLosesWhatTheLoopHasNotSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(said(newServer(up).renew), atMost(10), nil)
		defer w.Close()
		lost := make(chan error, 1)
		l := &Lease{Holding: loser(func(cause error) { lost <- cause }), TTL: time.Second}
		w.Start(l, time.Now(), time.Second)
		w.Check(l)
		require.Empty(t, lost, "still trusted")
		l.until.Store(int64(monotonic.Now())) // as after the process was stopped: the clock ran on, the loop did not
		w.Check(l)
		require.Equal(t, ErrElapsed, <-lost)
		w.Check(l)
	})
}

func TestWatchdog_ALimitEndsRenewalAndThenTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(up)
		w := New(said(s.renew), atMost(10), nil)
		defer w.Close()
		start := time.Now()
		l, lost := guard(w, 30*time.Second, true)
		w.Limit(l, start.Add(25*time.Second))
		_, other := guard(w, 3*time.Second, true) // is not held up by it
		require.Equal(t, loss{47 * time.Second, ErrTooLong}, <-lost, "renewed at 10s and 20s, trusted for 27s more")
		require.Empty(t, other)

		l, lost = guard(w, 30*time.Second, true)
		w.Limit(l, time.Now().Add(time.Second))
		w.Limit(l, time.Time{})
		advance(time.Hour)
		require.Empty(t, lost, "lifted")
	})
}

// A key that ends at a certain time ends the lease, however often that is renewed.
func TestWatchdog_ABoundEndsTheLeaseByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(up)
		w := New(said(s.renew), atMost(10), nil)
		defer w.Close()
		start := time.Now()
		lost := make(chan loss, 2)
		l := &Lease{Holding: loser(func(cause error) { lost <- loss{time.Since(start), cause} }), TTL: 30 * time.Second, Renew: true}
		w.Start(l, start, 30*time.Second)
		w.Bound(l, start, 45*time.Second)
		got := <-lost
		require.Equal(t, ErrElapsed, got.cause, "not that no renewal was confirmed")
		require.Greater(t, got.at, 40*time.Second)
		require.Less(t, got.at, 45*time.Second)
	})
}

func TestWatchdog_ExtendIsNotTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var mu sync.Mutex
		var asked []time.Duration
		w := New(said(func(leases []*Lease, ttls []time.Duration) ([]bool, error) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, time.Since(start), ttls[0])
			return []bool{true}, nil
		}), atMost(10), nil)
		defer w.Close()
		l, lost := guard(w, 30*time.Second, true)
		w.Extend(l, start, 90*time.Second)
		w.Extend(l, start, 40*time.Second) // which is shorter
		require.WithinDuration(t, start.Add(87*time.Second), l.Until(), 0)
		advance(65 * time.Second)
		synctest.Wait()
		require.Empty(t, lost)
		s := time.Second
		mu.Lock()
		require.Equal(t, []time.Duration{10 * s, 80 * s, 20 * s, 70 * s, 30 * s, 60 * s, 40 * s, 50 * s, 50 * s, 40 * s, 60 * s, 30 * s}, round(asked),
			"as often as without, each time for what is left")
		mu.Unlock()

		fixed, ended := guard(w, 10*s, false)
		w.Extend(fixed, time.Now(), 20*s)
		require.Equal(t, loss{18 * s, ErrElapsed}, <-ended)
	})
}

// round cuts off fractions of a millisecond.
func round(ds []time.Duration) []time.Duration {
	for i, d := range ds {
		ds[i] = d.Round(time.Millisecond)
	}
	return ds
}

func TestWatchdog_RecheckAsksAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gone atomic.Bool
		s := newServer(func(time.Duration) (bool, error) { return !gone.Load(), nil })
		w := New(said(s.renew), atMost(10), nil)
		defer w.Close()
		w.Recheck() // there is nothing to check
		_, one := guard(w, 30*time.Second, true)
		_, two := guard(w, time.Hour, true)
		_, fixed := guard(w, time.Hour, false)
		advance(5 * time.Second)
		w.Recheck()
		synctest.Wait()
		require.Empty(t, one)
		gone.Store(true)
		w.Recheck()
		require.Equal(t, loss{5 * time.Second, ErrRefused}, <-one)
		require.Equal(t, loss{5 * time.Second, ErrRefused}, <-two)
		require.Equal(t, loss{5 * time.Second, ErrRefused}, <-fixed)
		require.Equal(t, []time.Duration{5 * time.Second, 5 * time.Second}, s.times(), "in one batch each time")
	})
}

func TestWatchdog_RecheckOfAsksAboutSome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(func(time.Duration) (bool, error) { return false, nil })
		w := New(said(s.renew), atMost(10), nil)
		defer w.Close()
		lost := map[string]chan error{}
		for _, key := range []string{"a", "b"} {
			told := make(chan error, 1)
			lost[key] = told
			w.Start(&Lease{Holding: holding{key: key, loser: func(err error) { told <- err }}, TTL: time.Hour, Renew: true}, time.Now(), time.Hour)
		}
		keys := map[string]bool{}
		w.Each(func(key string) { keys[key] = true })
		require.Equal(t, map[string]bool{"a": true, "b": true}, keys)
		w.RecheckOf(func(key string) bool { return key == "b" })
		synctest.Wait()
		require.Len(t, lost["b"], 1)
		require.Empty(t, lost["a"])
	})
}

// An answer to a request from before a Recheck may be older than the change that the Recheck is
// for.
func TestWatchdog_RecheckAsksAboutWhatIsGrantedLate(t *testing.T) {
	for _, renew := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(func(time.Duration) (bool, error) { return false, nil })
			w := New(said(s.renew), atMost(10), nil)
			defer w.Close()
			sent := time.Now()
			advance(time.Second)
			w.Recheck()
			advance(time.Second)
			lost := make(chan error, 1)
			w.Start(&Lease{Holding: loser(func(err error) { lost <- err }), TTL: time.Hour, Renew: renew}, sent, time.Hour)
			synctest.Wait()
			require.Len(t, lost, 1)
			w.Start(&Lease{Holding: loser(func(err error) { lost <- err }), TTL: time.Hour, Renew: renew}, time.Now(), time.Hour)
			synctest.Wait()
			require.Len(t, lost, 1, "asked for after it")
		})
	}
}

func TestWatchdog_ObserverIsToldOfEveryTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type try struct {
			at  time.Duration
			err error
		}
		start := time.Now()
		var mu sync.Mutex
		var tries []try
		answers := []func() (bool, error){
			func() (bool, error) { return true, nil },
			func() (bool, error) { return false, errDown },
			func() (bool, error) { return false, nil },
		}
		w := New(said(func([]*Lease, []time.Duration) ([]bool, error) {
			mu.Lock()
			defer mu.Unlock()
			ok, err := answers[len(tries)]()
			return []bool{ok}, err
		}), atMost(10), func(_ *Lease, err error) {
			mu.Lock()
			defer mu.Unlock()
			tries = append(tries, try{time.Since(start), err})
		})
		_, lost := guard(w, 12*time.Second, true)
		<-lost
		w.Close()
		require.Equal(t, []try{{4 * time.Second, nil}, {8 * time.Second, errDown}, {9 * time.Second, ErrRefused}}, tries)
	})
}

func TestWatchdog_CloseWaitsAndTellsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		s := newServer(func(time.Duration) (bool, error) { <-over; return false, nil })
		w := New(said(s.renew), atMost(10), nil)
		_, lost := guard(w, 30*time.Second, true)
		advance(11 * time.Second)
		closed := make(chan struct{})
		go func() { w.Close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Fatal("closed with a request under way")
		default:
		}
		close(over)
		<-closed
		w.Close()
		guard(w, time.Second, true) // guarded by nobody
		advance(time.Minute)
		require.Empty(t, lost)
	})
}

func TestMargin(t *testing.T) {
	require.Equal(t, 3*time.Second, Margin(30*time.Second))
	require.Equal(t, 3*time.Second, Margin(time.Hour))
	require.Equal(t, 10*time.Millisecond, Margin(100*time.Millisecond))
}

// advance waits for d of virtual time. It does not receive from a timer's own channel: under the
// race detector, go1.26 may crash in that within a bubble.
func advance(d time.Duration) {
	done := make(chan struct{})
	time.AfterFunc(d, func() { close(done) })
	<-done
}

// Another kind of lease takes another request, which fails by itself.
func TestWatchdog_NeverMixesKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		batches := map[string]int{} // largest, by kind
		w := New(said(func(leases []*Lease, _ []time.Duration) ([]bool, error) {
			mu.Lock()
			defer mu.Unlock()
			kind := leases[0].Kind()
			batches[kind] = max(batches[kind], len(leases))
			answers := make([]bool, len(leases))
			for i, l := range leases {
				require.Equal(t, kind, l.Kind())
				answers[i] = true
			}
			if kind == "sick" {
				return nil, errDown
			}
			return answers, nil
		}), atMost(4), nil)
		defer w.Close()
		start := time.Now()
		lost := make(chan string, 100)
		for i := range 18 {
			kind := []string{"sick", "well", "fine"}[i%3]
			w.Start(&Lease{Holding: holding{kind: kind, loser: func(error) { lost <- kind }}, TTL: 30 * time.Second, Renew: true}, start, 30*time.Second)
		}
		advance(time.Minute)
		synctest.Wait()
		require.Equal(t, map[string]int{"sick": 4, "well": 4, "fine": 4}, batches)
		require.Len(t, lost, 6)
		for range 6 {
			require.Equal(t, "sick", <-lost)
		}
	})
}

func TestWatchdog_ARenewalUnderWayTakesBackNoExtension(t *testing.T) {
	for name, extended := range map[string]time.Duration{
		"sent before":                       9 * time.Second,
		"sent after, answered before":       10500 * time.Millisecond,
		"sent before, answered after":       9 * time.Second,
		"sent before, and noted at the end": 9 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			s := newServer(func(at time.Duration) (bool, error) {
				if at < 15*time.Second {
					advance(time.Second) // from 10s to 11s
				}
				return true, nil
			})
			w := New(said(s.renew), atMost(10), nil)
			defer w.Close()
			l, lost := guard(w, 30*time.Second, true)
			noted := extended + 100*time.Millisecond
			if name == "sent before, answered after" {
				noted = 10500 * time.Millisecond
			} else if name == "sent before, and noted at the end" {
				noted = 12 * time.Second
			}
			advance(noted)
			w.Extend(l, start.Add(extended), time.Hour)
			advance(13*time.Second - noted)
			require.WithinDuration(t, start.Add(extended+time.Hour-Margin(time.Hour)), l.Until(), 0, name)
			require.WithinDuration(t, start.Add(extended+time.Hour), l.Ends(), 0, name)
			advance(time.Hour)
			require.Empty(t, lost)
			require.True(t, l.Until().After(start.Add(time.Hour)), "it goes on being renewed")
		})
	}
}

// atMost returns a function that allows n leases in one call of renew.
func atMost(n int) func() int { return func() int { return n } }
