package lockrt

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// Each waiter is poked exactly when its last alarm was set for, and not at all when that was cancelled, whatever others do.
func TestAlarms(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const seed = 1
		r := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // a repeatable test
		var a alarms
		waiters := make([]*waiter, 50)
		due := make([]monotonic.Time, len(waiters)) // 0 for never
		for i := range waiters {
			waiters[i] = &waiter{events: engine.NewEventQueue()}
		}
		pokes := 0
		for range 20_000 {
			i := r.IntN(len(waiters))
			switch w := waiters[i]; r.IntN(4) {
			case 0:
				a.stop(w)
				a.stop(w)
				due[i] = 0
			case 1, 2:
				d := time.Duration(1+r.IntN(20)) * time.Millisecond
				a.set(w, d)
				due[i] = monotonic.Now().Add(d)
			default:
				<-time.After(time.Millisecond)
				synctest.Wait()
			}
			for i, w := range waiters {
				ev, poked := w.nextEvent()
				if !poked {
					require.True(t, due[i].IsZero() || due[i].After(monotonic.Now()), "%d was to be poked", i)
					continue
				}
				pokes++
				require.Equal(t, engine.Reason, ev.Kind)
				require.Equal(t, due[i], monotonic.Now(), "%d", i)
				due[i] = 0
			}
		}
		require.Greater(t, pokes, 100)
	})
}
