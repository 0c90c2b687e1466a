package lockrt_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// This file makes random calls of the whole API, and looks at what holds for all of them: each call ends, nobody is inside with another one,
// and nothing is left.

var seed = flag.Uint64("seed", 0, "what TestRandom_Calls draws from, 0: another seed each time")

// A world is two processes, each a client on each of three servers, and the goroutines that call their methods.
type world struct {
	weather weather
	servers []*redistest.RedisServer
	proxies []*redistest.FaultProxy
	cluster *redistest.RedisCluster // stands in for the first server, or nil
	sets    [2][]*lockrt.Client
	owners  [2]*lockrt.Owner
	over    context.Context //nolint:containedctx // ends when nothing fails any more

	mu      sync.Mutex
	black   []bool                          // the proxies that pass nothing on
	closing bool                            // the clients are being closed, or have been
	mute    map[*redistest.RedisServer]bool // those that the clients perhaps did not reach then
	inside  map[string]map[any]*presence
	wrong   []string
}

// A weather is what happens to a world.
type weather uint8

const (
	calm      weather = iota
	rough             // the network fails, but all leases last longer than the world
	resharded         // as rough, and the first server is a cluster whose slots move
	faulty            // the network fails, servers lose all, leases expire, and locks are taken by force
	shutting          // as faulty, and the clients are closed in the middle
)

// lasting says whether nothing that is held is lost: then at most one is inside.
func (w weather) lasting() bool { return w <= resharded }

// A presence is what one holder has of a key.
type presence struct{ writes, reads int }

// TestRandom_Calls has goroutines of two processes call the methods of all locks, under each other's leases and owners, and from hooks. A seed has
// the same calls each time, not the same order. Each [weather] has a world.
func TestRandom_Calls(t *testing.T) {
	t.Parallel()
	from := *seed
	if from == 0 {
		from = rand.Uint64()
	}
	var servers []*redistest.RedisServer
	for range 3 {
		servers = append(servers, redistest.Server(t))
	}
	for i, name := range []string{calm: "calm", rough: "rough", resharded: "in a cluster whose slots move", faulty: "with faults", shutting: "closed in the middle"} {
		passed := t.Run(name, func(t *testing.T) {
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("go test -run %s -seed %d", strings.Split(t.Name(), "/")[0], from)
				}
			})
			w := newWorld(t, servers, weather(i))
			pprof.Do(t.Context(), pprof.Labels("world", t.Name()), func(context.Context) { w.live(t, from) })
			left := ""
			defer func() {
				if left != "" {
					t.Log(left)
				}
			}()
			until(t, "no goroutine of a client is left", func() bool {
				left = stacks(t, `"world":"`+t.Name()+`"`) // those that began in this world
				return left == ""
			})
		})
		if !passed {
			break // a call that hangs would disturb the next world, too
		}
	}
}

// newWorld returns a world whose clients are not connected.
func newWorld(t *testing.T, servers []*redistest.RedisServer, weather weather) *world {
	t.Helper()
	w := &world{
		weather: weather, servers: servers, black: make([]bool, len(servers)), mute: map[*redistest.RedisServer]bool{}, inside: map[string]map[any]*presence{},
	}
	w.owners = [2]*lockrt.Owner{lockrt.NewOwner(), lockrt.NewOwner()}
	for _, s := range servers {
		w.proxies = append(w.proxies, redistest.Proxy(t, s.Addr()))
		s.Do("FLUSHALL") // from here, so that the connection to the server is not of the world
	}
	if weather == resharded {
		w.cluster = redistest.Cluster(t)
		for _, n := range w.cluster.Nodes() {
			n.Do("PING") // from here, too
		}
	}
	return w
}

// stacks returns the goroutines whose profile has a text.
func stacks(t *testing.T, text string) string {
	t.Helper()
	all := slices.DeleteFunc(strings.Split(goroutines(t), "\n\n"), func(stack string) bool { return !strings.Contains(stack, text) })
	return strings.Join(all, "\n\n")
}

// live is the life of a world.
func (w *world) live(t *testing.T, from uint64) {
	t.Helper()
	w.open(t, rand.New(rand.NewPCG(from, 0)))
	half := lasts(t, 1200*time.Millisecond)
	w.over = lasts(t, 2400*time.Millisecond)
	var callers sync.WaitGroup
	for i := range uint64(12) {
		callers.Go(func() {
			c := &caller{w, rand.New(rand.NewPCG(from, i+1)), int(i % 2)}
			for w.over.Err() == nil && c.turn() {
				if i == 0 && w.cluster != nil {
					c.move()
				}
			}
		})
	}
	if w.weather == shutting {
		<-half.Done()
		w.closes()
		w.each(t, "Close", (*lockrt.Client).Close)
	}
	<-w.over.Done()
	w.recovers()
	ends(t, "a call", callers.Wait)
	for _, c := range slices.Concat(w.sets[0], w.sets[1]) {
		until(t, "no key has a resource", func() bool {
			return w.weather == shutting || lockrt.Resources(c)+lockrt.Counters(c)+lockrt.Fairs(c)+lockrt.QuorumQueues(c) == 0
		})
	}
	w.each(t, "Shutdown", func(c *lockrt.Client) error { return c.Shutdown(t.Context()) })
	require.Empty(t, w.wrong)
	for _, s := range w.masters() {
		w.cleared(t, s)
	}
	if w.weather.lasting() {
		w.complete(t)
	}
}

// closes notes that the clients are about to be closed.
func (w *world) closes() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closing = true
	for i, black := range w.black {
		w.mute[w.servers[i]] = black
	}
}

// recovers has the network work again, for good: the world is over.
func (w *world) recovers() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.proxies {
		p.Deliver()
		p.Delay(0)
	}
}

// open connects all clients.
func (w *world) open(t *testing.T, r *rand.Rand) {
	t.Helper()
	for set := range w.sets {
		var first atomic.Pointer[lockrt.Client]
		for i, p := range w.proxies {
			opts := lockrt.Options{
				Hooks: looking(&first), Watchdog: time.Minute, OpTimeout: unhurried,
				DeadlockAfter: 30 * time.Millisecond, BreakDeadlocks: r.IntN(2) == 0, Linger: time.Duration(r.IntN(2)) * 5 * time.Millisecond,
			}
			switch {
			case !w.weather.lasting():
				opts.Watchdog, opts.OpTimeout = 300*time.Millisecond, 500*time.Millisecond
			case w.weather != calm:
				opts.OpTimeout = 3 * time.Second // half of it is for copies of requests that are under way when the client is closed
			}
			url := p.URL()
			if i == 0 && w.cluster != nil {
				url = w.cluster.URL()
			}
			c, err := opened(t.Context(), url, opts)
			require.NoError(t, err)
			w.sets[set] = append(w.sets[set], c)
			first.CompareAndSwap(nil, c)
		}
	}
}

// looking returns hooks that ask their client now and then how it is.
func looking(c *atomic.Pointer[lockrt.Client]) lockrt.Hooks {
	var calls atomic.Int64
	look := func() {
		if c := c.Load(); c != nil && calls.Add(1)%8 == 0 {
			_, _ = c.Snapshot(), c.Stats()
		}
	}
	return lockrt.Hooks{
		Waiting:  func(context.Context, lockrt.AcquireEvent) { look() },
		Ended:    func(context.Context, lockrt.EndEvent) { look() },
		Deadlock: func(context.Context, lockrt.DeadlockEvent) { look() },
	}
}

// lasts returns a context that ends after d.
func lasts(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// each ends all clients.
func (w *world) each(t *testing.T, what string, end func(c *lockrt.Client) error) {
	t.Helper()
	for _, c := range slices.Concat(w.sets[0], w.sets[1]) {
		ends(t, what, func() {
			if err := end(c); err != nil && w.weather == calm {
				w.fault("%s: %v", what, err)
			}
		})
	}
}

// ends fails the test with the stacks of goroutines of the runtime if f does not end.
func ends(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-patient(t).Done():
		require.FailNow(t, what+" does not end", stacks(t, "lockgen/runtime/internal"))
	}
}

// cleared returns when nobody holds a lock of a server, or waits for one, by its keys. The numbers of semaphores, permits and latches stay there, also
// the last token of an election, and the results of requests expire later. After a fault the record of a leader and the wait queue may stay, too,
// until they expire. The queue of a fair lock, which does not, has what a client could not withdraw from a server that was mute when it was closed.
func (w *world) cleared(t *testing.T, server *redistest.RedisServer) {
	t.Helper()
	var left []string
	defer func() {
		if len(left) > 0 {
			t.Log("left:", left)
		}
	}()
	stays := []string{"permit", "sem", "latch", "every", "_token:{office", "lockgen_process:", "lockgen_requests:"}
	if w.mute[server] {
		stays = append(stays, "redisson_lock_queue:{fair", "redisson_lock_timeout:{fair")
	}
	until(t, "no lock is left", func() (none bool) {
		keys, err := server.Do("KEYS", "*").AsStrSlice()
		require.NoError(t, err)
		left = slices.DeleteFunc(keys, func(key string) bool {
			return slices.ContainsFunc(stays, func(of string) bool { return strings.Contains(key, of) }) ||
				w.weather != calm && (!w.weather.lasting() || strings.HasPrefix(key, "lockgen_leader:")) && number(t, server, "PTTL", key) != -1
		})
		return len(left) == 0
	})
}

// masters returns the servers that have the keys.
func (w *world) masters() []*redistest.RedisServer {
	if w.cluster == nil {
		return w.servers
	}
	return append(w.cluster.Nodes()[:3], w.servers[1:]...)
}

// complete returns when each permit has been given back. A release of a Semaphore may fail, as any call, unless the weather is calm: then permits are
// missing, but never are there too many.
func (w *world) complete(t *testing.T) {
	t.Helper()
	for i := range 3 {
		of := func(kind string) int64 {
			key := fmt.Sprint(kind, i)
			server := w.servers[0]
			if w.cluster != nil {
				server = w.cluster.Master(key)
			}
			if number(t, server, "EXISTS", key) > 0 {
				return number(t, server, "GET", key)
			}
			return places
		}
		until(t, "all permits are free", func() bool { return of("permit") == places })
		if free := of("sem"); w.weather == calm {
			require.EqualValues(t, places, free)
		} else {
			require.LessOrEqual(t, free, int64(places))
		}
	}
}

func (w *world) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) < 10 {
		w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
	}
}

// places is how many permits each semaphore has.
const places = 2

// A name is a key that a call takes.
type name struct {
	key    string
	reads  bool
	places int // at most as many are inside, or 0: one holder
}

type holding string

// enter notes that a call has keys under ctx. It returns the context of what is done there, and what to call before they are given back.
func (c *caller) enter(ctx context.Context, names ...name) (inner context.Context, leave func()) {
	ids := make([]any, len(names))
	c.mu.Lock()
	for i, n := range names {
		owner, owned := lockrt.OwnerFrom(ctx)
		switch held := ctx.Value(holding(n.key)); {
		case n.places > 0:
			ids[i] = new(int)
		case owned:
			ids[i] = [2]any{c.set, owner}
		case held != nil:
			ids[i] = held
		default:
			ids[i] = new(int)
		}
		ctx = context.WithValue(ctx, holding(n.key), ids[i])
		all := c.inside[n.key]
		if all == nil {
			all = map[any]*presence{}
			c.inside[n.key] = all
		}
		mine := all[ids[i]]
		if mine == nil {
			mine = &presence{}
			all[ids[i]] = mine
		}
		mine.count(n, 1)
		for id, other := range all {
			if c.weather.lasting() && n.places == 0 && id != ids[i] && (other.writes > 0 || !n.reads && other.reads > 0) {
				c.wrong = append(c.wrong, "two are inside "+n.key)
			}
		}
		if c.weather.lasting() && n.places > 0 && len(all) > n.places {
			c.wrong = append(c.wrong, "too many are inside "+n.key)
		}
	}
	c.mu.Unlock()
	return ctx, sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for i, n := range names {
			mine := c.inside[n.key][ids[i]]
			if mine.count(n, -1); *mine == (presence{}) {
				delete(c.inside[n.key], ids[i])
			}
		}
	})
}

func (p *presence) count(n name, by int) {
	if n.reads {
		p.reads += by
	} else {
		p.writes += by
	}
}
