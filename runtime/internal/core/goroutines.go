package core

import "time"

// A signal is nil until a goroutine waits for it, and closed once.
type signal chan struct{}

// set closes s, unless s is nil or closed.
func (s signal) set() {
	if s == nil {
		return
	}
	select {
	case <-s:
	default:
		close(s)
	}
}

// Spawn runs f on a goroutine that Close waits for, if it was started before Close or by such a
// goroutine. It reuses goroutines: growing their stacks is most of the cost of one.
func (c *Client) Spawn(f func()) {
	c.Started()
	c.start(f)
}

// Detach runs f on a goroutine that Close does not wait for.
func (c *Client) Detach(f func()) {
	c.start(func() {
		f()
		c.Returned()
	})
}

// start runs f on an idle goroutine, or on a new one, which records its end.
func (c *Client) start(f func()) {
	select {
	case c.tasks <- f:
	default:
		go c.work(f)
	}
}

// mostIdleWorkers is the largest number of idle goroutines.
const mostIdleWorkers = 64

// work runs f, and then the functions that start has for it, until there are many idle goroutines or the client is closed.
func (c *Client) work(f func()) {
	for {
		f()
		c.Finished()
		if c.idleWorkers.Add(1) > mostIdleWorkers {
			c.idleWorkers.Add(-1)
			return
		}
		select {
		case f = <-c.tasks:
			c.idleWorkers.Add(-1)
		case <-c.Stopped:
			return
		}
	}
}

// Started counts a goroutine, or a call that acquires: Close waits until it is Finished.
func (c *Client) Started() {
	c.running.Add(1)
}

// Finished undoes Started.
func (c *Client) Finished() {
	if c.running.Add(-1) > 0 {
		return
	}
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.running.Load() == 0 { // no call has begun meanwhile, nor Close, which counts itself
		c.quiet.set()
	}
}

// Returned is called at the end of a function on a goroutine that Close did not wait for. work counts the end of each function, so Returned
// counts the beginning of this one.
func (c *Client) Returned() {
	if c.disconnected.Load() {
		c.RC.Close() // rueidis keeps a connection that it was establishing when it was closed
	}
	c.Started()
}

// Pause waits for d and reports false if the client was closed meanwhile.
func (c *Client) Pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.Stopped:
		return false
	}
}
