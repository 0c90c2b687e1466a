package core

import (
	"errors"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// ErrFewer is the outcome of a renewal of several permits while some of them were released: it asked for too many.
var ErrFewer = errors.New("some of the permits were given back meanwhile")

// Renew renews leases of one kind in Redis, for the watchdog.
func (c *Client) Renew(leases []*watchdog.Lease, ttls []time.Duration) []error {
	kind := renewal(leases[0].Kind())
	patience := leases[0].TTL
	at := Now()
	c.Fleet.Renewing(leases)
	renewals := make([]transport.Renewal, len(leases))
	for i, l := range leases {
		patience = min(patience, l.Patience(at))
		renewals[i] = transport.Renewal{Key: l.Key(), Owner: l.Owner(), TTL: ttls[i]}
	}
	errs := make([]error, len(leases))
	for i, outcome := range c.Net.Renew(kind, c.Wire.Renewals(kind), renewals, patience/2) { // the time until the watchdog tries again is half over then
		switch errs[i] = outcome.Err; {
		case outcome.Err == nil && kind == protocol.RenewPermits:
			c.Watchdog.Bound(leases[i], at, outcome.Lasts)
		case errors.Is(outcome.Err, transport.ErrRefused):
			errs[i] = watchdog.ErrRefused
			if l, ok := leases[i].Holding.(interface{ Fewer(owner string) bool }); ok && l.Fewer(renewals[i].Owner) {
				errs[i] = ErrFewer
			}
		}
	}
	return errs
}

// renewal returns the way to renew leases of a kind.
func renewal(kind string) protocol.Renewal {
	switch kind {
	case KindRead:
		return protocol.RenewReader
	case KindPermit:
		return protocol.RenewPermits
	}
	return protocol.RenewLock
}
