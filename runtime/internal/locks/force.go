package locks

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/observe"
)

// ForceUnlock takes a key of any kind from owners alone, so it may be called again.
func (c *Client) ForceUnlock(ctx context.Context, key string, owners ...string) (bool, error) {
	const op = "force unlock"
	fail := func(err error) (bool, error) { return false, &observe.Error{Op: op, Key: key, Err: err} }
	if err := c.checkKey(key); err != nil {
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
	got, err := bounded(ctx, c, func() (kindReply, error) { return c.kindOf(key) })
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
