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

// contention has threads of two Java programs and goroutines of two Go programs lose counts unless the lock
// excludes.
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
				workers = append(workers, f.startWorker(t, orders{Contend: &c}))
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
			require.Less(t, max(inGo.Longest, inJava.Longest), lasts+long/3, "nobody missed that it was free")
			return seen
		})
	}
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

// lazily says what is in a list at the time when it is asked.
type lazily struct{ list *[]string }

func (w lazily) String() string { return strings.Join(*w.list, " ") }

// leftover reports whether a key is of a lock that nobody holds any more.
func leftover(server *redistest.RedisServer, key string) bool {
	for _, kept := range []string{"redisson_lock_token:", "lockgen_requests:", "lockgen_deleted:", "lockgen_fair:"} {
		if strings.HasPrefix(key, kept) {
			return false
		}
	}
	reply, err := server.Try("TYPE", key)
	if err != nil {
		return !strings.Contains(err.Error(), "MOVED") // a replica's
	}
	kind, err := reply.ToString()
	return err != nil || slices.Contains([]string{"hash", "list"}, kind) || strings.HasPrefix(key, "redisson_") ||
		strings.Contains(key, "rwlock_timeout")
}
