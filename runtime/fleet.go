package lockrt

import (
	"context"
	"fmt"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/fleet"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// newMember returns the part of c that talks to other processes.
func newMember(c *Client) *fleet.Member {
	cfg := fleet.Config{
		UUID: c.wire.UUID, Name: c.opts.Name, Anonymous: c.opts.Anonymous,
		Net: c.net, Locks: view{c}, Watchdog: c.watchdog, Hooks: &c.opts.Hooks, Later: c.reports.Later, Logger: c.opts.Logger,
		Hear: func() { c.hear() }, Spawn: c.spawn, Aside: c.aside, Closing: c.closing,
		OpTimeout: c.opts.OpTimeout, Lease: c.opts.Watchdog, Interval: c.opts.DeadlockAfter,
	}
	if cfg.Interval <= 0 {
		cfg.Interval, cfg.Answers = DefaultDeadlockAfter, true
	}
	if c.opts.BreakDeadlocks {
		cfg.Break = func(d Deadlock) error { return &DeadlockError{d} }
	}
	return fleet.New(cfg)
}

// Process returns the description that the Client gives to others: name, host and program.
func (c *Client) Process() Process {
	if c.made() == nil {
		return Process{}
	}
	return c.fleet.Process()
}

// ProcessOf returns the process of the Client with that id, and false if it is unknown. A Client describes its process
// in Redis once it has held or waited for a lock for a third of its watchdog time; Redis keeps that for as long as the
// Client's locks, also after a crash. One round trip.
func (c *Client) ProcessOf(ctx context.Context, id string) (Process, bool, error) {
	err := error(errNoClient)
	var p *Process
	if c.made() != nil {
		p, err = bounded(ctx, c, func() (*Process, error) {
			p, err := c.fleet.ProcessOf(id)
			return p, toldWhy(err)
		})
	}
	switch {
	case err != nil:
		return Process{}, false, &Error{Op: "look for a process", Key: id, Err: err}
	case p == nil:
		return Process{ID: id}, false, nil
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

// Snapshot returns the holds of the Client and its waiting calls. It does not contact Redis. It leaves out calls that
// try once and, as a rule, calls that Redis has not refused yet. The first Client of a RedLock or MultiLock lists its
// calls.
func (c *Client) Snapshot() Snapshot {
	if c.made() == nil {
		return Snapshot{Version: SnapshotVersion, At: time.Now()}
	}
	return c.fleet.Look("", 0)
}

// Fleet asks all processes that share the server for their holds and waiting calls, of one key, or of all for "". It
// returns when all have answered, when ctx ends or after [Options.OpTimeout]; the others are Silent. Java programs do not
// answer. Fleet asks processes that hold a lock or waited lately, and fails if Redis cannot list them. It costs
// one command for each server and at least two messages for each process. A process answers 10 requests a second; Fleet
// asks a process that refuses once more, a second later. An answer names 200 held locks and 200 waiting calls at most;
// see Omitted.
func (c *Client) Fleet(ctx context.Context, key string) (Fleet, error) {
	fail := func(err error) (Fleet, error) { return Fleet{}, &Error{Op: "ask the fleet", Key: key, Err: err} }
	switch {
	case c.made() == nil:
		return fail(errNoClient)
	case len(key) > protocol.MaxKey:
		return fail(c.checkKey(key))
	case !c.granting():
		return fail(ErrClosed)
	}
	ctx, cancel := context.WithTimeoutCause(present(ctx), c.opts.OpTimeout, transport.ErrNoAnswer)
	defer cancel()
	c.hear()
	ids, err := bounded(ctx, c, func() ([]string, error) {
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
		return fail(ErrClosed)
	}
	return fail(fmt.Errorf("%w: the client cannot subscribe", ended(ctx)))
}
