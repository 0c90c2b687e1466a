package locks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/failure"
)

// A clientState says how far the end of a client has come.
type clientState int

const (
	open clientState = iota
	shuttingDown
	closed
)

// Shutdown grants nothing any more, waits until each lease is unlocked or lost, and closes.
func (c *clientCore) Shutdown(ctx context.Context) error {
	if c.made() == nil {
		return fmt.Errorf("lockgen: shutdown: %w", errNoClient)
	}
	if ctx == nil {
		return fmt.Errorf("lockgen: shutdown: %w", errNoContext)
	}
	c.mu.Lock()
	if c.state == open {
		c.state = shuttingDown
		c.endGranting()
	}
	if c.drained == nil {
		c.drained = make(signal)
		if c.holds == 0 || c.state == closed {
			c.drained.set()
		}
	}
	drained := c.drained
	c.mu.Unlock()
	c.above.EndLingers()

	select {
	case <-drained:
		return c.Close()
	default:
	}
	select {
	case <-drained:
		return c.Close()
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("lockgen: shutdown: %w", ended(ctx)), c.Close())
	}
}

// Close ends all leases, and waits for the background work. It deletes no keys: their holders may be at work.
func (c *clientCore) Close() error {
	if c.made() == nil {
		return fmt.Errorf("lockgen: close: %w", errNoClient)
	}
	c.mu.Lock()
	if c.state == closed {
		c.mu.Unlock()
		return nil
	}
	if c.state == open {
		c.endGranting()
	}
	c.state = closed
	close(c.stopped)
	c.drained.set()
	c.idle = make(signal)
	c.running++ // for Close itself
	c.mu.Unlock()

	c.fleet.Leave()
	c.above.CloseAll()
	c.finished()

	renewed, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(renewed)
		c.watchdog.Close()
		if c.disconnected.Load() {
			c.rc.Close() // as in returned
		}
	}()
	go func() {
		defer close(done)
		var closing sync.WaitGroup // closing a mute connection takes a second
		closing.Go(c.net.Quit)
		closing.Go(c.net.Unlisten)
		closing.Wait()
		<-c.idle
		select {
		case <-renewed:
		case <-time.After(c.net.Patience()): // nobody needs the answers to renewals, which may not come over a mute connection
		}
		if c.conn.Owned {
			c.disconnected.Store(true)
			c.rc.Close()
		}
	}()
	timer := time.NewTimer(c.opts.OpTimeout)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return fmt.Errorf("lockgen: close: requests are still unanswered after %v", c.opts.OpTimeout)
	}
}

// endGranting ends the waiting calls, also those that are parked. The caller holds c.mu, and calls it once.
func (c *clientCore) endGranting() {
	close(c.closing)
	c.above.Refuse()
}

// granting reports whether the client may still grant leases.
func (c *clientCore) granting() bool { return c.refusal() == nil }

// refusal returns why the client grants nothing any more, or nil.
func (c *clientCore) refusal() error {
	select {
	case <-c.closing:
		return failure.ErrClosed
	default:
		return nil
	}
}

// held counts the keys that this process holds in Redis.
func (c *clientCore) held(change int) {
	defer c.net.Watch()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holds += change
	if c.holds == 0 {
		c.drained.set()
	}
}

// holding reports whether this process holds anything in Redis.
func (c *clientCore) holding() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.holds > 0
}
