package locks

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/observe"
)

// Renews reports whether a lock with opts renews its lease.
func (c *Client) Renews(opts []LockOption) (bool, error) {
	cfg, err := configure(c.core(), opts, nil)
	return cfg.Renew, err
}

// Label is the option of a lock in generated code: the name of its method, and the template of its key.
func Label(name, template string) LockOption { return labelOption{engine.NewLabel(name, template)} }

// Profiles reports whether functions under locks get labels for profiles.
func (c *Client) Profiles() bool { return c.opts.ProfileLabels }

// Unreported reports to the logger and the hook the error that the method name
// cannot return.
func (c *Client) Unreported(ctx context.Context, name, template string, err error) {
	if c.made() == nil {
		return
	}
	c.opts.Logger.ErrorContext(ctx, "lockgen: a method that returns no error could not take or keep its lock", "name", name, "error", err)
	if hook := c.opts.Hooks.Unreported; hook != nil {
		hook(ctx, observe.UnreportedEvent{Name: name, Template: template, Err: err})
	}
}

// GiveBack ends leases in the reverse order, all of them even after an error. Keys of mutexes stay locked until
// they were held for least, and with keep until their leases end.
func GiveBack(leases []*Lease, least time.Duration, keep bool) (err error) {
	if !keep && least == 0 {
		return release(leases)
	}
	free := make([]*Lease, 0, len(leases)) // at once
	for _, l := range slices.Backward(leases) {
		rest := least - monotonic.Since(l.began)
		switch {
		case keep:
			err = failure.Join(err, stays(l, forever))
		case rest > 0:
			err = failure.Join(err, stays(l, rest))
		default:
			free = append(free, l)
		}
	}
	slices.Reverse(free)
	return failure.Join(err, release(free))
}

// forever, as the time for which a key stays locked, means until its lease ends.
const forever time.Duration = -1

// stays ends l for its holder and leaves the key locked for d more. A renewed key is released then,
// or expires if the process has ended before. A key without renewal is released then, or expires if
// d is forever. stays fails like Unlock, and then the key may be free before.
func stays(l *Lease, d time.Duration) error {
	g, _, ok := mutexGrant(l.grant)
	if !ok || l.Err() != nil || d == forever && l.guard.Renew { // a RedLock has no guard
		return l.Unlock(l.Context()) // a re-entered lease is renewed for as long as the outer one
	}
	var err error
	if d != forever && l.guard.Ends().Before(time.Now().Add(d)) {
		// The process can end before d is over.
		if err = l.Extend(context.Background(), max(d, MinLease)); errors.Is(err, failure.ErrLost) {
			return failure.Join(err, l.Unlock(l.Context()))
		}
	}
	g.keep(l)
	l.report()
	if d == forever {
		return err
	}
	c := l.client
	c.spawn(func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.closing:
			return
		}
		if err := l.Unlock(l.Context()); err != nil {
			c.opts.Logger.Warn("lockgen: a key that was to stay locked for a while could not be given back", "kind", l.kind(), "key", l.key, "name", l.label.Name(), "owner", l.ownerName(), "error", err)
		}
	})
	return err
}
