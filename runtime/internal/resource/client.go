package resource

import (
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/connect"
	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/withdrawal"
)

// A Client is a client as its resources know it: with the batches of requests, the inbox, and what waiting calls need.
type Client struct {
	core.Client
	inbox

	ticketNumbers      atomic.Uint64      // the number of the latest ticket; it is the second half of the owner
	Takes, Frees       *transport.Batcher // requests and releases of mutexes without waiters
	Acquires, Releases *transport.Batcher
	Reviews            *transport.Batcher // acquires of waiters that were refused long ago
	Contended          engine.Contended
	Starts             engine.Starts
	Withdrawals        withdrawal.Client
	suspects           engine.Suspects[Wish]
	alarms             engine.Alarms[Wish]
	awaited            awaitedReleases
	registries         []anyRegistry // one for each kind of lock; guarded by Mu
	queues             Queues        // of locks that consist of others, or nil; guarded by Mu
	Spread             time.Duration // how long a client at rest may take to subscribe again
}

// Init has c send its commands through conn.
func (c *Client) Init(conn connect.Connection, opts core.Settings) {
	c.Spread = spread
	c.Client.Init(conn, opts, user{c})
	box := c.Net.Outbox()
	c.Takes, c.Acquires = box.Batcher(c.Wire.Takes(), true), box.Batcher(c.Wire.Acquires(), true)
	c.Reviews = c.Net.Reviewer(c.Wire.Acquires())
	c.Frees, c.Releases = box.Batcher(c.Wire.Frees(), false), box.Batcher(c.Wire.Releases(), false)
	c.Withdrawals.Init(withdrawal.Config{Host: Host{c}, Wire: c.Wire, Net: c.Net, Logger: opts.Logger, FairWait: opts.FairWait}, c.Stopped)
	c.Fleet = newMember(c)
}

// Core returns the part of c that leases need, or nil.
func (c *Client) Core() *core.Client {
	if c == nil {
		return nil
	}
	return &c.Client
}
