package lockrt_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A throng locks and unlocks some keys all the time, from two clients.
type throng struct {
	keys map[string]*place
	stop chan struct{}
	wg   sync.WaitGroup

	mu     sync.Mutex
	failed []string
}

// A place is one key of a throng.
type place struct {
	inside atomic.Int64
	turns  atomic.Int64
	lost   atomic.Int64
	meets  atomic.Int64 // times that two held it
}

// gather lets a throng begin, which stops when the test ends, or before.
func gather(t *testing.T, cluster *redistest.RedisCluster, opts lockrt.Options, makes func(*lockrt.Client, string) lockrt.Locker, keys ...string) *throng {
	t.Helper()
	c := &throng{keys: map[string]*place{}, stop: make(chan struct{})}
	opts.Cohort = 1 // every turn is asked for
	ctx, cancel := context.WithCancel(context.Background())
	for _, key := range keys {
		c.keys[key] = &place{}
	}
	for range 2 {
		client := inCluster(t, cluster, opts)
		for _, key := range keys {
			for range 2 {
				c.wg.Go(func() { c.work(ctx, makes(client, key), c.keys[key]) })
			}
		}
	}
	t.Cleanup(func() { c.over(t); cancel() })
	return c
}

func (c *throng) fail(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.failed) < 10 {
		c.failed = append(c.failed, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
	}
}

func (c *throng) work(ctx context.Context, l lockrt.Locker, p *place) {
	for {
		select {
		case <-c.stop:
			return
		default:
		}
		lease, err := l.Lock(ctx, unexpiring)
		if err != nil {
			c.fail("lock %s: %v", l.Key(), err)
			continue
		}
		if p.inside.Add(1) != 1 {
			p.meets.Add(1)
		}
		p.turns.Add(1)
		p.inside.Add(-1)
		switch err := lease.Unlock(ctx); {
		case errors.Is(err, lockrt.ErrLost):
			p.lost.Add(1)
		case err != nil:
			c.fail("unlock %s: %v", l.Key(), err)
		}
	}
}

// over ends the throng and returns what failed.
func (c *throng) over(t *testing.T) []string {
	t.Helper()
	select {
	case <-c.stop:
	default:
		close(c.stop)
	}
	done := make(chan struct{})
	go func() { c.wg.Wait(); close(done) }()
	receive(t, done, "everybody to have had his last turn")
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// goesOn waits until each key had some more turns, and returns how long that took.
func (c *throng) goesOn(t *testing.T, turns int64, keys ...string) time.Duration {
	t.Helper()
	start := time.Now()
	for _, key := range keys {
		p := c.keys[key]
		before := p.turns.Load()
		until(t, "more turns of "+key, func() bool { return p.turns.Load() >= before+turns })
	}
	return time.Since(start)
}

// spread returns a key of each master.
func spread(t *testing.T, cluster *redistest.RedisCluster) []string {
	t.Helper()
	var keys []string
	for _, node := range cluster.Nodes()[:3] {
		for i := 0; ; i++ {
			if key := fmt.Sprintf("k%d", i); cluster.Master(key).Addr() == node.Addr() {
				keys = append(keys, key)
				break
			}
		}
	}
	return keys
}

func TestCluster_SlotsMoveUnderTraffic(t *testing.T) {
	t.Parallel()
	for kind, makes := range exclusives {
		for name, pubsub := range pubSubs {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				cluster := redistest.Cluster(t)
				c := gather(t, cluster, lockrt.Options{PubSub: pubsub}, makes, "{k}1", "{k}2", "other")
				c.goesOn(t, 20, "{k}1", "{k}2", "other")
				for i := range 6 {
					m := cluster.Move(cluster.Slot("{k}1"), cluster.Nodes()[i%3])
					if i%2 == 0 {
						c.goesOn(t, 20, "other")
					}
					m.Keys()
					m.End()
					took := c.goesOn(t, 10, "{k}1", "{k}2", "other")
					t.Logf("move %d: ten more turns each after %v", i, took)
				}
				require.Empty(t, c.over(t))
				for key, p := range c.keys {
					require.Zero(t, p.meets.Load(), key)
					// A handed-over key has two seconds, and cannot be released while the slot moves: it may expire
					// meanwhile, and Unlock says so.
					require.LessOrEqual(t, p.lost.Load(), int64(6), key)
				}
			})
		}
	}
}

func TestCluster_PlannedFailoverUnderTraffic(t *testing.T) {
	t.Parallel()
	for kind, makes := range exclusives {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.Cluster(t)
			keys := spread(t, cluster)
			c := gather(t, cluster, lockrt.Options{}, makes, keys...)
			c.goesOn(t, 20, keys...)
			for i := range 3 {
				cluster.Failover(cluster.Master(keys[i]))
				took := c.goesOn(t, 10, keys...)
				t.Logf("failover %d: ten more turns each after %v", i, took)
			}
			require.Empty(t, c.over(t))
			for key, p := range c.keys {
				require.Zero(t, p.meets.Load(), key)
				// A handed-over key has two seconds, and cannot be released while the servers change places.
				require.LessOrEqual(t, p.lost.Load(), int64(3), key)
			}
		})
	}
}

func TestCluster_MasterKilledUnderTraffic(t *testing.T) {
	t.Parallel()
	for kind, makes := range exclusives {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.Cluster(t)
			keys := spread(t, cluster)
			c := gather(t, cluster, lockrt.Options{OpTimeout: patience}, makes, keys...)
			c.goesOn(t, 20, keys...)
			victim := cluster.Master(keys[0])
			heir := cluster.Replica(victim)
			victim.Kill()
			killed := time.Now()
			t.Logf("others: 100 more turns each after %v", c.goesOn(t, 100, keys[1:]...))
			cluster.AwaitMaster(heir)
			t.Logf("promoted after %v", time.Since(killed))
			t.Logf("own: ten more turns %v after promotion", c.goesOn(t, 10, keys[0]))
			require.Empty(t, c.over(t))
			for key, p := range c.keys {
				require.LessOrEqual(t, p.meets.Load(), p.lost.Load(), key) // a key that the replica did not have is lost, and the loss is reported
			}
		})
	}
}

// A server that does not answer, and is not replaced, holds up nobody on another one: neither calls that lock nor what is
// renewed.
func TestCluster_StoppedShardHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, redistest.WithConfig("cluster-node-timeout", "60000"))
	keys := spread(t, cluster)
	var lost, others atomic.Int64
	sick := "{" + keys[0] + "}"
	hooks := lockrt.Hooks{Ended: func(_ context.Context, e lockrt.EndEvent) {
		switch {
		case !errors.Is(e.Cause, lockrt.ErrLost):
		case strings.HasPrefix(e.Key, sick):
			lost.Add(1)
		default:
			others.Add(1)
		}
	}}
	c := inCluster(t, cluster, lockrt.Options{Watchdog: 12 * time.Second, Hooks: hooks})
	held := map[string]*lockrt.Lease{}
	for _, key := range keys {
		for i := range 20 {
			lease, err := c.Mutex(fmt.Sprintf("{%s}held%d", key, i)).Lock(patient(t))
			require.NoError(t, err)
			held[lease.Key()] = lease
		}
	}
	cluster.Master(keys[0]).Stop()
	stopped := time.Now()
	over, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // all of it, also where the machine is slow
	defer cancel()
	waits := lockLater(over, c.Mutex(sick+"waits"))
	slowest := time.Duration(0)
	for lost.Load() < 20 {
		for _, key := range keys[1:] {
			start := time.Now()
			lease, err := c.Mutex("{" + key + "}free").Lock(patient(t))
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(t.Context()))
			slowest = max(slowest, time.Since(start))
		}
	}
	require.Less(t, time.Since(stopped), 12*time.Second+late, "told when the lease ends")
	require.Zero(t, others.Load())
	t.Logf("slowest lock and unlock on another server: %v", slowest)
	require.Less(t, slowest, 4*time.Second, "as long as a request to the one that is stopped takes at least")
	renewed := c.Stats().Renewals
	until(t, "more renewals", func() bool { return c.Stats().Renewals > renewed+80 })
	for key, lease := range held {
		if !strings.HasPrefix(key, sick) {
			require.NoError(t, lease.Err(), key)
			require.NoError(t, lease.Unlock(t.Context()))
		}
	}
	for _, n := range cluster.Nodes() {
		if !n.Running() {
			n.Cont()
		}
	}
	next := receive(t, waits, "its turn")
	require.NoError(t, next.err)
	require.NoError(t, next.lease.Unlock(t.Context()))
}

// A grant is confirmed by the replicas of the server that made it, also when the slot has just moved there.
func TestCluster_ReplicasConfirm(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	c := inCluster(t, cluster, lockrt.Options{Replicas: 1, OpTimeout: patience})
	for i := range 6 {
		lease, err := c.Mutex("k").Lock(patient(t))
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
		cluster.Move(cluster.Slot("k"), cluster.Nodes()[i%3]).End()
	}
	to := cluster.Nodes()[0] // from the last one
	replica := cluster.Replica(to)
	replica.Stop()
	cluster.Move(cluster.Slot("k"), to).End()
	_, err := c.Mutex("k").TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrReplicas, "those of the server that had the slot before do not count")
	replica.Cont()
	lease, err := c.Mutex("k").Lock(patient(t))
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(t.Context()))
}
