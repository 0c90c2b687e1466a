package lockrt_test

import (
	"context"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/embedded"
	"github.com/lockgen/lockgen/runtime/locktest/leaktest"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// This file changes keys behind their holders' backs. A loss during a test is noticed through a
// message of the server: the first renewal would be later than a test waits.

// unrenewed is a lock that is neither renewed nor expires while a test runs.
var unrenewed = lockrt.WithWatchdog(6 * patience)

// hold locks the keys and returns when the server watches them all.
func hold(t *testing.T, server *redistest.RedisServer, c *lockrt.Client, opt lockrt.LockOption, keys ...string) []*lockrt.Lease {
	t.Helper()
	leases := make([]*lockrt.Lease, len(keys))
	for i, key := range keys {
		var err error
		leases[i], err = c.Mutex(key).Lock(patient(t), opt)
		require.NoError(t, err)
	}
	watches(t, server, len(keys))
	return leases
}

var trackedKeys = regexp.MustCompile(`tracking_total_keys:(\d+)`)

// watches returns when the server watches n keys.
func watches(tb testing.TB, server *redistest.RedisServer, n int) {
	tb.Helper()
	until(tb, "the server watches "+strconv.Itoa(n)+" keys", func() bool { return watching(tb, server) == strconv.Itoa(n) })
}

// watching returns how many keys the server watches. One that is not there counts too, if it was asked for.
func watching(tb testing.TB, server *redistest.RedisServer) string {
	tb.Helper()
	info, err := server.Do("INFO", "stats").ToString()
	require.NoError(tb, err)
	return trackedKeys.FindStringSubmatch(info)[1]
}

// told returns when a lease is lost because Redis does not have it any more.
func told(t *testing.T, lease *lockrt.Lease) {
	t.Helper()
	receive(t, lease.Context().Done(), "the loss to be told")
	require.ErrorIs(t, context.Cause(lease.Context()), lockrt.ErrLost)
	require.Regexp(t, "deleted, expired or taken by somebody else$|taken by force$", lease.Err().Error())
}

// unharmed shows that leases are still held, and releases them.
func unharmed(t *testing.T, leases ...*lockrt.Lease) {
	t.Helper()
	for _, lease := range leases {
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Unlock(t.Context()))
	}
}

// changes are ways in which somebody else ends a hold.
func changes() map[string][][]string {
	return map[string][][]string{
		"deleted":        {{"DEL", "k"}},
		"unlinked":       {{"UNLINK", "k"}},
		"owner removed":  {{"EVAL", "return redis.call('hdel', KEYS[1], redis.call('hkeys', KEYS[1])[1])", "1", "k"}},
		"overwritten":    {{"SET", "k", "x"}},
		"somebody's":     {{"EVAL", "redis.call('del', KEYS[1]) return redis.call('hset', KEYS[1], '0b5d8a0e-1111-2222-3333-444444444444:7', 1)", "1", "k"}},
		"renamed":        {{"RENAME", "k", "l"}},
		"moved":          {{"MOVE", "k", "1"}},
		"expired":        {{"EVAL", "return redis.call('pexpireat', KEYS[1], 1)", "1", "k"}},
		"flushed":        {{"FLUSHALL"}},
		"database":       {{"FLUSHDB"}},
		"asynchronously": {{"FLUSHALL", "ASYNC"}},
	}
}

func TestTracking_LossIsToldBeforeTheNextRenewal(t *testing.T) {
	t.Parallel()
	for kind, opt := range map[string]lockrt.LockOption{"renewed": unrenewed, "fixed": lockrt.WithLease(6 * patience)} {
		for name, change := range changes() {
			t.Run(kind+", "+name, func(t *testing.T) {
				t.Parallel()
				server := redistest.Server(t)
				c := clientOf(t, server.URL(), lockrt.Options{})
				lease := hold(t, server, c, opt, "k")[0]
				for _, cmd := range change {
					server.Do(cmd...)
				}
				told(t, lease)
				require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)
				until(t, "it is not counted any more", func() bool { return c.Stats().Held == 0 })
				// The client leaves the key of another owner alone, and can lock it again when it
				// is free.
				server.Do("FLUSHALL")
				again, err := c.Mutex("k").Lock(patient(t))
				require.NoError(t, err)
				unharmed(t, again)
				emptied(t, server)
			})
		}
	}
}

func TestTracking_OnlyThatLeaseIsLost(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	atBest(t, "was only renewed what was held when the connection was made, and nothing for the change", func() bool { // nor because it was slow
		var renewals int
		c := clientOf(t, server.URL(), lockrt.Options{Hooks: lockrt.Hooks{Renewed: func(context.Context, lockrt.RenewEvent) { renewals++ }}})
		leases := hold(t, server, c, unrenewed, "a", "b", "c")
		deleted(t, server, leases[1])
		told(t, leases[1])
		unharmed(t, leases[0], leases[2])
		require.NoError(t, c.Close())
		return renewals <= 3
	})
}

// TestTracking_AHoldThatIsChangedAndStaysIsKept changes what does not end a hold.
func TestTracking_AHoldThatIsChangedAndStaysIsKept(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{})
	lease := hold(t, server, c, unrenewed, "k")[0]
	for _, cmd := range [][]string{
		{"PEXPIRE", "k", "60000"}, // shorter than it was granted for
		{"PERSIST", "k"},          // for ever
		{"HSET", "k", "other", "1"},
	} {
		server.Do(cmd...)
		until(t, "its expiry is what was granted, after "+cmd[0], func() bool {
			ttl := number(t, server, "PTTL", "k")
			return ttl > time.Until(lease.Until()).Milliseconds() && ttl <= (6*patience).Milliseconds()
		})
		watches(t, server, 1)
	}
	server.Do("HDEL", "k", "other")
	watches(t, server, 1)
	unharmed(t, lease)
}

// Somebody shortens the life of what is held again and again. Each time that is noticed long before it ends.
func TestTracking_AHoldThatIsShortenedAgainAndAgainIsKept(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{})
	for kind, lock := range map[string]func(key string) lockFunc{
		"mutex": func(key string) lockFunc { return c.Mutex(key, unrenewed).Lock },
		"fair":  func(key string) lockFunc { return c.FairMutex(key, unrenewed).Lock },
		"write": func(key string) lockFunc { return c.RWMutex(key, unrenewed).Lock },
		"read":  func(key string) lockFunc { return c.RWMutex(key, unrenewed).RLock },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			lease, err := lock(kind)(patient(t))
			require.NoError(t, err)
			for range 12 {
				server.Do("PEXPIRE", kind, "5000")
				until(t, "its expiry is what was granted", func() bool {
					return lease.Err() != nil || number(t, server, "PTTL", kind) > 5000
				})
				require.NoError(t, lease.Err())
			}
			unharmed(t, lease)
		})
	}
}

func TestTracking_Evicted(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{})
	lease := hold(t, server, c, unrenewed, "k")[0]
	server.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
	server.Do("CONFIG", "SET", "maxmemory", "1")
	_, _ = server.Try("SET", "other", "x") // this write makes room
	told(t, lease)
	server.Do("CONFIG", "SET", "maxmemory", "0")
	require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)
}

// TestTracking_ServerComesBackEmpty has nothing but the connection to tell.
func TestTracking_ServerComesBackEmpty(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{})
	leases := hold(t, server, c, unrenewed, "a", "b")
	fixed, err := c.Mutex("c").Lock(patient(t), lockrt.WithLease(6*patience))
	require.NoError(t, err)
	watches(t, server, 3)
	server.Kill()
	server.Restart()
	for _, lease := range append(leases, fixed) {
		told(t, lease)
		require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)
	}
	again, err := c.Mutex("a").Lock(patient(t), unrenewed)
	require.NoError(t, err)
	until(t, "it watches that one", func() bool {
		for _, key := range []string{"b", "c"} { // and no other
			server.Do("SET", key, "x")
			server.Do("DEL", key)
		}
		return watching(t, server) == "1"
	})
	deleted(t, server, again)
	told(t, again)
}

// kill closes the tracked connection at the server when it has subscribed. Before that, the client would report that subscribing failed, as well.
func kill(t *testing.T, server *redistest.RedisServer) {
	t.Helper()
	var id string
	until(t, "there is a tracked connection that has subscribed", func() bool {
		id = found(t, server, trackingAndSubscribed)
		return id != ""
	})
	server.Do("CLIENT", "KILL", "ID", id)
}

var (
	tracking              = regexp.MustCompile(`(?m)^id=(\d+) .* flags=\w*t\w* `)
	trackingAndSubscribed = regexp.MustCompile(`(?m)^id=(\d+) .* flags=\w*t\w* .* sub=[1-9]`)
)

// watcher returns the id of the tracked connection, or "".
func watcher(tb testing.TB, server *redistest.RedisServer) string {
	tb.Helper()
	return found(tb, server, tracking)
}

// found returns the id of a connection of the server's list, or "".
func found(tb testing.TB, server *redistest.RedisServer, connection *regexp.Regexp) string {
	tb.Helper()
	list, err := server.Do("CLIENT", "LIST").ToString()
	require.NoError(tb, err)
	if id := connection.FindStringSubmatch(list); id != nil {
		return id[1]
	}
	return ""
}

func TestTracking_ConnectionIsMadeAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	log := &logbook{lines: make(chan string, 1000)}
	c := clientOf(t, server.URL(), lockrt.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	leases := hold(t, server, c, unrenewed, "a", "b")
	for range 3 {
		kill(t, server)
		log.says(t, "subscription connection broke; connecting again")
		watches(t, server, 2)
	}
	deleted(t, server, leases[0])
	told(t, leases[0])
	unharmed(t, leases[1])
	require.NoError(t, c.Close())
	for len(log.lines) > 0 {
		require.Contains(t, <-log.lines, slow)
	}
}

// slow is a part of what a client logs of a tracked connection that answers late, and is replaced.
const slow = "about changes to held keys"

// says returns when the log says something. Before that it may say that a connection was slow.
func (l *logbook) says(t *testing.T, what string) {
	t.Helper()
	line := receive(t, l.lines, "the log to say so")
	for !strings.Contains(line, what) {
		require.Contains(t, line, slow)
		line = receive(t, l.lines, "the log to say so")
	}
}

// TestTracking_ChangedWhileNobodyIsTold deletes a key while there is no tracked connection.
func TestTracking_ChangedWhileNobodyIsTold(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{})
	leases := hold(t, server, c, unrenewed, "a", "b")
	_, err := server.Do("EVAL", "return 1", "0").AsInt64()
	require.NoError(t, err)
	id := watcher(t, server)
	rc := server.Client()
	for _, reply := range rc.DoMulti(t.Context(),
		rc.B().Multi().Build(),
		rc.B().ClientKill().Id(must(strconv.ParseInt(id, 10, 64))).Build(),
		rc.B().Del().Key("a").Build(),
		rc.B().Exec().Build()) {
		require.NoError(t, reply.Error())
	}
	told(t, leases[0])
	unharmed(t, leases[1])
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestTracking_MuteConnectionCostsNoHold makes the tracked connection mute, while the other ones
// are well.
func TestTracking_MuteConnectionCostsNoHold(t *testing.T) {
	t.Parallel()
	for what := range losses(nil) {
		for how, mode := range modes() {
			t.Run(what+" "+how, func(t *testing.T) {
				t.Parallel()
				server := redistest.Server(t)
				proxy := redistest.Proxy(t, server.Addr())
				log := &logbook{lines: make(chan string, 1000)}
				renewed := make(chan lockrt.RenewEvent, 1000)
				c := clientOf(t, proxy.URL(), lockrt.Options{
					Logger: slog.New(slog.NewTextHandler(log, nil)),
					Hooks:  lockrt.Hooks{Renewed: func(_ context.Context, e lockrt.RenewEvent) { renewed <- e }},
				})
				// Short enough to be lost soon if it is not renewed. The connection's own timeouts are longer.
				short, err := c.Mutex("short").Lock(patient(t), lockrt.WithWatchdog(6*time.Second))
				require.NoError(t, err)
				long, err := c.Mutex("long").Lock(patient(t), unrenewed)
				require.NoError(t, err)
				watches(t, server, 2)
				drop := losses(proxy)[what](redistest.EvalSHA(scripts.Renew.SHA1()), 1, mode)
				receive(t, drop.Done(), "the connection to break")
				if how == "closed" {
					log.says(t, "subscription connection broke; connecting again")
				} else {
					log.says(t, "the server sends no messages about changes")
					log.says(t, "the server sends messages about changes to held keys again")
				}
				for renewals := 0; renewals < 6; { // longer than the trust lasts
					if e := receive(t, renewed, "a renewal"); e.Key == "short" {
						require.NoError(t, e.Err)
						renewals++
					}
				}
				require.NoError(t, short.Err())
				deleted(t, server, long)
				told(t, long)
				unharmed(t, short)
			})
		}
	}
}

// moving is a client that changes servers as one of Sentinel's does.
type moving struct {
	rueidis.Client

	node atomic.Pointer[string]
}

func (m *moving) Nodes() map[string]rueidis.Client {
	if node := m.node.Load(); node != nil {
		return map[string]rueidis.Client{*node: m.Client}
	}
	return m.Client.Nodes()
}

// TestTracking_FollowsTheClient shows that a lease is not renewed on a server that is not the client's any
// more: one that was the master may still say yes.
func TestTracking_FollowsTheClient(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	log := &logbook{lines: make(chan string, 1000)}
	rc := &moving{Client: server.NewClient(func(o *rueidis.ClientOption) { o.DisableCache = true })}
	c, err := lockrt.New(rc, lockrt.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	require.NoError(t, err)
	defer c.Close()
	short, err := c.Mutex("short").Lock(patient(t), lockrt.WithWatchdog(6*time.Second))
	require.NoError(t, err)
	watches(t, server, 1)
	before, other := watcher(t, server), "other:6379"
	rc.node.Store(&other)
	require.Contains(t, receive(t, log.lines, "the log to say so"), "talks to another server now")
	require.Contains(t, receive(t, log.lines, "the log to say so"), "the server sends messages about changes to held keys again")
	require.NotEqual(t, before, watcher(t, server))
	unharmed(t, short)
}

// Not parallel, for it counts goroutines.
func TestTracking_LeavesNoGoroutine(t *testing.T) { //nolint:paralleltest // counts goroutines
	server := redistest.Server(t)
	proxy := redistest.Proxy(t, server.Addr())
	server.Do("ACL", "SETUSER", "u", "on", ">pass", "~*", "&*", "+@all", "-client")
	for name, test := range map[string]struct {
		url   string
		begin func(t *testing.T, lines <-chan string)
	}{
		"watching": {proxy.URL(), func(t *testing.T, _ <-chan string) {
			t.Helper()
			watches(t, server, 1)
		}},
		"mute": {proxy.URL(), func(t *testing.T, _ <-chan string) {
			t.Helper()
			watches(t, server, 1)
			drop := proxy.DropRequest(redistest.EvalSHA(scripts.Renew.SHA1()), 1, redistest.Mute)
			receive(t, drop.Done(), "the connection to break")
		}},
		"refused": {"redis://u:pass@" + server.Addr(), func(t *testing.T, lines <-chan string) {
			t.Helper()
			receive(t, lines, "the refusal")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			server.Do("FLUSHALL")
			log := &logbook{lines: make(chan string, 1000)}
			leaktest.Check(t)
			c, err := opened(t.Context(), test.url, lockrt.Options{OpTimeout: unhurried, Logger: slog.New(slog.NewTextHandler(log, nil))})
			require.NoError(t, err)
			_, err = c.Mutex("k").Lock(patient(t), lockrt.WithWatchdog(6*time.Second))
			require.NoError(t, err)
			test.begin(t, log.lines)
			require.NoError(t, c.Close())
			until(t, "the connection is gone", func() bool { return watcher(t, server) == "" })
		})
	}
}

func TestTracking_Refused(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string][]string{
		"tracking":          {"-client|tracking"},
		"client altogether": {"-client"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			server.Do(append([]string{"ACL", "SETUSER", "u", "on", ">pass", "~*", "&*", "+@all"}, rules...)...)
			log := &logbook{lines: make(chan string, 1000)}
			renewed := make(chan lockrt.RenewEvent, 1000)
			c := clientOf(t, "redis://u:pass@"+server.Addr(), lockrt.Options{
				Logger: slog.New(slog.NewTextHandler(log, nil)),
				Hooks:  lockrt.Hooks{Renewed: func(_ context.Context, e lockrt.RenewEvent) { renewed <- e }},
			})
			stays, err := c.Mutex("stays").Lock(patient(t), lockrt.WithWatchdog(6*time.Second))
			require.NoError(t, err)
			goes, err := c.Mutex("goes").Lock(patient(t), lockrt.WithWatchdog(6*time.Second))
			require.NoError(t, err)
			require.Contains(t, receive(t, log.lines, "the log to say so"), "NOPERM")
			require.NoError(t, receive(t, renewed, "a renewal").Err)
			deleted(t, server, goes)
			told(t, goes)
			for range 4 {
				receive(t, renewed, "a renewal")
			}
			unharmed(t, stays)
			require.Empty(t, log.lines, "said once")
		})
	}
}

// TestTracking_Impossible has what is the same to the client as [lockrt.TrackingOff].
func TestTracking_Impossible(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	small, stop, err := embedded.Start()
	require.NoError(t, err)
	t.Cleanup(stop)
	other := clientOf(t, small, lockrt.Options{})
	// The first call of a client has the server parse all scripts, and the embedded server needs long for that. The client sends a call by force
	// once, so such a call is not its first.
	_, err = other.Mutex("goes").Inspect(t.Context())
	require.NoError(t, err)
	for name, test := range map[string]struct {
		open  func(t *testing.T, opts lockrt.Options) *lockrt.Client
		del   func(t *testing.T, key string)
		lines int
	}{
		"off": {
			open: func(t *testing.T, opts lockrt.Options) *lockrt.Client {
				opts.Tracking = lockrt.TrackingOff
				return clientOf(t, server.URL(), opts)
			},
			del: func(t *testing.T, key string) { server.Do("DEL", key) },
		},
		"embedded": {
			open: func(t *testing.T, opts lockrt.Options) *lockrt.Client { return clientOf(t, small, opts) },
			del: func(t *testing.T, key string) {
				_, err := other.Mutex(key).ForceUnlock(t.Context())
				require.NoError(t, err)
			},
			lines: 1,
		},
		"RESP2": {
			open: func(t *testing.T, opts lockrt.Options) *lockrt.Client {
				rc := server.NewClient(func(o *rueidis.ClientOption) { o.AlwaysRESP2, o.DisableCache = true, true })
				c, err := lockrt.New(rc, opts)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, c.Close()) })
				return c
			},
			del:   func(t *testing.T, key string) { server.Do("DEL", key) },
			lines: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			log := &logbook{lines: make(chan string, 1000)}
			renewed := make(chan lockrt.RenewEvent, 1000)
			c := test.open(t, lockrt.Options{
				Logger: slog.New(slog.NewTextHandler(log, nil)),
				Hooks:  lockrt.Hooks{Renewed: func(_ context.Context, e lockrt.RenewEvent) { renewed <- e }},
			})
			stays, err := c.Mutex("stays").Lock(patient(t), lockrt.WithWatchdog(6*time.Second))
			require.NoError(t, err)
			goes, err := c.Mutex("goes").Lock(patient(t), lockrt.WithWatchdog(6*time.Second))
			require.NoError(t, err)
			require.NoError(t, receive(t, renewed, "a renewal").Err)
			test.del(t, "goes")
			told(t, goes)
			for range 4 {
				receive(t, renewed, "a renewal")
			}
			unharmed(t, stays)
			require.Len(t, log.lines, test.lines)
			require.Empty(t, watcher(t, server))
		})
	}
}

// TestTracking_SmallTable lets the server forget what it watches all the time, and say so.
func TestTracking_SmallTable(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t, redistest.WithConfig("tracking-table-max-keys", "4"))
	c := clientOf(t, server.URL(), lockrt.Options{})
	var leases []*lockrt.Lease
	for i := range 50 {
		lease, err := c.Mutex("k"+strconv.Itoa(i)).Lock(patient(t), lockrt.WithWatchdog(6*time.Second))
		require.NoError(t, err)
		leases = append(leases, lease)
	}
	until(t, "there were false alarms", func() bool { return server.CommandStats()["evalsha"] > 50+20 })
	for i, lease := range leases {
		require.NoError(t, lease.Err())
		if i%2 == 0 {
			server.Do("DEL", lease.Key())
		}
	}
	// The client looks at keys that the server forgets to track less and less often, so it notices a loss at the next
	// renewal at the latest.
	for i, lease := range leases {
		if i%2 == 0 {
			deleted(t, server, lease)
			told(t, lease)
		} else {
			unharmed(t, lease)
		}
	}
}

// TestTracking_CachingClient has a client of the user's that tracks in another way by itself.
func TestTracking_CachingClient(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c, err := lockrt.New(server.NewClient(), lockrt.Options{})
	require.NoError(t, err)
	defer c.Close()
	lease := hold(t, server, c, unrenewed, "k")[0]
	deleted(t, server, lease)
	told(t, lease)
}

// TestTracking_HandedOver shows that a handed-over lease is renewed long before a third of the
// hand-over lease is over, and tracked.
func TestTracking_HandedOver(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	hooks, waiting, _ := watch()
	renewed := make(chan lockrt.RenewEvent, 1000)
	hooks.Renewed = func(_ context.Context, e lockrt.RenewEvent) { renewed <- e }
	one, two := clientOf(t, server.URL(), lockrt.Options{}), clientOf(t, server.URL(), lockrt.Options{Hooks: hooks})
	other := hold(t, server, two, unrenewed, "other") // its connection is there
	lease := hold(t, server, one, unrenewed, "k")[0]
	for len(renewed) > 0 {
		<-renewed
	}
	next := lockLater(patient(t), two.Mutex("k"), unrenewed)
	receive(t, waiting, "the next one to wait")
	inLine(t, server, "k", 1)
	start := time.Now()
	require.NoError(t, lease.Unlock(t.Context()))
	got := receive(t, next, "the lock")
	require.NoError(t, got.err)
	require.NoError(t, receive(t, renewed, "the renewal").Err)
	require.Greater(t, got.lease.Until().Sub(start), 2*time.Second)
	watches(t, server, 2)
	deleted(t, server, got.lease)
	told(t, got.lease)
	unharmed(t, other...)
}

// TestTracking_ShortHoldsCostNothing counts what is sent for locks that are held for a moment.
func TestTracking_ShortHoldsCostNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{})
	for began := time.Now(); time.Since(began) < patience; { // a machine that stops for 10 ms in the middle is not what is meant
		server.Do("CONFIG", "RESETSTAT")
		start := time.Now()
		for range 10 {
			lease, err := c.Mutex("k").Lock(patient(t))
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(t.Context()))
		}
		if sent := server.CommandStats()["evalsha"]; sent == 20 {
			require.Equal(t, "0", watching(t, server), "keys that the server remembers to tell of")
			return
		}
		require.Greater(t, time.Since(start), 8*time.Millisecond, "nothing was held for 8 ms, and yet something was asked")
	}
	require.Fail(t, "the machine stands still each time")
}

func TestTracking_CloseEndsTheConnection(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	rc := server.NewClient(func(o *rueidis.ClientOption) { o.DisableCache = true })
	c, err := lockrt.New(rc, lockrt.Options{})
	require.NoError(t, err)
	lease := hold(t, server, c, unrenewed, "k")[0]
	require.NotEmpty(t, watcher(t, server))
	require.NoError(t, c.Close())
	until(t, "the connection is gone", func() bool { return watcher(t, server) == "" })
	require.NoError(t, lease.Unlock(t.Context()))
}

// Deleting a key notifies no waiter. Its holder, which is notified, tells them.
func TestFault_AKeyThatIsDeletedGoesToTheNext(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(c *lockrt.Client, key string) lockrt.Locker{
		"mutex": func(c *lockrt.Client, key string) lockrt.Locker { return c.Mutex(key) },
		"fair":  func(c *lockrt.Client, key string) lockrt.Locker { return c.FairMutex(key) },
		"write": func(c *lockrt.Client, key string) lockrt.Locker { return c.RWMutex(key) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			c := clientOf(t, server.URL(), lockrt.Options{})
			lease := ok(t)(of(c, "k").Lock(patient(t)))
			watches(t, server, 1)
			hooks, waiting, _ := watch()
			next := lockLater(patient(t), of(clientOf(t, server.URL(), lockrt.Options{Hooks: hooks}), "k"))
			receive(t, waiting, "the next one to wait")
			switch name {
			case "mutex":
				inLine(t, server, "k", 1)
			case "fair":
				until(t, "it has asked twice", func() bool { return channels(t, server) == 3 })
			}
			server.Do("DEL", "k")
			receive(t, lease.Context().Done(), "the loss")
			free(t, gotten(t, next, "the lock, sooner than it would have expired"))
			require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)
			nothingLeft(t, server, "k")
		})
	}
}
