package lockrt_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/gen"
	"github.com/lockgen/lockgen/runtime/locktest/leaktest"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

func TestFairMutex_LeavesRedissonsLayout(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{})
	m := c.FairMutex("order:42")
	lease := ok(t)(m.Lock(patient(t)))
	got := queued(t, server, m, 1)

	s := fairStanding(t, m)
	require.Regexp(t, `^`+c.ID()+`:[1-9]\d*$`, s.Owner)
	require.Equal(t, map[string]string{s.Owner: "1"}, fields(t, server, "order:42"))
	require.Equal(t, 1, s.Waiting)
	waits := fairQueue(t, server, "order:42")
	require.Regexp(t, `^`+c.ID()+`:[1-9]\d*$`, waits[0])
	require.NotEqual(t, s.Owner, waits[0], "each has an owner of its own")
	in := fairTimes(t, server, "order:42")
	require.Len(t, in, 1)
	require.InDelta(t, lockrt.DefaultWatchdog+lockrt.DefaultFairWait, in[0], float64(5*time.Second))
	keys, err := server.Do("KEYS", "*").AsStrSlice()
	require.NoError(t, err)
	require.ElementsMatch(t, []string{
		"order:42", "redisson_lock_queue:{order:42}", "redisson_lock_timeout:{order:42}", "lockgen_fair:{order:42}",
	}, keys)
	free(t, lease)
	free(t, gotten(t, got, "the next"))
	emptied(t, server)
}

// A waiter that is next and whose process listens has the lock the moment that it is released.
func TestFairMutex_IsHandedOver(t *testing.T) {
	t.Parallel()
	l := newLine(t, lockrt.Options{Tracking: lockrt.TrackingOff})
	m := l.client.FairMutex(l.key)
	asked := l.seen(asksFair)
	atBest(t, "the next holder asked once", func() bool { // not again because it listens from now on, nor after a while
		before := len(asked)
		lease := ok(t)(m.Lock(patient(t)))
		got := queued(t, l.server, m, 1)
		free(t, lease)
		free(t, gotten(t, got, "the next"))
		return len(asked) == before+2
	})
	require.Positive(t, l.client.Stats().HandOversRemote)
	nothingLeft(t, l.server, l.key)
}

func TestFairMutex_JavaThreadsHaveTheirTurn(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "k")
	m := newClient(t, lockrt.Options{}).FairMutex(key)
	lease := ok(t)(m.Lock(patient(t)))
	// A Java thread waits as the first, and one of ours behind it.
	server.Do("RPUSH", "redisson_lock_queue:{"+key+"}", stranger)
	server.Do("ZADD", "redisson_lock_timeout:{"+key+"}", "9999999999999", stranger)
	got := queued(t, server, m, 2)
	behind := fairQueue(t, server, key)[1]
	channel := "redisson_lock__channel:{" + key + "}:"
	until(t, "the waiter behind a Java thread listens", func() bool { return subscribers(t, server, channel+behind) == 1 })
	free(t, lease)
	require.Zero(t, number(t, server, "EXISTS", key), "it is the Java thread's")
	_, err := m.TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	// It comes, and releases, as Redisson does.
	server.Do("LPOP", "redisson_lock_queue:{"+key+"}")
	server.Do("ZREM", "redisson_lock_timeout:{"+key+"}", stranger)
	server.Do("HSET", key, stranger, "1")
	require.Empty(t, got)
	server.Do("DEL", key)
	server.Do("PUBLISH", channel+behind, "0")
	free(t, gotten(t, got, "the waiter behind it"))
	nothingLeft(t, server, key)
}

// One of a process that died while it waited costs two seconds.
func TestFairMutex_ADeadWaiterIsPassedOver(t *testing.T) {
	t.Parallel()
	l := newLine(t, lockrt.Options{OpTimeout: patience / 2})
	m := newClient(t, lockrt.Options{OpTimeout: patience / 2}).FairMutex(l.key)
	lease := ok(t)(m.Lock(patient(t)))
	ctx, cancel := context.WithCancel(patient(t))
	defer cancel()
	dead := lockLater(ctx, l.client.FairMutex(l.key))
	until(t, "it waits", func() bool { return len(fairQueue(t, l.server, l.key)) == 1 })
	l.proxy.Refuse(true)
	l.proxy.Cut()
	until(t, "the server knows", func() bool { return subscribers(t, l.server, "lockgen_process:"+l.client.ID()) == 0 })
	got := queued(t, l.server, m, 2)
	start := time.Now()
	free(t, lease)
	next := gotten(t, got, "the waiter behind the dead one")
	require.Less(t, time.Since(start), 8*time.Second)
	free(t, next)
	cancel()
	require.ErrorIs(t, receive(t, dead, "the dead").err, context.Canceled)
	l.proxy.Refuse(false)
	nothingLeft(t, l.server, l.key)
}

func TestFairMutex_WhoIsOfOneOwnerDoesNotWaitForItself(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "k")
	m := newClient(t, lockrt.Options{}).FairMutex(key)
	lease := ok(t)(m.Lock(patient(t)))
	owner := lockrt.WithOwner(patient(t), lockrt.NewOwner())
	one, two := lockLater(owner, m), lockLater(owner, m)
	until(t, "both wait", func() bool { return len(fairQueue(t, server, key)) == 2 })
	free(t, lease)
	a, b := gotten(t, one, "one"), gotten(t, two, "the other, of the same owner")
	c := ok(t)(m.TryLock(owner))
	until(t, "nobody waits", func() bool { return len(fairQueue(t, server, key)) == 0 })
	require.Equal(t, 3, fairStanding(t, m).Count)
	free(t, a, b)
	require.NoError(t, c.Err())
	free(t, c)
	nothingLeft(t, server, key)
}

func TestFairMutex_Fencing(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "k")
	clients := []*lockrt.Client{newClient(t, lockrt.Options{}), newClient(t, lockrt.Options{})}
	var mu sync.Mutex
	var last int64
	jobs(t, 8, func(i int) error {
		m := clients[i%2].FairMutex(key, lockrt.WithFencing())
		for range 25 {
			err := m.Do(patient(t), func(ctx context.Context, lease *lockrt.Lease) error {
				mu.Lock()
				defer mu.Unlock()
				if lease.Token() <= last {
					return errors.New("a token that is not larger")
				}
				last = lease.Token()
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	plain := ok(t)(clients[0].FairMutex(key).Lock(patient(t)))
	_, err := clients[0].FairMutex(key, lockrt.WithFencing()).Lock(plain.Context())
	require.ErrorIs(t, err, lockrt.ErrBadOption)
	free(t, plain)
	server.Do("DEL", "redisson_lock_token:{"+key+"}")
	nothingLeft(t, server, key)
}

func TestFairMutex_ALeaseOfFixedLengthIsFullAlsoWhenHandedOver(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "k")
	m := newClient(t, lockrt.Options{}).FairMutex(key)
	lease := ok(t)(m.Lock(patient(t)))
	got := queued(t, server, m, 1, lockrt.WithLease(time.Hour))
	free(t, lease)
	next := gotten(t, got, "the next")
	require.Greater(t, time.Until(next.Until()), 50*time.Minute)
	require.Greater(t, number(t, server, "PTTL", key), (59 * time.Minute).Milliseconds())
	free(t, next)
}

func TestFairMutex_LeasesOfAMutexOfTheSameNameAreStrangers(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	c := newClient(t, lockrt.Options{})
	lease := ok(t)(c.FairMutex(key).Lock(patient(t)))
	_, err := c.Mutex(key).TryLock(lease.Context())
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	free(t, lease)
	lease = ok(t)(c.Mutex(key).Lock(patient(t)))
	_, err = c.FairMutex(key).TryLock(lease.Context())
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	free(t, lease)
}

func TestFairMutex_BadFairWait(t *testing.T) {
	t.Parallel()
	_, err := lockrt.Open(t.Context(), redistest.Shared(t).URL(), lockrt.Options{FairWait: time.Millisecond})
	require.ErrorIs(t, err, lockrt.ErrBadOption)
	require.ErrorContains(t, err, "Options.FairWait")
}

func TestFairMutex_LostRequestsAndReplies(t *testing.T) {
	t.Parallel()
	everyLoss(t, func(t *testing.T, l *line, drop func(match func(cmd []string) bool, n int) *redistest.Drop) {
		m := l.client.FairMutex(l.key, unexpiring)
		lost := drop(asksFair, 1)
		lease := ok(t)(m.Lock(patient(t)))
		receive(t, lost.Done(), "the loss")
		owners := fields(t, l.server, l.key)
		require.Len(t, owners, 1)
		for _, count := range owners {
			require.Equal(t, "1", count)
		}

		// One that comes meanwhile, and whose coming is not answered, stands in the queue once.
		other := newClient(t, lockrt.Options{}).FairMutex(l.key, unexpiring)
		lost = drop(asksFair, 1)
		got := lockLater(patient(t), m)
		receive(t, lost.Done(), "the loss")
		behind := leaseLater(func() (*lockrt.Lease, error) { return other.Lock(patient(t)) })
		until(t, "both wait", func() bool { return len(fairQueue(t, l.server, l.key)) == 2 })

		lost = drop(givesFair, 1)
		free(t, lease)
		receive(t, lost.Done(), "the loss")
		select { // the order of arrival depends on the lost replies
		case l := <-got:
			free(t, ok(t)(l.lease, l.err))
			free(t, gotten(t, behind, "the third"))
		case l := <-behind:
			free(t, ok(t)(l.lease, l.err))
			free(t, gotten(t, got, "the third"))
		}
		nothingLeft(t, l.server, l.key)
	})
}

func TestFairMutex_WhoGivesUpLeavesTheQueueWhateverIsLost(t *testing.T) {
	t.Parallel()
	everyLoss(t, func(t *testing.T, l *line, drop func(match func(cmd []string) bool, n int) *redistest.Drop) {
		other := newClient(t, lockrt.Options{}).FairMutex(l.key, unexpiring)
		lease := ok(t)(other.Lock(patient(t)))
		comes, goes := drop(asksFair, 1), drop(givesFair, 1)
		_, err := l.client.FairMutex(l.key).Lock(patient(t), lockrt.WithWait(200*time.Millisecond))
		require.Error(t, err)
		receive(t, comes.Done(), "the loss of what it came with")
		receive(t, goes.Done(), "the loss of what it left with")
		until(t, "it has left", func() bool { return len(fairQueue(t, l.server, l.key)) == 0 })
		free(t, lease)
		nothingLeft(t, l.server, l.key)
	})
}

// Callers that give up after 0 to 2 ms, again and again, leave nothing behind, and the patient callers get the lock.
func TestFairMutex_CancelStormLeavesNothing(t *testing.T) { //nolint:paralleltest // counts goroutines
	leaktest.Check(t)
	server, key := redistest.Server(t), redistest.Key(t, "k")
	atBest(t, "was no lease lost", func() bool { // one that is handed over lasts for two seconds at first
		return steadily(t, fairBlows(t, server, key))
	})
}

// fairBlows has callers of two clients give up after 0 to 2 ms, again and again, beside patient ones. It returns what has failed.
func fairBlows(t *testing.T, server *redistest.RedisServer, key string) <-chan error {
	t.Helper()
	over, end := context.WithTimeout(context.Background(), 2*time.Minute) // all of it, also where the machine is slow
	defer end()
	clients := []*lockrt.Client{clientOf(t, server.URL(), lockrt.Options{}), clientOf(t, server.URL(), lockrt.Options{})}
	stop := make(chan struct{})
	var patients, others sync.WaitGroup
	failed := make(chan error, 100_000)
	for i := range 16 {
		m := clients[i%2].FairMutex(key)
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				ctx, cancel := context.WithTimeout(over, rand.N(2*time.Millisecond))
				lease, err := m.Lock(ctx)
				if err == nil {
					err = lease.Unlock(ctx)
					if err != nil {
						failed <- err
					}
				}
				cancel()
			}
		})
	}
	for i := range 4 {
		patients.Go(func() {
			for range 100 {
				if err := clients[i%2].FairMutex(key).Do(over, func(context.Context, *lockrt.Lease) error { return nil }); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	patients.Wait()
	close(stop)
	others.Wait()
	for _, c := range clients {
		until(t, "nobody uses the lock", func() bool { return lockrt.Fairs(c) == 0 })
	}
	nothingLeft(t, server, key)
	for _, c := range clients {
		require.NoError(t, c.Close())
	}
	until(t, "no channel is subscribed", func() bool { return channels(t, server) == 0 })
	return failed
}

func TestEntityFairMutex(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	spec := &gen.Spec{Name: "wiki.Locks.Page", Wait: 0}
	page := gen.ForFair(c, spec, pageID("home"), redistest.Key(t, "page"), nil)
	key, err := page.Key()
	require.NoError(t, err)
	held, err := page.Lock(patient(t))
	require.NoError(t, err)
	require.Equal(t, pageID("home"), held.Held().ID())
	_, err = page.Lock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	require.ErrorContains(t, err, "wiki.Locks.Page: lockgen: lock")
	_, err = page.TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	s, err := page.Inspect(patient(t))
	require.NoError(t, err)
	require.True(t, s.Ours)
	taken, err := page.ForceUnlock(patient(t))
	require.NoError(t, err)
	require.True(t, taken)
	require.ErrorIs(t, held.Err(), lockrt.ErrLost)
	mine := errors.New("mine")
	require.ErrorIs(t, page.Do(patient(t), func(_ context.Context, held lockrt.Held[pageID]) error {
		require.NoError(t, held.Err())
		return mine
	}), mine)
	nothingLeft(t, redistest.Shared(t), key)

	bad := gen.EmptyKey("wiki.Locks.Page", "id")
	page = gen.ForFair(c, spec, pageID(""), "", bad)
	for _, err := range []error{
		second(page.Key()), second(page.Lock(patient(t))), second(page.TryLock(patient(t))), second(page.ForceUnlock(patient(t))),
		second(page.Inspect(patient(t))), page.Do(patient(t), nil),
	} {
		require.Equal(t, bad, err)
	}
}
