package locks

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/policy"
)

// Renews reports whether a lock with opts renews its lease.
func (c *Client) Renews(opts []leases.Option) (bool, error) {
	cfg, err := leases.Configure(c.Core(), opts, nil)
	return cfg.Renew, err
}

// Profiles reports whether functions under locks get labels for profiles.
func (c *Client) Profiles() bool { return c.base.Settings.ProfileLabels }

// Unreported reports to the logger and to the hook the error that the method name cannot return.
func (c *Client) Unreported(ctx context.Context, name, template string, err error) {
	if c.Made() == nil {
		return
	}
	c.base.Settings.Logger.ErrorContext(ctx, "lockgen: a method that returns no error could not take or keep its lock", "name", name, "error", err)
	c.Core().Unreported(ctx, name, template, err)
}

// GiveBack ends held in the reverse order, all of them even after an error. Keys of mutexes stay locked until they were held for least, and
// with keep until their leases end.
func GiveBack(held []*leases.Lease, least time.Duration, keep bool) (err error) {
	if !keep && least == 0 {
		return Release(held)
	}
	free := make([]*leases.Lease, 0, len(held)) // at once
	for _, l := range slices.Backward(held) {
		rest := least - monotonic.Since(l.Core().Began)
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
	return failure.Join(err, Release(free))
}

// forever, as the time for which a key stays locked, means until its lease ends.
const forever time.Duration = -1

// stays ends l for its holder and leaves the key locked for d more. A renewed key is released then, or expires if the process has ended
// before. A key without renewal is released then, or expires if d is forever. stays fails like Unlock, and then the key may be free before.
func stays(l *leases.Lease, d time.Duration) error {
	g, _, ok := policy.MutexGrant(l.Core().Grant)
	if !ok || l.Err() != nil || d == forever && l.Core().Guard().Renew { // a RedLock has no guard
		return l.Unlock(l.Context()) // a re-entered lease is renewed for as long as the outer one
	}
	var err error
	if d != forever && l.Core().Guard().Ends().Before(time.Now().Add(d)) {
		// The process can end before d is over.
		if err = l.Extend(context.Background(), max(d, leases.MinLease)); errors.Is(err, failure.ErrLost) {
			return failure.Join(err, l.Unlock(l.Context()))
		}
	}
	g.Keep(l)
	l.Core().Report()
	if d == forever {
		return err
	}
	c := l.Core().Client()
	c.Spawn(func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.Closing:
			return
		}
		if err := l.Unlock(l.Context()); err != nil {
			c.Settings.Logger.Warn("lockgen: a key that was to stay locked for a while could not be given back", "kind", l.Core().Kind(), "key", l.Core().Key(), "name", l.Core().Label.Name(), "owner", l.Core().OwnerName(), "error", err)
		}
	})
	return err
}
