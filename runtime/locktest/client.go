package locktest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	lockrt "github.com/lockgen/lockgen/runtime"
	connects "github.com/lockgen/lockgen/runtime/internal/connect"
	"github.com/lockgen/lockgen/runtime/internal/force"
	"github.com/lockgen/lockgen/runtime/locktest/leaktest"
)

// patience is the time limit of this package for each event. It is shorter than the default
// watchdog time, so that an expiry cannot replace the event.
const patience = 20 * time.Second

// Client returns a client of the test's [Server]. Clients of one test use the same server, as
// replicas of a service do. It is closed when the test ends. The test fails if a lease of the
// client, or a key of the client in Redis, is left then. A key that a generated method leaves locked on purpose, with release=keep or min=, has to be
// taken by ForceUnlock before.
func Client(tb testing.TB, opts lockrt.Options) *lockrt.Client {
	tb.Helper()
	return client(tb, Server(tb), Server(tb), opts)
}

// client is Client with a server, and an address by which the client reaches it.
func client(tb testing.TB, server, url string, opts lockrt.Options) *lockrt.Client {
	tb.Helper()
	connect := func() (rueidis.Client, error) { return connect(server, opts.TLS) }
	held := &ledger{counts: make(map[string]int), used: make(map[string]bool)}
	opts.Hooks = held.watch(opts.Hooks)
	c, err := open(url, opts)
	if err != nil {
		tb.Fatalf("locktest: %v", err)
	}
	tb.Cleanup(func() {
		tb.Helper()
		left := held.left()
		if len(left) > 0 {
			_ = c.Close() // waits until the ledger has the losses
			left = held.left()
		}
		if len(left) > 0 {
			tb.Errorf("locktest: still locked when the test ended: %s", strings.Join(left, ", "))
			return
		}
		left, err := lasting(connect, c.ID(), held.keys())                  // the client withdraws requests that it knows nothing of, until it is closed
		over, cancel := context.WithTimeout(context.Background(), patience) // for what is being released
		defer cancel()
		if err := c.Shutdown(over); err != nil && !errors.Is(err, lockrt.ErrClosed) {
			tb.Errorf("locktest: %v", err)
		}
		if len(left) > 0 {
			left, err = owned(connect, c.ID(), held.keys())
		}
		if err != nil {
			tb.Errorf("locktest: look for keys that were left behind: %v", err)
		}
		if len(left) > 0 {
			tb.Errorf("locktest: still in Redis when the test ended: %s; if that is on purpose, by release=keep or min=, force it open before the end", strings.Join(left, ", "))
		}
	})
	return c
}

// open is [lockrt.Open] of a server that answers, on a machine that may stand still for longer than a client waits for it.
func open(url string, opts lockrt.Options) (c *lockrt.Client, err error) {
	c, err = lockrt.Open(context.Background(), url, opts)
	var late interface{ Timeout() bool }
	for start := time.Now(); errors.As(err, &late) && late.Timeout() && time.Since(start) < patience; {
		c, err = lockrt.Open(context.Background(), url, opts)
	}
	return c, err
}

// grace is how long a key may stay in Redis after its leases: a request that nobody waits for may still be on its way.
const grace = 5 * time.Second

// lasting returns those of the keys that the client id still has in Redis after [grace].
func lasting(connect func() (rueidis.Client, error), id string, keys []string) (left []string, err error) {
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for over := time.Now().Add(grace); ; <-poll.C {
		if left, err = owned(connect, id, keys); err != nil || len(left) == 0 || time.Now().After(over) {
			return left, err
		}
	}
}

// owned returns those of the keys that the client id has in Redis.
func owned(connect func() (rueidis.Client, error), id string, keys []string) ([]string, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	rc, err := connect()
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var left []string
	for _, key := range keys {
		owners, err := rc.Do(ctx, rc.B().Hkeys().Key(key).Build()).AsStrSlice()
		if err != nil && !strings.HasPrefix(err.Error(), "WRONGTYPE") { // a key of another type is not the client's
			return left, fmt.Errorf("%q: %w", key, err)
		}
		if slices.ContainsFunc(owners, func(owner string) bool { return strings.HasPrefix(owner, id+":") }) {
			left = append(left, key)
		}
	}
	return left, nil
}

// connect returns a client of the server that url names, of the cluster, or of the master of the sentinels. config is nil, or of the connections.
func connect(url string, config *tls.Config) (rueidis.Client, error) {
	option, err := connects.Options{TLS: config, Watchdog: time.Minute, OpTimeout: patience}.Redis(url)
	if err != nil {
		return nil, err
	}
	return rueidis.NewClient(option)
}

// NoLeaks fails the test if it leaves goroutines of lockgen or of rueidis behind. Call it
// first, and not in a parallel test.
func NoLeaks(tb testing.TB) {
	tb.Helper()
	leaktest.Check(tb)
}

// A ledger counts the leases of each key.
type ledger struct {
	mu     sync.Mutex
	counts map[string]int  // not zero
	used   map[string]bool // keys that calls asked for, with any outcome
}

// watch returns hooks that keep the ledger and then call the given ones.
func (l *ledger) watch(hooks lockrt.Hooks) lockrt.Hooks {
	acquired, ended := hooks.AcquireEnd, hooks.Ended
	hooks.AcquireEnd = func(ctx context.Context, e lockrt.AcquireEvent) {
		l.use(e.Key)
		for _, part := range e.Parts {
			l.use(part)
		}
		// Permits of a semaphore and counts of a latch have no holder, so they have no end.
		if e.Err == nil && e.Kind != lockrt.KindSemaphore && e.Kind != lockrt.KindLatch {
			l.add(e.Key, 1)
		}
		if acquired != nil {
			acquired(ctx, e)
		}
	}
	hooks.Ended = func(ctx context.Context, e lockrt.EndEvent) {
		// Closing a client ends the leases that the test has not ended.
		if !errors.Is(e.Cause, lockrt.ErrClosed) {
			l.add(e.Key, -1)
		}
		if ended != nil {
			ended(ctx, e)
		}
	}
	return hooks
}

func (l *ledger) add(key string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts[key] += n; l.counts[key] == 0 {
		delete(l.counts, key)
	}
}

func (l *ledger) use(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used[key] = true
}

// left returns the keys that have leases.
func (l *ledger) left() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.counts))
}

// keys returns all keys that calls asked for.
func (l *ledger) keys() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.used))
}

// Losable is an argument of [Lose]: a [lockrt.Lease] or [lockrt.Permit], the proof of a typed lock, or a context that
// is under one of them, such as the one that a generated wrapper gives to the method.
type Losable interface{ Err() error }

// Lose takes the key of l in Redis from it, like a forced unlock, and returns once the context of l has ended with
// [lockrt.ErrLost]. Of several keys it takes all. Of a context it takes the innermost lease. The test fails if that has
// ended before, or if there is none: then Lose ends the goroutine, as Fatal does, so call it from that of the test, or from one for which the test does
// not wait.
func Lose(tb testing.TB, l Losable) {
	tb.Helper()
	under, ok := l.(context.Context)
	if !ok {
		held, ok := l.(interface{ Context() context.Context })
		if !ok {
			tb.Fatalf("locktest: a %T cannot be lost: it is neither a lease nor a context", l)
		}
		under = held.Context()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	lease, ok := lockrt.LeaseFrom(under)
	if !ok {
		tb.Fatalf("locktest: the context is under no lease that could be lost")
	}
	if err := lease.Err(); err != nil {
		tb.Fatalf("locktest: %q cannot be lost: its lease has ended: %v", lease.Key(), err)
	}
	key, ended, taken, err := force.Take(ctx, under)
	switch {
	case err != nil:
		tb.Fatalf("locktest: lose %q: %v", key, err)
	case !taken:
		tb.Fatalf("locktest: %q cannot be lost: nobody has it in Redis", key)
	}
	select {
	case <-ended:
	case <-ctx.Done():
		tb.Fatalf("locktest: %q was taken, and its lease has not ended after %v", key, patience)
	}
}
