package lockrt_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// rare is how a call polls that asks at once, and then so late that no test waits for it. The second refusal would end it.
var rare = lockrt.WithBackoff(lockrt.ConstantBackoff(time.Hour).Attempts(2))

// A waitedFor is a key that one process has, and for which the calls of another one wait.
type waitedFor struct {
	take    func(t *testing.T, key string) (release func())
	wait    func(ctx context.Context, c *lockrt.Client, key string, opts ...lockrt.LockOption) (end func() error, err error)
	channel string // on which a waiter hears of the release, before the key in braces; "" if that is the channel of its process
}

// endOf returns how a holder ends its lease.
func endOf(l *lockrt.Lease, err error) (end func() error, _ error) {
	if err != nil {
		return nil, err
	}
	return func() error { return l.Unlock(context.Background()) }, nil
}

// takenBy has another process take a key as wait does.
func takenBy(wait func(ctx context.Context, c *lockrt.Client, key string, opts ...lockrt.LockOption) (func() error, error)) func(t *testing.T, key string) func() {
	return func(t *testing.T, key string) func() {
		end, err := wait(patient(t), newClient(t, lockrt.Options{}), key)
		require.NoError(t, err)
		return func() { require.NoError(t, end()) }
	}
}

func locksMutex(ctx context.Context, c *lockrt.Client, key string, opts ...lockrt.LockOption) (func() error, error) {
	return endOf(c.Mutex(key, opts...).Lock(ctx))
}

func locksToWrite(ctx context.Context, c *lockrt.Client, key string, opts ...lockrt.LockOption) (func() error, error) {
	return endOf(c.RWMutex(key, opts...).Lock(ctx))
}

func acquires(ctx context.Context, c *lockrt.Client, key string, opts ...lockrt.LockOption) (func() error, error) {
	s := c.Semaphore(key, 1, opts...)
	return func() error { return s.Release(context.Background(), 1) }, s.Acquire(ctx, 1)
}

func acquiresPermit(ctx context.Context, c *lockrt.Client, key string, opts ...lockrt.LockOption) (func() error, error) {
	p, err := c.PermitSemaphore(key, 1, opts...).Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return func() error { return p.Release(context.Background()) }, nil
}

var allWaitedFor = map[string]waitedFor{
	"mutex": {take: takenBy(locksMutex), wait: locksMutex},
	"mutex with tokens": {take: takenBy(locksMutex), wait: func(ctx context.Context, c *lockrt.Client, key string, opts ...lockrt.LockOption) (func() error, error) {
		return endOf(c.Mutex(key, opts...).Lock(ctx, lockrt.WithFencing()))
	}},
	"mutex with leases": {take: takenBy(locksMutex), wait: func(ctx context.Context, c *lockrt.Client, key string, opts ...lockrt.LockOption) (func() error, error) {
		return endOf(c.Mutex(key, opts...).Lock(ctx, unexpiring))
	}},
	"mutex of another program": {
		take: func(t *testing.T, key string) func() {
			server, owner := redistest.Shared(t), "0b5d8a0e-1111-2222-3333-444444444444:7"
			server.Do("HSET", key, owner, "1")
			return func() {
				server.Do("DEL", key)
				server.Do("PUBLISH", "redisson_lock__channel:{"+key+"}", "0")
			}
		},
		wait: locksMutex, channel: "redisson_lock__channel:",
	},
	"write": {take: takenBy(locksToWrite), wait: locksToWrite},
	"read": {take: takenBy(locksToWrite), wait: func(ctx context.Context, c *lockrt.Client, key string, opts ...lockrt.LockOption) (func() error, error) {
		return endOf(c.RWMutex(key, opts...).RLock(ctx))
	}},
	"semaphore": {take: takenBy(acquires), wait: acquires, channel: "redisson_sc:"},
	"permit":    {take: takenBy(acquiresPermit), wait: acquiresPermit, channel: "redisson_sc:"},
	"latch": {
		take: func(t *testing.T, key string) func() {
			l := newClient(t, lockrt.Options{}).CountDownLatch(key)
			require.True(t, must(l.SetCount(t.Context(), 1)))
			return func() { require.Zero(t, must(l.CountDown(t.Context()))) }
		},
		wait: func(ctx context.Context, c *lockrt.Client, key string, opts ...lockrt.LockOption) (func() error, error) {
			return func() error { return nil }, c.CountDownLatch(key, opts...).Wait(ctx)
		},
		channel: "redisson_countdownlatch__channel__",
	},
}

// A mixedLine is a key that another process has, and for which calls of one client wait.
type mixedLine struct {
	waitedFor

	t       *testing.T
	c       *lockrt.Client
	key     string
	waiting chan string
	release func()
}

// eachMixedLine runs a test for each kind of lock, where the client listens already, and where it does not.
func eachMixedLine(t *testing.T, test func(x *mixedLine)) {
	t.Helper()
	for name, kind := range allWaitedFor {
		for when, listens := range map[string]bool{"": false, ", listening": true} {
			t.Run(name+when, func(t *testing.T) {
				t.Parallel()
				hooks, waiting, _ := watch()
				x := &mixedLine{waitedFor: kind, t: t, c: newClient(t, lockrt.Options{Hooks: hooks}), key: redistest.Key(t, "k"), waiting: waiting}
				if listens {
					held := ok(t)(x.c.Mutex(redistest.Key(t, "held")).Lock(patient(t)))
					until(t, "it listens", func() bool { return subscribers(t, redistest.Shared(t), "lockgen_process:"+x.c.ID()) == 1 })
					t.Cleanup(func() { free(t, held) })
				}
				x.release = x.take(t, x.key)
				test(x)
			})
		}
	}
}

// waits has a call wait, which gives back what it gets.
func (x *mixedLine) waits(ctx context.Context, opts ...lockrt.LockOption) (got <-chan error) {
	x.t.Helper()
	got = later(func() error {
		end, err := x.wait(ctx, x.c, x.key, opts...)
		if err != nil {
			return err
		}
		return end()
	})
	receive(x.t, x.waiting, "it to wait")
	return got
}

// hears returns when the client hears of a release.
func (x *mixedLine) hears() {
	x.t.Helper()
	channel := "lockgen_process:" + x.c.ID()
	if x.channel != "" {
		channel = x.channel + "{" + x.key + "}"
	}
	until(x.t, "it listens", func() bool { return subscribers(x.t, redistest.Shared(x.t), channel) > 0 })
}

// A call that listens hears of a release behind one that polls, which gets its turn first. That the other call has it ask is no attempt of
// the one that polls.
func TestWithBackoff_ACallBehindListens(t *testing.T) {
	t.Parallel()
	eachMixedLine(t, func(x *mixedLine) {
		polls := x.waits(patient(x.t), rare)
		listens := x.waits(patient(x.t))
		x.hears()
		x.release()
		require.NoError(x.t, receive(x.t, polls, "the call that polls"))
		require.NoError(x.t, receive(x.t, listens, "the call that listens"))
	})
}

// Where the call that listens gives up, the next one listens.
func TestWithBackoff_TheNextCallListens(t *testing.T) {
	t.Parallel()
	eachMixedLine(t, func(x *mixedLine) {
		ctx, cancel := context.WithCancel(patient(x.t))
		polls := x.waits(patient(x.t), rare)
		gone := x.waits(ctx)
		more, listens := x.waits(patient(x.t), rare), x.waits(patient(x.t))
		cancel()
		require.ErrorIs(x.t, receive(x.t, gone, "the call that gives up"), context.Canceled)
		x.hears()
		x.release()
		for what, got := range map[string]<-chan error{"the first call": polls, "the second one": more, "the call that listens": listens} {
			require.NoError(x.t, receive(x.t, got, what))
		}
	})
}

// Where a call that polls gives up, the next one that polls asks, and the call that listens does so for it.
func TestWithBackoff_ThePollingCallGivesUp(t *testing.T) {
	t.Parallel()
	eachMixedLine(t, func(x *mixedLine) {
		ctx, cancel := context.WithCancel(patient(x.t))
		gone := x.waits(ctx, rare)
		polls, listens := x.waits(patient(x.t), rare), x.waits(patient(x.t))
		cancel()
		require.ErrorIs(x.t, receive(x.t, gone, "the call that gives up"), context.Canceled)
		x.hears()
		x.release()
		require.NoError(x.t, receive(x.t, polls, "the call that polls"))
		require.NoError(x.t, receive(x.t, listens, "the call that listens"))
	})
}

// A call that tries once, and one whose wait ends, have a call that polls ask, and that is no attempt of it.
func TestWithBackoff_OthersAttemptsDoNotCount(t *testing.T) {
	t.Parallel()
	eachMixedLine(t, func(x *mixedLine) {
		polls := x.waits(patient(x.t), rare)
		for range 3 {
			for _, d := range []time.Duration{0, time.Millisecond} {
				_, err := x.wait(patient(x.t), x.c, x.key, lockrt.WithWait(d))
				require.Error(x.t, err)
			}
		}
		require.Empty(x.t, polls)
		x.release()
		until(x.t, "another call has it ask", func() bool {
			end, err := x.wait(patient(x.t), x.c, x.key, lockrt.WithWait(0))
			if err == nil {
				require.NoError(x.t, end())
			}
			return len(polls) > 0
		})
		require.NoError(x.t, <-polls)
	})
}

// Calls for a RedLock that poll have a wait queue of their own: one that listens does not wait for their pauses.
func TestWithBackoff_RedLocksThatPollWaitApart(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	c, key := newClient(t, lockrt.Options{Hooks: hooks}), redistest.Key(t, "k")
	keys := []string{key, key + ":2", key + ":3"}
	of := func(c *lockrt.Client) *lockrt.RedLock {
		return lockrt.RedLockOf(c.Mutex(keys[0]), c.Mutex(keys[1]), c.Mutex(keys[2]))
	}
	_, err := of(newClient(t, lockrt.Options{})).Lock(patient(t), lockrt.WithLease(time.Minute))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(patient(t))
	polls := lockLater(ctx, of(c), rare)
	receive(t, waiting, "the call that polls")
	listens := lockLater(patient(t), of(c))
	receive(t, waiting, "the call that listens")
	redistest.Shared(t).Do(append([]string{"DEL"}, keys...)...) // no message says so
	got := receive(t, listens, "the call that listens")
	require.NoError(t, got.err)
	require.NoError(t, got.lease.Unlock(t.Context()))
	require.Empty(t, polls)
	cancel()
	require.ErrorIs(t, receive(t, polls, "the call that polls").err, context.Canceled)
}

// A call for a RedLock that polls leaves its queue when its lease is over, and that of the calls that listen as it is.
func TestWithBackoff_RedLocksThatPollLeaveTheirQueue(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	c, key := newClient(t, lockrt.Options{Hooks: hooks}), redistest.Key(t, "k")
	l := lockrt.RedLockOf(c.Mutex(key), c.Mutex(key+":2"), c.Mutex(key+":3"))
	for range 3 {
		free(t, ok(t)(l.Lock(patient(t), rare)))
	}
	held := ok(t)(l.Lock(patient(t)))
	ctx, cancel := context.WithCancel(patient(t))
	polls := lockLater(ctx, l, rare)
	receive(t, waiting, "the call that polls")
	listens := lockLater(patient(t), l)
	receive(t, waiting, "the call that listens")
	cancel()
	require.ErrorIs(t, receive(t, polls, "the call that polls").err, context.Canceled)
	free(t, held)
	next := receive(t, listens, "the call that listens")
	require.NoError(t, next.err)
	free(t, next.lease)
	free(t, ok(t)(l.Lock(patient(t), rare)))
}

// In a cluster, too, where the place of a call that polls is in the wait queue while one that listens waits behind it.
func TestCluster_ACallBehindOneThatPollsListens(t *testing.T) {
	t.Parallel()
	cluster := redistest.SharedCluster(t)
	for kind, makes := range map[string]func(c *lockrt.Client, key string) lockrt.Locker{"Mutex": exclusives["Mutex"], "RWMutex": exclusives["RWMutex"]} {
		for name, pubsub := range pubSubs {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				hooks, waiting, _ := watch()
				a, b := inCluster(t, cluster, lockrt.Options{PubSub: pubsub}), inCluster(t, cluster, lockrt.Options{PubSub: pubsub, Hooks: hooks})
				key := redistest.Key(t, "k")
				held := ok(t)(makes(a, key).Lock(patient(t)))
				polls := lockLater(patient(t), makes(b, key), rare)
				receive(t, waiting, "the call that polls")
				listens := lockLater(patient(t), makes(b, key))
				receive(t, waiting, "the call that listens")
				if kind == "Mutex" {
					until(t, "it stands in line", func() bool {
						standing, err := a.Mutex(key).Inspect(t.Context())
						return err == nil && standing.Waiting == 1
					})
				}
				free(t, held)
				for _, got := range []<-chan locked{polls, listens} {
					next := receive(t, got, "its turn")
					require.NoError(t, next.err)
					free(t, next.lease)
				}
			})
		}
	}
}

// In a cluster the place of a call that polls stays in the wait queue when the call that listened has left, and the hand-over is heard.
func TestCluster_ThePlaceOfACallThatPollsIsHeard(t *testing.T) {
	t.Parallel()
	cluster := redistest.SharedCluster(t)
	for name, pubsub := range pubSubs {
		for order, first := range map[string]bool{"before": true, "behind": false} {
			t.Run(name+"/"+order, func(t *testing.T) {
				t.Parallel()
				hooks, waiting, _ := watch()
				a, b := inCluster(t, cluster, lockrt.Options{PubSub: pubsub}), inCluster(t, cluster, lockrt.Options{PubSub: pubsub, Hooks: hooks})
				key := redistest.Key(t, "k")
				held := ok(t)(a.Mutex(key).Lock(patient(t)))
				ctx, cancel := context.WithCancel(patient(t))
				var polls, listens <-chan locked
				for _, polling := range []bool{first, !first} {
					if polling {
						polls = lockLater(patient(t), b.Mutex(key), rare)
					} else {
						listens = lockLater(ctx, b.Mutex(key))
					}
					receive(t, waiting, "the call to wait")
				}
				until(t, "it stands in line", func() bool {
					standing, err := a.Mutex(key).Inspect(t.Context())
					return err == nil && standing.Waiting == 1
				})
				cancel()
				require.ErrorIs(t, receive(t, listens, "the call that gives up").err, context.Canceled)
				_, err := b.Mutex(key).Lock(patient(t), rare, lockrt.WithWait(300*time.Millisecond)) // at its end the call that polls has an answer
				require.ErrorIs(t, err, lockrt.ErrNotAcquired)
				free(t, held)
				next := receive(t, polls, "the call that polls")
				require.NoError(t, next.err)
				free(t, next.lease)
			})
		}
	}
}
