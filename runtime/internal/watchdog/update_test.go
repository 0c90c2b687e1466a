package watchdog

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// late is for how long an update may be late.
const late = time.Minute

// The trust in a fixed lease of a minute after an update that was sent in the first second and settled in the third one.
func TestUpdate_Fixed(t *testing.T) {
	for _, c := range []struct {
		name          string
		ttl           time.Duration
		outcome       Outcome
		extends       bool
		before, after time.Duration // since the lease was asked for
	}{
		{"shorter, done", 10 * time.Second, Done, true, 10 * time.Second, 10 * time.Second},
		{"shorter, repeated", 10 * time.Second, Repeated, true, 10 * time.Second, 10 * time.Second},
		{"shorter, unknown", 10 * time.Second, Unknown, true, 10 * time.Second, 10 * time.Second},
		{"shorter, refused", 10 * time.Second, Refused, true, 10 * time.Second, 57 * time.Second},
		{"longer, done", time.Hour, Done, true, 57 * time.Second, time.Hour - 2*time.Second},
		{"longer, repeated", time.Hour, Repeated, true, 57 * time.Second, time.Hour - 2*time.Second},
		{"longer, done, one of several", time.Hour, Done, false, 57 * time.Second, 57 * time.Second},
		{"longer, unknown", time.Hour, Unknown, true, 57 * time.Second, 57 * time.Second},
		{"longer, refused", time.Hour, Refused, true, 57 * time.Second, 57 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New(said(newServer(up).renew), atMost(1), nil)
				defer w.Close()
				l, lost := lease("a", time.Minute, false)
				start := time.Now()
				w.Start(l, start, time.Minute)
				advance(time.Second)
				settle := w.Update(l, time.Now(), c.ttl, late, c.extends)
				require.Equal(t, c.before, l.Until().Sub(start))
				advance(2 * time.Second)
				settle(c.outcome)
				require.Equal(t, c.after, l.Until().Sub(start))
				require.Equal(t, ErrElapsed, <-lost)
				require.Equal(t, c.after, time.Since(start))
			})
		})
	}
}

// The trust ends while the outcome of the update is awaited.
func TestUpdate_AwaitedForLongerThanTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(said(newServer(up).renew), atMost(1), nil)
		defer w.Close()
		l, lost := lease("a", time.Minute, false)
		start := time.Now()
		w.Start(l, start, time.Minute)
		settle := w.Update(l, start, 2*time.Second, late, true)
		require.Equal(t, ErrElapsed, <-lost)
		require.Equal(t, 1800*ms, time.Since(start))
		until := l.Until()
		settle(Done)
		w.Extend(l, time.Now(), time.Hour)
		require.Equal(t, until, l.Until(), "what is lost stays lost")
	})
	synctest.Test(t, func(t *testing.T) {
		w := New(said(newServer(up).renew), atMost(1), nil)
		defer w.Close()
		l, lost := lease("a", time.Second, false)
		start := time.Now()
		w.Start(l, start, time.Second)
		settle := w.Update(l, start, time.Hour, late, true)
		require.Equal(t, ErrElapsed, <-lost)
		settle(Done)
		require.Equal(t, 900*ms, l.Until().Sub(start), "a longer update does not bring it back")
	})
}

// A refused update gives back the trust that it took, but no later one, and ends none that the lease has got since.
func TestUpdate_RefusedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(said(newServer(up).renew), atMost(1), nil)
		defer w.Close()
		l, lost := lease("a", 30*time.Second, true)
		w.Start(l, time.Now(), 30*time.Second)
		settle := w.Update(l, time.Now(), 3*time.Second, late, true)
		advance(time.Minute) // the lease is renewed meanwhile
		require.Empty(t, lost)
		settle(Refused)
		synctest.Wait()
		require.Empty(t, lost)
		require.Equal(t, 27*time.Second, time.Until(l.Until()))
		require.True(t, w.Stop(l))
	})
	synctest.Test(t, func(t *testing.T) {
		w := New(said(newServer(up).renew), atMost(1), nil)
		defer w.Close()
		l, _ := lease("a", time.Minute, false)
		w.Start(l, time.Now(), time.Minute)
		first := w.Update(l, time.Now(), 30*time.Second, late, true)
		second := w.Update(l, time.Now(), 10*time.Second, late, true)
		first(Refused)
		require.Equal(t, 9*time.Second, time.Until(l.Until()))
		second(Done)
		require.Equal(t, 9*time.Second, time.Until(l.Until()))
	})
}

// While the outcome is awaited, a renewal is worth no more than the update: the server may run the update after it. So it is while an update
// whose outcome stayed unknown may be late.
func TestUpdate_RenewedWhileItIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(up)
		w := New(said(s.renew), atMost(1), nil)
		defer w.Close()
		l, lost := lease("a", 30*time.Second, true)
		start := time.Now()
		w.Start(l, start, 30*time.Second)
		advance(9 * time.Second)
		settle := w.Update(l, time.Now(), 3*time.Second, late, true)
		advance(5500 * ms)
		require.Empty(t, lost)
		require.Equal(t, []time.Duration{10 * time.Second, 11 * time.Second, 12 * time.Second, 13 * time.Second, 14 * time.Second}, s.times())
		require.Equal(t, 14*time.Second+2700*ms, l.Until().Sub(start))
		settle(Unknown)
		synctest.Wait()
		require.Equal(t, 14500*ms+2700*ms, l.Until().Sub(start))
		advance(late - time.Second)
		require.LessOrEqual(t, time.Until(l.Until()), 2700*ms)
		advance(2 * time.Second)
		require.Greater(t, time.Until(l.Until()), 25*time.Second)
		require.Empty(t, lost)
		require.True(t, w.Stop(l))
	})
}

// The server may have run an update after another one that was sent later, or whose answer came later.
func TestUpdate_SeveralAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(said(newServer(up).renew), atMost(1), nil)
		defer w.Close()
		l, _ := lease("a", time.Minute, false)
		start := time.Now()
		trusted := func() time.Duration { return l.Until().Sub(start) }
		w.Start(l, start, time.Minute)

		longer := w.Update(l, start, time.Hour, late, true)
		shorter := w.Update(l, start, 10*time.Second, late, true)
		advance(time.Second)
		longer(Done)
		require.Equal(t, 9*time.Second, trusted(), "the other one is under way")
		shorter(Done)
		require.Equal(t, 9*time.Second, trusted())

		longer = w.Update(l, time.Now(), time.Hour, late, true)
		shorter = w.Update(l, time.Now(), 5*time.Second, late, true)
		advance(time.Second)
		shorter(Done)
		longer(Done)
		require.Equal(t, 5500*ms, trusted(), "Redis may have run the longer one first")

		w.Extend(l, start.Add(1500*ms), time.Hour)
		require.Equal(t, 6*time.Second, trusted(), "asked before the outcome was known: for no longer than the shortest update")
		w.Extend(l, time.Now(), time.Hour)
		require.Equal(t, 2*time.Second+time.Hour-Margin(time.Hour), trusted())

		first := w.Update(l, time.Now(), time.Minute, late, true)
		second := w.Update(l, time.Now(), 30*time.Second, late, true)
		first(Done)
		second(Refused)
		require.Equal(t, 2*time.Second+27*time.Second, trusted(), "the trust that one took is not given back beside another")
	})
}

// The watchdog renews a lease at once after an update, also if a renewal was under way meanwhile.
func TestUpdate_Renewed(t *testing.T) {
	for _, outcome := range []Outcome{Done, Repeated, Unknown, Refused} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(up)
			w := New(said(s.renew), atMost(1), nil)
			defer w.Close()
			l, _ := lease("a", 30*time.Second, true)
			start := time.Now()
			w.Start(l, start, 30*time.Second)
			settle := w.Update(l, start, time.Second, late, true)
			require.Equal(t, 900*ms, l.Until().Sub(start))
			advance(100 * ms)
			settle(outcome)
			synctest.Wait()
			trust := 27 * time.Second
			if outcome == Unknown || outcome == Repeated {
				trust = 900 * ms
			}
			require.Equal(t, 100*ms+trust, l.Until().Sub(start))
			require.Len(t, s.times(), 1)
			require.True(t, w.Stop(l))
		})
	}
}

// The server may run an update whose outcome stayed unknown, or once more one that it ran, after one that was sent later and is done: for as long as it may be late, no answer
// is worth more than the shortest of them.
func TestUpdate_BesideOneOfUnknownOutcome(t *testing.T) {
	for _, first := range []Outcome{Unknown, Repeated} {
		synctest.Test(t, func(t *testing.T) {
			w := New(said(newServer(up).renew), atMost(1), nil)
			defer w.Close()
			l, _ := lease("a", time.Hour, false)
			start := time.Now()
			trusted := func() time.Duration { return l.Until().Sub(start) }
			w.Start(l, start, time.Hour)
			w.Update(l, time.Now(), 2*time.Minute, late, true)(first)
			require.Equal(t, 117*time.Second, trusted())
			advance(time.Second)
			w.Update(l, time.Now(), time.Hour, late, true)(Done)
			require.Equal(t, 118*time.Second, trusted(), "the first one may come after it")
			advance(time.Second)
			w.Update(l, time.Now(), 3*time.Hour, late, true)(Unknown)
			w.Update(l, time.Now(), 2*time.Hour, late, true)(Done)
			require.Equal(t, 119*time.Second, trusted(), "the shorter of two counts")
			advance(late - 1)
			w.Extend(l, time.Now(), time.Hour)
			require.Equal(t, 2*time.Second+late-1+117*time.Second, trusted())
			advance(1)
			w.Extend(l, time.Now(), time.Hour)
			require.Equal(t, 2*time.Second+late+time.Hour-Margin(time.Hour), trusted(), "none can come any more")

			w.Update(l, time.Now(), 3*time.Hour, late, true)(Unknown)
			w.Extend(l, time.Now(), 4*time.Hour)
			require.Equal(t, 2*time.Second+late+3*time.Hour-Margin(3*time.Hour), trusted(), "the earlier ones do not count any more")
			w.Update(l, time.Now(), time.Minute, late, true)(Unknown)
			advance(time.Second)
			w.Extend(l, time.Now(), time.Hour)
			require.Equal(t, 57*time.Second, time.Until(l.Until()), "a shorter one counts in the place of a longer one")
		})
	}
}

// A renewed lease whose key is to end is renewed before it ends, also when the key does not end any more: so it is not lost. The answer to the later one of two
// requests counts, whichever comes first.
func TestWatchdog_ABoundThatIsLifted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *Watchdog
		var bound atomic.Int64
		bound.Store(int64(5 * time.Second))
		w = New(func(leases []*Lease, _ []time.Duration) []error {
			w.Bound(leases[0], time.Now(), time.Duration(bound.Load()))
			return make([]error, len(leases))
		}, atMost(1), nil)
		defer w.Close()
		l, lost := lease("a", 30*time.Second, true)
		start := time.Now()
		w.Start(l, start, l.TTL)
		advance(10500 * ms) // the first renewal
		require.Less(t, time.Until(l.Until()), 5*time.Second)
		bound.Store(-1) // which no request but the next renewal tells
		advance(20 * time.Second)
		require.Empty(t, lost)
		require.Greater(t, time.Until(l.Until()), 10*time.Second)

		w.Bound(l, time.Now(), 5*time.Second)
		w.Bound(l, time.Now().Add(-time.Millisecond), -1)
		w.Extend(l, time.Now().Add(-time.Millisecond), 30*time.Second)
		require.LessOrEqual(t, time.Until(l.Until()), 4500*ms)
	})
}

// A lease ends with its key, also if the client learns of that end later than the grant, or if that end changes.
func TestWatchdog_ABoundThatIsLearnedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(said(newServer(up).renew), atMost(1), nil)
		defer w.Close()
		l, lost := lease("a", time.Hour, false)
		start := time.Now()
		trusted := func(d time.Duration) {
			t.Helper()
			require.Equal(t, d, l.Until().Sub(start))
		}
		w.Start(l, start, time.Hour)
		w.Bound(l, start, -1)
		trusted(time.Hour - 3*time.Second)
		w.Bound(l, start, 10*time.Second)
		trusted(9 * time.Second)
		advance(time.Second)
		w.Extend(l, time.Now(), time.Hour)
		trusted(9 * time.Second)
		w.Bound(l, start, 5*time.Second) // an answer that came late
		trusted(9 * time.Second)
		settle := w.Update(l, time.Now(), 2*time.Second, late, true)
		w.Bound(l, time.Now(), 4*time.Second)
		settle(Refused)
		trusted(time.Second + 3600*ms)

		w.Bound(l, time.Now(), -1)
		trusted(time.Second + 3600*ms)
		w.Extend(l, time.Now(), time.Hour)
		trusted(time.Second + time.Hour - 3*time.Second)
		w.Bound(l, time.Now(), 10*time.Second)
		require.Equal(t, ErrElapsed, <-lost)
		require.Equal(t, 10*time.Second, time.Since(start))
	})
}
