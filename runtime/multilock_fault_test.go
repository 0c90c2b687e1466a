package lockrt_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestMultiLock_AllOrNoneUnderFaults has processes lock random subsets of keys of two servers, in random order and
// giving up now and then, while replies and requests get lost, connections break and servers cannot be reached, also
// while what was got is released. A holder of the lock has every member, all calls end, and nothing stays locked: what
// is forgotten would be for a minute.
func TestMultiLock_AllOrNoneUnderFaults(t *testing.T) {
	t.Parallel()
	const keys, processes, goroutines, rounds = 4, 3, 2, 25
	servers := []*redistest.RedisServer{redistest.Server(t), redistest.Server(t)}
	var proxies []*redistest.FaultProxy
	for _, s := range servers {
		proxies = append(proxies, redistest.Proxy(t, s.Addr()))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var holders [2][keys]atomic.Int32
	var granted, lost atomic.Int32
	work := func(clients []*lockrt.Client) {
		for range rounds {
			var lockers []lockrt.Locker
			var mine []*atomic.Int32
			for _, i := range rand.Perm(2 * keys)[:2+rand.N(3)] {
				lockers = append(lockers, clients[i%2].Mutex(strconv.Itoa(i/2)))
				mine = append(mine, &holders[i%2][i/2])
			}
			ctx, cancel := ctx, context.CancelFunc(func() {})
			if rand.N(3) == 0 {
				ctx, cancel = context.WithTimeout(ctx, rand.N(50*time.Millisecond))
			}
			lease, err := lockrt.NewMultiLock(lockers...).Lock(ctx)
			cancel()
			if err != nil {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("lock: %v", err)
				}
				continue
			}
			granted.Add(1)
			parts := lease.Parts()
			if len(parts) != len(lockers) {
				t.Errorf("%d parts of %d", len(parts), len(lockers))
			}
			for _, n := range mine {
				if n.Add(1) != 1 {
					t.Error("a key is held twice")
				}
			}
			for _, part := range parts {
				server := servers[0]
				if part.Client() == clients[1] {
					server = servers[1]
				}
				if n, err := server.Try("HLEN", part.Key()); err != nil {
					t.Error(err)
				} else if has, _ := n.AsInt64(); has != 1 && lease.Err() == nil {
					t.Errorf("member %q is not locked", part.Key())
				}
			}
			switch err := lease.Err(); {
			case errors.Is(err, lockrt.ErrLost): // a member that was handed over lasts for 2s, in which no renewal may come through
				t.Logf("lost: %v", err)
				lost.Add(1)
			case err != nil:
				t.Errorf("held: %v", err)
			}
			for _, n := range mine {
				n.Add(-1)
			}
			_ = lease.Unlock(context.Background()) // it may be unknown how it ended
		}
	}
	var wg sync.WaitGroup
	for range processes {
		var clients []*lockrt.Client
		for _, p := range proxies {
			clients = append(clients, clientOf(t, p.URL(), lockrt.Options{Watchdog: time.Minute}))
		}
		for range goroutines {
			wg.Go(func() { work(clients) })
		}
	}
	over := make(chan struct{})
	var breaking sync.WaitGroup
	for _, p := range proxies {
		scripts := redistest.Command("EVALSHA")
		lossy := func(share float64) func([]string) bool {
			return func(cmd []string) bool { return scripts(cmd) && rand.Float64() < share }
		}
		replies, requests := p.DropReply(lossy(0.05), 0, redistest.Close), p.DropRequest(lossy(0.05), 0, redistest.Close)
		breaking.Go(func() {
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for heal := func() {}; ; {
				select {
				case <-tick.C:
				case <-over:
					heal()
					replies.Stop()
					requests.Stop()
					return
				}
				heal()
				switch rand.N(4) {
				case 0:
					p.Cut()
					heal = func() {}
				case 1:
					p.Refuse(true)
					p.Cut()
					heal = func() { p.Refuse(false) }
				case 2:
					p.Blackhole(redistest.Both)
					heal = p.Deliver
				default:
					heal = func() {}
				}
			}
		})
	}
	wg.Wait()
	close(over)
	breaking.Wait()
	t.Logf("%d grants", granted.Load())
	require.Positive(t, granted.Load())
	require.LessOrEqual(t, lost.Load(), granted.Load()/20, "losses")
	for _, server := range servers {
		for i := range keys {
			gone(t, server, strconv.Itoa(i))
		}
	}
}

// TestMultiLock_WaitEndsWithoutAnswers shows that a wait ends a second late at most while the server is mute, as that of one Mutex does, although the
// server has a minute to answer.
func TestMultiLock_WaitEndsWithoutAnswers(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	for name, keys := range map[string][]string{"one": {"a"}, "several": {"a", "b", "c"}} {
		proxy := redistest.Proxy(t, server.Addr())
		c := clientOf(t, proxy.URL(), lockrt.Options{OpTimeout: time.Minute})
		var all []lockrt.Locker
		for _, key := range keys {
			all = append(all, c.Mutex(key))
		}
		m := lockrt.NewMultiLock(all...)
		lease, err := m.Lock(patient(t))
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(patient(t)))
		proxy.Blackhole(redistest.Both)
		got := later(func() error {
			_, err := m.Lock(context.Background(), lockrt.WithWait(100*time.Millisecond))
			return err
		})
		err = receive(t, got, name+": the end of the wait")
		require.ErrorIs(t, err, lockrt.ErrUnavailable, name)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "that of the caller has not ended")
		require.ErrorContains(t, err, " after ", name)
		proxy.Deliver()
		lease, err = m.Lock(patient(t))
		require.NoError(t, err, "%s: nothing stays behind", name)
		require.NoError(t, lease.Unlock(patient(t)))
	}
}

// TestMultiLock_AWaitTakesOneRequest shows that a wait, of whatever length, makes a call for several free keys of one server no more requests.
func TestMultiLock_AWaitTakesOneRequest(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{})
	m := lockrt.NewMultiLock(c.Mutex("a"), c.Mutex("b"), c.Mutex("c"))
	for _, wait := range []time.Duration{0, 200 * time.Millisecond, time.Hour, math.MaxInt64 - time.Second, math.MaxInt64} {
		atBest(t, "was no request sent again", func() bool {
			before := server.CommandStats()["evalsha"]
			lease, err := m.Lock(patient(t), lockrt.WithWait(wait))
			require.NoError(t, err, wait)
			sent := server.CommandStats()["evalsha"] - before
			require.NoError(t, lease.Unlock(patient(t)))
			return sent == 1
		})
	}
}

// TestMultiLock_ALossHidesNoOtherFailure shows that the unlock of a lost MultiLock says that another member is not given back, too.
func TestMultiLock_ALossHidesNoOtherFailure(t *testing.T) {
	t.Parallel()
	taken, silent := redistest.Server(t), redistest.Server(t)
	proxy := redistest.Proxy(t, silent.Addr())
	one, other := clientOf(t, taken.URL(), lockrt.Options{}), clientOf(t, proxy.URL(), lockrt.Options{OpTimeout: time.Second})
	lease, err := lockrt.NewMultiLock(one.Mutex("a"), other.Mutex("b")).Lock(patient(t))
	require.NoError(t, err)
	forced, err := one.Mutex("a").ForceUnlock(patient(t))
	require.NoError(t, err)
	require.True(t, forced)
	receive(t, lease.Context().Done(), "the loss")
	proxy.Blackhole(redistest.Both)
	err = lease.Unlock(t.Context())
	require.ErrorIs(t, err, lockrt.ErrLost)
	require.ErrorContains(t, err, "no answer within 1s")
	proxy.Deliver()
}
