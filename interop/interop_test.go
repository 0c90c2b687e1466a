package interop

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestInterop is the matrix: every primitive, in both directions, on one server.
func TestInterop(t *testing.T) {
	f := newFleet(t, standalone(t), theVersion(t))
	f.everything(t)
	f.reversed(t)
	f.cell(t, "orders", "a Go and a Java service pay the same", func(t *testing.T) string {
		binary := filepath.Join(t.TempDir(), "orders") // a program that "go run" starts would outlive it
		built, err := exec.Command("go", "build", "-o", binary, "./orders").CombinedOutput()
		require.NoError(t, err, "%s", built)
		var said bytes.Buffer
		services := exec.Command(binary, "-redisson", f.version)
		services.Env = append(os.Environ(), "REDIS_URL="+f.url)
		services.Stdout, services.Stderr = &said, &said
		require.NoError(t, redistest.Start(services))
		require.NoError(t, services.Wait(), "%s", &said)
		t.Logf("%s", &said)
		counts := regexp.MustCompile(`(?m)^\d+ of \d+ orders.*$`).FindAllString(said.String(), -1)
		require.GreaterOrEqual(t, len(counts), 2)
		return "without locks " + counts[len(counts)-2] + ", with them " + counts[len(counts)-1]
	})
}

// everything runs all tests.
func (f *fleet) everything(t *testing.T) {
	t.Run("handover", f.handovers)
	t.Run("about to wait", f.aboutToWait)
	t.Run("death", f.deaths)
	t.Run("force", f.force)
	t.Run("lockctl", f.operators)
	t.Run("reentry", f.reentry)
	f.waits(t)
	t.Run("downgrade", f.downgrade)
	t.Run("several", f.several)
	t.Run("names", f.names)
	t.Run("tokens", f.tokens)
	t.Run("counts", f.counts)
	t.Run("permits", f.permits)
	t.Run("many", f.many)
	t.Run("latches", f.latches)
	t.Run("contention", f.contention)
	t.Run("lone", f.lone)
	t.Run("sides", f.sides)
	f.nothingLeft(t)
}

// waits runs tests that do nothing but wait for leases, beside each other. So these leases can be much longer than a
// pause of the machine.
func (f *fleet) waits(t *testing.T) {
	before := len(matrix)
	t.Run("waits", func(t *testing.T) {
		for _, test := range []struct {
			name string
			run  func(*fleet, *testing.T)
		}{{"watchdogs", (*fleet).watchdogs}, {"leases", (*fleet).leases}, {"queue", (*fleet).queue}} {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				own := *f
				own.java = f.java.thread(test.name)
				test.run(&own, t)
			})
		}
	})
	slices.SortFunc(matrix[before:], func(a, b row) int { return strings.Compare(a.test, b.test) })
}

// pairs are the pairs of holder and waiter.
func (f *fleet) pairs() []pair {
	var all []pair
	for _, k := range exclusive {
		if f.has(k) {
			all = append(all, pair{name: k.name, hold: k.role(), wait: k.role(), told: k.listens != ""})
		}
	}
	all = append(all,
		pair{name: "writer after reader", hold: readKind.role(), wait: writeKind.role(), told: true},
		pair{name: "reader after writer", hold: writeKind.role(), wait: readKind.role(), told: true},
		pair{name: "semaphore", hold: semaphoreRole, wait: semaphoreRole, told: true},
		pair{name: "latch", hold: setRole, wait: awaitRole, told: true},
	)
	if f.at("3.17.0") { // its ids have today's form since then
		all = append(all, pair{name: "permits", hold: permitRole, wait: permitRole, told: true})
	}
	return all
}

// A pair is a holder and a waiter.
type pair struct {
	name       string
	hold, wait role
	told       bool
}

func (f *fleet) handovers(t *testing.T) {
	for _, p := range f.pairs() {
		how := "is told"
		if !p.told {
			how = "finds out"
		}
		f.cell(t, p.name, "Go holds, Java "+how, func(t *testing.T) string {
			return f.handover(t, p.told, p.hold.inGo(f.side), p.wait.inJava(f.java), func(string) { f.java.parked(t) })
		})
		f.cell(t, p.name, "Java holds, Go "+how, func(t *testing.T) string {
			return f.handover(t, p.told, p.hold.inJava(f.java), p.wait.inGo(f.side), func(key string) { p.wait.queued(t, f, key) })
		})
	}
}

// aboutToWait shows that Java readers do not miss a writer in Go that unlocks between their request and their wait.
func (f *fleet) aboutToWait(t *testing.T) {
	f.cell(t, "reader after writer", "Go unlocks when Java is about to wait", func(t *testing.T) string {
		const rounds = 200
		var longest time.Duration
		for range rounds {
			key := aKey(t, "k")
			give := took(t, writeKind.role().inGo(f.side), key)
			done := begin(soon(t), readKind.role().inJava(f.java), key)
			f.listening(t, "redisson_rwlock:{"+key+"}") // and ask once more
			given := time.Now()
			require.NoError(t, give(soon(t)))
			g := served(t, done)
			longest = max(longest, g.at.Sub(given))
			require.NoError(t, g.release(soon(t)))
		}
		require.Less(t, longest, long/3, "it is not kept waiting until the lease is over")
		return fmt.Sprintf("%d times, served after %s at most", rounds, round(longest))
	})
}

// handover makes one side wait for the other, several times, each with a key of its own so that the listener on its
// channel is the waiter. waits returns when a waiter waits for a key. A waiter that misses messages is never served
// promptly; one on a busy machine is, sooner or later.
func (f *fleet) handover(t *testing.T, told bool, hold, wait acquire, waits func(key string)) string {
	const rounds, most = 7, 40
	var times []time.Duration
	for prompt := 0; len(times) < rounds || prompt <= rounds/2; {
		require.Less(t, len(times), most, "woken by a message, not by a timer: %v", times)
		key := aKey(t, "k")
		give := took(t, hold, key)
		done := begin(soon(t), wait, key)
		waits(key)
		waiting(t, done)
		given := time.Now()
		require.NoError(t, give(soon(t)))
		g := served(t, done)
		after := g.at.Sub(given)
		require.NoError(t, g.release(soon(t)))
		require.Less(t, after, long/3, "before the lease is over")
		if times = append(times, after); after < promptly {
			prompt++
		}
	}
	slices.Sort(times)
	how := "told"
	if !told {
		how = "served"
	}
	return fmt.Sprintf("%s after %s, at most %s", how, round(times[len(times)/2]), round(times[len(times)-1]))
}

// A mortal is a lock that expires when its holder has died, with its waiters.
type mortal struct {
	name string
	hold *kind
	wait *kind
}

func (f *fleet) mortals() []mortal {
	var all []mortal
	for _, k := range exclusive {
		if (k == fairKind || k == multiKind) && !f.at("3.45.0") {
			continue // a waiter for a fair lock waits for the rest of the lease that it saw, and then for a message
		}
		if f.has(k) {
			all = append(all, mortal{k.name, k, k})
		}
	}
	return append(all, mortal{"writer after reader", readKind, writeKind}, mortal{"reader after writer", writeKind, readKind})
}

// deaths makes the other side wait for holders that die, all of them at once.
func (f *fleet) deaths(t *testing.T) {
	var names []string
	for _, m := range f.mortals() {
		names = append(names, m.name)
	}
	permits := f.at("3.17.0")
	if permits {
		names = append(names, "permits")
	}
	t.Run("of Java", func(t *testing.T) {
		f.inherit(t, "a Java holder dies, Go is served", names, func() (waits []<-chan granted) {
			j := startJava(t, f.version)
			victim := f.javaSide(t, j, "victim", short)
			for _, m := range f.mortals() {
				key := aKey(t, "k")
				took(t, m.hold.role().inJava(victim), key)
				waits = append(waits, begin(soon(t), m.wait.role().inGo(f.side), key))
			}
			if permits {
				key := aKey(t, "k")
				victim.do(t, "permitSet", key, "1")
				victim.do(t, "permitAcquire", key, millis(short)) // without renewal
				waits = append(waits, begin(soon(t), permitRole.inGo(f.side), key))
			}
			j.die()
			return waits
		})
	})
	t.Run("of Go", func(t *testing.T) {
		f.inherit(t, "a Go holder dies, Java is served", names, func() (waits []<-chan granted) {
			var o orders
			for _, m := range f.mortals() {
				o.Hold = append(o.Hold, held{m.hold.java, aKey(t, "k")})
			}
			if permits {
				o.Permit = aKey(t, "k")
			}
			victim := f.startWorker(t, o)
			for i, m := range f.mortals() {
				th := f.java.thread("heir" + strconv.Itoa(i))
				waits = append(waits, begin(soon(t), m.wait.role().inJava(th), o.Hold[i].Key))
			}
			if permits {
				waits = append(waits, begin(soon(t), permitRole.inJava(f.java.thread("heir")), o.Permit))
			}
			victim.kill()
			return waits
		})
	})
}

// inherit expects each wait to end when the lease of the dead holder is over. dies makes the holders die. It does so
// again if one of them lost its lease before, which is what a lease is for when the machine stops for so long.
func (f *fleet) inherit(t *testing.T, what string, names []string, dies func() []<-chan granted) {
	var died time.Time
	var all []granted
	for patient := soon(t); ; {
		waits := dies()
		died = time.Now()
		all = nil
		early := false
		for _, done := range waits {
			g := <-done
			early = early || g.err == nil && g.at.Before(died)
			all = append(all, g)
		}
		if !early {
			break
		}
		for _, g := range all {
			if g.err == nil {
				require.NoError(t, g.release(soon(t)))
			}
		}
		require.NoError(t, patient.Err(), "each time a holder loses its lease before it dies")
	}
	for i, name := range names {
		f.cell(t, name, what, func(t *testing.T) string {
			g := all[i]
			require.NoError(t, g.err)
			require.NoError(t, g.release(soon(t)))
			after := g.at.Sub(died)
			require.Less(t, after, long/2, "when the lease of %s is over", short)
			return fmt.Sprintf("after %s, with leases of %s", round(after), short)
		})
	}
}

func (f *fleet) force(t *testing.T) {
	s := f.side
	if f.mode == "cluster" { // a cluster does not announce changes of keys: the holder learns it with the next renewal
		s = f.goSide(t, lockrt.Options{Watchdog: short})
	}
	for _, k := range kinds {
		if k.force == nil || !f.has(k) {
			continue
		}
		f.cell(t, k.name, "Java takes it from Go by force", func(t *testing.T) string {
			key := aKey(t, "k")
			lease, err := k.lock(s, key).Lock(soon(t))
			require.NoError(t, err)
			taken := time.Now()
			require.Equal(t, "true", f.java.do(t, "forceUnlock", k.java, key))
			ended(t, lease.Context())
			after := time.Since(taken)
			require.ErrorIs(t, context.Cause(lease.Context()), lockrt.ErrLost)
			if f.mode != "cluster" {
				require.Less(t, after, long/4, "told before the next renewal")
			}
			require.ErrorIs(t, lease.Unlock(soon(t)), lockrt.ErrLost)
			require.Equal(t, "false", f.java.do(t, "forceUnlock", k.java, key), "nobody has it")
			return "the holder was told after " + round(after).String()
		})
		f.cell(t, k.name, "Go takes it from Java by force", func(t *testing.T) string {
			key := aKey(t, "k")
			f.java.do(t, "lock", k.java, key, "0")
			taken, err := k.force(soon(t), s, key)
			require.NoError(t, err)
			require.True(t, taken)
			require.Equal(t, "false", f.java.do(t, "isHeld", k.java, key))
			how := "unlock() throws IllegalMonitorStateException"
			if k == fairKind {
				f.java.do(t, "unlock", k.java, key) // any client may unlock a free lock
				how = "unlock() says nothing"
			} else if k != readKind && k != writeKind || f.at("3.44.0") {
				require.Contains(t, f.java.fails(t, "unlock", k.java, key), "IllegalMonitorState")
			}
			lease, err := k.lock(s, key).TryLock(soon(t))
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(soon(t)))
			taken, err = k.force(soon(t), s, key)
			require.NoError(t, err)
			require.False(t, taken)
			return how
		})
	}
}

// ended waits for the end of a lease.
func ended(t *testing.T, lease context.Context) {
	t.Helper()
	select {
	case <-lease.Done():
	case <-soon(t).Done():
		t.Fatal("the holder is not told")
	}
}

func (f *fleet) reentry(t *testing.T) {
	for _, k := range kinds {
		if !f.has(k) {
			continue
		}
		rival := k.against()
		f.cell(t, k.name, "entered twice in Java", func(t *testing.T) string {
			key := aKey(t, "k")
			f.java.do(t, "lock", k.java, key, "0")
			f.java.do(t, "lock", k.java, key, "0")
			if k != multiKind && k != redKind { // which have no counts
				require.Equal(t, "2", f.java.do(t, "holdCount", k.java, key))
			}
			f.java.do(t, "unlock", k.java, key)
			_, err := rival.lock(f.side, key).TryLock(soon(t))
			require.ErrorIs(t, err, lockrt.ErrNotAcquired)
			f.java.do(t, "unlock", k.java, key)
			lease, err := rival.lock(f.side, key).Lock(soon(t)) // RedLocks are released in the background
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(soon(t)))
			return "free for Go after the second unlock"
		})
		f.cell(t, k.name, "entered twice in Go", func(t *testing.T) string {
			key := aKey(t, "k")
			outer, err := k.lock(f.side, key).Lock(soon(t))
			require.NoError(t, err)
			inner, err := k.lock(f.side, key).Lock(outer.Context())
			require.NoError(t, err)
			require.NoError(t, inner.Unlock(soon(t)))
			require.Equal(t, "false", f.java.do(t, "tryLock", rival.java, key, "0", "0"))
			require.NoError(t, outer.Unlock(soon(t)))
			require.Equal(t, "true", f.java.do(t, "tryLock", rival.java, key, millis(long), "0"))
			f.java.do(t, "unlock", rival.java, key)
			return "free for Java after the second unlock"
		})
	}
}

// watchdogs makes both sides hold for several leases, beside each other and with each other.
func (f *fleet) watchdogs(t *testing.T) {
	const brief = 3 * short // so that a machine may stop for a while between two renewals
	f.cell(t, "all kinds", "both watchdogs renew", func(t *testing.T) string {
		renewed := make(chan error, 1000)
		shared := aKey(t, "shared")
		s := f.goSide(t, lockrt.Options{Watchdog: brief, Hooks: lockrt.Hooks{
			Renewed: func(_ context.Context, e lockrt.RenewEvent) {
				if e.Key == shared {
					renewed <- e.Err
				}
			},
		}})
		j := startJava(t, f.version)
		java := f.javaSide(t, j, "brief", brief)
		inGo, inJava := map[*kind]string{}, map[*kind]string{}
		leases := map[*kind]*lockrt.Lease{}
		for _, k := range kinds {
			if !f.has(k) || k == readKind && f.at("3.44.0") && !f.at("4.0.0") {
				continue // Redisson does not renew all of several readers
			}
			inGo[k], inJava[k] = aKey(t, "go-"+k.java), aKey(t, "java-"+k.java)
			lease, err := k.lock(s, inGo[k]).Lock(soon(t))
			require.NoError(t, err)
			leases[k] = lease
			java.do(t, "lock", k.java, inJava[k], "0")
		}
		// Both read one lock.
		reader, err := s.c.RWMutex(shared).RLock(soon(t))
		require.NoError(t, err)
		java.do(t, "lock", "read", shared, "0")
		permit, err := s.c.PermitSemaphore(shared+"permits", 1).Acquire(soon(t))
		require.NoError(t, err)
		began := time.Now()
		n := 0
		for time.Since(began) < 2*brief {
			select {
			case err := <-renewed:
				require.NoError(t, err)
				n++
			case <-soon(t).Done():
				t.Fatal("nobody renews")
			}
			for k := range inGo {
				f.refuses(t, f.side, f.java, k, inGo[k])
				f.refuses(t, f.side, f.java, k, inJava[k])
			}
			f.refuses(t, f.side, f.java, readKind, shared)
			if f.at("3.17.0") {
				require.Equal(t, "null", f.java.do(t, "permitTry", shared+"permits"))
			}
		}
		lasted := time.Since(began)
		for k, lease := range leases {
			require.NoError(t, lease.Unlock(soon(t)))
			java.do(t, "unlock", k.java, inJava[k])
		}
		require.NoError(t, permit.Release(soon(t)))
		// Each reader holds by itself.
		require.Equal(t, "1", java.do(t, "holdCount", "read", shared))
		require.NoError(t, reader.Unlock(soon(t)))
		_, err = f.c.RWMutex(shared).TryLock(soon(t))
		require.ErrorIs(t, err, lockrt.ErrNotAcquired)
		java.do(t, "unlock", "read", shared)
		writer, err := f.c.RWMutex(shared).TryLock(soon(t))
		require.NoError(t, err)
		require.NoError(t, writer.Unlock(soon(t)))
		return fmt.Sprintf("held for %s with leases of %s; %d renewals in Go", round(lasted), brief, n)
	})
	f.cell(t, "readers", "one unlocks, the other is still renewed", func(t *testing.T) string {
		key := aKey(t, "k")
		renewed := make(chan error, 1000)
		s := f.goSide(t, lockrt.Options{Watchdog: brief, Hooks: lockrt.Hooks{
			Renewed: func(_ context.Context, e lockrt.RenewEvent) { renewed <- e.Err },
		}})
		reader, err := s.c.RWMutex(key).RLock(soon(t))
		require.NoError(t, err)
		f.java.do(t, "lock", "read", key, "0")
		f.java.do(t, "unlock", "read", key)
		for began := time.Now(); time.Since(began) < 2*brief; {
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

// leases makes readers and a writer hold with lease times of their own.
func (f *fleet) leases(t *testing.T) {
	const brief, longer = 3 * time.Second, 6 * time.Second
	type reads func(t *testing.T, key string, lease time.Duration) (unlock func())
	inGo := func(t *testing.T, key string, lease time.Duration) func() {
		l, err := f.c.RWMutex(key).RLock(soon(t), lockrt.WithLease(lease))
		require.NoError(t, err)
		return func() { require.NoError(t, l.Unlock(soon(t))) }
	}
	inJava := func(t *testing.T, key string, lease time.Duration) func() {
		f.java.do(t, "lock", "read", key, millis(lease))
		return func() { f.java.do(t, "unlock", "read", key) }
	}
	// A wait is that of a writer for locks that were acquired at began, for as long as the longest of the leases.
	type wait struct {
		began time.Time
		done  <-chan granted
	}
	threads := 0
	begins := func(t *testing.T, language, key string, began time.Time) wait {
		writes := writeKind.role().inGo(f.side)
		if language == "Java" {
			threads++
			writes = writeKind.role().inJava(f.java.thread("writes" + strconv.Itoa(threads)))
		}
		return wait{began, begin(soon(t), writes, key)}
	}
	lasts := func(t *testing.T, w wait) string {
		g := served(t, w.done)
		after := g.at.Sub(w.began)
		require.NoError(t, g.release(soon(t)))
		require.Greater(t, after, longer-50*time.Millisecond, "not before the longest lease is over")
		require.Less(t, after, longer+long/3)
		return round(after).String()
	}
	for _, first := range []struct {
		name         string
		brief, other reads
	}{{"Go", inGo, inJava}, {"Java", inJava, inGo}} {
		f.cell(t, "readers", "that of "+first.name+" has the shorter lease", func(t *testing.T) string {
			var languages []string
			var waits []wait
			for _, language := range []string{"Go", "Java"} {
				for _, unlocks := range []bool{false, true} { // before its lease is over, or never
					key := aKey(t, "k")
					began := time.Now()
					first.other(t, key, longer)
					unlock := first.brief(t, key, brief)
					if unlocks {
						unlock()
					}
					languages, waits = append(languages, language), append(waits, begins(t, language, key, began))
				}
			}
			seen := fmt.Sprintf("leases of %s and %s: ", brief, longer)
			for i, w := range waits {
				seen += languages[i] + " writes after " + lasts(t, w) + " "
			}
			return seen
		})
	}
	f.cell(t, "readers", "that of Go reads under a write lock of its own, for longer", func(t *testing.T) string {
		key := aKey(t, "k")
		began := time.Now()
		writer, err := f.c.RWMutex(key).Lock(soon(t), lockrt.WithLease(brief))
		require.NoError(t, err)
		_, err = f.c.RWMutex(key).RLock(writer.Context(), lockrt.WithLease(longer))
		require.NoError(t, err)
		require.NoError(t, writer.Unlock(soon(t)))
		return "Java writes after " + lasts(t, begins(t, "Java", key, began))
	})
	f.cell(t, "readers", "that of Java reads under a write lock of its own, for longer", func(t *testing.T) string {
		key := aKey(t, "k")
		began := time.Now()
		f.java.do(t, "lock", "write", key, millis(brief))
		f.java.do(t, "lock", "read", key, millis(longer))
		f.java.do(t, "unlock", "write", key)
		return "Go writes after " + lasts(t, begins(t, "Go", key, began))
	})
	f.cell(t, "mutex", "leases of fixed length end on both sides", func(t *testing.T) string {
		key := aKey(t, "k")
		began := time.Now()
		f.java.do(t, "lock", "lock", key, millis(brief))
		lease, err := f.c.Mutex(key).Lock(soon(t), lockrt.WithLease(brief))
		require.NoError(t, err)
		inGo := time.Since(began)
		require.Greater(t, inGo, brief-50*time.Millisecond)
		require.Equal(t, "true", f.java.do(t, "tryLock", "lock", key, millis(long), "0"))
		inJava := time.Since(began)
		require.Greater(t, inJava, 2*brief-100*time.Millisecond)
		require.Less(t, inJava, 2*brief+long/3)
		ended(t, lease.Context())
		require.ErrorIs(t, lease.Err(), lockrt.ErrLost)
		f.java.do(t, "unlock", "lock", key)
		return fmt.Sprintf("leases of %s: Go after %s, Java after %s", brief, round(inGo), round(inJava))
	})
}

func (f *fleet) downgrade(t *testing.T) {
	f.cell(t, "downgrade", "in Go, Java readers are told", func(t *testing.T) string {
		key := aKey(t, "k")
		writer, err := f.c.RWMutex(key).Lock(soon(t))
		require.NoError(t, err)
		reader, err := f.c.RWMutex(key).RLock(writer.Context())
		require.NoError(t, err)
		done := begin(soon(t), readKind.role().inJava(f.java), key)
		f.java.parked(t)
		given := time.Now()
		require.NoError(t, writer.Unlock(soon(t)))
		g := served(t, done)
		after := g.at.Sub(given)
		require.Less(t, after, long/3, "before the lease is over")
		require.NoError(t, reader.Err())
		require.Equal(t, "false", f.java.thread("writer").do(t, "tryLock", "write", key, "0", "0"))
		require.NoError(t, g.release(soon(t)))
		require.NoError(t, reader.Unlock(soon(t)))
		return "a Java reader joins after " + round(after).String()
	})
	f.cell(t, "downgrade", "in Java, Go readers find out", func(t *testing.T) string {
		key := aKey(t, "k")
		f.java.do(t, "lock", "write", key, "0")
		f.java.do(t, "lock", "read", key, "0")
		done := begin(soon(t), readKind.role().inGo(f.side), key)
		f.listening(t, "redisson_rwlock:{"+key+"}")
		given := time.Now()
		f.java.do(t, "unlock", "write", key)
		g := served(t, done)
		after := g.at.Sub(given)
		require.Less(t, after, long/3, "before the lease is over")
		require.Equal(t, "true", f.java.do(t, "isHeld", "read", key))
		require.NoError(t, g.release(soon(t)))
		f.java.do(t, "unlock", "read", key)
		return "a Go reader joins after " + round(after).String() + "; Redisson tells nobody"
	})
}

func (f *fleet) tokens(t *testing.T) {
	if !f.has(fencedKind) {
		return
	}
	f.cell(t, "fenced mutex", "tokens rise across languages", func(t *testing.T) string {
		seen := make([]string, 2)
		for i, javaFirst := range []bool{false, true} {
			key, last, first := aKey(t, "k"), int64(0), int64(0)
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
