package lockrt_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// panicExit ends the goroutine in the middle of what it does.
func panicExit() { runtime.Goexit() }

func TestLease_IsRenewedWhileHeld(t *testing.T) {
	t.Parallel()
	renewed := make(chan lockrt.RenewEvent, 100)
	c := newClient(t, lockrt.Options{Hooks: lockrt.Hooks{Renewed: func(_ context.Context, e lockrt.RenewEvent) { renewed <- e }}})
	m := c.Mutex(redistest.Key(t, "k"), lockrt.WithWatchdog(6*time.Second))
	lease, err := m.Lock(patient(t))
	require.NoError(t, err)
	granted := lease.Until()
	for range 6 { // twice the watchdog time
		e := receive(t, renewed, "a renewal")
		require.NoError(t, e.Err)
		require.Equal(t, m.Key(), e.Key)
	}
	require.NoError(t, lease.Err())
	require.Greater(t, lease.Until(), granted.Add(6*time.Second))
	ttl, err := lease.TTL(patient(t))
	require.NoError(t, err)
	require.LessOrEqual(t, ttl, 6*time.Second)
	require.NoError(t, lease.Unlock(t.Context()))
}

func TestLease_OfFixedLengthEndsBeforeItsKey(t *testing.T) {
	t.Parallel()
	renewed := make(chan lockrt.RenewEvent, 100)
	c := newClient(t, lockrt.Options{Hooks: lockrt.Hooks{Renewed: func(_ context.Context, e lockrt.RenewEvent) { renewed <- e }}})
	m := c.Mutex(redistest.Key(t, "k"))
	before := time.Now()
	lease, err := m.Lock(patient(t), lockrt.WithLease(500*time.Millisecond))
	require.NoError(t, err)
	require.Less(t, lease.Until(), time.Now().Add(500*time.Millisecond))
	receive(t, lease.Context().Done(), "the end of the lease")
	require.Less(t, time.Since(before), patience)
	require.ErrorContains(t, context.Cause(lease.Context()), "lease lost: its time is over")
	require.ErrorIs(t, lease.Err(), lockrt.ErrLost)
	require.Empty(t, renewed)
	require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)

	next, err := m.Lock(patient(t), lockrt.WithLease(time.Minute))
	require.NoError(t, err)
	require.NoError(t, next.Unlock(t.Context()))
}

// The key of a lease of fixed length stays its holder's in Redis until the length is over, also if others ask for it
// before or after the end of trust: the holder may still be ending its work.
func TestLease_OfFixedLengthIsNobodyElsesBeforeItsEnd(t *testing.T) {
	t.Parallel()
	const length = 800 * time.Millisecond // less than the lease that Redis gives at a hand-over
	holders := maps.Clone(exclusives)
	holders["RWMutex for reading"] = func(c *lockrt.Client, key string) lockrt.Locker { return c.RWMutex(key).RLocker() }
	for kind, hold := range holders {
		next := exclusives[kind]
		if next == nil {
			next = exclusives["RWMutex"]
		}
		for how := range 8 {
			handed, elsewhere, early := how&1 > 0, how&2 > 0, how&4 > 0
			t.Run(fmt.Sprintf("%s, handed over %t, wanted elsewhere %t, before the end of trust %t", kind, handed, elsewhere, early), func(t *testing.T) {
				t.Parallel()
				hooks, waiting, _ := watch()
				here, there := newClient(t, lockrt.Options{Hooks: hooks}), newClient(t, lockrt.Options{})
				key := redistest.Key(t, "k")
				var before *lockrt.Lease
				if handed {
					before = ok(t)(next(there, key).Lock(patient(t)))
				}
				asked := time.Now()
				holding := lockLater(patient(t), hold(here, key), lockrt.WithLease(length))
				if handed {
					receive(t, waiting, "the waiter")
					asked = time.Now()
					free(t, before)
				}
				held := gotten(t, holding, "the holder")
				if !elsewhere {
					there = here
				}
				if !early {
					receive(t, held.Context().Done(), "the end of trust")
				}
				free(t, gotten(t, lockLater(patient(t), next(there, key)), "the next one"))
				require.GreaterOrEqual(t, time.Since(asked), length)
			})
		}
	}
}

func TestLease_OfFixedLengthIsFullForEachHolder(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	m := newClient(t, lockrt.Options{Hooks: hooks}).Mutex(redistest.Key(t, "k"), lockrt.WithLease(10*time.Second))
	lease, err := m.Lock(patient(t))
	require.NoError(t, err)
	first := lease.Until()
	got := lockLater(patient(t), m)
	receive(t, waiting, "the waiter")
	require.NoError(t, lease.Unlock(t.Context()))
	next := receive(t, got, "the lock")
	require.NoError(t, next.err)
	require.Greater(t, next.lease.Until(), first)
	require.NoError(t, next.lease.Unlock(t.Context()))
}

func TestLease_WaitersOfOneProcessMayWantDifferentTerms(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	c := newClient(t, lockrt.Options{Hooks: hooks})
	m := c.Mutex(redistest.Key(t, "k"))
	lease, err := m.Lock(patient(t))
	require.NoError(t, err)
	short := lockLater(patient(t), m, lockrt.WithLease(5*time.Second))
	receive(t, waiting, "the first waiter")
	long := lockLater(patient(t), m, lockrt.WithWatchdog(time.Minute))
	receive(t, waiting, "the second waiter")
	require.NoError(t, lease.Unlock(t.Context()))
	got := receive(t, short, "the short lease")
	require.NoError(t, got.err)
	require.Less(t, time.Until(got.lease.Until()), 5*time.Second)
	require.NoError(t, got.lease.Unlock(t.Context()))
	got = receive(t, long, "the long lease")
	require.NoError(t, got.err)
	ttl, err := got.lease.TTL(patient(t))
	require.NoError(t, err)
	require.Greater(t, ttl, 30*time.Second)
	require.NoError(t, got.lease.Unlock(t.Context()))
}

func TestLease_OutlivesItsParent(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).Mutex(redistest.Key(t, "k"))
	parent, cancel := context.WithCancel(t.Context())
	lease, err := m.Lock(parent)
	require.NoError(t, err)
	cancel()
	<-lease.Context().Done()
	require.NoError(t, lease.Err(), "the work is called off, the lock is not")
	_, err = lease.TTL(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(parent), "Unlock does not mind a cancelled context")
	freed(t, m.Key())
}

func TestLease_ContextEndsWithACause(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).Mutex(redistest.Key(t, "k"))
	lease, err := m.Lock(patient(t))
	require.NoError(t, err)
	child, cancel := context.WithCancel(lease.Context())
	defer cancel()
	require.NoError(t, child.Err())
	require.NoError(t, lease.Unlock(t.Context()))
	<-child.Done()
	require.ErrorIs(t, child.Err(), context.Canceled)
	require.ErrorIs(t, context.Cause(child), lockrt.ErrReleased)
	err = lease.Unlock(t.Context())
	require.ErrorIs(t, err, lockrt.ErrReleased)
	var e *lockrt.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, &lockrt.Error{Op: "unlock", Key: m.Key(), Err: lockrt.ErrReleased}, e)
}

// A call that was cancelled at its turn is reported once, as a call that failed.
func TestLease_EndsOnlyIfItBegan(t *testing.T) {
	t.Parallel()
	type unlock func(ctx context.Context) error
	for name, lock := range map[string]func(c *lockrt.Client, key string) func(ctx context.Context) (unlock, error){
		"mutex": func(c *lockrt.Client, key string) func(ctx context.Context) (unlock, error) {
			return func(ctx context.Context) (unlock, error) {
				lease, err := c.Mutex(key).Lock(ctx)
				return lease.Unlock, err
			}
		},
		"permit": func(c *lockrt.Client, key string) func(ctx context.Context) (unlock, error) {
			return func(ctx context.Context) (unlock, error) {
				permit, err := c.PermitSemaphore(key, 1).Acquire(ctx)
				return permit.Release, err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var granted, ended, failed atomic.Int32
			waiting := make(chan struct{}, 1000)
			c := newClient(t, lockrt.Options{Hooks: lockrt.Hooks{
				Waiting: func(context.Context, lockrt.AcquireEvent) { waiting <- struct{}{} },
				AcquireEnd: func(_ context.Context, e lockrt.AcquireEvent) {
					if e.Err != nil {
						failed.Add(1)
						return
					}
					granted.Add(1)
				},
				Ended: func(context.Context, lockrt.EndEvent) {
					if ended.Add(1) > granted.Load() {
						t.Error("an end was told before its beginning")
					}
				},
			}})
			acquire := lock(c, redistest.Key(t, "k"))
			for range 50 {
				unlock, err := acquire(patient(t))
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(patient(t))
				got := make(chan error, 1)
				go func() {
					_, err := acquire(ctx)
					got <- err
				}()
				receive(t, waiting, "the waiter")
				cancel()
				require.NoError(t, unlock(t.Context()))
				require.ErrorIs(t, receive(t, got, "the call that gave up"), context.Canceled)
			}
			require.NoError(t, c.Close()) // waits for what releases
			require.Equal(t, granted.Load(), ended.Load())
			require.EqualValues(t, 50, failed.Load())
		})
	}
}

func TestLease_UnlockFromManyGoroutinesReleasesOnce(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).Mutex(redistest.Key(t, "k"))
	lease, err := m.Lock(patient(t))
	require.NoError(t, err)
	var mu sync.Mutex
	var wins int
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			err := lease.Unlock(t.Context())
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				wins++
			} else if !errors.Is(err, lockrt.ErrReleased) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, wins)
}

func TestLease_DeletedKeyIsToldAtTheNextRenewal(t *testing.T) {
	t.Parallel()
	hooks, _, ends := watch()
	m := newClient(t, lockrt.Options{Hooks: hooks}).Mutex(redistest.Key(t, "k"), lockrt.WithWatchdog(6*time.Second))
	lease, err := m.Lock(patient(t))
	require.NoError(t, err)
	inner, err := m.Lock(lease.Context())
	require.NoError(t, err)
	deleted(t, redistest.Shared(t), lease)
	require.ErrorIs(t, receive(t, ends, "an end").Cause, lockrt.ErrLost)
	require.ErrorIs(t, receive(t, ends, "an end").Cause, lockrt.ErrLost, "leases that entered again are told too")
	require.ErrorIs(t, context.Cause(lease.Context()), lockrt.ErrLost)
	require.ErrorIs(t, context.Cause(inner.Context()), lockrt.ErrLost)
	require.ErrorIs(t, inner.Err(), lockrt.ErrLost)
	_, err = lease.TTL(patient(t))
	require.ErrorIs(t, err, lockrt.ErrLost)
	require.ErrorIs(t, inner.Unlock(t.Context()), lockrt.ErrLost)
	require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)
	require.Empty(t, ends)
}

// TTL ends a lease whose key Redis does not have, also as a part of another one, and tells a key without a time to live.
func TestLease_TTLOfAKeyThatIsGone(t *testing.T) {
	t.Parallel()
	server, c := redistest.Shared(t), newClient(t, lockrt.Options{Tracking: lockrt.TrackingOff})
	for name, m := range map[string]lockrt.Locker{
		"mutex": c.Mutex(redistest.Key(t, "m")), "reader": c.RWMutex(redistest.Key(t, "r")).RLocker(),
		"several": lockrt.NewMultiLock(c.Mutex(redistest.Key(t, "a")), c.FairMutex(redistest.Key(t, "b"))),
	} {
		lease := ok(t)(m.Lock(patient(t)))
		keys := []string{m.Key()}
		if parts := lease.Parts(); len(parts) > 0 {
			keys = []string{parts[0].Key(), parts[1].Key()}
		}
		for _, key := range keys {
			require.NoError(t, server.Do("PERSIST", key).Error())
		}
		ttl, err := lease.TTL(patient(t))
		require.NoError(t, err, name)
		require.Negative(t, ttl, name)
		require.NoError(t, server.Do(append([]string{"DEL"}, keys...)...).Error())
		_, err = lease.TTL(patient(t))
		require.ErrorIs(t, err, lockrt.ErrLost, name)
		require.ErrorIs(t, lease.Err(), lockrt.ErrLost, name)
		receive(t, lease.Context().Done(), name)
		require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost, name)

		lease = ok(t)(m.Lock(patient(t)))
		inner := ok(t)(m.Lock(lease.Context()))
		for _, l := range []*lockrt.Lease{inner, lease} {
			free(t, l)
			_, err = l.TTL(patient(t))
			require.ErrorIs(t, err, lockrt.ErrReleased, name)
		}
	}
}
