package locks

import (
	"context"
	"fmt"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/fleet"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/observe"
)

// DeadlockAfter is the interval with which a client that looks for no deadlocks answers those that do: the default of lockrt.Options.
const DeadlockAfter = 5 * time.Second

// newMember returns the part of c that talks to other processes.
func newMember(c *Client) *fleet.Member {
	cfg := fleet.Config{
		UUID: c.wire.UUID, Name: c.opts.Name, Anonymous: c.opts.Anonymous,
		Net: c.net, Locks: view{c}, Watchdog: c.watchdog, Hooks: &c.opts.Hooks, Later: c.reports.Later, Logger: c.opts.Logger,
		Hear: func() { c.hear() }, Spawn: c.spawn, Aside: c.aside, Closing: c.closing,
		OpTimeout: c.opts.OpTimeout, Lease: c.opts.Watchdog, Interval: c.opts.DeadlockAfter,
	}
	if cfg.Interval <= 0 {
		cfg.Interval, cfg.Answers = DeadlockAfter, true
	}
	if c.opts.BreakDeadlocks {
		cfg.Break = func(d observe.Deadlock) error { return &observe.DeadlockError{Deadlock: d} }
	}
	return fleet.New(cfg)
}

func (c *Client) Process() observe.Process {
	if c.made() == nil {
		return observe.Process{}
	}
	return c.fleet.Process()
}

func (c *Client) ProcessOf(ctx context.Context, id string) (observe.Process, bool, error) {
	err := error(errNoClient)
	var p *observe.Process
	if c.made() != nil {
		p, err = bounded(ctx, c.core(), func() (*observe.Process, error) {
			p, err := c.fleet.ProcessOf(id)
			return p, toldWhy(err)
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

// toldWhy returns the error of a read-only request: that the server is away, or the server's answer.
func toldWhy(err error) error {
	if err != nil && passing(err) {
		return transport.Unavailable("", err)
	}
	return refused(err)
}

func (c *Client) Snapshot() observe.Snapshot {
	if c.made() == nil {
		return observe.Snapshot{Version: observe.SnapshotVersion, At: time.Now()}
	}
	return c.fleet.Look("", 0)
}

func (c *Client) Fleet(ctx context.Context, key string) (observe.Fleet, error) {
	fail := func(err error) (observe.Fleet, error) {
		return observe.Fleet{}, &observe.Error{Op: "ask the fleet", Key: key, Err: err}
	}
	switch {
	case c.made() == nil:
		return fail(errNoClient)
	case len(key) > protocol.MaxKey:
		return fail(c.core().checkKey(key))
	case !c.granting():
		return fail(failure.ErrClosed)
	}
	ctx, cancel := context.WithTimeoutCause(present(ctx), c.opts.OpTimeout, transport.ErrNoAnswer)
	defer cancel()
	c.hear()
	ids, err := bounded(ctx, c.core(), func() ([]string, error) {
		ids, err := c.fleet.Listeners()
		return ids, toldWhy(err)
	})
	if err != nil {
		return fail(err)
	}
	f, asked := c.fleet.Ask(ctx, ids, key)
	switch {
	case asked:
		return f, nil
	case !c.granting():
		return fail(failure.ErrClosed)
	}
	return fail(fmt.Errorf("%w: the client cannot subscribe", ended(ctx)))
}
