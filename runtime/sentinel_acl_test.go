package lockrt_test

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// The headings in ACL.md of what a user of masters that sentinels watch needs besides, and of the user of the sentinels.
const (
	underSentinels = "Masters under sentinels"
	ofSentinels    = "Sentinels"
)

// guarded returns the user of a Mutex whose servers are watched by sentinels.
func guarded(t *testing.T) aclUser {
	t.Helper()
	u := userOf(t, "Mutex")
	u.rules = append(u.rules, userOf(t, underSentinels).rules...)
	return u
}

// through returns a URL by which u logs in to the servers, and watcher to the sentinels.
func (u aclUser) through(t *testing.T, g *redistest.SentinelGroup, watcher aclUser) string {
	t.Helper()
	return u.login(t, g.URL()) + "&sentinel_username=" + url.QueryEscape(watcher.name) + "&sentinel_password=" + url.QueryEscape(watcher.password)
}

// TestACL_UnderSentinels shows that what ACL.md lists for masters under sentinels, and for the sentinels themselves, is enough,
// also when one master follows the other.
func TestACL_UnderSentinels(t *testing.T) {
	t.Parallel()
	g := redistest.Sentinel(t)
	u, watcher := guarded(t), userOf(t, ofSentinels)
	u.join(g.Servers...)
	watcher.join(g.Sentinels...)
	a, b := clientOf(t, u.through(t, g, watcher), lockrt.Options{}), clientOf(t, u.through(t, g, watcher), lockrt.Options{})
	const key = "order:1"
	held, err := a.Mutex(key).Lock(patient(t), lockrt.WithFencing())
	require.NoError(t, err)
	next := lockLater(patient(t), b.Mutex(key), lockrt.WithFencing())
	until(t, "the other one stands in line", func() bool {
		standing, err := a.Mutex(key).Inspect(patient(t))
		return err == nil && standing.Waiting == 1
	})
	g.AwaitReplicas(2)
	old := g.Master()
	old.Kill()
	g.AwaitMaster(old)
	require.NoError(t, held.Err())
	require.NoError(t, held.Unlock(patient(t)))
	got := receive(t, next, "the waiter")
	require.NoError(t, got.err)
	require.Greater(t, got.lease.Token(), held.Token())
	require.NoError(t, got.lease.Unlock(patient(t)))
	for _, s := range g.Servers {
		if s != old {
			require.Empty(t, u.deniedOn(t, s))
		}
	}
	require.Empty(t, watcher.deniedOn(t, g.Sentinels...))
}

// TestACL_UnderSentinelsWithoutOne shows that each of them is asked for, that a client is not opened without those by which it
// finds the master, and that it finds the next one without the others.
func TestACL_UnderSentinelsWithoutOne(t *testing.T) {
	t.Parallel()
	g := redistest.Sentinel(t)
	u, all := guarded(t), userOf(t, ofSentinels)
	u.join(g.Servers...)
	bare := all
	bare.name, bare.rules = "bare", nil
	for i, rule := range all.rules {
		finds := strings.HasPrefix(rule, "+sentinel|")
		if finds || !strings.ContainsRune("+&", rune(rule[0])) {
			bare.rules = append(bare.rules, rule)
		}
		if !strings.ContainsRune("+&", rune(rule[0])) {
			continue // on, and the password
		}
		watcher := all.without(i)
		watcher.name += strconv.Itoa(i)
		watcher.join(g.Sentinels...)
		c, err := opened(t.Context(), u.through(t, g, watcher), lockrt.Options{})
		if finds {
			require.ErrorContains(t, err, "NOPERM this user has no permissions to run the '"+rule[1:]+"' command")
		} else {
			require.NoError(t, err, rule)
			until(t, "it was asked for "+rule, func() bool { return slices.Contains(watcher.deniedOn(t, g.Sentinels...), rule[1:]) })
			require.NoError(t, c.Close())
		}
	}

	all.join(g.Sentinels...)
	lacks := userOf(t, "Mutex")
	lacks.name = "lacks"
	lacks.join(g.Servers...)
	_, err := opened(t.Context(), lacks.through(t, g, all), lockrt.Options{})
	require.ErrorContains(t, err, "NOPERM this user has no permissions to run the 'role' command")

	bare.join(g.Sentinels...)
	c := clientOf(t, u.through(t, g, bare), lockrt.Options{Watchdog: time.Minute})
	held, err := c.Mutex("order:1").Lock(patient(t))
	require.NoError(t, err)
	g.AwaitReplicas(2)
	master := g.Failover()
	until(t, "it has found the other master", func() bool {
		lease, err := c.Mutex("order:2").Lock(patient(t))
		require.NoError(t, err)
		there := number(t, master, "EXISTS", "order:2") == 1
		require.NoError(t, lease.Unlock(patient(t)))
		return there
	})
	require.NoError(t, held.Unlock(patient(t)))
}
