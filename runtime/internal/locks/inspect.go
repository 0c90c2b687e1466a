package locks

import (
	"context"

	"github.com/lockgen/lockgen/runtime/observe"
)

func (c *Client) ID() string {
	if c.made() == nil {
		return ""
	}
	return c.wire.UUID
}

func (m *Mutex) Inspect(ctx context.Context) (observe.Standing, error) {
	m = orZero(m)
	return inside(orZero(m.c).resources, "inspect", m.key, func(r *resource) (observe.Standing, error) {
		return r.inspect(ctx, m.c.wire.Inspect(m.key))
	})
}

func (s *PermitSemaphore) Inspect(ctx context.Context) (observe.PermitStanding, error) {
	s = orZero(s)
	free, taken, err := s.count(ctx, "inspect")
	if err != nil {
		return observe.PermitStanding{}, err
	}
	standing := observe.PermitStanding{Total: free + taken, Available: free, Acquired: taken}
	if ct, known := s.c.permits.known(s.key); known {
		standing.Ours = ct.Ours()
		ct.mu.Lock()
		standing.Waiting = ct.Queue.Length()
		ct.mu.Unlock()
	}
	return standing, nil
}
