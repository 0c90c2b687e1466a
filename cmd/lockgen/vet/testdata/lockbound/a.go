package lockbound

import (
	"context"
	"os"
	"os/signal"
	"time"

	lockrt "github.com/lockgen/lockgen/runtime"
)

var key = lockrt.WithWait(time.Second)

func work(context.Context, *lockrt.Lease) error { return nil }

func direct(c *lockrt.Client) {
	_, _ = c.Mutex("a").Lock(context.Background())                                        // want `warning: nothing bounds this wait: the context has no deadline, and there is no WithWait`
	_ = c.FairMutex("a", lockrt.WithLease(time.Second)).Do(context.TODO(), work)          // want `nothing bounds this wait`
	_, _ = c.RWMutex("a").RLocker().Lock(context.Background(), lockrt.WithFencing())      // want `nothing bounds this wait`
	_ = c.Semaphore("a", 1).Acquire(context.Background(), 1)                              // want `nothing bounds this wait`
	_, _ = c.PermitSemaphore("a", 1).Acquire(context.WithoutCancel(context.Background())) // want `nothing bounds this wait`
	_, _ = c.Mutex("a").TryLock(context.Background())
	_, _ = c.Mutex("a").Lock(context.Background(), lockrt.WithWait(time.Second))
	_, _ = c.Mutex("a", lockrt.WithWait(time.Second)).Lock(context.Background())
	_, _ = c.Mutex("a", key).Lock(context.Background())
	_, _ = c.Mutex("a").Lock(context.Background(), []lockrt.LockOption{key}...)
}

func derived(c *lockrt.Client) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	m := c.Mutex("a")
	_, _ = m.Lock(ctx) // want `nothing bounds this wait`
	go func() {
		_, _ = m.Lock(ctx) // want `nothing bounds this wait`
	}()
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, _ = m.Lock(short)
	inner, cancel := context.WithCancel(short)
	defer cancel()
	_, _ = m.Lock(inner)
}

type service struct{ m *lockrt.Mutex }

// What bounds a parameter, or a lock from elsewhere, is not known.
func unknown(ctx context.Context, c *lockrt.Client, s service, l lockrt.Locker) {
	_, _ = c.Mutex("a").Lock(ctx)
	_, _ = s.m.Lock(context.Background())
	_, _ = l.Lock(context.Background())
	later := context.Background()
	if s.m != nil {
		later = ctx
	}
	_, _ = c.Mutex("a").Lock(later)
	m := c.Mutex("a")
	m = s.m
	_, _ = m.Lock(context.Background())
}

func defaults(ctx context.Context, c *lockrt.Client, m *lockrt.Mutex) {
	if ctx == nil {
		ctx = context.Background()
	}
	_, _ = c.Mutex("a").Lock(ctx)
	if m == nil {
		m = c.Mutex("a")
	}
	_, _ = m.Lock(context.Background())
	func(ctx context.Context) {
		if ctx == nil {
			ctx = context.Background()
		}
		_, _ = c.Mutex("a").Lock(ctx)
	}(ctx)
	own := context.Background()
	_, _ = c.Mutex("a").Lock(own) // want `nothing bounds this wait`
	func(context.Context) {
		ctx := context.Background()
		_, _ = c.Mutex("a").Lock(ctx) // want `nothing bounds this wait`
	}(ctx)
}

func result(c *lockrt.Client, limit context.Context) (ctx context.Context) {
	defer func() { _, _ = c.Mutex("a").Lock(ctx) }()
	if limit != nil {
		return limit
	}
	ctx = context.Background()
	return ctx
}

func rounds(c *lockrt.Client) {
	all := []context.Context{context.Background()}
	for _, ctx := range all {
		if ctx == nil {
			ctx = context.Background()
		}
		_, _ = c.Mutex("a").Lock(ctx)
	}
	for range all {
		ctx := context.Background()
		_, _ = c.Mutex("a").Lock(ctx) // want `nothing bounds this wait`
	}
}

// A daemon has a context and a lock in fields that are set once in the package, which no other package can set.
type daemon struct {
	ctx, until context.Context
	m, Known   *lockrt.Mutex
}

func newDaemon(c *lockrt.Client, until context.Context) *daemon {
	return &daemon{ctx: context.Background(), until: until, m: c.Mutex("a"), Known: c.Mutex("a")}
}

func (d *daemon) run() error {
	for _, ctx := range []context.Context{d.until} {
		if err := d.m.Do(ctx, func(context.Context, *lockrt.Lease) error { return nil }); err != nil {
			return err
		}
	}
	d.m.Do(d.until, func(context.Context, *lockrt.Lease) error { return nil })
	d.Known.Do(d.ctx, func(context.Context, *lockrt.Lease) error { return nil })
	return d.m.Do(d.ctx, func(context.Context, *lockrt.Lease) error { return nil }) // want `warning: nothing bounds this wait`
}
