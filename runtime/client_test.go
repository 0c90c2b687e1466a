package lockrt_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	inner "github.com/lockgen/lockgen/runtime/internal/resource"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// patience is how long a test waits for what must happen. It is shorter than the default
// watchdog time, so that what only happens by expiry fails.
const patience = 20 * time.Second

// unhurried is the time in which Redis answers, for clients of tests that do not set it: a busy machine may stand still for
// longer than the default.
const unhurried = patience / 2

// unwatched are options of clients whose requests are counted: none of them looks at what is held for long.
var unwatched = lockrt.Options{Tracking: lockrt.TrackingOff}

// newClient returns a client of its own connections to the shared server.
func newClient(tb testing.TB, opts lockrt.Options) *lockrt.Client {
	tb.Helper()
	return clientOf(tb, redistest.Shared(tb).URL(), opts)
}

func clientOf(tb testing.TB, url string, opts lockrt.Options) *lockrt.Client {
	tb.Helper()
	if opts.OpTimeout == 0 {
		opts.OpTimeout = unhurried
	}
	c, err := opened(tb.Context(), url, opts)
	require.NoError(tb, err)
	tb.Cleanup(func() { closes(tb, c, opts) })
	return c
}

// closes closes a client. Where a server is away, or a test gives requests less time than a busy machine may need, they may still be
// unanswered when OpTimeout is over.
func closes(tb testing.TB, c *lockrt.Client, opts lockrt.Options) {
	tb.Helper()
	err := c.Close()
	if err != nil && (opts.OpTimeout < unhurried || away(c)) {
		require.ErrorContains(tb, err, "requests are still unanswered")
		return
	}
	require.NoError(tb, err)
}

// away reports whether a server of c does not answer.
func away(c *lockrt.Client) bool {
	for addr := range lockrt.ConnOf(c).Nodes() {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return true
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
		if _, err = conn.Write([]byte("PING\r\n")); err == nil {
			_, err = conn.Read(make([]byte, 1))
		}
		_ = conn.Close()
		if err != nil {
			return true
		}
	}
	return false
}

// opened is Open of a server that answers, on a machine that may stand still for longer than a client waits for it.
func opened(ctx context.Context, url string, opts lockrt.Options) (c *lockrt.Client, err error) {
	c, err = lockrt.Open(ctx, url, opts)
	for start := time.Now(); timedOut(err) && ctx.Err() == nil && time.Since(start) < patience; {
		c, err = lockrt.Open(ctx, url, opts)
	}
	return c, err
}

// timedOut reports whether there was no answer in time.
func timedOut(err error) bool {
	var late interface{ Timeout() bool }
	return errors.As(err, &late) && late.Timeout()
}

// patient returns a context that ends when a test has waited long enough.
func patient(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	tb.Cleanup(cancel)
	return ctx
}

// receive returns what comes from ch.
func receive[T any](tb testing.TB, ch <-chan T, what string) T {
	tb.Helper()
	select {
	case v := <-ch:
		return v
	case <-patient(tb).Done():
		require.Fail(tb, "waited too long for "+what)
		panic("unreachable")
	}
}

// atBest runs a round until it is as good as can be: for what is so nearly always, where now and then something else,
// which is no fault, adds to it.
func atBest(tb testing.TB, what string, round func() bool) {
	tb.Helper()
	for range 20 {
		if round() {
			return
		}
	}
	require.Fail(tb, "in no round "+what)
}

// standstill returns a function that says for how long nothing ran in this process, at the longest, since standstill was called: on a busy machine,
// and on one that was suspended, a lease may be over before its holder runs again.
func standstill(tb testing.TB) (longest func() time.Duration) {
	var most atomic.Int64
	tick := time.NewTicker(10 * time.Millisecond)
	done := tb.Context().Done()
	go func() {
		defer tick.Stop()
		for last := time.Now(); ; {
			select {
			case <-tick.C:
			case <-done:
				return
			}
			now := time.Now()
			most.Store(max(most.Load(), int64(now.Sub(last))))
			last = now
		}
	}()
	return func() time.Duration { return time.Duration(most.Load()) }
}

// lockLater locks in another goroutine, once it has to wait, and returns where its lease comes.
func lockLater(ctx context.Context, m lockrt.Locker, opts ...lockrt.LockOption) <-chan locked {
	return leaseLater(func() (*lockrt.Lease, error) { return m.Lock(ctx, opts...) })
}

// exclusives are the locks of one key at a time that a Client makes.
var exclusives = map[string]func(c *lockrt.Client, key string) lockrt.Locker{
	"Mutex":     func(c *lockrt.Client, key string) lockrt.Locker { return c.Mutex(key) },
	"FairMutex": func(c *lockrt.Client, key string) lockrt.Locker { return c.FairMutex(key) },
	"RWMutex":   func(c *lockrt.Client, key string) lockrt.Locker { return c.RWMutex(key) },
}

type locked struct {
	lease *lockrt.Lease
	err   error
}

// watch returns hooks that report calls that begin to wait, and leases that end.
func watch() (hooks lockrt.Hooks, waiting chan string, ends chan lockrt.EndEvent) {
	waiting, ends = make(chan string, 1000), make(chan lockrt.EndEvent, 1000)
	return lockrt.Hooks{
		Waiting: func(_ context.Context, e lockrt.AcquireEvent) { waiting <- e.Key },
		Ended:   func(_ context.Context, e lockrt.EndEvent) { ends <- e },
	}, waiting, ends
}

// TestDefaults_OfAnswers: a client that looks for no deadlocks answers those of others as often as they look.
func TestDefaults_OfAnswers(t *testing.T) {
	t.Parallel()
	require.EqualValues(t, lockrt.DefaultDeadlockAfter, inner.DeadlockAfter)
}

func TestNew_RefusesBadOptions(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]lockrt.Options{
		"Options.Watchdog: unusable option: 10ms is shorter than 100ms":                   {Watchdog: 10 * time.Millisecond},
		"Options.Watchdog: unusable option: -1s is shorter than 100ms":                    {Watchdog: -time.Second},
		"Options.OpTimeout: unusable option: -1s is shorter than 1ms":                     {OpTimeout: -time.Second},
		"Options.OpTimeout: unusable option: 1µs is shorter than 1ms":                     {OpTimeout: time.Microsecond},
		"Options.RedLockTimeout: unusable option: 1µs is shorter than 1ms":                {RedLockTimeout: time.Microsecond},
		"Options.Cohort: unusable option: -1 is negative":                                 {Cohort: -1},
		"Options.Replicas: unusable option: -1 is negative":                               {Replicas: -1},
		"Options.Linger: unusable option: the linger time -1ns is not between 0 and 20ms": {Linger: -1},
		"Options.Linger: unusable option: the linger time 1s is not between 0 and 20ms":   {Linger: time.Second},
		"Options.Retry: unusable option: a backoff that begins with 1µs is shorter than 1ms": {
			Retry: lockrt.ConstantBackoff(time.Microsecond)},
	} {
		_, err := lockrt.New(redistest.Shared(t).Client(), opts)
		require.EqualError(t, err, "lockgen: "+name)
		require.ErrorIs(t, err, lockrt.ErrBadOption)
		_, err = lockrt.Open(t.Context(), redistest.Shared(t).URL(), opts)
		require.ErrorIs(t, err, lockrt.ErrBadOption)
	}
}

func TestOpen_SaysWhatIsWrongWithTheURL(t *testing.T) {
	t.Parallel()
	_, err := lockrt.Open(t.Context(), "http://localhost", lockrt.Options{})
	require.ErrorContains(t, err, "lockgen: open: ")
	_, err = lockrt.Open(t.Context(), "redis://127.0.0.1:1", lockrt.Options{})
	require.ErrorContains(t, err, "lockgen: open: ")
}

func TestClient_DoesNotContactRedisBeforeItIsUsed(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	rc := server.Client()
	server.Do("CONFIG", "RESETSTAT")
	c, err := lockrt.New(rc, lockrt.Options{})
	require.NoError(t, err)
	c.Mutex("k")
	require.NoError(t, c.Close())
	require.NotContains(t, server.CommandStats(), "script|load")
}

func TestClient_PreloadsAndNeverSendsEval(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), unwatched)
	for range 3 {
		lease, err := c.Mutex("k").Lock(patient(t))
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
	}
	stats := server.CommandStats()
	require.EqualValues(t, len(scripts.All()), stats["script|load"], "every script once")
	require.GreaterOrEqual(t, stats["evalsha"], int64(6)) // one whose answer is late is sent again
	require.NotContains(t, stats, "eval")

	server.Do("SCRIPT", "FLUSH")
	lease, err := c.Mutex("k").Lock(patient(t))
	require.NoError(t, err, "forgotten scripts are the client's business")
	require.NoError(t, lease.Unlock(t.Context()))
	require.EqualValues(t, 2*len(scripts.All()), server.CommandStats()["script|load"])
	require.NotContains(t, server.CommandStats(), "eval")
}

func TestClient_ManyFirstUsersLoadOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{})
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			lease, err := c.Mutex(redistest.Key(t, strconv.Itoa(i))).Lock(patient(t))
			if err == nil {
				err = lease.Unlock(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, len(scripts.All()), server.CommandStats()["script|load"])
}

func TestClient_CloseEndsLeasesAndLeavesTheirKeys(t *testing.T) {
	t.Parallel()
	hooks, waiting, ends := watch()
	rc := redistest.Shared(t).NewClient()
	c, err := lockrt.New(rc, lockrt.Options{Hooks: hooks})
	require.NoError(t, err)
	m := c.Mutex(redistest.Key(t, "k"))
	lease, err := m.Lock(patient(t))
	require.NoError(t, err)
	local := lockLater(patient(t), m)
	receive(t, waiting, "the waiter")

	require.NoError(t, c.Close())

	require.ErrorIs(t, receive(t, local, "the local waiter").err, lockrt.ErrClosed)
	<-lease.Context().Done()
	require.ErrorIs(t, lease.Err(), lockrt.ErrClosed)
	require.ErrorIs(t, context.Cause(lease.Context()), lockrt.ErrClosed)
	require.ErrorIs(t, receive(t, ends, "the end").Cause, lockrt.ErrClosed)
	ttl, err := lease.TTL(patient(t))
	require.NoError(t, err, "the key is left")
	require.Positive(t, ttl)

	_, err = m.Lock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrClosed)
	_, err = m.Lock(lease.Context())
	require.Error(t, err)
	_, err = m.TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrClosed)
	_, err = m.ForceUnlock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrClosed)

	require.NoError(t, lease.Unlock(t.Context()), "Unlock works after Close")
	_, err = lease.TTL(patient(t))
	require.ErrorIs(t, err, lockrt.ErrLost, "the key is freed")
	require.NoError(t, c.Close(), "closing again does nothing")
	require.NoError(t, c.Shutdown(patient(t)))
}

func TestClient_CloseFailsThoseWhoWaitForOthers(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	lease, err := newClient(t, lockrt.Options{}).Mutex(key).Lock(patient(t))
	require.NoError(t, err)
	hooks, waiting, _ := watch()
	c := newClient(t, lockrt.Options{Hooks: hooks})
	got := lockLater(patient(t), c.Mutex(key))
	receive(t, waiting, "the waiter")
	require.NoError(t, c.Close())
	require.ErrorIs(t, receive(t, got, "its error").err, lockrt.ErrClosed)
	require.NoError(t, lease.Unlock(t.Context()))
}

func TestClient_ShutdownWaitsForLeases(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	c := newClient(t, lockrt.Options{Hooks: hooks})
	m := c.Mutex(redistest.Key(t, "k"))
	lease, err := m.Lock(patient(t))
	require.NoError(t, err)
	got := lockLater(patient(t), m)
	receive(t, waiting, "the waiter")

	done := make(chan error, 1)
	go func() { done <- c.Shutdown(patient(t)) }()
	require.ErrorIs(t, receive(t, got, "the waiter's error").err, lockrt.ErrClosed)
	require.NoError(t, lease.Err(), "still held")
	inner, err := m.Lock(lease.Context())
	require.NoError(t, err, "a holder can still enter again, to finish")
	require.NoError(t, inner.Unlock(t.Context()))
	require.Empty(t, done)
	require.NoError(t, lease.Unlock(t.Context()))
	require.NoError(t, receive(t, done, "the end of Shutdown"))
	freed(t, m.Key())
}

// TestClient_ShutdownDuringAGrant shows that Shutdown waits for a lease that is being granted when it begins: it looks for leases only when each
// grant counts, or is refused.
//
//nolint:paralleltest // the clients of other tests would be traced, too
func TestClient_ShutdownDuringAGrant(t *testing.T) {
	key, done := redistest.Key(t, "k"), make(chan error, 1)
	var c *lockrt.Client
	var once sync.Once
	stop := trace.To(func(s trace.Step) {
		if s.Action == trace.Granted && s.Key == key {
			once.Do(func() { // it is granted, and does not count yet
				go func() { done <- c.Shutdown(patient(t)) }()
				lockrt.ShutsDown(c)
			})
		}
	})
	c = newClient(t, lockrt.Options{})
	stop()
	lease, err := c.Mutex(key).Lock(patient(t))
	if err == nil {
		select {
		case <-lease.Context().Done():
			require.NoError(t, context.Cause(lease.Context()), "its holder is at work")
		case err := <-done:
			require.Fail(t, "Shutdown has not waited", err)
		case <-time.After(50 * time.Millisecond): // nothing happens until the holder unlocks
		}
		require.NoError(t, lease.Unlock(t.Context()))
	} else { // the caller was slow, and found the client closing before it found its lease, which it has given back
		require.ErrorIs(t, err, lockrt.ErrClosed)
	}
	require.NoError(t, receive(t, done, "the end of Shutdown"))
	freed(t, key)
}

func TestClient_ShutdownGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	lease, err := c.Mutex(redistest.Key(t, "k")).Lock(patient(t))
	require.NoError(t, err)
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	err = c.Shutdown(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, why)
	require.ErrorIs(t, lease.Err(), lockrt.ErrClosed)
}

func TestClient_ShutdownOfAnIdleClient(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, c.Shutdown(ctx), "there is nothing to wait for")
}

func TestClient_HooksTellTheStory(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var story []string
	note := func(words ...string) {
		mu.Lock()
		defer mu.Unlock()
		story = append(story, strings.Join(words, " "))
	}
	type span struct{}
	c := newClient(t, lockrt.Options{Hooks: lockrt.Hooks{
		AcquireStart: func(ctx context.Context, e lockrt.AcquireEvent) context.Context {
			note("start", string(e.Kind), e.Key)
			return context.WithValue(ctx, span{}, "span")
		},
		Waiting: func(ctx context.Context, e lockrt.AcquireEvent) { note("waiting", ctx.Value(span{}).(string)) },
		AcquireEnd: func(ctx context.Context, e lockrt.AcquireEvent) {
			if e.Err != nil {
				note("failed", ctx.Value(span{}).(string))
				return
			}
			note("acquired", ctx.Value(span{}).(string))
		},
		Acquired: func(ctx context.Context, e lockrt.AcquireEvent) context.Context {
			if ctx.Value(span{}) != nil {
				note("under another span")
			}
			note("holds", string(e.Outcome), string(e.Grant))
			return context.WithValue(ctx, span{}, "hold")
		},
		Ended: func(ctx context.Context, e lockrt.EndEvent) {
			note("ended", ctx.Value(span{}).(string), e.Cause.Error())
		},
	}})
	m := c.Mutex(redistest.Key(t, "k"))
	lease, err := m.Lock(patient(t))
	require.NoError(t, err)
	require.Equal(t, "hold", lease.Context().Value(span{}), "the span of the acquire is over")
	_, err = m.TryLock(patient(t))
	require.Error(t, err)
	_, err = m.Lock(patient(t), lockrt.WithWait(time.Millisecond))
	require.Error(t, err)
	require.NoError(t, lease.Unlock(t.Context()))
	k := m.Key()
	require.Equal(t, []string{
		"start mutex " + k, "acquired span", "holds acquired server",
		"start mutex " + k, "failed span",
		"start mutex " + k, "waiting span", "failed span",
		"ended hold lease released",
	}, story)
}

func TestClient_LogsThatSubscribingFails(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	server.Do("ACL", "SETUSER", "mute", "on", ">pass", "~*", "+@all", "-subscribe", "&*")
	log := &logbook{lines: make(chan string, 1000)}
	hooks, _, _ := watch()
	rc := server.NewClient(func(o *rueidis.ClientOption) { o.Username, o.Password = "mute", "pass" })
	c, err := lockrt.New(rc, lockrt.Options{Hooks: hooks, Logger: slog.New(slog.NewTextHandler(log, nil))})
	require.NoError(t, err)
	defer c.Close()
	holder := clientOf(t, server.URL(), lockrt.Options{})
	lease, err := holder.Mutex("k").Lock(patient(t))
	require.NoError(t, err)
	got := lockLater(patient(t), c.Mutex("k"))
	require.Contains(t, receive(t, log.lines, "a log line"), "NOPERM")
	failures := func() int64 { return number(t, server, "EVAL", denials, "0") }
	until(t, "it fails some more times", func() bool { return failures() >= 3 })
	server.Do("ACL", "SETUSER", "mute", "+subscribe")
	again := receive(t, log.lines, "the end of the outage, and not one more failure")
	require.Contains(t, again, "subscribing works again")
	require.NoError(t, lease.Unlock(t.Context()))
	after := receive(t, got, "the lock")
	require.NoError(t, after.err)
	require.NoError(t, after.lease.Unlock(t.Context()))
}

// TestClient_KeepsItsConnectionWhereTheServerKnowsNoSubscribe shows that a client tries again over the connection that it has.
func TestClient_KeepsItsConnectionWhereTheServerKnowsNoSubscribe(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t, redistest.WithConfig("rename-command", "SUBSCRIBE", ""))
	proxy := redistest.Proxy(t, server.Addr())
	var connections atomic.Int64
	tries := make(chan struct{}, 1000)
	proxy.OnRequest(func(cmd []string) {
		switch cmd[0] {
		case "HELLO":
			connections.Add(1)
		case "SUBSCRIBE":
			tries <- struct{}{}
		}
	})
	lease, err := clientOf(t, server.URL(), lockrt.Options{}).Mutex("k").Lock(patient(t))
	require.NoError(t, err)
	got := lockLater(patient(t), clientOf(t, proxy.URL(), lockrt.Options{}).Mutex("k"))
	for range 10 {
		receive(t, tries, "a try to subscribe")
	}
	require.Less(t, connections.Load(), int64(8))
	require.NoError(t, lease.Unlock(t.Context()))
	after := receive(t, got, "the lock")
	require.NoError(t, after.err)
	require.NoError(t, after.lease.Unlock(t.Context()))
}

// denials has the server say how often it has refused something.
const denials = `return tonumber(redis.call('INFO', 'errorstats'):match('errorstat_NOPERM:count=(%d+)') or 0)`

// logbook is a writer that hands on what is written.
type logbook struct{ lines chan string }

func (l *logbook) Write(line []byte) (int, error) {
	l.lines <- string(line)
	return len(line), nil
}

// exists returns how many of the keys the shared server has.
func exists(tb testing.TB, keys ...string) int64 {
	tb.Helper()
	n, err := redistest.Shared(tb).Do(append([]string{"EXISTS"}, keys...)...).AsInt64()
	require.NoError(tb, err)
	return n
}

// freed waits until the shared server has none of the keys.
func freed(tb testing.TB, keys ...string) {
	tb.Helper()
	until(tb, "the keys are gone", func() bool { return exists(tb, keys...) == 0 })
}

// After Unlock the lock is free, at once.
func TestUnlock_TheLockIsFreeWhenItReturns(t *testing.T) {
	t.Parallel()
	for name, kind := range exclusives {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, lockrt.Options{})
			var requests atomic.Int32
			acquires := redistest.EvalSHA(scripts.Take.SHA1(), scripts.Acquire.SHA1(), scripts.FairAcquire.SHA1(), scripts.RWWrite.SHA1())
			l.proxy.OnRequest(func(cmd []string) {
				if acquires(cmd) {
					requests.Add(1)
				}
			})
			m := kind(l.client, l.key)
			var calls int32
			var lease *lockrt.Lease
			lock := func() (err error) {
				calls++
				lease, err = m.TryLock(patient(t))
				return err
			}
			for range 500 {
				err := lock()
				if errors.Is(err, lockrt.ErrNotAcquired) && requests.Load() > calls {
					// An answer was late, so the client has sent the request again. The copy has arrived after the Unlock.
					until(t, "the copy is withdrawn", func() bool { err = lock(); return !errors.Is(err, lockrt.ErrNotAcquired) })
				}
				require.NoError(t, err)
				require.NoError(t, lease.Unlock(patient(t)))
			}
		})
	}
}
