package lockrt_test

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/gen"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A way is a call that acquires, works under what it was granted, and releases that.
type way struct {
	do  func(ctx context.Context, work func(), opts ...lockrt.LockOption) error
	try func(ctx context.Context) error // without work; nil if there is none
}

// lock does no work.
func (w way) lock(ctx context.Context, opts ...lockrt.LockOption) error {
	return w.do(ctx, func() {}, opts...)
}

// once is a call that does not wait.
func (w way) once(t *testing.T) error {
	if w.try != nil {
		return w.try(patient(t))
	}
	return w.lock(patient(t), lockrt.WithWait(0))
}

// by is the way of a Locker.
func by(l lockrt.Locker) way {
	use := func(work func(), lease *lockrt.Lease, err error) error {
		if err == nil {
			work()
			err = lease.Unlock(context.Background())
		}
		return err
	}
	return way{
		func(ctx context.Context, work func(), opts ...lockrt.LockOption) error {
			lease, err := l.Lock(ctx, opts...)
			return use(work, lease, err)
		},
		func(ctx context.Context) error {
			lease, err := l.TryLock(ctx)
			return use(func() {}, lease, err)
		},
	}
}

// generatedBy is the way of generated code.
func generatedBy(c *lockrt.Client, key string, spec gen.Spec) way {
	return way{do: func(ctx context.Context, work func(), opts ...lockrt.LockOption) (err error) {
		hold, err := gen.With(c, opts...).Acquire(ctx, &spec, key)
		if err == nil {
			work()
			hold.Release(&err)
		}
		return err
	}}
}

// wayOf returns how a process with a client for each of three servers acquires key.
var wayOf = map[string]func(c []*lockrt.Client, key string) way{
	"Mutex":     func(c []*lockrt.Client, key string) way { return by(c[0].Mutex(key)) },
	"FairMutex": func(c []*lockrt.Client, key string) way { return by(c[0].FairMutex(key)) },
	"writer":    func(c []*lockrt.Client, key string) way { return by(c[0].RWMutex(key)) },
	"reader":    func(c []*lockrt.Client, key string) way { return by(c[0].RWMutex(key).RLocker()) },
	"permit":    func(c []*lockrt.Client, key string) way { return by(lockrt.PermitLocker(c[0].PermitSemaphore(key, 1))) },
	"spin": func(c []*lockrt.Client, key string) way {
		return by(c[0].Mutex(key, lockrt.WithBackoff(lockrt.ConstantBackoff(40*time.Millisecond))))
	},
	"MultiLock": func(c []*lockrt.Client, key string) way {
		return by(lockrt.NewMultiLock(c[0].Mutex(key+":1"), c[0].Mutex(key), c[0].FairMutex(key+":2")))
	},
	"RedLock": func(c []*lockrt.Client, key string) way {
		m := lockrt.NewRedLock(key, c)
		return by(m)
	},
	"generated": func(c []*lockrt.Client, key string) way {
		return generatedBy(c[0], key, gen.Spec{Name: "n", Wait: lockrt.UntilDone})
	},
	"Semaphore": func(c []*lockrt.Client, key string) way {
		s := c[0].Semaphore(key, 1)
		return way{
			func(ctx context.Context, work func(), opts ...lockrt.LockOption) error {
				return s.Do(ctx, 1, func(context.Context) error { work(); return nil }, opts...)
			},
			func(ctx context.Context) error {
				err := s.TryAcquire(ctx, 1)
				if err == nil {
					err = s.Release(context.Background(), 1)
				}
				return err
			},
		}
	},
	"latch": func(c []*lockrt.Client, key string) way {
		return way{do: func(ctx context.Context, _ func(), opts ...lockrt.LockOption) error {
			return c[0].CountDownLatch(key).Wait(ctx, opts...)
		}}
	},
}

// An outside is what somebody else has, and how a test takes Redis away from the calls that want it.
type outside struct {
	way
	waiting <-chan string // of the calls that want it
	away    func(mute bool)
	back    func()
	cut     func() // connections, which can be made again
}

// keep has other clients hold the key of a way until the test is over.
func keep(t *testing.T, way string, others []*lockrt.Client, key string) {
	t.Helper()
	held, done, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		holdBy(t, way, others, key, held, done)
	}()
	t.Cleanup(func() { close(done); <-ended })
	receive(t, held, "what somebody else has")
}

// everyWay runs test with each way, where somebody else has the key.
func everyWay(t *testing.T, test func(t *testing.T, o outside)) {
	for name, of := range wayOf {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key, all := redistest.Key(t, "k"), []site{{redistest.Shared(t), redistest.Proxy(t, redistest.Shared(t).Addr())}}
			if name == "RedLock" {
				all = sites(t, 3)
			}
			hooks, waiting, _ := watch()
			var mine, others []*lockrt.Client
			for _, s := range all {
				c, err := opened(t.Context(), s.proxy.URL(), lockrt.Options{Hooks: hooks})
				require.NoError(t, err)
				t.Cleanup(func() { _ = c.Close() }) // its server may be away
				mine = append(mine, c)
				others = append(others, clientOf(t, s.URL(), lockrt.Options{}))
				warm, err := c.Mutex(key + ":warm").Lock(patient(t))
				require.NoError(t, err)
				require.NoError(t, warm.Unlock(t.Context()))
			}
			keep(t, name, others, key)
			test(t, outside{of(mine, key), waiting, func(mute bool) {
				for _, s := range all {
					if mute {
						s.proxy.Blackhole(redistest.Both)
					} else {
						s.proxy.Refuse(true)
						s.proxy.Cut()
					}
				}
			}, func() {
				for _, s := range all {
					s.proxy.Refuse(false)
					s.proxy.Deliver()
				}
			}, func() {
				for _, s := range all {
					s.proxy.Cut()
				}
			}})
		})
	}
}

// holdBy has somebody else have the key until done.
func holdBy(t *testing.T, name string, c []*lockrt.Client, key string, held chan<- struct{}, done <-chan struct{}) {
	work := func(context.Context, *lockrt.Lease) error {
		close(held)
		<-done
		return nil
	}
	var err error
	switch name {
	case "FairMutex":
		err = c[0].FairMutex(key).Do(context.Background(), work)
	case "writer":
		err = c[0].RWMutex(key).RDo(context.Background(), work)
	case "reader":
		err = c[0].RWMutex(key).Do(context.Background(), work)
	case "permit":
		err = c[0].PermitSemaphore(key, 1).Do(context.Background(), func(ctx context.Context, _ *lockrt.Permit) error { return work(ctx, nil) })
	case "Semaphore":
		err = c[0].Semaphore(key, 1).Do(context.Background(), 1, func(ctx context.Context) error { return work(ctx, nil) })
	case "latch":
		if _, err = c[0].CountDownLatch(key).SetCount(context.Background(), 1); err == nil {
			err = work(context.Background(), nil)
		}
	case "RedLock":
		err = lockrt.NewRedLock(key, c).Do(context.Background(), work)
	default:
		err = c[0].Mutex(key).Do(context.Background(), work)
	}
	if err != nil {
		t.Error(err)
	}
}

// onlyUnavailable checks that err says that Redis is away, and nothing about anybody else.
func onlyUnavailable(t *testing.T, err error, what string) {
	t.Helper()
	require.ErrorIs(t, err, lockrt.ErrUnavailable, what)
	require.NotErrorIs(t, err, lockrt.ErrNotAcquired, what)
	require.NotErrorIs(t, err, context.DeadlineExceeded, what)
}

func TestUnavailable_AwayFromTheBeginning(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, o outside) {
		for _, mute := range []bool{false, true} {
			o.away(mute)
			first := later(func() error { return o.lock(patient(t), lockrt.WithWait(700*time.Millisecond)) })
			second := later(func() error { return o.lock(patient(t), lockrt.WithWait(600*time.Millisecond)) })
			if o.try != nil {
				for range 3 {
					onlyUnavailable(t, o.try(patient(t)), "a try beside the waiters")
				}
			}
			onlyUnavailable(t, receive(t, first, "the first"), "the first")
			onlyUnavailable(t, receive(t, second, "the second"), "the second")
			onlyUnavailable(t, o.lock(patient(t), lockrt.WithWait(0)), "without a wait")
			o.back()
		}
	})
}

func TestUnavailable_TakenAndThenSilent(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, o outside) {
		for _, mute := range []bool{false, true} {
			first := later(func() error { return o.lock(patient(t), lockrt.WithWait(3500*time.Millisecond)) })
			receive(t, o.waiting, "the first waiter")
			second := later(func() error { return o.lock(patient(t), lockrt.WithWait(3*time.Second)) })
			receive(t, o.waiting, "the second waiter")
			o.away(mute)
			onlyUnavailable(t, receive(t, second, "the second"), "the second")
			onlyUnavailable(t, receive(t, first, "the first"), "the first")
			o.back()
			until(t, "Redis is back", func() bool {
				err := o.lock(patient(t), lockrt.WithWait(0))
				return err != nil && !errors.Is(err, lockrt.ErrUnavailable)
			})
			for len(o.waiting) > 0 {
				<-o.waiting
			}
		}
	})
}

// As long as Redis answers, a refused call knows the reason.
func TestUnavailable_TakenAllTheTime(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, o outside) {
		var all []<-chan error
		for i := range 4 {
			all = append(all, later(func() error {
				return o.lock(patient(t), lockrt.WithWait(time.Duration(150+100*i)*time.Millisecond))
			}))
		}
		for range 20 {
			if o.try == nil {
				break
			}
			require.ErrorIs(t, o.try(patient(t)), lockrt.ErrNotAcquired)
		}
		for i, got := range all {
			err := receive(t, got, "the waiter")
			require.ErrorIs(t, err, lockrt.ErrNotAcquired, i)
			require.NotErrorIs(t, err, lockrt.ErrUnavailable)
		}
	})
}

// The error of a context that ended says what Redis had said by then, and matches that of the context alone.
func TestUnavailable_AnEndedContextIsNothingElse(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, o outside) {
		check := func(call <-chan error, end error, says string) {
			t.Helper()
			err := receive(t, call, "the end of a call")
			require.ErrorIs(t, err, end)
			require.NotErrorIs(t, err, lockrt.ErrNotAcquired)
			require.NotErrorIs(t, err, lockrt.ErrUnavailable)
			require.ErrorContains(t, err, says)
		}
		ctx, cancel := context.WithCancel(context.Background())
		first, second := later(func() error { return o.lock(ctx) }), later(func() error { return o.lock(ctx) })
		receive(t, o.waiting, "the first waiter")
		receive(t, o.waiting, "the second waiter")
		cancel()
		check(first, context.Canceled, "somebody else had it")
		check(second, context.Canceled, "somebody else had it")
		o.away(false)
		ctx, cancel = context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		first, second = later(func() error { return o.lock(ctx) }), later(func() error { return o.lock(ctx) })
		check(first, context.DeadlineExceeded, "Redis last failed with")
		check(second, context.DeadlineExceeded, "Redis last failed with")
		o.back()
	})
}

// Connections may be cut while nobody uses them, by whatever stands between. That costs the next call another request, and
// not the answer: not one that does not wait, nor one whose wait is over, alone or beside others.
func TestUnavailable_CutWhileIdle(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, o outside) {
		try := func() error { return o.once(t) }
		require.ErrorIs(t, try(), lockrt.ErrNotAcquired)
		for range 10 {
			o.cut()
			require.ErrorIs(t, try(), lockrt.ErrNotAcquired, "the first call")
			for range 3 { // one after the other has connections of its own made
				require.ErrorIs(t, try(), lockrt.ErrNotAcquired)
			}
			o.cut()
			var beside []<-chan error
			for range 4 {
				beside = append(beside, later(try))
			}
			for _, got := range beside {
				require.ErrorIs(t, receive(t, got, "one of the calls that try at once"), lockrt.ErrNotAcquired, "one of the calls that try at once")
			}
		}
	})
}

// cutDials returns a client of a proxy whose next dials are cut, as many as cuts says, and otherwise connect.
func cutDials(t *testing.T, proxy *redistest.FaultProxy) (c *lockrt.Client, cuts *atomic.Int32) {
	t.Helper()
	cuts = new(atomic.Int32)
	rc := redistest.NewClient(t, proxy.Addr(), func(o *rueidis.ClientOption) {
		o.PipelineMultiplex, o.ForceSingleClient = -1, true
		o.ConnWriteTimeout, o.Dialer.Timeout = patience, patience // a busy machine answers late
		o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if cuts.Add(-1) >= 0 {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNRESET)}
			}
			return d.DialContext(ctx, "tcp", addr)
		}
	})
	c, err := lockrt.New(rc, lockrt.Options{OpTimeout: patience})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c, cuts
}

// The next connection may be cut, too, while it is dialled. Then nothing was sent, and a call that does not wait sends its request once more:
// alone, and beside others of which one asks for all.
func TestUnavailable_CutWhileDialled(t *testing.T) {
	t.Parallel()
	for name, of := range wayOf {
		if name == "RedLock" { // asks each server by a client of its own
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := redistest.Proxy(t, redistest.Shared(t).Addr())
			c, cuts := cutDials(t, proxy)
			key, others := redistest.Key(t, "k"), []*lockrt.Client{clientOf(t, redistest.Shared(t).URL(), lockrt.Options{})}
			keep(t, name, others, key)
			w := of([]*lockrt.Client{c}, key)
			try := func() error { return w.once(t) }
			require.ErrorIs(t, try(), lockrt.ErrNotAcquired)
			for range 20 {
				proxy.Cut()
				cuts.Store(1)
				require.ErrorIs(t, try(), lockrt.ErrNotAcquired, "alone")
				proxy.Cut()
				cuts.Store(1)
				var all []<-chan error
				for range 4 {
					all = append(all, later(try))
				}
				for _, got := range all {
					require.ErrorIs(t, receive(t, got, "one of several"), lockrt.ErrNotAcquired, "one of several")
				}
			}
		})
	}
}

// releases are further ways, whose releases have an outcome of their own.
var releases = map[string]func(c []*lockrt.Client, key string) way{
	"PermitSemaphore.Do": func(c []*lockrt.Client, key string) way {
		return way{do: func(ctx context.Context, work func(), opts ...lockrt.LockOption) error {
			return c[0].PermitSemaphore(key, 1).Do(ctx, func(context.Context, *lockrt.Permit) error { work(); return nil }, opts...)
		}}
	},
	"a MultiLock with a permit": func(c []*lockrt.Client, key string) way {
		return by(lockrt.NewMultiLock(c[0].Mutex(key+":1"), lockrt.PermitLocker(c[0].PermitSemaphore(key, 1))))
	},
	"generated, min=": func(c []*lockrt.Client, key string) way {
		return generatedBy(c[0], key, gen.Spec{Name: "n", Wait: lockrt.UntilDone, Min: time.Minute})
	},
}

// TestUnavailable_NotAfterWork shows that work whose release has no answer does not end with ErrUnavailable: a caller that calls again after
// an outage would do the work twice.
func TestUnavailable_NotAfterWork(t *testing.T) {
	t.Parallel()
	ways := maps.Clone(wayOf)
	maps.Copy(ways, releases)
	delete(ways, "latch") // nobody releases it
	for name, of := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := []site{{redistest.Shared(t), redistest.Proxy(t, redistest.Shared(t).Addr())}}
			if name == "RedLock" {
				all = sites(t, 3)
			}
			var clients []*lockrt.Client
			for _, s := range all {
				c, err := opened(t.Context(), s.proxy.URL(), lockrt.Options{OpTimeout: time.Second})
				require.NoError(t, err)
				t.Cleanup(func() { _ = c.Close() }) // its server is away
				clients = append(clients, c)
			}
			worked := false
			err := of(clients, redistest.Key(t, "k")).do(patient(t), func() {
				worked = true
				for _, s := range all {
					s.proxy.Blackhole(redistest.Both)
				}
			})
			require.True(t, worked, err)
			require.Error(t, err)
			require.NotErrorIs(t, err, lockrt.ErrUnavailable)
		})
	}
}
