package runtime

import (
	"context"
	"errors"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// A lease with a bare majority is lost with any server of that. So servers that have no part in it, since they were just getting
// back what another one had in vain, or were away, are asked again while it lasts. It does not matter to anybody else when they
// grant it: two majorities have a server in common, and that has one holder.

// complete asks the server of m for its part, after a pause and ever less often, until who has the parts of u by then has
// that too, or is done. A brief lease is over before, and one of fixed length does not depend on servers any more.
func (e *election) complete(u *union, m *Mutex, pause time.Duration) {
	if !e.cfg.renew {
		return
	}
	time.AfterFunc(2*pause, func() { // by then it does not go round any more, so no bearer is overlooked
		bearer := u.bearer()
		if bearer == nil {
			return
		}
		m.c.spawn(func() {
			switch err := e.recruit(bearer, m); {
			case err == nil:
			case errors.Is(err, ErrNotAcquired), passing(err) && m.c.granting():
				e.complete(bearer, m, min(2*pause, e.cfg.ttl/12))
			}
		})
	})
}

// recruit asks the server of m, once, for a part that joins u.
func (e *election) recruit(u *union, m *Mutex) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), e.limit())
	defer cancel()
	opts := e.opts
	if e.cfg.maxHold > 0 { // it ends with the others
		left := e.cfg.maxHold - monotonic.Since(u.whole.began)
		if left <= 0 {
			return nil
		}
		opts = append(opts[:len(opts):len(opts)], WithMaxHold(left))
	}
	part, err := m.acquire(ctx, opts, nil)
	if err != nil {
		return err
	}
	if part.token < u.whole.token {
		if err := e.tell(ctx, part, u.whole.token); err != nil {
			_ = part.hold.unlock(part)
			return err
		}
	}
	u.join(part)
	return nil
}

// replace gives a part back that is lost, and sees to it that its server has another one in u.
func (e *election) replace(u *union, part *Lease) {
	for _, m := range e.m.parts {
		if m.c == part.client && m.key == part.key {
			m.c.spawn(func() {
				_ = part.hold.unlock(part)
				e.complete(u, m, goRound)
			})
		}
	}
}
