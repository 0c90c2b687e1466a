package lockrt_test

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// This file replaces the master that sentinels watch while locks are held and waited for. Machines that are busy
// take longer than the times that are logged; what is required is an order of magnitude.

// sentinels starts a group, and two clients of it: one that Open made, and one of a rueidis client with its defaults.
func sentinels(t *testing.T, opts lockrt.Options, servers ...redistest.Option) (g *redistest.SentinelGroup, a, b *lockrt.Client) {
	t.Helper()
	opts.OpTimeout = cmp.Or(opts.OpTimeout, lockrt.DefaultOpTimeout) // after which a stopped master is given up
	g = redistest.Sentinel(t, servers...)
	option, err := rueidis.ParseURL(g.URL())
	require.NoError(t, err)
	if opts.TLS != nil {
		option.TLSConfig, option.Sentinel.TLSConfig = opts.TLS, opts.TLS
	}
	option.Sentinel.Password = option.Password // it is the same
	option.ConnWriteTimeout = 2 * time.Second
	rc, err := rueidis.NewClient(option)
	for start := time.Now(); timedOut(err) && time.Since(start) < patience; {
		rc, err = rueidis.NewClient(option)
	}
	require.NoError(t, err)
	t.Cleanup(rc.Close)
	b, err = lockrt.New(rc, opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return g, clientOf(t, g.URL(), opts), b
}

// cutReplicas has the replicas of the master miss what is written from now on: they are stopped, and what the master
// has sent them is all that they will get of it.
func cutReplicas(t *testing.T, g *redistest.SentinelGroup) (master *redistest.RedisServer, cont func()) {
	t.Helper()
	g.AwaitReplicas(2)
	master = g.Master()
	replicas := g.Replicas()
	for _, s := range replicas {
		s.Stop()
	}
	master.Do("CLIENT", "KILL", "TYPE", "replica")
	return master, func() {
		for _, s := range replicas {
			s.Cont()
		}
	}
}

func TestSentinel_ReplicatedHoldsOutliveTheMaster(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(g *redistest.SentinelGroup) (old, master *redistest.RedisServer, since time.Time){
		"killed": func(g *redistest.SentinelGroup) (old, master *redistest.RedisServer, since time.Time) {
			old = g.Master()
			old.Kill()
			master = g.AwaitMaster(old)
			return old, master, time.Now()
		},
		"stopped": func(g *redistest.SentinelGroup) (old, master *redistest.RedisServer, since time.Time) {
			old = g.Master()
			old.Stop()
			master = g.AwaitMaster(old)
			return old, master, time.Now()
		},
		"planned": func(g *redistest.SentinelGroup) (old, master *redistest.RedisServer, since time.Time) {
			old = g.Master()
			return old, g.Failover(), time.Now()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hooks, waiting, _ := watch()
			g, a, b := sentinels(t, lockrt.Options{Hooks: hooks, Watchdog: 18 * time.Second}) // a failover takes many seconds on a busy machine
			held, err := a.Mutex("k").Lock(patient(t), lockrt.WithFencing())
			require.NoError(t, err)
			first, later := lockLater(patient(t), b.Mutex("k"), lockrt.WithFencing()), lockLater(patient(t), a.Mutex("other"))
			require.Equal(t, "k", receive(t, waiting, "the wait"))
			other := receive(t, later, "a free lock").lease
			g.AwaitReplicas(2)

			site := lockrt.SiteOf(a)
			old, master, since := fail(g)
			require.Equal(t, site, lockrt.SiteOf(a), "the turn of its keys in a MultiLock is what it was")
			fresh, err := a.Mutex("fresh").Lock(patient(t))
			require.NoError(t, err)
			t.Logf("served %v after the failover was over", time.Since(since))
			require.NoError(t, fresh.Unlock(t.Context()))
			require.NoError(t, held.Err())
			require.NoError(t, other.Err())
			until(t, "the hold is renewed at the new master", func() bool { return number(t, master, "PTTL", "k") > 15000 })
			until(t, "they listen at the new master", func() bool { return channels(t, master) >= 2 })

			require.NoError(t, held.Unlock(t.Context()))
			since = time.Now()
			next := receive(t, first, "the waiter")
			require.NoError(t, next.err)
			t.Logf("the next one has it after %v", time.Since(since))
			require.Less(t, time.Since(since), 4500*time.Millisecond, "it waited for a lease to end")
			require.Greater(t, next.lease.Token(), held.Token())

			if name == "stopped" {
				old.Cont()
			}
			if name != "killed" {
				g.AwaitReplicas(2)
				until(t, "the old master takes no writes", func() bool { // its connections ended when it became a replica
					_, err := old.Try("SET", "k", "1")
					return err != nil && strings.Contains(err.Error(), "READONLY")
				})
			}
			require.NoError(t, next.lease.Err())
			require.NoError(t, next.lease.Unlock(t.Context()))
			require.NoError(t, other.Unlock(t.Context()))
			gone(t, master, "k")
			require.Zero(t, master.CommandStats()["eval"])
		})
	}
}

// A grant that was lost with its master is told when the other one is found, not when the lease is to be renewed, which
// here would be in 20s. The next grant has a larger token.
func TestSentinel_LostGrantsAreToldAtOnce(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(s *redistest.RedisServer){
		"killed":  (*redistest.RedisServer).Kill,
		"stopped": (*redistest.RedisServer).Stop,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hooks, _, ends := watch()
			g, a, b := sentinels(t, lockrt.Options{Hooks: hooks, Tracking: lockrt.TrackingOff, Watchdog: time.Minute})
			for _, c := range []*lockrt.Client{a, b} { // the scripts are loaded, the channels heard
				lease, err := c.Mutex("warm").Lock(patient(t))
				require.NoError(t, err)
				require.NoError(t, lease.Unlock(t.Context()))
				<-ends
			}
			master, cont := cutReplicas(t, g)
			holds := map[string]*lockrt.Lease{}
			for key, lock := range exclusives {
				lease, err := lock(a, key).Lock(patient(t), lockrt.WithFencing())
				require.NoError(t, err)
				holds[key] = lease
			}
			fixed, err := a.Mutex("fixed").Lock(patient(t), lockrt.WithLease(time.Minute))
			require.NoError(t, err)
			permits := a.PermitSemaphore("permits", 1)
			permit, err := permits.Acquire(patient(t))
			require.NoError(t, err)

			fail(master)
			cont()
			g.AwaitMaster(master)
			since := time.Now()
			for key, held := range holds {
				receive(t, held.Context().Done(), "the loss of "+key)
			}
			receive(t, fixed.Context().Done(), "the loss of the fixed lease")
			receive(t, permit.Context().Done(), "the loss of the permit")
			told := time.Since(since)
			t.Logf("told %v after the failover was over", told)
			require.Less(t, told, 5*time.Second)
			for key, held := range holds {
				require.ErrorIs(t, context.Cause(held.Context()), lockrt.ErrLost)
				next, err := exclusives[key](b, key).Lock(patient(t), lockrt.WithFencing())
				require.NoError(t, err)
				require.Greater(t, next.Token(), held.Token(), key)
				require.ErrorIs(t, held.Unlock(t.Context()), lockrt.ErrLost)
				require.NoError(t, next.Err(), "an unlock that comes late harms nobody")
				require.NoError(t, next.Unlock(t.Context()))
			}
			require.ErrorIs(t, fixed.Unlock(t.Context()), lockrt.ErrLost)
			require.ErrorIs(t, permit.Release(t.Context()), lockrt.ErrLost)
			if name == "stopped" {
				master.Cont()
			}
		})
	}
}

// TestSentinel_TLSAndPasswords shows that clients follow a master where everybody shows a certificate and a password: they
// to the servers and the sentinels, and those to each other.
func TestSentinel_TLSAndPasswords(t *testing.T) {
	t.Parallel()
	const password = "it is s&cret"
	authority := newAuthority(t)
	opts := lockrt.Options{TLS: authority.client(t), Watchdog: time.Minute}
	g, a, b := sentinels(t, opts, authority.servers(t), redistest.WithPassword(password))

	for name, url := range map[string]string{
		"NOAUTH":    strings.Replace(g.URL(), "sentinel_password=", "sentinel_password=&client_name=", 1),
		"WRONGPASS": strings.Replace(g.URL(), "sentinel_password=", "sentinel_password=not", 1),
	} {
		_, err := opened(t.Context(), url, opts)
		require.ErrorContains(t, err, name)
	}

	held, err := a.Mutex("k").Lock(patient(t), lockrt.WithFencing())
	require.NoError(t, err)
	next := lockLater(patient(t), b.Mutex("k"), lockrt.WithFencing())
	until(t, "the other one stands in line", func() bool {
		standing, err := a.Mutex("k").Inspect(patient(t))
		return err == nil && standing.Waiting == 1
	})
	g.AwaitReplicas(2)
	old := g.Master()
	old.Kill()
	master := g.AwaitMaster(old)
	require.NoError(t, held.Err())
	require.EqualValues(t, 1, number(t, master, "EXISTS", "k"))
	require.NoError(t, held.Unlock(patient(t)))
	got := receive(t, next, "the waiter")
	require.NoError(t, got.err)
	require.Greater(t, got.lease.Token(), held.Token())
	require.NoError(t, got.lease.Unlock(patient(t)))
}

// A client that its owner closed is not mistaken for one that changes masters.
func TestSentinel_ClosedClientFails(t *testing.T) {
	t.Parallel()
	g := redistest.Sentinel(t)
	option, err := rueidis.ParseURL(g.URL())
	require.NoError(t, err)
	rc, err := rueidis.NewClient(option)
	require.NoError(t, err)
	c, err := lockrt.New(rc, lockrt.Options{OpTimeout: 3 * time.Second})
	require.NoError(t, err)
	defer c.Close()
	lease, err := c.Mutex("k").Lock(patient(t))
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(t.Context()))
	rc.Close()
	_, err = c.Mutex("k").Lock(patient(t))
	require.ErrorIs(t, err, rueidis.ErrClosing)
	require.False(t, errors.Is(err, context.DeadlineExceeded))
}
