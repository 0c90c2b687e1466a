package core

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
	stateOpen         clientState = iota // it grants leases
	stateShuttingDown                    // it grants nothing any more, and waits for its holders
	stateClosed                          // its leases have ended, and background work gives up
)

// Shutdown grants nothing any more, waits until each lease is unlocked or lost, and closes.
func (c *Client) Shutdown(ctx context.Context) error {
	if c.Made() == nil {
		return fmt.Errorf("lockgen: shutdown: %w", ErrNoClient)
	}
	if ctx == nil {
		return fmt.Errorf("lockgen: shutdown: %w", ErrNoContext)
	}
	c.Mu.Lock()
	if c.state == stateOpen {
		c.state = stateShuttingDown
		close(c.Closing)
	}
	c.Mu.Unlock()
	c.Above.Refuse() // takes the mutex of each lock once: a grant that was made before counts among the holds, a later one is refused
	c.Above.EndLingers()
	c.Mu.Lock()
	if c.drained == nil {
		c.drained = make(signal)
		if c.holds.Load() == 0 || c.state == stateClosed {
			c.drained.set()
		}
	}
	drained := c.drained
	c.Mu.Unlock()

	select {
	case <-drained:
		return c.Close()
	default:
	}
	select {
	case <-drained:
		return c.Close()
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("lockgen: shutdown: %w", Ended(ctx)), c.Close())
	}
}

// Close ends all leases, and waits for the background work. It deletes no keys: their holders may be at work.
func (c *Client) Close() error {
	if c.Made() == nil {
		return fmt.Errorf("lockgen: close: %w", ErrNoClient)
	}
	c.Mu.Lock()
	if c.state == stateClosed {
		c.Mu.Unlock()
		return nil
	}
	if c.state == stateOpen {
		close(c.Closing)
	}
	c.state = stateClosed
	close(c.Stopped)
	c.drained.set()
	c.quiet = make(signal)
	c.running.Add(1) // for Close itself
	c.Mu.Unlock()
	c.Above.Refuse()

	c.Fleet.Leave()
	c.Above.CloseAll()
	c.Finished()

	renewed, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(renewed)
		c.Watchdog.Close()
		if c.disconnected.Load() {
			c.RC.Close() // as in Returned
		}
	}()
	go func() {
		defer close(done)
		var closing sync.WaitGroup // closing a mute connection takes a second
		closing.Go(c.Net.Quit)
		<-c.quiet
		closing.Go(c.Net.Unlisten) // not before: requests may be under way over the connections that listen
		closing.Wait()
		select {
		case <-renewed:
		case <-time.After(c.Net.Patience()): // nobody needs the answers to renewals, which may not come over a mute connection
		}
		if c.conn.Owned {
			c.disconnected.Store(true)
			c.Net.Over()
			c.RC.Close()
		}
	}()
	timer := time.NewTimer(c.Settings.OpTimeout)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return fmt.Errorf("lockgen: close: requests are still unanswered after %v", c.Settings.OpTimeout)
	}
}

// Granting reports whether the client may still grant leases.
func (c *Client) Granting() bool { return c.Refusal() == nil }

// Refusal returns why the client grants nothing any more, or nil.
func (c *Client) Refusal() error {
	select {
	case <-c.Closing:
		return failure.ErrClosed
	default:
		return nil
	}
}

// Held changes the number of keys that this process holds in Redis.
func (c *Client) Held(change int) {
	if c.holds.Add(int64(change)) == 0 {
		c.Mu.Lock()
		if c.holds.Load() == 0 { // still
			c.drained.set()
		}
		c.Mu.Unlock()
	}
	c.Net.Watch()
}

// Holding reports whether this process holds anything in Redis.
func (c *Client) Holding() bool {
	return c.holds.Load() > 0
}

// Begins counts a call, until it is Finished. It refuses a call once the client grants nothing any more, unless anyway is set, as for a call
// that releases. The caller holds c.Mu.
func (c *Client) Begins(anyway bool) error {
	if c.state != stateOpen && !anyway {
		return failure.ErrClosed
	}
	c.running.Add(1)
	return nil
}
