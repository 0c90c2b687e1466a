package locks

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/counting"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/resource"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A flaky counter counts permits in this process. It loses requests and replies.
type flaky struct {
	*counter

	mu   sync.Mutex
	rand *rand.Rand
	free int
	done map[uint64]int // by the number of the request
}

var errNoReply = errors.New("no reply")

func (f *flaky) Send(b *engine.CountBatch[resource.Wish], number, _ uint64, wanted bool) engine.CountAnswer {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rand.IntN(8) == 0 {
		return engine.CountAnswer{Err: errNoReply} // it never arrived
	}
	granted, again := f.done[number]
	if !again {
		for _, p := range b.Parts {
			if !wanted || p.Demand.N > f.free {
				break
			}
			granted++
			f.free -= p.Demand.N
		}
		f.done[number] = granted
	}
	if f.rand.IntN(8) == 0 {
		return engine.CountAnswer{Err: errNoReply} // it did what it says
	}
	return engine.CountAnswer{Granted: granted, TTL: time.Millisecond}
}

func (f *flaky) Grant(_ *resource.Waiter, _, _ time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rand.IntN(20) > 0
}

func (f *flaky) Undo(_ *resource.Waiter, d engine.Demand) { f.add(d.N) }

func (f *flaky) add(n int) {
	f.mu.Lock()
	f.free += n
	f.mu.Unlock()
	f.Wake()
}

// countsOf returns a counter of c that counts of.
func countsOf(t *testing.T, c *Client, of engine.Counting[resource.Wish]) *counter {
	t.Helper()
	ct := newCounter(c, core.KindSemaphore, redistest.Key(t, "k"))
	ct.Users.Store(1)
	ct.Counter.Counter.Init(of, &ct.Count, &ct.Mu)
	return ct
}

// Calls come, give up and try while requests and replies get lost and grants come late. Each call gets an answer. No more permits are out
// at once than there are, and in the end all are back.
func TestCounter_AnythingGoes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		c, err := opened(t.Context(), redistest.Shared(t).URL(), core.Settings{OpTimeout: time.Minute, Tracks: true}, nil)
		require.NoError(t, err)
		const permits = 5
		f := &flaky{free: permits, done: map[uint64]int{}, rand: rand.New(rand.NewPCG(seed, 1))}
		f.counter = countsOf(t, c, f)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		var mu sync.Mutex
		out := 0
		var wg sync.WaitGroup
		for g := range 12 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(seed, uint64(g)+2))
				for range 60 {
					cfg := leases.Config{Wait: leases.UntilDone, Terms: engine.Terms{TTL: time.Minute}}
					mine, done := ctx, context.CancelFunc(func() {})
					switch r.IntN(3) {
					case 0:
						cfg.Wait = 0
					case 1:
						mine, done = context.WithTimeout(ctx, time.Duration(r.IntN(3000))*time.Microsecond)
					}
					w := resource.NewWaiter(context.Background(), nil, &cfg)
					w.For.CounterDemand = &counting.Demand{Demand: engine.Demand{N: 1 + r.IntN(permits)}}
					err := c.base.Await(mine, f.counter, w, &cfg, nil)
					done()
					if ctx.Err() != nil {
						t.Error("a call was not answered")
						return
					}
					if err != nil {
						f.Leave(w)
						continue
					}
					mu.Lock()
					out += w.For.CounterDemand.N
					if out > permits {
						t.Error("too many permits are out")
					}
					mu.Unlock()
					mu.Lock()
					out -= w.For.CounterDemand.N
					mu.Unlock()
					f.add(w.For.CounterDemand.N)
				}
			})
		}
		wg.Wait()
		for ctx.Err() == nil {
			f.mu.Lock()
			back := f.free == permits
			f.mu.Unlock()
			if back && f.Settled() {
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

func (a *answered) Send(*engine.CountBatch[resource.Wish], uint64, uint64, bool) engine.CountAnswer {
	reply := make(chan dictated)
	a.asked <- reply
	got := <-reply
	return engine.CountAnswer{Granted: got.granted, TTL: time.Millisecond, Err: got.err}
}

func (a *answered) Grant(_ *resource.Waiter, _, _ time.Time) bool { return true }

// The only waiter is refused, asks again and leaves. Its last request fails, which keeps no other call
// else from asking.
func TestCounter_WhoLeavesARequestThatFailsLeavesNoQueue(t *testing.T) {
	t.Parallel()
	c, err := opened(t.Context(), redistest.Shared(t).URL(), core.Settings{OpTimeout: time.Minute, Tracks: true}, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	a := &answered{asked: make(chan chan<- dictated)}
	ts := countsOf(t, c, a)
	a.counter = ts
	limit, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	call := func(ctx context.Context, wait time.Duration) <-chan error {
		done := make(chan error, 1)
		go func() {
			cfg := leases.Config{Wait: wait, Terms: engine.Terms{TTL: time.Minute}}
			w := resource.NewWaiter(context.Background(), nil, &cfg)
			w.For.CounterDemand = new(counting.Demand)
			err := c.base.Await(ctx, ts, w, &cfg, nil)
			if err != nil {
				ts.Leave(w)
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
	first := call(mine, leases.UntilDone)
	request("the waiter") <- dictated{}
	reply := request("the waiter, again")
	cancel()
	require.ErrorIs(t, <-first, context.Canceled)
	reply <- dictated{err: &net.OpError{Op: "dial", Net: "tcp", Err: errNoReply}}
	require.Eventually(t, ts.Settled, 30*time.Second, time.Millisecond)

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

// A call that leaves with its permit releases it: the process holds nothing any more, and another call has the permit.
func TestCounter_WhoLeavesWithAPermitReleasesIt(t *testing.T) {
	t.Parallel()
	c, err := opened(t.Context(), redistest.Shared(t).URL(), core.Settings{OpTimeout: time.Minute, Tracks: true}, nil)
	require.NoError(t, err)
	defer c.Close()
	s := c.PermitSemaphore(redistest.Key(t, "k"), 1)
	p, err := s.Acquire(t.Context())
	require.NoError(t, err)
	ct, known := c.permits.Find(s.key)
	require.True(t, known)
	w := resource.NewWaiter(t.Context(), nil, &leases.Config{})
	w.For.CounterDemand = &counting.Demand{Demand: engine.Demand{N: 1, IDs: p.hold.Owner()}, Permit: p.hold}
	w.Place = engine.PlaceGranted
	ct.Leave(w)
	other, err := s.Acquire(t.Context())
	require.NoError(t, err)
	require.Error(t, p.Err())
	require.NoError(t, other.Release(t.Context()))
	require.Eventually(t, func() bool { return !c.Base().Holding() && Counters(c) == 0 }, time.Minute, time.Millisecond)
}
