package interop

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestSentinel shares locks on a master that sentinels watch, through a failover.
func TestSentinel(t *testing.T) {
	group := redistest.Sentinel(t)
	f := newFleet(t, site{
		name:     "sentinel",
		url:      group.URL(),
		mode:     "sentinel",
		address:  "redis://" + strings.Join(group.Addrs(), ",redis://"),
		settings: []string{"master=" + redistest.MasterSet},
		nodes:    group.Servers,
	}, theVersion(t))
	t.Run("handover", f.handovers)
	t.Run("force", f.force)
	t.Run("lockctl", f.operators)
	t.Run("failover", func(t *testing.T) {
		f.failover(t, func(string) {
			group.AwaitReplicas(2) // both replicas have all writes
			group.Failover()
		})
	})
}

// modes are the ways in which both sides get messages of a cluster.
var modes = []struct {
	name   string
	java   string
	pubsub lockrt.PubSub
}{
	{"cluster, AUTO, PubSubAuto", "AUTO", lockrt.PubSubAuto},
	{"cluster, ON, PubSubSharded", "ON", lockrt.PubSubSharded},
	{"cluster, OFF, PubSubPlain", "OFF", lockrt.PubSubPlain},
	{"cluster, ON, PubSubBoth", "ON", lockrt.PubSubBoth},
	{"cluster, OFF, PubSubBoth", "OFF", lockrt.PubSubBoth},
}

// TestCluster shares locks on a cluster.
func TestCluster(t *testing.T) {
	cluster := redistest.Cluster(t)
	for i, mode := range modes {
		t.Run(mode.java, func(t *testing.T) {
			f := newFleet(t, site{
				name:     mode.name,
				url:      cluster.URL(),
				mode:     "cluster",
				address:  "redis://" + strings.Join(cluster.Addrs(), ",redis://"),
				settings: []string{"sharded=" + mode.java},
				pubsub:   mode.pubsub,
				nodes:    cluster.Nodes(),
			}, theVersion(t))
			t.Run("handover", f.handovers)
			t.Run("lone", f.loneMutex)
			if i > 0 {
				return
			}
			t.Run("death", f.deaths)
			t.Run("force", f.force)
			t.Run("lockctl", f.operators)
			t.Run("reentry", f.reentry)
			t.Run("downgrade", f.downgrade)
			t.Run("several", f.several)
			t.Run("names", f.names)
			t.Run("tokens", f.tokens)
			t.Run("counts", f.counts)
			t.Run("permits", f.permits)
			t.Run("many", f.many)
			t.Run("latches", f.latches)
			t.Run("failover", func(t *testing.T) {
				f.failover(t, func(key string) { cluster.Failover(cluster.Master(key)) })
			})
			f.nothingLeft(t)
		})
	}
}

// failover makes both sides hold and wait while another server becomes the master.
func (f *fleet) failover(t *testing.T, happens func(key string)) {
	s := f.goSide(t, lockrt.Options{Watchdog: long / 2, OpTimeout: lockrt.DefaultOpTimeout})
	// Redisson may fail to renew for a while, so its locks have a long lease.
	java := f.java
	tried := []*kind{mutexKind, fencedKind, fairKind, writeKind}
	type wait struct {
		k        *kind
		key, way string
		lease    *lockrt.Lease // of a holder in Go
		give     release
		done     <-chan granted
	}
	var waits []*wait
	for i, k := range tried {
		inGo := &wait{k: k, key: aKey(t, k.java+"-go"), way: "Go holds through a failover, Java waits"}
		lease, err := k.lock(s, inGo.key).Lock(soon(t))
		require.NoError(t, err)
		inGo.lease, inGo.give = lease, lease.Unlock
		th := java.thread(fmt.Sprintf("waits%d", i))
		inGo.done = begin(t.Context(), k.role().inJava(th), inGo.key)
		th.parked(t)
		inJava := &wait{k: k, key: aKey(t, k.java+"-java"), way: "Java holds through a failover, Go waits"}
		inJava.give = took(t, k.role().inJava(java), inJava.key)
		inJava.done = begin(t.Context(), k.role().inGo(s), inJava.key)
		k.role().queued(t, f, inJava.key)
		waits = append(waits, inGo, inJava)
	}
	since := time.Now()
	happens(waits[0].key)
	// Locks of Go are renewed on their new master.
	var keys []string
	for _, w := range waits {
		if w.lease != nil {
			keys = append(keys, w.key)
		}
	}
	f.renewed(t, keys...)
	took := round(time.Since(since))
	for _, w := range waits {
		f.cell(t, w.k.name, w.way, func(t *testing.T) string {
			waiting(t, w.done)
			if w.lease != nil {
				require.NoError(t, w.lease.Err())
			}
			given := time.Now()
			require.NoError(t, w.give(soon(t)))
			select {
			case g := <-w.done:
				require.NoError(t, g.err)
				require.NoError(t, g.release(soon(t)))
				return fmt.Sprintf("Go is renewed within %s; served after %s", took, round(g.at.Sub(given)))
			case <-soon(t).Done():
				t.Fatal("nobody is served")
			}
			return ""
		})
	}
}
