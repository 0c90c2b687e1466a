package lockrt_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// traced is what the clients of these tests find in contexts.
type traced struct{}

func tracing(opts lockrt.Options) lockrt.Options {
	opts.Hooks.TraceParent = func(ctx context.Context) string {
		text, _ := ctx.Value(traced{}).(string)
		return text
	}
	return opts
}

// heldOf returns what the snapshot says of a key that is held.
func heldOf(t *testing.T, s lockrt.Snapshot, key string) lockrt.HeldLock {
	t.Helper()
	for _, h := range s.Held {
		if h.Key == key {
			return h
		}
	}
	require.Failf(t, "not in the snapshot", "%s in %+v", key, s.Held)
	return lockrt.HeldLock{}
}

// Every kind of lock is listed while it is held and while it is waited for, with the lease under whose context that is.
func TestSnapshot_ShowsWhatIsHeldAndWaitedFor(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	permits := func(c *lockrt.Client, key string, opts ...lockrt.LockOption) lockrt.Locker {
		return lockrt.PermitLocker(c.PermitSemaphore(key, 1, opts...))
	}
	for kind, of := range map[string]func(c *lockrt.Client, key string, opts ...lockrt.LockOption) lockrt.Locker{
		"mutex": func(c *lockrt.Client, key string, opts ...lockrt.LockOption) lockrt.Locker {
			return c.Mutex(key, opts...)
		},
		"fair": func(c *lockrt.Client, key string, opts ...lockrt.LockOption) lockrt.Locker {
			return c.FairMutex(key, opts...)
		},
		"write": func(c *lockrt.Client, key string, opts ...lockrt.LockOption) lockrt.Locker {
			return c.RWMutex(key, opts...)
		},
		"permit": permits,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c, key := clientOf(t, server.URL(), tracing(lockrt.Options{Name: "orders"})), redistest.Key(t, kind)
			before := time.Now()
			ctx := context.WithValue(patient(t), traced{}, "00-1-1-01")
			held := ok(t)(of(c, key, lockrt.WithName("orders.Service.Pay")).Lock(ctx))
			outer := ok(t)(c.Mutex(key + ":outer").Lock(patient(t)))
			waiting, cancel := context.WithCancel(outer.Context())
			defer cancel()
			got := lockLater(waiting, of(c, key), lockrt.WithName("orders.Service.Refund"), lockrt.WithWait(time.Hour))
			until(t, "the call waits", func() bool { return c.Stats().Waiting == 1 })

			s := c.Snapshot()
			require.Equal(t, lockrt.SnapshotVersion, s.Version)
			require.Equal(t, c.Process(), s.Process)
			require.Len(t, s.Held, 2)
			h := heldOf(t, s, key)
			require.Equal(t, kind, string(h.Kind))
			require.Equal(t, "orders.Service.Pay", h.Name)
			require.Equal(t, "00-1-1-01", h.Trace)
			require.Equal(t, 1, h.Holds)
			require.Equal(t, 1, h.Queued)
			require.True(t, h.Renewed)
			require.Equal(t, lockrt.DefaultWatchdog, h.Lease)
			require.Positive(t, h.Left)
			require.LessOrEqual(t, h.Left, h.Lease)
			require.WithinRange(t, h.Since, before.Add(-time.Millisecond), time.Now())
			if kind != "permit" {
				require.True(t, strings.HasPrefix(h.Owner, c.ID()+":"), h.Owner)
			}

			require.Len(t, s.Waiting, 1)
			w := s.Waiting[0]
			require.Equal(t, key, w.Key)
			require.Equal(t, "orders.Service.Refund", w.Name)
			require.NotNil(t, w.Deadline, "the context ends before the wait")
			require.Less(t, w.Deadline.Sub(w.Since), time.Hour)
			require.Equal(t, []lockrt.LeaseRef{{Key: key + ":outer", Owner: heldOf(t, s, key+":outer").Owner}}, w.Under)

			text, err := json.Marshal(s)
			require.NoError(t, err)
			var again lockrt.Snapshot
			require.NoError(t, json.Unmarshal(text, &again))
			require.Len(t, again.Held, 2)
			require.Equal(t, w.Under, again.Waiting[0].Under)

			cancel()
			require.ErrorIs(t, receive(t, got, "the end of the call").err, context.Canceled)
			free(t, held, outer)
			s = c.Snapshot()
			require.Empty(t, s.Held)
			require.Empty(t, s.Waiting)
		})
	}
}

// The readers of a process are one hold in Redis, permits have their number, and a lock with parts appears as its
// parts.
func TestSnapshot_CountsHolds(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{})
	rw := c.RWMutex("rw")
	readers := []*lockrt.Lease{ok(t)(rw.RLock(patient(t))), ok(t)(rw.RLock(patient(t)))}
	some, err := c.PermitSemaphore("permits", 5).AcquireN(patient(t), 3)
	require.NoError(t, err)
	outer := ok(t)(c.Mutex("again", lockrt.WithFencing()).Lock(patient(t)))
	inner := ok(t)(c.Mutex("again").Lock(outer.Context()))
	both := ok(t)(lockrt.NewMultiLock(c.Mutex("a"), c.Mutex("b")).Lock(patient(t), lockrt.WithName("transfer")))

	s := c.Snapshot()
	require.Len(t, s.Held, 5)
	require.Equal(t, 2, heldOf(t, s, "rw").Holds)
	require.Equal(t, lockrt.KindRead, heldOf(t, s, "rw").Kind)
	require.Equal(t, 3, heldOf(t, s, "permits").Holds)
	require.Equal(t, some.PermitID(), heldOf(t, s, "permits").Owner)
	require.Equal(t, 2, heldOf(t, s, "again").Holds)
	require.Equal(t, outer.Token(), heldOf(t, s, "again").Token)
	require.Equal(t, "transfer", heldOf(t, s, "a").Name)

	got := lockLater(both.Context(), c.Mutex("again"))
	until(t, "the call waits", func() bool { return c.Stats().Waiting == 1 })
	under := c.Snapshot().Waiting[0].Under
	require.ElementsMatch(t, []string{"a", "b"}, []string{under[0].Key, under[1].Key})
	free(t, inner, outer)
	free(t, gotten(t, got, "the lock"), both)
	free(t, readers...)
	require.NoError(t, some.Release(patient(t)))
	require.Empty(t, c.Snapshot().Held)
}

// A RedLock is waited for by the client of its first server, and what it holds is shown by each.
func TestSnapshot_RedLock(t *testing.T) {
	t.Parallel()
	clients := make([]*lockrt.Client, 3)
	for i := range clients {
		clients[i] = clientOf(t, redistest.Server(t).URL(), lockrt.Options{})
	}
	lock := lockrt.NewRedLock("red", clients)
	held := ok(t)(lock.Lock(patient(t), lockrt.WithName("first")))
	got := lockLater(patient(t), lock, lockrt.WithName("second"))
	until(t, "the call waits", func() bool {
		s := clients[0].Snapshot()
		return len(s.Waiting) == 1 && s.Waiting[0].Name == "second" && s.Waiting[0].Kind == "redlock"
	})
	parts := 0
	for _, c := range clients {
		parts += len(c.Snapshot().Held)
	}
	require.GreaterOrEqual(t, parts, 2)
	free(t, held)
	free(t, gotten(t, got, "the lock"))
}

// A client says who it is, and leaves out what is nobody's business.
func TestProcess(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	require.NoError(t, err)
	c := newClient(t, lockrt.Options{Name: "orders"})
	p := c.Process()
	require.Equal(t, c.ID(), p.ID)
	require.Equal(t, "orders", p.Name)
	require.Equal(t, host, p.Host)
	require.Equal(t, os.Getpid(), p.PID)
	require.Contains(t, []string{filepath.Base(os.Args[0]), "github.com/lockgen/lockgen/runtime.test"}, p.Program)
	require.WithinRange(t, p.Started, time.Now().Add(-24*time.Hour), time.Now())

	p = newClient(t, lockrt.Options{Name: "orders", Anonymous: true}).Process()
	require.Empty(t, p.Host)
	require.Zero(t, p.PID)
	require.Equal(t, "orders", p.Name)
}

// The zero Client has nothing to show, and names that are too long are refused before anything is sent.
func TestSnapshot_BadInput(t *testing.T) {
	t.Parallel()
	require.Empty(t, (*lockrt.Client)(nil).Snapshot().Held)
	require.Empty(t, new(lockrt.Client).Snapshot().Held)
	require.Empty(t, (*lockrt.Client)(nil).Process())
	long := strings.Repeat("n", 1025)
	_, err := lockrt.Open(t.Context(), redistest.Shared(t).URL(), lockrt.Options{Name: long})
	require.ErrorIs(t, err, lockrt.ErrBadOption)
	_, err = newClient(t, lockrt.Options{}).Mutex(redistest.Key(t, "k"), lockrt.WithName(long)).Lock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrBadOption)
	c := newClient(t, lockrt.Options{})
	held := ok(t)(c.Mutex(redistest.Key(t, "k")).Lock(patient(t)))
	require.NoError(t, c.Close())
	require.Empty(t, c.Snapshot().Held)
	_ = held
}
