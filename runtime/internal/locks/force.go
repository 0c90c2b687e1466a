package locks

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/force"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/observe"
)

// ForceUnlock takes a key of any kind from owners alone, so it may be called again.
func (c *Client) ForceUnlock(ctx context.Context, key string, owners ...string) (bool, error) {
	const op = "force unlock"
	fail := func(err error) (bool, error) { return false, &observe.Error{Op: op, Key: key, Err: err} }
	if err := c.Core().CheckKey(key); err != nil {
		return fail(err)
	}
	if len(owners) == 0 {
		return fail(fmt.Errorf("%w: no owner is named", failure.ErrBadOption))
	}
	if !c.base.Granting() {
		return fail(failure.ErrClosed)
	}
	if !strings.Contains(owners[0], ":") {
		return c.forcePermits(core.Present(ctx), key, owners)
	}
	got, err := core.Bounded(ctx, c.Core(), func() (kindReply, error) { return c.kindOf(key) })
	fair, known := c.fairs.Find(key)
	switch {
	case err != nil:
		return fail(core.Refused(err))
	case got.mode != "":
		return c.RWMutex(key).force(ctx, op, got.mode == core.KindWrite, owners...)
	case got.fair, known && len(fair.Held()) > 0:
		return c.FairMutex(key).force(ctx, owners...)
	}
	return c.Mutex(key).force(ctx, owners...)
}

// forcePermits releases permits of others. A release goes on when its context ends; this does not begin then.
func (c *Client) forcePermits(ctx context.Context, key string, ids []string) (bool, error) {
	err := ctx.Err()
	if err != nil {
		err = core.Ended(ctx)
	} else {
		err = c.PermitSemaphore(key, 0).release(ctx, protocol.LeaveMissing, ids) // nobody here knows how many there are in all
	}
	var whole *observe.Error
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, failure.ErrLost):
		return false, nil
	case errors.As(err, &whole):
		err = whole.Err
	}
	return false, &observe.Error{Op: "force unlock", Key: key, Err: err}
}

// A kindReply is what Redis says of the kind of a lock. A lock of neither kind is a mutex, or a fair lock for which nobody has waited.
type kindReply struct {
	mode string // of a read-write lock: read or write
	fair bool
}

// kindOf asks Redis which kind of lock a key is.
func (c *Client) kindOf(key string) (of kindReply, err error) {
	of.mode, of.fair, err = c.base.Net.Mode(key, protocol.FairMarks(key))
	return of, err
}

func init() {
	force.Take = func(ctx, under context.Context) (key string, ended <-chan struct{}, taken bool, err error) {
		t := leases.Innermost(under)
		if t == nil {
			return "", nil, false, core.ErrNoLease
		}
		taken, err = takeAway(ctx, t.Core())
		return t.Core().Key(), t.Context().Done(), taken, err
	}
}

// takeAway takes the key of t from it, like a forced unlock, and reports whether Redis had it.
func takeAway(ctx context.Context, t *leases.Core) (taken bool, err error) {
	switch c := t.Client().Face.(*Client); t.Kind() { //nolint:forcetypeassert // New makes each
	case core.KindFair:
		return c.FairMutex(t.Key()).ForceUnlock(ctx)
	case core.KindWrite:
		return c.RWMutex(t.Key()).ForceUnlock(ctx)
	case core.KindRead:
		return c.RWMutex(t.Key()).ForceRUnlock(ctx)
	case core.KindPermit:
		err = c.PermitSemaphore(t.Key(), 0).release(ctx, protocol.LeaveMissing, protocol.PermitIDs(t.Guard().Owner()))
		if errors.Is(err, failure.ErrLost) {
			return false, nil
		}
		return err == nil, err
	case core.KindMulti, core.KindRedLock:
		for _, part := range t.Rare().Parts.All() {
			had, err := takeAway(ctx, part.Core())
			if err != nil {
				return taken, err
			}
			taken = taken || had
		}
		return taken, nil
	default:
		return c.Mutex(t.Key()).ForceUnlock(ctx)
	}
}
