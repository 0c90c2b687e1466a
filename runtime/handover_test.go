package lockrt_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// inLine returns once n processes wait in the queue for key.
func inLine(t *testing.T, server *redistest.RedisServer, key string, n int64) {
	t.Helper()
	until(t, "the line has its length", func() bool { return number(t, server, "LLEN", "lockgen_waiting:{"+key+"}") == n })
}

func TestHandOver_NobodyAsksTwice(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	one, two := clientOf(t, server.URL(), unwatched).Mutex("k"), clientOf(t, server.URL(), unwatched).Mutex("k")
	atBest(t, "nothing but the release was sent", func() bool {
		held := ok(t)(one.Lock(patient(t)))
		got := lockLater(patient(t), two)
		inLine(t, server, "k", 1)
		server.Do("CONFIG", "RESETSTAT")
		free(t, held)
		next := gotten(t, got, "the lock")
		sent := server.CommandStats()["evalsha"]
		free(t, next)
		emptied(t, server) // neither lock nor line is left
		return sent == 1
	})
}

// A process that was refused a moment ago joins the wait queue with its first request.
func TestHandOver_OneRequestWhereItWasContended(t *testing.T) {
	t.Parallel()
	l := newLine(t, lockrt.Options{Tracking: lockrt.TrackingOff})
	other := clientOf(t, l.server.URL(), unwatched).Mutex(l.key)
	runs := l.seen(l.asks)
	atBest(t, "one request was enough", func() bool { // which none can be where it was not contended a second ago
		held := ok(t)(other.Lock(patient(t)))
		got := lockLater(patient(t), l.client.Mutex(l.key))
		inLine(t, l.server, l.key, 1)
		free(t, held)
		free(t, gotten(t, got, "the lock"))
		n := len(runs)
		for range n {
			<-runs
		}
		require.Positive(t, n)
		return n == 1
	})
}

// A process asks more often whether others wait, for a second after one did.
func TestHandOver_AsksMoreOftenWhereAnotherProcessWaited(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	one, two := clientOf(t, server.URL(), unwatched), clientOf(t, server.URL(), unwatched)
	usual := ok(t)(one.Mutex("other").Lock(patient(t)))
	atBest(t, "the key was wanted a moment ago", func() bool {
		held := ok(t)(one.Mutex("k").Lock(patient(t)))
		got := lockLater(patient(t), two.Mutex("k"))
		inLine(t, server, "k", 1)
		free(t, held)
		next := gotten(t, got, "the lock")
		handed := lockrt.PassLimit(next)
		free(t, next)
		again := ok(t)(one.Mutex("k").Lock(patient(t)))
		defer free(t, again)
		return handed < lockrt.PassLimit(usual) && lockrt.PassLimit(again) < lockrt.PassLimit(usual)
	})
	free(t, usual)
}

func TestContended(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]bool{0: true, time.Second: true, 2 * time.Second: false, time.Hour: false} {
		key, other := lockrt.ContendedLately(after)
		require.Equal(t, want, key, after)
		require.False(t, other, after)
	}
}

func TestHandOver_ProcessesAreServedInOrder(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	held, err := clientOf(t, server.URL(), lockrt.Options{}).Mutex("k").Lock(patient(t))
	require.NoError(t, err)
	var order []int
	var wg sync.WaitGroup
	for i := range 6 {
		m := clientOf(t, server.URL(), lockrt.Options{}).Mutex("k")
		wg.Go(func() {
			lease, err := m.Lock(patient(t))
			if err != nil {
				t.Error(err)
				return
			}
			order = append(order, i) // guarded by the lock
			if err := lease.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		})
		inLine(t, server, "k", int64(i+1))
	}
	require.NoError(t, held.Unlock(t.Context()))
	wg.Wait()
	require.Equal(t, []int{0, 1, 2, 3, 4, 5}, order)
}

func TestHandOver_TrustIsShortUntilRenewed(t *testing.T) {
	t.Parallel()
	atBest(t, "the machine had time for a renewal within two seconds", func() bool {
		server := redistest.Server(t)
		renewed := make(chan lockrt.RenewEvent, 100)
		held, err := clientOf(t, server.URL(), lockrt.Options{}).Mutex("k").Lock(patient(t))
		require.NoError(t, err)
		proxy := redistest.Proxy(t, server.Addr())
		looked := make(chan struct{})
		look := sync.OnceFunc(func() { close(looked) })
		defer look()
		proxy.OnRequest(func(cmd []string) {
			if redistest.EvalSHA(scripts.Renew.SHA1())(cmd) {
				<-looked
			}
		})
		c := clientOf(t, proxy.URL(), lockrt.Options{Hooks: lockrt.Hooks{Renewed: func(_ context.Context, e lockrt.RenewEvent) { renewed <- e }}})
		got := lockLater(patient(t), c.Mutex("k"))
		inLine(t, server, "k", 1)
		require.NoError(t, held.Unlock(t.Context()))
		next := gotten(t, got, "the lock")
		require.LessOrEqual(t, time.Until(next.Until()), 1800*time.Millisecond, "the hand-over lease less its margin")
		look()
		select {
		case e := <-renewed:
			require.NoError(t, e.Err)
		case <-next.Context().Done():
			return false
		}
		require.Greater(t, time.Until(next.Until()), 10*time.Second)
		ttl, err := next.TTL(patient(t))
		require.NoError(t, err)
		require.Greater(t, ttl, 10*time.Second)
		require.NoError(t, next.Unlock(t.Context()))
		return true
	})
}

func TestHandOver_AFixedLeaseIsFull(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	held, err := clientOf(t, server.URL(), lockrt.Options{}).Mutex("k").Lock(patient(t))
	require.NoError(t, err)
	got := lockLater(patient(t), clientOf(t, server.URL(), lockrt.Options{}).Mutex("k"), lockrt.WithLease(time.Hour))
	inLine(t, server, "k", 1)
	require.NoError(t, held.Unlock(t.Context()))
	next := receive(t, got, "the lock")
	require.NoError(t, next.err)
	require.Greater(t, time.Until(next.lease.Until()), 59*time.Minute)
	require.NoError(t, next.lease.Unlock(t.Context()))
}

func TestHandOver_SkipsAProcessThatIsGone(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	proxy := redistest.Proxy(t, server.Addr())
	held, err := clientOf(t, server.URL(), lockrt.Options{}).Mutex("k").Lock(patient(t))
	require.NoError(t, err)
	gone := lockLater(patient(t), clientOf(t, proxy.URL(), lockrt.Options{}).Mutex("k"))
	inLine(t, server, "k", 1)
	got := lockLater(patient(t), clientOf(t, server.URL(), lockrt.Options{}).Mutex("k"))
	inLine(t, server, "k", 2)
	proxy.Refuse(true)
	until(t, "the server knows", func() bool { return channels(t, server) == 2 })
	require.NoError(t, held.Unlock(t.Context()))
	next := receive(t, got, "the lock, past the one that is gone")
	require.NoError(t, next.err)
	proxy.Refuse(false)
	inLine(t, server, "k", 1) // it asks again when it is back
	require.NoError(t, next.lease.Unlock(t.Context()))
	back := receive(t, gone, "the lock")
	require.NoError(t, back.err)
	require.NoError(t, back.lease.Unlock(t.Context()))
}

func TestHandOver_ToAProcessThatDoesNotHearOfIt(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	proxy := redistest.Proxy(t, server.Addr())
	hooks, _, ends := watch()
	held, err := clientOf(t, server.URL(), lockrt.Options{}).Mutex("k").Lock(patient(t))
	require.NoError(t, err)
	deaf := lockLater(patient(t), clientOf(t, proxy.URL(), lockrt.Options{Hooks: hooks}).Mutex("k"))
	inLine(t, server, "k", 1)
	got := lockLater(patient(t), clientOf(t, server.URL(), lockrt.Options{}).Mutex("k"))
	inLine(t, server, "k", 2)
	proxy.Blackhole(redistest.Both) // the connection looks alive
	require.NoError(t, held.Unlock(t.Context()))
	require.EqualValues(t, 1, number(t, server, "EXISTS", "k"), "handed over to the deaf one")
	next := receive(t, got, "the lock, when the claim lease is over")
	require.NoError(t, next.err)

	proxy.Deliver() // it hears now of what is over
	inLine(t, server, "k", 1)
	require.NoError(t, next.lease.Err())
	require.NoError(t, next.lease.Unlock(t.Context()))
	late := receive(t, deaf, "the lock")
	require.NoError(t, late.err)
	require.NoError(t, late.lease.Unlock(t.Context()))
	require.ErrorIs(t, receive(t, ends, "the end").Cause, lockrt.ErrReleased, "its only lease")
	require.Empty(t, ends)
}

func TestHandOver_WhoGivesUpLeavesTheLine(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	held, err := clientOf(t, server.URL(), lockrt.Options{}).Mutex("k").Lock(patient(t))
	require.NoError(t, err)
	c := clientOf(t, server.URL(), lockrt.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	got := lockLater(ctx, c.Mutex("k"))
	inLine(t, server, "k", 1)
	cancel()
	require.ErrorIs(t, receive(t, got, "the error").err, context.Canceled)
	inLine(t, server, "k", 0)
	require.NoError(t, held.Unlock(t.Context()))
	emptied(t, server)
}

func TestHandOver_OneProcessKeepsWhatNobodyElseWants(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	m := clientOf(t, server.URL(), unwatched).Mutex("k")
	const goroutines, each = 8, 500
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range each {
				lease, err := m.Lock(patient(t))
				if err == nil {
					err = lease.Unlock(t.Context())
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	require.Less(t, server.CommandStats()["evalsha"], int64(goroutines*each/4))
}

func TestHandOver_ForceUnlockTellsTheVictimAtOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{Watchdog: time.Hour})
	lease, err := c.Mutex("k").Lock(patient(t))
	require.NoError(t, err)
	until(t, "it listens", func() bool { return channels(t, server) == 1 })
	taken, err := clientOf(t, server.URL(), lockrt.Options{}).Mutex("k").ForceUnlock(patient(t))
	require.NoError(t, err)
	require.True(t, taken)
	receive(t, lease.Context().Done(), "the loss, long before a renewal")
	require.ErrorIs(t, lease.Err(), lockrt.ErrLost)
	require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)
}

func TestHandOver_AnEmptyServerIsNoticedAtOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{Watchdog: time.Hour})
	lease, err := c.Mutex("k").Lock(patient(t))
	require.NoError(t, err)
	until(t, "it listens", func() bool { return channels(t, server) == 1 })
	server.Restart()
	receive(t, lease.Context().Done(), "the loss, long before a renewal")
	require.ErrorIs(t, lease.Err(), lockrt.ErrLost)
	require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)
}

func TestHandOver_AnEmptyServerIsNoticedThoughTheFirstSubscriptionFailed(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "k")
	proxy := redistest.Proxy(t, server.Addr())
	c := clientOf(t, proxy.URL(), lockrt.Options{})
	lost := proxy.DropRequest(redistest.Command("SUBSCRIBE"), 1, redistest.Close)
	tried, deleted := make(chan struct{}), make(chan struct{})
	reached := sync.OnceFunc(func() { close(deleted) })
	defer reached()
	var tries atomic.Int32
	proxy.OnRequest(func(cmd []string) {
		if redistest.Command("SUBSCRIBE")(cmd) && tries.Add(1) == 2 {
			close(tried)
			<-deleted
		}
	})
	lease, err := c.Mutex(key).Lock(patient(t), unexpiring)
	require.NoError(t, err)
	receive(t, lost.Done(), "the loss of the subscription")
	receive(t, tried, "the second try")
	server.Do("DEL", key) // as if it was another server
	reached()
	receive(t, lease.Context().Done(), "the loss to be told")
	require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)
}

func TestHandOver_ABrokenConnectionLosesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	renewed := make(chan lockrt.RenewEvent, 100)
	c := clientOf(t, server.URL(), lockrt.Options{Watchdog: time.Hour, Hooks: lockrt.Hooks{Renewed: func(_ context.Context, e lockrt.RenewEvent) { renewed <- e }}})
	lease, err := c.Mutex("k").Lock(patient(t))
	require.NoError(t, err)
	until(t, "it listens", func() bool { return channels(t, server) == 1 })
	server.Do("CLIENT", "KILL", "TYPE", "pubsub")
	require.NoError(t, receive(t, renewed, "a renewal out of turn").Err)
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Unlock(t.Context()))
}

// TestHandOver_TakesTurnsWithJava plays a Java program that waits: it listens to the lock's channel
// and asks when it hears something.
func TestHandOver_TakesTurnsWithJava(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	rc := server.NewClient()
	heard := make(chan string, 100)
	java, release := rc.Dedicate()
	defer release()
	java.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { heard <- m.Message }})
	require.NoError(t, java.Do(t.Context(), rc.B().Subscribe().Channel("redisson_lock__channel:{k}").Build()).Error())

	first, second := clientOf(t, server.URL(), lockrt.Options{}), clientOf(t, server.URL(), lockrt.Options{})
	lease, err := first.Mutex("k").Lock(patient(t))
	require.NoError(t, err)
	got := lockLater(patient(t), second.Mutex("k"))
	inLine(t, server, "k", 1)
	require.NoError(t, lease.Unlock(t.Context()))
	next := receive(t, got, "the lock: the turn of one of ours")
	require.NoError(t, next.err)
	require.Empty(t, heard)

	got = lockLater(patient(t), first.Mutex("k"))
	inLine(t, server, "k", 1)
	require.NoError(t, next.lease.Unlock(t.Context()))
	require.Equal(t, "00", receive(t, heard, "the message: the turn of Java"))
	next = receive(t, got, "the lock, since this Java program does not want it after all")
	require.NoError(t, next.err)
	require.NoError(t, next.lease.Unlock(t.Context()))
	require.Equal(t, "0", receive(t, heard, "the message: nobody else is there"))
}

// javaTakes takes a lock that is free.
const javaTakes = `if redis.call('exists', KEYS[1]) == 1 then return 0 end return redis.call('hset', KEYS[1], 'java:1', 1)`

// A Java program that hears of a release asks later than a waiter in the process that released the lock. It still gets the lock: no
// other waiter asks within the first 5ms.
func TestHandOver_JavaHasAStart(t *testing.T) {
	t.Parallel()
	l := newLine(t, lockrt.Options{Cohort: 1, Tracking: lockrt.TrackingOff})
	channel := "redisson_lock__channel:{" + l.key + "}"
	rc := l.server.NewClient()
	heard := make(chan string, 1000)
	java, release := rc.Dedicate()
	defer release()
	java.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { heard <- m.Message }})
	require.NoError(t, java.Do(t.Context(), rc.B().Subscribe().Channel(channel).Build()).Error())
	until(t, "the client listens", func() bool { return listens(t, l.server, l.client.ID()) })
	released, asked := l.when(redistest.EvalSHA(scripts.Release.SHA1())), l.when(asks)
	clear := func(times chan time.Time) {
		for len(times) > 0 {
			<-times
		}
	}
	m := l.client.Mutex(l.key)
	atBest(t, "Java was in time", func() (served bool) {
		held := ok(t)(m.Lock(patient(t)))
		next := lockLater(patient(t), m)
		until(t, "the next one waits", func() bool { return l.client.Stats().Waiting == 1 })
		clear(asked)
		clear(released)
		for len(heard) > 0 {
			<-heard
		}
		free(t, held)
		require.Equal(t, "00", receive(t, heard, "the release"))
		got, err := rc.Do(t.Context(), rc.B().Eval().Script(javaTakes).Numkeys(1).Key(l.key).Build()).AsInt64()
		require.NoError(t, err)
		if served = got == 1; served {
			l.server.Do("DEL", l.key)
			l.server.Do("PUBLISH", channel, "0")
		}
		free(t, gotten(t, next, "the lock, when Java has had its turn"))
		require.GreaterOrEqual(t, receive(t, asked, "the request").Sub(receive(t, released, "the release")), 5*time.Millisecond)
		return served
	})
}

func TestHandOver_StrangeMessagesAreIgnored(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	hooks, waiting, _ := watch()
	c := clientOf(t, server.URL(), lockrt.Options{Hooks: hooks})
	lease, err := c.Mutex("k").Lock(patient(t))
	require.NoError(t, err)
	got := lockLater(patient(t), c.Mutex("k"))
	receive(t, waiting, "the waiter")
	until(t, "it listens", func() bool { return channels(t, server) == 1 })
	fields, err := server.Do("HKEYS", "k").AsStrSlice()
	require.NoError(t, err)
	uuid, n, _ := strings.Cut(fields[0], ":")
	for _, message := range []string{
		"", "0", "granted", "granted x", "granted 99999", "granted " + n, "granted " + n + " x", "granted 99999 1795226976789949 0",
		"look", "look x", "look 99999", "soon " + n, "soon 99999 1", "soon " + n + " x", "wanted 99999", "taken 99999", "taken x", "dance " + n,
		"granted " + n + " 1795226976789949 0", "look " + n, "soon " + n + " 1", "wanted " + n,
	} {
		require.EqualValues(t, 1, number(t, server, "PUBLISH", "lockgen_process:"+uuid, message))
	}
	require.NoError(t, lease.Err())
	require.Empty(t, got)
	require.NoError(t, lease.Unlock(t.Context()))
	next := receive(t, got, "the lock")
	require.NoError(t, next.err)
	require.NoError(t, next.lease.Unlock(t.Context()))
}
