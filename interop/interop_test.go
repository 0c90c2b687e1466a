package interop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

const (
	// long is a lease that nobody outwaits here: who is served sooner was told.
	long = 30 * time.Second
	// short is a lease that tests wait for.
	short = 2 * time.Second
	// promptly is how long it takes to be told, at most, half of the times. It is less than the second after
	// which who waits for an RWMutex asks in any case, and than all other times after which anybody asks.
	promptly = 400 * time.Millisecond
)

// pairs are what waits for what.
var pairs = []struct {
	name    string
	channel string // where Redisson announces that there is something to have; %s is the key
	hold    role
	wait    role
}{
	{"mutex", "redisson_lock__channel:{%s}", mutexRole, mutexRole},
	{"fenced mutex", "redisson_lock__channel:{%s}", fencedRole, fencedRole},
	{"writer after writer", "redisson_rwlock:{%s}", writeRole, writeRole},
	{"writer after reader", "redisson_rwlock:{%s}", readRole, writeRole},
	{"reader after writer", "redisson_rwlock:{%s}", writeRole, readRole},
	{"semaphore", "redisson_sc:{%s}", semaphoreRole, semaphoreRole},
	{"permits", "redisson_sc:{%s}", permitRole, permitRole},
	{"latch", "redisson_countdownlatch__channel__{%s}", setRole, awaitRole},
}

// soon ends when what should be done at once is not done.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// A fleet is a Redis with a Go and a Java client.
type fleet struct {
	server *redistest.RedisServer
	c      *lockrt.Client
	j      *jvm
	java   thread
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{server: redistest.Shared(t), j: startJava(t)}
	f.c = f.client(t, lockrt.Options{Watchdog: long, TokenTTL: lockrt.Forever})
	f.java = f.j.open(t, "steady", f.server.URL(), long)
	return f
}

// client returns a Go client that is closed when the test ends.
func (f *fleet) client(t *testing.T, opts lockrt.Options) *lockrt.Client {
	t.Helper()
	c, err := lockrt.Open(f.server.URL(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// listening returns when somebody has subscribed to the channel.
func (f *fleet) listening(t *testing.T, channel string) {
	t.Helper()
	require.Eventually(t, func() bool {
		reply, err := f.server.Try("PUBSUB", "NUMSUB", channel)
		if err != nil {
			return false
		}
		words, err := reply.ToArray()
		if err != nil || len(words) != 2 {
			return false
		}
		n, err := words[1].AsInt64()
		return err == nil && n > 0
	}, 20*time.Second, time.Millisecond, "nobody listens to %s", channel)
}

// granted is how a wait ended.
type granted struct {
	release release
	err     error
	at      time.Time
}

func begin(ctx context.Context, a acquire, key string) <-chan granted {
	done := make(chan granted, 1)
	go func() {
		r, err := a(ctx, key)
		done <- granted{r, err, time.Now()}
	}()
	return done
}

// served waits for a grant.
func served(t *testing.T, done <-chan granted) granted {
	t.Helper()
	g := <-done
	require.NoError(t, g.err)
	return g
}

// TestInterop is the matrix: every primitive, in both directions.
func TestInterop(t *testing.T) {
	f := newFleet(t)
	t.Run("handover", func(t *testing.T) {
		for _, p := range pairs {
			cell(t, p.name, "Go holds, Java is told", func(t *testing.T) string {
				return f.handover(t, p.hold.inGo(f.c), p.wait.inJava(f.java), func(string) { f.java.parked(t) })
			})
			cell(t, p.name, "Java holds, Go is told", func(t *testing.T) string {
				return f.handover(t, p.hold.inJava(f.java), p.wait.inGo(f.c), func(key string) {
					f.listening(t, fmt.Sprintf(p.channel, key))
				})
			})
		}
	})
	t.Run("death", func(t *testing.T) { f.deaths(t) })
	t.Run("force", func(t *testing.T) { f.force(t) })
	t.Run("reentry", func(t *testing.T) { f.reentry(t) })
	t.Run("watchdogs", func(t *testing.T) { f.watchdogs(t) })
	t.Run("downgrade", func(t *testing.T) { f.downgrade(t) })
	t.Run("tokens", func(t *testing.T) { f.tokens(t) })
	t.Run("counts", func(t *testing.T) { f.counts(t) })
	t.Run("permits", func(t *testing.T) { f.permits(t) })
	t.Run("latches", func(t *testing.T) { f.latches(t) })
	t.Run("contention", func(t *testing.T) { f.contention(t) })
}

// handover has one side wait for the other, several times, each with a key of its own so that whoever listens
// to its channel is the one who waits. waits returns when somebody waits for a key.
func (f *fleet) handover(t *testing.T, hold, wait acquire, waits func(key string)) string {
	const rounds = 7
	took := make([]time.Duration, rounds)
	for i := range took {
		key := redistest.Key(t, "k")
		give, err := hold(soon(t), key)
		require.NoError(t, err)
		done := begin(soon(t), wait, key)
		waits(key)
		select {
		case g := <-done:
			t.Fatalf("it did not wait: %v", g.err)
		default:
		}
		given := time.Now()
		require.NoError(t, give(soon(t)))
		g := served(t, done)
		took[i] = g.at.Sub(given)
		require.NoError(t, g.release(soon(t)))
	}
	slices.Sort(took)
	require.Less(t, took[rounds/2], promptly, "woken by a message, not by a timer: %v", took)
	require.Less(t, took[rounds-1], long/3)
	return fmt.Sprintf("told after %s, at most %s", round(took[rounds/2]), round(took[rounds-1]))
}

func round(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

// mortal are what comes back by itself when its holder has died.
var mortal = []struct {
	name string
	hold role
	wait role
}{
	{"mutex", mutexRole, mutexRole},
	{"fenced mutex", fencedRole, fencedRole},
	{"writer after writer", writeRole, writeRole},
	{"writer after reader", readRole, writeRole},
	{"reader after writer", writeRole, readRole},
}

// deaths has the other side wait for holders that die, all of them at once.
func (f *fleet) deaths(t *testing.T) {
	t.Run("of Java", func(t *testing.T) {
		j := startJava(t)
		victim := j.open(t, "victim", f.server.URL(), short)
		var names []string
		var waits []<-chan granted
		for _, m := range mortal {
			key := redistest.Key(t, "k")
			_, err := m.hold.inJava(victim)(soon(t), key)
			require.NoError(t, err)
			names, waits = append(names, m.name), append(waits, begin(soon(t), m.wait.inGo(f.c), key))
		}
		key := redistest.Key(t, "k")
		victim.do(t, "permitSet", key, "1")
		victim.do(t, "permitAcquire", key, millis(short)) // nothing renews it
		names, waits = append(names, "permits"), append(waits, begin(soon(t), permitRole.inGo(f.c), key))
		j.die()
		f.inherit(t, "a Java holder dies, Go is served", time.Now(), names, waits)
	})
	t.Run("of Go", func(t *testing.T) {
		keys := make([]string, len(mortal)+1)
		for i := range keys {
			keys[i] = redistest.Key(t, "k")
		}
		victim := startHolder(t, f.server.URL(), keys)
		var names []string
		var waits []<-chan granted
		for i, m := range mortal {
			th := f.java.thread("heir" + strconv.Itoa(i))
			names, waits = append(names, m.name), append(waits, begin(soon(t), m.wait.inJava(th), keys[i]))
		}
		names = append(names, "permits")
		waits = append(waits, begin(soon(t), permitRole.inJava(f.java.thread("heir")), keys[len(mortal)]))
		require.NoError(t, victim.Process.Kill())
		_ = victim.Wait()
		f.inherit(t, "a Go holder dies, Java is served", time.Now(), names, waits)
	})
}

// inherit expects each wait to end when the lease of the dead is over.
func (f *fleet) inherit(t *testing.T, what string, died time.Time, names []string, waits []<-chan granted) {
	for i, name := range names {
		cell(t, name, what, func(t *testing.T) string {
			g := served(t, waits[i])
			took := g.at.Sub(died)
			require.Positive(t, took, "the dead had it")
			require.Less(t, took, 3*short)
			require.NoError(t, g.release(soon(t)))
			return fmt.Sprintf("after %s, with leases of %s", round(took), short)
		})
	}
}

// holderVariable tells a process of this test binary what to hold: the address of the server, and keys.
const holderVariable = "LOCKGEN_INTEROP_HOLDER"

// beHolder is the Go process that dies: it takes everything, says so, and waits for the end.
func beHolder(orders string) {
	words := strings.Fields(orders)
	ctx := context.Background()
	c, err := lockrt.Open(words[0], lockrt.Options{Watchdog: short, TokenTTL: lockrt.Forever})
	for i, m := range mortal {
		if err == nil {
			_, err = m.hold.inGo(c)(ctx, words[1+i])
		}
	}
	if err == nil {
		_, err = c.PermitSemaphore(words[1+len(mortal)], 1).Acquire(ctx)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("held")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
}

func startHolder(t *testing.T, url string, keys []string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holderVariable+"="+url+" "+strings.Join(keys, " "))
	cmd.Stderr = t.Output()
	_, err := cmd.StdinPipe() // open for as long as this process lives
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	said, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "held\n", said)
	return cmd
}

// forced are the locks that can be taken by force.
var forced = []struct {
	name, kind string
	lock       func(c *lockrt.Client, key string) lockrt.Locker
	force      func(ctx context.Context, c *lockrt.Client, key string) (bool, error)
}{
	{
		"mutex", "lock",
		func(c *lockrt.Client, key string) lockrt.Locker { return c.Mutex(key) },
		func(ctx context.Context, c *lockrt.Client, key string) (bool, error) {
			return c.Mutex(key).ForceUnlock(ctx)
		},
	},
	{
		"fenced mutex", "fenced",
		func(c *lockrt.Client, key string) lockrt.Locker { return c.Mutex(key, lockrt.WithFencing()) },
		func(ctx context.Context, c *lockrt.Client, key string) (bool, error) {
			return c.Mutex(key).ForceUnlock(ctx)
		},
	},
	{
		"writer", "write",
		func(c *lockrt.Client, key string) lockrt.Locker { return c.RWMutex(key) },
		func(ctx context.Context, c *lockrt.Client, key string) (bool, error) {
			return c.RWMutex(key).ForceUnlock(ctx)
		},
	},
	{
		"reader", "read",
		func(c *lockrt.Client, key string) lockrt.Locker { return c.RWMutex(key).RLocker() },
		func(ctx context.Context, c *lockrt.Client, key string) (bool, error) {
			return c.RWMutex(key).ForceRUnlock(ctx)
		},
	},
}

func (f *fleet) force(t *testing.T) {
	for _, l := range forced {
		cell(t, l.name, "Java takes it from Go by force", func(t *testing.T) string {
			key := redistest.Key(t, "k")
			lease, err := l.lock(f.c, key).Lock(soon(t))
			require.NoError(t, err)
			taken := time.Now()
			require.Equal(t, "true", f.java.do(t, "forceUnlock", l.kind, key))
			select {
			case <-lease.Context().Done():
			case <-soon(t).Done():
				t.Fatal("the holder is not told")
			}
			took := time.Since(taken)
			require.ErrorIs(t, context.Cause(lease.Context()), lockrt.ErrLost)
			require.Less(t, took, long/6, "told before the next renewal")
			require.ErrorIs(t, lease.Unlock(soon(t)), lockrt.ErrLost)
			require.Equal(t, "false", f.java.do(t, "forceUnlock", l.kind, key), "nobody has it")
			return "the holder was told after " + round(took).String()
		})
		cell(t, l.name, "Go takes it from Java by force", func(t *testing.T) string {
			key := redistest.Key(t, "k")
			f.java.do(t, "lock", l.kind, key, "0")
			taken, err := l.force(soon(t), f.c, key)
			require.NoError(t, err)
			require.True(t, taken)
			require.Equal(t, "false", f.java.do(t, "isHeld", l.kind, key))
			require.Contains(t, f.java.fails(t, "unlock", l.kind, key), "IllegalMonitorState")
			lease, err := l.lock(f.c, key).TryLock(soon(t))
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(soon(t)))
			taken, err = l.force(soon(t), f.c, key)
			require.NoError(t, err)
			require.False(t, taken)
			return "unlock() throws IllegalMonitorStateException"
		})
	}
}

func (f *fleet) reentry(t *testing.T) {
	for _, l := range forced[:3] {
		cell(t, l.name, "entered twice in Java", func(t *testing.T) string {
			key := redistest.Key(t, "k")
			f.java.do(t, "lock", l.kind, key, "0")
			f.java.do(t, "lock", l.kind, key, "0")
			require.Equal(t, "2", f.java.do(t, "holdCount", l.kind, key))
			f.java.do(t, "unlock", l.kind, key)
			_, err := l.lock(f.c, key).TryLock(soon(t))
			require.ErrorIs(t, err, lockrt.ErrNotAcquired)
			f.java.do(t, "unlock", l.kind, key)
			lease, err := l.lock(f.c, key).TryLock(soon(t))
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(soon(t)))
			return "free for Go after the second unlock"
		})
		cell(t, l.name, "entered twice in Go", func(t *testing.T) string {
			key := redistest.Key(t, "k")
			outer, err := l.lock(f.c, key).Lock(soon(t))
			require.NoError(t, err)
			inner, err := l.lock(f.c, key).Lock(outer.Context())
			require.NoError(t, err)
			require.NoError(t, inner.Unlock(soon(t)))
			require.Equal(t, "true", f.java.do(t, "isLocked", l.kind, key))
			require.Equal(t, "false", f.java.do(t, "tryLock", l.kind, key, "0", "0"))
			require.NoError(t, outer.Unlock(soon(t)))
			require.Equal(t, "true", f.java.do(t, "tryLock", l.kind, key, "0", "0"))
			f.java.do(t, "unlock", l.kind, key)
			return "free for Java after the second unlock"
		})
	}
}

// watchdogs has both sides hold for several leases, beside each other and with each other.
func (f *fleet) watchdogs(t *testing.T) {
	cell(t, "all", "both watchdogs renew", func(t *testing.T) string {
		renewed := make(chan error, 1000)
		shared := redistest.Key(t, "shared")
		c := f.client(t, lockrt.Options{Watchdog: short, TokenTTL: lockrt.Forever, Hooks: lockrt.Hooks{
			Renewed: func(e lockrt.RenewEvent) {
				if e.Key == shared {
					renewed <- e.Err
				}
			},
		}})
		java := f.j.open(t, "brief", f.server.URL(), short)
		inGo, inJava := redistest.Key(t, "go"), redistest.Key(t, "java")
		reader, err := c.RWMutex(shared).RLock(soon(t))
		require.NoError(t, err)
		mutex, err := c.Mutex(inGo).Lock(soon(t))
		require.NoError(t, err)
		permit, err := c.PermitSemaphore(inGo+"permits", 1).Acquire(soon(t))
		require.NoError(t, err)
		java.do(t, "lock", "read", shared, "0")
		java.do(t, "lock", "lock", inJava, "0")
		began := time.Now()
		n := 0
		for time.Since(began) < 3*short { // several leases
			select {
			case err := <-renewed:
				require.NoError(t, err)
				n++
			case <-soon(t).Done():
				t.Fatal("nobody renews")
			}
			require.Equal(t, "false", f.java.do(t, "tryLock", "lock", inGo, "0", "0"))
			require.Equal(t, "false", f.java.do(t, "tryLock", "write", shared, "0", "0"))
			require.Equal(t, "null", f.java.do(t, "permitTry", inGo+"permits"))
			_, err = f.c.Mutex(inJava).TryLock(soon(t))
			require.ErrorIs(t, err, lockrt.ErrNotAcquired)
			_, err = f.c.RWMutex(shared).TryLock(soon(t))
			require.ErrorIs(t, err, lockrt.ErrNotAcquired)
		}
		held := time.Since(began)
		require.NoError(t, mutex.Unlock(soon(t)))
		require.NoError(t, permit.Release(soon(t)))
		java.do(t, "unlock", "lock", inJava)
		// Each reader holds for itself.
		require.Equal(t, "1", java.do(t, "holdCount", "read", shared))
		require.NoError(t, reader.Unlock(soon(t)))
		_, err = f.c.RWMutex(shared).TryLock(soon(t))
		require.ErrorIs(t, err, lockrt.ErrNotAcquired)
		java.do(t, "unlock", "read", shared)
		writer, err := f.c.RWMutex(shared).TryLock(soon(t))
		require.NoError(t, err)
		require.NoError(t, writer.Unlock(soon(t)))
		java.do(t, "close")
		return fmt.Sprintf("held for %s with leases of %s; %d renewals in Go", round(held), short, n)
	})
	cell(t, "readers", "one unlocks, the other is still renewed", func(t *testing.T) string {
		key := redistest.Key(t, "k")
		renewed := make(chan error, 1000)
		c := f.client(t, lockrt.Options{Watchdog: short, Hooks: lockrt.Hooks{
			Renewed: func(e lockrt.RenewEvent) { renewed <- e.Err },
		}})
		reader, err := c.RWMutex(key).RLock(soon(t))
		require.NoError(t, err)
		f.java.do(t, "lock", "read", key, "0")
		f.java.do(t, "unlock", "read", key)
		began := time.Now()
		for time.Since(began) < 2*short {
			select {
			case err := <-renewed:
				require.NoError(t, err)
			case <-soon(t).Done():
				t.Fatal("nobody renews")
			}
			require.Equal(t, "false", f.java.do(t, "tryLock", "write", key, "0", "0"))
		}
		require.NoError(t, reader.Unlock(soon(t)))
		require.Equal(t, "true", f.java.do(t, "tryLock", "write", key, "0", "0"))
		f.java.do(t, "unlock", "write", key)
		return "Go reads on when Java has unlocked"
	})
}

func (f *fleet) downgrade(t *testing.T) {
	cell(t, "downgrade", "in Go, Java readers are told", func(t *testing.T) string {
		key := redistest.Key(t, "k")
		writer, err := f.c.RWMutex(key).Lock(soon(t))
		require.NoError(t, err)
		reader, err := f.c.RWMutex(key).RLock(writer.Context())
		require.NoError(t, err)
		done := begin(soon(t), readRole.inJava(f.java), key)
		f.java.parked(t)
		given := time.Now()
		require.NoError(t, writer.Unlock(soon(t)))
		g := served(t, done)
		took := g.at.Sub(given)
		require.Less(t, took, long/3, "before the lease is over")
		require.NoError(t, reader.Err())
		require.Equal(t, "false", f.java.thread("writer").do(t, "tryLock", "write", key, "0", "0"))
		require.NoError(t, g.release(soon(t)))
		require.NoError(t, reader.Unlock(soon(t)))
		return "a Java reader joins after " + round(took).String()
	})
	cell(t, "downgrade", "in Java, Go readers find out", func(t *testing.T) string {
		key := redistest.Key(t, "k")
		f.java.do(t, "lock", "write", key, "0")
		f.java.do(t, "lock", "read", key, "0")
		done := begin(soon(t), readRole.inGo(f.c), key)
		f.listening(t, "redisson_rwlock:{"+key+"}")
		given := time.Now()
		f.java.do(t, "unlock", "write", key)
		g := served(t, done)
		took := g.at.Sub(given)
		require.Less(t, took, long/3, "before the lease is over")
		require.Equal(t, "true", f.java.do(t, "isHeld", "read", key))
		require.NoError(t, g.release(soon(t)))
		f.java.do(t, "unlock", "read", key)
		return "a Go reader joins after " + round(took).String() + "; Redisson tells nobody"
	})
}

func (f *fleet) tokens(t *testing.T) {
	cell(t, "fenced mutex", "tokens rise across languages", func(t *testing.T) string {
		seen := make([]string, 2)
		for i, javaFirst := range []bool{false, true} {
			key, last, first := redistest.Key(t, "k"), int64(0), int64(0)
			for n := range 20 {
				var token int64
				if (n%2 == 0) == javaFirst {
					text := f.java.do(t, "fencedLock", key)
					require.Equal(t, text, f.java.do(t, "fencedToken", key))
					f.java.do(t, "unlock", "fenced", key)
					var err error
					token, err = strconv.ParseInt(text, 10, 64)
					require.NoError(t, err)
				} else {
					lease, err := f.c.Mutex(key, lockrt.WithFencing()).Lock(soon(t))
					require.NoError(t, err)
					token = lease.Token()
					require.NoError(t, lease.Unlock(soon(t)))
				}
				require.Greater(t, token, last)
				last = token
				if n == 0 {
					first = token
				}
			}
			seen[i] = fmt.Sprintf("from %d to %d", first, last)
		}
		return "Go first " + seen[0] + ", Java first " + seen[1]
	})
}

func (f *fleet) counts(t *testing.T) {
	cell(t, "semaphore", "both count the same permits", func(t *testing.T) string {
		key := redistest.Key(t, "k")
		s := f.c.Semaphore(key, 0)
		require.Equal(t, "true", f.java.do(t, "semaphoreSet", key, "5"))
		set, err := s.TrySetPermits(soon(t), 7, 0)
		require.NoError(t, err)
		require.False(t, set)
		require.NoError(t, s.Acquire(soon(t), 3))
		require.Equal(t, "2", f.java.do(t, "semaphoreAvailable", key))
		require.Equal(t, "false", f.java.do(t, "semaphoreTry", key, "3"))
		f.java.do(t, "semaphoreAcquire", key, "2")
		require.ErrorIs(t, s.TryAcquire(soon(t), 1), lockrt.ErrNotAcquired)
		f.java.do(t, "semaphoreRelease", key, "4") // also what Go took
		n, err := s.Available(soon(t))
		require.NoError(t, err)
		require.Equal(t, 4, n)
		f.java.do(t, "semaphoreAdd", key, "2")
		changed, err := s.Resize(soon(t), -1)
		require.NoError(t, err)
		require.True(t, changed)
		require.Equal(t, "5", f.java.do(t, "semaphoreDrain", key))
		n, err = s.Available(soon(t))
		require.NoError(t, err)
		require.Zero(t, n)
		return "set, taken, released, added and drained by either"
	})
}

func (f *fleet) permits(t *testing.T) {
	cell(t, "permits", "taken in Go, released in Java", func(t *testing.T) string {
		key := redistest.Key(t, "k")
		s := f.c.PermitSemaphore(key, 0)
		set, err := s.TrySetPermits(soon(t), 2, 0)
		require.NoError(t, err)
		require.True(t, set)
		permit, err := s.Acquire(soon(t))
		require.NoError(t, err)
		require.Equal(t, "1", f.java.do(t, "permitAvailable", key))
		require.Equal(t, "1", f.java.do(t, "permitAcquired", key))
		require.Equal(t, "2", f.java.do(t, "permitTotal", key))
		left, err := strconv.ParseInt(f.java.do(t, "permitLease", key, permit.ID()), 10, 64)
		require.NoError(t, err)
		require.InDelta(t, long.Milliseconds(), left, float64(long.Milliseconds())/2)
		f.java.do(t, "permitRelease", key, permit.ID())
		select {
		case <-permit.Context().Done():
		case <-soon(t).Done():
			t.Fatal("the holder is not told")
		}
		require.ErrorIs(t, permit.Release(soon(t)), lockrt.ErrLost)
		require.Equal(t, "2", f.java.do(t, "permitAvailable", key), "it is back once")
		return "its Go holder has lost it"
	})
	cell(t, "permits", "taken in Java, released in Go", func(t *testing.T) string {
		key := redistest.Key(t, "k")
		s := f.c.PermitSemaphore(key, 0)
		require.Equal(t, "true", f.java.do(t, "permitSet", key, "2"))
		id := f.java.do(t, "permitAcquire", key, "0")
		n, err := s.Acquired(soon(t))
		require.NoError(t, err)
		require.Equal(t, 1, n)
		there, err := s.UpdateLease(soon(t), id, time.Minute)
		require.NoError(t, err)
		require.True(t, there)
		left, err := s.TTL(soon(t), id)
		require.NoError(t, err)
		require.InDelta(t, time.Minute, left, float64(10*time.Second))
		require.Equal(t, "true", f.java.do(t, "permitUpdate", key, id, millis(2*time.Minute)))
		left, err = s.TTL(soon(t), id)
		require.NoError(t, err)
		require.InDelta(t, 2*time.Minute, left, float64(10*time.Second))
		require.NoError(t, s.Release(soon(t), id))
		require.ErrorIs(t, s.Release(soon(t), id), lockrt.ErrLost)
		require.Contains(t, f.java.fails(t, "permitRelease", key, id), "IllegalArgument")
		n, err = s.Available(soon(t))
		require.NoError(t, err)
		require.Equal(t, 2, n, "it is back once")
		return "release() in Java throws IllegalArgumentException then"
	})
}

func (f *fleet) latches(t *testing.T) {
	cell(t, "latch", "both count down", func(t *testing.T) string {
		key := redistest.Key(t, "k")
		latch := f.c.CountDownLatch(key)
		require.Equal(t, "true", f.java.do(t, "latchSet", key, "4"))
		inGo := begin(soon(t), awaitRole.inGo(f.c), key)
		inJava := begin(soon(t), awaitRole.inJava(f.java.thread("awaits")), key)
		for left := 3; left >= 0; left-- {
			if left%2 == 0 {
				n, err := latch.CountDown(soon(t))
				require.NoError(t, err)
				require.Equal(t, left, n)
			} else {
				f.java.do(t, "latchDown", key)
			}
			require.Equal(t, strconv.Itoa(left), f.java.do(t, "latchCount", key))
			n, err := latch.Count(soon(t))
			require.NoError(t, err)
			require.Equal(t, left, n)
		}
		served(t, inGo)
		served(t, inJava)
		return "both go on at zero"
	})
	cell(t, "latch", "deleted in Java, Go is told", func(t *testing.T) string {
		key := redistest.Key(t, "k")
		f.java.do(t, "latchSet", key, "1")
		done := begin(soon(t), awaitRole.inGo(f.c), key)
		f.listening(t, "redisson_countdownlatch__channel__{"+key+"}")
		deleted := time.Now()
		require.Equal(t, "true", f.java.do(t, "latchDelete", key))
		g := <-done
		require.ErrorIs(t, g.err, lockrt.ErrDeleted)
		return "ErrDeleted after " + round(g.at.Sub(deleted)).String()
	})
}

// contention has four threads and four goroutines lose counts unless the lock excludes.
func (f *fleet) contention(t *testing.T) {
	const each, lasts = 4, 5 * time.Second
	for _, l := range forced[:3] {
		cell(t, l.name, "4 threads and 4 goroutines", func(t *testing.T) string {
			key := redistest.Key(t, "k")
			counter := key + ":counter"
			f.server.Do("SET", counter, "0")
			rc := f.server.NewClient()
			var inJava []<-chan answer
			for i := range each {
				th := f.java.thread("contends" + strconv.Itoa(i))
				inJava = append(inJava, th.start("contend", l.kind, key, counter, millis(lasts)))
			}
			type share struct {
				count   int
				longest time.Duration
				err     error
			}
			inGo := make(chan share, each)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for range each {
				go func() {
					var s share
					for end := time.Now().Add(lasts); s.err == nil && time.Now().Before(end); {
						asked := time.Now()
						lease, err := l.lock(f.c, key).Lock(ctx)
						if err != nil {
							s.err = err
							break
						}
						s.longest = max(s.longest, time.Since(asked))
						n, err := rc.Do(ctx, rc.B().Get().Key(counter).Build()).AsInt64()
						err = errors.Join(err, rc.Do(ctx, rc.B().Set().Key(counter).Value(strconv.FormatInt(n+1, 10)).Build()).Error())
						s.count++
						s.err = errors.Join(err, lease.Unlock(ctx))
					}
					inGo <- s
				}()
			}
			var goes, javas int
			var goLongest, javaLongest time.Duration
			for range each {
				s := <-inGo
				require.NoError(t, s.err)
				require.Positive(t, s.count, "every goroutine had it")
				goes, goLongest = goes+s.count, max(goLongest, s.longest)
			}
			for _, done := range inJava {
				select {
				case a := <-done:
					require.NoError(t, a.err)
					var count, micros int
					_, err := fmt.Sscan(a.text, &count, &micros)
					require.NoError(t, err)
					require.Positive(t, count, "every thread had it")
					javas, javaLongest = javas+count, max(javaLongest, time.Duration(micros)*time.Microsecond)
				case <-ctx.Done():
					t.Fatal("a thread waits for ever")
				}
			}
			total, err := f.server.Do("GET", counter).AsInt64()
			require.NoError(t, err)
			require.EqualValues(t, goes+javas, total, "no count is lost: it excludes")
			require.Less(t, max(goLongest, javaLongest), lasts+long/3, "nobody missed that it was free")
			if l.kind != "write" { // writers race, and those of the process that unlocked are nearer
				require.Less(t, max(goLongest, javaLongest), lasts/2, "both sides are served all the time")
			}
			return fmt.Sprintf("excludes; Go %d times, waited %s at most; Java %d times, %s",
				goes, round(goLongest), javas, round(javaLongest))
		})
	}
	cell(t, "all", "nothing is left of locks", func(t *testing.T) string {
		require.Eventually(t, func() bool {
			reply, err := f.server.Try("KEYS", "*")
			require.NoError(t, err)
			keys, err := reply.AsStrSlice()
			require.NoError(t, err)
			return !slices.ContainsFunc(keys, func(key string) bool { return f.leftover(key) })
		}, 30*time.Second, 100*time.Millisecond)
		return "but counters of tokens, semaphores and what is remembered of requests for two minutes"
	})
}

// leftover reports whether a key is of a lock that nobody holds any more.
func (f *fleet) leftover(key string) bool {
	for _, kept := range []string{"redisson_lock_token:", "lockgen_requests:", "lockgen_deleted:"} {
		if strings.HasPrefix(key, kept) {
			return false
		}
	}
	reply, err := f.server.Try("TYPE", key)
	if err != nil {
		return true
	}
	kind, err := reply.ToString()
	return err != nil || kind == "hash" || kind == "list" || strings.HasPrefix(key, "redisson_unlock_latch:") ||
		strings.Contains(key, "rwlock_timeout")
}
