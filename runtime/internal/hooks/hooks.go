// Package hooks calls the hooks of a client in ways in which a hook harms nothing but itself: a panic ends no call and no lease, and a
// [Queue] keeps callers from waiting for a hook.
package hooks

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/lockgen/lockgen/runtime/observe"
)

// Observing reports whether there is a hook for calls or for leases.
func Observing(h *observe.Hooks) bool {
	return h.AcquireStart != nil || h.Waiting != nil || h.AcquireEnd != nil || h.Acquired != nil || h.Renewed != nil || h.Ended != nil
}

// Guard returns hooks that log a panic of a hook and return. A panic that goes on would leave a lock that no caller has
// and the watchdog renews, or a place in a queue at which no call waits. On a goroutine of the client it would end the program.
func Guard(h observe.Hooks, log *slog.Logger) observe.Hooks {
	g := guard{Logger: log}
	h.AcquireStart = g.context("AcquireStart", h.AcquireStart)
	h.Acquired = g.context("Acquired", h.Acquired)
	h.Waiting = guarded(g, "Waiting", h.Waiting)
	h.AcquireEnd = guarded(g, "AcquireEnd", h.AcquireEnd)
	h.Renewed = guarded(g, "Renewed", h.Renewed)
	h.Ended = guarded(g, "Ended", h.Ended)
	h.Deadlock = guarded(g, "Deadlock", h.Deadlock)
	h.Unreported = guarded(g, "Unreported", h.Unreported)
	if hook := h.TraceParent; hook != nil {
		h.TraceParent = func(ctx context.Context) string {
			defer g.recovered("TraceParent")
			return hook(ctx)
		}
	}
	return h
}

type guard struct{ Logger *slog.Logger }

// context guards a hook that may return a context. The call keeps its own one if the hook panics or returns nil.
func (g guard) context(name string, hook func(context.Context, observe.AcquireEvent) context.Context) func(context.Context, observe.AcquireEvent) context.Context {
	if hook == nil {
		return nil
	}
	return func(ctx context.Context, e observe.AcquireEvent) (under context.Context) {
		under = ctx
		defer g.recovered(name)
		if child := hook(ctx, e); child != nil {
			under = child
		}
		return under
	}
}

func guarded[E any](g guard, name string, hook func(context.Context, E)) func(context.Context, E) {
	if hook == nil {
		return nil
	}
	return func(ctx context.Context, e E) {
		defer g.recovered(name)
		hook(ctx, e)
	}
}

// recovered logs the panic of a hook. It is deferred.
func (g guard) recovered(hook string) {
	if p := recover(); p != nil {
		g.Logger.Error("lockgen: a hook panicked; what it was called for goes on", "hook", hook, "panic", p, "stack", string(debug.Stack()))
	}
}

// mostReports is the number of waiting reports from which on optional ones are left out.
const mostReports = 10_000

// A Queue calls hooks one after the other, for callers that must not wait for them.
type Queue struct {
	Spawn func(f func()) // runs f on another goroutine

	mu      sync.Mutex // guards the rest
	reports []func()
	running bool
}

// Later calls report soon. It leaves out an optional report when too many wait.
func (q *Queue) Later(report func(), optional bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if optional && len(q.reports) >= mostReports {
		return
	}
	q.reports = append(q.reports, report)
	if !q.running {
		q.running = true
		q.Spawn(q.run)
	}
}

func (q *Queue) run() {
	for {
		q.mu.Lock()
		reports := q.reports
		q.reports = nil
		q.running = len(reports) > 0
		q.mu.Unlock()
		if len(reports) == 0 {
			return
		}
		for _, report := range reports {
			report()
		}
	}
}
