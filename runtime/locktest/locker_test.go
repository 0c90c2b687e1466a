package locktest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

func mutex(c *lockrt.Client, key string) locker { return whole{c.Mutex(key)} }

// TestTestLocker_Embedded shows that the checks which need no server of their own pass on the one
// inside the test binary too.
func TestTestLocker_Embedded(t *testing.T) {
	t.Parallel()
	of := subject{make: mutex, url: Embedded(t), patience: patience}
	for _, ch := range checks {
		t.Run(ch.name, func(t *testing.T) {
			t.Parallel()
			ch.run(t, of)
		})
	}
}

// A liar is a locker with some of its methods replaced.
type liar struct {
	locker

	lock    func(ctx context.Context, opts ...lockrt.LockOption) (lease, error)
	tryLock func(ctx context.Context, opts ...lockrt.LockOption) (lease, error)
}

func (l liar) Lock(ctx context.Context, opts ...lockrt.LockOption) (lease, error) {
	if l.lock == nil {
		return l.locker.Lock(ctx, opts...)
	}
	return l.lock(ctx, opts...)
}

func (l liar) TryLock(ctx context.Context, opts ...lockrt.LockOption) (lease, error) {
	if l.tryLock == nil {
		return l.locker.TryLock(ctx, opts...)
	}
	return l.tryLock(ctx, opts...)
}

// A lyingLease is a lease with some of its methods replaced.
type lyingLease struct {
	lease

	unlock  func(ctx context.Context) error
	extend  func(ctx context.Context, d time.Duration) error
	context context.Context
	err     func() error
	until   func() time.Time
}

func (l lyingLease) Unlock(ctx context.Context) error {
	if l.unlock == nil {
		return l.lease.Unlock(ctx)
	}
	return l.unlock(ctx)
}

func (l lyingLease) Extend(ctx context.Context, d time.Duration) error {
	if l.extend == nil {
		return l.lease.Extend(ctx, d)
	}
	return l.extend(ctx, d)
}

func (l lyingLease) Context() context.Context {
	if l.context == nil {
		return l.lease.Context()
	}
	return l.context
}

func (l lyingLease) Err() error {
	if l.err == nil {
		return l.lease.Err()
	}
	return l.err()
}

func (l lyingLease) Until() time.Time {
	if l.until == nil {
		return l.lease.Until()
	}
	return l.until()
}

// leasing makes mutexes whose leases are changed by lie.
func leasing(lie func(c *lockrt.Client, l lease) lease) func(c *lockrt.Client, key string) locker {
	return func(c *lockrt.Client, key string) locker {
		m := mutex(c, key)
		change := func(l lease, err error) (lease, error) {
			if err != nil {
				return nil, err
			}
			return lie(c, l), nil
		}
		return liar{
			locker: m,
			lock: func(ctx context.Context, opts ...lockrt.LockOption) (lease, error) {
				return change(m.Lock(ctx, opts...))
			},
			tryLock: func(ctx context.Context, opts ...lockrt.LockOption) (lease, error) {
				return change(m.TryLock(ctx, opts...))
			},
		}
	}
}

// A mutant breaks one promise. The checks named by caught find it.
type mutant struct {
	make   func(c *lockrt.Client, key string) locker
	caught []string
}

var mutants = map[string]mutant{
	"each process has a lock of its own": {
		make:   func(c *lockrt.Client, key string) locker { return mutex(c, key+c.ID()) },
		caught: []string{"RefusesWhatIsHeld", "WaitRunsOut"},
	},
	"everybody gets in": {
		make: func(c *lockrt.Client, key string) locker {
			every := func(ctx context.Context, opts ...lockrt.LockOption) (lease, error) {
				return orNil(c.Mutex(redistest.Key(each{}, key)).Lock(ctx, opts...))
			}
			return liar{locker: mutex(c, key), lock: every, tryLock: every}
		},
		caught: []string{"Excludes", "RefusesWhatIsHeld", "WaitOfZero", "AnotherContextIsAStranger"},
	},
	"waiters share the lock": {
		make: func(c *lockrt.Client, key string) locker {
			m := c.RWMutex(key)
			return liar{locker: mutex(c, key), tryLock: func(ctx context.Context, opts ...lockrt.LockOption) (lease, error) {
				return orNil(m.TryLock(ctx, opts...))
			}, lock: func(ctx context.Context, opts ...lockrt.LockOption) (lease, error) {
				l, err := m.TryLock(ctx, opts...)
				if errors.Is(err, lockrt.ErrNotAcquired) {
					l, err = m.RLock(ctx, opts...)
				}
				return orNil(l, err)
			}}
		},
		caught: []string{"Excludes"},
	},
	"a grant is forgotten when the caller gives up": {
		make: func(c *lockrt.Client, key string) locker {
			m := mutex(c, key)
			return liar{locker: m, lock: func(ctx context.Context, opts ...lockrt.LockOption) (lease, error) {
				type granted struct {
					lease lease
					err   error
				}
				got := make(chan granted, 1)
				go func() {
					l, err := m.Lock(context.WithoutCancel(ctx), opts...)
					got <- granted{l, err}
				}()
				select {
				case g := <-got:
					return g.lease, g.err
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}}
		},
		caught: []string{"ContextDoneAtTheGrant", "StormLeavesNothing"},
	},
	"the context is ignored": {
		make: func(c *lockrt.Client, key string) locker {
			m := mutex(c, key)
			return liar{locker: m, lock: func(ctx context.Context, opts ...lockrt.LockOption) (lease, error) {
				return m.Lock(context.WithoutCancel(ctx), opts...)
			}}
		},
		caught: []string{"ContextDoneBefore", "ContextDoneWhileWaiting", "LeaseContext"},
	},
	"loss is not told": {
		make: leasing(func(_ *lockrt.Client, l lease) lease {
			return lyingLease{lease: l, context: context.WithoutCancel(l.Context()), err: func() error { return nil }}
		}),
		caught: []string{"TellsOfLoss", "FixedLeaseIsOverBeforeTheKey", "MaxHold", "HalfOpen", "StoppedServer", "ServerComesBackEmpty"},
	},
	"loss is told without its cause": {
		make: leasing(func(_ *lockrt.Client, l lease) lease {
			ctx, cancel := context.WithCancel(context.WithoutCancel(l.Context()))
			context.AfterFunc(l.Context(), cancel)
			return lyingLease{lease: l, context: ctx}
		}),
		caught: []string{"TellsOfLoss", "LeaseContext", "Close"},
	},
	"a lease is trusted for longer than its key lives": {
		make: leasing(func(_ *lockrt.Client, l lease) lease {
			return lyingLease{lease: l, until: func() time.Time { return l.Until().Add(200 * time.Millisecond) }}
		}),
		caught: []string{"FixedLeaseIsOverBeforeTheKey"},
	},
	"a key is left behind": {
		make: leasing(func(c *lockrt.Client, l lease) lease {
			other, err := c.Mutex(l.Key()+":more").TryLock(context.Background(), lockrt.WithLease(time.Minute))
			if err == nil {
				context.AfterFunc(l.Context(), func() { _ = other.Extend(context.Background(), time.Hour) })
			}
			return l
		}),
		caught: []string{"Excludes", "StormLeavesNothing"},
	},
	"unlocking twice is fine": {
		make: leasing(func(_ *lockrt.Client, l lease) lease {
			return lyingLease{lease: l, unlock: func(ctx context.Context) error {
				if err := l.Unlock(ctx); !errors.Is(err, lockrt.ErrReleased) {
					return err
				}
				return nil
			}}
		}),
		caught: []string{"UnlockTwice", "UnlockByMany"},
	},
	"unlock frees whoever has the key": {
		make: leasing(func(c *lockrt.Client, l lease) lease {
			return lyingLease{lease: l, unlock: func(ctx context.Context) error {
				err := l.Unlock(ctx)
				if err != nil {
					_, _ = c.Mutex(l.Key()).ForceUnlock(context.WithoutCancel(ctx))
				}
				return err
			}}
		}),
		caught: []string{"UnlockTwice", "TellsOfLoss", "FixedLeaseIsOverBeforeTheKey"},
	},
	"unlock does nothing when its context is done": {
		make: leasing(func(_ *lockrt.Client, l lease) lease {
			return lyingLease{lease: l, unlock: func(ctx context.Context) error {
				if err := ctx.Err(); err != nil {
					return err
				}
				return l.Unlock(ctx)
			}}
		}),
		caught: []string{"UnlockWithContextDone"},
	},
	"an extension is not sent": {
		make: leasing(func(_ *lockrt.Client, l lease) lease {
			return lyingLease{lease: l, extend: func(context.Context, time.Duration) error { return l.Err() }}
		}),
		caught: []string{"Extend"},
	},
	"nobody enters again": {
		make: func(c *lockrt.Client, key string) locker {
			m := mutex(c, key)
			again := func(lock func(context.Context, ...lockrt.LockOption) (lease, error)) func(context.Context, ...lockrt.LockOption) (lease, error) {
				return func(ctx context.Context, opts ...lockrt.LockOption) (lease, error) {
					parent, cancel := context.WithCancel(context.Background())
					context.AfterFunc(ctx, cancel)
					return lock(parent, opts...)
				}
			}
			return liar{locker: m, lock: again(m.Lock), tryLock: again(m.TryLock)}
		},
		caught: []string{"Reentry", "LeaseContext"},
	},
	"waiting is not bounded": {
		make: func(c *lockrt.Client, key string) locker {
			m := mutex(c, key)
			return liar{locker: m, lock: func(ctx context.Context, opts ...lockrt.LockOption) (lease, error) {
				return m.Lock(ctx, append(slices.Clone(opts), lockrt.WithWait(lockrt.UntilDone))...)
			}}
		},
		caught: []string{"WaitRunsOut", "WaitOfZero", "BadOptions"},
	},
	"options are ignored": {
		make: func(c *lockrt.Client, key string) locker {
			m := mutex(c, key)
			return liar{locker: m, lock: func(ctx context.Context, _ ...lockrt.LockOption) (lease, error) { return m.Lock(ctx) }}
		},
		caught: []string{"BadOptions", "MaxHold", "FixedLeaseIsOverBeforeTheKey"},
	},
	"any key will do": {
		make: func(c *lockrt.Client, key string) locker {
			return mutex(c, strings.NewReplacer("{", "(", "}", ")").Replace(key)+":")
		},
		caught: []string{"BadKeys"},
	},
}

// each is a test without a name, for keys.
type each struct{ testing.TB }

func (each) Name() string { return "each" }

// TestTestLocker_FindsMutants shows that the checks fail when they should.
func TestTestLocker_FindsMutants(t *testing.T) {
	t.Parallel()
	url := redistest.Shared(t).URL()
	for name, mutant := range mutants {
		for _, caught := range mutant.caught {
			t.Run(name+"/"+caught, func(t *testing.T) {
				t.Parallel()
				i := slices.IndexFunc(slices.Concat(checks, faultChecks), func(ch check) bool { return ch.name == caught })
				require.GreaterOrEqual(t, i, 0, "no such check")
				tb := &Recorder{TB: t}
				tb.Run(func() {
					slices.Concat(checks, faultChecks)[i].run(tb, subject{make: mutant.make, url: url, patience: 1000 * time.Millisecond})
				})
				found := slices.Clone(tb.Errors)
				tb.Run(tb.End)
				require.NotEmpty(t, found, "the check did not find it")
			})
		}
	}
}

// TestTestLocker_FindsGoroutines shows that a goroutine that outlives its client is seen.
func TestTestLocker_FindsGoroutines(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	var wg sync.WaitGroup
	runs := make(chan struct{})
	of := newMark()
	of.run(func() {
		wg.Go(func() { close(runs); <-end })
	})
	<-runs
	require.Contains(t, of.left(), "TestTestLocker_FindsGoroutines", "its stack is shown")
	close(end)
	wg.Wait()
	require.Eventually(t, func() bool { return of.left() == "" }, patience, time.Millisecond)
}

// TestInFront shows in front of which servers a proxy can stand.
func TestInFront(t *testing.T) {
	t.Parallel()
	for server, can := range map[string]bool{
		"redis://localhost": true, "redis://:secret@localhost:7000/2": true, "rediss://localhost": false, "unix:///run/redis.sock": false, "no url\x7f": false,
		"redis://localhost?addr=other": false, "redis://localhost?cluster=true": false, "redis://localhost?cluster=false": true,
		"redis://localhost?master_set=m": false,
	} {
		_, by, ok := inFront(t, server)
		require.Equal(t, can, ok, server)
		if ok {
			require.Regexp(t, `^redis://(:secret@)?127\.0\.0\.1:\d+(/2)?(\?cluster=false)?$`, by)
		}
	}
}
