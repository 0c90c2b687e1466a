package core

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// Traces says what becomes of the owner n, if a test wants to know.
func (c *Client) Traces(a trace.Action, key string, n uint64) {
	if c.Traced != nil {
		c.Traced(trace.Step{Action: a, Key: key, Owner: c.Wire.Owner(n), At: time.Now()})
	}
}

// TracesAsking says a of n, which asks.
func (c *Client) TracesAsking(a trace.Action, key string, n uint64, line protocol.Queueing) {
	if c.Traced != nil {
		c.Traced(trace.Step{Action: a, Key: key, Owner: c.Wire.Owner(n), Line: int(line[0] - '0'), At: time.Now()})
	}
}

// TracesRenewal says of a lease what its watchdog does. Its key may end at ends.
func (c *Client) TracesRenewal(a trace.Action, l *watchdog.Lease, ends monotonic.Time) {
	if l.Kind() == KindMutex {
		at := time.Now()
		c.Traced(trace.Step{Action: a, Key: l.Key(), Owner: l.Owner(), Trust: ends.Std().Sub(at), At: at})
	}
}

// TracesAnswer says a when n is answered, or that it is not known how.
func (c *Client) TracesAnswer(a trace.Action, key string, n uint64, err error) {
	if err != nil {
		a = trace.Unknown
	}
	c.Traces(a, key, n)
}
