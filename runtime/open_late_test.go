package lockrt_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A lines is where a logger writes.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Count(l.buf.Bytes(), []byte(text))
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// An absent is a deployment that is not there before it is started.
type absent struct {
	url   string
	opts  lockrt.Options
	start func()
}

// absents are the deployments that a client can begin without, on the ports on which they start later.
var absents = map[string]func(t *testing.T) absent{
	"standalone": func(t *testing.T) absent {
		s := redistest.Server(t)
		s.Kill()
		return absent{s.URL(), lockrt.Options{}, s.Restart}
	},
	"sentinel": func(t *testing.T) absent {
		g := redistest.Sentinel(t)
		url, all := g.URL(), append(append([]*redistest.RedisServer{}, g.Servers...), g.Sentinels...)
		for _, s := range all {
			s.Kill()
		}
		return absent{url, lockrt.Options{}, func() {
			for _, s := range all {
				s.Restart()
			}
		}}
	},
	"cluster": func(t *testing.T) absent {
		c := redistest.Cluster(t)
		url, all := c.URL(), c.Nodes()
		for _, s := range all {
			s.Kill()
		}
		return absent{url, lockrt.Options{PubSub: lockrt.PubSubSharded}, func() {
			for _, s := range all {
				s.Restart()
			}
		}}
	},
}

func TestOpen_StartWithoutServer(t *testing.T) {
	t.Parallel()
	for name, make := range absents {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := make(t)
			log := &lines{}
			hooks, _, _ := watch()
			a.opts.StartWithoutServer, a.opts.Logger, a.opts.Hooks = true, log.logger(), hooks
			c := clientOf(t, a.url, a.opts)
			id := c.ID()
			require.NotEmpty(t, id)

			_, err := c.Mutex("a").TryLock(patient(t))
			onlyUnavailable(t, err, "a try")
			_, err = c.Mutex("a").Lock(patient(t), lockrt.WithWait(50*time.Millisecond))
			onlyUnavailable(t, err, "a bounded wait")
			_, err = c.Mutex("a").Inspect(patient(t))
			require.Error(t, err)
			err = c.Semaphore("s", 1).TryAcquire(patient(t), 1)
			onlyUnavailable(t, err, "a semaphore")
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			_, err = c.FairMutex("b").Lock(ended)
			require.ErrorIs(t, err, context.Canceled)

			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			var served []<-chan error
			for _, locker := range []lockrt.Locker{c.Mutex("c"), c.FairMutex("d"), c.RWMutex("e")} {
				served = append(served, later(func() error {
					for { // a wait ends after 30s without a server, which a busy machine may take to start one
						lease, err := locker.Lock(ctx)
						if err == nil {
							return lease.Unlock(ctx)
						}
						if ctx.Err() != nil {
							return err
						}
					}
				}))
			}
			until(t, "the log says so", func() bool { return log.count("the server could not be reached") > 0 })
			a.start()
			for _, got := range served {
				select {
				case err := <-got:
					require.NoError(t, err)
				case <-ctx.Done():
					require.Fail(t, "a lock was not granted although the server is there")
				}
			}
			require.Equal(t, id, c.ID())
			until(t, "the log says that it is there", func() bool { return log.count("the server has been reached") > 0 })
			require.Equal(t, 1, log.count("the server could not be reached"))
			require.Equal(t, 1, log.count("the server has been reached"))
			require.Zero(t, log.count("another server is the master"))

			other := clientOf(t, a.url, lockrt.Options{PubSub: a.opts.PubSub}) // they hear each other
			lease, err := other.Mutex("f").Lock(ctx)
			require.NoError(t, err)
			next := lockLater(ctx, c.Mutex("f"))
			until(t, "the waiter stands in line", func() bool {
				standing, err := other.Mutex("f").Inspect(ctx)
				return err == nil && standing.Waiting == 1
			})
			require.NoError(t, lease.Unlock(ctx))
			got := receive(t, next, "the hand-over")
			require.NoError(t, got.err)
			require.NoError(t, got.lease.Unlock(ctx))
		})
	}
}

// A server that is there is found at once, in the background too.
func TestOpen_StartWithoutServerWhereThereIsOne(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"standalone": redistest.Shared(t).URL(),
		"cluster":    redistest.SharedCluster(t).URL(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &lines{}
			c := clientOf(t, url, lockrt.Options{StartWithoutServer: true, PubSub: lockrt.PubSubSharded, Logger: log.logger()})
			lease, err := c.Mutex(redistest.Key(t, "k")).TryLock(patient(t))
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(patient(t)))
			require.Zero(t, log.count("the server"))
		})
	}
}

// A server that takes connections and says nothing holds up neither Open nor Close.
func TestOpen_StartWithoutServerThatIsMute(t *testing.T) {
	t.Parallel()
	proxy := redistest.Proxy(t, redistest.Shared(t).Addr())
	proxy.Blackhole(redistest.Both)
	key := redistest.Key(t, "k")
	c, err := lockrt.Open(t.Context(), proxy.URL(), lockrt.Options{StartWithoutServer: true})
	require.NoError(t, err)
	waits := later(func() error { _, err := c.Mutex(key).Lock(t.Context()); return err })
	until(t, "it connects", func() bool { return proxy.Conns() > 0 })
	require.NoError(t, c.Close())
	require.ErrorIs(t, receive(t, waits, "the waiter"), lockrt.ErrClosed)
	_, err = c.Mutex(key).TryLock(t.Context())
	require.ErrorIs(t, err, lockrt.ErrClosed)
}

// Each call returns a permanent error at once.
func TestOpen_StartWithoutServerThatRefuses(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t, redistest.WithPassword("secret"))
	log := &lines{}
	c := clientOf(t, "redis://:wrong@"+server.Addr(), lockrt.Options{StartWithoutServer: true, Logger: log.logger()})
	for range 2 {
		_, err := c.Mutex("a").Lock(patient(t))
		require.ErrorContains(t, err, "WRONGPASS")
		require.NotErrorIs(t, err, lockrt.ErrUnavailable)
	}
	until(t, "the log says so", func() bool { return log.count("the server could not be reached") > 0 })
	require.Equal(t, 1, log.count("the server could not be reached"))
	server.Do("ACL", "SETUSER", "default", ">wrong") // and when it is mended it works
	until(t, "it has connected", func() bool {
		return c.Mutex("a").Do(patient(t), func(context.Context, *lockrt.Lease) error { return nil }) == nil
	})
}

func TestOpen_StartWithoutServerSaysWhatAClusterNeeds(t *testing.T) {
	t.Parallel()
	_, err := lockrt.Open(t.Context(), "redis://127.0.0.1:1?addr=127.0.0.1:2", lockrt.Options{StartWithoutServer: true})
	require.ErrorIs(t, err, lockrt.ErrBadOption)
	require.ErrorContains(t, err, "Options.PubSub")
	_, err = lockrt.Open(t.Context(), "http://localhost", lockrt.Options{StartWithoutServer: true})
	require.ErrorContains(t, err, "lockgen: open: ")
	c := clientOf(t, redistest.Shared(t).URL()+"?cluster=true", lockrt.Options{StartWithoutServer: true, PubSub: lockrt.PubSubPlain})
	_, err = c.Mutex("a").TryLock(patient(t))
	require.ErrorContains(t, err, "not one of a cluster")
}
