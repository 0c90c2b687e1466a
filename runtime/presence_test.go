package lockrt_test

import (
	"context"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// saysSoon are options of clients that say soon who they are, and whose leases last although a machine is busy.
var saysSoon = lockrt.Options{Watchdog: 6 * time.Second, Name: "orders"}

// introductions counts how often a client that is reached by proxy says who it is.
func introductions(proxy *redistest.FaultProxy) *atomic.Int64 {
	n := new(atomic.Int64)
	said := redistest.EvalSHA(scripts.Introduce.SHA1())
	proxy.OnRequest(func(cmd []string) {
		if said(cmd) {
			n.Add(1)
		}
	})
	return n
}

// A client that holds a lock for long describes its process in Redis, and the description outlives its lock: also when
// the process is killed, here by cutting its connections.
func TestPresence_OutlivesTheLocksOfAKilledProcess(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	proxy := redistest.Proxy(t, server.Addr())
	host, err := os.Hostname()
	require.NoError(t, err)
	holder, other := clientOf(t, proxy.URL(), saysSoon), clientOf(t, server.URL(), lockrt.Options{})
	_, known, err := other.ProcessOf(patient(t), holder.ID())
	require.NoError(t, err)
	require.False(t, known)
	held := ok(t)(holder.Mutex("k").Lock(patient(t)))
	key := "lockgen_process:" + holder.ID()
	until(t, "it says who it is", func() bool { return number(t, server, "EXISTS", key) == 1 })

	proxy.Refuse(true)
	proxy.Cut()
	until(t, "the lock is over", func() bool {
		left, hash := number(t, server, "PTTL", "k"), number(t, server, "PTTL", key)
		require.Greater(t, hash, left)
		return left < 0
	})
	p, known, err := other.ProcessOf(patient(t), holder.ID())
	require.NoError(t, err)
	require.True(t, known)
	require.Equal(t, holder.ID(), p.ID)
	require.Equal(t, host, p.Host)
	require.Equal(t, os.Getpid(), p.PID)
	require.Equal(t, "orders", p.Name)
	require.WithinDuration(t, holder.Process().Started, p.Started, time.Second)
	require.ErrorIs(t, held.Unlock(patient(t)), lockrt.ErrLost)
}

// However often leases are renewed, it is said once in 10s.
func TestPresence_OnceInTenSeconds(t *testing.T) {
	t.Parallel()
	proxy := redistest.Proxy(t, redistest.Server(t).Addr())
	said, renewed := introductions(proxy), new(atomic.Int64)
	opts, began := saysSoon, time.Now()
	opts.Hooks.Renewed = func(context.Context, lockrt.RenewEvent) { renewed.Add(1) }
	c := clientOf(t, proxy.URL(), opts)
	held := []*lockrt.Lease{ok(t)(c.Mutex("a").Lock(patient(t))), ok(t)(c.RWMutex("b").RLock(patient(t)))}
	until(t, "leases were renewed many times", func() bool { return renewed.Load() > 5 })
	require.Positive(t, said.Load())
	require.LessOrEqual(t, said.Load(), 1+int64(time.Since(began)/(10*time.Second)))
	free(t, held...)
}

// A lease of fixed length is not renewed, and a call that waits has none: they are known all the same.
func TestPresence_WithoutRenewals(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	holder, waiter := clientOf(t, server.URL(), saysSoon), clientOf(t, server.URL(), saysSoon)
	held := ok(t)(holder.Mutex("k", lockrt.WithLease(time.Hour)).Lock(patient(t)))
	got := lockLater(patient(t), waiter.Mutex("k"))
	for _, c := range []*lockrt.Client{holder, waiter} {
		until(t, "it says who it is", func() bool { return number(t, server, "EXISTS", "lockgen_process:"+c.ID()) == 1 })
	}
	require.Greater(t, number(t, server, "PTTL", "lockgen_process:"+holder.ID()), number(t, server, "PTTL", "k"))
	free(t, held)
	free(t, gotten(t, got, "the lock"))
}

// Anonymous processes say no more than what they are.
func TestPresence_Anonymous(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	opts := saysSoon
	opts.Anonymous = true
	c := clientOf(t, server.URL(), opts)
	held := ok(t)(c.Mutex("k").Lock(patient(t)))
	key := "lockgen_process:" + c.ID()
	until(t, "it says who it is", func() bool { return number(t, server, "EXISTS", key) == 1 })
	said := fields(t, server, key)
	require.Equal(t, "orders", said["name"])
	require.Equal(t, strconv.Itoa(lockrt.SnapshotVersion), said["version"])
	require.NotContains(t, said, "host")
	require.NotContains(t, said, "pid")
	free(t, held)
}

// A user that may not say so works as before, and the log is told once.
func TestPresence_WithoutThePermission(t *testing.T) {
	t.Parallel()
	server, url := userOf(t, "Mutex").server(t)
	proxy := redistest.Proxy(t, server.Addr())
	said, renewed := introductions(proxy), new(atomic.Int64)
	log := new(journal)
	opts := saysSoon
	opts.Logger = slog.New(slog.NewTextHandler(log, nil))
	opts.Hooks.Renewed = func(_ context.Context, e lockrt.RenewEvent) {
		if e.Err == nil {
			renewed.Add(1)
		}
	}
	c := clientOf(t, strings.Replace(url, server.Addr(), proxy.Addr(), 1), opts)
	held := ok(t)(c.Mutex("order:1").Lock(patient(t)))
	until(t, "the log is told", func() bool { return strings.Contains(log.String(), unsaid) })
	before := renewed.Load()
	until(t, "it goes on", func() bool { return renewed.Load() > before+2 })
	require.EqualValues(t, 1, said.Load())
	require.Equal(t, 1, strings.Count(log.String(), unsaid))
	free(t, held)
}

// With the permissions that the documentation names it is said, and observers may read it.
func TestPresence_WithThePermission(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	u := userOf(t, "Mutex")
	users := aclLines(t, "Who holds what")
	u.rules = append(u.rules, users["orders"].rules...)
	u.join(server)
	watcher := users["watcher"]
	watcher.join(server)
	c := clientOf(t, u.login(t, server.URL()), saysSoon)
	held := ok(t)(c.Mutex("order:1").Lock(patient(t)))
	other := clientOf(t, watcher.login(t, server.URL()), lockrt.Options{})
	until(t, "it is known", func() bool {
		_, known, err := other.ProcessOf(patient(t), c.ID())
		require.NoError(t, err)
		return known
	})
	free(t, held)
}

// aclLines returns the users that a section of ACL.md makes, by their names.
func aclLines(t *testing.T, section string) map[string]aclUser {
	t.Helper()
	text, err := os.ReadFile("ACL.md")
	require.NoError(t, err)
	_, after, found := strings.Cut(string(text), "\n## "+section+"\n")
	require.True(t, found)
	after, _, _ = strings.Cut(after, "\n## ")
	users := map[string]aclUser{}
	for line := range strings.Lines(after) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "> ACL SETUSER ")
		if !ok {
			continue
		}
		words := strings.Fields(command)
		u := users[words[0]]
		u.name = words[0]
		for _, rule := range words[1:] {
			if password, ok := strings.CutPrefix(rule, ">"); ok {
				u.password = password
			}
			u.rules = append(u.rules, rule)
		}
		users[words[0]] = u
	}
	return users
}

// A lock that nobody else wants costs two commands, and nothing is sent besides, whatever the client says of itself.
func TestPresence_CostsNoCommandOfACycle(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c, err := lockrt.Open(t.Context(), server.URL(), lockrt.Options{OpTimeout: time.Minute, Name: "orders", Tracking: lockrt.TrackingOff})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	cycle := func() {
		l, err := c.Mutex("k", lockrt.WithName("orders.Service.Pay")).Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, l.Unlock(t.Context()))
	}
	cycle() // loads the scripts
	sent := int64(0)
	for round := 0; sent != 1000 && round < 20; round++ { // more where the machine stood still: one whose answer is late is sent again
		server.Do("CONFIG", "RESETSTAT")
		for range 500 {
			cycle()
		}
		sent = server.CommandStats()["evalsha"]
		require.GreaterOrEqual(t, sent, int64(1000))
	}
	require.EqualValues(t, 1000, sent)
}
