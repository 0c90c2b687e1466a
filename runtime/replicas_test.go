package lockrt_test

import (
	"context"
	"errors"
	"net"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// replicated starts a server and n replicas of it.
func replicated(t *testing.T, n int) (master *redistest.RedisServer, replicas []*redistest.RedisServer) {
	t.Helper()
	master = redistest.Server(t, redistest.WithConfig("repl-diskless-sync-delay", "0"))
	host, port, err := net.SplitHostPort(master.Addr())
	require.NoError(t, err)
	for range n {
		replicas = append(replicas, redistest.Server(t, redistest.WithConfig("replicaof", host, port)))
	}
	online(t, master, n)
	return master, replicas
}

// online waits until a server has n replicas.
func online(t *testing.T, master *redistest.RedisServer, n int) {
	t.Helper()
	until(t, "the replicas are there", func() bool {
		return number(t, master, "PUBLISH", "x", "x") == 0 && number(t, master, "WAIT", "9", "50") == int64(n)
	})
}

// wanting are the ways to be granted something, once, without waiting for others; what they return releases it.
var wanting = map[string]func(ctx context.Context, c *lockrt.Client, key string, opts ...lockrt.LockOption) (func() error, error){
	"Mutex": func(ctx context.Context, c *lockrt.Client, key string, opts ...lockrt.LockOption) (func() error, error) {
		return unlocker(c.Mutex(key).Lock(ctx, opts...))
	},
	"Mutex, fenced": func(ctx context.Context, c *lockrt.Client, key string, opts ...lockrt.LockOption) (func() error, error) {
		return unlocker(c.Mutex(key, lockrt.WithFencing()).Lock(ctx, opts...))
	},
	"FairMutex": func(ctx context.Context, c *lockrt.Client, key string, opts ...lockrt.LockOption) (func() error, error) {
		return unlocker(c.FairMutex(key).Lock(ctx, opts...))
	},
	"RWMutex": func(ctx context.Context, c *lockrt.Client, key string, opts ...lockrt.LockOption) (func() error, error) {
		return unlocker(c.RWMutex(key).Lock(ctx, opts...))
	},
	"RWMutex, to read": func(ctx context.Context, c *lockrt.Client, key string, opts ...lockrt.LockOption) (func() error, error) {
		return unlocker(c.RWMutex(key).RLock(ctx, opts...))
	},
	"MultiLock": func(ctx context.Context, c *lockrt.Client, key string, opts ...lockrt.LockOption) (func() error, error) {
		return unlocker(lockrt.NewMultiLock(c.Mutex(key), c.Mutex(key+"-2")).Lock(ctx, opts...))
	},
	"Semaphore": func(ctx context.Context, c *lockrt.Client, key string, opts ...lockrt.LockOption) (func() error, error) {
		s := c.Semaphore(key, 3)
		return func() error { return s.Release(context.Background(), 2) }, s.Acquire(ctx, 2, opts...)
	},
	"PermitSemaphore": func(ctx context.Context, c *lockrt.Client, key string, opts ...lockrt.LockOption) (func() error, error) {
		p, err := c.PermitSemaphore(key, 3).AcquireN(ctx, 2, opts...)
		return func() error { return p.Release(context.Background()) }, err
	},
}

func unlocker(l *lockrt.Lease, err error) (func() error, error) {
	return func() error { return l.Unlock(context.Background()) }, err
}

// nothingHeld waits until nothing is locked and no permit is taken.
func nothingHeld(t *testing.T, server *redistest.RedisServer, kind, key string) {
	t.Helper()
	until(t, "what was granted is given back", func() bool {
		switch kind {
		case "Semaphore", "PermitSemaphore":
			free, _ := server.Do("GET", key).ToString()
			return free == "3" && number(t, server, "EXISTS", "{"+key+"}:timeout") == 0
		default:
			return number(t, server, "EXISTS", key, key+"-2") == 0
		}
	})
}

func TestReplicas_GrantsAreConfirmed(t *testing.T) {
	t.Parallel()
	master, replicas := replicated(t, 2)
	c := clientOf(t, master.URL(), lockrt.Options{Replicas: 2})
	for kind, want := range wanting {
		key := redistest.Key(t, "k")
		before := master.CommandStats()["wait"]
		giveBack, err := want(patient(t), c, key)
		require.NoError(t, err, kind)
		require.Greater(t, master.CommandStats()["wait"], before, kind)
		for _, r := range replicas {
			require.Equal(t, int64(1), number(t, r, "EXISTS", key), "%s: the replica knows of it", kind)
		}
		require.NoError(t, giveBack(), kind)
		nothingHeld(t, master, kind, key)
	}
	// Without the option nothing is waited for, and no call that needs no confirmation waits for any.
	plain := clientOf(t, master.URL(), lockrt.Options{})
	before := master.CommandStats()["wait"]
	for kind, want := range wanting {
		giveBack, err := want(patient(t), plain, redistest.Key(t, "k"))
		require.NoError(t, err, kind)
		require.NoError(t, giveBack(), kind)
	}
	require.Equal(t, before, master.CommandStats()["wait"])
}

// TestReplicas_UnconfirmedGrantsAreGivenBack has replicas that are stopped, or cut off, or not as many.
func TestReplicas_UnconfirmedGrantsAreGivenBack(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fail func(r *redistest.RedisServer)
		mend func(r *redistest.RedisServer, host, port string)
	}{
		"stopped":  {(*redistest.RedisServer).Stop, func(r *redistest.RedisServer, _, _ string) { r.Cont() }},
		"killed":   {(*redistest.RedisServer).Kill, func(r *redistest.RedisServer, _, _ string) { r.Restart() }},
		"detached": {func(r *redistest.RedisServer) { r.Do("REPLICAOF", "NO", "ONE") }, func(r *redistest.RedisServer, host, port string) { r.Do("REPLICAOF", host, port) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			master, replicas := replicated(t, 2)
			c := clientOf(t, master.URL(), lockrt.Options{Replicas: 2})
			// One that was confirmed before stays what it is, and is released without them.
			kept, err := c.Mutex("kept").Lock(patient(t), lockrt.WithWatchdog(6*time.Second))
			require.NoError(t, err)
			test.fail(replicas[0])

			var all sync.WaitGroup
			for kind, want := range wanting {
				all.Go(func() {
					key := redistest.Key(t, "k")
					_, err := want(patient(t), c, key, lockrt.WithWait(0))
					if !errors.Is(err, lockrt.ErrReplicas) || errors.Is(err, lockrt.ErrNotAcquired) {
						t.Errorf("%s, once: %v", kind, err)
					}
					nothingHeld(t, master, kind, key)
					_, err = want(patient(t), c, key, lockrt.WithWait(3*time.Second))
					// A MultiLock may have heard nothing of the member that it waits for last.
					if kind != "MultiLock" && !errors.Is(err, lockrt.ErrReplicas) || !errors.Is(err, lockrt.ErrUnavailable) || errors.Is(err, lockrt.ErrNotAcquired) {
						t.Errorf("%s, with a wait: %v", kind, err)
					}
					nothingHeld(t, master, kind, key)
					ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
					defer cancel()
					start := time.Now()
					_, err = want(ctx, c, key)
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%s, with a context: %v", kind, err)
					}
					if took := time.Since(start); took > late {
						t.Errorf("%s: it returned %v after its context had ended", kind, took)
					}
					nothingHeld(t, master, kind, key)
				})
			}
			all.Wait()
			require.NoError(t, kept.Err())
			require.NoError(t, kept.Unlock(t.Context()))

			// A waiter is served when there are enough replicas again.
			later := map[string]chan error{}
			for kind, want := range wanting {
				done := make(chan error, 1)
				later[kind] = done
				go func() {
					giveBack, err := want(patient(t), c, redistest.Key(t, "later"))
					if err == nil {
						err = giveBack()
					}
					done <- err
				}()
			}
			host, port, err := net.SplitHostPort(master.Addr())
			require.NoError(t, err)
			test.mend(replicas[0], host, port)
			for kind, done := range later {
				require.NoError(t, receive(t, done, kind), kind)
			}
		})
	}
}

func TestReplicas_WaitForbidden(t *testing.T) {
	t.Parallel()
	master, _ := replicated(t, 1)
	master.Do("ACL", "SETUSER", "default", "-wait")
	c := clientOf(t, master.URL(), lockrt.Options{Replicas: 1})
	for kind, want := range wanting {
		key := redistest.Key(t, "k")
		_, err := want(patient(t), c, key) // which does not wait for what does not pass
		require.ErrorIs(t, err, lockrt.ErrReplicas, kind)
		require.ErrorContains(t, err, "NOPERM", kind)
		nothingHeld(t, master, kind, key)
	}
}

var blockedClients = regexp.MustCompile(`blocked_clients:[1-9]`)

// TestReplicas_TheMasterBecomesAReplica has the master end each WAIT, as a failover does. A call that waits goes on.
func TestReplicas_TheMasterBecomesAReplica(t *testing.T) {
	t.Parallel()
	master, replicas := replicated(t, 1)
	c := clientOf(t, master.URL(), lockrt.Options{Replicas: 1})
	replicas[0].Stop()
	later := lockLater(patient(t), c.Mutex("k"))
	until(t, "a replica is waited for", func() bool {
		info, err := master.Do("INFO", "clients").ToString()
		return err == nil && blockedClients.MatchString(info)
	})
	master.Do("REPLICAOF", "127.0.0.1", "1")
	master.Do("REPLICAOF", "NO", "ONE")
	replicas[0].Cont()
	got := receive(t, later, "the lock")
	require.NoError(t, got.err)
	require.NoError(t, got.lease.Unlock(t.Context()))
	gone(t, master, "k")
}

var failedWaits = regexp.MustCompile(`cmdstat_wait:.*failed_calls=[1-9]`)

// TestReplicas_ReplicaBeforeTheWait has the master become a replica between a grant and the question for replicas. A call that waits goes on.
func TestReplicas_ReplicaBeforeTheWait(t *testing.T) {
	t.Parallel()
	master, replicas := replicated(t, 1)
	proxy := redistest.Proxy(t, master.Addr())
	c := clientOf(t, proxy.URL(), lockrt.Options{Replicas: 1})
	var once sync.Once
	replica := make(chan struct{})
	proxy.OnRequest(func(cmd []string) {
		if redistest.Command("WAIT")(cmd) {
			once.Do(func() {
				until(t, "the server has granted the lock", func() bool { return number(t, master, "EXISTS", "k") == 1 })
				master.Do("REPLICAOF", "127.0.0.1", "1")
				close(replica)
			})
		}
	})
	later := lockLater(patient(t), c.Mutex("k"))
	receive(t, replica, "the end of the master")
	until(t, "the server is asked for replicas", func() bool {
		stats, err := master.Do("INFO", "commandstats").ToString()
		return err == nil && failedWaits.MatchString(stats)
	})
	master.Do("REPLICAOF", "NO", "ONE")
	online(t, master, len(replicas))
	got := receive(t, later, "the lock")
	require.NoError(t, got.err)
	require.NoError(t, got.lease.Unlock(t.Context()))
	gone(t, master, "k")
}

// TestReplicas_LostReplies loses the reply to a grant, to the question for replicas, or both with their connection.
func TestReplicas_LostReplies(t *testing.T) {
	t.Parallel()
	for what, match := range map[string]func(cmd []string) bool{
		"grant": asks,
		"wait":  redistest.Command("WAIT"),
	} {
		for how, mode := range modes() {
			for _, kind := range []string{"reply", "request"} {
				t.Run(what+" "+kind+" "+how, func(t *testing.T) {
					t.Parallel()
					master, _ := replicated(t, 1)
					l := &line{server: master, proxy: redistest.Proxy(t, master.Addr()), key: "k"}
					l.client = clientOf(t, l.proxy.URL(), lockrt.Options{Replicas: 1, Watchdog: brisk.Watchdog, OpTimeout: 2 * time.Second})
					l.warm(t)
					lost := losses(l.proxy)[kind](match, 1, mode)
					lease, err := l.client.Mutex(l.key).Lock(patient(t), unexpiring)
					require.NoError(t, err)
					receive(t, lost.Done(), "the loss")
					require.Len(t, fields(t, master, l.key), 1)
					require.NoError(t, lease.Unlock(t.Context()))
					gone(t, master, l.key)
				})
			}
		}
	}
}

// TestReplicas_HandedOverLocksAreConfirmedToo has the replica stopped while a lock changes hands: nobody has it until the
// replica goes on.
func TestReplicas_HandedOverLocksAreConfirmedToo(t *testing.T) {
	t.Parallel()
	for kind, lock := range exclusives {
		for who, cohort := range map[string]int{"another process": 1, "the same process": 1, "another goroutine with other terms": 0} {
			t.Run(kind+" to "+who, func(t *testing.T) {
				t.Parallel()
				master, replicas := replicated(t, 1)
				hooks, waiting, _ := watch()
				opts := lockrt.Options{Replicas: 1, Cohort: cohort, Hooks: hooks}
				a := clientOf(t, master.URL(), opts)
				b := a
				if who == "another process" {
					b = clientOf(t, master.URL(), opts)
				}
				held, err := lock(a, "k").Lock(patient(t))
				require.NoError(t, err)
				later := lockLater(patient(t), lock(b, "k"), lockrt.WithWatchdog(time.Minute))
				receive(t, waiting, "the wait")
				if b != a {
					until(t, "it stands in line", func() bool {
						return kind == "RWMutex" || number(t, master, "EXISTS", "lockgen_waiting:{k}", "redisson_lock_queue:{k}") == 1
					})
				}
				replicas[0].Stop()
				master.Do("CONFIG", "RESETSTAT")
				require.NoError(t, held.Unlock(t.Context()), "nobody waits for a replica to give back")
				until(t, "a replica is waited for", func() bool { return len(later) > 0 || master.CommandStats()["wait"] > 0 })
				require.Empty(t, later, "it was granted, and no replica knows of it")
				replicas[0].Cont()
				next := receive(t, later, "the next holder")
				require.NoError(t, next.err)
				require.Equal(t, int64(1), number(t, replicas[0], "EXISTS", "k"))
				require.NoError(t, next.lease.Unlock(t.Context()))
				gone(t, master, "k")
			})
		}
	}
}

// TestReplicas_OfACluster has one replica for each master, so that two cannot confirm anything.
func TestReplicas_OfACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.SharedCluster(t)
	c, vain := clientOf(t, cluster.URL(), lockrt.Options{Replicas: 1}), clientOf(t, cluster.URL(), lockrt.Options{Replicas: 2})
	var all sync.WaitGroup
	for kind, want := range wanting {
		all.Go(func() {
			giveBack, err := want(patient(t), c, redistest.Key(t, "k"))
			if err == nil {
				err = giveBack()
			}
			if err != nil {
				t.Errorf("%s: %v", kind, err)
			}
			if _, err := want(patient(t), vain, redistest.Key(t, "k"), lockrt.WithWait(0)); !errors.Is(err, lockrt.ErrReplicas) {
				t.Errorf("%s: %v", kind, err)
			}
		})
	}
	all.Wait()
}
