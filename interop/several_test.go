package interop

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// queue makes programs of both languages wait in one fair queue, where some of them die.
func (f *fleet) queue(t *testing.T) {
	// The place of the first waiter lasts for the lease of the holder and the time that a dead waiter costs, that of
	// one behind a dead waiter for this time alone. A machine that stops for longer loses it the place.
	const lease = 6 * short
	own := *f
	own.fair = 4 * short
	f = &own
	s := f.goSide(t, lockrt.Options{Watchdog: lease})
	j := startJava(t, f.version)
	java := f.javaSide(t, j, "holds", lease)
	// A line is a wait queue, behind a holder of one language.
	type line struct {
		holder string
		key    string
		give   release
		dead   []string
		mu     sync.Mutex
		order  []string // the served waiters
	}
	served := func(l *line) string {
		l.mu.Lock()
		defer l.mu.Unlock()
		return strings.Join(l.order, " ")
	}
	lines := []*line{{holder: "Go"}, {holder: "Java"}}
	var wg sync.WaitGroup
	waits := 0
	// enqueue adds a waiter at the end of a queue.
	enqueue := func(l *line, begin func()) {
		before := f.waiting(l.key)
		begin()
		f.soon(t, func() bool { return f.waiting(l.key) == before+1 }, "nobody comes")
	}
	live := func(l *line, name string, a acquire) {
		enqueue(l, func() {
			ctx := soon(t)
			wg.Go(func() {
				give, err := a(ctx, l.key)
				l.mu.Lock()
				defer l.mu.Unlock()
				if err != nil {
					name = err.Error()
				}
				l.order = append(l.order, name)
				if err == nil {
					_ = give(ctx)
				}
			})
		})
	}
	// A waiter that will die starts before the queue fills, while no other waiter loses time.
	dies := f.at("3.46.0") // otherwise its place lasts for five minutes
	workers, victims := map[*line]*worker{}, map[*line]thread{}
	for _, l := range lines {
		l.key = aKey(t, l.holder)
		workers[l] = f.startWorker(t, orders{Then: &held{fairKind.java, l.key}})
		if dies {
			victims[l] = f.javaSide(t, startJava(t, f.version), "victim", short)
		}
	}
	role := fairKind.role()
	var dying []func()
	for _, l := range lines {
		if l.holder == "Go" {
			l.give = took(t, role.inGo(s), l.key)
		} else {
			l.give = took(t, role.inJava(java), l.key)
		}
		next := func() thread { waits++; return java.thread(fmt.Sprintf("waits%d", waits)) }
		goDies := func() {
			enqueue(l, workers[l].goOn)
			dying = append(dying, workers[l].kill)
			l.dead = append(l.dead, "Go")
		}
		javaDies := func() {
			if !dies {
				return
			}
			enqueue(l, func() { victims[l].start("lock", fairKind.java, l.key, "0") })
			dying = append(dying, victims[l].j.die)
			l.dead = append(l.dead, "Java")
		}
		live(l, "Java-1", role.inJava(next()))
		if l.holder == "Go" {
			javaDies()
			live(l, "Go-2", role.inGo(s))
			goDies()
		} else {
			goDies()
			live(l, "Go-2", role.inGo(s))
			javaDies()
		}
		live(l, "Java-3", role.inJava(next()))
		live(l, "Go-4", role.inGo(s))
		live(l, "Go-5", role.inGo(s))
		live(l, "Java-6", role.inJava(next()))
	}
	for _, die := range dying {
		die()
	}
	began := time.Now()
	for _, l := range lines {
		require.Empty(t, served(l))
		require.NoError(t, l.give(soon(t)))
	}
	wg.Wait()
	for _, l := range lines {
		f.cell(t, fairKind.name, l.holder+" holds, in line are both, and dead of each", func(t *testing.T) string {
			require.Equal(t, "Java-1 Go-2 Java-3 Go-4 Go-5 Java-6", served(l))
			return fmt.Sprintf("served in order within %s, past dead %s", round(time.Since(began)), strings.Join(l.dead, ", "))
		})
	}
}

// waiting returns the number of waiters of a fair lock.
func (f *fleet) waiting(key string) (n int64) {
	for _, server := range f.nodes {
		if reply, err := server.Try("LLEN", "redisson_lock_queue:{"+key+"}"); err == nil {
			here, _ := reply.AsInt64()
			n += here
		}
	}
	return n
}

// several checks locks that consist of other locks.
func (f *fleet) several(t *testing.T) {
	// free requires that both sides can acquire a lock.
	free := func(t *testing.T, k *kind, key string) {
		t.Helper()
		lease, err := k.lock(f.side, key).Lock(soon(t))
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(soon(t)))
		require.Equal(t, "true", f.java.do(t, "tryLock", k.java, key, millis(long), "0"))
		f.java.do(t, "unlock", k.java, key)
	}
	members := map[string]*kind{":a": mutexKind, ":b": readKind, ":c": fairKind}
	f.cell(t, multiKind.name, "its members are kept from the other side", func(t *testing.T) string {
		key := aKey(t, "k")
		lease, err := multiKind.lock(f.side, key).Lock(soon(t))
		require.NoError(t, err)
		for suffix, k := range members {
			require.Equal(t, "false", f.java.do(t, "tryLock", k.java, key+suffix, "0", "0"), k.name)
		}
		require.NoError(t, lease.Unlock(soon(t)))
		f.java.do(t, "lock", multiKind.java, key, "0")
		for suffix, k := range members {
			_, err := k.lock(f.side, key+suffix).TryLock(soon(t))
			require.ErrorIs(t, err, lockrt.ErrNotAcquired, k.name)
		}
		f.java.do(t, "unlock", multiKind.java, key)
		free(t, multiKind, key)
		return "a mutex, a writer and a fair mutex, by both"
	})
	f.cell(t, multiKind.name, "of which one member is the other side's: none is had", func(t *testing.T) string {
		for suffix, k := range members {
			key := aKey(t, "k")
			give := took(t, k.role().inJava(f.java.thread("has")), key+suffix)
			_, err := multiKind.lock(f.side, key).TryLock(soon(t))
			require.ErrorIs(t, err, lockrt.ErrNotAcquired)
			for other, k := range members {
				if other != suffix {
					free(t, k, key+other)
				}
			}
			require.NoError(t, give(soon(t)))
			give = took(t, k.role().inGo(f.side), key+suffix)
			require.Equal(t, "false", f.java.do(t, "tryLock", multiKind.java, key, "0", "0"))
			for other, k := range members {
				if other != suffix {
					free(t, k, key+other)
				}
			}
			require.NoError(t, give(soon(t)))
			free(t, multiKind, key)
		}
		return "whichever it is, in both directions"
	})
	if !f.has(redKind) {
		return
	}
	f.cell(t, redKind.name, "of which a minority is the other side's: it is had", func(t *testing.T) string {
		for i, one := range f.side.reds {
			key := aKey(t, "k")
			its := thread{f.j, fmt.Sprintf("red%d", i), "has"}
			its.do(t, "lock", "lock", key, "0")
			lease, err := redKind.lock(f.side, key).Lock(soon(t))
			require.NoError(t, err)
			require.Equal(t, "false", f.java.do(t, "tryLock", redKind.java, key, "0", "0"))
			require.NoError(t, lease.Unlock(soon(t)))
			its.do(t, "unlock", "lock", key)

			key = aKey(t, "k")
			lease, err = one.Mutex(key).Lock(soon(t))
			require.NoError(t, err)
			require.Equal(t, "true", f.java.do(t, "tryLock", redKind.java, key, millis(3*short), "0"))
			_, err = redKind.lock(f.side, key).TryLock(soon(t))
			require.ErrorIs(t, err, lockrt.ErrNotAcquired)
			f.java.do(t, "unlock", redKind.java, key)
			require.NoError(t, lease.Unlock(soon(t)))
			free(t, redKind, key)
		}
		return "by both, and keeps the other side from it"
	})
	f.cell(t, redKind.name, "of which a majority is the other side's: it is not had", func(t *testing.T) string {
		key := aKey(t, "k")
		for i := range 2 {
			thread{f.j, fmt.Sprintf("red%d", i), "has"}.do(t, "lock", "lock", key, "0")
		}
		_, err := redKind.lock(f.side, key).TryLock(soon(t))
		require.ErrorIs(t, err, lockrt.ErrNotAcquired)
		for i := range 2 {
			thread{f.j, fmt.Sprintf("red%d", i), "has"}.do(t, "unlock", "lock", key)
		}
		var leases []*lockrt.Lease
		for _, one := range f.side.reds[1:] {
			lease, err := one.Mutex(key).Lock(soon(t))
			require.NoError(t, err)
			leases = append(leases, lease)
		}
		require.Equal(t, "false", f.java.do(t, "tryLock", redKind.java, key, "0", "0"))
		for _, lease := range leases {
			require.NoError(t, lease.Unlock(soon(t)))
		}
		free(t, redKind, key)
		return "by neither, and what was had of it is given back"
	})
}

// reversed makes Java list the members of a MultiLock in reverse order, while Go acquires it all the time.
func (f *fleet) reversed(t *testing.T) {
	f.cell(t, multiKind.name, "listed in another order in Java, wanted all the time in Go", func(t *testing.T) string {
		const turns = 3
		key := aKey(t, "k")
		m := multiKind.lock(f.side, key)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var inGo atomic.Int64
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for ctx.Err() == nil {
				if lease, err := m.Lock(ctx); err == nil {
					inGo.Add(1)
					_ = lease.Unlock(context.Background())
				}
			}
		}()
		has := func() { // and not only before Java wants it, or after
			before := inGo.Load()
			f.soon(t, func() bool { return inGo.Load() > before }, "Go does not get it")
		}
		has()
		longest := time.Duration(0)
		for range turns {
			began := time.Now()
			f.java.do(t, "lock", "reversed", key, "0")
			longest = max(longest, time.Since(began))
			f.java.do(t, "unlock", "reversed", key)
		}
		has()
		cancel()
		<-ended
		return fmt.Sprintf("Java had it %d times and waited %s at most, Go had it %d times", turns, round(longest), inGo.Load())
	})
}

// names checks locks with special names, and names that are refused.
func (f *fleet) names(t *testing.T) {
	f.cell(t, mutexKind.name, "that Redisson names for a map", func(t *testing.T) string {
		name := aKey(t, "map")
		key := f.java.do(t, "mapLockName", name, "a")
		lease, err := f.c.Mutex(key).Lock(soon(t))
		require.NoError(t, err)
		require.Equal(t, "false", f.java.do(t, "mapTryLock", name, "a"))
		require.NoError(t, lease.Unlock(soon(t)))
		require.Equal(t, "true", f.java.do(t, "mapTryLock", name, "a"))
		_, err = f.c.Mutex(key).TryLock(soon(t))
		require.ErrorIs(t, err, lockrt.ErrNotAcquired)
		f.java.do(t, "mapUnlock", name, "a")
		return "is had by that name"
	})
	if f.mode != "cluster" {
		return
	}
	for name, key := range map[string]string{"with a brace that is not closed": "a{b", "with nothing in braces": "{}x"} {
		f.cell(t, mutexKind.name, name, func(t *testing.T) string {
			f.java.do(t, "lock", "lock", key, millis(short))
			said := f.java.fails(t, "unlock", "lock", key)
			require.Contains(t, said, "same slot")
			_, err := f.c.Mutex(key).TryLock(soon(t))
			require.Error(t, err)
			require.NotErrorIs(t, err, lockrt.ErrNotAcquired)
			return "Redisson cannot unlock it; Go: " + err.Error()
		})
	}
	f.cell(t, "latch", "with braces", func(t *testing.T) string {
		require.Contains(t, f.java.fails(t, "latchSet", "{t}x", "1"), "same slot")
		_, err := f.c.CountDownLatch("{t}x").SetCount(soon(t), 1)
		require.Error(t, err)
		return "Redisson cannot set it; Go: " + err.Error()
	})
}
