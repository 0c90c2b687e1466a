package resource

import (
	"context"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/runtime/observe"
)

// Inspect asks Redis about the lock of r.
func (r *Exclusive) Inspect(ctx context.Context, cmd protocol.Command) (observe.Standing, error) {
	s, err := core.Answer(ctx, r.Client.Core(), "inspect", r.Key, func() (observe.Standing, error) {
		in, err := r.Client.Inspection(cmd)
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
	s.Ours = uuid == r.Client.Wire.UUID
	s.Java = s.Owner != "" && !library
	if n, known := r.entered(); s.Ours && known {
		s.Count = n
	}
	return s, nil
}

// Inspection asks Redis for the content of a lock.
func (c *Client) Inspection(cmd protocol.Command) (protocol.Inspection, error) {
	reply, err := c.Net.Ask(cmd).Any()
	if err != nil {
		return protocol.Inspection{}, err
	}
	return protocol.ReadInspection(reply)
}

// Force sends cmd, which takes the key from its holder, and reports whether there was one. Then victims, the grants that this process had
// before, are lost. A later grant is not.
func (e *Referenced) Force(ctx context.Context, op string, cmd protocol.Command, victims []*Grant) (bool, error) {
	taken, err := core.Answer(ctx, e.Client.Core(), op, e.Key, func() (bool, error) { return e.Client.Net.Run(cmd).Bool() })
	if taken {
		for _, g := range victims {
			e.Client.Watchdog.Lose(&g.Guard, watchdog.ErrForced)
			g.notifyLoss(failure.Lost(watchdog.ErrForced)) // in case the message about it is still on its way
		}
	}
	return taken, err
}
