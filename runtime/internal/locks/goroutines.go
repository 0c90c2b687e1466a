package locks

import "time"

// A signal is nil until a goroutine waits for it, and closed once.
type signal chan struct{}

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

// spawn runs f on a goroutine that Close waits for, if it was started before Close or by such a
// goroutine. It reuses goroutines: growing their stacks is most of the cost of one.
func (c *clientCore) spawn(f func()) {
	c.started()
	c.start(f)
}

// aside runs f on a goroutine that Close does not wait for.
func (c *clientCore) aside(f func()) {
	c.start(func() {
		f()
		c.returned()
	})
}

// returned is called at the end of a function on a goroutine that Close did not wait for.
func (c *clientCore) returned() {
	if c.disconnected.Load() {
		c.rc.Close() // rueidis keeps a connection that it was establishing when it was closed
	}
	c.started() // it was not counted, and ends now
}

// start runs f, and then records its end.
func (c *clientCore) start(f func()) {
	select {
	case c.tasks <- f:
	default:
		go c.work(f)
	}
}

func (c *clientCore) started() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running++
}

// idleWorkers is the largest number of idle goroutines.
const idleWorkers = 64

func (c *clientCore) work(f func()) {
	for {
		f()
		c.finished()
		if c.waiting.Add(1) > idleWorkers {
			c.waiting.Add(-1)
			return
		}
		select {
		case f = <-c.tasks:
			c.waiting.Add(-1)
		case <-c.stopped:
			return
		}
	}
}

func (c *clientCore) finished() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	if c.running == 0 {
		c.idle.set()
	}
}

// pause waits for d and reports false if the client was closed meanwhile.
func (c *clientCore) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.stopped:
		return false
	}
}
