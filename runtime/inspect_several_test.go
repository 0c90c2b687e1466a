package lockrt_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestRedLock_Inspect: each server says who has the key there; one that does not answer hides nothing, and without a majority the
// call says that it knows too little.
func TestRedLock_Inspect(t *testing.T) {
	t.Parallel()
	all := sites(t, 3)
	mine, theirs := redLock(t, all, "k", lockrt.Options{}), redLock(t, all, "k", lockrt.Options{})
	free, err := mine.Inspect(patient(t))
	require.NoError(t, err)
	require.Equal(t, lockrt.RedStanding{Majority: 2, Servers: make([]lockrt.ServerStanding, 3)}, free)

	lease, err := mine.Lock(patient(t))
	require.NoError(t, err)
	until(t, "all servers have it", func() bool {
		s, err := mine.Inspect(patient(t))
		require.NoError(t, err)
		require.GreaterOrEqual(t, s.Held, 2)
		require.Equal(t, s.Held, s.Ours)
		return s.Held == 3
	})
	s, err := theirs.Inspect(patient(t))
	require.NoError(t, err)
	require.Equal(t, 3, s.Held)
	require.Zero(t, s.Ours)
	for _, server := range s.Servers {
		require.NoError(t, server.Err)
		require.Positive(t, server.TTL)
		require.False(t, server.Java)
	}

	down := func(server site) {
		server.proxy.Refuse(true)
		server.proxy.Cut()
	}
	down(all[0])
	s, err = theirs.Inspect(patient(t))
	require.NoError(t, err)
	require.Equal(t, 2, s.Held)
	require.Error(t, s.Servers[0].Err)
	require.Empty(t, s.Servers[0].Owner)
	down(all[1])
	s, err = theirs.Inspect(patient(t))
	require.ErrorIs(t, err, lockrt.ErrUnavailable)
	require.ErrorContains(t, err, `lockgen: inspect "k": server unavailable: 1 of 3 servers answer`)
	require.Equal(t, 1, s.Held, "what the others said")
	_, err = theirs.ForceUnlock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrUnavailable)
	all[0].proxy.Refuse(false)
	all[1].proxy.Refuse(false)
	_ = lease.Unlock(patient(t))
}

// TestRedLock_ForceUnlock: the holder loses its lease, and somebody else can have the lock.
func TestRedLock_ForceUnlock(t *testing.T) {
	t.Parallel()
	all := sites(t, 3)
	mine, clients := redLockAndClients(t, all, "k", lockrt.Options{})
	theirs := redLock(t, all, "k", lockrt.Options{})
	taken, err := theirs.ForceUnlock(patient(t))
	require.NoError(t, err)
	require.False(t, taken, "nobody had it")
	for _, by := range []*lockrt.RedLock{theirs, mine} { // another process, and the same one
		lease := lockAll(t, mine, 3)
		for i, s := range all {
			listening(t, s, clients[i])
		}
		taken, err = by.ForceUnlock(patient(t))
		require.NoError(t, err)
		require.True(t, taken)
		receive(t, lease.Context().Done(), "the loss")
		require.ErrorIs(t, lease.Err(), lockrt.ErrLost)
		require.ErrorIs(t, lease.Unlock(patient(t)), lockrt.ErrLost)
		next, err := theirs.Lock(patient(t))
		require.NoError(t, err)
		require.NoError(t, next.Unlock(patient(t)))
	}
	_, err = lockrt.RedLockOf(newClient(t, lockrt.Options{}).Mutex("a{b")).ForceUnlock(patient(t))
	require.ErrorAs(t, err, new(*lockrt.KeyError))
}

// listening waits until a client hears what the server tells the holders of locks. Without a message, a part that was taken by force looks like a part
// that was deleted, which its holder gets back.
func listening(t *testing.T, s site, c *lockrt.Client) {
	t.Helper()
	until(t, "it listens", func() bool { return subscribers(t, s.RedisServer, "lockgen_process:"+c.ID()) == 1 })
}

// TestRedLock_ForceUnlockOfAPart shows that a part that is taken by force ends the whole, though a majority is left: else the whole would get back
// what is taken from it on one server after the other. Now and then the message that the key is missing comes first.
func TestRedLock_ForceUnlockOfAPart(t *testing.T) {
	t.Parallel()
	all := sites(t, 3)
	mine, clients := redLockAndClients(t, all, "k", lockrt.Options{})
	for _, by := range []*lockrt.Client{clientOf(t, all[1].URL(), lockrt.Options{}), clients[1]} { // another process, and the same one
		atBest(t, "did the message come first", func() bool {
			lease := lockAll(t, mine, 3)
			listening(t, all[1], clients[1])
			taken, err := by.Mutex("k").ForceUnlock(patient(t))
			require.NoError(t, err)
			require.True(t, taken)
			until(t, "it is lost, or has the part again", func() bool {
				return lease.Err() != nil || number(t, all[1].RedisServer, "EXISTS", "k") == 1
			})
			lost := lease.Err()
			_ = lease.Unlock(patient(t))
			freeAgain(t, all, "k")
			if lost == nil {
				return false
			}
			require.ErrorIs(t, lost, lockrt.ErrLost)
			require.ErrorContains(t, lost, "taken by force")
			return true
		})
	}
}

// TestPermitSemaphore_Inspect shows what all processes have of a semaphore, and what this one has.
func TestPermitSemaphore_Inspect(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	c, other := newClient(t, lockrt.Options{}), newClient(t, lockrt.Options{})
	key := redistest.Key(t, "k")
	s := c.PermitSemaphore(key, 3)
	look := func() lockrt.PermitStanding {
		standing, err := s.Inspect(patient(t))
		require.NoError(t, err)
		return standing
	}
	require.Equal(t, lockrt.PermitStanding{Total: 3, Available: 3}, look(), "as many as it is created with")
	two, err := s.AcquireN(patient(t), 2)
	require.NoError(t, err)
	one, err := other.PermitSemaphore(key, 3).Acquire(patient(t))
	require.NoError(t, err)
	require.Equal(t, lockrt.PermitStanding{Total: 3, Acquired: 3, Ours: 2}, look())
	got := make(chan error, 1)
	go func() {
		p, err := s.Acquire(patient(t))
		if err == nil {
			err = p.Release(t.Context())
		}
		got <- err
	}()
	until(t, "it waits", func() bool { return look().Waiting == 1 })
	require.NoError(t, s.Release(patient(t), two.PermitIDs()[0]))
	require.NoError(t, receive(t, got, "a permit"))
	require.NoError(t, s.SetPermits(patient(t), 1))
	require.Equal(t, lockrt.PermitStanding{Total: 1, Available: -1, Acquired: 2, Ours: 1}, look())
	require.NoError(t, two.Release(patient(t)))
	require.NoError(t, one.Release(patient(t)))
	require.Equal(t, lockrt.PermitStanding{Total: 1, Available: 1}, look())
	server.Do("DEL", key, "{"+key+"}:timeout")
	server.Do("RPUSH", key, "no semaphore")
	_, err = s.Inspect(patient(t))
	require.ErrorIs(t, err, lockrt.ErrWrongType)
	server.Do("DEL", key)
}

// TestMultiLock_Inspect shows each member as its own Inspect does, in the order in which they are locked.
func TestMultiLock_Inspect(t *testing.T) {
	t.Parallel()
	c, other := newClient(t, lockrt.Options{}), newClient(t, lockrt.Options{})
	key := func(name string) string { return redistest.Key(t, name) }
	a, b, d, e, f := key("a"), key("b"), key("d"), key("e"), key("f")
	m := lockrt.NewMultiLock(lockrt.PermitLocker(c.PermitSemaphore(e, 1)), c.RWMutex(f).RLocker(), c.Mutex(a), c.FairMutex(b), c.RWMutex(d))
	lease, err := m.Lock(patient(t))
	require.NoError(t, err)
	all, err := m.Inspect(patient(t))
	require.NoError(t, err)
	var kinds []string
	for i, s := range all {
		kinds = append(kinds, string(s.Kind))
		require.Equal(t, []string{a, b, d, e, f}[i], s.Key)
	}
	require.Equal(t, "mutex fair write permit read", strings.Join(kinds, " "))
	require.True(t, all[0].Lock.Ours)
	require.True(t, all[1].Lock.Ours)
	require.Equal(t, 1, all[2].RW.WriteCount)
	require.Equal(t, 1, all[3].Permits.Ours)
	require.Equal(t, 1, all[4].RW.ReadCount)
	require.Nil(t, all[0].RW)
	require.NoError(t, lease.Unlock(patient(t)))

	server := redistest.Shared(t)
	server.Do("RPUSH", b, "no lock")
	held, err := other.Mutex(a).Lock(patient(t))
	require.NoError(t, err)
	all, err = m.Inspect(patient(t))
	require.ErrorIs(t, err, lockrt.ErrWrongType)
	require.ErrorContains(t, err, b)
	require.Nil(t, all[1].Lock)
	require.False(t, all[0].Lock.Ours)
	require.Equal(t, 1, all[0].Lock.Count, "what the others say")
	require.NoError(t, held.Unlock(patient(t)))
	server.Do("DEL", b, e)

	servers := sites(t, 3)
	red := redLock(t, servers, "k", lockrt.Options{})
	all, err = lockrt.NewMultiLock(red, c.Mutex(a)).Inspect(patient(t))
	require.NoError(t, err)
	require.Equal(t, 2, all[1].Red.Majority)
	require.Zero(t, all[1].Red.Held)
}
