package lockrt

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// suspects are the calls of a client that may wait for ever: nothing bounds the wait of such a call, or it waits under a lease
// for which others may wait. Each waits for [Options.DeadlockAfter] until it is suspected, so they are due in the order in which
// they began to wait: a list and one timer serve them all, however many wait.
type suspects struct {
	mu          sync.Mutex // guards the rest, and the suspicions of waiters
	first, last *waiter
	timer       *time.Timer // made for the first of them
	armed       bool
}

// A suspicion is the place of a waiter among the suspects.
type suspicion struct {
	due           monotonic.Time // 0 before its wait begins; it stays when the time has come
	before, after *waiter
}

// begin makes w a suspect, once for each wait, unless something bounds that and it is under no lease.
func (s *suspects) begin(ctx context.Context, c *Client, w *waiter, wait time.Duration) {
	after := c.opts.DeadlockAfter
	if !w.suspicion.due.IsZero() || after <= 0 || bound(ctx, wait) && leaseCoreFrom(ctx) == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.suspicion = suspicion{due: monotonic.Now().Add(after), before: s.last}
	if s.last == nil {
		s.first = w
	} else {
		s.last.suspicion.after = w
	}
	s.last = w
	if s.armed {
		return
	}
	s.armed = true
	if s.timer == nil {
		s.timer = time.AfterFunc(after, s.come)
	} else {
		s.timer.Reset(after)
	}
}

// end removes w, if it is a suspect: its wait is over. After that w gets no event of the suspects.
func (s *suspects) end(w *waiter) {
	if w.suspicion.due.IsZero() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(w)
	w.suspicion = suspicion{}
}

// remove is end for a caller that holds s.mu.
func (s *suspects) remove(w *waiter) {
	p := &w.suspicion
	switch {
	case p.before != nil:
		p.before.suspicion.after = p.after
	case s.first == w:
		s.first = p.after
	default:
		return
	}
	if p.after == nil {
		s.last = p.before
	} else {
		p.after.suspicion.before = p.before
	}
	p.before, p.after = nil, nil
}

// come notifies those that are due, and sets the timer for the next one. It stays set when that one has gone, so calls that come
// and go do not touch it.
func (s *suspects) come() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := monotonic.Now()
	for s.first != nil && !s.first.suspicion.due.After(now) {
		w := s.first
		s.remove(w)
		w.notify(engine.Event{Kind: engine.Suspected})
	}
	if s.armed = s.first != nil; s.armed {
		s.timer.Reset(s.first.suspicion.due.Sub(now))
	}
}

// bound reports whether something bounds a call.
func bound(ctx context.Context, wait time.Duration) bool {
	_, ends := ctx.Deadline()
	return ends || wait != UntilDone
}

// suspect looks for a deadlock, if w may be in one, and logs a wait without a bound.
func (c *Client) suspect(ctx context.Context, q contest, w *waiter, wait time.Duration) {
	if leaseCoreFrom(ctx) != nil {
		c.deadlocks.look()
	}
	if !bound(ctx, wait) {
		c.tellSuspect(ctx, q, w)
	}
}

// tellSuspect logs, once, what the call waits for, and whether this very process has it.
func (c *Client) tellSuspect(ctx context.Context, q contest, w *waiter) {
	kind, key := subject(q, w)
	args := []any{"kind", kind, "key", key, "name", w.call.name, "waited", c.opts.DeadlockAfter}
	held := c.look(key, 0).Held
	held = slices.DeleteFunc(held, func(h HeldLock) bool { return (h.Kind == KindPermit) != (kind == kindPermit) })
	if len(held) == 0 {
		c.opts.Logger.WarnContext(ctx, "lockgen: a call still waits for a lock, and neither a deadline nor WithWait bounds it", args...)
		return
	}
	args = append(args, "owner", held[0].Owner, "held_since", held[0].Since, "held_by", held[0].Name)
	if kind == kindPermit {
		c.opts.Logger.WarnContext(ctx, "lockgen: a call still waits for a permit, and this process holds some itself: if it is made below a holder, it may "+
			"wait for ever", args...)
		return
	}
	c.opts.Logger.WarnContext(ctx, "lockgen: a call still waits for a lock that this process holds itself: if it is made below the holder, it was given "+
		"an outer context and waits for ever; give it the context of the lease", args...)
}

// subject returns the lock that w waits for in q.
func subject(q contest, w *waiter) (kind, key string) {
	switch q := q.(type) {
	case *counter:
		return q.kind, q.key
	case *quorumAcquire:
		return kindRedLock, q.m.key
	}
	if w.lease != nil {
		return w.lease.kind(), w.lease.key
	}
	return "", ""
}
