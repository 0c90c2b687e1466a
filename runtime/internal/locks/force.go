package locks

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/force"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/observe"
)

// ForceUnlock takes a key of any kind from owners alone, so it may be called again.
func (c *Client) ForceUnlock(ctx context.Context, key string, owners ...string) (bool, error) {
	const op = "force unlock"
	fail := func(err error) (bool, error) { return false, &observe.Error{Op: op, Key: key, Err: err} }
	if err := c.core().checkKey(key); err != nil {
		return fail(err)
	}
	if len(owners) == 0 {
		return fail(fmt.Errorf("%w: no owner is named", failure.ErrBadOption))
	}
	if !c.granting() {
		return fail(failure.ErrClosed)
	}
	if !strings.Contains(owners[0], ":") {
		return c.forcePermits(present(ctx), key, owners)
	}
	got, err := bounded(ctx, c.core(), func() (kindReply, error) { return c.kindOf(key) })
	fair, known := c.fairs.known(key)
	switch {
	case err != nil:
		return fail(refused(err))
	case got.mode != "":
		return c.RWMutex(key).force(ctx, op, got.mode == kindWrite, owners...)
	case got.fair, known && len(fair.held()) > 0:
		return c.FairMutex(key).force(ctx, owners...)
	}
	return c.Mutex(key).force(ctx, owners...)
}

// forcePermits releases permits of others. A release goes on when its context ends; this does not begin then.
func (c *Client) forcePermits(ctx context.Context, key string, ids []string) (bool, error) {
	err := ctx.Err()
	if err != nil {
		err = ended(ctx)
	} else {
		err = c.PermitSemaphore(key, 0).Release(ctx, ids...)
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
func (c *Client) kindOf(key string) (kindReply, error) {
	ctx, cancel := c.net.Briefly()
	defer cancel()
	replies := c.rc.DoMulti(ctx,
		c.rc.B().Hget().Key(key).Field("mode").Build(), c.rc.B().Exists().Key(protocol.FairMarks(key)...).Build())
	mode, err := replies[0].ToString()
	if rueidis.IsRedisNil(err) {
		err = nil
	}
	marks, failed := replies[1].AsInt64()
	return kindReply{mode, marks > 0}, cmpOr(err, failed)
}

func init() {
	force.Take = func(ctx, under context.Context) (key string, ended <-chan struct{}, taken bool, err error) {
		t := innermost(under)
		if t == nil {
			return "", nil, false, errNoLease
		}
		taken, err = takeAway(ctx, &t.leaseCore)
		return t.key, t.Context().Done(), taken, err
	}
}

// takeAway takes the key of t from it, like a forced unlock, and reports whether Redis had it.
func takeAway(ctx context.Context, t *leaseCore) (taken bool, err error) {
	switch c := t.client.face.(*Client); t.kind() { //nolint:forcetypeassert // New makes each
	case kindFair:
		return c.FairMutex(t.key).ForceUnlock(ctx)
	case kindWrite:
		return c.RWMutex(t.key).ForceUnlock(ctx)
	case kindRead:
		return c.RWMutex(t.key).ForceRUnlock(ctx)
	case kindPermit:
		err = c.PermitSemaphore(t.key, 0).Release(ctx, protocol.PermitIDs(t.guard.Owner())...)
		if errors.Is(err, failure.ErrLost) {
			return false, nil
		}
		return err == nil, err
	case kindMulti, kindRedLock:
		for _, part := range t.rare().parts.all() {
			had, err := takeAway(ctx, &part.leaseCore)
			if err != nil {
				return taken, err
			}
			taken = taken || had
		}
		return taken, nil
	default:
		return c.Mutex(t.key).ForceUnlock(ctx)
	}
}
