package interop

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// release releases an acquired lock.
type release func(ctx context.Context) error

// acquire waits until it holds the lock of key.
type acquire func(ctx context.Context, key string) (release, error)

// A role is an operation of one side on a key, in either language.
type role struct {
	inGo   func(s side) acquire
	inJava func(th thread) acquire
	// queued returns when a waiter in Go is known to wait for a Java program.
	queued func(t *testing.T, f *fleet, key string)
}

// A kind is a kind of lock that both languages have.
type kind struct {
	name  string // in the table
	java  string // in the commands of the Java program
	since string // which version of Redisson
	lock  func(s side, key string) lockrt.Locker
	force func(ctx context.Context, s side, key string) (bool, error) // nil if it cannot be forced open
	// rival is the kind that the holder excludes, if it is not the same one.
	rival *kind
	// listens is the channel, or its pattern, that a waiter in Go listens to; %s is the key. Empty for a waiter that
	// asks without messages.
	listens string
	// lone locks are for independent servers.
	lone bool
}

var (
	mutexKind = &kind{
		name: "mutex", java: "lock", listens: "redisson_lock__channel:{%s}",
		lock:  func(s side, key string) lockrt.Locker { return s.c.Mutex(key) },
		force: func(ctx context.Context, s side, key string) (bool, error) { return s.c.Mutex(key).ForceUnlock(ctx) },
	}
	fencedKind = &kind{
		name: "fenced mutex", java: "fenced", since: "3.19.0", listens: "redisson_lock__channel:{%s}",
		lock:  func(s side, key string) lockrt.Locker { return s.c.Mutex(key, lockrt.WithFencing()) },
		force: func(ctx context.Context, s side, key string) (bool, error) { return s.c.Mutex(key).ForceUnlock(ctx) },
	}
	fairKind = &kind{
		name: "fair mutex", java: "fair", listens: "redisson_lock__channel:{%s}:*",
		lock: func(s side, key string) lockrt.Locker { return s.c.FairMutex(key) },
		force: func(ctx context.Context, s side, key string) (bool, error) {
			return s.c.FairMutex(key).ForceUnlock(ctx)
		},
	}
	spinKind = &kind{
		name: "spin lock", java: "spin", since: "3.16.0",
		lock: func(s side, key string) lockrt.Locker {
			return s.c.Mutex(key, lockrt.WithBackoff(lockrt.ExponentialBackoff(time.Millisecond, 128*time.Millisecond)))
		},
		force: func(ctx context.Context, s side, key string) (bool, error) { return s.c.Mutex(key).ForceUnlock(ctx) },
	}
	writeKind = &kind{
		name: "writer", java: "write", listens: "redisson_rwlock:{%s}",
		lock:  func(s side, key string) lockrt.Locker { return s.c.RWMutex(key) },
		force: func(ctx context.Context, s side, key string) (bool, error) { return s.c.RWMutex(key).ForceUnlock(ctx) },
	}
	readKind = &kind{
		name: "reader", java: "read", rival: writeKind, listens: "redisson_rwlock:{%s}",
		lock:  func(s side, key string) lockrt.Locker { return s.c.RWMutex(key).RLocker() },
		force: func(ctx context.Context, s side, key string) (bool, error) { return s.c.RWMutex(key).ForceRUnlock(ctx) },
	}
	// multiKind is several locks of different kinds at once.
	multiKind = &kind{
		name: "multi-lock", java: "multi", listens: "redisson_lock__channel:{%s:a}",
		lock: func(s side, key string) lockrt.Locker {
			return lockrt.NewMultiLock(s.c.Mutex(key+":a"), s.c.RWMutex(key+":b"), s.c.FairMutex(key+":c"))
		},
	}
	redKind = &kind{
		name: "red lock", java: "red", lone: true, listens: "redisson_lock__channel:{%s}",
		lock: func(s side, key string) lockrt.Locker {
			m := lockrt.NewRedLock(key, s.reds)
			return m
		},
	}

	// exclusive are the kinds with one holder at a time.
	exclusive = []*kind{mutexKind, fencedKind, fairKind, spinKind, writeKind, multiKind, redKind}
	// kinds are all kinds of locks.
	kinds = []*kind{mutexKind, fencedKind, fairKind, spinKind, writeKind, readKind, multiKind, redKind}
)

// kindOf returns the kind with this name in the Java program.
func kindOf(java string) *kind {
	return kinds[slices.IndexFunc(kinds, func(k *kind) bool { return k.java == java })]
}

// roleOf returns the role of a kind of lock or semaphore with this name in the Java program.
func roleOf(java string) role {
	switch java {
	case "semaphore":
		return semaphoreRole
	case "permit":
		return permitRole
	}
	return kindOf(java).role()
}

// has reports whether the fleet supports locks of the kind.
func (f *fleet) has(k *kind) bool {
	return (k.since == "" || f.at(k.since)) && (!k.lone || len(f.reds) > 0)
}

// against is the kind to test a hold of kind k with.
func (k *kind) against() *kind {
	if k.rival != nil {
		return k.rival
	}
	return k
}

// role returns the role of a lock.
func (k *kind) role() role {
	return role{
		inGo: func(s side) acquire {
			return func(ctx context.Context, key string) (release, error) {
				lease, err := k.lock(s, key).Lock(ctx)
				if err != nil {
					return nil, err
				}
				return lease.Unlock, nil
			}
		},
		inJava: func(th thread) acquire {
			return func(ctx context.Context, key string) (release, error) {
				if _, err := th.call(ctx, "lock", k.java, key, "0"); err != nil {
					return nil, err
				}
				return func(ctx context.Context) error {
					_, err := th.call(ctx, "unlock", k.java, key)
					return err
				}, nil
			}
		},
		queued: func(t *testing.T, f *fleet, key string) {
			if k.listens != "" {
				f.listening(t, fmt.Sprintf(k.listens, key))
				return
			}
			asked := f.asked()
			f.soon(t, func() bool { return f.asked() >= asked+3 }, "nobody asks")
		},
	}
}

// refuses requires that the other holders on both sides are refused.
func (f *fleet) refuses(t *testing.T, s side, th thread, k *kind, key string) {
	t.Helper()
	_, err := k.against().lock(s, key).TryLock(soon(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	require.Equal(t, "false", th.do(t, "tryLock", k.against().java, key, "0", "0"))
}

// listeningTo is the queued function of roles without locks.
func listeningTo(channel string) func(t *testing.T, f *fleet, key string) {
	return func(t *testing.T, f *fleet, key string) { f.listening(t, fmt.Sprintf(channel, key)) }
}

var (
	// semaphoreRole takes the only permit.
	semaphoreRole = role{
		queued: listeningTo("redisson_sc:{%s}"),
		inGo: func(side side) acquire {
			return func(ctx context.Context, key string) (release, error) {
				s := side.c.Semaphore(key, 1)
				return func(ctx context.Context) error { return s.Release(ctx, 1) }, s.Acquire(ctx, 1)
			}
		},
		inJava: func(th thread) acquire {
			return func(ctx context.Context, key string) (release, error) {
				if _, err := th.call(ctx, "semaphoreSet", key, "1"); err != nil {
					return nil, err
				}
				_, err := th.call(ctx, "semaphoreAcquire", key, "1")
				return func(ctx context.Context) error {
					_, err := th.call(ctx, "semaphoreRelease", key, "1")
					return err
				}, err
			}
		},
	}

	// permitRole takes the only permit, with renewal, or in Java for ever.
	permitRole = role{
		queued: listeningTo("redisson_sc:{%s}"),
		inGo: func(s side) acquire {
			return func(ctx context.Context, key string) (release, error) {
				permit, err := s.c.PermitSemaphore(key, 1).Acquire(ctx)
				if err != nil {
					return nil, err
				}
				return permit.Release, nil
			}
		},
		inJava: func(th thread) acquire {
			return func(ctx context.Context, key string) (release, error) {
				if _, err := th.call(ctx, "permitSet", key, "1"); err != nil {
					return nil, err
				}
				id, err := th.call(ctx, "permitAcquire", key, "0")
				return func(ctx context.Context) error {
					_, err := th.call(ctx, "permitRelease", key, id)
					return err
				}, err
			}
		},
	}

	// setRole starts a latch, and releases it by counting it down.
	setRole = role{
		inGo: func(s side) acquire {
			return func(ctx context.Context, key string) (release, error) {
				latch := s.c.CountDownLatch(key)
				started, err := latch.SetCount(ctx, 1)
				if err == nil && !started {
					err = fmt.Errorf("latch %s is running", key)
				}
				return func(ctx context.Context) error {
					_, err := latch.CountDown(ctx)
					return err
				}, err
			}
		},
		inJava: func(th thread) acquire {
			return func(ctx context.Context, key string) (release, error) {
				started, err := th.call(ctx, "latchSet", key, "1")
				if err == nil && started != "true" {
					err = fmt.Errorf("latch %s is running", key)
				}
				return func(ctx context.Context) error {
					_, err := th.call(ctx, "latchDown", key)
					return err
				}, err
			}
		},
	}

	// awaitRole waits for a latch, which leaves nothing to release.
	awaitRole = role{
		queued: listeningTo("redisson_countdownlatch__channel__{%s}"),
		inGo: func(s side) acquire {
			return func(ctx context.Context, key string) (release, error) {
				return nothing, s.c.CountDownLatch(key).Wait(ctx)
			}
		},
		inJava: func(th thread) acquire {
			return func(ctx context.Context, key string) (release, error) {
				_, err := th.call(ctx, "latchAwait", key)
				return nothing, err
			}
		},
	}
)

func nothing(context.Context) error { return nil }
