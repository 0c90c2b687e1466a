package locks

import (
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/connect"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/withdrawal"
)

// A clientLine is a client as its resources know it: with the batches of requests, the inbox, and what waiting calls need.
type clientLine struct {
	clientCore
	inbox

	ticketNumbers      atomic.Uint64      // a number for each ticket to a key, the second half of its owner
	takes, frees       *transport.Batcher // of locks without waiters
	acquires, releases *transport.Batcher
	reviews            *transport.Batcher // acquires of waiters that were refused long ago
	contended          engine.Contended
	starts             engine.Starts
	withdrawals        withdrawal.Client
	suspects           engine.Suspects[wish]
	alarms             engine.Alarms[wish]
	registries         []entries     // one for each kind of lock; guarded by mu
	spread             time.Duration // how long a client at rest may take to subscribe again
}

// initialize has c send its commands through conn.
func (c *clientLine) initialize(conn connect.Connection, opts Settings) {
	c.spread = spread
	c.clientCore.initialize(conn, opts, user{c})
	c.takes, c.acquires = c.net.Batcher(c.wire.Takes(), true), c.net.Batcher(c.wire.Acquires(), true)
	c.reviews = c.net.Reviewer(c.wire.Acquires())
	c.frees, c.releases = c.net.Batcher(c.wire.Frees(), false), c.net.Batcher(c.wire.Releases(), false)
	c.withdrawals.Init(withdrawal.Config{Host: host{c}, Wire: c.wire, Net: c.net, Logger: opts.Logger, FairWait: opts.FairWait}, c.stopped)
}

// core returns the part of c that leases need, or nil.
func (c *clientLine) core() *clientCore {
	if c == nil {
		return nil
	}
	return &c.clientCore
}
