package locks

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// traces says what becomes of the owner n, if a test wants to know.
func (c *clientCore) traces(a trace.Action, key string, n uint64) {
	if c.traced != nil {
		c.traced(trace.Step{Action: a, Key: key, Owner: c.wire.Owner(n), At: time.Now()})
	}
}

// tracesAsking says a of n, which asks.
func (c *clientCore) tracesAsking(a trace.Action, key string, n uint64, line protocol.Queueing) {
	if c.traced != nil {
		c.traced(trace.Step{Action: a, Key: key, Owner: c.wire.Owner(n), Line: int(line[0] - '0'), At: time.Now()})
	}
}

// tracesRenewal says of a lease what its watchdog does. Its key may end at ends.
func (c *clientCore) tracesRenewal(a trace.Action, l *watchdog.Lease, ends monotonic.Time) {
	if l.Kind() == kindMutex {
		at := time.Now()
		c.traced(trace.Step{Action: a, Key: l.Key(), Owner: l.Owner(), Trust: ends.Std().Sub(at), At: at})
	}
}

// tracesAnswer says a when n is answered, or that it is not known how.
func (c *clientCore) tracesAnswer(a trace.Action, key string, n uint64, err error) {
	if err != nil {
		a = trace.Unknown
	}
	c.traces(a, key, n)
}
