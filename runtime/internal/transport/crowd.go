package transport

import "sync/atomic"

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
