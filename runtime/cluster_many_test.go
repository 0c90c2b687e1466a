//go:build !race

package lockrt_test

import (
	"context"
	"slices"
	"strconv"
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

// tripCounter is a client that counts how often it sends renewals, as many at once as there are.
type tripCounter struct {
	rueidis.Client

	trips, renewals atomic.Int64
}

func (c *tripCounter) DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	if words := multi[0].Commands(); slices.Contains(words, scripts.Renew.SHA1()) {
		c.trips.Add(1)
		c.renewals.Add(int64(len(multi)))
	}
	return c.Client.DoMulti(ctx, multi...)
}

// TestCluster_ManyAreRenewed holds ten thousand keys in a cluster, for 5 s each, and then kills one of its three masters.
//
// The bounds are about what the machine has time for, so it runs alone, without the race detector. With that, on two cores with a load
// of about 35, all leases were kept at rest: 31,475 renewals in 139 round trips, 7.2 a second for each server. With a load of about 40 it
// failed: a key that was lost could not be locked again within 20 s.
func TestCluster_ManyAreRenewed(t *testing.T) {
	t.Parallel()
	const keys, length = 10_000, 5 * time.Second
	cluster := redistest.Cluster(t)
	for _, node := range cluster.Nodes() { // a key that is lost because no replica takes over in time proves nothing
		require.NoError(t, node.Do("CONFIG", "SET", "cluster-node-timeout", "1000").Error())
	}
	rc := &tripCounter{Client: cluster.NewClient(func(o *rueidis.ClientOption) {
		o.PipelineMultiplex = -1
		o.DisableCache = true
		o.ConnWriteTimeout = length / 3
	})}
	c, err := lockrt.New(rc, lockrt.Options{Watchdog: length})
	require.NoError(t, err)
	defer c.Close()
	leases := make([]*lockrt.Lease, keys)
	var wg sync.WaitGroup
	for hand := range 64 {
		wg.Go(func() {
			for i := hand; i < keys; i += 64 {
				leases[i], _ = c.Mutex("key:" + strconv.Itoa(i)).Lock(patient(t))
			}
		})
	}
	wg.Wait()
	for _, l := range leases {
		require.NotNil(t, l)
	}
	lost := func(of *redistest.RedisServer) (n int) { // of one server, or of all
		for _, l := range leases {
			if l.Err() != nil && (of == nil || cluster.Master(l.Key()) == of) {
				n++
			}
		}
		return n
	}
	renewed := func() int64 { return int64(c.Stats().Renewals) }
	// In a round in which the machine has no time for anybody, some may be lost; they are locked again.
	atBest(t, "all leases are kept at rest, by one renewal each in time", func() bool {
		for i, l := range leases {
			if l.Err() != nil {
				_ = l.Unlock(t.Context())
				leases[i] = ok(t)(c.Mutex(l.Key()).Lock(patient(t)))
			}
		}
		before := renewed()
		until(t, "all are renewed once", func() bool { return renewed() >= before+keys })
		trips, sent, start := rc.trips.Load(), rc.renewals.Load(), time.Now()
		until(t, "all are renewed three times", func() bool { return renewed() >= before+4*keys })
		trips, sent = rc.trips.Load()-trips, rc.renewals.Load()-sent
		rate := float64(trips) / 3 / time.Since(start).Seconds()
		t.Logf("%d renewals in %d round trips, %.1f a second for each server; %d lost", sent, trips, rate, lost(nil))
		return lost(nil) == 0 && sent > 0 && rate <= 20 && sent <= 3.5*keys
	})

	master := cluster.Owner(0)
	replica := cluster.Replica(master)
	require.NoError(t, master.Do("WAIT", "1", "5000").Error())
	over, stood := make(chan struct{}), make(chan time.Duration, 1)
	go func() { stood <- longestStandstill(over) }()
	started := time.Now()
	master.Kill()
	cluster.AwaitMaster(replica)
	promoted := time.Since(started)
	before := renewed()
	until(t, "all are renewed twice again", func() bool { return renewed() >= before+2*keys })
	close(over)
	t.Logf("promoted after %v; %d lost", promoted, lost(nil))
	// A lease that was due to be renewed when the master died is trusted for 17/30 of its length, 2.8 s. When a replica was promoted after 2.46 s,
	// 794 of the third of all keys that this master had were lost.
	if promoted+<-stood < 2*length/5 {
		require.Less(t, lost(nil), keys/10, "what its replica knew is kept, but for what a machine without time adds")
	}
	if err := c.Close(); err != nil { // the server is away for as long as Close waits
		require.ErrorContains(t, err, "requests are still unanswered")
	}
}

// longestStandstill returns for how long the machine has stood still at most, when over is closed.
func longestStandstill(over <-chan struct{}) (longest time.Duration) {
	for last := time.Now(); ; {
		select {
		case <-over:
			return longest
		case <-time.After(10 * time.Millisecond):
		}
		now := time.Now()
		longest, last = max(longest, now.Sub(last)), now
	}
}
