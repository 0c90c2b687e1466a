package lockrt

import (
	"context"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// How long single permits last, and what that means for the trust in the permits of this process.

// lease returns how long a permit lasts in milliseconds. A fixed permit of this process with only this id is then trusted
// for as long.
func (s *PermitSemaphore) lease(ctx context.Context, id string) (int64, error) {
	return s.askLease(ctx, "ttl", id, func(permits *protocol.PermitSemaphore, raw string) (int64, error) {
		sent := now()
		left, err := s.c.net.Run(permits.Lease(raw)).Int()
		if err == nil && left != protocol.NoPermit {
			for _, p := range s.here(raw) {
				if !p.guard.Renew && p.owned() == raw {
					s.c.watchdog.Extend(p.guard, sent, duration(left))
				}
			}
		}
		return left, err
	})
}

// setLease is lease after setting it to d. The permits of this process with this id are trusted for no longer from the moment
// when the request is sent; a fixed one with only this id is trusted for longer when Redis has confirmed it. Permits that were
// acquired together with others end when those end.
func (s *PermitSemaphore) setLease(ctx context.Context, id string, d time.Duration) (int64, error) {
	return s.askLease(ctx, "update lease", id, func(permits *protocol.PermitSemaphore, raw string) (int64, error) {
		sent, ttl := now(), d
		if d == UntilDone {
			ttl = forEver
		}
		var settle []func(watchdog.Outcome)
		for _, p := range s.here(raw) {
			settle = append(settle, s.c.watchdog.Update(p.guard, sent, ttl, p.owned() == raw))
		}
		left, err := s.c.net.Run(permits.SetLease(raw, d)).Int()
		outcome := watchdog.Refused
		switch {
		case transport.Unknown(err), transport.Unconfirmed(err):
			outcome = watchdog.Unknown
		case err == nil && left != protocol.NoPermit:
			outcome = watchdog.Done
		}
		for _, f := range settle {
			f(outcome)
		}
		return left, err
	})
}

// askLease asks about the permit with that id. The permits of this process no longer have an id that Redis does not know.
func (s *PermitSemaphore) askLease(ctx context.Context, op, id string, ask func(*protocol.PermitSemaphore, string) (int64, error)) (int64, error) {
	raw, err := rawIDs([]string{id})
	if err != nil {
		return 0, &Error{Op: op, Key: s.key, Err: err}
	}
	return answer(ctx, s.c, op, s.key, func() (int64, error) {
		permits := s.c.wire.PermitSemaphore(s.key)
		left, err := ask(&permits, raw)
		if ct, known := s.c.permits.known(s.key); known && err == nil && left == protocol.NoPermit {
			ct.took(ct.holding(raw), raw)
		}
		return left, err
	})
}

// here returns the permits of this process that have id.
func (s *PermitSemaphore) here(id string) []*Permit {
	if ct, known := s.c.permits.known(s.key); known {
		return ct.holding(id)
	}
	return nil
}

// duration returns how long the server says that a permit lasts: left is in milliseconds, or negative for ever.
func duration(left int64) time.Duration {
	if left < 0 {
		return forEver
	}
	return time.Duration(left) * time.Millisecond
}

// forEver is the duration of a permit that does not expire.
const forEver = 100 * 365 * 24 * time.Hour
