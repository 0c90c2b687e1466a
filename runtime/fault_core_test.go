package lockrt_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// lateDone is a context that is asked for its end, by whom it is given to, only once something happened.
type lateDone struct {
	context.Context
	first sync.Once
	ready func()
}

func (c *lateDone) Done() <-chan struct{} {
	c.first.Do(c.ready)
	return c.Context.Done()
}

// A call that is on its way into the queue finds the grant of another call of its owner, too.
func TestOwner_EntersWhatItGotAMomentAgo(t *testing.T) {
	t.Parallel()
	m := clientOf(t, redistest.Shared(t).URL(), lockrt.Options{}).Mutex(redistest.Key(t, "k"))
	ctx := lockrt.WithOwner(patient(t), lockrt.NewOwner())
	var outer *lockrt.Lease
	impatient, cancel := context.WithTimeout(ctx, patience/2)
	defer cancel()
	inner, err := m.Lock(&lateDone{Context: impatient, ready: func() {
		var err error
		outer, err = m.Lock(ctx)
		require.NoError(t, err)
	}})
	require.NoError(t, err, "the owner waits for itself")
	require.NoError(t, inner.Unlock(t.Context()))
	require.NoError(t, outer.Unlock(t.Context()))
}

// However the calls of one owner meet, each enters what another of them was granted.
func TestOwner_AllItsCallsHoldAtOnce(t *testing.T) {
	t.Parallel()
	const calls, rounds = 4, 300
	for name, lock := range exclusives {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := lock(newClient(t, lockrt.Options{}), redistest.Key(t, "k"))
			for range rounds {
				ctx := lockrt.WithOwner(patient(t), lockrt.NewOwner())
				var got []<-chan locked
				for range calls {
					got = append(got, lockLater(ctx, m))
				}
				var leases []*lockrt.Lease
				for _, g := range got {
					leases = append(leases, gotten(t, g, "the lock that the owner has"))
				}
				for _, l := range leases {
					require.NoError(t, l.Unlock(t.Context()))
				}
			}
		})
	}
}

// A lease of fixed length ends when it is over, also if the one before in the queue had asked for more and left.
func TestFault_FixedLeaseAfterOneWhoAskedForMore(t *testing.T) {
	t.Parallel()
	atBest(t, inTime, func() bool {
		l := newLine(t, lockrt.Options{Tracking: lockrt.TrackingOff})
		m := l.client.Mutex(l.key)
		runs := l.seen(l.asks)
		l.proxy.Blackhole(redistest.Replies)
		ctx, cancel := context.WithCancel(patient(t))
		defer cancel()
		long := lockLater(ctx, m)
		if !underWay(l, runs, long) {
			return false
		}
		short := lockLater(patient(t), m, lockrt.WithLease(300*time.Millisecond))
		until(t, "two wait", func() bool { return l.client.Stats().Waiting > 0 })
		cancel()
		require.Error(t, receive(t, long, "the first").err)
		l.proxy.Deliver()
		got := receive(t, short, "the second")
		require.NoError(t, got.err)
		receive(t, got.lease.Context().Done(), "the end of the lease")
		require.ErrorIs(t, context.Cause(got.lease.Context()), lockrt.ErrLost)
		gone(t, l.server, l.key) // its holder never unlocks
		return true
	})
}

// A fixed lease that another process has handed over is shorter than the time for which Redis keeps a hand-over. Redis is told when it ends, and so does not
// keep the key for longer.
func TestHandOver_ToAShortFixedLease(t *testing.T) {
	t.Parallel()
	l := newLine(t, lockrt.Options{Tracking: lockrt.TrackingOff})
	held := ok(t)(clientOf(t, l.server.URL(), lockrt.Options{}).Mutex(l.key).Lock(patient(t)))
	short := lockLater(patient(t), l.client.Mutex(l.key), lockrt.WithLease(300*time.Millisecond))
	inLine(t, l.server, l.key, 1)
	others := l.seen(func(cmd []string) bool { return cmd[0] == "EVALSHA" && l.names(cmd) && !l.asks(cmd) })
	free(t, held)
	got := gotten(t, short, "the short lease")
	receive(t, got.Context().Done(), "its end")
	receive(t, others, "the request that withdraws it")
	gone(t, l.server, l.key)
}

// An extension by one holder is no promise to the next.
func TestLease_ExtendEndsWithItsLease(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	server, key := redistest.Shared(t), redistest.Key(t, "k")
	m := newClient(t, lockrt.Options{Hooks: hooks}).Mutex(key, lockrt.WithWatchdog(10*time.Second))
	first, err := m.Lock(patient(t))
	require.NoError(t, err)
	require.NoError(t, first.Extend(t.Context(), time.Hour))
	next := lockLater(patient(t), m)
	receive(t, waiting, "the wait")
	require.NoError(t, first.Unlock(t.Context()))
	got := receive(t, next, "the next")
	require.NoError(t, got.err)
	require.LessOrEqual(t, number(t, server, "PTTL", key), int64(10000), "it outlives a crash of its holder by at most 10s")
	require.NoError(t, got.lease.Unlock(t.Context()))
}

// Nor to a reader that came after it.
func TestLease_ExtensionOfAReaderEndsWithItsLease(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "k")
	m := newClient(t, lockrt.Options{}).RWMutex(key, lockrt.WithWatchdog(10*time.Second))
	first := ok(t)(m.RLock(patient(t)))
	require.NoError(t, first.Extend(patient(t), time.Hour))
	next := ok(t)(m.RLock(patient(t)))
	require.Less(t, time.Until(next.Until()), time.Minute)
	free(t, first)
	require.LessOrEqual(t, number(t, server, "PTTL", key), int64(10000), "it outlives a crash of its holder by at most 10s")
	free(t, next)
	gone(t, server, key)
}

// Nor is an extension that is under way when its holder unlocks.
func TestLease_ExtensionUnderWayEndsWithItsLease(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(c *lockrt.Client, key string, opt lockrt.LockOption) lockrt.Locker{
		"mutex":  func(c *lockrt.Client, key string, opt lockrt.LockOption) lockrt.Locker { return c.Mutex(key, opt) },
		"writer": func(c *lockrt.Client, key string, opt lockrt.LockOption) lockrt.Locker { return c.RWMutex(key, opt) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, key := redistest.Server(t), redistest.Key(t, "k")
			proxy := redistest.Proxy(t, server.Addr())
			c := clientOf(t, proxy.URL(), lockrt.Options{OpTimeout: unhurried})
			m := of(c, key, lockrt.WithWatchdog(10*time.Second))
			first := ok(t)(m.Lock(patient(t)))
			next := lockLater(patient(t), m)
			until(t, "the next one waits", func() bool { return c.Stats().Waiting == 1 })

			asked, unlocked, renews := make(chan struct{}), make(chan struct{}), redistest.EvalSHA(scripts.Renew.SHA1())
			var once sync.Once
			proxy.OnRequest(func(cmd []string) {
				if renews(cmd) {
					once.Do(func() {
						close(asked)
						<-unlocked
					})
				}
			})
			extended := make(chan error, 1)
			go func() { extended <- first.Extend(patient(t), time.Hour) }()
			receive(t, asked, "the request")
			require.NoError(t, first.Unlock(patient(t)))
			close(unlocked)
			require.ErrorIs(t, receive(t, extended, "the end of the call"), lockrt.ErrReleased)
			got := gotten(t, next, "the next one")
			require.LessOrEqual(t, number(t, server, "PTTL", key), int64(10000), "it outlives a crash of its holder by at most 10s")
			require.Less(t, time.Until(got.Until()), time.Minute)
			free(t, got)
			gone(t, server, key)
		})
	}
}

// An answer that comes after the end of the lease extends nothing, whatever it says.
func TestLease_ExtendIsAnsweredAfterTheEnd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end  func(l *lockrt.Lease)
		want error
	}{
		"lost":     {func(*lockrt.Lease) {}, lockrt.ErrLost},
		"unlocked": {func(l *lockrt.Lease) { go func() { _ = l.Unlock(context.Background()) }() }, lockrt.ErrReleased},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, key := redistest.Server(t), redistest.Key(t, "k")
			proxy := redistest.Proxy(t, server.Addr())
			m := clientOf(t, proxy.URL(), lockrt.Options{OpTimeout: unhurried}).Mutex(key)
			lease := ok(t)(m.Lock(patient(t), lockrt.WithLease(time.Second)))
			proxy.Blackhole(redistest.Replies)
			extended := make(chan error, 1)
			go func() { extended <- lease.Extend(patient(t), time.Hour) }()
			until(t, "the key is extended", func() bool { return number(t, server, "PTTL", key) > 10000 })
			test.end(lease)
			receive(t, lease.Context().Done(), "the end")
			proxy.Deliver()
			require.ErrorIs(t, receive(t, extended, "the answer"), test.want)
			_ = lease.Unlock(t.Context())
			gone(t, server, key)
		})
	}
}

func TestLease_CauseOfALossThatWasBeforeTheEndOfTheParent(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).Mutex(redistest.Key(t, "k"))
	ctx, cancel := context.WithCancel(patient(t))
	lease, err := m.Lock(ctx)
	require.NoError(t, err)
	taken, err := m.ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, taken)
	require.ErrorIs(t, lease.Err(), lockrt.ErrLost)
	cancel()
	require.ErrorIs(t, context.Cause(lease.Context()), lockrt.ErrLost)
}
