package lockrt_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

const holdersTrace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// underTrace returns a context that carries the trace of a holder.
func underTrace(t *testing.T) context.Context {
	return context.WithValue(patient(t), traced{}, holdersTrace)
}

// A tracer is a client whose calls that wait look for the traces of the holders.
type tracer struct {
	t             *testing.T
	c             *lockrt.Client
	log           *lines
	waiting, ends <-chan lockrt.AcquireEvent
}

// newTracer returns a client that is patient with those that it asks.
func newTracer(t *testing.T, url string) *tracer {
	t.Helper()
	hooks, told := recorded()
	log := &lines{}
	c := clientOf(t, url, tracing(lockrt.Options{Hooks: hooks, OpTimeout: patience, Logger: log.logger()}))
	return &tracer{t, c, log, told.waits, told.ends}
}

// learns returns when the answer has come about a key, or about any for "".
func (w *tracer) learns(key string) {
	w.t.Helper()
	until(w.t, "the holders are known", func() bool {
		asked, answered := lockrt.LooksForTraces(w.c, key)
		return asked && answered
	})
}

// gives returns the error of a call that waits for l until the holders of a key are known, and then gives up.
func (w *tracer) gives(l lockrt.Locker, key string) error {
	w.t.Helper()
	ctx, cancel := context.WithCancel(patient(w.t))
	defer cancel()
	got := lockLater(ctx, l)
	receive(w.t, w.waiting, "a call that waits")
	w.learns(key)
	cancel()
	err := receive(w.t, got, "the call").err
	require.ErrorIs(w.t, err, context.Canceled)
	return err
}

// given returns the traces of the holders of a key that a call was given which waits for l until they are known, and then gives up.
func (w *tracer) given(l lockrt.Locker, key string) []string {
	w.t.Helper()
	_ = w.gives(l, key)
	end := receive(w.t, w.ends, "the end of the call")
	require.True(w.t, end.Contended)
	return end.HolderTraces
}

// audible returns when others can ask the client.
func audible(t *testing.T, server *redistest.RedisServer, c *lockrt.Client) {
	t.Helper()
	until(t, "it listens", func() bool { return subscribers(t, server, "lockgen_process:"+c.ID()) == 1 })
}

// A call that has waited for a second is given the traces of the holders, in another process and in its own, whatever the kind of the lock.
func TestHolderTraces(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	type lock func(c *lockrt.Client, key string) lockrt.Locker
	mutex, rw := lock(exclusives["Mutex"]), lock(exclusives["RWMutex"])
	for name, of := range map[string]struct{ holds, waits lock }{
		"Mutex":     {mutex, mutex},
		"FairMutex": {exclusives["FairMutex"], exclusives["FairMutex"]},
		"a writer":  {rw, rw},
		"a reader": {rw, func(c *lockrt.Client, key string) lockrt.Locker {
			return c.RWMutex(key).RLocker()
		}},
		"a writer behind a reader": {func(c *lockrt.Client, key string) lockrt.Locker { return c.RWMutex(key).RLocker() }, rw},
		"a part of a MultiLock": {mutex, func(c *lockrt.Client, key string) lockrt.Locker {
			return lockrt.NewMultiLock(c.Mutex(key+":free"), c.Mutex(key))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := redistest.Key(t, "k")
			holder, waiter := clientOf(t, server.URL(), tracing(lockrt.Options{})), newTracer(t, server.URL())
			held := ok(t)(of.holds(holder, key).Lock(underTrace(t)))
			audible(t, server, holder)
			require.Equal(t, []string{holdersTrace}, waiter.given(of.waits(waiter.c, key), key))
			free(t, held)

			held = ok(t)(of.holds(waiter.c, key+":own").Lock(underTrace(t)))
			require.Empty(t, receive(t, waiter.ends, "a call that did not wait").HolderTraces)
			require.Equal(t, []string{holdersTrace}, waiter.given(of.waits(waiter.c, key+":own"), key+":own"))
			free(t, held)
		})
	}
}

// All that read are named, each once.
func TestHolderTraces_OfReaders(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "k")
	waiter := newTracer(t, server.URL())
	var held []*lockrt.Lease
	var want []string
	for i := range 3 {
		c := clientOf(t, server.URL(), tracing(lockrt.Options{}))
		want = append(want, fmt.Sprint("trace ", i))
		held = append(held, ok(t)(c.RWMutex(key).RLock(context.WithValue(patient(t), traced{}, want[i]))))
		audible(t, server, c)
	}
	want = append(want, holdersTrace)
	held = append(held, ok(t)(waiter.c.RWMutex(key).RLock(underTrace(t))))
	receive(t, waiter.ends, "a call that did not wait")
	require.ElementsMatch(t, want, waiter.given(waiter.c.RWMutex(key), key))
	free(t, held...)
}

// A holder that has no trace, is gone or is a Java program is left out.
func TestHolderTraces_OfNobody(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	t.Run("without a trace", func(t *testing.T) {
		t.Parallel()
		key := redistest.Key(t, "k")
		holder, waiter := clientOf(t, server.URL(), lockrt.Options{}), newTracer(t, server.URL())
		held := ok(t)(holder.Mutex(key).Lock(underTrace(t)))
		audible(t, server, holder)
		require.Empty(t, waiter.given(waiter.c.Mutex(key), key))
		free(t, held)
	})
	for name, owner := range map[string]string{
		"gone": "11111111-2222-8333-8444-555555555555:7",
		"Java": "11111111-2222-4333-8444-555555555555:7",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := redistest.Key(t, "k")
			require.NoError(t, server.Do("HSET", key, owner, "1").Error())
			t.Cleanup(func() { server.Do("DEL", key) })
			waiter := newTracer(t, server.URL())
			require.Empty(t, waiter.given(waiter.c.Mutex(key), key))
			require.Zero(t, waiter.log.count("not linked"))
		})
	}
}

// A holder that does not answer holds up neither the call that waits nor the end of its client.
func TestHolderTraces_HoldNobodyUp(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	proxy := redistest.Proxy(t, server.Addr())
	mute, waiter := clientOf(t, proxy.URL(), tracing(lockrt.Options{})), newTracer(t, server.URL())
	held := ok(t)(mute.Mutex("k").Lock(underTrace(t)))
	audible(t, server, mute)
	proxy.Blackhole(redistest.Both)
	got := lockLater(patient(t), waiter.c.Mutex("k"))
	until(t, "it asks the holder", func() bool { return lockrt.OpenQuestions(waiter.c) == 1 })
	forced(t, waiter.c.Mutex("k"))
	lease := gotten(t, got, "what was taken by force")
	require.Empty(t, receive(t, waiter.ends, "the end of the call").HolderTraces)
	free(t, lease)
	_, answered := lockrt.LooksForTraces(waiter.c, "k")
	require.False(t, answered)
	require.NoError(t, waiter.c.Close())
	proxy.Deliver()
	_ = held.Unlock(t.Context())
}

// All calls that wait for a key share one question in a second, and a client asks for ten keys in a second at most.
func TestHolderTraces_Pace(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	var asked atomic.Int64
	holder := clientOf(t, server.URL(), lockrt.Options{Hooks: lockrt.Hooks{TraceParent: func(context.Context) string {
		asked.Add(1)
		return holdersTrace
	}}})
	wait := func(t *testing.T, waiter *tracer, keys func(i int) string) (linked int) {
		t.Helper()
		const calls = 30
		ctx, cancel := context.WithCancel(patient(t))
		defer cancel()
		began, before := time.Now(), asked.Load()
		var all []<-chan locked
		for i := range calls {
			all = append(all, lockLater(ctx, waiter.c.Mutex(keys(i))))
		}
		for range calls {
			receive(t, waiter.waiting, "a call that waits")
		}
		waiter.learns("")
		cancel()
		for _, got := range all {
			require.ErrorIs(t, receive(t, got, "the call").err, context.Canceled)
			if len(receive(t, waiter.ends, "the end of the call").HolderTraces) > 0 {
				linked++
			}
		}
		seconds := int64(time.Since(began) / time.Second)
		if keys(0) == keys(1) {
			require.LessOrEqual(t, asked.Load()-before, 1+seconds)
		} else {
			require.LessOrEqual(t, asked.Load()-before, 10*(1+seconds))
		}
		return linked
	}
	key := redistest.Key(t, "k")
	held := []*lockrt.Lease{ok(t)(holder.Mutex(key).Lock(patient(t)))}
	audible(t, server, holder)
	atBest(t, "all calls are given what one of them has asked for", func() bool {
		return wait(t, newTracer(t, server.URL()), func(int) string { return key }) == 30
	})
	for i := range 30 {
		held = append(held, ok(t)(holder.Mutex(fmt.Sprint(key, i)).Lock(patient(t))))
	}
	require.NotZero(t, wait(t, newTracer(t, server.URL()), func(i int) string { return fmt.Sprint(key, i) }))
	free(t, held...)
}

// Without a hook that says traces, or one that is given them, nothing is asked.
func TestHolderTraces_OnlyIfTheyAreWanted(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	holder := clientOf(t, server.URL(), lockrt.Options{})
	held := ok(t)(holder.Mutex("k").Lock(patient(t)))
	audible(t, server, holder)
	ctx, cancel := context.WithCancel(patient(t))
	defer cancel()
	hooks, told := recorded()
	plain := clientOf(t, server.URL(), lockrt.Options{Hooks: hooks})
	watching, waits, _ := watch()
	deaf := clientOf(t, server.URL(), tracing(lockrt.Options{Hooks: watching}))
	all := []<-chan locked{lockLater(ctx, plain.Mutex("k")), lockLater(ctx, deaf.Mutex("k"))}
	receive(t, told.waits, "a call that waits")
	receive(t, waits, "a call that waits")
	waiter := newTracer(t, server.URL()) // which begins to wait after them
	require.Empty(t, waiter.given(waiter.c.Mutex("k"), "k"))
	for _, c := range []*lockrt.Client{plain, deaf} {
		asked, _ := lockrt.LooksForTraces(c, "")
		require.False(t, asked)
	}
	cancel()
	for _, got := range all {
		require.Error(t, receive(t, got, "the call").err)
	}
	require.Empty(t, receive(t, told.ends, "the end of a call").HolderTraces)
	free(t, held)
}

// TestHolderTraces_Permissions shows that those for deadlocks are enough, and that the log has one line when they are missing.
func TestHolderTraces_Permissions(t *testing.T) {
	t.Parallel()
	permitted(t, func(t *testing.T, server *redistest.RedisServer, url string, all bool) {
		holder := clientOf(t, url, tracing(lockrt.Options{}))
		waiter := newTracer(t, url)
		held := ok(t)(holder.Mutex("order:1").Lock(underTrace(t)))
		audible(t, server, holder)
		traces := waiter.given(waiter.c.Mutex("order:1"), "order:1")
		if all {
			require.Equal(t, []string{holdersTrace}, traces)
			require.Zero(t, waiter.log.count("not linked"))
		} else {
			require.Empty(t, traces)
			require.Equal(t, 1, waiter.log.count("not linked"))
			require.Equal(t, 1, waiter.log.count("hscan"))
		}
		free(t, held)
	})
}
