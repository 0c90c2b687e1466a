package lockrt_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

func TestInspect(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	hooks, waiting, _ := watch()
	c, other := clientOf(t, server.URL(), lockrt.Options{Hooks: hooks}), clientOf(t, server.URL(), lockrt.Options{Hooks: hooks})
	m := c.Mutex("k")
	got, err := m.Inspect(patient(t))
	require.NoError(t, err)
	require.Equal(t, lockrt.Standing{}, got, "free")

	lease, err := m.Lock(patient(t))
	require.NoError(t, err)
	inner, err := m.Lock(lease.Context())
	require.NoError(t, err)
	got, err = m.Inspect(patient(t))
	require.NoError(t, err)
	require.True(t, got.Ours)
	require.False(t, got.Java)
	require.Equal(t, 2, got.Count)
	require.Greater(t, got.TTL, 20*time.Second)
	require.LessOrEqual(t, got.TTL, 30*time.Second)
	fields, err := server.Do("HKEYS", "k").AsStrSlice()
	require.NoError(t, err)
	require.Equal(t, fields[0], got.Owner)
	require.True(t, strings.HasPrefix(got.Owner, c.ID()+":"))
	require.NotEqual(t, c.ID(), other.ID())
	require.Same(t, c, lease.Client())
	require.NoError(t, inner.Unlock(t.Context()))

	next := lockLater(patient(t), other.Mutex("k"))
	receive(t, waiting, "the waiter")
	inLine(t, server, "k", 1)
	got, err = other.Mutex("k").Inspect(patient(t))
	require.NoError(t, err)
	require.False(t, got.Ours)
	require.False(t, got.Java)
	require.Equal(t, 1, got.Count)
	require.Equal(t, 1, got.Waiting)
	require.Zero(t, got.Listening)
	require.NoError(t, lease.Unlock(t.Context()))
	after := receive(t, next, "the lock")
	require.NoError(t, after.err)
	require.NoError(t, after.lease.Unlock(t.Context()))

	server.Do("HSET", "k", "11111111-2222-4333-8444-555555555555:7", "3")
	got, err = m.Inspect(patient(t))
	require.NoError(t, err)
	require.Equal(t, lockrt.Standing{Owner: "11111111-2222-4333-8444-555555555555:7", Java: true, Count: 3, TTL: -time.Millisecond}, got)

	server.Do("DEL", "k")
	server.Do("HSET", "k", "mode", "read", "11111111-2222-4333-8444-555555555555:7", "2")
	got, err = m.Inspect(patient(t))
	require.NoError(t, err)
	require.True(t, got.Java)
	require.Equal(t, 2, got.Count)

	server.Do("SET", "k", "text")
	_, err = m.Inspect(patient(t))
	require.ErrorIs(t, err, lockrt.ErrWrongType)
	_, err = c.Mutex("").Inspect(patient(t))
	require.ErrorContains(t, err, "the key is empty")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = m.Inspect(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, c.Close())
	_, err = m.Inspect(patient(t))
	require.ErrorIs(t, err, lockrt.ErrClosed)
}

func TestStats(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	renewed := make(chan lockrt.RenewEvent, 1000)
	hooks, waiting, _ := watch()
	hooks.Renewed = func(_ context.Context, e lockrt.RenewEvent) { renewed <- e }
	c, other := clientOf(t, server.URL(), lockrt.Options{Hooks: hooks, Watchdog: 6 * time.Second}), clientOf(t, server.URL(), lockrt.Options{})
	m := c.Mutex("k")
	s := c.Stats()
	require.Len(t, s.Waits, 20)
	require.Equal(t, 128*time.Microsecond, s.Waits[0].UpTo)
	require.Equal(t, time.Duration(math.MaxInt64), s.Waits[19].UpTo)

	first, err := m.Lock(patient(t))
	require.NoError(t, err)
	require.NoError(t, receive(t, renewed, "a renewal").Err)
	later := lockLater(patient(t), m)
	receive(t, waiting, "the waiter")
	s = c.Stats()
	require.Equal(t, 1, s.Held)
	require.Equal(t, 1, s.Waiting)
	require.Positive(t, s.Renewals)
	require.NoError(t, first.Unlock(t.Context()))
	next := receive(t, later, "the lock")
	require.NoError(t, next.err)
	require.NoError(t, next.lease.Unlock(t.Context()))

	handed := 0
	for c.Stats().HandOversRemote == 0 { // for nearly always it is told before it asks again
		require.Less(t, handed, 20)
		handed++
		held := ok(t)(other.Mutex("k").Lock(patient(t)))
		third := lockLater(patient(t), m)
		inLine(t, server, "k", 1)
		free(t, held)
		free(t, gotten(t, third, "the lock"))
	}
	last := ok(t)(m.Lock(patient(t)))
	require.NoError(t, second(m.ForceUnlock(patient(t))))
	require.ErrorIs(t, last.Unlock(t.Context()), lockrt.ErrLost)

	until(t, "nothing is held", func() bool { return c.Stats().Held == 0 }) // the lease was told first
	s = c.Stats()
	require.Zero(t, s.Waiting)
	require.EqualValues(t, 1, s.Losses)
	require.EqualValues(t, 1, s.HandOversRemote)
	require.LessOrEqual(t, s.HandOversLocal, uint64(1), "it is asked for others after 10ms")
	var calls uint64
	for _, b := range s.Waits {
		calls += b.Count
	}
	require.EqualValues(t, 3+handed, calls)
}

// TestStats_WaitsOfCallsThatFail shows that a call is none that got its lock, if it entered the lease of its owner and wants more than that has.
func TestStats_WaitsOfCallsThatFail(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	c, other := newClient(t, lockrt.Options{Hooks: hooks}), newClient(t, lockrt.Options{})
	m := c.Mutex(redistest.Key(t, "k"))
	held := ok(t)(other.Mutex(m.Key()).Lock(patient(t)))
	ctx := lockrt.WithOwner(patient(t), lockrt.NewOwner())
	first := lockLater(ctx, m)
	receive(t, waiting, "the first call waits")
	second := lockLater(ctx, m, lockrt.WithFencing())
	receive(t, waiting, "the second call waits")
	free(t, held)
	lease := gotten(t, first, "the lock")
	require.ErrorIs(t, receive(t, second, "the second call").err, lockrt.ErrBadOption)
	var waits uint64
	for _, b := range c.Stats().Waits {
		waits += b.Count
	}
	require.EqualValues(t, 1, waits)
	free(t, lease)
}

// TestStats_SentAgain shows that a request is counted that is sent again, since its answer is late, or since its connection broke.
func TestStats_SentAgain(t *testing.T) {
	t.Parallel()
	for name, mode := range modes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, brisk)
			before := l.client.Stats()
			require.Positive(t, before.ResponseTime)
			lost := l.proxy.DropReply(redistest.EvalSHA(scripts.FairAcquire.SHA1()), 1, mode)
			free(t, ok(t)(l.client.FairMutex(l.key).Lock(patient(t))))
			receive(t, lost.Done(), "the loss")
			require.Greater(t, l.client.Stats().SentAgain, before.SentAgain)
		})
	}
}

// TestStats_SentAgain_OfALoneCaller shows that a request of a lone caller counts, too. It has a connection to itself.
func TestStats_SentAgain_OfALoneCaller(t *testing.T) {
	t.Parallel()
	l := newLine(t, brisk)
	lease := ok(t)(l.client.Mutex(l.key).Lock(patient(t)))
	before := l.client.Stats().SentAgain
	lost := l.proxy.DropReply(redistest.EvalSHA(scripts.Free.SHA1()), 1, redistest.Mute)
	free(t, lease)
	receive(t, lost.Done(), "the loss")
	require.Greater(t, l.client.Stats().SentAgain, before)
}

func TestLease_Extend(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).Mutex(redistest.Key(t, "k"))
	ttl := func(l *lockrt.Lease) time.Duration {
		d, err := l.TTL(patient(t))
		require.NoError(t, err)
		return d
	}
	for name, opt := range map[string]lockrt.LockOption{"renewed": lockrt.WithWatchdog(30 * time.Second), "fixed": lockrt.WithLease(30 * time.Second)} {
		lease, err := m.Lock(patient(t), opt)
		require.NoError(t, err, name)
		require.NoError(t, lease.Extend(t.Context(), time.Second))
		require.Greater(t, ttl(lease), 20*time.Second, "it never shortens")
		require.NoError(t, lease.Extend(t.Context(), time.Hour))
		require.Greater(t, ttl(lease), 59*time.Minute)
		require.Greater(t, time.Until(lease.Until()), 59*time.Minute)
		require.NoError(t, lease.Extend(t.Context(), time.Minute))
		require.Greater(t, ttl(lease), 59*time.Minute)
		require.ErrorIs(t, lease.Extend(t.Context(), 0), lockrt.ErrBadOption)
		require.ErrorIs(t, lease.Extend(t.Context(), -time.Hour), lockrt.ErrBadOption)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, lease.Extend(ctx, time.Hour), context.Canceled)
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Unlock(t.Context()))
		require.ErrorIs(t, lease.Extend(t.Context(), time.Hour), lockrt.ErrReleased)
	}
	lease, err := m.Lock(patient(t))
	require.NoError(t, err)
	until(t, "it cannot be extended", func() bool { // nor what a late copy of the request has locked again
		redistest.Shared(t).Do("DEL", m.Key())
		return errors.Is(lease.Extend(t.Context(), time.Hour), lockrt.ErrLost)
	})
	require.ErrorIs(t, lease.Err(), lockrt.ErrLost, "the server's no is believed")
	require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)
}

// TestLease_ExtendWhileItIsUnlocked shows that a request to extend a lease that is unlocked before the request arrives does not say that the lease
// was lost.
func TestLease_ExtendWhileItIsUnlocked(t *testing.T) {
	t.Parallel()
	proxy := redistest.Proxy(t, redistest.Shared(t).Addr())
	c, err := lockrt.New(redistest.NewClient(t, proxy.Addr()), lockrt.Options{})
	require.NoError(t, err)
	lease, err := c.Mutex(redistest.Key(t, "k")).Lock(patient(t))
	require.NoError(t, err)
	asked, unlocked, renews := make(chan struct{}, 100), make(chan struct{}), redistest.EvalSHA(scripts.Renew.SHA1())
	proxy.OnRequest(func(cmd []string) {
		if renews(cmd) {
			asked <- struct{}{}
			<-unlocked
		}
	})
	extended := make(chan error, 1)
	go func() { extended <- lease.Extend(patient(t), time.Hour) }()
	<-asked
	require.NoError(t, lease.Unlock(patient(t)))
	close(unlocked)
	err = <-extended
	require.ErrorIs(t, err, lockrt.ErrReleased)
	require.NotErrorIs(t, err, lockrt.ErrLost)
	require.NoError(t, c.Close())
}

func TestLease_WithMaxHold(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	c := newClient(t, lockrt.Options{Hooks: hooks, Watchdog: 6 * time.Second})
	m := c.Mutex(redistest.Key(t, "k"))
	forgotten, err := m.Lock(patient(t), lockrt.WithMaxHold(time.Second))
	require.NoError(t, err)
	got := lockLater(patient(t), m)
	receive(t, waiting, "the waiter")
	receive(t, forgotten.Context().Done(), "the end of its patience")
	require.ErrorContains(t, context.Cause(forgotten.Context()), "lease lost: held for longer than the limit")
	next := receive(t, got, "the lock")
	require.NoError(t, next.err)
	require.NoError(t, next.lease.Unlock(t.Context()))

	short, err := m.Lock(patient(t), lockrt.WithMaxHold(time.Hour))
	require.NoError(t, err)
	require.NoError(t, short.Unlock(t.Context()))
	for _, d := range []time.Duration{0, -time.Second} {
		_, err = m.Lock(patient(t), lockrt.WithMaxHold(d))
		require.ErrorIs(t, err, lockrt.ErrBadOption)
	}
}

// TestLease_WithMaxHoldAfterAWait shows that the limit of a call that waits for another process counts once it has the lock.
func TestLease_WithMaxHoldAfterAWait(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	held, err := newClient(t, lockrt.Options{}).Mutex(key).Lock(patient(t))
	require.NoError(t, err)
	got := lockLater(context.Background(), newClient(t, lockrt.Options{Watchdog: 6 * time.Second}).Mutex(key), lockrt.WithMaxHold(time.Second))
	inLine(t, redistest.Shared(t), key, 1)
	require.NoError(t, held.Unlock(t.Context()))
	limited := receive(t, got, "the lock")
	require.NoError(t, limited.err)
	receive(t, limited.lease.Context().Done(), "the end of its patience")
	require.ErrorContains(t, context.Cause(limited.lease.Context()), "lease lost: held for longer than the limit")
}

func TestLease_TheLimitOfOneHolderIsNotTheNexts(t *testing.T) {
	t.Parallel()
	renewed := make(chan lockrt.RenewEvent, 1000)
	hooks, waiting, _ := watch()
	hooks.Renewed = func(_ context.Context, e lockrt.RenewEvent) { renewed <- e }
	c := newClient(t, lockrt.Options{Hooks: hooks, Watchdog: 6 * time.Second})
	m := c.Mutex(redistest.Key(t, "k"))
	limited, err := m.Lock(patient(t), lockrt.WithMaxHold(time.Millisecond))
	require.NoError(t, err)
	got := lockLater(patient(t), m)
	receive(t, waiting, "the waiter")
	require.NoError(t, limited.Unlock(t.Context()))
	next := receive(t, got, "the lock")
	require.NoError(t, next.err)
	for range 4 {
		require.NoError(t, receive(t, renewed, "a renewal").Err)
	}
	require.NoError(t, next.lease.Err())
	require.NoError(t, next.lease.Unlock(t.Context()))
}

// A context that is done has nothing sent, whatever the call.
func TestInspect_AContextThatIsDoneSendsNothing(t *testing.T) {
	t.Parallel()
	l := newLine(t, lockrt.Options{})
	sent := l.seen(func(cmd []string) bool { return strings.Contains(strings.Join(cmd, " "), l.key) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := l.client
	for range 20 {
		for what, err := range map[string]error{
			"inspect":           second(c.Mutex(l.key).Inspect(ctx)),
			"inspect fair":      second(c.FairMutex(l.key).Inspect(ctx)),
			"inspect rw":        second(c.RWMutex(l.key).Inspect(ctx)),
			"force unlock":      second(c.Mutex(l.key).ForceUnlock(ctx)),
			"force unlock fair": second(c.FairMutex(l.key).ForceUnlock(ctx)),
			"force unlock rw":   second(c.RWMutex(l.key).ForceUnlock(ctx)),
			"force read unlock": second(c.RWMutex(l.key).ForceRUnlock(ctx)),
			"force any":         second(c.ForceUnlock(ctx, l.key, nobodys)),
			"force a permit":    second(c.ForceUnlock(ctx, l.key, "00112233445566778899aabbccddeeff")),
			"count":             second(c.CountDownLatch(l.key).Count(ctx)),
			"available":         second(c.Semaphore(l.key, 1).Available(ctx)),
			"total":             second(c.PermitSemaphore(l.key, 1).Total(ctx)),
		} {
			require.ErrorIs(t, err, context.Canceled, what)
		}
	}
	require.Empty(t, sent)
}
