package lockrt_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/gen"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// mixed are keys of all kinds, in the order in which they are taken.
func mixed(t *testing.T) []gen.KindKey {
	return []gen.KindKey{
		{Kind: lockrt.KindFair, Key: redistest.Key(t, "a-fair"), Fence: true},
		{Kind: lockrt.KindMutex, Key: redistest.Key(t, "b-mutex")},
		{Kind: lockrt.KindMutex, Key: redistest.Key(t, "b-mutex2")},
		{Kind: lockrt.KindPermit, Permits: 1, Key: redistest.Key(t, "c-permit")},
		{Kind: lockrt.KindRead, Key: redistest.Key(t, "d-read")},
		{Kind: lockrt.KindWrite, Key: redistest.Key(t, "e-write"), Fence: true},
	}
}

// singly locks k by itself.
func singly(t *testing.T, c *lockrt.Client, k gen.KindKey) (*gen.Hold, error) {
	return gen.With(c).AcquireKinds(patient(t), &gen.Spec{Name: "n", Wait: 0}, k)
}

// alone locks k by itself as soon as what others released in the background is free.
func alone(t *testing.T, c *lockrt.Client, k gen.KindKey) *gen.Hold {
	t.Helper()
	hold, err := gen.With(c).AcquireKinds(patient(t), &gen.Spec{Name: "n", Wait: lockrt.UntilDone}, k)
	require.NoError(t, err, k.Key)
	return hold
}

func TestAcquire_Fair(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	key := redistest.Key(t, "k")
	hold := acquire(t, c, patient(t), gen.Spec{Kind: lockrt.KindFair, Wait: lockrt.UntilDone, Fence: true}, key)
	token, ok := lockrt.TokenFrom(hold.Context())
	require.True(t, ok)
	require.Positive(t, token)
	_, err := c.FairMutex(key).TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	inner := acquire(t, c, hold.Context(), gen.Spec{Kind: lockrt.KindFair}, key)
	require.NoError(t, release(inner), "it enters again")
	require.NoError(t, hold.Context().Err())

	// Callers are served in the order in which they asked.
	server := redistest.Shared(t)
	order := make(chan int, 3)
	for i := range 3 {
		go func() {
			hold, err := gen.With(c).Acquire(patient(t), &gen.Spec{Name: "n", Kind: lockrt.KindFair, Wait: lockrt.UntilDone}, key)
			if err == nil {
				order <- i
				err = release(hold)
			}
			if err != nil {
				t.Error(err)
			}
		}()
		until(t, "it stands in the queue", func() bool { return len(fairQueue(t, server, key)) == i+1 })
	}
	require.NoError(t, release(hold))
	for i := range 3 {
		require.Equal(t, i, receive(t, order, "the next"))
	}
	server.Do("DEL", "redisson_lock_token:{"+key+"}")
	nothingLeft(t, server, key)
}

func TestAcquire_Permit(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	c, other := newClient(t, lockrt.Options{}), newClient(t, lockrt.Options{})
	key := redistest.Key(t, "k")
	spec := gen.Spec{Kind: lockrt.KindPermit, Permits: 2}
	first, second := acquire(t, c, patient(t), spec, key), acquire(t, other, patient(t), spec, key)
	_, err := gen.With(c).Acquire(patient(t), &gen.Spec{Name: "shops.Service.Pack", Kind: lockrt.KindPermit, Permits: 2}, key)
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	require.ErrorContains(t, err, `shops.Service.Pack: lockgen: acquire "`+key+`": not acquired`)
	_, err = gen.With(c).Acquire(first.Context(), &gen.Spec{Name: "n", Kind: lockrt.KindPermit, Permits: 2}, key)
	require.ErrorIs(t, err, lockrt.ErrNotAcquired, "each call takes a permit of its own")

	require.NoError(t, release(first))
	require.ErrorIs(t, context.Cause(first.Context()), lockrt.ErrReleased)
	third := acquire(t, c, patient(t), spec, key)
	require.NoError(t, release(third))
	require.ErrorIs(t, release(third), lockrt.ErrReleased)
	require.NoError(t, release(second))
	requireCounts(t, c.PermitSemaphore(key, 2), 2, 0)
	tidyPermits(t, c, server, key)
}

func TestAcquire_PermitThatIsLost(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	c := newClient(t, brisk)
	key := redistest.Key(t, "k")
	for _, report := range []bool{false, true} {
		hold := acquire(t, c, patient(t), gen.Spec{Kind: lockrt.KindPermit, Permits: 1, Report: report, Wait: lockrt.UntilDone}, key)
		server.Do("DEL", key, "{"+key+"}:timeout")
		until(t, "the loss is noticed", func() bool { return c.Stats().Held == 0 })
		if report {
			require.NoError(t, hold.Context().Err(), "the call goes on")
		} else {
			require.ErrorIs(t, context.Cause(hold.Context()), lockrt.ErrLost)
		}
		err := release(hold)
		require.ErrorIs(t, err, lockrt.ErrLost)
		require.ErrorContains(t, err, `release "`+key+`"`)
	}
	tidyPermits(t, c, server, key)
}

// Options for mutexes do not make a permit stay.
func TestAcquire_PermitOfFixedLength(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	key := redistest.Key(t, "k")
	until := lockrt.UntilDone
	hold := acquire(t, c, patient(t), gen.Spec{Kind: lockrt.KindPermit, Permits: 1, Lease: short, Report: true, Wait: until}, key)
	second := acquire(t, c, patient(t), gen.Spec{Kind: lockrt.KindPermit, Permits: 1, Lease: time.Minute, Keep: true, Wait: until}, key)
	require.ErrorIs(t, release(hold), lockrt.ErrLost, "its time is over")
	require.NoError(t, release(second))
	requireCounts(t, c.PermitSemaphore(key, 1), 1, 0)
	tidyPermits(t, c, redistest.Shared(t), key)
}

func TestAcquire_NoTokenForSome(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	for _, kind := range []lockrt.Kind{lockrt.KindRead, lockrt.KindPermit} {
		_, err := gen.With(c).Acquire(patient(t), &gen.Spec{Name: "n", Kind: kind, Permits: 1, Fence: true}, redistest.Key(t, "k"))
		require.ErrorIs(t, err, lockrt.ErrBadOption)
	}
}

func TestAcquireKinds(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	c, other := newClient(t, lockrt.Options{}), newClient(t, lockrt.Options{})
	keys := mixed(t)
	spec := &gen.Spec{Name: "orders.Service.Move", Wait: 0}
	backwards := []gen.KindKey{keys[5], keys[4], keys[3], keys[2], keys[1], keys[0], keys[1]}
	hold, err := gen.With(c).AcquireKinds(patient(t), spec, backwards...)
	require.NoError(t, err)
	token, ok := lockrt.TokenFrom(hold.Context())
	require.True(t, ok)
	require.Positive(t, token)
	for _, k := range keys {
		of, ok := lockrt.TokenOf(hold.Context(), k.Key)
		require.Equal(t, k.Fence, ok, k.Key)
		require.Equal(t, k.Fence, of > 0)
		one, err := singly(t, other, k)
		if k.Kind == lockrt.KindRead {
			require.NoError(t, err, "many read")
			require.NoError(t, release(one))
			k.Kind = lockrt.KindWrite
			_, err = singly(t, other, k)
		}
		require.ErrorIs(t, err, lockrt.ErrNotAcquired, k.Key)
	}
	require.EqualValues(t, 6, c.Stats().Held)
	require.NoError(t, release(hold))
	require.ErrorIs(t, context.Cause(hold.Context()), lockrt.ErrReleased)
	require.Zero(t, c.Stats().Held)
	for i, k := range keys {
		// Any of them keeps the call out, which then has none.
		block := alone(t, other, k)
		want := keys
		if k.Kind == lockrt.KindRead {
			want = append([]gen.KindKey(nil), keys...)
			want[i].Kind = lockrt.KindWrite
		}
		for _, wait := range []time.Duration{0, 20 * time.Millisecond} {
			_, err = gen.With(c, lockrt.WithWait(wait)).AcquireKinds(patient(t), &gen.Spec{Name: "orders.Service.Move"}, want...)
			require.ErrorIs(t, err, lockrt.ErrNotAcquired)
			require.ErrorContains(t, err, "orders.Service.Move: lockgen: ")
			until(t, "what it got is given back", func() bool { return c.Stats().Held == 0 })
		}
		ctx, cancel := context.WithCancel(patient(t))
		done := make(chan error, 1)
		go func() {
			_, err := gen.With(c, lockrt.WithWait(lockrt.UntilDone)).AcquireKinds(ctx, spec, want...)
			done <- err
		}()
		until(t, "it waits for "+k.Key, func() bool { return c.Stats().Waiting > 0 })
		cancel()
		require.ErrorIs(t, receive(t, done, "the end"), context.Canceled)
		require.NoError(t, release(block))
		until(t, "nothing is held", func() bool { return c.Stats().Held == 0 })
		for _, k := range keys {
			require.NoError(t, release(alone(t, other, k)))
		}
	}
	for _, k := range keys {
		server.Do("DEL", "redisson_lock_token:{"+k.Key+"}")
	}
	tidyPermits(t, c, server, keys[3].Key)
	tidyPermits(t, other, server, keys[3].Key)
}

func TestAcquireKinds_LossOfAnyEndsTheContext(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for i := range mixed(t) {
		c := newClient(t, brisk)
		keys := mixed(t)
		hold, err := gen.With(c).AcquireKinds(patient(t), &gen.Spec{Name: "n", Wait: lockrt.UntilDone}, keys...)
		require.NoError(t, err)
		server.Do("DEL", keys[i].Key, "{"+keys[i].Key+"}:timeout")
		receive(t, hold.Context().Done(), "the loss of "+keys[i].Key)
		require.ErrorIs(t, context.Cause(hold.Context()), lockrt.ErrLost)
		require.ErrorIs(t, release(hold), lockrt.ErrLost)
		until(t, "the rest is given back", func() bool { return c.Stats().Held == 0 })
		for _, k := range keys {
			require.NoError(t, release(alone(t, c, k)))
		}
	}
	server.Do("DEL", mixed(t)[3].Key)
}

func TestAcquireKinds_OneKeyTwice(t *testing.T) {
	t.Parallel()
	c, other := newClient(t, lockrt.Options{}), newClient(t, lockrt.Options{})
	key := redistest.Key(t, "k")
	both := func(a, b gen.KindKey) (*gen.Hold, error) {
		a.Key, b.Key = key, key
		return gen.With(c).AcquireKinds(patient(t), &gen.Spec{Name: "orders.Service.Move", Wait: lockrt.UntilDone}, a, b)
	}
	read, write := gen.KindKey{Kind: lockrt.KindRead}, gen.KindKey{Kind: lockrt.KindWrite}
	for _, pair := range [][2]gen.KindKey{{read, write}, {write, read}} {
		hold, err := both(pair[0], pair[1])
		require.NoError(t, err)
		_, err = other.RWMutex(key).TryRLock(patient(t))
		require.ErrorIs(t, err, lockrt.ErrNotAcquired, "it writes")
		require.NoError(t, release(hold))
	}
	permit := gen.KindKey{Kind: lockrt.KindPermit, Permits: 2}
	hold, err := both(permit, permit)
	require.NoError(t, err)
	requireCounts(t, other.PermitSemaphore(key, 2), 1, 1)
	require.NoError(t, release(hold))
	redistest.Shared(t).Do("DEL", key)

	hold, err = both(gen.KindKey{}, gen.KindKey{Fence: true})
	require.NoError(t, err)
	_, ok := lockrt.TokenOf(hold.Context(), key)
	require.True(t, ok)
	_, ok = lockrt.TokenOf(hold.Context(), "another")
	require.False(t, ok)
	require.NoError(t, release(hold))
	redistest.Shared(t).Do("DEL", "redisson_lock_token:{"+key+"}")

	_, err = both(gen.KindKey{}, gen.KindKey{Kind: lockrt.KindFair})
	require.EqualError(t, err, "orders.Service.Move: "+key+" is a mutex, and a fair mutex")
	_, err = both(permit, gen.KindKey{Kind: lockrt.KindPermit, Permits: 3})
	require.EqualError(t, err, "orders.Service.Move: "+key+" is a semaphore of 2 permits, and of 3")
	var bad *lockrt.KeyError
	require.ErrorAs(t, err, &bad)
	_, err = both(read, gen.KindKey{Kind: lockrt.KindLatch})
	require.EqualError(t, err, "orders.Service.Move: "+key+" is a read lock, and of kind latch")
	_, err = gen.With(c).AcquireKinds(patient(t), &gen.Spec{Name: "n"}, gen.KindKey{Kind: lockrt.KindLatch, Key: key})
	require.EqualError(t, err, `n: unusable option: "latch" is not the kind of a lock`)
	_, err = gen.With(c).AcquireKinds(patient(t), &gen.Spec{Name: "n"})
	require.EqualError(t, err, "n: the key is missing: there is nothing to lock")
	hold, err = gen.With(c).AcquireKinds(patient(t), &gen.Spec{Name: "n", Empty: true})
	require.NoError(t, err)
	require.NoError(t, release(hold))
	freed(t, key)
}

// The lock that was granted first lasts as long as the one that was waited for.
func TestAcquireKinds_FixedLeasesLastTogether(t *testing.T) {
	t.Parallel()
	const lease = 9 * time.Second
	server := redistest.Shared(t)
	c, other := newClient(t, lockrt.Options{}), newClient(t, lockrt.Options{})
	keys := []gen.KindKey{
		{Kind: lockrt.KindPermit, Permits: 1, Key: redistest.Key(t, "a-permit")},
		{Kind: lockrt.KindFair, Key: redistest.Key(t, "b-fair")},
		{Kind: lockrt.KindRead, Key: redistest.Key(t, "c-read")},
		{Kind: lockrt.KindMutex, Key: redistest.Key(t, "d-mutex")},
	}
	block, err := other.Mutex(keys[3].Key).Lock(patient(t), lockrt.WithLease(4*time.Second))
	require.NoError(t, err)
	hold, err := gen.With(c).AcquireKinds(patient(t), &gen.Spec{Name: "n", Wait: lockrt.UntilDone, Lease: lease}, keys...)
	require.NoError(t, err)
	now := time.Now()
	clock, err := server.Do("TIME").AsIntSlice()
	require.NoError(t, err)
	ends, err := server.Do("ZRANGE", "{"+keys[0].Key+"}:timeout", "0", "-1", "WITHSCORES").AsZScores()
	require.NoError(t, err)
	require.Len(t, ends, 1)
	left := []int64{int64(ends[0].Score) - clock[0]*1000 - clock[1]/1000}
	for _, k := range keys[1:] {
		left = append(left, number(t, server, "PTTL", k.Key))
	}
	for i, ms := range left {
		require.Greater(t, time.Duration(ms)*time.Millisecond+time.Since(now), lease*2/3, "of %s", keys[i].Key)
	}
	require.NoError(t, hold.Context().Err())
	require.NoError(t, release(hold))
	require.Error(t, block.Unlock(t.Context()))
	tidyPermits(t, c, server, keys[0].Key)
}

// Many calls want some of the same keys, of all kinds, as they come: nobody waits in a circle, no more are inside than may be.
func TestAcquireKinds_NoCircle(t *testing.T) {
	t.Parallel()
	clients := []*lockrt.Client{newClient(t, lockrt.Options{}), newClient(t, lockrt.Options{})}
	keys := mixed(t)
	inside := make([]atomic.Int32, len(keys))
	jobs(t, 8, func(i int) error {
		for n := range 30 {
			var some []gen.KindKey
			var which []int
			for j := range keys {
				if at := (j*(i%2*4+1) + n) % len(keys); (i+n+at)%2 == 0 { // some go through them backwards
					some, which = append(some, keys[at]), append(which, at)
				}
			}
			if len(some) == 0 {
				continue
			}
			hold, err := gen.With(clients[i%2]).AcquireKinds(patient(t), &gen.Spec{Name: "n", Wait: lockrt.UntilDone}, some...)
			if err != nil {
				return err
			}
			for _, at := range which {
				if got := inside[at].Add(1); got > 1 && keys[at].Kind != lockrt.KindRead {
					t.Errorf("%d are inside of %s", got, keys[at].Key)
				}
			}
			for _, at := range which {
				inside[at].Add(-1)
			}
			if err := release(hold); err != nil {
				return err
			}
		}
		return nil
	})
	for _, c := range clients {
		tidyPermits(t, c, redistest.Shared(t), keys[3].Key)
	}
}

// A message that gets lost leaves nothing taken and counts nothing twice.
func TestFault_AcquireKinds_LostMessages(t *testing.T) {
	t.Parallel()
	everyLoss(t, func(t *testing.T, l *line, drop func(match func(cmd []string) bool, n int) *redistest.Drop) {
		keys := mixed(t)
		for name, script := range map[string]*scripts.Script{
			"permit": scripts.PermitAcquire, "fair": scripts.FairAcquire, "release": scripts.PermitRelease,
		} {
			lost := drop(redistest.EvalSHA(script.SHA1()), 1)
			hold, err := gen.With(l.client).AcquireKinds(patient(t), &gen.Spec{Name: "n", Wait: lockrt.UntilDone, Watchdog: time.Minute}, keys...)
			require.NoError(t, err, name)
			require.NoError(t, hold.Context().Err(), name)
			require.EqualValues(t, 6, l.client.Stats().Held)
			require.NoError(t, release(hold), name)
			receive(t, lost.Done(), "the loss")
		}
		s := l.client.PermitSemaphore(keys[3].Key, 1)
		requireEventuallyCounts(t, s, 1, 0)
		for _, k := range keys {
			require.NoError(t, release(alone(t, l.client, k)))
		}
		tidyPermits(t, l.client, l.server, keys[3].Key)
	})
}

// quorum returns the Acquirer of one process on three servers of its own.
func quorum(t *testing.T, all []site) (gen.Acquirer, []*lockrt.Client) {
	t.Helper()
	var clients []*lockrt.Client
	for _, s := range all {
		clients = append(clients, clientOf(t, s.proxy.URL(), lockrt.Options{}))
	}
	return gen.Quorum(clients, lockrt.WithWait(0)), clients
}

func TestAcquire_Red(t *testing.T) {
	t.Parallel()
	all := sites(t, 3)
	a, clients := quorum(t, all)
	b, _ := quorum(t, all)
	key, near := redistest.Key(t, "k"), redistest.Key(t, "near")
	spec := &gen.Spec{Name: "jobs.Service.Run", Kind: lockrt.KindRedLock, Fence: true}
	hold, err := a.Acquire(patient(t), spec, key)
	require.NoError(t, err)
	token, ok := lockrt.TokenFrom(hold.Context())
	require.True(t, ok)
	require.Positive(t, token)
	_, err = b.Acquire(patient(t), spec, key)
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	require.ErrorContains(t, err, "jobs.Service.Run: lockgen: lock")
	inner, err := a.Acquire(hold.Context(), spec, key)
	require.NoError(t, err, "it enters again")
	require.NoError(t, release(inner))
	require.NoError(t, release(hold))
	freeAgain(t, all, key)

	// Min and Keep are for mutexes.
	for _, spec := range []*gen.Spec{{Name: "n", Kind: lockrt.KindRedLock, Min: time.Hour}, {Name: "n", Kind: lockrt.KindRedLock, Keep: true, Lease: time.Hour}} {
		hold, err := a.Acquire(patient(t), spec, key)
		require.NoError(t, err)
		require.NoError(t, release(hold))
		freeAgain(t, all, key)
	}

	// Beside a lock of one server.
	local := newClient(t, lockrt.Options{})
	both := []gen.KindKey{{Kind: lockrt.KindRedLock, Key: key}, {Kind: lockrt.KindMutex, Key: near}}
	one := gen.With(local, lockrt.WithWait(0)).Quorum(clients)
	hold, err = one.AcquireKinds(patient(t), &gen.Spec{Name: "n", Kind: lockrt.KindMutex}, both...)
	require.NoError(t, err)
	require.EqualValues(t, 1, exists(t, near))
	_, err = b.Acquire(patient(t), spec, key)
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	for _, s := range all[:2] {
		s.Do("DEL", key)
	}
	receive(t, hold.Context().Done(), "the loss of the majority")
	require.ErrorIs(t, release(hold), lockrt.ErrLost)
	freeAgain(t, all, key)
	freed(t, near)
	for _, s := range all {
		s.Do("DEL", "redisson_lock_token:{"+key+"}")
	}
}

func TestAcquire_RedWithoutQuorum(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	key := redistest.Key(t, "k")
	spec := &gen.Spec{Name: "jobs.Service.Run", Kind: lockrt.KindRedLock, Empty: true}
	few := `jobs.Service.Run: lockgen: lock "` + key + `": unusable option: `
	for want, a := range map[string]gen.Acquirer{
		few + "a red lock of 0 servers, and not of an odd number of three or more":  gen.With(c),
		few + "a red lock of 2 servers, and not of an odd number of three or more":  gen.Quorum([]*lockrt.Client{c, c}),
		few + "a red lock with the server " + redistest.Shared(t).Addr() + " twice": gen.Quorum([]*lockrt.Client{c, c, c}),
		few + "client 1 of a red lock is nil":                                       gen.Quorum([]*lockrt.Client{c, nil, c}),
		"jobs.Service.Run: unusable option: there is no client":                     gen.Quorum(nil),
	} {
		_, err := a.Acquire(patient(t), spec, key)
		require.EqualError(t, err, want)
		require.ErrorIs(t, err, lockrt.ErrBadOption)
		_, err = a.AcquireKinds(patient(t), spec, gen.KindKey{Kind: lockrt.KindRedLock, Key: key}, gen.KindKey{Key: key + "2"})
		require.EqualError(t, err, want)
	}
	_, err := gen.Quorum(nil).Acquire(patient(t), spec)
	require.ErrorIs(t, err, lockrt.ErrBadOption)
}
