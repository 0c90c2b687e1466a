package lockrt_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/leaktest"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// storm has goroutines of two clients give up on one key after 0 to 2 ms, again and again, while
// one of each client waits patiently, several times in a row. It does so again where the machine stood still for as long as a lock that is
// handed over has at first. It returns the clients.
func storm(t *testing.T, server *redistest.RedisServer, url string) (clients []*lockrt.Client) {
	t.Helper()
	atBest(t, "was no lease lost", func() bool {
		failed := blows(t, server, url, redistest.Key(t, "k"), &clients)
		return steadily(t, failed)
	})
	return clients
}

// steadily reports whether nothing has failed. Nothing may have but leases that were lost.
func steadily(t *testing.T, failed <-chan error) bool {
	t.Helper()
	lost := len(failed) > 0
	for len(failed) > 0 {
		require.ErrorIs(t, <-failed, lockrt.ErrLost)
	}
	return !lost
}

// blows is one storm over new clients. It returns what has failed.
func blows(t *testing.T, server *redistest.RedisServer, url, key string, all *[]*lockrt.Client) <-chan error {
	t.Helper()
	const hasty, times = 12, 300
	clients := []*lockrt.Client{clientOf(t, url, lockrt.Options{}), clientOf(t, url, lockrt.Options{})}
	*all = append(*all, clients...)
	over, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // all of it, also where the machine is slow
	defer cancel()
	stop := make(chan struct{})
	var patients, others sync.WaitGroup
	failed := make(chan error, 100_000)
	for _, c := range clients {
		m := c.Mutex(key)
		patients.Go(func() {
			for range times {
				lease, err := m.Lock(over)
				if err == nil {
					err = lease.Unlock(over)
				}
				if err != nil {
					failed <- err
					return
				}
			}
		})
		for range hasty {
			others.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					ctx, cancel := context.WithTimeout(over, rand.N(2*time.Millisecond))
					if rand.N(4) == 0 {
						runtime.Gosched()
						cancel()
					}
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
	}
	patients.Wait()
	close(stop)
	others.Wait()
	gone(t, server, key)
	for _, c := range clients {
		until(t, "no key has a home", func() bool { return lockrt.Resources(c) == 0 })
	}
	return failed
}

// Not parallel, for it counts goroutines.
func TestFault_CancelStormLeavesNothing(t *testing.T) { //nolint:paralleltest // counts goroutines
	leaktest.Check(t)
	server := redistest.Server(t)
	for range 2 { // a worker that has ended begins anew
		clients := storm(t, server, server.URL())
		for _, c := range clients {
			require.NoError(t, c.Close())
		}
		until(t, "no channel is subscribed", func() bool { return channels(t, server) == 0 })
	}
}

func TestFault_CancelStormOverASlowNetwork(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	proxy := redistest.Proxy(t, server.Addr())
	proxy.Delay(time.Millisecond)
	storm(t, server, proxy.URL())
}

func TestFault_CancelStormWhileTheNetworkFails(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	proxy := redistest.Proxy(t, server.Addr())
	const hasty, times = 8, 50
	stop := make(chan struct{})
	key := redistest.Key(t, "k")
	c := clientOf(t, proxy.URL(), lockrt.Options{})
	other := clientOf(t, server.URL(), lockrt.Options{})
	over, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // all of it, also where the machine is slow
	defer cancel()
	var wg sync.WaitGroup
	for range hasty {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				ctx, cancel := context.WithTimeout(over, rand.N(5*time.Millisecond))
				if lease, err := c.Mutex(key).Lock(ctx); err == nil {
					_ = lease.Unlock(ctx)
				}
				cancel()
			}
		})
	}
	var failed error
	for range times {
		lease, err := other.Mutex(key).Lock(over)
		if err != nil {
			failed = err
			break
		}
		proxy.Cut()
		if _, failed = lease.TTL(over); failed != nil {
			break
		}
		if failed = lease.Unlock(over); failed != nil { // somebody took it away
			break
		}
	}
	close(stop)
	wg.Wait()
	require.NoError(t, failed)
	gone(t, server, key)
}
