package survey

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// randomWorld has owners that hold some of the keys, and waiters that hold leases of some of them.
func randomWorld(r *rand.Rand) *World {
	w := New()
	keys := 1 + r.IntN(6)
	var owners []lockrt.LeaseRef
	for k := range keys {
		key := fmt.Sprint("k", k)
		kind := []string{"mutex", "permit"}[r.IntN(2)]
		l := w.Lock(key, kind)
		holders := 1
		if kind == "permit" {
			holders = r.IntN(3)
		}
		for range holders {
			owner := fmt.Sprint("o", len(owners))
			owners = append(owners, lockrt.LeaseRef{Key: key, Owner: owner})
			l.Holders = append(l.Holders, Holder{Owner: owner})
		}
	}
	for range r.IntN(8) {
		l := w.Locks[fmt.Sprint("k", r.IntN(keys))]
		c := Waiter{Kind: l.Kind}
		for range r.IntN(3) {
			if len(owners) > 0 {
				c.Under = append(c.Under, owners[r.IntN(len(owners))])
			}
		}
		l.Waiters = append(l.Waiters, c)
	}
	return w
}

// runs lets waiters go on for as long as any can, and returns those that never do. A waiter gets its lock when no
// holder of it waits, or a permit when one holder does not wait; then it waits no more.
func runs(w *World) map[node]bool {
	left := map[node]bool{}
	for _, l := range w.Locks {
		for i := range l.Waiters {
			left[node{l, i}] = true
		}
	}
	for {
		var free []node
		for n := range left {
			waits := 0
			for _, h := range n.lock.Holders {
				for m := range left {
					if slices.ContainsFunc(m.waiter().Under, func(u lockrt.LeaseRef) bool { return u.Owner == h.Owner }) {
						waits++
						break
					}
				}
			}
			if n.lock.Kind == "permit" && (waits < len(n.lock.Holders) || len(n.lock.Holders) == 0) || n.lock.Kind != "permit" && waits == 0 {
				free = append(free, n)
			}
		}
		if len(free) == 0 {
			return left
		}
		for _, n := range free {
			delete(left, n)
		}
	}
}

// TestGraph_AgainstTryingItOut shows that the stuck waiters are those that never go on in a simulation, and that each
// reported circle is one: no circle is missed, and none is invented.
func TestGraph_AgainstTryingItOut(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	circles := 0
	for range 20_000 {
		w := randomWorld(r)
		g, left := w.Graph(), runs(w)
		for _, n := range g.nodes {
			require.Equal(t, left[n], g.stuck[n], "%s of %+v", n.lock.Key, w.Locks)
		}
		all := g.circles()
		require.Equal(t, len(left) > 0, len(all) > 0)
		for _, c := range all {
			for i, n := range c {
				require.True(t, left[n])
				next := c[(i+1)%len(c)].waiter()
				require.True(t, slices.ContainsFunc(n.blockers(), func(h Holder) bool {
					return slices.ContainsFunc(next.Under, func(u lockrt.LeaseRef) bool { return u.Owner == h.Owner })
				}))
			}
		}
		circles += len(all)
	}
	require.Greater(t, circles, 1000)
}

func TestMatches(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pattern, key string
		want         bool
	}{
		{"", "x", true}, {"*", "", true}, {"order:*", "order:7", true}, {"order:*", "stock:7", false}, {"o*r:?", "order:7", true},
		{"*7", "order:77", true}, {"a*b*c", "a/b/b/c", true}, {"a*b*c", "a/b/b", false}, {"?", "", false}, {"[x]", "[x]", true},
	} {
		require.Equal(t, test.want, Matches(test.pattern, test.key), "%+v", test)
	}
}

// TestJavaChannels_WithoutTheAnswersOfSome names the server that does not answer, and finds the channels of the others.
func TestJavaChannels_WithoutTheAnswersOfSome(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	rc, listens := cluster.NewClient(), cluster.Master("k")
	own := listens.NewClient()
	conn, release := own.Dedicate()
	defer release()
	require.NoError(t, conn.Do(t.Context(), conn.B().Subscribe().Channel("redisson_lock__channel:{k}").Build()).Error())
	mute := cluster.Nodes()[0]
	if mute.Addr() == listens.Addr() {
		mute = cluster.Nodes()[1]
	}
	mute.Stop()
	defer mute.Cont()
	keys, silent, err := javaChannels(t.Context(), rc, time.Second)
	require.NoError(t, err)
	require.Equal(t, []string{mute.Addr()}, silent)
	require.Contains(t, keys, "k")

	w := New()
	for i := range 20 {
		w.Lock(fmt.Sprint("permits", i), "permit").Waiters = []Waiter{{}}
	}
	w.CountPermits(t.Context(), rc, "", time.Second)
	unknown := 0
	for _, l := range w.Locks {
		require.Zero(t, l.unnamed)
		if l.uncounted {
			unknown++
		}
	}
	require.Positive(t, unknown, "somebody may have a permit there")
	require.Less(t, unknown, 20)
}

// TestRead_WithoutTheAnswersOfSome shows the locks of the servers that answer, and no process as gone that may listen on the other one.
func TestRead_WithoutTheAnswersOfSome(t *testing.T) {
	t.Parallel()
	const java, process = "11111111-1111-4111-9111-111111111111", "11111111-1111-8111-9111-111111111111"
	cluster := redistest.Cluster(t)
	c, err := lockrt.Open(t.Context(), cluster.URL(), lockrt.Options{OpTimeout: 20 * time.Second})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	rc := c.Redis()
	i := 0
	for cluster.Master(fmt.Sprint("m", i)).Addr() == cluster.Master("k").Addr() {
		i++
	}
	lost := fmt.Sprint("m", i)
	mute := cluster.Master(lost)
	for _, key := range []string{"k", lost} {
		require.NoError(t, rc.Do(t.Context(), rc.B().Hset().Key(key).FieldValue().FieldValue(java+":1", "1").FieldValue(process+":1", "1").Build()).Error())
	}
	mute.Stop()
	defer mute.Cont()
	w := New()
	w.Mute = []string{mute.Addr()}
	require.NoError(t, w.read(t.Context(), c, []string{"k", lost}, 2*time.Second, false, true))
	require.NotNil(t, w.Locks["k"])
	require.Len(t, w.Locks["k"].Holders, 2)
	for _, h := range w.Locks["k"].Holders {
		require.False(t, h.Gone)
	}
	require.Nil(t, w.Locks[lost])
	bounded, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.Error(t, w.Read(bounded, c, []string{lost}), "that nobody has it is not known")
}

// TestRead_OfManyWithoutTheAnswersOfSome shows that a server that does not answer takes the same time from many keys as from one.
func TestRead_OfManyWithoutTheAnswersOfSome(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	for _, node := range cluster.Nodes() {
		require.NoError(t, node.Do("CONFIG", "SET", "cluster-replica-no-failover", "yes").Error())
	}
	c, err := lockrt.Open(t.Context(), cluster.URL(), lockrt.Options{OpTimeout: 20 * time.Second})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	rc := c.Redis()
	require.NoError(t, rc.Do(t.Context(), rc.B().Hset().Key("k").FieldValue().FieldValue("11111111-1111-4111-9111-111111111111:1", "1").Build()).Error())
	i := 0
	for cluster.Master(fmt.Sprint("m", i)).Addr() == cluster.Master("k").Addr() {
		i++
	}
	mute := cluster.Master(fmt.Sprint("m", i))
	var keys []string
	for n := range 20_000 {
		keys = append(keys, fmt.Sprintf("{m%d}%d", i, n))
	}
	mute.Stop()
	defer mute.Cont()
	w := New()
	w.Mute = []string{mute.Addr()}
	bounded, cancel := context.WithTimeout(t.Context(), 20*time.Second) // a patience for each 500 keys takes longer
	defer cancel()
	require.NoError(t, w.read(bounded, c, append(keys, "k"), 2*time.Second, false, true))
	require.NotNil(t, w.Locks["k"])
}
