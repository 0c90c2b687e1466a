package lockrt

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A flaky counter counts permits in this process. It loses requests and replies.
type flaky struct {
	t *counter

	mu   sync.Mutex
	rand *rand.Rand
	free int
	done map[uint64]int // by the number of the request
}

var errNoReply = errors.New("no reply")

func (f *flaky) channel() string { return f.t.key }

func (f *flaky) ask(b *batchRequest, wanted bool) (int, time.Duration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rand.IntN(8) == 0 {
		return 0, 0, errNoReply // it never arrived
	}
	number := b.number.Value.(uint64)
	granted, again := f.done[number]
	if !again {
		for _, w := range b.demands {
			if !wanted || w.n > f.free {
				break
			}
			granted++
			f.free -= w.n
		}
		f.done[number] = granted
	}
	if f.rand.IntN(8) == 0 {
		return 0, 0, errNoReply // it did what it says
	}
	return granted, time.Millisecond, nil
}

func (f *flaky) grant(*waiter, time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rand.IntN(20) > 0
}

func (f *flaky) undo(w demand) { f.add(w.n) }

func (f *flaky) add(n int) {
	f.mu.Lock()
	f.free += n
	f.mu.Unlock()
	f.t.wake()
}

// Calls come, give up and try while requests and replies get lost and grants come late. Each is
// answered, at most as many permits as there are are out at once, and in the end all are back.
func TestCounter_AnythingGoes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		c, err := Open(t.Context(), redistest.Shared(t).URL(), Options{})
		require.NoError(t, err)
		const permits = 5
		f := &flaky{free: permits, done: map[uint64]int{}, rand: rand.New(rand.NewPCG(seed, 1))}
		f.t = &counter{referenced: referenced{c: c, key: redistest.Key(t, "k"), users: 1}, kind: "flaky", of: f, width: mostAtOnce}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		var mu sync.Mutex
		out := 0
		var wg sync.WaitGroup
		for g := range 12 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(seed, uint64(g)+2))
				for range 60 {
					cfg := lockConfig{wait: UntilDone, Terms: engine.Terms{TTL: time.Minute}}
					mine, done := ctx, context.CancelFunc(func() {})
					switch r.IntN(3) {
					case 0:
						cfg.wait = 0
					case 1:
						mine, done = context.WithTimeout(ctx, time.Duration(r.IntN(3000))*time.Microsecond)
					}
					w := newWaiter(context.Background(), nil, cfg)
					w.For.demand = &demand{n: 1 + r.IntN(permits)}
					err := c.await(mine, f.t, w, cfg, nil)
					done()
					if ctx.Err() != nil {
						t.Error("a call was not answered")
						return
					}
					if err != nil {
						f.t.leave(w)
						continue
					}
					mu.Lock()
					out += w.For.demand.n
					if out > permits {
						t.Error("too many permits are out")
					}
					mu.Unlock()
					mu.Lock()
					out -= w.For.demand.n
					mu.Unlock()
					f.add(w.For.demand.n)
				}
			})
		}
		wg.Wait()
		for ctx.Err() == nil {
			f.mu.Lock()
			back := f.free == permits
			f.mu.Unlock()
			f.t.mu.Lock()
			idle := f.t.round == nil && f.t.numbers.Len() == 0 && f.t.queue.Length == 0 && !f.t.full
			f.t.mu.Unlock()
			if back && idle {
				break
			}
			<-time.After(time.Millisecond)
		}
		require.NoError(t, ctx.Err(), "not all is back")
		cancel()
		require.NoError(t, c.Close())
	}
}

// An answered counter has the test answer each request.
type answered struct {
	flaky
	asked chan chan<- dictated
}

type dictated struct {
	granted int
	err     error
}

func (a *answered) ask(*batchRequest, bool) (int, time.Duration, error) {
	reply := make(chan dictated)
	a.asked <- reply
	got := <-reply
	return got.granted, time.Millisecond, got.err
}

func (a *answered) grant(*waiter, time.Time) bool { return true }

// The only one who waits is refused, asks again and leaves. That his last request fails keeps nobody
// else from asking.
func TestCounter_WhoLeavesARequestThatFailsLeavesNoQueue(t *testing.T) {
	t.Parallel()
	c, err := Open(t.Context(), redistest.Shared(t).URL(), Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	a := &answered{asked: make(chan chan<- dictated)}
	ts := &counter{referenced: referenced{c: c, key: redistest.Key(t, "k"), users: 1}, kind: "answered", of: a, width: mostAtOnce}
	a.t = ts
	limit, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	call := func(ctx context.Context, wait time.Duration) <-chan error {
		done := make(chan error, 1)
		go func() {
			cfg := lockConfig{wait: wait, Terms: engine.Terms{TTL: time.Minute}}
			w := newWaiter(context.Background(), nil, cfg)
			err := c.await(ctx, ts, w, cfg, nil)
			if err != nil {
				ts.leave(w)
			}
			done <- err
		}()
		return done
	}
	request := func(what string) chan<- dictated {
		t.Helper()
		select {
		case reply := <-a.asked:
			return reply
		case <-limit.Done():
			require.FailNow(t, "no request of "+what)
			return nil
		}
	}

	mine, cancel := context.WithCancel(limit)
	defer cancel()
	first := call(mine, UntilDone)
	request("the one who waits") <- dictated{}
	reply := request("the one who waits, again")
	cancel()
	require.ErrorIs(t, <-first, context.Canceled)
	reply <- dictated{err: &net.OpError{Op: "dial", Net: "tcp", Err: errNoReply}}
	require.Eventually(t, func() bool {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		return !ts.asking
	}, 30*time.Second, time.Millisecond)

	second := call(limit, 0)
	select {
	case reply := <-a.asked:
		reply <- dictated{granted: 1}
		require.NoError(t, <-second)
	case err := <-second:
		require.FailNow(t, "refused by nobody", err)
	case <-limit.Done():
		require.FailNow(t, "neither asked nor answered")
	}
}
