package interop

import (
	"encoding/json"
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
			key := aKey(t, "k")
			c := contest{Kind: k.java, Key: key, Counter: key + ":counter", Each: each, Lasts: lasts}
			rc := f.redis(t)
			require.NoError(t, rc.Do(t.Context(), rc.B().Set().Key(c.Counter).Value("0").Build()).Error())
			var workers []*worker
			for range programs {
				workers = append(workers, f.startWorker(t, orders{Contend: []contest{c}}))
			}
			var answers []<-chan answer
			for _, th := range threads {
				for i := range each {
					answers = append(answers, th.thread("contends"+strconv.Itoa(i)).start("contend", k.java, key, c.Counter, millis(lasts)))
				}
			}
			for _, w := range workers {
				w.goOn()
			}
			var inGo, inJava share
			for i, w := range workers {
				var s share
				said := w.read()
				require.NoError(t, json.Unmarshal([]byte(said), &s), said)
				if inGo = inGo.with(s); i == 0 {
					inGo = s
				}
				require.NoError(t, w.cmd.Wait())
			}
			over := time.After(lasts + patience)
			for i, done := range answers {
				select {
				case a := <-done:
					require.NoError(t, a.err)
					var micros int
					s := share{}
					_, err := fmt.Sscan(a.text, &s.Count, &micros)
					require.NoError(t, err)
					s.Least, s.Longest = s.Count, time.Duration(micros)*time.Microsecond
					if inJava = inJava.with(s); i == 0 {
						inJava = s
					}
				case <-over:
					t.Fatal("a thread waits for ever")
				}
			}
			total, err := rc.Do(t.Context(), rc.B().Get().Key(c.Counter).Build()).AsInt64()
			require.NoError(t, err)
			require.EqualValues(t, inGo.Count+inJava.Count, total, "no count is lost: it excludes")
			seen := fmt.Sprintf("excludes for %s; Go %d times (each at least %d), waited %s at most; Java %d times (%d), %s",
				lasts, inGo.Count, inGo.Least, round(inGo.Longest), inJava.Count, inJava.Least, round(inJava.Longest))
			t.Log(seen)
			require.Positive(t, inGo.Count, "Go had it")
			require.Positive(t, inJava.Count, "Java had it")
			return seen
		})
	}
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
		run := func(programs int) map[string]share {
			key := aKey(t, "k")
			rc := f.redis(t)
			got := map[string]share{}
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
					var s share
					said := w.read()
					require.NoError(t, json.Unmarshal([]byte(said), &s), said)
					add(side, s)
				}
				require.NoError(t, w.cmd.Wait())
			}
			over := time.After(lasts + patience)
			for side, all := range answers {
				for _, done := range all {
					select {
					case a := <-done:
						require.NoError(t, a.err)
						var s share
						var micros int
						_, err := fmt.Sscan(a.text, &s.Count, &micros)
						require.NoError(t, err)
						s.Least, s.Longest = s.Count, time.Duration(micros)*time.Microsecond
						add(side, s)
					case <-over:
						t.Fatal("a thread waits for ever")
					}
				}
			}
			total, err := rc.Do(t.Context(), rc.B().Get().Key(counter("write")).Build()).AsInt64()
			require.NoError(t, err)
			require.EqualValues(t, got["Go writes"].Count+got["Java writes"].Count, total, "no count is lost: it excludes")
			return got
		}
		alone, all := run(1), run(2)
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
