package interop

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// contention makes threads of two Java programs and goroutines of two Go programs increment a counter that loses counts
// unless the lock excludes.
func (f *fleet) contention(t *testing.T) {
	const programs, each = 2, 8
	jvms := []*jvm{f.j, startJava(t, f.version)}
	threads := []thread{f.java, f.javaSide(t, jvms[1], "second", long)}
	for _, k := range exclusive {
		if !f.has(k) {
			continue
		}
		what := fmt.Sprintf("%d Java programs of %d threads, %d Go programs of %d goroutines", programs, each, programs, each)
		f.cell(t, k.name, what, func(t *testing.T) string {
			lasts := *contend
			if k != mutexKind {
				lasts /= 4
			}
			var inGo, inJava share
			unlessStopped(t, func() (lost int) {
				inGo, inJava = f.contest(t, k, lasts, programs, each, threads)
				return inGo.Lost
			})
			seen := fmt.Sprintf("excludes for %s; Go %d times (each at least %d), waited %s at most; Java %d times (%d), %s",
				lasts, inGo.Count, inGo.Least, round(inGo.Longest), inJava.Count, inJava.Least, round(inJava.Longest))
			t.Log(seen)
			require.Positive(t, inGo.Count, "Go had it")
			require.Positive(t, inJava.Count, "Java had it")
			return seen
		})
	}
}

// unlessStopped runs a contest, and again if a Go program lost leases: a lock that is handed over has a lease of two
// seconds at first, and a machine may stop for that long.
func unlessStopped(t *testing.T, contest func() (lost int)) {
	t.Helper()
	for range 5 {
		if contest() == 0 {
			return
		}
	}
	require.Fail(t, "leases are lost each time")
}

// contest makes several programs of each language compete for one lock, and checks that it excludes unless leases are
// lost.
func (f *fleet) contest(t *testing.T, k *kind, lasts time.Duration, programs, each int, threads []thread) (inGo, inJava share) {
	t.Helper()
	key := aKey(t, "k")
	c := contest{Kind: k.java, Key: key, Counter: key + ":counter", Each: each, Lasts: lasts}
	rc := f.redis(t)
	require.NoError(t, rc.Do(t.Context(), rc.B().Set().Key(c.Counter).Value("0").Build()).Error())
	inGo, inJava = f.compete(t, c, programs, threads)
	total, err := rc.Do(t.Context(), rc.B().Get().Key(c.Counter).Build()).AsInt64()
	require.NoError(t, err)
	if inGo.Lost == 0 {
		require.EqualValues(t, inGo.Count+inJava.Count, total, "no count is lost: it excludes")
	}
	return inGo, inJava
}

// compete makes several programs of each language compete in a contest.
func (f *fleet) compete(t *testing.T, c contest, programs int, threads []thread) (inGo, inJava share) {
	t.Helper()
	var workers []*worker
	for range programs {
		workers = append(workers, f.startWorker(t, orders{Contend: []contest{c}}))
	}
	var answers []<-chan answer
	for _, th := range threads {
		for i := range c.Each {
			answers = append(answers, th.thread("contends"+strconv.Itoa(i)).start("contend", cmp.Or(c.Java, c.Kind), c.Key, c.Counter, millis(c.Lasts)))
		}
	}
	for _, w := range workers {
		w.goOn()
	}
	for i, w := range workers {
		s := w.share()
		if inGo = inGo.with(s); i == 0 {
			inGo = s
		}
		require.NoError(t, w.cmd.Wait())
	}
	over := time.After(c.Lasts + patience)
	for i, done := range answers {
		s := javaShare(t, done, over)
		if inJava = inJava.with(s); i == 0 {
			inJava = s
		}
	}
	return inGo, inJava
}

// javaShare waits for the share of a Java thread.
func javaShare(t *testing.T, done <-chan answer, over <-chan time.Time) (s share) {
	t.Helper()
	select {
	case a := <-done:
		require.NoError(t, a.err)
		var micros int
		_, err := fmt.Sscan(a.text, &s.Count, &micros)
		require.NoError(t, err)
		s.Least, s.Longest = s.Count, time.Duration(micros)*time.Microsecond
	case <-over:
		t.Fatal("a thread waits for ever")
	}
	return s
}

// sides makes readers and writers of Java programs and of Go programs compete for one lock, each of the four without a
// pause. It compares their shares with those of one program of each kind alone.
func (f *fleet) sides(t *testing.T) {
	sides := []string{"Go reads", "Go writes", "Java reads", "Java writes"}
	const what = "2 Java programs and 2 Go programs, each reads and writes"
	f.cell(t, "read-write lock", what, func(t *testing.T) string {
		second := startJava(t, f.version)
		java := []thread{f.java, f.javaSide(t, second, "beside", long)}
		lasts := *contend / 3
		run := func(programs int) (got map[string]share, lost int) {
			key := aKey(t, "k")
			rc := f.redis(t)
			got = map[string]share{}
			add := func(side string, s share) {
				if before, ok := got[side]; ok {
					s = s.with(before)
				}
				got[side] = s
			}
			counter := func(kind string) string { return key + ":" + kind }
			var contests []contest
			for _, kind := range []string{"read", "write"} {
				require.NoError(t, rc.Do(t.Context(), rc.B().Set().Key(counter(kind)).Value("0").Build()).Error())
				contests = append(contests, contest{Kind: kind, Key: key, Counter: counter(kind), Each: 1, Lasts: lasts})
			}
			var workers []*worker
			answers := map[string][]<-chan answer{}
			for range programs {
				workers = append(workers, f.startWorker(t, orders{Contend: contests}))
			}
			for i := range programs {
				for _, kind := range []string{"read", "write"} {
					th := java[i].thread(kind + "s" + key)
					answers["Java "+kind+"s"] = append(answers["Java "+kind+"s"], th.start("contend", kind, key, counter(kind), millis(lasts)))
				}
				workers[i].goOn()
			}
			for _, w := range workers {
				for _, side := range sides[:2] {
					one := w.share()
					add(side, one)
					lost += one.Lost
				}
				require.NoError(t, w.cmd.Wait())
			}
			over := time.After(lasts + patience)
			for side, all := range answers {
				for _, done := range all {
					add(side, javaShare(t, done, over))
				}
			}
			total, err := rc.Do(t.Context(), rc.B().Get().Key(counter("write")).Build()).AsInt64()
			require.NoError(t, err)
			if lost == 0 {
				require.EqualValues(t, got["Go writes"].Count+got["Java writes"].Count, total, "no count is lost: it excludes")
			}
			return got, lost
		}
		var alone, all map[string]share
		unlessStopped(t, func() (lost int) { alone, lost = run(1); return lost })
		unlessStopped(t, func() (lost int) { all, lost = run(2); return lost })
		var seen []string
		for _, side := range sides {
			seen = append(seen, fmt.Sprintf("%s %d times (%d against one), waited %s at most (%s)",
				side, all[side].Count, alone[side].Count, round(all[side].Longest), round(alone[side].Longest)))
		}
		t.Log(strings.Join(seen, "; "))
		for _, side := range sides {
			require.Positive(t, all[side].Count, "%s: is served", side)
			if *contend >= time.Minute {
				// In less time, one message that a Java program misses, which then waits for as long as a lease,
				// decides the share.
				require.GreaterOrEqual(t, 5*all[side].Count, alone[side].Count, "%s: a fifth of its turns against one", side)
			}
		}
		return "for " + lasts.String() + ": " + strings.Join(seen, "; ")
	})
}

// nothingLeft fails if anything is left of a lock.
func (f *fleet) nothingLeft(t *testing.T) {
	f.cell(t, "all kinds", "nothing is left of locks", func(t *testing.T) string {
		var left []string
		require.Eventually(t, func() bool {
			left = nil
			for _, server := range f.servers() {
				for _, key := range words(server, "KEYS", "*") {
					if leftover(server, key) {
						left = append(left, key)
					}
				}
			}
			return len(left) == 0
		}, patience, 100*time.Millisecond, "%s", lazily{&left})
		return "but counters of tokens, semaphores, and what is remembered for a minute or two"
	})
}

// lazily formats a list when it is read, not before.
type lazily struct{ list *[]string }

func (w lazily) String() string { return strings.Join(*w.list, " ") }

// leftover reports whether a key belongs to a lock without a holder.
func leftover(server *redistest.RedisServer, key string) bool {
	for _, kept := range []string{"redisson_lock_token:", "lockgen_requests:", "lockgen_deleted:", "lockgen_fair:", "lockgen_process:"} {
		if strings.HasPrefix(key, kept) {
			return false
		}
	}
	reply, err := server.Try("TYPE", key)
	if err != nil {
		return !strings.Contains(err.Error(), "MOVED") // the key of a replica
	}
	kind, err := reply.ToString()
	return err != nil || slices.Contains([]string{"hash", "list"}, kind) || strings.HasPrefix(key, "redisson_") ||
		strings.Contains(key, "rwlock_timeout")
}
