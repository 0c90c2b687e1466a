package lockrt_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// afterACrowd returns a client that had commands of many callers under way at once, and then those of a lone caller, which go over a
// connection of its own.
func afterACrowd(t *testing.T, url string, opts lockrt.Options) *lockrt.Client {
	t.Helper()
	c := clientOf(t, url, opts)
	busy(t, c)
	return c
}

// busy has many lock through c at once, and then one alone, until that one has a connection of its own. A slow machine may have these callers call
// one after the other, and then they are no crowd.
func busy(t *testing.T, c *lockrt.Client) {
	t.Helper()
	until(t, "there is a connection for a lone caller after a crowd", func() bool {
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				for range 5 {
					turn(t, c.Mutex("crowd:"+strconv.Itoa(i)))
				}
			})
		}
		wg.Wait()
		for range 100 {
			if turn(t, c.Mutex("lone")); lockrt.Direct(c) {
				return true
			}
		}
		return false
	})
}

// direct returns when a lone caller has its connection.
func direct(t *testing.T, c *lockrt.Client) {
	t.Helper()
	until(t, "there is a connection for a lone caller", func() bool {
		turn(t, c.Mutex("lone"))
		return lockrt.Direct(c)
	})
}

func turn(t *testing.T, m *lockrt.Mutex) {
	t.Helper()
	lease, err := m.Lock(context.Background())
	if err == nil {
		err = lease.Unlock(context.Background())
	}
	if err != nil {
		t.Errorf("%s: %v", m.Key(), err)
	}
}

func TestDirect_OneWhoIsAloneSendsOnItsOwnGoroutine(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	atBest(t, "did the shared connection do as long as nobody shared it", func() (shared bool) {
		c := clientOf(t, server.URL(), lockrt.Options{Tracking: lockrt.TrackingOff})
		for range 10 {
			turn(t, c.Mutex("lone")) // where the server is slow to answer, a request is sent once more, and two are under way
		}
		shared = !lockrt.Direct(c)
		require.NoError(t, c.Close())
		return shared
	})

	c := afterACrowd(t, server.URL(), lockrt.Options{Tracking: lockrt.TrackingOff})
	for range 100 {
		direct(t, c) // it is given back
	}
	require.NoError(t, c.Close())
	until(t, "all connections to be closed", func() bool { return clients(t, server) == 1 })
}

// The connection breaks while no caller uses it: the next caller may learn of it, and the transport makes a new one.
func TestDirect_IsMadeAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := afterACrowd(t, server.URL(), lockrt.Options{})
	for range 5 {
		server.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		direct(t, c)
	}
	require.NoError(t, c.Close())
	until(t, "all connections to be closed", func() bool { return clients(t, server) == 1 })
}

// The reply to a lone caller is lost, on a connection that stays open: it is asked again within its bound, and
// what it has in Redis is right.
func TestDirect_Mute(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]*scripts.Script{"lock": scripts.Take, "unlock": scripts.Free} {
		for how, mode := range modes() {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				server := redistest.Server(t)
				proxy := redistest.Proxy(t, server.Addr())
				c := afterACrowd(t, proxy.URL(), lockrt.Options{OpTimeout: 3 * time.Second})
				drop := proxy.DropReply(redistest.EvalSHA(script.SHA1()), 1, mode)
				lease, err := c.Mutex("k").Lock(context.Background())
				require.NoError(t, err)
				start := time.Now()
				err = lease.Unlock(context.Background())
				require.Less(t, time.Since(start), 3*time.Second+late)
				if name == "lock" {
					require.NoError(t, err)
				}
				receive(t, drop.Done(), "the reply to be lost")
				gone(t, server, "k")
				direct(t, c)
			})
		}
	}
}

// Many callers use the connection, one at a time, and none keeps it from the others.
func TestDirect_IsForOneAtATime(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := afterACrowd(t, server.URL(), lockrt.Options{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 200 {
				turn(t, c.Mutex("k:"+strconv.Itoa(i%4)))
			}
		})
	}
	wg.Wait()
	require.NoError(t, c.Close())
	gone(t, server, "k:0", "k:1", "k:2", "k:3")
	until(t, "all connections to be closed", func() bool { return clients(t, server) == 1 })
}

// clients returns how many connections a server has, with the one that asks.
func clients(t *testing.T, server *redistest.RedisServer) int {
	t.Helper()
	list, err := server.Do("CLIENT", "LIST").ToString()
	require.NoError(t, err)
	return strings.Count(list, "id=") - strings.Count(list, "-id=") - strings.Count(list, "_id=")
}
