package lockrt_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// reentrant are all kinds that a holder enters again.
func reentrant(c *lockrt.Client, key string) map[string]lockrt.Locker {
	return map[string]lockrt.Locker{
		"mutex": c.Mutex(key + ":mutex"),
		"fair":  c.FairMutex(key + ":fair"),
		"write": c.RWMutex(key + ":write"),
		"read":  c.RWMutex(key + ":read").RLocker(),
		"multi": lockrt.NewMultiLock(c.Mutex(key+":multi:1"), c.FairMutex(key+":multi:2")),
		"red":   lockrt.RedLockOf(c.Mutex(key+":red:1"), c.Mutex(key+":red:2"), c.Mutex(key+":red:3")),
	}
}

// TestReentry_WithLeaseProlongs shows that a call that enters again for a longer time has the lock for that time, and so has the outer
// lease. A shorter time shortens nothing.
func TestReentry_WithLeaseProlongs(t *testing.T) {
	t.Parallel()
	c := clientOf(t, redistest.Shared(t).URL(), lockrt.Options{})
	for name, m := range reentrant(c, redistest.Key(t, "k")) {
		for way, under := range map[string]func(outer *lockrt.Lease, ctx context.Context) context.Context{
			"by the context": func(outer *lockrt.Lease, _ context.Context) context.Context { return outer.Context() },
			"by the owner":   func(_ *lockrt.Lease, ctx context.Context) context.Context { return ctx },
		} {
			t.Run(name+" "+way, func(t *testing.T) {
				ctx := lockrt.WithOwner(patient(t), lockrt.NewOwner())
				outer := ok(t)(m.Lock(ctx, lockrt.WithLease(time.Minute)))
				longer := ok(t)(m.Lock(under(outer, ctx), lockrt.WithLease(time.Hour)))
				least := time.Now().Add(50 * time.Minute)
				lasts := func(l *lockrt.Lease) { // of a RedLock, when the last server has answered
					until(t, "it lasts for longer", func() bool { return l.Until().After(least) })
				}
				lasts(longer)
				lasts(outer)
				until(t, "Redis knows", func() bool {
					ttl, err := outer.TTL(ctx)
					require.NoError(t, err)
					return ttl > 50*time.Minute
				})
				shorter := ok(t)(m.Lock(under(outer, ctx), lockrt.WithLease(time.Second)))
				lasts(shorter)
				free(t, shorter, longer)
				lasts(outer)
				free(t, outer)
			})
		}
	}
}

// TestReentry_ARenewedOneStaysSo shows that a lease that is renewed is so after a longer one of fixed length has entered it.
func TestReentry_ARenewedOneStaysSo(t *testing.T) {
	t.Parallel()
	c := clientOf(t, redistest.Shared(t).URL(), lockrt.Options{Watchdog: 3 * time.Second})
	for name, m := range reentrant(c, redistest.Key(t, "k")) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outer := ok(t)(m.Lock(patient(t), lockrt.WithWatchdog(5*time.Second)))
			inner := ok(t)(m.Lock(outer.Context(), lockrt.WithLease(6*time.Second)))
			end := inner.Until()
			free(t, inner)
			until(t, "it is renewed", func() bool {
				require.NoError(t, outer.Err())
				return outer.Until().After(end.Add(100 * time.Millisecond))
			})
			free(t, outer)
		})
	}
}

// TestReentry_HasTheLimitOfItsGrant shows that WithMaxHold of a call that enters again has no effect, and that the limit of the outer call ends
// both.
func TestReentry_HasTheLimitOfItsGrant(t *testing.T) {
	t.Parallel()
	const watchdog = time.Second
	c := clientOf(t, redistest.Shared(t).URL(), lockrt.Options{Watchdog: watchdog})
	for name, m := range reentrant(c, redistest.Key(t, "k")) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := patient(t)
			outer := ok(t)(m.Lock(ctx))
			inner := ok(t)(m.Lock(outer.Context(), lockrt.WithMaxHold(100*time.Millisecond)))
			renewedFor(t, inner, watchdog)
			free(t, inner, outer)

			outer = ok(t)(m.Lock(ctx, lockrt.WithMaxHold(100*time.Millisecond)))
			inner = ok(t)(m.Lock(outer.Context()))
			receive(t, outer.Context().Done(), "the end")
			require.ErrorContains(t, outer.Err(), "held for longer than the limit")
			receive(t, inner.Context().Done(), "the end of what is within")
			require.ErrorIs(t, outer.Unlock(ctx), lockrt.ErrLost)
			_ = inner.Unlock(ctx)
		})
	}
}

// TestReentry_OfWhatRedisForgotFails shows that a lease that cannot be prolonged is not entered.
func TestReentry_OfWhatRedisForgotFails(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{Tracking: lockrt.TrackingOff})
	for name, m := range reentrant(c, "k") {
		atBest(t, "was no request of "+name+" sent twice: the second one may lock again what was forgotten", func() bool {
			outer := ok(t)(m.Lock(patient(t), lockrt.WithLease(time.Minute)))
			if name == "red" {
				parts(t, outer, 3) // else one that joins while the inner call is refused makes a majority with one that nobody asks any more
			}
			require.NoError(t, server.Do("FLUSHALL").Error())
			inner, err := m.Lock(outer.Context(), lockrt.WithLease(time.Hour), lockrt.WithWait(0))
			if err == nil {
				free(t, inner, outer)
				return false
			}
			receive(t, outer.Context().Done(), "the end of "+name) // of a RedLock, when a second server has answered
			require.ErrorIs(t, outer.Err(), lockrt.ErrLost, name)
			return true
		})
	}
}
