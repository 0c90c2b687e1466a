package lockrt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/bridge"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/locks"
)

// Functions that package gen needs for generated code and that programs do not call.
var _ = bridge.Lend(bridge.Functions{
	Renews:       func(c *Client, opts []LockOption) (bool, error) { return (*locks.Client)(c).Renews(optionsOf(opts)) },
	Label:        func(name, template string) LockOption { return leases.Label(name, template) },
	Profiles:     func(c *Client) bool { return (*locks.Client)(c).Profiles() },
	PermitLocker: func(s *PermitSemaphore) Locker { return permitLocker{s} },
	GiveBack: func(held []*Lease, least time.Duration, keep bool) error {
		all := make([]*leases.Lease, len(held))
		for i, l := range held {
			all[i] = (*leases.Lease)(l)
		}
		return locks.GiveBack(all, least, keep)
	},
	Unreported: func(ctx context.Context, c *Client, name, template string, err error) {
		(*locks.Client)(c).Unreported(ctx, name, template, err)
	},
	UnreportedOf: func(call context.Context, l *Lease, name, template string, err error) {
		(*leases.Lease)(l).Unreported(call, name, template, err)
	},
	Ended:     failure.Ended,
	Profiled:  leases.Profiled,
	AfterWork: failure.AfterWork,
	Explain:   explain,
})

// explain adds the name of generated code's lock to err.
func explain(name string, err error) error {
	if bad := new(KeyError); errors.As(err, &bad) {
		return &KeyError{Name: name, Path: bad.Path, Reason: bad.Reason, Err: bad.Err}
	}
	return fmt.Errorf("%s: %w", name, err)
}

// A Key is a whole key as it is in Redis: the unescaped result of a key function of an annotation. Different things
// must have different keys.
type Key string
