package engine

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// Each waiter is poked exactly when its last alarm was set for, and not at all when that was cancelled, whatever others do.
func TestAlarms(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const seed = 1
		r := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // a repeatable test
		var a Alarms[int]
		waiters := make([]*Waiter[int], 50)
		due := make([]monotonic.Time, len(waiters)) // 0 for never
		for i := range waiters {
			waiters[i] = NewWaiter[int]()
		}
		pokes := 0
		for range 20_000 {
			i := r.IntN(len(waiters))
			switch w := waiters[i]; r.IntN(4) {
			case 0:
				a.Stop(w)
				a.Stop(w)
				due[i] = 0
			case 1, 2:
				d := time.Duration(1+r.IntN(20)) * time.Millisecond
				a.Set(w, d)
				due[i] = monotonic.Now().Add(d)
			default:
				<-time.After(time.Millisecond)
				synctest.Wait()
			}
			for i, w := range waiters {
				ev, poked := w.NextEvent()
				if !poked {
					require.True(t, due[i].IsZero() || due[i].After(monotonic.Now()), "%d was to be poked", i)
					continue
				}
				pokes++
				require.Equal(t, Reason, ev.Kind)
				require.Equal(t, due[i], monotonic.Now(), "%d", i)
				due[i] = 0
			}
		}
		require.Greater(t, pokes, 100)
	})
}

// Long alarms that are close to each other come together, with the first alarm after which no short one is due. Short alarms, and
// those that are further away, come when they were set for.
func TestAlarms_LongOnesComeTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var a Alarms[int]
		start := monotonic.Now()
		came, rechecks := map[string]time.Duration{}, map[string]bool{}
		waiters := map[string]*Waiter[int]{}
		set := func(name string, d time.Duration) {
			waiters[name] = NewWaiter[int]()
			a.Set(waiters[name], d)
		}
		pass := func(d time.Duration) {
			for ; d > 0; d -= time.Millisecond {
				<-time.After(time.Millisecond)
				synctest.Wait()
				for name, w := range waiters {
					if ev, poked := w.NextEvent(); poked {
						came[name], rechecks[name] = monotonic.Since(start), ev.Recheck
					}
				}
			}
		}
		set("first", longAlarm)
		set("second", longAlarm+earlyAlarm/2)
		set("third", longAlarm+earlyAlarm)
		set("later", longAlarm+3*earlyAlarm)
		pass(longAlarm - time.Second)
		require.Empty(t, came)
		set("short", time.Second+earlyAlarm/4)
		pass(10 * time.Second)
		require.Equal(t, map[string]time.Duration{
			"first": longAlarm, "short": longAlarm + earlyAlarm/4, "second": longAlarm + earlyAlarm/4, "third": longAlarm + earlyAlarm/4,
			"later": longAlarm + 3*earlyAlarm,
		}, came)
		require.Equal(t, map[string]bool{"first": true, "short": false, "second": true, "third": true, "later": true}, rechecks)
	})
}

// Wake pokes the waiters that have an alarm, and no others, and leaves their alarms as they are.
func TestAlarms_Wake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var a Alarms[int]
		a.Wake() // nobody
		set, stopped, never := NewWaiter[int](), NewWaiter[int](), NewWaiter[int]()
		set.Poke()
		set.NextEvent()
		set.Events.Shrink(false)
		a.Set(set, time.Second)
		a.Set(stopped, time.Second)
		a.Stop(stopped)
		a.Wake()
		a.Wake() // one event is enough
		for _, w := range []*Waiter[int]{set, stopped, never} {
			_, poked := w.NextEvent()
			require.Equal(t, w == set, poked)
			require.True(t, w.Events.Empty())
		}
		<-time.After(time.Second)
		synctest.Wait()
		_, poked := set.NextEvent()
		require.True(t, poked)
	})
}

// A look in case a message was lost is in no hurry, also where the server reports no changes: the requests of many waiters go together. The end
// of a short lease that nobody announces is no such look.
func TestAlarms_LooksAreRechecks(t *testing.T) {
	t.Parallel()
	for ttl, want := range map[time.Duration]bool{-1: true, time.Second: false} {
		synctest.Test(t, func(t *testing.T) {
			var a Alarms[int]
			for _, longest := range []time.Duration{LookAgain, LookAgainBlind} {
				w := NewWaiter[int]()
				a.Set(w, NextLook(longest, ttl, true))
				<-w.Events.Bell()
				ev, ok := w.NextEvent()
				require.True(t, ok)
				require.Equal(t, want, ev.Recheck, "%v", longest)
			}
		})
	}
}
