package locks

import (
	"context"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/policy"
	"github.com/lockgen/lockgen/runtime/internal/resource"
	"github.com/lockgen/lockgen/runtime/observe"
)

func (c *Client) ID() string {
	if c.Made() == nil {
		return ""
	}
	return c.line.Wire.UUID
}

func (m *Mutex) Inspect(ctx context.Context) (observe.Standing, error) {
	m = core.OrZero(m)
	return resource.Inside(core.OrZero(m.c).Resources, "inspect", m.key, func(r *policy.Mutex) (observe.Standing, error) {
		return r.Inspect(ctx, m.c.line.Wire.Inspect(m.key))
	})
}

func (s *PermitSemaphore) Inspect(ctx context.Context) (observe.PermitStanding, error) {
	s = core.OrZero(s)
	free, taken, err := s.count(ctx, "inspect")
	if err != nil {
		return observe.PermitStanding{}, err
	}
	standing := observe.PermitStanding{Total: free + taken, Available: free, Acquired: taken}
	if ct, known := s.c.permits.Known(s.key); known {
		standing.Ours = ct.Ours()
		ct.Mu.Lock()
		standing.Waiting = ct.Queue.Length()
		ct.Mu.Unlock()
	}
	return standing, nil
}
