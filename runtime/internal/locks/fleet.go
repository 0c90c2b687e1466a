package locks

import (
	"context"
	"fmt"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/observe"
)

func (c *Client) Process() observe.Process {
	if c.Made() == nil {
		return observe.Process{}
	}
	return c.base.Fleet.Process()
}

func (c *Client) ProcessOf(ctx context.Context, id string) (observe.Process, bool, error) {
	err := error(core.ErrNoClient)
	var p *observe.Process
	if c.Made() != nil {
		p, err = core.Bounded(ctx, c.Core(), func() (*observe.Process, error) {
			p, err := c.base.Fleet.ProcessOf(id)
			return p, readError(err)
		})
	}
	switch {
	case err != nil:
		return observe.Process{}, false, &observe.Error{Op: "look for a process", Key: id, Err: err}
	case p == nil:
		return observe.Process{ID: id}, false, nil
	}
	return *p, true, nil
}

// readError returns the error of a read-only request that failed with err: that the server is away, or the answer of the server.
func readError(err error) error {
	if err != nil && core.Passing(err) {
		return transport.Unavailable("", err)
	}
	return core.Refused(err)
}

func (c *Client) Snapshot() observe.Snapshot {
	if c.Made() == nil {
		return observe.Snapshot{Version: observe.SnapshotVersion, At: time.Now()}
	}
	return c.base.Fleet.Look("", 0)
}

func (c *Client) Fleet(ctx context.Context, key string) (observe.Fleet, error) {
	fail := func(err error) (observe.Fleet, error) {
		return observe.Fleet{}, &observe.Error{Op: "ask the fleet", Key: key, Err: err}
	}
	switch {
	case c.Made() == nil:
		return fail(core.ErrNoClient)
	case len(key) > protocol.MaxKey:
		return fail(c.Core().CheckKey(key))
	case !c.base.Granting():
		return fail(failure.ErrClosed)
	}
	ctx, cancel := context.WithTimeoutCause(core.Present(ctx), c.base.Settings.OpTimeout, transport.ErrNoAnswer)
	defer cancel()
	c.base.Hear()
	ids, err := core.Bounded(ctx, c.Core(), func() ([]string, error) {
		ids, err := c.base.Fleet.Listeners()
		return ids, readError(err)
	})
	if err != nil {
		return fail(err)
	}
	f, asked := c.base.Fleet.Ask(ctx, ids, key)
	switch {
	case asked:
		return f, nil
	case !c.base.Granting():
		return fail(failure.ErrClosed)
	}
	return fail(fmt.Errorf("%w: the client cannot subscribe", core.Ended(ctx)))
}
