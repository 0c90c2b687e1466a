package lockrt

import (
	"context"

	"github.com/lockgen/lockgen/runtime/internal/composite"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/locks"
)

// A MultiLock locks several Lockers as one: all or none. They may be of different kinds, Clients and servers. Redisson's RMultiLock.
//
// Members are locked in the order of their keys, so calls never wait for each other in a circle: Havender's ordered
// allocation (1968). After half a second a call yields to a Java program that lists them in another order.
// Neighbouring mutexes of one Client take one round trip together. The lease ends with the first loss of a member, see
// [Lease.Parts]. Each part has its own token. [Hooks] report one call and one lease, to the first Client; [Stats]
// counts one call in Calls, and the parts elsewhere.
type MultiLock composite.MultiLock

// Key returns the keys of the members, in order, separated by a comma and a space.
func (m *MultiLock) Key() string { return (*composite.MultiLock)(m).Key() }

// Lock waits for all members; opts apply to each, the wait to all together. Without WithWait the shortest wait of the
// members counts. The error is that of the member that failed. The call releases the other members, after 100ms in the
// background. With [WithLease] the whole lasts for that time from the last grant; [WithMaxHold] counts from the
// grant of each member.
func (m *MultiLock) Lock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	lease, err := (*composite.MultiLock)(m).Lock(ctx, optionsOf(opts)...)
	return (*Lease)(lease), err
}

// TryLock tries once, all members. Redisson's tryLock.
func (m *MultiLock) TryLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	lease, err := (*composite.MultiLock)(m).TryLock(ctx, optionsOf(opts)...)
	return (*Lease)(lease), err
}

// Do is [Mutex.Do].
func (m *MultiLock) Do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error, opts ...LockOption) error {
	return do(ctx, m, fn, opts)
}

// Inspect returns the Inspect of each member, in the order of locking, not at one moment. If some fail, it returns an error and the other
// answers.
func (m *MultiLock) Inspect(ctx context.Context) ([]MemberStanding, error) {
	return (*composite.MultiLock)(m).Inspect(ctx)
}

// NewMultiLock returns the lock of all lockers. The members of a MultiLock among them take its place; the same lock of
// the same Client and options counts once. No lockers, a nil one, and two different locks of one key of one Client,
// such as reading and writing, are [ErrBadOption]. Members with the same key are ordered by the addresses and databases
// of their servers, which must be the same in all processes: see docs/details.md.
func NewMultiLock(lockers ...Locker) *MultiLock {
	members := make([]locks.Locker, len(lockers))
	for i, l := range lockers {
		members[i] = memberOf(l)
	}
	return (*MultiLock)(composite.NewMultiLock(members...))
}

// memberOf returns l as a member of a MultiLock, or nil.
func memberOf(l Locker) locks.Locker {
	switch l := l.(type) {
	case *Mutex:
		return (*locks.Mutex)(l)
	case *FairMutex:
		return (*locks.FairMutex)(l)
	case *RWMutex:
		return (*locks.RWMutex)(l)
	case rLocker:
		return locks.ReadLocker{M: (*locks.RWMutex)(l.m)}
	case permitLocker:
		return locks.PermitLocker{PermitSemaphore: (*locks.PermitSemaphore)(l.PermitSemaphore)}
	case *RedLock:
		return (*composite.RedLock)(l)
	case *MultiLock:
		return (*composite.MultiLock)(l)
	}
	if composite.IsNil(l) {
		return nil
	}
	if shows, ok := l.(inspected); ok {
		return foreignInspected{foreign{l}, shows}
	}
	return foreign{l}
}

// A foreign is a Locker of another package.
type foreign struct{ of Locker }

func (f foreign) Key() string { return f.of.Key() }

func (f foreign) Lock(ctx context.Context, opts ...leases.Option) (*leases.Lease, error) {
	lease, err := f.of.Lock(ctx, optionsFrom(opts)...)
	return (*leases.Lease)(lease), err
}

func (f foreign) TryLock(ctx context.Context, opts ...leases.Option) (*leases.Lease, error) {
	lease, err := f.of.TryLock(ctx, optionsFrom(opts)...)
	return (*leases.Lease)(lease), err
}

// An inspected lock tells its state in Redis.
type inspected interface {
	Inspect(ctx context.Context) (Standing, error)
}

// A foreignInspected is a foreign that tells its state.
type foreignInspected struct {
	foreign
	inspected
}
