package lockrt_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// A giveBack gives back what was taken.
type giveBack func() error

// A taker takes something that keeps out others for a while.
type taker func(ctx context.Context, c *lockrt.Client) (giveBack, error)

func lockerTaker(of func(c *lockrt.Client) lockrt.Locker) taker {
	return func(ctx context.Context, c *lockrt.Client) (giveBack, error) {
		lease, err := of(c).Lock(ctx, unexpiring)
		return func() error { return lease.Unlock(context.Background()) }, err
	}
}

// mutableKinds returns for each kind the calls that ask for it, that take it, and that it keeps out meanwhile.
func mutableKinds(key string) map[string]struct {
	asks        func(cmd []string) bool
	take, rival taker
} {
	mutex := lockerTaker(func(c *lockrt.Client) lockrt.Locker { return c.Mutex(key) })
	fenced := lockerTaker(func(c *lockrt.Client) lockrt.Locker { return c.Mutex(key, lockrt.WithFencing()) })
	several := lockerTaker(func(c *lockrt.Client) lockrt.Locker {
		return lockrt.NewMultiLock(c.Mutex(key), c.Mutex(key+"2"))
	})
	writer := lockerTaker(func(c *lockrt.Client) lockrt.Locker { return c.RWMutex(key) })
	reader := lockerTaker(func(c *lockrt.Client) lockrt.Locker { return c.RWMutex(key).RLocker() })
	permit := func(ctx context.Context, c *lockrt.Client) (giveBack, error) {
		p, err := c.PermitSemaphore(key, 1).Acquire(ctx, unexpiring)
		return func() error { return p.Release(context.Background()) }, err
	}
	semaphore := func(ctx context.Context, c *lockrt.Client) (giveBack, error) {
		s := c.Semaphore(key, 1)
		return func() error { return s.Release(context.Background(), 1) }, s.Acquire(ctx, 1)
	}
	return map[string]struct {
		asks        func(cmd []string) bool
		take, rival taker
	}{
		"mutex":     {redistest.EvalSHA(scripts.Take.SHA1()), mutex, mutex},
		"fenced":    {redistest.EvalSHA(scripts.Acquire.SHA1()), fenced, mutex},
		"several":   {redistest.EvalSHA(scripts.Take.SHA1()), several, several},
		"writer":    {redistest.EvalSHA(scripts.RWWrite.SHA1()), writer, writer},
		"reader":    {redistest.EvalSHA(scripts.RWRead.SHA1()), reader, writer},
		"permit":    {redistest.EvalSHA(scripts.PermitAcquire.SHA1()), permit, permit},
		"semaphore": {redistest.EvalSHA(scripts.SemaphoreAcquire.SHA1()), semaphore, semaphore},
	}
}

// muteClient returns a client whose connections are found to be mute after an hour.
func muteClient(t *testing.T, proxy *redistest.FaultProxy, tracking lockrt.Tracking) *lockrt.Client {
	t.Helper()
	return muteClientOf(t, proxy, lockrt.Options{Tracking: tracking})
}

// muteClientOf is muteClient with options.
func muteClientOf(t *testing.T, proxy *redistest.FaultProxy, opts lockrt.Options) *lockrt.Client {
	t.Helper()
	opts.OpTimeout = patience / 2
	c, err := lockrt.New(redistest.NewClient(t, proxy.Addr(), func(o *rueidis.ClientOption) {
		o.ConnWriteTimeout, o.PipelineMultiplex = time.Hour, -1
	}), opts)
	require.NoError(t, err)
	return c
}

// TestMute_AConnectionIsGoneAround shows that a mute connection, which is found to be mute after an hour, keeps nobody from what
// it was asked for over it: that is asked for, and given back, over another connection.
func TestMute_AConnectionIsGoneAround(t *testing.T) {
	t.Parallel()
	for name, k := range mutableKinds("k") {
		for lost, drops := range map[string]func(p *redistest.FaultProxy) dropper{
			"reply":   func(p *redistest.FaultProxy) dropper { return p.DropReply },
			"request": func(p *redistest.FaultProxy) dropper { return p.DropRequest },
		} {
			t.Run(name+"/"+lost, func(t *testing.T) {
				t.Parallel()
				server := redistest.Server(t)
				proxy := redistest.Proxy(t, server.Addr())
				c := muteClient(t, proxy, lockrt.TrackingAuto)
				hooks, waiting, _ := watch()
				other := clientOf(t, server.URL(), lockrt.Options{Hooks: hooks})

				drop := drops(proxy)(k.asks, 1, redistest.Mute)
				back, err := k.take(patient(t), c)
				require.NoError(t, err, "what has no answer over the connection")
				receive(t, drop.Done(), "the loss")

				type taken struct {
					back giveBack
					err  error
				}
				next := make(chan taken, 1)
				go func() {
					back, err := k.rival(patient(t), other)
					next <- taken{back, err}
				}()
				receive(t, waiting, "the next one to wait")
				require.NoError(t, back(), "over the connection that is mute")
				got := receive(t, next, "the next one")
				require.NoError(t, got.err)
				require.NoError(t, got.back())

				proxy.Cut() // at last
				require.NoError(t, c.Close())
				back, err = k.rival(patient(t), other)
				require.NoError(t, err, "nothing is left")
				require.NoError(t, back())
			})
		}
	}
}

// TestMute_Close shows that a client that is closed beside a mute connection does not wait for what others have answered.
func TestMute_Close(t *testing.T) {
	t.Parallel()
	for name, k := range mutableKinds("k") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			proxy := redistest.Proxy(t, server.Addr())
			c := muteClient(t, proxy, lockrt.TrackingOff)
			drop := proxy.DropReply(k.asks, 1, redistest.Mute)
			back, err := k.take(patient(t), c)
			require.NoError(t, err)
			receive(t, drop.Done(), "the loss")
			require.NoError(t, back())
			require.NoError(t, c.Close(), "though the first request has no answer yet")
		})
	}
}

// TestMute_Questions shows that what only asks goes round a mute connection, too.
func TestMute_Questions(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(ctx context.Context, c *lockrt.Client) error{
		"permits": func(ctx context.Context, c *lockrt.Client) error {
			_, err := c.PermitSemaphore("k", 1).Available(ctx)
			return err
		},
		"latch": func(ctx context.Context, c *lockrt.Client) error {
			_, err := c.CountDownLatch("k").Count(ctx)
			return err
		},
		"mutex": func(ctx context.Context, c *lockrt.Client) error {
			_, err := c.Mutex("k").Inspect(ctx)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := redistest.Proxy(t, redistest.Server(t).Addr())
			c := muteClient(t, proxy, lockrt.TrackingOff)
			drop := proxy.DropReply(redistest.Command("EVALSHA"), 1, redistest.Mute)
			require.NoError(t, ask(patient(t), c))
			receive(t, drop.Done(), "the loss")
			require.NoError(t, ask(patient(t), c), "over the connection that is mute")
			proxy.Cut()
			require.NoError(t, c.Close())
		})
	}
}

// TestMute_ACrowd shows that a mute connection keeps none of many goroutines from the one mutex that they share, nor from those that
// each of them has for itself.
func TestMute_ACrowd(t *testing.T) {
	t.Parallel()
	const crowd = 20
	server := redistest.Server(t)
	proxy := redistest.Proxy(t, server.Addr())
	c := muteClient(t, proxy, lockrt.TrackingAuto)
	drop := proxy.DropReply(redistest.EvalSHA(scripts.Take.SHA1(), scripts.Acquire.SHA1()), 1, redistest.Mute)
	var wg sync.WaitGroup
	for i := range crowd {
		wg.Go(func() {
			for _, key := range []string{"own:" + strconv.Itoa(i), "shared"} {
				lease, err := c.Mutex(key).Lock(patient(t))
				if err == nil {
					err = lease.Unlock(context.Background())
				}
				if err != nil {
					t.Error(key, err)
				}
			}
		})
	}
	wg.Wait()
	receive(t, drop.Done(), "the loss")
	proxy.Cut()
	until(t, "nothing is left", func() bool { return keysOn(t, server) == 0 })
	require.NoError(t, c.Close())
}

// TestMute_TheFirstRequestComesLate shows that a request which was sent again, and reaches the server when what it asked for was
// given back, takes it for a moment at most.
func TestMute_TheFirstRequestComesLate(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]struct {
		script string
		opts   []lockrt.LockOption
	}{
		"take":    {scripts.Take.SHA1(), nil},
		"acquire": {scripts.Acquire.SHA1(), []lockrt.LockOption{lockrt.WithFencing()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			proxy := redistest.Proxy(t, server.Addr())
			c := muteClient(t, proxy, lockrt.TrackingAuto)
			asks := redistest.EvalSHA(k.script)
			asked := make(chan []string, 10)
			proxy.OnRequest(func(cmd []string) {
				if asks(cmd) {
					asked <- slices.Clone(cmd)
				}
			})
			drop := proxy.DropRequest(asks, 1, redistest.Mute)
			lease, err := c.Mutex("k", k.opts...).Lock(patient(t), unexpiring)
			require.NoError(t, err)
			receive(t, drop.Done(), "the loss")
			require.NoError(t, lease.Unlock(t.Context()))

			require.NoError(t, server.Do(receive(t, asked, "the first request")...).Error())
			other := clientOf(t, server.URL(), lockrt.Options{}).Mutex("k", k.opts...)
			got, err := other.Lock(patient(t), unexpiring)
			require.NoError(t, err, "long before the lease of the late request ends")
			if len(k.opts) > 0 {
				require.Greater(t, got.Token(), lease.Token())
			}
			require.NoError(t, got.Unlock(t.Context()))
			proxy.Cut()
			require.NoError(t, c.Close())
		})
	}
}

// TestMute_TheFirstReleaseWasDone shows that a release whose reply is lost is one all the same: what it has freed is not reported as
// lost, and the goroutine behind it gets the mutex.
func TestMute_TheFirstReleaseWasDone(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{"free": scripts.Free.SHA1(), "release": scripts.Release.SHA1()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			proxy := redistest.Proxy(t, server.Addr())
			hooks, waiting, _ := watch()
			c, err := lockrt.New(redistest.NewClient(t, proxy.Addr(), func(o *rueidis.ClientOption) {
				o.ConnWriteTimeout, o.PipelineMultiplex = time.Hour, -1
			}), lockrt.Options{OpTimeout: patience / 2, Hooks: hooks, Cohort: 1})
			require.NoError(t, err)
			m := c.Mutex("k")
			lease, err := m.Lock(patient(t), unexpiring)
			require.NoError(t, err)
			var next <-chan locked
			if name == "release" { // a goroutine waits, and wants the mutex by the release of the one before it
				next = lockLater(patient(t), m, unexpiring)
				receive(t, waiting, "the next one to wait")
				until(t, "a release can hand it over", func() bool { return lockrt.Hears(c) })
			}
			drop := proxy.DropReply(redistest.EvalSHA(script), 1, redistest.Mute)
			require.NoError(t, lease.Unlock(t.Context()))
			receive(t, drop.Done(), "the loss")
			if next != nil {
				got := receive(t, next, "the next one")
				require.NoError(t, got.err)
				require.NoError(t, got.lease.Unlock(t.Context()))
			}
			proxy.Cut()
			until(t, "nothing is left", func() bool { return keysOn(t, server) == 0 })
			require.NoError(t, c.Close())
		})
	}
}

// TestMute_CloseBesideARenewal shows that a client that is closed does not wait for the answer to a renewal over a mute connection,
// which nobody needs any more, nor to what says who the process is.
func TestMute_CloseBesideARenewal(t *testing.T) {
	t.Parallel()
	for name, sends := range map[string]func(cmd []string) bool{
		"renewal":      redistest.EvalSHA(scripts.Renew.SHA1()),
		"introduction": redistest.EvalSHA(scripts.Introduce.SHA1()),
	} {
		for name, tracking := range map[string]lockrt.Tracking{name: lockrt.TrackingOff, name + "/tracked": lockrt.TrackingAuto} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				server := redistest.Server(t)
				proxy := redistest.Proxy(t, server.Addr())
				c := muteClientOf(t, proxy, lockrt.Options{Watchdog: 6 * time.Second, Tracking: tracking})
				drop := proxy.DropReply(sends, 1, redistest.Mute)
				_, err := c.Mutex("k").Lock(patient(t))
				require.NoError(t, err)
				receive(t, drop.Done(), "the loss")
				require.NoError(t, c.Close(), "though it has no answer yet")
			})
		}
	}
}
