package lockrt_test

import (
	"context"
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

// mutableKinds returns for each kind what it is asked for with, who takes it, and who is kept out meanwhile.
func mutableKinds(key string) map[string]struct {
	asks        func(cmd []string) bool
	take, rival taker
} {
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
		"writer":    {redistest.EvalSHA(scripts.RWWrite.SHA1()), writer, writer},
		"reader":    {redistest.EvalSHA(scripts.RWRead.SHA1()), reader, writer},
		"permit":    {redistest.EvalSHA(scripts.PermitAcquire.SHA1()), permit, permit},
		"semaphore": {redistest.EvalSHA(scripts.SemaphoreAcquire.SHA1()), semaphore, semaphore},
	}
}

// muteClient returns a client whose connections are found to be mute after an hour.
func muteClient(t *testing.T, proxy *redistest.FaultProxy, tracking lockrt.Tracking) *lockrt.Client {
	t.Helper()
	c, err := lockrt.New(redistest.NewClient(t, proxy.Addr(), func(o *rueidis.ClientOption) {
		o.ConnWriteTimeout, o.PipelineMultiplex = time.Hour, -1
	}), lockrt.Options{OpTimeout: patience / 2, Tracking: tracking})
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
