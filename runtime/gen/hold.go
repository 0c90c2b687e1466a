package gen

import (
	"context"
	"sync/atomic"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// A Hold has the leases of [Acquirer.Acquire]. It is released once, by Release or, if it was lent
// to a result of the method, by that.
type Hold struct {
	spec   *Spec
	call   context.Context // the context of the call of Acquire
	ctx    context.Context // of the last lease, or of the call if there is none
	leases []*lockrt.Lease
	only   [1]*lockrt.Lease // the array of leases if there is one lease
	lent   bool             // to a result of the method, which releases it
	closed atomic.Bool      // by that result

	labelled bool   // profiles label the work under it
	end      func() // ends the label, once the method runs
}

// Context returns the context to work under. It ends when any of the locks is lost, with a cause matching
// [lockrt.ErrLost], and when they are released. With Spec.Report it ends only with the context of the call.
func (h *Hold) Context() context.Context {
	ctx := h.ctx
	if h.spec.Report {
		ctx = &reportContext{h.call, context.WithoutCancel(h.ctx)}
	}
	if h.labelled && h.end == nil {
		ctx, h.end = lent.Profiled(ctx, h.spec.Name)
	}
	return ctx
}

// A reportContext ends only with the context of the call, and is under the leases all the same:
// locking their keys under it enters again.
type reportContext struct {
	context.Context

	leases context.Context
}

func (x *reportContext) Value(key any) any {
	if v := x.leases.Value(key); v != nil {
		return v
	}
	return x.Context.Value(key) // a context's own end
}

// Release unlocks all and joins to *err what went wrong: that a lock was lost while the method ran,
// even if the method returned nil, or that it could not be released. If a result of the method has
// the Hold, Release does nothing.
func (h *Hold) Release(err *error) {
	if h.end != nil {
		h.end()
	}
	if !h.lent {
		*err = lent.AfterWork(h.call, *err, h.release())
	}
}

// release ends the leases, all of them even after an error.
func (h *Hold) release() error {
	if len(h.leases) == 0 {
		return nil
	}
	return giveBack(h.leases, h.spec.Min, h.spec.Keep)
}
