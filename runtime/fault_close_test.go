package lockrt_test

import (
	"context"
	"errors"
	goruntime "runtime"
	"slices"
	"strconv"
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

// This file closes clients at bad moments, and looks at leases at the worst ones.

// closings are the two ways to close a client.
func closings() map[string]func(c *lockrt.Client) error {
	return map[string]func(c *lockrt.Client) error{
		"close":    (*lockrt.Client).Close,
		"shutdown": func(c *lockrt.Client) error { return c.Shutdown(context.Background()) },
	}
}

// A client that ends while the server has granted a request withdraws the grant, whether the reply arrives late or never.
func TestFault_ClosingWithdrawsWhatIsHalfAcquired(t *testing.T) {
	withdrawsAtClose(t, (*redistest.FaultProxy).Deliver)
}

func TestFault_ClosingWithdrawsAnAcquireWhoseReplyIsLost(t *testing.T) {
	withdrawsAtClose(t, (*redistest.FaultProxy).Discard)
}

// withdrawsAtClose ends a client whose request is granted and not answered. settle ends the silence of the network.
func withdrawsAtClose(t *testing.T, settle func(p *redistest.FaultProxy)) {
	t.Helper()
	t.Parallel()
	for name, end := range closings() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atBest(t, inTime, func() bool {
				l := newLine(t, lockrt.Options{OpTimeout: patience})
				acquires := l.seen(l.asks)
				l.proxy.Blackhole(redistest.Replies)
				got := lockLater(patient(t), l.client.Mutex(l.key))
				if !underWay(l, acquires, got) {
					return false
				}
				until(t, "the server has granted it", func() bool { return number(t, l.server, "EXISTS", l.key) == 1 })
				closed := make(chan error, 1)
				go func() { closed <- end(l.client) }()
				require.ErrorIs(t, receive(t, got, "the waiter").err, lockrt.ErrClosed)
				settle(l.proxy)
				require.NoError(t, receive(t, closed, "the end of "+name))
				gone(t, l.server, l.key) // granted to nobody
				return true
			})
		})
	}
}

func TestFault_ShutdownWaitsForTheLastUnlock(t *testing.T) {
	t.Parallel()
	atBest(t, inTime, func() bool {
		l := newLine(t, lockrt.Options{OpTimeout: patience})
		asked := time.Now()
		lease, err := l.client.Mutex(l.key).Lock(patient(t))
		require.NoError(t, err)
		if time.Since(asked) > 200*time.Millisecond { // it may have been sent twice, and a copy lock again
			return false
		}
		releases := l.seen(gives)
		l.proxy.Blackhole(redistest.Requests)
		unlocked, down := make(chan error, 1), make(chan error, 1)
		go func() { unlocked <- lease.Unlock(context.Background()) }()
		if !underWay(l, releases, unlocked) {
			return false
		}
		go func() { down <- l.client.Shutdown(context.Background()) }()
		_, err = l.client.Mutex(l.key).TryLock(patient(t))
		for !errors.Is(err, lockrt.ErrClosed) { // the shutdown has begun
			_, err = l.client.Mutex(l.key).TryLock(patient(t))
		}
		require.Empty(t, down, "the key is not given back yet")
		l.proxy.Deliver()
		require.NoError(t, receive(t, unlocked, "the unlock"))
		require.NoError(t, receive(t, down, "the shutdown"))
		gone(t, l.server, l.key)
		return true
	})
}

func TestFault_ShutdownDoesNotOvertakeTheLastUnlock(t *testing.T) {
	t.Parallel()
	down := make(chan error, 1)
	atEnd := func(string) {
		timer := time.NewTimer(200 * time.Millisecond)
		defer timer.Stop()
		select { // between the end of the lease and its release
		case err := <-down:
			down <- err
		case <-timer.C:
		}
	}
	server := redistest.Shared(t)
	c, err := opened(t.Context(), server.URL(), lockrt.Options{OpTimeout: unhurried})
	require.NoError(t, err)
	lockrt.AtEnd(c, atEnd)
	key := redistest.Key(t, "k")
	lease, err := c.Mutex(key).Lock(patient(t))
	require.NoError(t, err)
	go func() { down <- c.Shutdown(context.Background()) }()
	require.NoError(t, lease.Unlock(t.Context()))
	gone(t, server, key)
	require.NoError(t, receive(t, down, "the shutdown"))
}

func TestFault_ShutdownLeavesNoKeyOfAnUnlockedLease(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for i := range 50 {
		key := redistest.Key(t, strconv.Itoa(i))
		c, err := opened(t.Context(), server.URL(), lockrt.Options{OpTimeout: unhurried})
		require.NoError(t, err)
		asked := time.Now()
		lease, err := c.Mutex(key).Lock(patient(t))
		require.NoError(t, err)
		prompt := time.Since(asked) < 200*time.Millisecond // so that the request was sent once, and no copy of it may lock again
		unlocked := make(chan error, 1)
		go func() { unlocked <- lease.Unlock(context.Background()) }()
		require.NoError(t, c.Shutdown(patient(t)))
		if prompt {
			require.Zero(t, number(t, server, "EXISTS", key), "the shutdown was over")
		}
		require.NoError(t, receive(t, unlocked, "the unlock"))
	}
}

func TestFault_CloseEndsEveryLeaseHoweverLateItWasEntered(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for i := range 50 {
		c, err := opened(t.Context(), server.URL(), lockrt.Options{OpTimeout: unhurried})
		require.NoError(t, err)
		m := c.Mutex(redistest.Key(t, strconv.Itoa(i)))
		outer, err := m.Lock(patient(t))
		require.NoError(t, err)
		under := context.WithoutCancel(outer.Context())
		var all sync.Map
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					inner, err := m.TryLock(under)
					if err != nil {
						return
					}
					all.Store(inner, true)
				}
			})
		}
		require.NoError(t, c.Close())
		wg.Wait()
		require.ErrorIs(t, outer.Err(), lockrt.ErrClosed)
		all.Range(func(inner, _ any) bool {
			require.ErrorIs(t, inner.(*lockrt.Lease).Err(), lockrt.ErrClosed)
			return true
		})
	}
}

func TestFault_ClosedClientUnlocksInSpiteOfALostReply(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "k")
	proxy := redistest.Proxy(t, server.Addr())
	c, err := lockrt.New(redistest.NewClient(t, proxy.Addr()), lockrt.Options{})
	require.NoError(t, err)
	lease, err := c.Mutex(key).Lock(patient(t))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.ErrorIs(t, lease.Err(), lockrt.ErrClosed)
	require.EqualValues(t, 1, number(t, server, "EXISTS", key))
	proxy.DropRequest(gives, 1, redistest.Close)
	require.NoError(t, lease.Unlock(t.Context()))
	gone(t, server, key)
}

// A client of a cluster, which Open made, takes the end of its connections by Close for no failover, of which it would wait for the end.
func TestFault_ClosedClientOfAClusterWaitsForNoFailover(t *testing.T) {
	t.Parallel()
	c, err := lockrt.Open(t.Context(), redistest.SharedCluster(t).URL(), lockrt.Options{OpTimeout: time.Hour})
	require.NoError(t, err)
	lease, err := c.Mutex(redistest.Key(t, "k")).Lock(patient(t))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.Eventually(t, func() bool { // rueidis ends the connections in the background
		_, err = lease.TTL(patient(t))
		return err != nil
	}, time.Minute, time.Millisecond)
	require.ErrorIs(t, err, lockrt.ErrClosed)
	require.ErrorIs(t, lease.Unlock(t.Context()), rueidis.ErrClosing)
}

// After Close, which has ended the connections that Open made, each method says so. None was sent, so the outcome is known.
func TestFault_UsedAfterItsConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	c, err := lockrt.Open(t.Context(), redistest.Shared(t).URL(), lockrt.Options{OpTimeout: unhurried})
	require.NoError(t, err)
	s, p, latch := c.Semaphore(redistest.Key(t, "s"), 2), c.PermitSemaphore(redistest.Key(t, "p"), 2), c.CountDownLatch(redistest.Key(t, "l"))
	require.NoError(t, s.Acquire(t.Context(), 2))
	permit, err := p.Acquire(t.Context())
	require.NoError(t, err)
	lease, err := c.Mutex(redistest.Key(t, "m")).Lock(t.Context())
	require.NoError(t, err)
	fair, err := c.FairMutex(redistest.Key(t, "f")).Lock(t.Context())
	require.NoError(t, err)
	writer, err := c.RWMutex(redistest.Key(t, "w")).Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, c.Close())
	for name, call := range map[string]func(ctx context.Context) error{
		"Unlock": lease.Unlock, "Unlock, fair": fair.Unlock, "Unlock, writer": writer.Unlock, "Release of a Permit": permit.Release,
		"Extend":             func(ctx context.Context) error { return lease.Extend(ctx, time.Minute) },
		"Release":            func(ctx context.Context) error { return s.Release(ctx, 2) },
		"Resize":             func(ctx context.Context) error { _, err := s.Resize(ctx, 1); return err },
		"Drain":              func(ctx context.Context) error { _, err := s.Drain(ctx); return err },
		"TrySetPermits":      func(ctx context.Context) error { _, err := s.TrySetPermits(ctx, 1, 0); return err },
		"Release of permits": func(ctx context.Context) error { return p.Release(ctx, permit.PermitID()) },
		"UpdateLease": func(ctx context.Context) error {
			_, err := p.UpdateLease(ctx, permit.PermitID(), time.Minute)
			return err
		},
		"SetPermits": func(ctx context.Context) error { return p.SetPermits(ctx, 3) },
		"SetCount":   func(ctx context.Context) error { _, err := latch.SetCount(ctx, 3); return err },
		"CountDown":  func(ctx context.Context) error { _, err := latch.CountDown(ctx); return err },
		"Delete":     func(ctx context.Context) error { _, err := latch.Delete(ctx); return err },
	} {
		err := call(t.Context())
		require.ErrorIs(t, err, lockrt.ErrClosed, name)
		require.NotErrorIs(t, err, lockrt.ErrUnavailable, name)
	}
}

func TestFault_ClosedTwiceAndUsedAfter(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	require.NoError(t, c.Shutdown(t.Context()))
	m := c.Mutex(redistest.Key(t, "k"))
	_, err := m.Lock(t.Context())
	require.ErrorIs(t, err, lockrt.ErrClosed)
	_, err = m.TryLock(t.Context())
	require.ErrorIs(t, err, lockrt.ErrClosed)
	_, err = m.ForceUnlock(t.Context())
	require.ErrorIs(t, err, lockrt.ErrClosed)
}

func TestFault_CloseIsBoundedWhenNothingIsAnswered(t *testing.T) {
	t.Parallel()
	atBest(t, inTime, func() bool {
		l := newLine(t, lockrt.Options{Watchdog: brisk.Watchdog, OpTimeout: time.Second})
		held, err := l.client.Mutex(l.key).Lock(patient(t))
		require.NoError(t, err)
		acquires := l.seen(l.asks)
		l.proxy.Blackhole(redistest.Both)
		pending := lockLater(patient(t), l.client.Mutex(l.key+".pending"))
		queued := lockLater(patient(t), l.client.Mutex(l.key))
		if !underWay(l, acquires, pending) {
			return false
		}
		closed := make(chan error, 1)
		go func() { closed <- l.client.Close() }()
		require.Error(t, receive(t, closed, "the end of Close"))
		require.ErrorIs(t, receive(t, pending, "the call whose request is under way").err, lockrt.ErrClosed)
		require.ErrorIs(t, receive(t, queued, "the one in the queue").err, lockrt.ErrClosed)
		require.Error(t, held.Err())
		require.Error(t, context.Cause(held.Context()))
		return true
	})
}

// TestFault_CloseFailsWhoeverWaitsThroughAClientThatIsNotBrief: nor does it wait for as long as a client of the
// user's may.
func TestFault_CloseFailsWhoeverWaitsThroughAClientThatIsNotBrief(t *testing.T) {
	t.Parallel()
	atBest(t, inTime, func() bool {
		l := newLine(t, lockrt.Options{})
		c, err := lockrt.New(redistest.NewClient(t, l.proxy.Addr(), func(o *rueidis.ClientOption) {
			o.ConnWriteTimeout, o.PipelineMultiplex = time.Hour, -1 // the connection that is there
		}), lockrt.Options{OpTimeout: 3 * time.Second, Tracking: lockrt.TrackingOff})
		require.NoError(t, err)
		lease, err := c.Mutex(l.key).Lock(patient(t))
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
		acquires := l.seen(l.asks)
		l.proxy.Blackhole(redistest.Both)
		pending := lockLater(context.Background(), c.Mutex(l.key))
		if !underWay(l, acquires, pending) {
			_ = c.Close()
			return false
		}
		require.Error(t, c.Close())
		require.ErrorIs(t, receive(t, pending, "the call whose request is under way").err, lockrt.ErrClosed)
		l.proxy.Deliver()
		gone(t, l.server, l.key)
		return true
	})
}

// TestFault_ShutdownFailsACallWhoseRequestIsUnderWay has no answer and no end of the call's context: only Shutdown ends its wait, which
// waits itself for the lease of another key.
func TestFault_ShutdownFailsACallWhoseRequestIsUnderWay(t *testing.T) {
	t.Parallel()
	atBest(t, inTime, func() bool {
		l := newLine(t, lockrt.Options{})
		c, err := lockrt.New(redistest.NewClient(t, l.proxy.Addr(), func(o *rueidis.ClientOption) {
			o.ConnWriteTimeout, o.PipelineMultiplex = time.Hour, -1
		}), lockrt.Options{OpTimeout: 3 * time.Second, Tracking: lockrt.TrackingOff})
		require.NoError(t, err)
		held := ok(t)(c.Mutex(l.key + ":held").Lock(patient(t)))
		acquires := l.seen(l.asks)
		l.proxy.Blackhole(redistest.Both)
		pending := lockLater(context.Background(), c.Mutex(l.key))
		if !underWay(l, acquires, pending) {
			l.proxy.Deliver()
			_ = c.Close()
			return false
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Shutdown(t.Context()) }()
		require.ErrorIs(t, receive(t, pending, "the call whose request is under way").err, lockrt.ErrClosed)
		require.Empty(t, ended)
		l.proxy.Deliver()
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, receive(t, ended, "Shutdown"))
		gone(t, l.server, l.key)
		require.NoError(t, c.Close())
		return true
	})
}

func TestFault_UnlockSaysThatTheLeaseWasLostMeanwhile(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "k")
	atBest(t, "was it lost", func() bool { // of a release that is answered late, it is not known
		c := newClient(t, lockrt.Options{Watchdog: 6 * time.Second, Tracking: lockrt.TrackingOff})
		lockrt.AtEnd(c, func(string) { // Unlock has begun, and the release is not sent yet
			until(t, "its renewal is refused", func() bool {
				_, _ = server.Try("DEL", key) // also what a late copy of the request has locked again
				return c.Stats().RenewalFailures > 0
			})
		})
		lease, err := c.Mutex(key).Lock(patient(t))
		require.NoError(t, err)
		return errors.Is(lease.Unlock(t.Context()), lockrt.ErrLost)
	})
}

func TestFault_ALeaseIsOverByTheClockWhoeverHasYetToTell(t *testing.T) {
	t.Parallel()
	telling, told, calls := make(chan string, 10), make(chan struct{}), atomic.Int64{}
	c := newClient(t, lockrt.Options{})
	lockrt.AtEnd(c, func(key string) {
		n := calls.Add(1)
		telling <- key
		if n <= 2 {
			<-told // the loss of another lease is reported after this one
		}
	})
	lock := func(name string, d time.Duration) *lockrt.Lease {
		lease, err := c.Mutex(redistest.Key(t, name)).Lock(patient(t), lockrt.WithLease(d))
		require.NoError(t, err)
		return lease
	}
	leases := map[string]*lockrt.Lease{}
	first := lock("first", 900*time.Millisecond)
	for _, name := range []string{"a", "b"} {
		lease := lock(name, time.Second)
		leases[lease.Key()] = lease
	}
	require.Equal(t, first.Key(), receive(t, telling, "the first loss"))
	for _, lease := range leases {
		over := time.NewTimer(time.Until(lease.Until()))
		receive(t, over.C, "the end of both others")
	}
	told <- struct{}{}
	delete(leases, receive(t, telling, "the loss of one of two whose time is over"))
	for _, last := range leases {
		require.ErrorIs(t, last.Err(), lockrt.ErrLost)
		require.ErrorIs(t, last.Context().Err(), context.Canceled)
		require.ErrorIs(t, context.Cause(last.Context()), lockrt.ErrLost)
		require.ErrorIs(t, last.Unlock(t.Context()), lockrt.ErrLost)
	}
	told <- struct{}{}
	require.ErrorIs(t, first.Unlock(t.Context()), lockrt.ErrLost)
}

func TestFault_ShutdownEndsWhenTheClientIsClosedInTheMeantime(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	lease, err := c.Mutex(redistest.Key(t, "k")).Lock(patient(t))
	require.NoError(t, err)
	down := make(chan error, 1)
	go func() { down <- c.Shutdown(context.Background()) }()
	for err == nil || errors.Is(err, lockrt.ErrNotAcquired) { // until the shutdown has begun
		_, err = c.Mutex(lease.Key()).TryLock(patient(t))
	}
	require.ErrorIs(t, err, lockrt.ErrClosed)
	require.NoError(t, c.Close())
	require.ErrorIs(t, lease.Err(), lockrt.ErrClosed)
	_ = receive(t, down, "the shutdown")
	go func() { down <- c.Shutdown(context.Background()) }()
	_ = receive(t, down, "the shutdown of a closed client")
}

func TestFault_CloseWithdrawsForThoseWhoArePausing(t *testing.T) {
	t.Parallel()
	l := newLine(t, lockrt.Options{Tracking: lockrt.TrackingOff}) // which has a connection of its own
	acquire := asks
	first := l.proxy.DropReply(acquire, 1, redistest.Close)
	then := l.proxy.DropRequest(acquire, 7, redistest.Close)
	more := l.proxy.DropRequest(acquire, 0, redistest.Close)
	got := lockLater(patient(t), l.client.Mutex(l.key))
	receive(t, first.Done(), "the loss of a grant")
	receive(t, then.Done(), "the loss of other tries")
	until(t, "it pauses", func() bool { return l.proxy.Conns() == 1 }) // by which it listens
	require.NoError(t, l.client.Close())
	more.Stop()
	require.ErrorIs(t, receive(t, got, "the waiter").err, lockrt.ErrClosed)
	gone(t, l.server, l.key) // granted to nobody
}

// watched has a call end whose request took a lock without its knowing, and returns that request, once it is withdrawn and the next
// withdrawal is far: another copy of the request may still be under way.
func (l *line) watched(t *testing.T, lock func(c *lockrt.Client, key string) lockrt.Locker) (request []string) {
	t.Helper()
	acquires := redistest.EvalSHA(scripts.Take.SHA1(), scripts.Acquire.SHA1(), scripts.FairAcquire.SHA1(), scripts.RWWrite.SHA1())
	var mu sync.Mutex
	withdrawals := 0
	l.proxy.OnRequest(func(cmd []string) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case !slices.Contains(cmd, l.key):
		case !acquires(cmd):
			withdrawals++
		case request == nil:
			request = slices.Clone(cmd)
		}
	})
	lost := l.proxy.DropReply(acquires, 1, redistest.Close)
	l.proxy.DropRequest(acquires, 0, redistest.Close) // all others
	ctx, cancel := context.WithCancel(patient(t))
	defer cancel()
	got := lockLater(ctx, lock(l.client, l.key))
	receive(t, lost.Done(), "the loss of the grant")
	cancel()
	require.ErrorIs(t, receive(t, got, "the end of the call").err, context.Canceled)
	until(t, "the next withdrawal is far", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return withdrawals >= 6
	})
	mu.Lock()
	defer mu.Unlock()
	return request
}

// A second copy of a request may reach the server long after the first one was withdrawn. Close removes what it took.
func TestFault_CloseWithdrawsWhatALateCopyTook(t *testing.T) {
	t.Parallel()
	for name, lock := range exclusives {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, lockrt.Options{OpTimeout: patience})
			request := l.watched(t, lock)
			until(t, "the copy takes the lock", func() bool {
				l.server.Do(request...)
				return number(t, l.server, "EXISTS", l.key) == 1
			})
			require.NoError(t, l.client.Close())
			gone(t, l.server, l.key) // taken for no call
		})
	}
}

// A request that was sent twice may reach the server twice, and late: when its call has ended, and the client is being closed. Close waits for it,
// and removes what it took.
func TestFault_CloseWaitsForALateRequest(t *testing.T) {
	t.Parallel()
	acquires := redistest.EvalSHA(scripts.Take.SHA1(), scripts.Acquire.SHA1(), scripts.FairAcquire.SHA1(), scripts.RWWrite.SHA1())
	for name, lock := range exclusives {
		for end, stop := range closings() {
			t.Run(name+"/"+end, func(t *testing.T) {
				t.Parallel()
				l := newLine(t, lockrt.Options{OpTimeout: patience / 2})
				var late atomic.Bool
				reaches, others := make(chan struct{}), make(chan struct{}, 10000)
				arrive := sync.OnceFunc(func() { close(reaches) })
				t.Cleanup(arrive)
				l.proxy.OnRequest(func(cmd []string) {
					switch {
					case !slices.Contains(cmd, l.key):
					case !acquires(cmd):
						others <- struct{}{}
					case late.CompareAndSwap(false, true):
						<-reaches // with all that follows over the same connection
					}
				})
				ctx := patient(t)
				if end == "close" { // a lone caller that cannot be cancelled has a connection to itself
					ctx = context.Background()
					l.warm(t)
				}
				lease, err := lock(l.client, l.key).Lock(ctx, unexpiring)
				require.NoError(t, err)
				require.True(t, late.Load())
				require.NoError(t, lease.Unlock(t.Context()))
				receive(t, others, "the release, or a withdrawal")
				closed := later(func() error { return stop(l.client) })
				over := patient(t)
				for range 3 { // withdrawals
					select {
					case <-others:
					case err := <-closed:
						require.Fail(t, "closed before the request has reached the server", err)
					case <-over.Done():
						require.Fail(t, "there are no withdrawals")
					}
				}
				arrive()
				require.NoError(t, receive(t, closed, "the end of "+end))
				gone(t, l.server, l.key) // taken for no call
			})
		}
	}
}

// Close withdraws the request once more, and ends within its bound if there is no answer.
func TestFault_CloseIsBoundedWhileALateCopyMayCome(t *testing.T) {
	t.Parallel()
	for name, lock := range exclusives {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, lockrt.Options{OpTimeout: 3 * time.Second})
			l.watched(t, lock)
			l.proxy.Blackhole(redistest.Both)
			require.ErrorContains(t, receive(t, later(l.client.Close), "the end of Close"), "requests are still unanswered after 3s")
		})
	}
}

func TestFault_CloseGivesBackWhatAFailingCallWasGiven(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for i := range 60 {
		c, err := opened(t.Context(), server.URL(), lockrt.Options{OpTimeout: unhurried})
		require.NoError(t, err)
		key := redistest.Key(t, strconv.Itoa(i))
		granted := make(chan struct{})
		got := lockLater(patient(t), c.Mutex(key))
		go func() {
			defer close(granted)
			for n, err := int64(0), error(nil); n == 0 && err == nil; {
				reply, tried := server.Try("EXISTS", key)
				if err = tried; err == nil {
					n, err = reply.AsInt64()
				}
			}
		}()
		receive(t, granted, "the grant")
		require.NoError(t, c.Close())
		answer := receive(t, got, "the answer")
		if answer.err != nil {
			require.ErrorIs(t, answer.err, lockrt.ErrClosed)
			gone(t, server, key) // an error means that nothing is held
			continue
		}
		require.ErrorIs(t, answer.lease.Err(), lockrt.ErrClosed)
	}
}

func TestFault_LossAfterTheUnlockOfAReentry(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "k")
	c := newClient(t, lockrt.Options{})
	outer, err := c.Mutex(key).Lock(patient(t), lockrt.WithWatchdog(6*time.Second))
	require.NoError(t, err)
	inner, err := c.Mutex(key).Lock(outer.Context())
	require.NoError(t, err)
	require.NoError(t, inner.Unlock(t.Context()))
	deleted(t, server, outer)
	require.ErrorIs(t, inner.Err(), lockrt.ErrReleased)
	require.ErrorIs(t, outer.Unlock(t.Context()), lockrt.ErrLost)
}

// TestFault_CloseDoesNotWaitForAQuestion: a question that a mute server does not answer keeps no client from closing.
func TestFault_CloseDoesNotWaitForAQuestion(t *testing.T) {
	t.Parallel()
	atBest(t, inTime, func() bool {
		l := newQuietLine(t, lockrt.Options{OpTimeout: 4 * time.Second})
		until(t, "the client has an answer in time", func() bool {
			_, err := l.client.Semaphore(l.key, 1).Available(patient(t))
			return err == nil
		})
		asked := l.seen(func(cmd []string) bool { return len(cmd) > 1 && cmd[0] == "GET" && cmd[1] == l.key })
		l.proxy.Blackhole(redistest.Replies)
		done := later(func() error { _, err := l.client.Semaphore(l.key, 1).Available(patient(t)); return err })
		if !underWay(l, asked, done) {
			return false
		}
		require.Error(t, receive(t, done, "the end of the question"))
		require.NoError(t, l.client.Close())
		return true
	})
}

// running reports whether some goroutine of this process runs a function, or waits in it.
func running(function string) bool {
	stacks := make([]byte, 8<<20)
	return strings.Contains(string(stacks[:goruntime.Stack(stacks, true)]), function)
}

// TestClose_WithoutAConnectionToListen shows that a program that uses all connections of its own client for itself does not keep the client of
// this library from closing.
func TestClose_WithoutAConnectionToListen(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	rc := redistest.NewClient(t, server.Addr(), func(o *rueidis.ClientOption) { o.BlockingPoolSize, o.ForceSingleClient = 1, true })
	_, release := rc.Dedicate() // of the program, for as long as it likes
	defer release()
	c, err := lockrt.New(rc, lockrt.Options{OpTimeout: 500 * time.Millisecond})
	require.NoError(t, err)
	lease, err := c.Mutex(redistest.Key(t, "k")).Lock(patient(t))
	require.NoError(t, err)
	until(t, "it waits for a connection that listens", func() bool { return running("transport.(*tracker).subscriber(") })
	require.NoError(t, lease.Unlock(t.Context()))
	require.NoError(t, c.Close())
}
