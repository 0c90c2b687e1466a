package lockrt_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
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

// This file disturbs the hand-over between processes: what the two connections of a client
// carry comes late, or in another order.

// A split is a client whose first connection, the one for commands, goes through one proxy and
// whose others, the one for messages among them, go through another.
type split struct {
	server             *redistest.RedisServer
	commands, messages *redistest.FaultProxy
	client             *lockrt.Client
	marker             *lockrt.Lease // of a key of its own, see settle
	waiting            chan string
	key                string
}

func newSplit(t *testing.T, opts lockrt.Options) *split {
	t.Helper()
	return newSplitWithin(t, opts, 5*time.Second)
}

// newSplitWithin is newSplit for a client that takes what does not answer within timeout for dead.
func newSplitWithin(t *testing.T, opts lockrt.Options, timeout time.Duration) *split {
	t.Helper()
	if opts.OpTimeout == 0 {
		opts.OpTimeout = unhurried
	}
	s := &split{server: redistest.Server(t), key: "k"}
	s.commands, s.messages = redistest.Proxy(t, s.server.Addr()), redistest.Proxy(t, s.server.Addr())
	opts.Hooks, s.waiting, _ = watch()
	opts.Tracking = lockrt.TrackingOff // or renewals would be sent with the messages
	s.client = splitClient(t, s.commands, s.messages, opts, timeout)
	t.Cleanup(func() {
		s.commands.Deliver()
		require.NoError(t, s.client.Close())
	})
	var err error
	s.marker, err = s.client.Mutex("marker").Lock(t.Context(), lockrt.WithLease(time.Hour))
	require.NoError(t, err)
	waiter, cancel := context.WithCancel(t.Context())
	got := lockLater(waiter, s.client.Mutex("marker")) // from now on the client listens
	receive(t, s.waiting, "the waiter")
	until(t, "it listens", func() bool { return channels(t, s.server) == 1 })
	cancel()
	require.Error(t, receive(t, got, "the end").err)
	return s
}

// splitClient returns a client that takes what does not answer within timeout for dead.
func splitClient(t *testing.T, commands, messages *redistest.FaultProxy, opts lockrt.Options, timeout time.Duration) *lockrt.Client {
	t.Helper()
	var dials atomic.Int32
	rc := redistest.NewClient(t, commands.Addr(), func(o *rueidis.ClientOption) {
		o.PipelineMultiplex = -1
		o.DisableCache = true
		o.ConnWriteTimeout = timeout
		o.DialCtxFn = func(ctx context.Context, _ string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if dials.Add(1) == 1 {
				return d.DialContext(ctx, "tcp", commands.Addr())
			}
			return d.DialContext(ctx, "tcp", messages.Addr())
		}
	})
	c, err := lockrt.New(rc, opts)
	require.NoError(t, err)
	return c
}

// owner returns the one owner of a key.
func (s *split) owner(t *testing.T, key string) string {
	t.Helper()
	owners := fields(t, s.server, key)
	require.Len(t, owners, 1)
	for owner := range owners {
		return owner
	}
	return ""
}

// inLine returns the number of the client's owner in the wait queue.
func (s *split) inLine(t *testing.T) string {
	t.Helper()
	var owners []string
	until(t, "one owner is in the line", func() bool {
		var err error
		owners, err = s.server.Do("LRANGE", "lockgen_waiting:{"+s.key+"}", "0", "-1").AsStrSlice()
		require.NoError(t, err)
		return len(owners) == 1
	})
	_, n, _ := strings.Cut(owners[0], ":")
	return n
}

// tell publishes a message for the client.
func (s *split) tell(t *testing.T, message string) {
	t.Helper()
	require.EqualValues(t, 1, number(t, s.server, "PUBLISH", "lockgen_process:"+s.client.ID(), message))
}

// settle returns when the client has dealt with every message until now: they come in order, and
// the last one ends the lease of the marker.
func (s *split) settle(t *testing.T) {
	t.Helper()
	_, n, _ := strings.Cut(s.owner(t, "marker"), ":")
	s.tell(t, "taken "+n)
	receive(t, s.marker.Context().Done(), "the last message")
}

// ran returns how often scripts ran.
func (s *split) ran() int64 { return s.server.CommandStats()["evalsha"] }

// askNow has the client, which waits in the queue, ask once more. The request is held up. It reports false if it was not, since the client
// sent it over another connection: a request before had no answer in time, on a machine that stood still.
func (s *split) askNow(t *testing.T) bool {
	t.Helper()
	asked, match := make(chan struct{}, 100), asks
	s.commands.OnRequest(func(cmd []string) {
		if match(cmd) {
			asked <- struct{}{}
		}
	})
	s.commands.Blackhole(redistest.Requests)
	s.tell(t, "look "+s.inLine(t))
	select {
	case <-asked:
		return true
	case <-time.After(patience / 4):
		s.commands.Deliver()
		return false
	}
}

// stranger takes the key as a process of this library does that is not there any more.
func (s *split) stranger(ttl string) {
	s.server.Do("DEL", s.key)
	s.server.Do("HSET", s.key, "11111111-2222-8333-8444-555555555555:1", "1")
	s.server.Do("PEXPIRE", s.key, ttl)
}

const hour = "3600000"

// untrustedWhenGone fails if a lease is trusted whose key is gone, which nothing renews: not over another connection either.
func (s *split) untrustedWhenGone(t *testing.T, lease *lockrt.Lease) {
	t.Helper()
	s.messages.Blackhole(redistest.Replies | redistest.Requests)
	defer s.messages.Deliver()
	gone(t, s.server, s.key)
	require.ErrorIs(t, lease.Err(), lockrt.ErrLost, "the key is gone, and the lease is trusted")
}

func TestFault_HandedOverForLongerThanTheWatchdog(t *testing.T) {
	t.Parallel()
	short := lockrt.Options{Watchdog: time.Second} // than what is handed over has
	start := func(t *testing.T) (*split, *lockrt.Lease, <-chan locked) {
		s := newSplit(t, short)
		held, err := clientOf(t, s.server.URL(), lockrt.Options{}).Mutex(s.key).Lock(patient(t))
		require.NoError(t, err)
		got := lockLater(patient(t), s.client.Mutex(s.key))
		s.inLine(t)
		return s, held, got
	}
	t.Run("while it asks", func(t *testing.T) {
		t.Parallel()
		atBest(t, "the client heard of the hand-over in time", func() bool {
			s, held, got := start(t)
			if !s.askNow(t) {
				return false
			}
			since := time.Now()
			require.NoError(t, held.Unlock(t.Context()))
			next := <-got
			if time.Since(since) > time.Second { // it may have asked over another connection
				return false
			}
			require.NoError(t, next.err)
			ran := s.ran()
			s.commands.Deliver()
			until(t, "the request is run", func() bool { return s.ran() > ran })
			s.commands.Blackhole(redistest.Requests)
			s.untrustedWhenGone(t, next.lease)
			return true
		})
	})
	t.Run("and the answer to its renewal is lost", func(t *testing.T) {
		t.Parallel()
		atBest(t, "the client heard of the hand-over in time", func() bool {
			s, held, got := start(t)
			s.commands.Blackhole(redistest.Replies)
			since := time.Now()
			require.NoError(t, held.Unlock(t.Context()))
			next := <-got
			if time.Since(since) > time.Second { // it may have asked over another connection
				return false
			}
			require.NoError(t, next.err)
			s.untrustedWhenGone(t, next.lease)
			return true
		})
	})
}

// TestFault_LateRequestShortensNothing delays a request of a caller that gave up, with the same
// owner as that of the next caller, which holds the lock for longer.
func TestFault_LateRequestShortensNothing(t *testing.T) {
	t.Parallel()
	atBest(t, inTime, func() bool {
		s := newSplit(t, lockrt.Options{})
		s.stranger(hour)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first := lockLater(ctx, s.client.Mutex(s.key), lockrt.WithWatchdog(200*time.Millisecond))
		s.inLine(t)
		got := lockLater(patient(t), s.client.Mutex(s.key), lockrt.WithWatchdog(time.Hour))
		receive(t, s.waiting, "the first")
		receive(t, s.waiting, "the second")
		if !s.askNow(t) {
			return false
		}
		cancel()
		require.Error(t, receive(t, first, "the end").err)
		// The second is handed the lock while the request of the first is on its way.
		owner := s.server.Do("LPOP", "lockgen_waiting:{k}")
		name, err := owner.ToString()
		require.NoError(t, err)
		s.server.Do("DEL", s.key)
		s.server.Do("HSET", s.key, name, "1")
		s.server.Do("PEXPIRE", s.key, hour)
		_, n, _ := strings.Cut(name, ":")
		s.tell(t, fmt.Sprintf("granted %s %d 0", n, time.Now().UnixMicro()))
		next := receive(t, got, "the lock")
		require.NoError(t, next.err)
		ran := s.ran()
		s.commands.Deliver()
		until(t, "the request is run", func() bool { return s.ran() > ran })
		require.Greater(t, number(t, s.server, "PTTL", s.key), int64(10_000))
		require.NoError(t, next.lease.Unlock(t.Context()))
		return true
	})
}

func TestFault_LookWhileAsking(t *testing.T) {
	t.Parallel()
	s := newSplit(t, lockrt.Options{})
	s.stranger(hour)
	got := lockLater(patient(t), s.client.Mutex(s.key))
	n := s.inLine(t)
	ran := s.ran()
	s.commands.Blackhole(redistest.Replies)
	s.tell(t, "look "+n)
	until(t, "it was refused once more", func() bool { return s.ran() > ran })
	// As a release does when it is the turn of Redisson's waiters.
	s.server.Do("DEL", s.key)
	s.tell(t, "look "+n)
	s.settle(t)
	s.commands.Deliver()
	next := receive(t, got, "the lock, which is free")
	require.NoError(t, next.err)
	require.NoError(t, next.lease.Unlock(t.Context()))
}

func TestFault_ResubscribedWhileAsking(t *testing.T) {
	t.Parallel()
	s := newSplit(t, lockrt.Options{})
	s.stranger(hour)
	got := lockLater(patient(t), s.client.Mutex(s.key))
	n := s.inLine(t)
	ran := s.ran()
	s.commands.Blackhole(redistest.Replies)
	s.tell(t, "look "+n)
	until(t, "it was refused once more", func() bool { return s.ran() > ran })
	s.messages.Refuse(true)
	until(t, "nobody listens", func() bool { return channels(t, s.server) == 0 })
	s.server.Do("DEL", s.key) // nobody heard of it
	s.server.Do("DEL", "lockgen_waiting:{k}")
	s.messages.Refuse(false)
	until(t, "it listens", func() bool { return channels(t, s.server) == 1 })
	s.settle(t)
	s.commands.Deliver()
	next := receive(t, got, "the lock, which is free")
	require.NoError(t, next.err)
	require.NoError(t, next.lease.Unlock(t.Context()))
}

// TestFault_LookBeforeTheReplyToRelease has Redisson's turn end at once: nobody there wants it.
func TestFault_LookBeforeTheReplyToRelease(t *testing.T) {
	t.Parallel()
	const byItself = 2 * time.Second // after which it would ask of its own accord
	atBest(t, "did the machine have the time for it", func() bool {
		s := newSplit(t, lockrt.Options{})
		rc := s.server.NewClient()
		java, done := rc.Dedicate()
		defer done()
		java.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}})
		require.NoError(t, java.Do(t.Context(), rc.B().Subscribe().Channel("redisson_lock__channel:{k}").Build()).Error())

		held, err := s.client.Mutex(s.key).Lock(patient(t))
		require.NoError(t, err)
		waits := time.Now()
		got := lockLater(patient(t), s.client.Mutex(s.key), lockrt.WithWait(byItself*3/4), lockrt.WithWatchdog(time.Minute))
		receive(t, s.waiting, "the waiter")
		s.commands.Blackhole(redistest.Replies)
		freed := make(chan error, 1)
		go func() { freed <- held.Unlock(context.Background()) }()
		until(t, "it stands in line, or its wait is over", func() bool {
			return len(got) > 0 || number(t, s.server, "LLEN", "lockgen_waiting:{k}") == 1
		})
		s.settle(t)
		s.commands.Deliver()
		settled := time.Since(waits)
		require.NoError(t, receive(t, freed, "the reply"))
		next := receive(t, got, "the lock, which is free")
		if next.err != nil && settled > byItself/4 {
			return false
		}
		require.NoError(t, next.err)
		require.NoError(t, next.lease.Unlock(t.Context()))
		return true
	})
}

func TestFault_GrantOlderThanARefusal(t *testing.T) {
	t.Parallel()
	s := newSplit(t, lockrt.Options{})
	s.stranger(hour)
	clock, err := s.server.Do("TIME").AsIntSlice()
	require.NoError(t, err)
	got := lockLater(patient(t), s.client.Mutex(s.key))
	n := s.inLine(t)
	s.tell(t, fmt.Sprintf("granted %s %d 0", n, clock[0]*1_000_000+clock[1]))
	s.settle(t)
	require.Equal(t, "11111111-2222-8333-8444-555555555555:1", s.owner(t, s.key))
	require.Empty(t, got, "Redis has it for somebody else")
	s.server.Do("DEL", s.key)
	s.tell(t, "look "+n)
	next := receive(t, got, "the lock")
	require.NoError(t, next.err)
	require.NoError(t, next.lease.Unlock(t.Context()))
}

func TestFault_RefusalAfterAGrantIsBelieved(t *testing.T) {
	t.Parallel()
	atBest(t, inTime, func() bool {
		s := newSplit(t, lockrt.Options{})
		held, err := clientOf(t, s.server.URL(), lockrt.Options{}).Mutex(s.key).Lock(patient(t))
		require.NoError(t, err)
		got := lockLater(patient(t), s.client.Mutex(s.key))
		s.inLine(t)
		if !s.askNow(t) {
			return false
		}
		since := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		next := receive(t, got, "the lock")
		require.NoError(t, next.err)
		s.stranger(hour)
		ran := s.ran()
		s.commands.Deliver()
		until(t, "the request is run", func() bool { return s.ran() > ran })
		s.commands.Blackhole(redistest.Requests)
		receive(t, next.lease.Context().Done(), "the loss")
		if time.Since(since) > time.Second { // it may have ended by itself
			return false
		}
		require.ErrorContains(t, next.lease.Err(), "taken by somebody else", "as the server said")
		s.commands.Deliver()
		require.ErrorIs(t, next.lease.Unlock(t.Context()), lockrt.ErrLost)
		inLine(t, s.server, s.key, 0)
		s.server.Do("DEL", s.key)
		return true
	})
}

func TestFault_TakenWhileTheNextRequestIsUnderWay(t *testing.T) {
	t.Parallel()
	atBest(t, inTime, func() bool {
		s := newSplit(t, lockrt.Options{})
		held, err := clientOf(t, s.server.URL(), lockrt.Options{}).Mutex(s.key).Lock(patient(t))
		require.NoError(t, err)
		got := lockLater(patient(t), s.client.Mutex(s.key))
		s.inLine(t)
		if !s.askNow(t) {
			return false
		}
		since := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		next := receive(t, got, "the lock")
		require.NoError(t, next.err)
		taken, err := clientOf(t, s.server.URL(), lockrt.Options{}).Mutex(s.key).ForceUnlock(patient(t))
		require.NoError(t, err)
		if !taken && time.Since(since) > time.Second { // it has ended by itself
			return false
		}
		require.True(t, taken)
		receive(t, next.lease.Context().Done(), "the loss")
		require.ErrorIs(t, next.lease.Unlock(t.Context()), lockrt.ErrLost)
		ran := s.ran()
		s.commands.Deliver()
		until(t, "the request is run", func() bool { return s.ran() > ran })
		gone(t, s.server, s.key) // long before a watchdog time
		return true
	})
}

func TestFault_FirstInLineIsGoneAtRedissonsTurn(t *testing.T) {
	t.Parallel()
	s := newSplit(t, lockrt.Options{})
	rc := s.server.NewClient()
	java, done := rc.Dedicate()
	defer done()
	java.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}})
	require.NoError(t, java.Do(t.Context(), rc.B().Subscribe().Channel("redisson_lock__channel:{k}").Build()).Error())

	other := clientOf(t, s.server.URL(), lockrt.Options{})
	held, err := other.Mutex(s.key).Lock(patient(t))
	require.NoError(t, err)
	mine := lockLater(patient(t), s.client.Mutex(s.key))
	s.inLine(t)
	require.NoError(t, held.Unlock(t.Context()))
	next := receive(t, mine, "the lock, handed over: the next turn is Redisson's")
	require.NoError(t, next.err)
	s.server.Do("PEXPIRE", s.key, hour)                                                   // or the end of the hand-over lease would explain it
	s.server.Do("RPUSH", "lockgen_waiting:{k}", "99999999-2222-8333-8444-555555555555:1") // it is gone
	got := lockLater(patient(t), other.Mutex(s.key))
	inLine(t, s.server, s.key, 2)
	require.NoError(t, next.lease.Unlock(t.Context()))
	last := receive(t, got, "the lock")
	require.NoError(t, last.err)
	require.NoError(t, last.lease.Unlock(t.Context()))
}

func TestFault_WhoDoesNotWaitAsksForNobodyElse(t *testing.T) {
	t.Parallel()
	atBest(t, "had none of them a request sent", func() bool { // that a subscription was confirmed may have had one, and others a slow machine
		s := newSplit(t, unwatched)
		held, err := clientOf(t, s.server.URL(), unwatched).Mutex(s.key).Lock(patient(t))
		require.NoError(t, err)
		m := s.client.Mutex(s.key)
		got := lockLater(patient(t), m)
		s.inLine(t)
		receive(t, s.waiting, "the waiter")
		asked := make(chan struct{}, 1000)
		s.commands.OnRequest(func(cmd []string) {
			if asks(cmd) {
				asked <- struct{}{}
			}
		})
		for range 50 {
			_, err := m.TryLock(t.Context())
			require.ErrorIs(t, err, lockrt.ErrNotAcquired)
		}
		require.NoError(t, held.Unlock(t.Context()))
		next := receive(t, got, "the lock")
		require.NoError(t, next.err)
		require.NoError(t, next.lease.Unlock(t.Context()))
		return len(asked) <= 1
	})
}

func TestFault_LateRenewalTakesBackNoExtension(t *testing.T) {
	t.Parallel()
	// The lease is renewed after 3 s. The connection is given up at most 3 s later, and the trust ends after 8 s.
	atBest(t, "was the renewal held up, and the lease extended while it was trusted", func() bool {
		s := newSplitWithin(t, lockrt.Options{Watchdog: 9 * time.Second}, time.Second)
		lease, err := s.client.Mutex(s.key).Lock(patient(t))
		require.NoError(t, err)
		renewing, match := make(chan struct{}, 100), redistest.EvalSHA(scripts.Renew.SHA1())
		s.commands.OnRequest(func(cmd []string) {
			if match(cmd) {
				s.commands.Blackhole(redistest.Requests) // not before: any other request that is held up could end the connection
				renewing <- struct{}{}
			}
		})
		select {
		case <-renewing:
		case <-time.After(patience / 2): // the connection was given up before that
			return false
		}
		extended := false
		until(t, "it is extended over a new connection, unless it is lost before that", func() bool {
			extended = lease.Extend(t.Context(), time.Hour) == nil
			return extended || lease.Err() != nil
		})
		if !extended {
			return false
		}
		ran := s.ran()
		s.commands.Deliver()
		until(t, "the renewal is run", func() bool { return s.ran() > ran })
		require.NoError(t, lease.Err())
		require.Greater(t, number(t, s.server, "PTTL", s.key), int64(60_000))
		require.NoError(t, lease.Unlock(t.Context()))
		return true
	})
}

// TestFault_TrustNeverOverlaps has processes of short watchdogs and leases contend while their
// connections stall, each for itself, and are cut. Whatever expires, is handed over or comes late:
// no earlier holder of a key trusts in it when a process gets it.
func TestFault_TrustNeverOverlaps(t *testing.T) {
	t.Parallel()
	const clients, goroutines, keys, length = 4, 3, 3, 8 * time.Second
	server := redistest.Server(t)
	terms := []lockrt.LockOption{
		lockrt.WithWatchdog(150 * time.Millisecond), lockrt.WithWatchdog(400 * time.Millisecond), lockrt.WithWatchdog(time.Second),
		lockrt.WithWatchdog(5 * time.Second), lockrt.WithLease(200 * time.Millisecond), lockrt.WithLease(time.Second),
	}
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var last [keys]atomic.Pointer[lockrt.Lease]
	var grants atomic.Int64
	wrong := make(chan string, 10000)
	pause := func(d time.Duration) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	turn := func(c *lockrt.Client) {
		k := rand.IntN(keys)
		wait, giveUp := context.WithTimeout(ctx, rand.N(3*time.Second))
		defer giveUp()
		lease, err := c.Mutex(strconv.Itoa(k)).Lock(wait, terms[rand.IntN(len(terms))])
		if err != nil {
			return
		}
		grants.Add(1)
		before := last[k].Swap(lease)
		if before != nil && before.Err() == nil && lease.Err() == nil {
			wrong <- fmt.Sprintf("key %d: the one before is trusted until %v, the new one until %v", k, time.Until(before.Until()), time.Until(lease.Until()))
		}
		if rand.IntN(50) == 0 {
			if rand.IntN(2) == 0 {
				_ = lease.Extend(wait, rand.N(2*time.Second)+100*time.Millisecond)
			}
			pause(rand.N(1500 * time.Millisecond))
		}
		_ = lease.Unlock(ctx)
	}
	var wg sync.WaitGroup
	all := make([]*lockrt.Client, clients)
	for i := range all {
		lines := []*redistest.FaultProxy{redistest.Proxy(t, server.Addr()), redistest.Proxy(t, server.Addr())}
		all[i] = splitClient(t, lines[0], lines[1], lockrt.Options{Watchdog: time.Second, OpTimeout: unhurried, Cohort: 1 + 2*i}, 400*time.Millisecond)
		for range goroutines {
			wg.Go(func() {
				for ctx.Err() == nil {
					turn(all[i])
				}
			})
		}
		for _, proxy := range lines {
			wg.Go(func() {
				for ctx.Err() == nil {
					pause(rand.N(1500 * time.Millisecond))
					switch rand.IntN(5) {
					case 0:
						proxy.Cut()
					case 1:
						proxy.Blackhole(redistest.Both)
					case 2, 3:
						proxy.Blackhole(redistest.Replies)
					default:
						proxy.Blackhole(redistest.Requests)
					}
					pause(rand.N(600 * time.Millisecond))
					proxy.Deliver()
				}
			})
		}
	}
	wg.Wait()
	close(wrong)
	for w := range wrong {
		t.Error(w)
	}
	require.Positive(t, grants.Load())
	t.Log(grants.Load(), "grants")
	for _, c := range all {
		require.NoError(t, c.Shutdown(t.Context()))
		until(t, "no key has a resource", func() bool { return lockrt.Resources(c) == 0 })
	}
	for k := range keys {
		gone(t, server, strconv.Itoa(k))
	}
}

// TestFault_ClosingWithAHandOverUnderWay leaves nothing behind, neither in the key nor in the line.
func TestFault_ClosingWithAHandOverUnderWay(t *testing.T) {
	t.Parallel()
	// Each returns with something under way that Deliver of both proxies lets come to its end, or nil if there is nothing.
	states := map[string]func(t *testing.T, s *split) <-chan locked{
		"in line": func(t *testing.T, s *split) <-chan locked {
			s.stranger(hour)
			got := lockLater(patient(t), s.client.Mutex(s.key))
			s.inLine(t)
			s.server.Do("DEL", s.key) // and nobody says so
			return got
		},
		"in line, asking again": func(t *testing.T, s *split) <-chan locked {
			s.stranger(hour)
			got := lockLater(patient(t), s.client.Mutex(s.key))
			s.inLine(t)
			if !s.askNow(t) {
				return nil
			}
			s.server.Do("DEL", s.key) // it will be granted
			return got
		},
		"handed over, not heard of": func(t *testing.T, s *split) <-chan locked {
			held, err := clientOf(t, s.server.URL(), lockrt.Options{}).Mutex(s.key).Lock(patient(t))
			require.NoError(t, err)
			got := lockLater(patient(t), s.client.Mutex(s.key))
			s.inLine(t)
			s.messages.Blackhole(redistest.Replies)
			require.NoError(t, held.Unlock(t.Context()))
			return got
		},
		"handed over, and asking for all of a fixed lease": func(t *testing.T, s *split) <-chan locked {
			held, err := clientOf(t, s.server.URL(), lockrt.Options{}).Mutex(s.key).Lock(patient(t))
			require.NoError(t, err)
			got := lockLater(patient(t), s.client.Mutex(s.key), lockrt.WithLease(time.Hour))
			s.inLine(t)
			s.commands.Blackhole(redistest.Requests)
			require.NoError(t, held.Unlock(t.Context()))
			s.settle(t)
			return got
		},
		"releasing, and kept": func(t *testing.T, s *split) <-chan locked {
			held, err := s.client.Mutex(s.key).Lock(patient(t))
			require.NoError(t, err)
			got := lockLater(patient(t), s.client.Mutex(s.key), lockrt.WithWatchdog(time.Hour))
			receive(t, s.waiting, "the waiter")
			ran := s.ran()
			s.commands.Blackhole(redistest.Replies)
			go func() { _ = held.Unlock(context.Background()) }()
			until(t, "it is kept", func() bool { return s.ran() > ran })
			return got
		},
		"releasing, and in line again": func(t *testing.T, s *split) <-chan locked {
			held, err := s.client.Mutex(s.key).Lock(patient(t))
			require.NoError(t, err)
			other := lockLater(patient(t), clientOf(t, s.server.URL(), lockrt.Options{}).Mutex(s.key))
			s.inLine(t)
			got := lockLater(patient(t), s.client.Mutex(s.key), lockrt.WithWatchdog(time.Hour))
			receive(t, s.waiting, "the waiter")
			s.commands.Blackhole(redistest.Replies)
			go func() { _ = held.Unlock(context.Background()) }()
			next := receive(t, other, "the lock")
			require.NoError(t, next.err)
			require.NoError(t, next.lease.Unlock(t.Context()), "given back to the one that is closed")
			return got
		},
	}
	for name, end := range closings() {
		for what, begin := range states {
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				atBest(t, inTime, func() bool {
					s := newSplit(t, lockrt.Options{OpTimeout: patience})
					waiting := begin(t, s)
					if waiting == nil {
						return false
					}
					closed := make(chan error, 1)
					if name == "shutdown" {
						go func() { _ = s.marker.Unlock(context.Background()) }()
					}
					go func() { closed <- end(s.client) }()
					waiter := receive(t, waiting, "the end")
					s.commands.Deliver()
					s.messages.Deliver()
					if waiter.err == nil { // it was faster
						_ = waiter.lease.Unlock(t.Context())
					}
					require.NoError(t, receive(t, closed, "the end of "+name))
					gone(t, s.server, s.key)
					gone(t, s.server, "lockgen_waiting:{k}")
					return true
				})
			})
		}
	}
}
