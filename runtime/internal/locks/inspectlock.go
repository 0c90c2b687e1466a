package locks

import (
	"context"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/runtime/observe"
)

// inspect asks Redis about the lock of r.
func (r *exclusiveCore) inspect(ctx context.Context, cmd protocol.Command) (observe.Standing, error) {
	s, err := answer(ctx, r.c.core(), "inspect", r.key, func() (observe.Standing, error) {
		in, err := r.c.inspection(cmd)
		s := observe.Standing{TTL: in.TTL, Waiting: in.Waiting, Listening: in.Listening}
		if err != nil || len(in.Fields) == 0 {
			return s, err
		}
		first := in.Fields[0] // a read-write lock of Redisson may have several
		s.Owner = first.Owner
		s.Count, err = first.Count()
		return s, err
	})
	if err != nil {
		return observe.Standing{}, err
	}
	uuid, library := protocol.ClientOf(s.Owner)
	s.Ours = uuid == r.c.wire.UUID
	s.Java = s.Owner != "" && !library
	if n, known := r.entered(); s.Ours && known {
		s.Count = n
	}
	return s, nil
}

// inspection asks Redis for the content of a lock.
func (c *clientLine) inspection(cmd protocol.Command) (protocol.Inspection, error) {
	reply, err := c.net.Ask(cmd).Any()
	if err != nil {
		return protocol.Inspection{}, err
	}
	return protocol.ReadInspection(reply)
}

// force makes a command take the key from victims, the holds of this process before it, or from another holder, and
// reports whether there was one. A later grant is not the one that was taken.
func (e *referenced) force(ctx context.Context, op string, cmd protocol.Command, victims []*grant) (bool, error) {
	taken, err := answer(ctx, e.c.core(), op, e.key, func() (bool, error) { return e.c.net.Run(cmd).Bool() })
	if taken {
		for _, g := range victims {
			e.c.watchdog.Lose(&g.guard, watchdog.ErrRefused)
			g.notifyLoss(lost(watchdog.ErrRefused)) // in case the message about it is still on its way
		}
	}
	return taken, err
}
