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

// noteFirst is note, but the first response time counts in full: the pace is never too short.
func (p *pace) noteFirst(d time.Duration) {
	if !p.took.CompareAndSwap(0, int64(d)) {
		p.note(d)
	}
}

func (p *pace) typical() time.Duration { return time.Duration(p.took.Load()) }

// A crowd counts the requests of all batchers that have no answer. The zero value has none.
type crowd struct {
	under atomic.Int32
	most  atomic.Int32 // how many were under way at once lately
}

// joins counts n more requests.
func (c *crowd) joins(n int) {
	if under := c.under.Add(int32(n)); under > c.most.Load() {
		c.most.Store(under)
	}
}

// answered counts n requests less, which one script has answered. Of two concurrent calls, one may leave most as it is.
func (c *crowd) answered(n int) {
	under := c.under.Add(-int32(n))
	if most := c.most.Load(); most > under {
		c.most.Store(most - (most-under+crowdScripts-1)/crowdScripts)
	}
}

// crowdScripts is about how many answers it takes until a crowd that has become smaller counts as smaller. The callers that were answered
// a moment ago belong to the crowd: they are about to send the next request.
const crowdScripts = 32

// size returns how many requests were under way at once lately.
func (c *crowd) size() int { return int(c.most.Load()) }

// soonEach is how long the client needs for each request of a crowd, to read and to pass on the answer.
const soonEach = 10 * time.Microsecond

// handling returns how long the client needs for all requests of a crowd.
func (c *crowd) handling() time.Duration { return time.Duration(c.size()) * soonEach }

// traffic counts the scripts under way over the shared connection. The zero value has none.
type traffic struct {
	sending atomic.Int32
	stuck   atomic.Int32 // those of them whose answer is late, and for which another goroutine has gone on
}

// begin counts one more script, and reports whether there are others. A script behind a mute connection is none of them: it says nothing about
// how many callers there are now.
func (t *traffic) begin() (others bool) { return t.sending.Add(1)-t.stuck.Load() > 1 }

// none reports whether begin would report that there are no others.
func (t *traffic) none() bool { return t.sending.Load()-t.stuck.Load() <= 0 }

// end counts one script less.
func (t *traffic) end() { t.sending.Add(-1) }
