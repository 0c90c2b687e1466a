package lockrt_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// A server that went back in time, to an older file or to what a replica had, names owners that are over: as holders, and in
// its lines. This file is about those: none of them costs a lease.

// ghostBound is far below what one ghost costs that nobody releases: a lease of 30s. For hundreds of ghosts, each of
// which costs 2s in the wait queue, it is short, too.
const ghostBound = 10 * time.Second

// uuidOf returns the uuid of a client, whose first number it uses up.
func uuidOf(t *testing.T, server *redistest.RedisServer, c *lockrt.Client) string {
	t.Helper()
	key := redistest.Key(t, "uuid")
	lease := ok(t)(c.Mutex(key).Lock(patient(t)))
	defer free(t, lease)
	for owner := range fields(t, server, key) {
		uuid, _, _ := strings.Cut(owner, ":")
		return uuid
	}
	return ""
}

// The keys in Redis of an owner of a kind while it holds a key.
var ghostHolds = map[string]func(server *redistest.RedisServer, key, owner string){
	"Mutex":     func(server *redistest.RedisServer, key, owner string) { server.Do("HSET", key, owner, "1") },
	"FairMutex": func(server *redistest.RedisServer, key, owner string) { server.Do("HSET", key, owner, "1") },
	"RWMutex": func(server *redistest.RedisServer, key, owner string) {
		server.Do("HSET", key, "mode", "write", owner+":write", "1")
	},
}

func TestGhost_HoldsNothingThatSomebodyWaitsFor(t *testing.T) {
	t.Parallel()
	for kind, lock := range exclusives {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server, key := redistest.Shared(t), redistest.Key(t, "k")
			a, b := newClient(t, lockrt.Options{}), newClient(t, lockrt.Options{})
			ghostHolds[kind](server, key, uuidOf(t, server, a)+":1")
			server.Do("PEXPIRE", key, "60000")
			since := time.Now()
			free(t, ok(t)(lock(b, key).Lock(patient(t))))
			require.Less(t, time.Since(since), ghostBound)
			nothingLeft(t, server, key)
		})
	}
}

func TestGhost_StandsInNobodysWay(t *testing.T) {
	t.Parallel()
	const ghosts = 100
	for kind, stand := range map[string]func(server *redistest.RedisServer, key, uuid string){
		"Mutex": func(server *redistest.RedisServer, key, uuid string) {
			for n := range ghosts {
				server.Do("LPUSH", "lockgen_waiting:{"+key+"}", uuid+":"+strconv.Itoa(n+2))
			}
		},
		"FairMutex": func(server *redistest.RedisServer, key, uuid string) {
			at := strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10)
			for n := range ghosts {
				owner := uuid + ":" + strconv.Itoa(n+2)
				server.Do("LPUSH", "redisson_lock_queue:{"+key+"}", owner)
				server.Do("ZADD", "redisson_lock_timeout:{"+key+"}", at, owner)
				server.Do("HSET", "lockgen_fair:{"+key+"}", owner, "300000 2000 0 0")
			}
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server, key := redistest.Shared(t), redistest.Key(t, "k")
			a, b := newClient(t, lockrt.Options{}), newClient(t, lockrt.Options{})
			uuid := uuidOf(t, server, a)
			for range ghosts {
				free(t, ok(t)(exclusives[kind](a, redistest.Key(t, "other")).Lock(patient(t))))
			}
			held := ok(t)(exclusives[kind](a, key).Lock(patient(t)))
			waits := lockLater(patient(t), exclusives[kind](b, key))
			until(t, "it waits", func() bool { return b.Stats().Waiting == 1 })
			stand(server, key, uuid)
			since := time.Now()
			free(t, held)
			free(t, gotten(t, waits, "the waiter that is alive"))
			require.Less(t, time.Since(since), ghostBound)
			nothingLeft(t, server, key)
		})
	}
}

// A server that comes back with an older file names those that waited then, and were served since.
func TestGhost_OfAnOlderFile(t *testing.T) {
	t.Parallel()
	for _, n := range []int{9, 100} {
		for kind, lock := range exclusives {
			t.Run(fmt.Sprint(kind, " ", n), func(t *testing.T) {
				t.Parallel()
				server := redistest.Server(t)
				holder, waiter := clientOf(t, server.URL(), lockrt.Options{}), clientOf(t, server.URL(), lockrt.Options{})
				row := func() (held *lockrt.Lease, all <-chan locked) {
					held = ok(t)(lock(holder, "k").Lock(patient(t)))
					all = manyLater(patient(t), n, lock(waiter, "k"))
					until(t, "they wait", func() bool {
						return waiter.Stats().Waiting == n && (kind != "FairMutex" || number(t, server, "LLEN", "redisson_lock_queue:{k}") == int64(n))
					})
					return held, all
				}
				held, all := row()
				server.Do("SAVE")
				free(t, held)
				serveAll(t, n, all)
				_, all = row()
				server.Kill()
				server.Restart()
				since := time.Now()
				serveAll(t, n, all)
				t.Logf("all served after %v", time.Since(since))
				require.Less(t, time.Since(since), ghostBound)
				until(t, "nothing is left", func() bool { return keysOn(t, server) == 0 })
			})
		}
	}
}

// Nobody asks for a lock whose ghosts stand in Redisson's queue, which does not expire.
func TestGhost_LeavesTheQueueThoughNobodyAsks(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	holder, waiter := clientOf(t, server.URL(), lockrt.Options{}), clientOf(t, server.URL(), lockrt.Options{})
	held := ok(t)(holder.FairMutex("k").Lock(patient(t)))
	all := manyLater(patient(t), 9, waiter.FairMutex("k"))
	until(t, "they wait", func() bool { return number(t, server, "LLEN", "redisson_lock_queue:{k}") == 9 })
	server.Do("SAVE")
	free(t, held)
	serveAll(t, 9, all)
	nothingLeft(t, server, "k")
	server.Kill()
	server.Restart()
	until(t, "nothing is left", func() bool { return keysOn(t, server) == 0 })
}

// The processes of the owners may be closed by the time that a server comes back with an older file: then nobody releases those owners.
// Their places cost the next caller no more than those of processes that died, and its release removes them.
func TestGhost_OfClosedProcesses(t *testing.T) {
	t.Parallel()
	for kind, next := range map[string]func(c *lockrt.Client) (*lockrt.Lease, error){
		"Mutex":     func(c *lockrt.Client) (*lockrt.Lease, error) { return c.Mutex("k").TryLock(patient(t)) }, // it does not even wait
		"FairMutex": func(c *lockrt.Client) (*lockrt.Lease, error) { return c.FairMutex("k").Lock(patient(t)) },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			opts := lockrt.Options{Watchdog: time.Second}
			var all []*lockrt.Client
			for range 3 {
				all = append(all, clientOf(t, server.URL(), opts))
			}
			held := ok(t)(exclusives[kind](all[0], "k").Lock(patient(t)))
			waits := make(chan locked, 2)
			for _, c := range all[1:] {
				go func() {
					lease, err := exclusives[kind](c, "k").Lock(patient(t))
					waits <- locked{lease, err}
				}()
			}
			until(t, "they wait", func() bool { return placesFor(t, server) == 2 })
			server.Do("SAVE")
			free(t, held)
			serveAll(t, 2, waits)
			for _, c := range all {
				require.NoError(t, c.Close())
			}
			server.Kill()
			server.Restart()
			until(t, "the lease of the holder in the file is over", func() bool { return number(t, server, "EXISTS", "k") == 0 })
			require.EqualValues(t, 2, placesFor(t, server))

			free(t, ok(t)(next(clientOf(t, server.URL(), opts))))
			until(t, "nothing is left", func() bool { return keysOn(t, server) == 0 })
		})
	}
}

// placesFor returns how many places the wait queues of the lock k have.
func placesFor(t *testing.T, server *redistest.RedisServer) (n int64) {
	t.Helper()
	for _, queue := range []string{"lockgen_waiting:{k}", "redisson_lock_queue:{k}"} {
		n += number(t, server, "LLEN", queue)
	}
	return n
}

// manyLater has n goroutines lock m, and returns where what they get comes.
func manyLater(ctx context.Context, n int, m lockrt.Locker) <-chan locked {
	got := make(chan locked, n)
	for range n {
		go func() {
			lease, err := m.Lock(ctx)
			got <- locked{lease, err}
		}()
	}
	return got
}

// serveAll has n of the waiters unlock, one after the other.
func serveAll(t *testing.T, n int, got <-chan locked) {
	t.Helper()
	for range n {
		next := receive(t, got, "the next")
		require.NoError(t, next.err)
		free(t, next.lease)
	}
}

// TestGhost_FairLockInConstantUse shows that a client looks after a fair lock for which it has had waiters all the time, although it has used more
// other fair locks since than it looks after.
func TestGhost_FairLockInConstantUse(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	proxy := redistest.Proxy(t, server.Addr())
	key, asks, leaves := redistest.Key(t, "k"), make(chan struct{}, 1000), make(chan struct{}, 1000)
	asked, left := redistest.EvalSHA(scripts.FairAcquire.SHA1()), redistest.EvalSHA(scripts.FairLeave.SHA1())
	proxy.OnRequest(func(cmd []string) {
		switch {
		case !slices.Contains(cmd, key):
		case asked(cmd):
			asks <- struct{}{}
		case left(cmd):
			leaves <- struct{}{}
		}
	})
	c := clientOf(t, proxy.URL(), lockrt.Options{})
	held := ok(t)(clientOf(t, server.URL(), lockrt.Options{}).FairMutex(key).Lock(patient(t)))
	got := lockLater(patient(t), c.FairMutex(key))
	receive(t, asks, "the waiter asks")
	for i := range 300 {
		free(t, ok(t)(c.FairMutex(key+strconv.Itoa(i)).Lock(patient(t))))
	}
	require.Empty(t, leaves)
	for start, tended := time.Now(), false; !tended; {
		require.Less(t, time.Since(start), patience, "the client looks after the wait queue")
		server.Do("CLIENT", "KILL", "TYPE", "pubsub") // the waiter asks again, and so does the client for what it looks after
		select {
		case <-asks:
		case <-leaves:
			tended = true
		case <-time.After(patience):
		}
	}
	free(t, held)
	free(t, gotten(t, got, "the lock"))
}
