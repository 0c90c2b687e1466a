package lockrt_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// looksAfter is Options.DeadlockAfter of tests. A machine that is busy carries the messages of some round within it.
const looksAfter = 250 * time.Millisecond

// A fork is a client that has a lock and wants another one.
type fork struct {
	t       *testing.T
	c       *lockrt.Client
	log     *lines
	waiting <-chan string
	found   chan lockrt.DeadlockEvent
	lease   *lockrt.Lease
	done    <-chan locked
}

// newFork returns a client that looks for deadlocks soon.
func newFork(t *testing.T, url, name string, opts lockrt.Options) *fork {
	t.Helper()
	f := &fork{t: t, log: &lines{}, found: make(chan lockrt.DeadlockEvent, 100)}
	opts.Hooks, f.waiting, _ = watch()
	opts.Hooks.Deadlock = func(_ context.Context, e lockrt.DeadlockEvent) { f.found <- e }
	opts.Logger, opts.Name = f.log.logger(), name
	if opts.DeadlockAfter == 0 {
		opts.DeadlockAfter = looksAfter
	}
	f.c = clientOf(t, url, opts)
	return f
}

// forks returns clients of the shared server.
func forks(t *testing.T, n int, opts lockrt.Options) (all []*fork) {
	t.Helper()
	for i := range n {
		all = append(all, newFork(t, redistest.Shared(t).URL(), fmt.Sprint("service", i), opts))
	}
	return all
}

// has takes what l is the lock of.
func (f *fork) has(l lockrt.Locker) {
	f.t.Helper()
	f.lease = ok(f.t)(l.Lock(patient(f.t)))
}

// wants begins to wait for l under what it has, and returns when it does.
func (f *fork) wants(l lockrt.Locker) {
	f.t.Helper()
	f.wantsUnder(f.lease.Context(), l)
}

func (f *fork) wantsUnder(ctx context.Context, l lockrt.Locker) {
	f.t.Helper()
	done := make(chan locked, 1)
	f.done = done
	name := strings.ReplaceAll(f.t.Name(), "/", ".")
	go func() {
		lease, err := l.Lock(ctx, lockrt.WithName(name))
		done <- locked{lease, err}
	}()
	receive(f.t, f.waiting, "a call that waits")
}

// gets ends the test of one that is to have what it wants.
func (f *fork) gets() {
	f.t.Helper()
	got := receive(f.t, f.done, "a lock")
	require.NoError(f.t, got.err)
	free(f.t, got.lease)
	if f.lease != nil {
		free(f.t, f.lease)
	}
}

// fails requires that the call was ended as a deadlock of n calls, and releases what it has.
func (f *fork) fails(n int) *lockrt.DeadlockError {
	f.t.Helper()
	got := receive(f.t, f.done, "a call that is ended")
	require.ErrorIs(f.t, got.err, lockrt.ErrDeadlock)
	var why *lockrt.DeadlockError
	require.ErrorAs(f.t, got.err, &why)
	require.Len(f.t, why.Deadlock.Calls, n)
	if f.lease != nil {
		free(f.t, f.lease)
	}
	return why
}

// told requires that the client reported a deadlock of n calls.
func (f *fork) told(n int, broken bool) lockrt.DeadlockEvent {
	f.t.Helper()
	e := receive(f.t, f.found, "a deadlock")
	require.Len(f.t, e.Deadlock.Calls, n)
	require.Equal(f.t, broken, e.Broken)
	until(f.t, "the log has it", func() bool { return f.log.count(`"lockgen: a deadlock"`) > 0 })
	return e
}

// TestDeadlock_Broken has three clients wait for each other in a circle of locks of each kind: the one that began last fails, with an
// error that names all, and the others have what they want.
func TestDeadlock_Broken(t *testing.T) {
	t.Parallel()
	for kind, lock := range exclusives {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			all := forks(t, 3, lockrt.Options{BreakDeadlocks: true})
			keys := []string{redistest.Key(t, "a"), redistest.Key(t, "b"), redistest.Key(t, "c")}
			for i, f := range all {
				f.has(lock(f.c, keys[i]))
			}
			for i, f := range all {
				f.wants(lock(f.c, keys[(i+1)%3]))
			}
			why := all[2].fails(3)
			for i, call := range why.Deadlock.Calls {
				require.Equal(t, keys[(i+1)%3], call.Key)
				require.Equal(t, all[i].c.Process().ID, call.Process.ID)
				require.Equal(t, fmt.Sprint("service", i), call.Process.Name)
				require.Equal(t, all[i].c.Process().PID, call.Process.PID)
				require.Equal(t, strings.ReplaceAll(t.Name(), "/", "."), call.Name)
				require.WithinDuration(t, time.Now(), call.Since, time.Minute)
				for _, part := range []string{call.Key, call.Name, call.Process.Name, call.Process.Host, call.Process.ID, fmt.Sprint("pid ", call.Process.PID)} {
					require.Contains(t, why.Error(), part)
				}
			}
			require.Equal(t, 2, why.Deadlock.Victim)
			for i, f := range all {
				e := f.told(3, i == 2)
				require.Equal(t, keys[(i+1)%3], e.Key)
				require.Equal(t, strings.ReplaceAll(t.Name(), "/", "."), e.Name)
			}
			all[1].gets() // the lock of the last one
			all[0].gets()
		})
	}
}

// TestDeadlock_KeysOfBytes shows that a circle of locks whose keys are not UTF-8 is found, although the messages are JSON, and is reported with these keys.
func TestDeadlock_KeysOfBytes(t *testing.T) {
	t.Parallel()
	all := forks(t, 2, lockrt.Options{BreakDeadlocks: true})
	a, b := redistest.Key(t, "\xff"), redistest.Key(t, "\xfe")
	all[0].has(all[0].c.Mutex(a))
	all[1].has(all[1].c.Mutex(b))
	all[0].wants(all[0].c.Mutex(b))
	all[1].wants(all[1].c.Mutex(a))
	why := all[1].fails(2)
	require.Equal(t, []string{b, a}, []string{why.Deadlock.Calls[0].Key, why.Deadlock.Calls[1].Key})
	for i, f := range all {
		e := f.told(2, i == 1)
		require.Equal(t, []string{b, a}, []string{e.Deadlock.Calls[0].Key, e.Deadlock.Calls[1].Key})
	}
	all[0].gets()
}

// TestDeadlock_Unbroken shows that all are told, once, and nobody is ended unless the client of the youngest has the option.
func TestDeadlock_Unbroken(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	one := newFork(t, server.URL(), "one", lockrt.Options{BreakDeadlocks: true})
	two := newFork(t, server.URL(), "two", lockrt.Options{})
	said := overhear(t, server)
	one.has(one.c.Mutex("a"))
	two.has(two.c.Mutex("b"))
	one.wants(one.c.Mutex("b"))
	two.wants(two.c.Mutex("a"))
	require.Equal(t, 1, one.told(2, false).Deadlock.Victim)
	two.told(2, false)
	before := said()
	until(t, "they have looked again", func() bool { return said() >= before+6 })
	require.Empty(t, one.found)
	require.Empty(t, two.found)
	require.Equal(t, 1, one.log.count(`"lockgen: a deadlock"`))
	require.Equal(t, 1, two.log.count(`"lockgen: a deadlock"`))
	free(t, two.lease)
	require.ErrorIs(t, receive(t, two.done, "the call").err, context.Canceled)
	one.gets()
}

// overhear returns a function that says how many messages about deadlocks were sent.
func overhear(t *testing.T, server *redistest.RedisServer) func() int {
	t.Helper()
	rc := redistest.NewClient(t, server.Addr())
	heard := make(chan struct{})
	var mu sync.Mutex
	var once sync.Once
	n := 0
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() {
		_ = rc.Receive(ctx, rc.B().Psubscribe().Pattern("lockgen_process:*").Build(), func(m rueidis.PubSubMessage) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case m.Message == "mark":
				once.Do(func() { close(heard) })
			case strings.HasPrefix(m.Message, "deadlock "):
				n++
			}
		})
	}()
	until(t, "messages are heard", func() bool {
		number(t, server, "PUBLISH", "lockgen_process:mark", "mark")
		select {
		case <-heard:
			return true
		default:
			return false
		}
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// TestDeadlock_NothingForOthers shows that no message is sent for calls that wait for less, for calls under no lease, and by clients
// that are not to look.
func TestDeadlock_NothingForOthers(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]time.Duration{"shorter": time.Hour, "off": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			said := overhear(t, server)
			one := newFork(t, server.URL(), "one", lockrt.Options{DeadlockAfter: after})
			two := newFork(t, server.URL(), "two", lockrt.Options{DeadlockAfter: after})
			three := newFork(t, server.URL(), "three", lockrt.Options{})
			one.has(one.c.Mutex("a"))
			two.has(two.c.Mutex("b"))
			ctx, cancel := context.WithCancel(one.lease.Context())
			one.wantsUnder(ctx, one.c.Mutex("b"))
			two.wants(two.c.Mutex("a"))
			outer, leave := context.WithCancel(context.Background())
			three.wantsUnder(outer, three.c.Mutex("a"))
			until(t, "the wait was long", func() bool { return three.log.count(stillWaits) > 0 })
			require.Zero(t, said())

			// Another one that looks finds nothing, since it is in no circle, but it asks.
			four := newFork(t, server.URL(), "four", lockrt.Options{})
			four.has(four.c.Mutex("c"))
			four.wants(four.c.Mutex("a"))
			until(t, "it has looked", func() bool { return said() > 0 })
			require.Empty(t, one.found)
			cancel()
			require.ErrorIs(t, receive(t, one.done, "the call").err, context.Canceled)
			leave()
			require.ErrorIs(t, receive(t, three.done, "the call").err, context.Canceled)
			free(t, one.lease)
			two.gets()
			four.gets()
		})
	}
}

// TestDeadlock_Kinds shows circles in which not all wait for a lock that one has alone.
func TestDeadlock_Kinds(t *testing.T) {
	t.Parallel()
	t.Run("readers who want to write what the other one reads", func(t *testing.T) {
		t.Parallel()
		all := forks(t, 2, lockrt.Options{BreakDeadlocks: true})
		a, b := redistest.Key(t, "a"), redistest.Key(t, "b")
		all[0].has(all[0].c.RWMutex(a).RLocker())
		all[1].has(all[1].c.RWMutex(b).RLocker())
		all[0].wants(all[0].c.RWMutex(b))
		all[1].wants(all[1].c.RWMutex(a))
		all[1].fails(2)
		all[0].gets()
	})
	t.Run("a reader behind a writer behind a reader", func(t *testing.T) {
		t.Parallel()
		all := forks(t, 3, lockrt.Options{BreakDeadlocks: true})
		page, b := redistest.Key(t, "page"), redistest.Key(t, "b")
		all[0].has(all[0].c.RWMutex(page).RLocker())
		all[1].has(all[1].c.Mutex(b))
		all[2].wantsUnder(patient(t), all[2].c.RWMutex(page))
		all[0].wants(all[0].c.Mutex(b))
		all[1].wants(all[1].c.RWMutex(page).RLocker())
		all[1].fails(2)
		all[0].gets()
		all[2].gets()
	})
	t.Run("MultiLocks and a lock beside them", func(t *testing.T) {
		t.Parallel()
		all := forks(t, 2, lockrt.Options{BreakDeadlocks: true})
		a, b, z := redistest.Key(t, "a"), redistest.Key(t, "b"), redistest.Key(t, "z")
		all[0].has(all[0].c.Mutex(z))
		all[1].has(lockrt.NewMultiLock(all[1].c.Mutex(b), all[1].c.Mutex(a)))
		all[0].wants(lockrt.NewMultiLock(all[0].c.Mutex(a), all[0].c.Mutex(b)))
		all[1].wants(all[1].c.Mutex(z))
		all[1].fails(2)
		all[0].gets()
	})
	t.Run("goroutines of one process", func(t *testing.T) {
		t.Parallel()
		f := forks(t, 1, lockrt.Options{BreakDeadlocks: true})[0]
		g := &fork{t: t, c: f.c, waiting: f.waiting}
		a, b := f.c.Mutex(redistest.Key(t, "a")), f.c.Mutex(redistest.Key(t, "b"))
		f.has(a)
		g.has(b)
		f.wants(b)
		g.wants(a)
		g.fails(2)
		f.gets()
		f.told(2, false)
		f.told(2, true)
	})
	t.Run("a wait that is bounded", func(t *testing.T) {
		t.Parallel()
		all := forks(t, 2, lockrt.Options{BreakDeadlocks: true})
		a, b := redistest.Key(t, "a"), redistest.Key(t, "b")
		all[0].has(all[0].c.Mutex(a))
		all[1].has(all[1].c.Mutex(b))
		all[0].wants(all[0].c.Mutex(b, lockrt.WithWait(time.Hour)))
		all[1].wants(all[1].c.Mutex(a, lockrt.WithWait(time.Hour)))
		all[1].fails(2)
		all[0].gets()
	})
}

// TestDeadlock_Permits shows that a call that waits for a permit is in a circle only if all holders of permits wait for it.
func TestDeadlock_Permits(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	said := overhear(t, server)
	one := newFork(t, server.URL(), "one", lockrt.Options{BreakDeadlocks: true})
	two := newFork(t, server.URL(), "two", lockrt.Options{BreakDeadlocks: true})
	three := newFork(t, server.URL(), "three", lockrt.Options{BreakDeadlocks: true})
	one.has(one.c.Mutex("order"))
	both, err := two.c.PermitSemaphore("jobs", 3).AcquireN(patient(t), 2)
	require.NoError(t, err)
	last, err := three.c.PermitSemaphore("jobs", 3).Acquire(patient(t))
	require.NoError(t, err)

	wants := make(chan error, 1)
	go func() {
		permit, err := one.c.PermitSemaphore("jobs", 3).Acquire(one.lease.Context())
		if err == nil {
			err = permit.Release(one.lease.Context())
		}
		wants <- err
	}()
	receive(t, one.waiting, "the waiter for a permit")
	two.wantsUnder(both.Context(), two.c.Mutex("order"))
	until(t, "they have looked", func() bool { return said() >= 8 })
	require.Empty(t, one.found)
	require.Empty(t, two.found)

	three.wantsUnder(last.Context(), three.c.Mutex("order"))
	three.fails(3)
	one.told(3, false)
	two.told(3, false)
	three.told(3, true)
	require.NoError(t, last.Release(t.Context()))
	require.NoError(t, receive(t, wants, "a permit"))
	free(t, one.lease)
	two.gets()
	require.NoError(t, both.Release(t.Context()))
}

// A call that waits under a permit for another one of the same semaphore is in a circle alone. The search for it keeps no other call of the key.
func TestDeadlock_PermitUnderAPermit(t *testing.T) {
	t.Parallel()
	one := newFork(t, redistest.Shared(t).URL(), "one", lockrt.Options{BreakDeadlocks: true})
	jobs := one.c.PermitSemaphore(redistest.Key(t, "jobs"), 2)
	both, err := jobs.AcquireN(patient(t), 2)
	require.NoError(t, err)
	one.wantsUnder(both.Context(), lockrt.PermitLocker(jobs))
	one.fails(1)
	one.told(1, true)
	require.NoError(t, both.Err())
	require.NoError(t, both.Release(t.Context()))
	permit, err := jobs.Acquire(patient(t))
	require.NoError(t, err)
	require.NoError(t, permit.Release(t.Context()))
}

// TestDeadlock_Hostile sends what no client sends: nothing comes of it, and a deadlock is found after it.
func TestDeadlock_Hostile(t *testing.T) {
	t.Parallel()
	all := forks(t, 2, lockrt.Options{BreakDeadlocks: true})
	a, b := redistest.Key(t, "a"), redistest.Key(t, "b")
	all[0].has(all[0].c.Mutex(a))
	all[1].has(all[1].c.Mutex(b))
	all[0].wants(all[0].c.Mutex(b))
	id := all[0].c.ID()
	for _, text := range []string{
		"", "{", "null", "[]", `{"v":1}`, `{"v":2,"i":[{}]}`, `{"v":1,"i":[null,1,{},{"probe":{}},{"back":{"p":[{}]}},{"check":{}},{"verdict":{}},{"found":{}}]}`,
		`{"v":1,"i":[{"found":{"c":[{"p":"` + id + `","n":1,"k":"other"}]}}]}`,
		`{"v":1,"i":[{"found":{"c":[{"p":"` + id + `","n":999,"k":"` + b + `"}]}}]}`,
		`{"v":1,"i":[{"verdict":{"f":"x","n":1,"ok":true}}]}`,
		`{"v":1,"i":["` + strings.Repeat("x", 300_000) + `"]}`,
	} {
		number(t, redistest.Shared(t), "PUBLISH", "lockgen_process:"+id, "deadlock "+text)
	}
	all[1].wants(all[1].c.Mutex(a))
	all[1].fails(2)
	all[0].gets()
	require.Equal(t, 1, all[0].log.count(`"lockgen: a deadlock"`))
}

// TestDeadlock_Closed shows that a client that looks can be closed, and that its waiters are told that.
func TestDeadlock_Closed(t *testing.T) {
	t.Parallel()
	all := forks(t, 2, lockrt.Options{})
	a, b := redistest.Key(t, "a"), redistest.Key(t, "b")
	all[0].has(all[0].c.Mutex(a))
	all[1].has(all[1].c.Mutex(b))
	all[0].wants(all[0].c.Mutex(b))
	all[1].wants(all[1].c.Mutex(a))
	all[0].told(2, false)
	require.NoError(t, all[0].c.Close())
	require.ErrorIs(t, receive(t, all[0].done, "the call").err, lockrt.ErrClosed)
	require.NoError(t, all[1].c.Close())
	require.ErrorIs(t, receive(t, all[1].done, "the call").err, lockrt.ErrClosed)
	require.False(t, errors.Is(all[0].lease.Err(), lockrt.ErrDeadlock))
}

// permitted calls f with a user that has the permissions for deadlocks, and with one that has not.
func permitted(t *testing.T, f func(t *testing.T, server *redistest.RedisServer, url string, all bool)) {
	t.Helper()
	for _, all := range []bool{true, false} {
		t.Run(fmt.Sprint("all of them ", all), func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			u := userOf(t, "Mutex")
			if all {
				u.rules = append(u.rules, aclLines(t, circling)["orders"].rules...)
			}
			u.join(server)
			f(t, server, u.login(t, server.URL()), all)
		})
	}
}

// TestDeadlock_Permissions shows that what ACL.md lists is enough, and that the log has one line when it is missing.
func TestDeadlock_Permissions(t *testing.T) {
	t.Parallel()
	permitted(t, func(t *testing.T, _ *redistest.RedisServer, url string, all bool) {
		one := newFork(t, url, "one", lockrt.Options{BreakDeadlocks: true})
		two := newFork(t, url, "two", lockrt.Options{BreakDeadlocks: true})
		one.has(one.c.Mutex("order:1"))
		two.has(two.c.Mutex("order:2"))
		one.wants(one.c.Mutex("order:2"))
		two.wants(two.c.Mutex("order:1"))
		if !all {
			until(t, "the log has it", func() bool { return one.log.count("deadlocks with other processes are not found") > 0 })
			free(t, one.lease)
			require.ErrorIs(t, receive(t, one.done, "the call").err, context.Canceled)
			two.gets()
			require.Equal(t, 1, one.log.count("deadlocks with other processes are not found"))
			return
		}
		two.fails(2)
		one.gets()
	})
}
