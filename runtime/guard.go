package lockrt

import (
	"context"
	"runtime/debug"
)

// guarded returns hooks that log a panic of a hook and return. A panic that goes on would leave a lock that no caller has
// and the watchdog renews, or a place in a queue at which no call waits. On a goroutine of the client it would end the program.
func (c *Client) guarded(h Hooks) Hooks {
	if hook := h.AcquireStart; hook != nil {
		h.AcquireStart = c.guardedContext("AcquireStart", hook)
	}
	if hook := h.Acquired; hook != nil {
		h.Acquired = c.guardedContext("Acquired", hook)
	}
	h.Waiting = guardedEvent(c, "Waiting", h.Waiting)
	h.AcquireEnd = guardedEvent(c, "AcquireEnd", h.AcquireEnd)
	h.Renewed = guardedEvent(c, "Renewed", h.Renewed)
	h.Ended = guardedEvent(c, "Ended", h.Ended)
	h.Deadlock = guardedEvent(c, "Deadlock", h.Deadlock)
	h.Unreported = guardedEvent(c, "Unreported", h.Unreported)
	if hook := h.TraceParent; hook != nil {
		h.TraceParent = func(ctx context.Context) string {
			defer c.recovered("TraceParent")
			return hook(ctx)
		}
	}
	return h
}

// guardedContext guards a hook that may return a context. The call keeps its own one if the hook panics or returns nil.
func (c *Client) guardedContext(name string, hook func(context.Context, AcquireEvent) context.Context) func(context.Context, AcquireEvent) context.Context {
	return func(ctx context.Context, e AcquireEvent) (under context.Context) {
		under = ctx
		defer c.recovered(name)
		if child := hook(ctx, e); child != nil {
			under = child
		}
		return under
	}
}

func guardedEvent[E any](c *Client, name string, hook func(context.Context, E)) func(context.Context, E) {
	if hook == nil {
		return nil
	}
	return func(ctx context.Context, e E) {
		defer c.recovered(name)
		hook(ctx, e)
	}
}

// recovered logs the panic of a hook. It is deferred.
func (c *Client) recovered(hook string) {
	if p := recover(); p != nil {
		c.opts.Logger.Error("lockgen: a hook panicked; what it was called for goes on", "hook", hook, "panic", p, "stack", string(debug.Stack()))
	}
}
