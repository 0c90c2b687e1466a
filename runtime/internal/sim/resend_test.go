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
// server: the one before it may arrive when the lock was released, and take it once more. The client gives that back, or the script
// knows the number of the request, and takes nothing.
func TestResend(t *testing.T) {
	locked := func(of func(c *lockrt.Client) lockrt.Locker) taking {
		return func(ctx context.Context, c *lockrt.Client) (func(context.Context) error, error) {
			lease, err := of(c).Lock(ctx)
			return func(ctx context.Context) error { return lease.Unlock(ctx) }, err
		}
	}
	permit := func(ctx context.Context, c *lockrt.Client) (func(context.Context) error, error) {
		p, err := c.PermitSemaphore("key0", 1).TryAcquire(ctx)
		return func(ctx context.Context) error { return p.Release(ctx) }, err
	}
	counted := func(ctx context.Context, c *lockrt.Client) (func(context.Context) error, error) {
		s := c.Semaphore("key0", 1)
		return func(ctx context.Context) error { return s.Release(ctx, 1) }, s.TryAcquire(ctx, 1)
	}
	for name, r := range map[string]resending{
		"Mutex":                    {kind: mutex, take: locked(func(c *lockrt.Client) lockrt.Locker { return c.Mutex("key0") }), scripts: []string{"take", "acquire"}},
		"FairMutex":                {kind: fair, take: locked(func(c *lockrt.Client) lockrt.Locker { return c.FairMutex("key0") }), scripts: []string{"fair_acquire"}},
		"RWMutex":                  {kind: rw, take: locked(func(c *lockrt.Client) lockrt.Locker { return c.RWMutex("key0") }), scripts: []string{"rw_write"}},
		"RWMutex, reader":          {kind: rw, take: locked(func(c *lockrt.Client) lockrt.Locker { return c.RWMutex("key0").RLocker() }), scripts: []string{"rw_read"}},
		"PermitSemaphore":          {kind: permits, take: permit, scripts: []string{"permit_acquire"}},
		"PermitSemaphore, refused": {kind: permits, take: permit, scripts: []string{"permit_acquire"}, refused: true},
		"Semaphore":                {kind: semaphore, take: counted, scripts: []string{"semaphore_acquire"}},
		"Semaphore, refused":       {kind: semaphore, take: counted, scripts: []string{"semaphore_acquire"}, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, r.run)
			runtime.GC() // the content of pools belongs to the bubble that made it
			runtime.GC()
		})
	}
}

// A taking takes something, and returns what gives it back.
type taking func(ctx context.Context, c *lockrt.Client) (back func(context.Context) error, err error)

// A resending takes something while the client sends the request again, which runs one of some scripts.
type resending struct {
	kind    *kind
	take    taking
	scripts []string
	refused bool // nothing is there until the request has been answered
}

// free reports whether nobody has anything of key0.
func (r *resending) free(w *world) bool {
	m := w.whole(nil, "key0")
	if r.kind.hash {
		return !m.Exists("key0")
	}
	n, err := m.Get("key0")
	return err == nil && n == "1"
}

func (r *resending) run(t *testing.T) {
	in := inCluster(r.kind)
	w := newWorld(t, 1, clustered[mutex].name)
	w.plan = &plan{kind: in, servers: in.servers, processes: 1, keys: 1, watchdog: 30 * time.Second, latency: 100 * time.Microsecond}
	w.plan.options = lockrt.Options{Watchdog: w.plan.watchdog, PubSub: lockrt.PubSubSharded}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.stop = cancel
	p := w.enlist(ctx)
	p.connect(w.servers...)
	p.uuid = p.cs[0].ID()
	back, err := r.take(ctx, p.cs[0])
	require.NoError(t, err)
	time.Sleep(time.Second) // it knows who has which slot
	require.NoError(t, back(ctx))
	time.Sleep(time.Minute) // it does not listen any more, so that nobody tells it of the slot

	w.act(w.watch.now(), func(w *world) { w.cluster.close(w.cluster.open(protocol.Slot("key0"), 1), 0) })
	time.Sleep(2 * time.Second) // all servers know the new owner, and the client does not

	// The request goes to the server that had the slot, and is redirected; what is sent then is late, and its connection breaks.
	const before, delayed, resent, came = 0, 1, 2, 3
	var late *conn // the connection of what is late
	var at time.Duration
	state := before
	observe := func(_ *server, e *event) {
		if e == nil {
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		switch {
		case state == before && strings.HasPrefix(e.reply, "-MOVED"):
			w.chances.late, state = 1, delayed
		case state == delayed && w.done["fault: request late, connection closed"] > 0:
			w.chances.late, state = 0, resent
		}
		if state == resent && late == nil {
			for _, l := range w.links {
				for _, c := range l.conns {
					if c.mute[up] && c.mute[down] && l.p == p {
						late = c
					}
				}
			}
		}
		if state == resent && late != nil && slices.Contains(r.scripts, e.script) && e.conn == late.id && e.server == late.l.to.id {
			at, state = e.at, came
		}
	}
	w.act(w.watch.now(), func(w *world) { w.observes = append(w.observes, observe) })
	synctest.Wait()
	ran := func() (time.Duration, int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return at, state
	}
	if r.refused {
		require.NoError(t, w.whole(nil, "key0").Set("key0", "0"))
	}
	back, err = r.take(ctx, p.cs[0])
	if r.refused {
		require.ErrorIs(t, err, lockrt.ErrNotAcquired)
		_, state := ran()
		require.Equal(t, resent, state, "the late request is still on its way")
		require.NoError(t, w.whole(nil, "key0").Set("key0", "1"))
	} else {
		require.NoError(t, err)
		require.NoError(t, back(ctx))
	}
	arrived, is := ran()
	for deadline := w.watch.now() + w.plan.watchdog; is != came && w.watch.now() < deadline; arrived, is = ran() {
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
	}
	require.Equal(t, came, is, "the late request has arrived")
	for !r.free(w) && w.watch.now() < arrived+w.plan.watchdog {
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
	}
	free := w.watch.now() - arrived
	t.Logf("free %v after the late request has arrived", free)
	require.Less(t, free, 10*time.Second, "what it took is given back, and does not live for a whole lease")
	cancel()
	w.end()
	require.Empty(t, w.failures)
}
