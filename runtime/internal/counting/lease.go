package counting

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// ask sends a request about the permit raw, at sent, and returns how long that lasts. The permits of this process with this id are trusted for no longer
// than the semaphore lasts.
func (c *Client) ask(cmd protocol.Command, raw string, sent time.Time, here *Count) (left int64, err error) {
	reply, err := c.Net.Run(cmd).Ints()
	if err != nil {
		return 0, err
	}
	left, lasts, err := protocol.ReadPermitLease(reply)
	if err == nil && left != protocol.NoPermit {
		for _, p := range here.holding(raw) {
			c.Watchdog.Bound(&p.guard, sent, lasts)
		}
	}
	return left, err
}

// Lease returns how long the permit raw of a semaphore lasts in milliseconds. A fixed permit of this process with only this id is then
// trusted for as long. here has the permits of this process, or is nil.
func (c *Client) Lease(key, raw string, here *Count) (int64, error) {
	sent := monotonic.Now().Std()
	commands := c.Wire.PermitSemaphore(key)
	left, err := c.ask(commands.Lease(raw), raw, sent, here)
	if err == nil && left != protocol.NoPermit {
		for _, p := range here.holding(raw) {
			if !p.guard.Renew && p.Owner() == raw {
				c.Watchdog.Extend(&p.guard, sent, duration(left))
			}
		}
	}
	return here.gone(raw, left, err)
}

// SetLease is Lease after setting it to d, or to no end if d is negative. The permits of this process with this id are trusted for no
// longer from the moment when the request is sent; a fixed one with only this id is trusted for longer when Redis has confirmed it.
// Permits that were acquired together with others end when those end.
func (c *Client) SetLease(key, raw string, d time.Duration, here *Count) (int64, error) {
	sent, ttl := monotonic.Now().Std(), d
	if d < 0 {
		ttl = forEver
	}
	var settle []func(watchdog.Outcome)
	for _, p := range here.holding(raw) {
		settle = append(settle, c.Watchdog.Update(&p.guard, sent, ttl, engine.MostLate, p.Owner() == raw))
	}
	commands := c.Wire.PermitSemaphore(key)
	resends := c.Net.Resent()
	left, err := c.ask(commands.SetLease(raw, d), raw, sent, here)
	outcome := watchdog.Refused
	switch {
	case transport.Unknown(err), transport.Unconfirmed(err), err != nil && c.Net.Resent() != resends: // the first one may have been done
		outcome = watchdog.Unknown
	case err == nil && left != protocol.NoPermit && c.Net.Resent() != resends: // the first one may come later
		outcome = watchdog.Repeated
	case err == nil && left != protocol.NoPermit:
		outcome = watchdog.Done
	}
	for _, f := range settle {
		f(outcome)
	}
	return here.gone(raw, left, err)
}

// gone takes the id raw from the permits of this process if Redis does not know it. It returns the answer about its lease.
func (k *Count) gone(raw string, left int64, err error) (int64, error) {
	if err == nil && left == protocol.NoPermit {
		k.took(k.holding(raw), raw, watchdog.ErrRefused)
	}
	return left, err
}

// duration returns how long the server says that a permit lasts: left is in milliseconds, or negative for ever.
func duration(left int64) time.Duration {
	if left < 0 {
		return forEver
	}
	return protocol.Milliseconds(left)
}

// forEver is the duration of a permit that does not expire.
const forEver = 100 * 365 * 24 * time.Hour
