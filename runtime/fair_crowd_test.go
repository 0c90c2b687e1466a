package lockrt_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// This file is about fair locks whose waiters leave, by themselves, all at once or with their process, and about those whose
// requests are not answered.

// A fairCrowd is a fair lock that holder has, which waiter, behind a proxy, and other want.
type fairCrowd struct {
	server                *redistest.RedisServer
	proxy                 *redistest.FaultProxy
	holder, waiter, other *lockrt.FairMutex
	client                *lockrt.Client // of waiter
	held                  *lockrt.Lease
}

// muteFor is how long a request of waiter's may be unanswered before its connection is given up.
const muteFor = 5 * time.Second

func newFairCrowd(t *testing.T) *fairCrowd {
	t.Helper()
	server := redistest.Server(t)
	c := &fairCrowd{server: server, proxy: redistest.Proxy(t, server.Addr())}
	c.client = clientOf(t, c.proxy.URL(), lockrt.Options{OpTimeout: 4 * muteFor})
	direct := func() *lockrt.FairMutex {
		return clientOf(t, server.URL(), lockrt.Options{Tracking: lockrt.TrackingOff}).FairMutex("k")
	}
	c.holder, c.other = direct(), direct()
	c.waiter = c.client.FairMutex("k")
	free(t, ok(t)(c.waiter.Lock(patient(t)))) // it listens
	c.held = ok(t)(c.holder.Lock(patient(t)))
	ctx, leave := context.WithCancel(patient(t))
	waits := lockLater(ctx, c.waiter)
	until(t, "it has a second connection", func() bool { return tracks(t, server) })
	leave()
	receive(t, waits, "the one that leaves")
	c.queued(t, 0)
	return c
}

// queued waits until n stand in the queue.
func (c *fairCrowd) queued(t *testing.T, n int64) {
	t.Helper()
	until(t, "they stand in the queue", func() bool { return number(t, c.server, "LLEN", "redisson_lock_queue:{k}") == n })
}

// mute has the next request for the lock not answered, and nothing after it on that connection.
func (c *fairCrowd) mute() {
	c.proxy.DropReply(redistest.EvalSHA(scripts.FairAcquire.SHA1()), 1, redistest.Mute)
}

func TestFairMutex_IsGivenBackBehindARequestThatIsNotAnswered(t *testing.T) {
	t.Parallel()
	atBest(t, "it is given back before it runs out, in 2s", func() bool {
		c := newFairCrowd(t)
		c.mute()
		first := lockLater(patient(t), c.waiter)
		c.queued(t, 1)
		second := lockLater(patient(t), c.other)
		c.queued(t, 2)
		free(t, c.held)
		handed := gotten(t, first, "the waiter that got it by a message")
		since := time.Now()
		go func() { _ = handed.Unlock(context.Background()) }()
		free(t, gotten(t, second, "the next"))
		return time.Since(since) < 1500*time.Millisecond
	})
}

func TestFairMutex_WhatIsGrantedToOneThatHasLeftGoesOn(t *testing.T) {
	t.Parallel()
	for _, local := range []bool{false, true} {
		atBest(t, "it takes less than 2s, the lease of one that does not come", func() bool {
			c := newFairCrowd(t)
			c.mute()
			ctx, leave := context.WithCancel(patient(t))
			first := lockLater(ctx, c.waiter)
			c.queued(t, 1)
			m := c.other
			if local {
				m = c.waiter
			}
			second := lockLater(patient(t), m)
			c.queued(t, 2)
			leave()
			require.ErrorIs(t, receive(t, first, "the call that leaves").err, context.Canceled)
			since := time.Now()
			free(t, c.held)
			lease := gotten(t, second, "the next")
			took := time.Since(since)
			go func() { _ = lease.Unlock(context.Background()) }()
			return took < 1500*time.Millisecond
		})
	}
}

// A process that is cut off costs the lease of one that does not come, however many of it wait, and also if the waiter gives up that was
// to ask then.
func TestFairMutex_ASilentProcessCostsOneLease(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ silent, leaving int }{"some wait": {10, 0}, "many wait": {100, 0}, "the next gives up": {1, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newFairCrowd(t)
			later := func(m *lockrt.FairMutex, n int) func() {
				ctx, leave := context.WithCancel(patient(t))
				got := manyLater(ctx, n, m)
				return func() {
					leave()
					for range n {
						require.ErrorIs(t, receive(t, got, "one that leaves").err, context.Canceled)
					}
				}
			}
			silent := later(c.waiter, test.silent)
			c.queued(t, int64(test.silent))
			other := clientOf(t, c.server.URL(), lockrt.Options{}).FairMutex("k")
			leaving := later(other, test.leaving)
			c.queued(t, int64(test.silent+test.leaving))
			next := lockLater(patient(t), other)
			askTwice(t, c.server, "k", test.silent+test.leaving+1)
			c.proxy.Blackhole(redistest.Both)
			since := time.Now()
			free(t, c.held)
			leaving()
			free(t, gotten(t, next, "the waiter that is there"))
			require.Less(t, time.Since(since), 6*time.Second)
			c.proxy.Deliver()
			silent()
		})
	}
}

// askTwice waits until n waiters have asked for a second: then they listen to Redisson's channels.
func askTwice(t *testing.T, server *redistest.RedisServer, key string, n int) {
	t.Helper()
	until(t, "they have asked twice", func() bool {
		all, err := server.Do("PUBSUB", "CHANNELS", "redisson_lock__channel:{"+key+"}:*").AsStrSlice()
		require.NoError(t, err)
		return len(all) == n
	})
}

// Those behind one of a process that died, or is mute, have asked long ago. They learn of it in time all the same.
func TestFairMutex_ADeadWaiterIsPassedOverByThoseWhoHaveAskedLongAgo(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(p *redistest.FaultProxy){
		"dead": func(p *redistest.FaultProxy) { p.Refuse(true); p.Cut() },
		"mute": func(p *redistest.FaultProxy) { p.Blackhole(redistest.Both) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, lockrt.Options{})
			m := newClient(t, lockrt.Options{}).FairMutex(l.key)
			lease := ok(t)(m.Lock(patient(t)))
			ctx, cancel := context.WithCancel(patient(t))
			defer cancel()
			dead := lockLater(ctx, l.client.FairMutex(l.key))
			until(t, "it waits", func() bool { return len(fairQueue(t, l.server, l.key)) == 1 })
			next := queued(t, l.server, newClient(t, lockrt.Options{}).FairMutex(l.key), 2)
			askTwice(t, l.server, l.key, 2)
			harm(l.proxy)
			if name == "dead" {
				until(t, "the server knows", func() bool { return subscribers(t, l.server, "lockgen_process:"+l.client.ID()) == 0 })
			}
			start := time.Now()
			free(t, lease)
			free(t, gotten(t, next, "the waiter behind it"))
			require.Less(t, time.Since(start), 15*time.Second, "sooner than it asks by itself")
			cancel()
			l.proxy.Refuse(false)
			l.proxy.Deliver()
			require.ErrorIs(t, receive(t, dead, "the dead").err, context.Canceled)
			nothingLeft(t, l.server, l.key)
		})
	}
}

// A Java thread behind one that died would ask, again and again, if it was told so before it is its turn. The releasing
// process prevents that, also if the reply to its release is lost: the reply to the next one does not say whose turn it is.
func TestFairMutex_AJavaThreadBehindTheDeadIsTold(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ lost, forced, two, gone bool }{
		"the reply comes":       {},
		"the lock is gone":      {gone: true}, // so the release does not free it
		"the reply is lost":     {lost: true},
		"a forced unlock":       {forced: true},
		"dead of two processes": {two: true}, // when the time of the first is over, it is the turn of the second
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, key := redistest.Shared(t), redistest.Key(t, "k")
			proxy := redistest.Proxy(t, server.Addr())
			m := clientOf(t, proxy.URL(), lockrt.Options{}).FairMutex(key)
			free(t, ok(t)(m.Lock(patient(t)))) // else the lost reply says that there is no such script
			var lease *lockrt.Lease
			if tt.forced {
				server.Do("HSET", key, "4c0e6e4c-6a6f-4a8e-9d5c-000000000000:1", "1")
			} else {
				lease = ok(t)(m.Lock(patient(t)))
			}
			dead := []*line{newLine(t, lockrt.Options{})}
			if tt.two {
				dead = append(dead, newLine(t, lockrt.Options{}))
			}
			ctx, cancel := context.WithCancel(patient(t))
			defer cancel()
			var calls []<-chan locked
			for i, l := range dead {
				calls = append(calls, lockLater(ctx, l.client.FairMutex(key)))
				until(t, "it waits", func() bool { return len(fairQueue(t, server, key)) == i+1 })
			}
			for _, l := range dead {
				l.proxy.Refuse(true)
				l.proxy.Cut()
				until(t, "the server knows", func() bool { return subscribers(t, server, "lockgen_process:"+l.client.ID()) == 0 })
			}
			server.Do("RPUSH", "redisson_lock_queue:{"+key+"}", stranger)
			server.Do("ZADD", "redisson_lock_timeout:{"+key+"}", strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10), stranger)
			told := listen(t, "redisson_lock__channel:{"+key+"}:"+stranger)
			if tt.lost {
				drop := proxy.DropReply(redistest.EvalSHA(scripts.FairRelease.SHA1()), 1, redistest.Close)
				defer func() { receive(t, drop.Done(), "the loss") }()
			}
			switch {
			case tt.forced:
				had, err := newClient(t, lockrt.Options{}).FairMutex(key).ForceUnlock(patient(t))
				require.NoError(t, err)
				require.True(t, had)
			case tt.gone:
				server.Do("DEL", key)
				require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)
			default:
				free(t, lease)
			}
			require.Equal(t, "0", receive(t, told, "that it is its turn"))
			require.Equal(t, []string{stranger}, fairQueue(t, server, key))
			server.Do("DEL", "redisson_lock_queue:{"+key+"}", "redisson_lock_timeout:{"+key+"}")
			cancel()
			for i, l := range dead {
				require.ErrorIs(t, receive(t, calls[i], "the dead").err, context.Canceled)
				l.proxy.Refuse(false)
			}
			nothingLeft(t, server, key)
		})
	}
}

// Callers that give up at once, again and again, still get the lock: a new call takes the place of one that left.
func TestFairMutex_IsGrantedInAStormOfThoseWhoGiveUp(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	var grants atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan struct{}, 16)
	var sides []*lockrt.FairMutex
	for range 2 {
		proxy := redistest.Proxy(t, server.Addr())
		sides = append(sides, clientOf(t, proxy.URL(), lockrt.Options{OpTimeout: patience / 2}).FairMutex("k"))
		proxy.Delay(5 * time.Millisecond) // nobody waits for as long as an answer takes
	}
	for _, m := range sides {
		for range cap(ended) / 2 {
			go func() {
				defer func() { ended <- struct{}{} }()
				for ctx.Err() == nil {
					try, cancel := context.WithTimeout(ctx, 3*time.Millisecond)
					if lease, err := m.Lock(try); err == nil {
						grants.Add(1)
						_ = lease.Unlock(context.Background())
					}
					cancel()
				}
			}()
		}
	}
	until(t, "it is granted again and again", func() bool { return grants.Load() >= 20 })
	stop()
	for range cap(ended) {
		receive(t, ended, "the end of one that gives up")
	}
	nothingLeft(t, server, "k")
}

// Many that leave at once leave together.
func TestFairMutex_ManyLeaveWithFewRequests(t *testing.T) {
	t.Parallel()
	const many = 300
	c := newFairCrowd(t)
	ctx, leave := context.WithCancel(patient(t))
	got := manyLater(ctx, many, c.waiter)
	c.queued(t, many)
	var requests atomic.Int64
	leaves := redistest.EvalSHA(scripts.FairRelease.SHA1(), scripts.FairLeave.SHA1())
	c.proxy.OnRequest(func(cmd []string) {
		if leaves(cmd) {
			requests.Add(1)
		}
	})
	leave()
	for range many {
		require.ErrorIs(t, receive(t, got, "one that leaves").err, context.Canceled)
	}
	c.queued(t, 0)
	require.Less(t, requests.Load(), int64(many/4))
	free(t, c.held)
	nothingLeft(t, c.server, "k")
}
