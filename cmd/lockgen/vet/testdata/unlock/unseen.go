package unlock

import (
	"context"
	"time"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/gen"
)

// locks has typed locks, with what a directive says.
type locks struct{ c *lockrt.Client }

func (l locks) Seat(id ID) lockrt.EntityMutex[ID] {
	return gen.For(l.c, &gen.Spec{Lease: time.Minute}, id, "seat", nil)
}

func typed(ctx context.Context, l locks) (err error) {
	if _, err = l.Seat("1").TryLock(ctx); err != nil {
		return err
	}
	_, err = gen.For(l.c, &gen.Spec{Lease: time.Minute}, ID("1"), "seat", nil).TryLock(ctx)
	return err
}

func typedOnSomeWays(ctx context.Context, l locks) error {
	held, err := l.Seat("1").TryLock(ctx) // want `held is not unlocked on the way that returns at line \d+`
	if err != nil {
		return err
	}
	if err := work(held.Context()); err != nil {
		return err
	}
	return held.Unlock(ctx)
}

type cron struct {
	once  *lockrt.Mutex
	while lockrt.LockOption
}

func newCron(c *lockrt.Client) cron {
	return cron{c.Mutex("a", lockrt.WithLease(time.Hour)), lockrt.WithLease(time.Hour)}
}

func (c cron) field(ctx context.Context) bool {
	_, err := c.once.TryLock(ctx)
	return err == nil
}

func (c cron) fieldThatIsKept(ctx context.Context) error {
	lease, err := c.once.TryLock(ctx)
	if err != nil {
		return err
	}
	return work(lease.Context())
}

func (c cron) option(ctx context.Context, client *lockrt.Client) error {
	_, err := client.Mutex("a").TryLock(ctx, c.while)
	return err
}

func parameter(ctx context.Context, m lockrt.Locker) error {
	_, err := m.Lock(ctx)
	return err
}

func several(ctx context.Context, c *lockrt.Client, m *lockrt.Mutex) error {
	if _, err := lockrt.NewMultiLock(c.Mutex("a"), m).Lock(ctx); err != nil {
		return err
	}
	_, err := lockrt.NewMultiLock(c.Mutex("a"), c.RWMutex("b").RLocker()).Lock(ctx) // want `the lease is dropped`
	return err
}

func seen(ctx context.Context, c *lockrt.Client, clients []*lockrt.Client) {
	m := c.FairMutex("a", lockrt.WithWait(time.Second))
	m.TryLock(ctx)                               // want `the lease is dropped`
	c.PermitSemaphore("a", 1).Acquire(ctx)       // want `the lease is dropped`
	lockrt.NewRedLock("a", clients).TryLock(ctx) // want `the lease is dropped`
	c.Mutex("a").TryLock(ctx, lockrt.WithWait(time.Second), lockrt.WithMaxHold(time.Hour))
	r := c.RWMutex("a").RLocker()
	lease, err := r.Lock(ctx) // want `lease is not unlocked`
	if err == nil {
		work(lease.Context())
	}
}

func parameterWithADefault(ctx context.Context, c *lockrt.Client, m *lockrt.Mutex) error {
	if m == nil {
		m = c.Mutex("a")
	}
	_, err := m.TryLock(ctx)
	return err
}

type own struct {
	made, lent, both, asked *lockrt.Mutex
	closed                  *lockrt.Mutex
	Shown                   *lockrt.Mutex
}

func newOwn(c *lockrt.Client, lent *lockrt.Mutex) []*own {
	o := &own{made: c.Mutex("a"), lent: lent, Shown: c.Mutex("a"), closed: c.Mutex("a")}
	o.both, o.asked = c.Mutex("a"), c.Mutex("a")
	println(&o.asked)
	return []*own{o, {both: c.Mutex("a", lockrt.WithLease(time.Hour))}}
}

func (o *own) ofFields(ctx context.Context) {
	o.made.TryLock(ctx) // want `the lease is dropped`
	o.lent.TryLock(ctx)
	o.both.TryLock(ctx)
	o.asked.TryLock(ctx)
	o.Shown.TryLock(ctx)
	lease, err := o.made.Lock(ctx) // want `lease is not unlocked`
	if err == nil {
		work(lease.Context())
	}
}

func (o *own) close(ctx context.Context) {
	o.closed.TryLock(ctx) // want `the lease is dropped`
	o.closed = nil
}

var jobs, Known *lockrt.Mutex

func setUp(c *lockrt.Client) { jobs, Known = c.Mutex("jobs"), c.Mutex("known") }

func variables(ctx context.Context, c *lockrt.Client, other bool) {
	jobs.TryLock(ctx) // want `the lease is dropped`
	Known.TryLock(ctx)
	m := c.Mutex("a")
	if other {
		m = c.Mutex("b")
	}
	m.TryLock(ctx) // want `the lease is dropped`
	n := c.Mutex("a")
	if other {
		n = c.Mutex("b", lockrt.WithLease(time.Hour))
	}
	n.TryLock(ctx)
}

type why struct {
	lockrt.LockOption
	reason string
}

func keyAndOption(o lockrt.LockOption) (string, lockrt.LockOption) { return "a", o }

func otherOptions(ctx context.Context, c *lockrt.Client) {
	c.Mutex("a", why{lockrt.WithLease(time.Hour), "cron"}).TryLock(ctx)
	c.Mutex(keyAndOption(lockrt.WithLease(time.Hour))).TryLock(ctx)
	c.Mutex("a", lockrt.WithWait(time.Second)).TryLock(ctx) // want `the lease is dropped`
}
