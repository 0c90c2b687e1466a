package transport

import (
	"sync/atomic"
	"time"
)

// leastPatience is how long a connection may always take for an answer before another one is tried.
const leastPatience = 250 * time.Millisecond

// A pace is a smoothed response time. The zero value has none.
type pace struct{ took atomic.Int64 }

// note records a response time. Of two concurrent calls, one may be ignored.
func (p *pace) note(d time.Duration) {
	before := p.took.Load()
	p.took.Store(before + (int64(d)-before)/8)
}

func (p *pace) typical() time.Duration { return time.Duration(p.took.Load()) }

// A crowd counts the requests of all batchers that have no answer. The zero value has none.
type crowd struct{ under atomic.Int32 }

// mostSmall is how many requests a small crowd has at most. It was measured with a server on the same machine: up to 24 callers gain by
// several small scripts under way, since neither the client nor the server waits for the other one; 32 callers and more lose by them,
// since they make more commands.
const mostSmall = 24

// joins counts n more requests.
func (c *crowd) joins(n int) { c.under.Add(int32(n)) }

// answered counts n requests less.
func (c *crowd) answered(n int) { c.under.Add(-int32(n)) }

// small reports whether few requests are under way.
func (c *crowd) small() bool { return c.under.Load() <= mostSmall }

// traffic counts the scripts under way over the shared connection and the direct one. The zero value has none.
type traffic struct {
	sending atomic.Int32
	stuck   atomic.Int32 // those of them whose answer is late, and for which another goroutine has gone on
}

// begin counts one more script, and reports whether there are others. A script behind a mute connection is none of them: it says nothing about
// how many callers there are now.
func (t *traffic) begin() (others bool) { return t.sending.Add(1)-t.stuck.Load() > 1 }

// end counts one script less.
func (t *traffic) end() { t.sending.Add(-1) }
