package core

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// Traces reports what becomes of the owner n, if a test wants to know.
func (c *Client) Traces(a trace.Action, key string, n uint64) {
	if c.Traced != nil {
		c.Traced(trace.Step{Action: a, Key: key, Owner: c.Wire.Owner(n), At: time.Now()})
	}
}

// TracesAsking reports that the owner n asks, and how it queues.
func (c *Client) TracesAsking(a trace.Action, key string, n uint64, line protocol.Queueing) {
	if c.Traced != nil {
		c.Traced(trace.Step{Action: a, Key: key, Owner: c.Wire.Owner(n), Line: int(line[0] - '0'), At: time.Now()})
	}
}

// TracesRenewal reports what the watchdog does with a lease of a mutex, whose key may end at ends.
func (c *Client) TracesRenewal(a trace.Action, l *watchdog.Lease, ends monotonic.Time) {
	if l.Kind() == KindMutex {
		at := time.Now()
		c.Traced(trace.Step{Action: a, Key: l.Key(), Owner: l.Owner(), Trust: ends.Std().Sub(at), At: at})
	}
}

// TracesAnswer reports a when n is answered, or that the outcome is unknown if there is an err.
func (c *Client) TracesAnswer(a trace.Action, key string, n uint64, err error) {
	if err != nil {
		a = trace.Unknown
	}
	c.Traces(a, key, n)
}
