package lockrt_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/leaktest"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// leaseLater runs lock in another goroutine and returns where its lease comes.
func leaseLater(lock func() (*lockrt.Lease, error)) <-chan locked {
	got := make(chan locked, 1)
	go func() {
		lease, err := lock()
		got <- locked{lease, err}
	}()
	return got
}

func readLater(ctx context.Context, m *lockrt.RWMutex, opts ...lockrt.LockOption) <-chan locked {
	return leaseLater(func() (*lockrt.Lease, error) { return m.RLock(ctx, opts...) })
}

// gotten returns the lease that comes.
func gotten(t *testing.T, got <-chan locked, what string) *lockrt.Lease {
	t.Helper()
	l := receive(t, got, what)
	require.NoError(t, l.err, what)
	return l.lease
}

// free unlocks.
func free(t *testing.T, leases ...*lockrt.Lease) {
	t.Helper()
	for _, l := range leases {
		require.NoError(t, l.Unlock(t.Context()))
	}
}

// ok returns the lease of a call that succeeds.
func ok(t *testing.T) func(*lockrt.Lease, error) *lockrt.Lease {
	return func(l *lockrt.Lease, err error) *lockrt.Lease {
		t.Helper()
		require.NoError(t, err)
		return l
	}
}

// nothingLeft checks that no key whose name contains that of the lock is left.
func nothingLeft(t *testing.T, server *redistest.RedisServer, key string) {
	t.Helper()
	until(t, "no key is left", func() bool {
		keys, err := server.Do("KEYS", "*"+key+"*").AsStrSlice()
		require.NoError(t, err)
		return len(keys) == 0
	})
}

// rwHash returns what Redis has of a lock.
func rwHash(t *testing.T, server *redistest.RedisServer, key string) map[string]string {
	t.Helper()
	hash, err := server.Do("HGETALL", key).AsStrMap()
	require.NoError(t, err)
	return hash
}

func TestRWMutex_LeavesRedissonsLayout(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{})
	m := c.RWMutex("order:42")

	r := ok(t)(m.RLock(patient(t)))
	s, err := m.Inspect(patient(t))
	require.NoError(t, err)
	require.Len(t, s.Readers, 1)
	owner := s.Readers[0]
	require.Regexp(t, `^`+c.ID()+`:[1-9]\d*$`, owner)
	require.Equal(t, map[string]string{"mode": "read", owner: "1"}, rwHash(t, server, "order:42"))
	hold := "{order:42}:" + owner + ":rwlock_timeout:1"
	keys, err := server.Do("KEYS", "*").AsStrSlice()
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"order:42", hold}, keys, "and nothing else")
	value, err := server.Do("GET", hold).ToString()
	require.NoError(t, err)
	require.Equal(t, "1", value)
	for _, key := range keys {
		require.InDelta(t, lockrt.DefaultWatchdog.Milliseconds(), number(t, server, "PTTL", key), 5000)
	}
	free(t, r)
	emptied(t, server)

	w := ok(t)(m.Lock(patient(t)))
	s, err = m.Inspect(patient(t))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"mode": "write", s.Writer + ":write": "1"}, rwHash(t, server, "order:42"))
	require.Equal(t, lockrt.RWStanding{Writer: s.Writer, WriteCount: 1, TTL: s.TTL}, s)
	require.Equal(t, 1, keysOn(t, server))
	ttl, err := w.TTL(patient(t))
	require.NoError(t, err)
	require.InDelta(t, lockrt.DefaultWatchdog, ttl, float64(5*time.Second))
	free(t, w)
	emptied(t, server)
	s, err = m.Inspect(patient(t))
	require.NoError(t, err)
	require.Equal(t, lockrt.RWStanding{}, s)
}

func TestRWMutex_ReadersOfAProcessShareOneHold(t *testing.T) {
	t.Parallel()
	l := newLine(t, lockrt.Options{Tracking: lockrt.TrackingOff})
	atBest(t, "was nothing sent for those that join and leave others", func() bool { // nor a late copy of the request of the first one
		key := redistest.Key(t, "k")
		m := l.client.RWMutex(key)
		start := time.Now()
		first := ok(t)(m.RLock(patient(t)))
		probe := redistest.EvalSHA(scripts.RWYield.SHA1())
		probes := l.seen(probe)
		sent := l.seen(func(cmd []string) bool { return redistest.Command("EVALSHA")(cmd) && !probe(cmd) })
		leases := make([]*lockrt.Lease, 1000)
		var wg sync.WaitGroup
		for i := range leases {
			wg.Go(func() {
				var err error
				if leases[i], err = m.RLock(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		free(t, first)
		free(t, leases[:999]...)
		none := len(sent) == 0
		require.LessOrEqual(t, int64(len(probes)), 3*(time.Since(start).Milliseconds()/250),
			"but now and then, by the clock, whether a Java program listens, and more than once only where an answer is late")
		require.Len(t, rwHash(t, l.server, key), 2)
		free(t, leases[999])
		require.NotEmpty(t, sent, "the last one gives it back")
		nothingLeft(t, l.server, key)
		return none && len(sent) <= 3 // more than once only where an answer is late
	})
}

func TestRWMutex_ReadersShareOnlyWhatLivesAsLongAsTheyDo(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	m := clientOf(t, server.URL(), lockrt.Options{}).RWMutex("k")
	leases := []*lockrt.Lease{
		ok(t)(m.RLock(patient(t))),
		ok(t)(m.RLock(patient(t), lockrt.WithWatchdog(20*time.Second))),
		ok(t)(m.RLock(patient(t), lockrt.WithLease(time.Minute))),
		ok(t)(m.RLock(patient(t), lockrt.WithLease(time.Minute))),
		ok(t)(m.RLock(patient(t), lockrt.WithMaxHold(time.Minute))),
	}
	require.Len(t, rwHash(t, server, "k"), 1+len(leases))
	same := ok(t)(m.RLock(patient(t), lockrt.WithWatchdog(20*time.Second)))
	require.Len(t, rwHash(t, server, "k"), 1+len(leases))
	s, err := m.Inspect(patient(t))
	require.NoError(t, err)
	require.Equal(t, 6, s.ReadCount)
	free(t, same)
	free(t, leases...)
	emptied(t, server)
}

func TestRWMutex_ExcludesWritersFromAllAndReadersFromWriters(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	hooks, waiting, _ := watch()
	here, there := newClient(t, lockrt.Options{Hooks: hooks}).RWMutex(key), newClient(t, lockrt.Options{Hooks: hooks}).RWMutex(key)
	for name, other := range map[string]*lockrt.RWMutex{"here": here, "elsewhere": there} {
		w := ok(t)(here.Lock(patient(t)))
		_, err := other.TryLock(patient(t))
		require.ErrorIs(t, err, lockrt.ErrNotAcquired, name)
		require.ErrorContains(t, err, fmt.Sprintf("lockgen: try lock %q: not acquired", key))
		_, err = other.TryRLock(patient(t))
		require.ErrorContains(t, err, fmt.Sprintf("lockgen: try read lock %q: not acquired", key))
		got := readLater(patient(t), other)
		receive(t, waiting, "the reader")
		free(t, w)
		r := gotten(t, got, "the lock for reading, "+name)

		_, err = other.TryLock(patient(t))
		require.ErrorIs(t, err, lockrt.ErrNotAcquired, name)
		r2 := ok(t)(here.TryRLock(patient(t)))
		got = lockLater(patient(t), other)
		receive(t, waiting, "the writer")
		free(t, r, r2)
		free(t, gotten(t, got, "the lock for writing, "+name))
	}
	nothingLeft(t, redistest.Shared(t), key)
}

func TestRWMutex_ReadersOfOtherProcessesComeIn(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	var leases []*lockrt.Lease
	for range 3 {
		leases = append(leases, ok(t)(clientOf(t, server.URL(), lockrt.Options{}).RWMutex("k").RLock(patient(t))))
	}
	require.Len(t, rwHash(t, server, "k"), 4)
	require.Equal(t, 4, keysOn(t, server))
	free(t, leases...)
	emptied(t, server)
}

// A reader comes after a writer that waits, unless that one misses its turn, which lasts for 100 ms.
func TestRWMutex_AReaderDoesNotPassAWriterThatWaits(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	for _, name := range []string{"here", "elsewhere"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := key + name
			hooks, waiting, _ := watch()
			c := newClient(t, lockrt.Options{Hooks: hooks})
			m, writers := c.RWMutex(key), c
			if name == "elsewhere" {
				writers = newClient(t, lockrt.Options{Hooks: hooks})
			}
			r := ok(t)(m.RLock(patient(t)))
			w := lockLater(patient(t), writers.RWMutex(key))
			receive(t, waiting, "the writer")
			until(t, "the writer hears messages", func() bool {
				return subscribers(t, redistest.Shared(t), "lockgen_process:"+writers.ID()) == 1
			})
			known := []*lockrt.RWMutex{m}
			if name == "elsewhere" {
				known = append(known, newClient(t, lockrt.Options{}).RWMutex(key))
			}
			for _, m := range known {
				until(t, "the writer is known", func() bool {
					l, err := m.TryRLock(patient(t))
					if err == nil {
						free(t, l)
					}
					return errors.Is(err, lockrt.ErrNotAcquired)
				})
			}
			again := ok(t)(m.RLock(r.Context()))
			more := readLater(patient(t), m)
			receive(t, waiting, "the next reader")
			began := time.Now()
			free(t, again, r)
			select {
			case l := <-w:
				require.NoError(t, l.err)
				require.Empty(t, more, "the reader came in beside the writer")
				free(t, l.lease)
				free(t, gotten(t, more, "the lock for reading"))
			case l := <-more:
				require.NoError(t, l.err)
				require.GreaterOrEqual(t, time.Since(began), 100*time.Millisecond, "the turn of the writer")
				require.Empty(t, w, "the writer came in beside the reader")
				free(t, l.lease)
				free(t, gotten(t, w, "the lock for writing"))
			}
			nothingLeft(t, redistest.Shared(t), key)
		})
	}
}

// TestRWMutex_NobodyStarves has readers that never pause, in two processes, and writers that never pause, in
// two others; each kind gets in between the others.
func TestRWMutex_NobodyStarves(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	stop, cancel := context.WithCancel(context.Background())
	defer cancel()
	var inside, writing atomic.Int32
	var wg sync.WaitGroup
	run := func(lock func(context.Context, ...lockrt.LockOption) (*lockrt.Lease, error), write bool) *atomic.Int32 {
		rounds := new(atomic.Int32)
		for range 4 {
			wg.Go(func() {
				for stop.Err() == nil {
					l, err := lock(stop)
					if err != nil {
						continue
					}
					if write {
						if writing.Add(1) > 1 || inside.Load() > 0 {
							t.Error("a writer is not alone")
						}
						writing.Add(-1)
					} else {
						inside.Add(1)
						if writing.Load() > 0 {
							t.Error("a reader is beside a writer")
						}
						inside.Add(-1)
					}
					rounds.Add(1)
					if err := l.Unlock(context.Background()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		return rounds
	}
	all := []*atomic.Int32{}
	for range 2 {
		m := newClient(t, lockrt.Options{}).RWMutex(key)
		all = append(all, run(m.RLock, false))
		m = newClient(t, lockrt.Options{}).RWMutex(key)
		all = append(all, run(m.Lock, true))
	}
	until(t, "each has had its turn ten times", func() bool {
		for _, rounds := range all {
			if rounds.Load() < 10 {
				return false
			}
		}
		return true
	})
	cancel()
	wg.Wait()
	nothingLeft(t, redistest.Shared(t), key)
}

func TestRWMutex_WritersOfAProcessPassItOn(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{Hooks: hooks, Cohort: 4, Tracking: lockrt.TrackingOff})
	m := c.RWMutex("k")
	atBest(t, "eight were served in two rows of four: a release, a lock, a release", func() bool {
		first := ok(t)(m.Lock(patient(t)))
		for len(waiting) > 0 { // it may have waited for what a late request of the round before took
			<-waiting
		}
		var order []int
		var wg sync.WaitGroup
		for i := range 7 {
			wg.Go(func() {
				l, err := m.Lock(patient(t))
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, i)
				if err := l.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			})
			receive(t, waiting, "the next in the queue")
		}
		server.Do("CONFIG", "RESETSTAT")
		free(t, first)
		wg.Wait()
		require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6}, order)
		return server.CommandStats()["evalsha"] == 3
	})
}

func TestRWMutex_ReadsUnderItsOwnWriteLock(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"context", "owner"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			c, other := clientOf(t, server.URL(), lockrt.Options{}), clientOf(t, server.URL(), lockrt.Options{})
			m := c.RWMutex("k")
			ctx := patient(t)
			if by == "owner" {
				ctx = lockrt.WithOwner(ctx, lockrt.NewOwner())
			}
			w := ok(t)(m.Lock(ctx))
			if by == "context" {
				ctx = w.Context()
			}
			r := ok(t)(m.RLock(ctx))
			require.Equal(t, "write", rwHash(t, server, "k")["mode"])
			require.Len(t, rwHash(t, server, "k"), 3)
			again := ok(t)(m.RLock(ctx))
			deeper := ok(t)(m.Lock(r.Context()))
			require.Len(t, rwHash(t, server, "k"), 3)
			_, err := m.TryRLock(patient(t))
			require.ErrorIs(t, err, lockrt.ErrNotAcquired, "a stranger here")
			_, err = other.RWMutex("k").TryRLock(patient(t))
			require.ErrorIs(t, err, lockrt.ErrNotAcquired, "a stranger elsewhere")
			free(t, again, r)
			require.Len(t, rwHash(t, server, "k"), 2)
			_, err = other.RWMutex("k").TryRLock(patient(t))
			require.ErrorIs(t, err, lockrt.ErrNotAcquired, "it is held for writing still")
			free(t, deeper, w)
			emptied(t, server)
		})
	}
}

func TestRWMutex_DowngradingLetsReadersIn(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	hooks, waiting, ends := watch()
	c, other := newClient(t, lockrt.Options{Hooks: hooks}), newClient(t, lockrt.Options{Hooks: hooks})
	ctx := lockrt.WithOwner(patient(t), lockrt.NewOwner())
	w := ok(t)(c.RWMutex(key).Lock(ctx))
	r := ok(t)(c.RWMutex(key).RLock(ctx))
	here, there := readLater(patient(t), c.RWMutex(key)), readLater(patient(t), other.RWMutex(key))
	receive(t, waiting, "a reader")
	receive(t, waiting, "a reader")
	until(t, "the one elsewhere listens", func() bool {
		s, err := c.RWMutex(key).Inspect(patient(t))
		require.NoError(t, err)
		return s.Listening == 1
	})
	free(t, w) // the watchdog time is longer than the test is patient
	l1, l2 := gotten(t, here, "the lock for reading, here"), gotten(t, there, "the lock for reading, elsewhere")
	require.NoError(t, r.Err())
	require.NoError(t, r.Context().Err())
	_, err := other.RWMutex(key).TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	_, err = c.RWMutex(key).Lock(ctx)
	require.ErrorIs(t, err, lockrt.ErrUpgrade)
	free(t, l1, l2, r)
	for range 4 {
		require.ErrorIs(t, receive(t, ends, "the end").Cause, lockrt.ErrReleased)
	}
	nothingLeft(t, redistest.Shared(t), key)
}

func TestRWMutex_AReaderCannotUpgrade(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	m := newClient(t, lockrt.Options{}).RWMutex(key)
	r := ok(t)(m.RLock(patient(t)))
	for _, lock := range []func(context.Context, ...lockrt.LockOption) (*lockrt.Lease, error){m.Lock, m.TryLock} {
		_, err := lock(r.Context())
		require.ErrorIs(t, err, lockrt.ErrUpgrade)
		require.ErrorContains(t, err, "held for reading")
	}
	ctx := lockrt.WithOwner(patient(t), lockrt.NewOwner())
	r2 := ok(t)(m.RLock(ctx))
	_, err := m.Lock(ctx)
	require.ErrorIs(t, err, lockrt.ErrUpgrade)
	free(t, r, r2)
	free(t, ok(t)(m.Lock(ctx)))
}

func TestRWMutex_WhoIsOfOneOwnerDoesNotWaitForItself(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	hooks, waiting, _ := watch()
	m := newClient(t, lockrt.Options{Hooks: hooks}).RWMutex(key)
	stranger := ok(t)(m.Lock(patient(t)))
	ctx := lockrt.WithOwner(patient(t), lockrt.NewOwner())
	w := lockLater(ctx, m)
	receive(t, waiting, "the writer")
	w2 := lockLater(ctx, m)
	receive(t, waiting, "its writer")
	r := readLater(ctx, m)
	receive(t, waiting, "its reader")
	free(t, stranger)
	free(t, gotten(t, r, "reading"), gotten(t, w2, "writing"), gotten(t, w, "writing"))

	stranger = ok(t)(m.Lock(patient(t)))
	r = readLater(ctx, m)
	receive(t, waiting, "the reader")
	w = lockLater(ctx, m)
	receive(t, waiting, "its writer")
	free(t, stranger)
	require.ErrorIs(t, receive(t, w, "the error").err, lockrt.ErrUpgrade)
	free(t, gotten(t, r, "reading"))
	nothingLeft(t, redistest.Shared(t), key)
}

// An owner that entered under the context of another lease reads and writes: its calls that wait already do so with it.
func TestRWMutex_AnOwnerThatEnteredByAContextDoesNotWaitForItself(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	hooks, waiting, _ := watch()
	c := newClient(t, lockrt.Options{Hooks: hooks})
	m := c.RWMutex(key)
	fixed := lockrt.WithLease(20 * time.Second)
	by := func(o *lockrt.Owner, l *lockrt.Lease) context.Context { return lockrt.WithOwner(l.Context(), o) }

	o, first := lockrt.NewOwner(), ok(t)(m.Lock(patient(t)))
	r := readLater(lockrt.WithOwner(patient(t), o), m)
	receive(t, waiting, "the reader")
	second := ok(t)(m.Lock(by(o, first)))
	free(t, gotten(t, r, "reading"), second, first)

	strangerHooks, strangerWaits, _ := watch()
	stranger := newClient(t, lockrt.Options{Hooks: strangerHooks}).RWMutex(key)
	for name, opts := range map[string]struct{ hold, wait []lockrt.LockOption }{
		"enters":       {wait: []lockrt.LockOption{fixed}},
		"reads longer": {hold: []lockrt.LockOption{fixed}},
	} {
		o, first = lockrt.NewOwner(), ok(t)(m.RLock(patient(t), opts.hold...))
		w := lockLater(patient(t), stranger)
		receive(t, strangerWaits, "the stranger")
		r = readLater(lockrt.WithOwner(patient(t), o), m, opts.wait...)
		receive(t, waiting, name)
		second = ok(t)(m.RLock(by(o, first), opts.hold...))
		free(t, gotten(t, r, name), second, first)
		free(t, gotten(t, w, "the stranger"))
	}

	o, first = lockrt.NewOwner(), ok(t)(m.RLock(patient(t)))
	w := lockLater(lockrt.WithOwner(patient(t), o), m)
	receive(t, waiting, "the writer")
	late := readLater(patient(t), m) // behind the writer
	receive(t, waiting, "another reader")
	second = ok(t)(m.RLock(by(o, first)))
	require.ErrorIs(t, receive(t, w, "the error").err, lockrt.ErrUpgrade)
	free(t, gotten(t, late, "reading beside"), second, first)
	nothingLeft(t, redistest.Shared(t), key)
}

// Each reader of a group finds the one of their owner that waits to write, which is to hear of it once.
func TestRWMutex_AnOwnerThatReadsOftenAndWantsToWriteWaitsForNothing(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	hooks, waiting, _ := watch()
	m := newClient(t, lockrt.Options{Hooks: hooks}).RWMutex(key)
	stranger := ok(t)(m.Lock(patient(t)))
	ctx := lockrt.WithOwner(patient(t), lockrt.NewOwner())
	var reads []<-chan locked
	for range 12 {
		reads = append(reads, readLater(ctx, m))
		receive(t, waiting, "a reader")
	}
	w := lockLater(ctx, m)
	receive(t, waiting, "its writer")
	free(t, stranger)
	require.ErrorIs(t, receive(t, w, "the error").err, lockrt.ErrUpgrade)
	for _, r := range reads {
		free(t, gotten(t, r, "reading"))
	}
	nothingLeft(t, redistest.Shared(t), key)
}

func TestRWMutex_LeasesOfAMutexOfTheSameNameAreStrangers(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	c := newClient(t, lockrt.Options{})
	lease := ok(t)(c.Mutex(key).Lock(patient(t)))
	for _, lock := range []func(context.Context, ...lockrt.LockOption) (*lockrt.Lease, error){c.RWMutex(key).TryLock, c.RWMutex(key).TryRLock} {
		_, err := lock(lease.Context())
		require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	}
	free(t, lease)
	r := ok(t)(c.RWMutex(key).RLock(patient(t)))
	_, err := c.Mutex(key).TryLock(r.Context())
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	free(t, r)
	nothingLeft(t, redistest.Shared(t), key)
}

func TestRWMutex_Fencing(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	c, other := newClient(t, lockrt.Options{}), newClient(t, lockrt.Options{})
	last := int64(0)
	for range 3 {
		for _, m := range []*lockrt.RWMutex{c.RWMutex(key), other.RWMutex(key)} {
			w := ok(t)(m.Lock(patient(t), lockrt.WithFencing()))
			require.Greater(t, w.Token(), last)
			last = w.Token()
			in := ok(t)(m.Lock(w.Context(), lockrt.WithFencing()))
			require.Equal(t, last, in.Token())
			r := ok(t)(m.RLock(w.Context()))
			require.Zero(t, r.Token())
			token, ok := lockrt.TokenFrom(r.Context())
			require.True(t, ok)
			require.Equal(t, last, token, "of the write lease that it is under")
			free(t, r, in, w)
		}
	}
	token := ok(t)(c.Mutex(key).Lock(patient(t), lockrt.WithFencing()))
	require.Greater(t, token.Token(), last, "one counter with the mutex")
	free(t, token)
	_, err := c.RWMutex(key).RLock(patient(t), lockrt.WithFencing())
	require.ErrorIs(t, err, lockrt.ErrBadOption)
	require.ErrorContains(t, err, "WithFencing means nothing for a reader")
	w := ok(t)(c.RWMutex(key).Lock(patient(t)))
	_, err = c.RWMutex(key).Lock(w.Context(), lockrt.WithFencing())
	require.ErrorIs(t, err, lockrt.ErrBadOption)
	free(t, w)
	redistest.Shared(t).Do("DEL", "redisson_lock_token:{"+key+"}")
}

func TestRWMutex_Do(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "k")
	m := newClient(t, lockrt.Options{}).RWMutex(key)
	mine := errors.New("mine")
	require.ErrorIs(t, m.Do(patient(t), func(ctx context.Context, w *lockrt.Lease) error {
		require.NoError(t, w.Err())
		return m.RDo(ctx, func(ctx context.Context, r *lockrt.Lease) error {
			require.NoError(t, ctx.Err())
			require.NoError(t, r.Err())
			return mine
		})
	}), mine)
	require.Panics(t, func() {
		_ = m.RDo(patient(t), func(context.Context, *lockrt.Lease) error { panic("no") })
	})
	nothingLeft(t, redistest.Shared(t), key)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	idle := func(context.Context, *lockrt.Lease) error { return nil }
	require.ErrorIs(t, m.Do(ctx, idle), context.Canceled)
	require.ErrorIs(t, m.RDo(ctx, idle), context.Canceled)
}

func TestRWMutex_RLocker(t *testing.T) {
	t.Parallel()
	m := newClient(t, lockrt.Options{}).RWMutex(redistest.Key(t, "k"))
	l := m.RLocker()
	require.Equal(t, m.Key(), l.Key())
	a, b := ok(t)(l.Lock(patient(t))), ok(t)(l.TryLock(patient(t)))
	_, err := m.TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	free(t, a, b)
	require.ErrorIs(t, b.Unlock(t.Context()), lockrt.ErrReleased)
}

func TestRWMutex_BadInputIsRefusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{})
	for _, key := range []string{"", "a{b", "{}x"} {
		m := c.RWMutex(key)
		for _, err := range []error{
			second(m.Lock(patient(t))), second(m.TryLock(patient(t))), second(m.RLock(patient(t))), second(m.TryRLock(patient(t))),
			second(m.ForceUnlock(patient(t))), second(m.ForceRUnlock(patient(t))), second(m.Inspect(patient(t))),
		} {
			var bad *lockrt.KeyError
			require.ErrorAs(t, err, &bad)
		}
	}
	for _, opt := range []lockrt.LockOption{lockrt.WithWait(-time.Second), lockrt.WithLease(0), lockrt.WithMaxHold(0)} {
		_, err := c.RWMutex("k", opt).RLock(patient(t))
		require.ErrorIs(t, err, lockrt.ErrBadOption)
		_, err = c.RWMutex("k").Lock(patient(t), opt)
		require.ErrorIs(t, err, lockrt.ErrBadOption)
	}
	require.Zero(t, server.CommandStats()["evalsha"])
	server.Do("SET", "k", "text")
	for _, err := range []error{
		second(c.RWMutex("k").Lock(patient(t))), second(c.RWMutex("k").RLock(patient(t))),
		second(c.RWMutex("k").ForceUnlock(patient(t))), second(c.RWMutex("k").Inspect(patient(t))),
	} {
		require.ErrorIs(t, err, lockrt.ErrWrongType)
	}
}

func TestRWMutex_ForceUnlockTellsTheHoldersAtOnce(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"here", "elsewhere"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			holder := clientOf(t, server.URL(), lockrt.Options{Tracking: lockrt.TrackingOff})
			m, by := holder.RWMutex("k"), holder.RWMutex("k")
			if name == "elsewhere" {
				by = clientOf(t, server.URL(), lockrt.Options{}).RWMutex("k")
			}
			heard := func() {
				until(t, "the holder listens", func() bool {
					return number(t, server, "PUBSUB", "NUMPAT") == 0 && listens(t, server, holder.ID())
				})
			}
			w := ok(t)(m.Lock(patient(t)))
			r := ok(t)(m.RLock(w.Context()))
			heard()
			taken, err := by.ForceRUnlock(patient(t))
			require.NoError(t, err)
			require.False(t, taken, "it is held for writing")
			taken, err = by.ForceUnlock(patient(t))
			require.NoError(t, err)
			require.True(t, taken)
			for _, l := range []*lockrt.Lease{w, r} {
				until(t, "the loss is told", func() bool { return l.Err() != nil }) // the context of r ends with w, too
				require.ErrorIs(t, l.Err(), lockrt.ErrLost)
				require.ErrorIs(t, l.Unlock(t.Context()), lockrt.ErrLost)
			}
			emptied(t, server)

			a, b := ok(t)(m.RLock(patient(t))), ok(t)(m.RLock(patient(t)))
			taken, err = by.ForceUnlock(patient(t))
			require.NoError(t, err)
			require.False(t, taken, "it is held for reading")
			taken, err = by.ForceRUnlock(patient(t))
			require.NoError(t, err)
			require.True(t, taken)
			for _, l := range []*lockrt.Lease{a, b} {
				receive(t, l.Context().Done(), "the loss")
				require.ErrorIs(t, l.Unlock(t.Context()), lockrt.ErrLost)
			}
			taken, err = by.ForceRUnlock(patient(t))
			require.NoError(t, err)
			require.False(t, taken, "nobody has it")
			emptied(t, server)
		})
	}
}

// listens reports whether a client hears what it is told.
func listens(t *testing.T, server *redistest.RedisServer, id string) bool {
	t.Helper()
	channels, err := server.Do("PUBSUB", "CHANNELS", "lockgen_process:"+id).AsStrSlice()
	require.NoError(t, err)
	return len(channels) == 1
}

func TestRWMutex_ShutdownLetsHoldersFinish(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	c := newClient(t, lockrt.Options{Hooks: hooks})
	m := c.RWMutex(redistest.Key(t, "k"))
	r := ok(t)(m.RLock(patient(t)))
	w := lockLater(patient(t), m)
	receive(t, waiting, "the writer")
	done := make(chan error, 1)
	go func() { done <- c.Shutdown(patient(t)) }()
	require.ErrorIs(t, receive(t, w, "its error").err, lockrt.ErrClosed)
	_, err := m.RLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrClosed)
	again := ok(t)(m.RLock(r.Context()))
	free(t, again, r)
	require.NoError(t, receive(t, done, "the end"))
	nothingLeft(t, redistest.Shared(t), m.Key())
}

func TestRWMutex_CloseEndsTheLeases(t *testing.T) {
	leaktest.Check(t)
	server := redistest.Server(t)
	c, err := opened(t.Context(), server.URL(), lockrt.Options{OpTimeout: unhurried})
	require.NoError(t, err)
	a := ok(t)(c.RWMutex("a").RLock(patient(t)))
	b := ok(t)(c.RWMutex("b").Lock(patient(t)))
	require.NoError(t, c.Close())
	for _, l := range []*lockrt.Lease{a, b} {
		require.ErrorIs(t, l.Err(), lockrt.ErrClosed)
		require.ErrorIs(t, context.Cause(l.Context()), lockrt.ErrClosed)
	}
	_, err = c.RWMutex("a").RLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrClosed)
}

func TestRWMutex_HooksTellTheSide(t *testing.T) {
	t.Parallel()
	acquired, ended := make(chan string, 10), make(chan string, 10)
	c := newClient(t, lockrt.Options{Hooks: lockrt.Hooks{
		AcquireEnd: func(_ context.Context, e lockrt.AcquireEvent) {
			acquired <- fmt.Sprint(e.Kind, " ", e.Token > 0, " ", e.Err)
		},
		Ended: func(_ context.Context, e lockrt.EndEvent) { ended <- fmt.Sprint(e.Kind, " ", e.Cause) },
	}})
	m := c.RWMutex(redistest.Key(t, "k"))
	free(t, ok(t)(m.Lock(patient(t), lockrt.WithFencing())))
	free(t, ok(t)(m.RLock(patient(t))))
	require.Equal(t, "write true <nil>", receive(t, acquired, "the event"))
	require.Equal(t, "write lease released", receive(t, ended, "the event"))
	require.Equal(t, "read false <nil>", receive(t, acquired, "the event"))
	require.Equal(t, "read lease released", receive(t, ended, "the event"))
	redistest.Shared(t).Do("DEL", "redisson_lock_token:{"+m.Key()+"}")
}

func TestRWMutex_ExtendKeepsTheHoldToo(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{})
	for _, lock := range []lockFunc{c.RWMutex("k").Lock, c.RWMutex("k").RLock} {
		lease := ok(t)(lock(patient(t), lockrt.WithLease(10*time.Second)))
		require.NoError(t, lease.Extend(patient(t), time.Minute))
		require.Greater(t, time.Until(lease.Until()), 50*time.Second)
		keys, err := server.Do("KEYS", "*").AsStrSlice()
		require.NoError(t, err)
		for _, key := range keys {
			require.Greater(t, number(t, server, "PTTL", key), int64(50_000), key)
		}
		until(t, "it cannot be extended", func() bool { // nor what a late copy of the request has locked again
			server.Do("DEL", "k")
			return errors.Is(lease.Extend(patient(t), time.Hour), lockrt.ErrLost)
		})
		require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)
		server.Do("FLUSHALL")
	}
}

func TestRWMutex_MaxHoldOfOneReaderIsNotTheOthers(t *testing.T) {
	t.Parallel()
	c := newClient(t, steady)
	m := c.RWMutex(redistest.Key(t, "k"))
	r := ok(t)(m.RLock(patient(t)))
	limited := ok(t)(m.RLock(patient(t), lockrt.WithMaxHold(100*time.Millisecond)))
	receive(t, limited.Context().Done(), "its end")
	require.ErrorIs(t, limited.Err(), lockrt.ErrLost)
	require.ErrorContains(t, limited.Err(), "held for longer than the limit")
	require.NoError(t, r.Err())
	require.ErrorIs(t, limited.Unlock(t.Context()), lockrt.ErrLost)
	free(t, r)

	w := ok(t)(m.Lock(patient(t), lockrt.WithMaxHold(100*time.Millisecond)))
	receive(t, w.Context().Done(), "its end")
	require.ErrorContains(t, w.Err(), "held for longer than the limit")
	require.ErrorIs(t, w.Unlock(t.Context()), lockrt.ErrLost)
	nothingLeft(t, redistest.Shared(t), m.Key())
}

// A write lock ends with its holder's time, also if its owner reads under it for longer: then others may read.
func TestRWMutex_EndOfAWriterThatReads(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]lockrt.LockOption{
		"WithMaxHold": lockrt.WithMaxHold(100 * time.Millisecond), "WithLease": lockrt.WithLease(time.Second),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			m := clientOf(t, server.URL(), lockrt.Options{Watchdog: time.Second}).RWMutex("k")
			ctx := lockrt.WithOwner(patient(t), lockrt.NewOwner())
			w := ok(t)(m.Lock(ctx, end))
			r := ok(t)(m.RLock(ctx))
			receive(t, w.Context().Done(), "its end")
			other := clientOf(t, server.URL(), lockrt.Options{}).RWMutex("k")
			until(t, "others may read", func() bool {
				lease, err := other.TryRLock(patient(t))
				if err == nil {
					free(t, lease)
				}
				return err == nil
			})
			require.NoError(t, r.Err())
			require.ErrorIs(t, w.Unlock(t.Context()), lockrt.ErrLost)
			free(t, r)
			emptied(t, server)
		})
	}
}

// A waiter that gives up leaves the line: a waiter that has gone keeps no other out.
func TestRWMutex_WhoGivesUpKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	server := redistest.Server(t)
	r := ok(t)(clientOf(t, server.URL(), lockrt.Options{}).RWMutex("k").RLock(patient(t)))
	other := clientOf(t, server.URL(), lockrt.Options{Hooks: hooks}).RWMutex("k")
	ctx, cancel := context.WithCancel(patient(t))
	w := lockLater(ctx, other)
	receive(t, waiting, "the writer")
	until(t, "it stands in line", func() bool { return number(t, server, "PEXPIRE", "lockgen_writer:{k}", "1000") == 1 })
	until(t, "it has asked again", func() bool { return number(t, server, "PTTL", "lockgen_writer:{k}") > 1500 })
	_, err := clientOf(t, server.URL(), lockrt.Options{}).RWMutex("k").TryRLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	third := readLater(patient(t), clientOf(t, server.URL(), lockrt.Options{Hooks: hooks}).RWMutex("k"))
	receive(t, waiting, "a reader")
	cancel()
	require.ErrorIs(t, receive(t, w, "its error").err, context.Canceled)
	free(t, gotten(t, third, "the lock for reading"), r)
	emptied(t, server)
}

// A waiter that has asked is in the wait queue, and leaves it when it gives up, even with other
// waiters of the process.
func TestRWMutex_WhoGivesUpLeavesTheLine(t *testing.T) {
	t.Parallel()
	for _, side := range []string{"write", "read"} {
		t.Run(side, func(t *testing.T) {
			t.Parallel()
			hooks, waiting, _ := watch()
			server := redistest.Server(t)
			holder, other := clientOf(t, server.URL(), brisk).RWMutex("k"), clientOf(t, server.URL(), lockrt.Options{Hooks: hooks})
			hold, lock, mark := holder.RLock, other.RWMutex("k").Lock, "lockgen_writer:{k}"
			if side == "read" {
				hold, lock, mark = holder.Lock, other.RWMutex("k").RLock, "lockgen_reader:{k}"
			}
			held := ok(t)(hold(patient(t), unexpiring))
			exists := func() bool { return number(t, server, "EXISTS", mark) == 1 }
			for range 10 { // for it is left open whether the second one gets to ask
				ctx, cancel := context.WithCancel(patient(t))
				var got []<-chan locked
				for range 2 {
					got = append(got, leaseLater(func() (*lockrt.Lease, error) { return lock(ctx, unexpiring) }))
					receive(t, waiting, "the waiter")
				}
				until(t, "one stands in line", exists)
				server.Do("PERSIST", mark) // it does not go by itself
				cancel()
				for _, c := range got {
					require.ErrorIs(t, receive(t, c, "the call that gave up").err, context.Canceled)
				}
				until(t, "the line is empty", func() bool { return !exists() })
			}
			free(t, held)
			emptied(t, server)
		})
	}
}

// A waiter that gives up leaves no place behind that excludes the later ones, and with them a waiter for the same lock.
func TestRWMutex_ThePlaceOfOneWhoGaveUpDoesNotKeepOutTheNext(t *testing.T) {
	t.Parallel()
	for _, side := range []string{"write", "read"} {
		t.Run(side, func(t *testing.T) {
			t.Parallel()
			hooks, waiting, _ := watch()
			server := redistest.Server(t)
			c := clientOf(t, server.URL(), lockrt.Options{Hooks: hooks})
			m, other := c.RWMutex("k"), clientOf(t, server.URL(), lockrt.Options{}).RWMutex("k")
			hold, mine, others, mark := other.RLock, m.Lock, m.RLock, "lockgen_writer:{k}"
			if side == "read" {
				hold, mine, others, mark = other.Lock, m.RLock, m.Lock, "lockgen_reader:{k}"
			}
			held := ok(t)(hold(patient(t)))
			ctx, cancel := context.WithCancel(patient(t))
			gives := leaseLater(func() (*lockrt.Lease, error) { return mine(ctx) })
			receive(t, waiting, "the call that gives up")
			next := leaseLater(func() (*lockrt.Lease, error) { return others(patient(t)) })
			receive(t, waiting, "the next one")
			last := leaseLater(func() (*lockrt.Lease, error) { return mine(patient(t)) })
			receive(t, waiting, "the last one, which wants the same as the first")
			until(t, "it stands in line", func() bool { return number(t, server, "EXISTS", mark) == 1 })
			server.Do("PEXPIRE", mark, "600000") // it does not go by itself soon
			cancel()
			require.ErrorIs(t, receive(t, gives, "the call that gives up").err, context.Canceled)
			if side == "read" {
				free(t, held)
			}
			free(t, gotten(t, next, "the next one"))
			if side == "write" {
				free(t, held)
			}
			free(t, gotten(t, last, "the last one"))
			nothingLeft(t, server, "k")
		})
	}
}
