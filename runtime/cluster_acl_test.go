package lockrt_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// inClusters is the heading in ACL.md of what a user of a cluster needs besides.
const inClusters = "Redis Cluster"

// A walled is a cluster that asks for certificates, and has a user for each kind of lock.
type walled struct {
	*redistest.RedisCluster

	opts lockrt.Options // of its clients
}

func newWalled(t *testing.T) walled {
	t.Helper()
	a := newAuthority(t)
	return walled{redistest.Cluster(t, a.servers(t)), lockrt.Options{TLS: a.client(t), Watchdog: 3 * time.Second}}
}

// user returns the user for a kind of lock, which has a name of its own, and how many of its rules are for that kind.
func (w walled) user(t *testing.T, kind string) (u aclUser, ofKind int) {
	t.Helper()
	u = userOf(t, kind)
	u.name, ofKind = kind, len(u.rules)
	for _, rule := range userOf(t, inClusters).rules {
		if !slices.Contains(u.rules, rule) {
			u.rules = append(u.rules, rule)
		}
	}
	return u, ofKind
}

// steps does whatever clients of u ask of the cluster.
func (w walled) steps(t *testing.T, u aclUser, kind string) string {
	t.Helper()
	g := ground{nodes: w.Nodes(), at: w.Master, sharded: w.opts.PubSub != lockrt.PubSubPlain}
	return everyStep(t, g, func(opts lockrt.Options) *lockrt.Client {
		opts.TLS, opts.Watchdog, opts.PubSub = w.opts.TLS, w.opts.Watchdog, w.opts.PubSub
		return clientOf(t, u.login(t, w.URL()), opts)
	}, kind)
}

// clean deletes what is in the slot of a key.
func (w walled) clean(t *testing.T, key string) {
	t.Helper()
	keys, err := w.Master(key).Do("CLUSTER", "GETKEYSINSLOT", strconv.Itoa(w.Slot(key)), "100").AsStrSlice()
	require.NoError(t, err)
	if len(keys) > 0 {
		w.Master(key).Do(append([]string{"DEL"}, keys...)...)
	}
}

// TestACL_InCluster shows that every kind of lock works in a cluster that secures its connections, where servers and
// clients show certificates, and that what ACL.md lists is enough there.
func TestACL_InCluster(t *testing.T) {
	t.Parallel()
	w := newWalled(t)
	for _, each := range walks {
		for name, mode := range map[string]struct {
			pubsub  lockrt.PubSub
			without []string
		}{
			"sharded": {lockrt.PubSubAuto, []string{"+client|tracking", "+pubsub|numsub", "+unsubscribe"}},
			"plain":   {lockrt.PubSubPlain, []string{"+client|tracking", "+pubsub|shardnumsub", "+spublish", "+ssubscribe", "+sunsubscribe"}},
			"both":    {lockrt.PubSubBoth, []string{"+client|tracking"}},
		} {
			if name != "sharded" && each.kind != "Mutex" {
				continue
			}
			t.Run(each.kind+"/"+name, func(t *testing.T) {
				if name == "sharded" {
					t.Parallel() // the others use the same keys
				}
				w := w
				w.opts.PubSub = mode.pubsub
				u, _ := w.user(t, each.kind)
				u.name += "." + name
				u.rules = slices.DeleteFunc(u.rules, func(rule string) bool { return slices.Contains(mode.without, rule) })
				u.join(w.Nodes()...)
				said := w.steps(t, u, each.kind)
				if each.kind == "Mutex" {
					require.Regexp(t, served, said)
				} else {
					require.Empty(t, said)
				}
				require.Empty(t, u.deniedOn(t, w.Nodes()...))
			})
		}
	}
}

// TestACL_InClusterWithoutOne shows that each of those that clusters need besides is needed, and that a user without it
// is told.
func TestACL_InClusterWithoutOne(t *testing.T) {
	t.Parallel()
	quiet := []string{"+spublish", "Semaphore +pttl", "CountDownLatch +pttl"}
	const newer = "+cluster|shards" // is asked for from Redis 8 and Valkey 8 on
	w := newWalled(t)
	for _, each := range walks {
		t.Run(each.kind, func(t *testing.T) {
			t.Parallel()
			all, ofKind := w.user(t, each.kind)
			for i, rule := range all.rules {
				if i < ofKind || rule == newer || slices.Contains(quiet, rule) || slices.Contains(quiet, each.kind+" "+rule) {
					continue
				}
				u := all.without(i)
				u.join(w.Nodes()...)
				w.clean(t, each.key)
				c, err := opened(t.Context(), u.login(t, w.URL()), w.opts)
				if err == nil {
					require.NoError(t, c.Close())
					said := w.steps(t, u, each.kind)
					require.True(t, denied(said), "%s: %s\n%s", rule, said, u.deniedOn(t, w.Nodes()...))
				} else {
					require.ErrorContains(t, err, "NOPERM", rule)
				}
				require.Contains(t, u.deniedOn(t, w.Nodes()...), strings.TrimPrefix(rule, "+"))
			}
		})
	}
}
