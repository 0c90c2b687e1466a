package lockrt

import (
	"context"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// ID returns the UUID of the Client, which begins [Standing].Owner of every key that it holds. No two Clients have the
// same. Redisson's getId.
func (c *Client) ID() string {
	if c.made() == nil {
		return ""
	}
	return c.wire.UUID
}

// Inspect asks Redis for the holder of the key and the number of waiters. Redisson's isLocked.
func (m *Mutex) Inspect(ctx context.Context) (Standing, error) {
	m = orZero(m)
	if err := m.c.checkKey(m.key); err != nil {
		return Standing{}, &Error{Op: "inspect", Key: m.key, Err: err}
	}
	r, err := m.c.resources.enter(m.key, false)
	if err != nil {
		return Standing{}, &Error{Op: "inspect", Key: m.key, Err: err}
	}
	defer r.exit()
	return m.c.inspect(ctx, m.key, m.c.wire.Inspect(m.key), r.entered)
}

// inspect asks Redis about a lock. entered returns the number of leases of this process, if it
// is known.
func (c *Client) inspect(ctx context.Context, key string, cmd protocol.Command, entered func() (int, bool)) (Standing, error) {
	s, err := answer(ctx, c, "inspect", key, func() (Standing, error) {
		in, err := c.inspection(cmd)
		s := Standing{TTL: in.TTL, Waiting: in.Waiting, Listening: in.Listening}
		if err != nil || len(in.Fields) == 0 {
			return s, err
		}
		first := in.Fields[0] // a read-write lock of Redisson may have several
		s.Owner = first.Owner
		s.Count, err = first.Count()
		return s, err
	})
	if err != nil {
		return Standing{}, err
	}
	uuid, library := protocol.ClientOf(s.Owner)
	s.Ours = uuid == c.wire.UUID
	s.Java = s.Owner != "" && !library
	if n, known := entered(); s.Ours && known {
		s.Count = n
	}
	return s, nil
}

// inspection asks Redis for the content of a lock.
func (c *Client) inspection(cmd protocol.Command) (protocol.Inspection, error) {
	reply, err := c.net.Ask(cmd).Any()
	if err != nil {
		return protocol.Inspection{}, err
	}
	return protocol.ReadInspection(reply)
}

// force makes a command take a key from its holder, and reports whether there was one. enter begins the call, and
// returns the holds of this process before it: a later grant is not the one that was taken.
func (c *Client) force(ctx context.Context, op, key string, enter func() (victims []*grantCore, exit func(), err error),
	cmd protocol.Command) (bool, error) {
	fail := func(err error) (bool, error) { return false, &Error{Op: op, Key: key, Err: err} }
	if err := c.checkKey(key); err != nil {
		return fail(err)
	}
	victims, exit, err := enter()
	if err != nil {
		return fail(err)
	}
	defer exit()
	taken, err := answer(ctx, c, op, key, func() (bool, error) { return c.net.Run(cmd).Bool() })
	if taken {
		for _, g := range victims {
			c.watchdog.Lose(&g.guard, watchdog.ErrRefused)
			g.notifyLoss(lost(watchdog.ErrRefused)) // in case the message about it is still on its way
		}
	}
	return taken, err
}
