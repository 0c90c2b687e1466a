package locktest

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/embedded"
	"github.com/lockgen/lockgen/runtime/locktest/leaktest"
)

// Client returns a client of the server that $REDIS_URL names, or of [Embedded] without
// it. Clients of one test use the same server, as replicas of a service do. It is
// closed when the test ends, which fails if a lease is left then.
func Client(tb testing.TB, opts lockrt.Options) *lockrt.Client {
	tb.Helper()
	url := os.Getenv("REDIS_URL")
	if url == "" {
		url = Embedded(tb)
	}
	held := &ledger{counts: make(map[string]int)}
	opts.Hooks = held.watch(opts.Hooks)
	c, err := lockrt.Open(url, opts)
	if err != nil {
		tb.Fatalf("locktest: %v", err)
	}
	tb.Cleanup(func() {
		over, cancel := context.WithCancel(context.Background())
		cancel() // leases have had their time
		err := c.Shutdown(over)
		if left := held.keys(); len(left) > 0 {
			tb.Errorf("locktest: still locked when the test ended: %s", strings.Join(left, ", "))
			return
		}
		if err != nil && !errors.Is(err, lockrt.ErrClosed) {
			tb.Errorf("locktest: %v", err)
		}
	})
	return c
}

// NoLeaks fails the test if it leaves goroutines of lockgen or of rueidis behind. Call it
// first, and not in a parallel test.
func NoLeaks(tb testing.TB) {
	tb.Helper()
	leaktest.Check(tb)
}

var servers struct {
	sync.Mutex
	urls map[testing.TB]string
}

// Embedded returns the address of a server inside of the test binary, the same one at
// every call of one test. It ends with the test. See package embedded for what it lacks.
func Embedded(tb testing.TB) (url string) {
	tb.Helper()
	servers.Lock()
	defer servers.Unlock()
	if url, ok := servers.urls[tb]; ok {
		return url
	}
	url, stop, err := embedded.Start()
	if err != nil {
		tb.Fatalf("locktest: %v", err)
	}
	if servers.urls == nil {
		servers.urls = make(map[testing.TB]string)
	}
	servers.urls[tb] = url
	tb.Cleanup(func() {
		servers.Lock()
		delete(servers.urls, tb)
		servers.Unlock()
		stop()
	})
	return url
}

// A ledger counts the leases of each key.
type ledger struct {
	mu     sync.Mutex
	counts map[string]int
}

// watch returns hooks that keep the ledger and do what the given ones do.
func (l *ledger) watch(hooks lockrt.Hooks) lockrt.Hooks {
	acquired, ended := hooks.AcquireEnd, hooks.Ended
	hooks.AcquireEnd = func(ctx context.Context, e lockrt.AcquireEvent) {
		if e.Err == nil {
			l.add(e.Key, 1)
		}
		if acquired != nil {
			acquired(ctx, e)
		}
	}
	hooks.Ended = func(e lockrt.EndEvent) {
		// A client that is closed ends the leases that nobody has ended.
		if !errors.Is(e.Cause, lockrt.ErrClosed) {
			l.add(e.Key, -1)
		}
		if ended != nil {
			ended(e)
		}
	}
	return hooks
}

func (l *ledger) add(key string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts[key] += n; l.counts[key] == 0 {
		delete(l.counts, key) // an end may come before its beginning
	}
}

func (l *ledger) keys() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.counts))
}
