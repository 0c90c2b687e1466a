package lockrt_test

import (
	"context"
	"encoding/json"
	"errors"
	"expvar"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// events are what hooks were told.
type events struct {
	starts, waits, ends, got chan lockrt.AcquireEvent
	renewals                 chan lockrt.RenewEvent
	over                     chan lockrt.EndEvent
}

// recorded returns hooks that keep what they are told.
func recorded() (lockrt.Hooks, *events) {
	const room = 10_000
	e := &events{
		starts: make(chan lockrt.AcquireEvent, room), waits: make(chan lockrt.AcquireEvent, room),
		ends: make(chan lockrt.AcquireEvent, room), got: make(chan lockrt.AcquireEvent, room),
		renewals: make(chan lockrt.RenewEvent, room), over: make(chan lockrt.EndEvent, room),
	}
	return lockrt.Hooks{
		AcquireStart: func(ctx context.Context, a lockrt.AcquireEvent) context.Context {
			e.starts <- a
			return ctx
		},
		Waiting:    func(_ context.Context, a lockrt.AcquireEvent) { e.waits <- a },
		AcquireEnd: func(_ context.Context, a lockrt.AcquireEvent) { e.ends <- a },
		Acquired: func(ctx context.Context, a lockrt.AcquireEvent) context.Context {
			e.got <- a
			return ctx
		},
		Renewed: func(_ context.Context, r lockrt.RenewEvent) { e.renewals <- r },
		Ended:   func(_ context.Context, o lockrt.EndEvent) { e.over <- o },
	}, e
}

func TestHooks_OneCallHasOneID(t *testing.T) {
	t.Parallel()
	hooks, told := recorded()
	c := newClient(t, lockrt.Options{Watchdog: 6 * time.Second, Hooks: hooks})
	m := c.Mutex(redistest.Key(t, "k"))
	lease := ok(t)(m.Lock(patient(t)))
	renewal := receive(t, told.renewals, "a renewal")
	free(t, lease)
	id := receive(t, told.starts, "the start").ID
	require.NotZero(t, id)
	end := receive(t, told.ends, "the end of the call")
	require.Equal(t, id, end.ID)
	require.Equal(t, lockrt.OutcomeAcquired, end.Outcome)
	require.Equal(t, lockrt.GrantServer, end.Grant)
	require.False(t, end.Contended)
	require.Equal(t, end.ID, receive(t, told.got, "the lease").ID)
	require.Equal(t, id, renewal.ID)
	over := receive(t, told.over, "the end of the lease")
	require.Equal(t, id, over.ID)
	require.Equal(t, lockrt.EndReleased, over.Reason)
	require.Positive(t, over.Held)
	require.WithinDuration(t, time.Now(), over.At, patience)

	free(t, ok(t)(m.Lock(patient(t))))
	require.NotEqual(t, id, receive(t, told.starts, "another call").ID)
}

func TestHooks_SayHowACallEnded(t *testing.T) {
	t.Parallel()
	hooks, told := recorded()
	c := newClient(t, lockrt.Options{Hooks: hooks})
	m := c.Mutex(redistest.Key(t, "k"))
	outer := ok(t)(m.Lock(patient(t)))
	require.Equal(t, lockrt.GrantServer, receive(t, told.ends, "the first").Grant)

	free(t, ok(t)(m.Lock(outer.Context())))
	require.Equal(t, lockrt.GrantShared, receive(t, told.ends, "it enters again").Grant)

	_, err := m.TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	busy := receive(t, told.ends, "a try")
	require.Equal(t, lockrt.OutcomeBusy, busy.Outcome)
	require.Empty(t, busy.Grant)
	require.False(t, busy.Contended, "it did not wait")

	ctx, cancel := context.WithCancel(patient(t))
	gone := lockLater(ctx, m)
	receive(t, told.waits, "the call that gives up")
	cancel()
	require.ErrorIs(t, receive(t, gone, "the call that gave up").err, context.Canceled)
	cancelled := receive(t, told.ends, "the call that gave up")
	require.Equal(t, lockrt.OutcomeCancelled, cancelled.Outcome)
	require.True(t, cancelled.Contended)

	lease := outer
	for range 100 { // a lease that was held for long is released in Redis
		next := lockLater(patient(t), m)
		require.True(t, receive(t, told.waits, "the next").Contended)
		free(t, lease)
		lease = receive(t, next, "the next").lease
		handed := receive(t, told.ends, "the next")
		require.True(t, handed.Contended)
		if handed.Grant == lockrt.GrantLocal {
			break
		}
		require.Equal(t, lockrt.GrantServer, handed.Grant)
	}
	require.Positive(t, c.Stats().HandOversLocal, "one of them got it from here")
	other := ok(t)(c.Mutex(m.Key() + ":other").Lock(lease.Context()))
	receive(t, told.ends, "another key")
	forced(t, m)
	receive(t, lease.Context().Done(), "the loss")
	_, err = m.Lock(other.Context())
	require.ErrorIs(t, err, lockrt.ErrLost)
	require.Equal(t, lockrt.OutcomeLost, receive(t, told.ends, "under a lost lease").Outcome)
	free(t, other)

	_, err = c.Mutex("").Lock(patient(t))
	require.Error(t, err)
	require.Equal(t, lockrt.OutcomeError, receive(t, told.ends, "no key").Outcome)
}

// forced takes the key of m away.
func forced(t *testing.T, m *lockrt.Mutex) {
	t.Helper()
	taken, err := m.ForceUnlock(patient(t))
	require.NoError(t, err)
	require.True(t, taken)
}

func TestHooks_SayWhoHandedOver(t *testing.T) {
	t.Parallel()
	for kind, line := range map[string]string{"Mutex": "lockgen_waiting:{%s}", "FairMutex": "redisson_lock_queue:{%s}"} {
		lockerOf := exclusives[kind]
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := redistest.Shared(t)
			hooks, told := recorded()
			one, two := clientOf(t, server.URL(), lockrt.Options{}), clientOf(t, server.URL(), lockrt.Options{Hooks: hooks})
			key := redistest.Key(t, "k")
			for range 20 { // a handed-over lock may have to be asked for, when the message comes late
				lease := ok(t)(lockerOf(one, key).Lock(patient(t)))
				next := lockLater(patient(t), lockerOf(two, key))
				receive(t, told.waits, "the waiter")
				until(t, "it stands in line", func() bool { return number(t, server, "LLEN", fmt.Sprintf(line, key)) > 0 })
				free(t, lease)
				free(t, receive(t, next, "the next").lease)
				if receive(t, told.ends, "the next").Grant == lockrt.GrantRemote {
					return
				}
			}
			t.Fatal("nothing was handed over")
		})
	}
}

// The tries on the way to a MultiLock are not reported: it is one call, and one lease.
func TestHooks_AMultiLockIsOneLock(t *testing.T) {
	t.Parallel()
	hooks, told := recorded()
	c, other := newClient(t, lockrt.Options{Watchdog: 6 * time.Second, Hooks: hooks}), newClient(t, lockrt.Options{})
	all, keys := mutexes(t, c, 3)
	all = append(all, c.RWMutex(keys[2]+"4"), lockrt.PermitLocker(c.PermitSemaphore(keys[2]+"5", 1)))
	keys = append(keys, all[3].Key(), all[4].Key())
	m := lockrt.NewMultiLock(all...)
	held := ok(t)(other.Mutex(keys[1]).Lock(patient(t)))
	_, err := m.TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	busy := receive(t, told.ends, "the try")
	require.Equal(t, lockrt.OutcomeBusy, busy.Outcome)
	require.Equal(t, lockrt.KindMulti, busy.Kind)
	require.Equal(t, keys, busy.Parts)
	require.Equal(t, busy.ID, receive(t, told.starts, "the try").ID)

	got := leaseLater(func() (*lockrt.Lease, error) { return m.Lock(patient(t), lockrt.WithName("all")) })
	start := receive(t, told.starts, "the call")
	require.Equal(t, "all", start.Name)
	require.Equal(t, start.ID, receive(t, told.waits, "the call").ID)
	require.Equal(t, 1, c.Stats().Waiting)
	free(t, held)
	lease := receive(t, got, "the lease").lease
	require.Equal(t, start.ID, receive(t, told.got, "the lease").ID)
	end := receive(t, told.ends, "the call")
	require.Equal(t, lockrt.OutcomeAcquired, end.Outcome)
	require.True(t, end.Contended)
	renewal := receive(t, told.renewals, "a renewal of a part")
	for renewal.ID == 0 { // of one that was granted while others were waited for
		renewal = receive(t, told.renewals, "a renewal of a part")
	}
	require.Equal(t, start.ID, renewal.ID)
	require.Equal(t, "all", renewal.Name)
	require.Contains(t, keys, renewal.Key)
	free(t, lease)
	over := receive(t, told.over, "the end")
	require.Equal(t, start.ID, over.ID)
	require.Equal(t, keys, over.Parts)
	require.Equal(t, lockrt.EndReleased, over.Reason)

	lease = ok(t)(m.Lock(patient(t)))
	for _, part := range lease.Parts() {
		require.NoError(t, part.Unlock(t.Context()))
	}
	require.Equal(t, lockrt.EndReleased, receive(t, told.over, "the end, part by part").Reason)
	lease = ok(t)(m.Lock(patient(t)))
	forced(t, c.Mutex(keys[0]))
	require.Equal(t, lockrt.EndTaken, receive(t, told.over, "the loss").Reason)
	require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)
	require.NoError(t, c.Close())
	require.Zero(t, c.Stats().Waiting)
	require.Len(t, told.starts, 2)
	require.Len(t, told.ends, 2)
	require.Empty(t, told.waits)
	require.Empty(t, told.over)
}

func TestHooks_SayWhyALeaseEnded(t *testing.T) {
	t.Parallel()
	hooks, told := recorded()
	c := newClient(t, lockrt.Options{Watchdog: 6 * time.Second, Hooks: hooks})
	for reason, end := range map[lockrt.EndReason]func(m *lockrt.Mutex){
		lockrt.EndReleased: func(m *lockrt.Mutex) { free(t, ok(t)(m.Lock(patient(t)))) },
		lockrt.EndTaken: func(m *lockrt.Mutex) {
			ok(t)(m.Lock(patient(t)))
			forced(t, m)
		},
		lockrt.EndElapsed: func(m *lockrt.Mutex) { ok(t)(m.Lock(patient(t), lockrt.WithLease(100*time.Millisecond))) },
		lockrt.EndMaxHold: func(m *lockrt.Mutex) { ok(t)(m.Lock(patient(t), lockrt.WithMaxHold(time.Millisecond))) },
	} {
		m := c.Mutex(redistest.Key(t, string(reason)))
		end(m)
		e := receive(t, told.over, string(reason))
		require.Equal(t, reason, e.Reason)
		require.Equal(t, m.Key(), e.Key)
		require.Equal(t, reason != lockrt.EndReleased, errors.Is(e.Cause, lockrt.ErrLost))
	}
	ok(t)(c.Mutex(redistest.Key(t, "closed")).Lock(patient(t)))
	require.NoError(t, c.Close())
	require.Equal(t, lockrt.EndClosed, receive(t, told.over, "the end of the client").Reason)
}

func TestHooks_SayThatNoRenewalWasConfirmed(t *testing.T) {
	t.Parallel()
	l := newLine(t, lockrt.Options{})
	hooks, told := recorded()
	c := clientOf(t, l.proxy.URL(), lockrt.Options{Watchdog: 6 * time.Second, Tracking: lockrt.TrackingOff, Hooks: hooks})
	ok(t)(c.Mutex(l.key).Lock(patient(t)))
	l.proxy.Blackhole(redistest.Both)
	require.Equal(t, lockrt.EndUnconfirmed, receive(t, told.over, "the loss").Reason)
	l.proxy.Discard()
}

// A failed renewal is told as long as the lease has not ended, and none afterwards.
func TestHooks_NoRenewalFailsAfterTheEnd(t *testing.T) {
	t.Parallel()
	hooks, told := recorded()
	c := newClient(t, lockrt.Options{Watchdog: 6 * time.Second, Tracking: lockrt.TrackingOff, Hooks: hooks})
	m := c.Mutex(redistest.Key(t, "k"))
	server := redistest.Shared(t)
	lease := ok(t)(m.Lock(patient(t)))
	deleted(t, server, lease)
	receive(t, told.over, "the loss")
	require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)
	require.NoError(t, c.Close())
	failed := 0
	for len(told.renewals) > 0 {
		if e := <-told.renewals; e.Err != nil {
			failed++
		}
	}
	require.Equal(t, 1, failed, "the one that told of the loss")

	atBest(t, "was it lost", func() bool { // of a release that is answered late, it is not known
		hooks, told := recorded()
		c := newClient(t, lockrt.Options{Watchdog: 6 * time.Second, Tracking: lockrt.TrackingOff, Hooks: hooks})
		lease := ok(t)(c.Mutex(m.Key()).Lock(patient(t)))
		lockrt.AtEnd(c, func(string) { // it has ended, and is renewed still
			until(t, "its renewal is refused", func() bool {
				_, _ = server.Try("DEL", m.Key()) // also what a late copy of the request has locked again
				return c.Stats().RenewalFailures > 0
			})
		})
		err := lease.Unlock(t.Context())
		require.NoError(t, c.Close())
		for len(told.renewals) > 0 {
			require.NoError(t, (<-told.renewals).Err)
		}
		return errors.Is(err, lockrt.ErrLost)
	})
}

// While hooks sleep, other goroutines lock, renew, hand over and lose.
func TestHooks_ThatSleepHoldUpNobodyElse(t *testing.T) {
	t.Parallel()
	wake, asleep := make(chan struct{}), make(chan string, 100)
	key := redistest.Key(t, "k")
	var slept sync.Map
	nap := func(hook string) {
		if _, again := slept.LoadOrStore(hook, true); !again {
			asleep <- hook
			<-wake
		}
	}
	c := newClient(t, lockrt.Options{Watchdog: 6 * time.Second, Hooks: lockrt.Hooks{
		Waiting: func(_ context.Context, e lockrt.AcquireEvent) {
			if e.Key == key+":waiting" {
				nap("waiting")
			}
		},
		AcquireEnd: func(_ context.Context, e lockrt.AcquireEvent) {
			if e.Key == key+":end" {
				nap("end")
			}
		},
		Acquired: func(ctx context.Context, e lockrt.AcquireEvent) context.Context {
			if e.Key == key+":acquired" {
				nap("acquired")
			}
			return ctx
		},
		Renewed: func(_ context.Context, e lockrt.RenewEvent) {
			if e.Key == key+":long" {
				nap("renewed")
			}
		},
		Ended: func(_ context.Context, e lockrt.EndEvent) {
			if e.Key == key+":ended" {
				nap("ended")
			}
		},
	}})
	var sleepers sync.WaitGroup
	lock := func(name string) (*lockrt.Lease, error) { return c.Mutex(key + ":" + name).Lock(context.Background()) }
	for _, name := range []string{"end", "acquired"} {
		sleepers.Go(func() {
			if lease, err := lock(name); err == nil {
				_ = lease.Unlock(context.Background())
			}
		})
		require.Equal(t, name, receive(t, asleep, "a hook to sleep"))
	}
	first := ok(t)(lock("waiting"))
	sleepers.Go(func() {
		if lease, err := lock("waiting"); err == nil {
			_ = lease.Unlock(context.Background())
		}
	})
	require.Equal(t, "waiting", receive(t, asleep, "a hook to sleep"))
	free(t, first)

	held := ok(t)(lock("ended"))
	next := lockLater(patient(t), c.Mutex(key+":ended"))
	until(t, "it waits", func() bool { return c.Stats().Waiting == 2 })
	sleepers.Go(func() { _ = held.Unlock(context.Background()) })
	after := receive(t, next, "the next one, whatever the hook does")
	require.NoError(t, after.err)
	require.Equal(t, "ended", receive(t, asleep, "a hook to sleep"))
	free(t, after.lease)

	long := ok(t)(lock("long"))
	require.Equal(t, "renewed", receive(t, asleep, "a hook to sleep"))
	renewals := c.Stats().Renewals
	until(t, "leases are renewed", func() bool { return c.Stats().Renewals > renewals+3 })
	require.NoError(t, long.Err())
	victim := ok(t)(lock("victim"))
	forced(t, c.Mutex(victim.Key()))
	receive(t, victim.Context().Done(), "the loss, whatever the hook does")
	free(t, long)
	close(wake)
	sleepers.Wait()
}

func TestStats_CountCallsByKindAndOutcome(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	m := c.Mutex(redistest.Key(t, "k"))
	lease := ok(t)(m.Lock(patient(t)))
	free(t, ok(t)(m.Lock(lease.Context())))
	_, err := m.TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.RWMutex(redistest.Key(t, "rw")).RLock(gone)
	require.ErrorIs(t, err, context.Canceled)
	free(t, ok(t)(lockrt.NewMultiLock(c.Mutex(redistest.Key(t, "a")), c.Mutex(redistest.Key(t, "b"))).Lock(patient(t))))
	free(t, lease)
	s := c.Stats()
	require.Equal(t, []lockrt.CallCount{
		{Kind: lockrt.KindMutex, Outcome: lockrt.OutcomeAcquired, Count: 2},
		{Kind: lockrt.KindMutex, Outcome: lockrt.OutcomeBusy, Count: 1},
		{Kind: lockrt.KindRead, Outcome: lockrt.OutcomeCancelled, Count: 1},
		{Kind: lockrt.KindMulti, Outcome: lockrt.OutcomeAcquired, Count: 1},
	}, s.Calls)
	require.Positive(t, s.WaitSum)
	var slowest time.Duration
	for _, b := range s.Waits {
		if b.Count > 0 {
			slowest += time.Duration(b.Count) * min(b.UpTo, time.Hour)
		}
	}
	require.LessOrEqual(t, s.WaitSum, slowest)
}

func TestStats_CanBeAnExpvar(t *testing.T) {
	t.Parallel()
	c := newClient(t, unwatched) // or a renewal may come between
	v := expvar.Func(func() any { return c.Stats() })
	lease := ok(t)(c.Mutex(redistest.Key(t, "k")).Lock(patient(t)))
	var published lockrt.Stats
	require.NoError(t, json.Unmarshal([]byte(v.String()), &published))
	want := c.Stats()
	require.Positive(t, published.ResponseTime)
	want.ResponseTime = published.ResponseTime // an answer may come between
	require.Equal(t, want, published)
	require.Equal(t, 1, published.Held)
	free(t, lease)
}

// The leases of an election and of a schedule end like those of a mutex: each that was acquired is reported as released.
func TestHooks_ElectionsAndSchedulesEnd(t *testing.T) {
	t.Parallel()
	hooks, e := recorded()
	c := clientOf(t, redistest.Server(t).URL(), lockrt.Options{Hooks: hooks})
	require.NoError(t, c.Election("office").Lead(patient(t), "me", func(context.Context, *lockrt.Leadership) error { return nil }))
	ctx, stop := context.WithCancel(patient(t))
	require.ErrorIs(t, c.Every("hourly", time.Hour, func(context.Context, lockrt.Tick) error { stop(); return nil }).Run(ctx), context.Canceled)
	for _, key := range []string{"office", "hourly"} {
		require.Equal(t, key, receive(t, e.ends, "the grant").Key)
		over := receive(t, e.over, "the end")
		require.Equal(t, key, over.Key)
		require.ErrorIs(t, over.Cause, lockrt.ErrReleased)
	}
}
