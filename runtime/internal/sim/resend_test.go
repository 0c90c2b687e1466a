package sim

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// TestResend shows that a client of a cluster remembers that it has sent a request again, because its connection broke and the slot had another
// server: the one before it may arrive when the lock was released, and take it once more. The client gives that back.
func TestResend(t *testing.T) {
	t.Run("Mutex", func(t *testing.T) {
		resend(t, clustered[mutex], func(c *lockrt.Client) lockrt.Locker { return c.Mutex("key0") }, "take", "acquire")
	})
	t.Run("FairMutex", func(t *testing.T) {
		resend(t, clustered[fair], func(c *lockrt.Client) lockrt.Locker { return c.FairMutex("key0") }, "fair_acquire")
	})
}

// resend locks while the client sends the request again, which runs one of some scripts.
func resend(t *testing.T, kind *kind, lock func(c *lockrt.Client) lockrt.Locker, acquires ...string) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, kind.name)
		w.plan = &plan{kind: kind, servers: 3, processes: 1, keys: 1, watchdog: 30 * time.Second, latency: 100 * time.Microsecond}
		w.plan.options = lockrt.Options{Watchdog: w.plan.watchdog, PubSub: lockrt.PubSubSharded}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w.stop = cancel
		p := w.enlist(ctx)
		p.connect(w.servers...)
		p.uuid = p.cs[0].ID()
		m := lock(p.cs[0])
		lease, err := m.Lock(ctx)
		require.NoError(t, err)
		time.Sleep(time.Second) // it knows who has which slot
		require.NoError(t, lease.Unlock(ctx))
		time.Sleep(time.Minute) // it does not listen any more, so that nobody tells it of the slot

		w.act(w.watch.now(), func(w *world) { w.cluster.close(w.cluster.open(protocol.Slot("key0"), 1), 0) })
		time.Sleep(2 * time.Second) // all servers know the new owner, and the client does not

		// The request goes to the server that had the slot, and is redirected; what is sent then is late, and its connection breaks.
		const before, delayed, resent, came = 0, 1, 2, 3
		var runs []time.Duration
		state := before
		observe := func(_ *server, e *event) {
			if e == nil {
				return
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			late := w.done["fault: request late, connection closed"] > 0
			switch {
			case state == before && strings.HasPrefix(e.reply, "-MOVED"):
				w.chances.late, state = 1, delayed
			case state == delayed && late:
				w.chances.late, state = 0, resent
			}
			if slices.Contains(acquires, e.script) && state >= delayed {
				if runs = append(runs, e.at); len(runs) == 2 {
					state = came
				}
			}
		}
		w.act(w.watch.now(), func(w *world) { w.observes = append(w.observes, observe) })
		synctest.Wait()
		ran := func() (times []time.Duration, at int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return runs, state
		}
		lease, err = m.Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(ctx))
		times, at := ran()
		for deadline := w.watch.now() + w.plan.watchdog; len(times) < 2 && w.watch.now() < deadline; times, at = ran() {
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
		}
		require.Equal(t, came, at, "the late request has arrived")
		require.Len(t, times, 2)
		for w.whole(nil, "key0").Exists("key0") && w.watch.now() < times[1]+w.plan.watchdog {
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
		}
		free := w.watch.now() - times[1]
		t.Logf("the lock is free %v after the late request has taken it", free)
		require.Less(t, free, 10*time.Second, "it is given back, and does not live for a whole lease")
		cancel()
		w.end()
		require.Empty(t, w.failures)
	})
	runtime.GC() // the content of pools belongs to the bubble that made it
	runtime.GC()
}
