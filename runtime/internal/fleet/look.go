package fleet

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/runtime/observe"
)

// Look returns what the process holds and waits for: of one key, or of all for "", with at most most entries, or all for 0.
func (cfg *Config) Look(key string, most int) observe.Snapshot {
	s := observe.Snapshot{Version: observe.SnapshotVersion, At: time.Now(), Process: cfg.Process()}
	waiting := cfg.waiting(key)
	if most > 0 && len(waiting) > most/2 {
		s.Omitted = len(waiting) - most/2
		waiting = cfg.first(waiting, most/2)
	}
	for i := range waiting {
		s.Waiting = append(s.Waiting, cfg.describe(&waiting[i]))
	}
	var omitted int
	s.Held, omitted = cfg.held(key, most)
	s.Omitted += omitted
	slices.SortFunc(s.Held, func(a, b observe.HeldLock) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Key, b.Key))
	})
	slices.SortFunc(s.Waiting, func(a, b observe.WaitingCall) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Key, b.Key))
	})
	return s
}

// first returns n of the calls: those that wait under a lease come before the others, because every call of a deadlock does, and then those that have
// waited longest.
func (cfg *Config) first(calls []Call, n int) []Call {
	type place struct {
		rank  int // 0 under a lease, 1 for the others
		since monotonic.Time
		call  *Call
	}
	order := func(a, b place) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.since, b.since)) }
	best := make([]place, 0, n+1) // in order
	for i := range calls {
		c := &calls[i]
		p := place{1, c.Since, c}
		cfg.Locks.EachAbove(c.Ctx, func(*watchdog.Lease) { p.rank = 0 })
		if len(best) == n && order(best[n-1], p) <= 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, p, order)
		best = slices.Insert(best, at, p)
		best = best[:min(len(best), n)]
	}
	some := make([]Call, len(best))
	for i, p := range best {
		some[i] = *p.call
	}
	return some
}

// held returns what the process holds of a key, or of all: at most most, or all for 0. It also returns how many leases it leaves out.
func (cfg *Config) held(key string, most int) (held []observe.HeldLock, omitted int) {
	var leases []*watchdog.Lease
	if key == "" {
		leases, omitted = cfg.Watchdog.Leases(max(0, most-most/2))
	} else if leases = cfg.Locks.Leases(key); most > 0 && len(leases) > most {
		leases, omitted = leases[:most], len(leases)-most
	}
	for _, l := range leases {
		v, ok := l.Holding.(Visible)
		if !ok {
			continue
		}
		s := v.Show()
		if s.Holds == 0 && !s.Lingers {
			continue
		}
		held = append(held, observe.HeldLock{
			Key: l.Key(), Kind: observe.Kind(l.Kind()), Owner: OwnerOf(l), Name: s.Name, Since: s.Since.SteadyDate(), Holds: s.Holds, Lingers: s.Lingers,
			Lease: l.TTL, Renewed: l.Renew, Left: max(0, time.Until(l.Ends())), Token: s.Token, Queued: s.Queued, Trace: cfg.traceOf(s.Ctx),
		})
	}
	return held, omitted
}

// ownersOf returns the owners of a lease in Redis: of permits that were acquired together each id.
func ownersOf(l *watchdog.Lease) []string {
	if l.Kind() == string(observe.KindPermit) {
		return protocol.PermitIDs(l.Owner())
	}
	return []string{l.Owner()}
}

// OwnerOf returns the name of the owner of a lease in Redis; for permits, the id of the first.
func OwnerOf(l *watchdog.Lease) string { return append(ownersOf(l), "")[0] }

// waiting returns the calls that wait for a key, or for any.
func (cfg *Config) waiting(key string) (all []Call) {
	cfg.Locks.EachWaiting(key, func(c Call) { all = append(all, c) })
	return all
}

func (cfg *Config) describe(c *Call) observe.WaitingCall {
	w := observe.WaitingCall{
		Key: c.Key, Kind: c.Kind, Name: c.Name, Since: c.Since.SteadyDate(), Permits: c.Permits, Under: cfg.under(c.Ctx), Trace: cfg.traceOf(c.Ctx),
	}
	if !c.Until.IsZero() {
		until := c.Until.SteadyDate()
		w.Deadline = &until
	}
	if over, ok := c.Ctx.Deadline(); ok && (w.Deadline == nil || over.Before(*w.Deadline)) {
		if over != over.Round(0) { // it has a reading of the monotonic clock, as that of a timeout has
			over = monotonic.Of(over).SteadyDate()
		}
		w.Deadline = &over
	}
	return w
}

// mostUnder is the largest number of leases listed for a waiting call.
const mostUnder = 16

// under returns the leases in ctx that have not ended, the innermost first.
func (cfg *Config) under(ctx context.Context) (refs []observe.LeaseRef) {
	cfg.Locks.EachAbove(ctx, func(l *watchdog.Lease) {
		ref := observe.LeaseRef{Key: l.Key(), Owner: OwnerOf(l)}
		if !slices.Contains(refs, ref) && len(refs) < mostUnder {
			refs = append(refs, ref)
		}
	})
	return refs
}

// Stuck logs what a call has waited for since a look for deadlocks was due, and whether this very process has it. Nothing bounds the
// call.
func (cfg *Config) Stuck(ctx context.Context, kind observe.Kind, key, name string) {
	args := []any{"kind", kind, "key", key, "name", name, "waited", cfg.Interval}
	held, _ := cfg.held(key, 0)
	held = slices.DeleteFunc(held, func(h observe.HeldLock) bool { return (h.Kind == observe.KindPermit) != (kind == observe.KindPermit) })
	if len(held) == 0 {
		cfg.Logger.WarnContext(ctx, "lockgen: a call still waits for a lock, and neither a deadline nor WithWait bounds it", args...)
		return
	}
	args = append(args, "owner", held[0].Owner, "held_since", held[0].Since, "held_by", held[0].Name)
	if kind == observe.KindPermit {
		cfg.Logger.WarnContext(ctx, "lockgen: a call still waits for a permit, and this process holds some itself: if it is made below a holder, it may "+
			"wait for ever", args...)
		return
	}
	cfg.Logger.WarnContext(ctx, "lockgen: a call still waits for a lock that this process holds itself: if it is made below the holder, it was given "+
		"an outer context and waits for ever; give it the context of the lease", args...)
}
