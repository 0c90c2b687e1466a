package lockrt

import (
	"context"
	"time"
)

// Hooks observe a [Client], for metrics and traces. They run on the goroutine that does the
// work: return at once and take no lock. Any may be nil. Fields may be added.
type Hooks struct {
	// AcquireStart may return a context that carries a span; AcquireEnd is given it, and
	// it becomes the parent of the lease's context.
	AcquireStart func(ctx context.Context, e AcquireEvent) context.Context
	// Waiting is called once by an acquire that has to wait for others.
	Waiting func(ctx context.Context, e AcquireEvent)
	// AcquireEnd is called once, however the acquire ended.
	AcquireEnd func(ctx context.Context, e AcquireEvent)
	// Renewed is called after each try to renew a lease.
	Renewed func(e RenewEvent)
	// Ended is called once for each lease that a caller was given, after AcquireEnd, however it ended.
	Ended func(e EndEvent)
	// TraceParent returns the W3C trace parent of the span that ctx carries, or an empty string. It is called by
	// [Client.Snapshot], and when another process asks, with the contexts of the calls that hold and wait.
	TraceParent func(ctx context.Context) string
	// Unreported is called when a generated method that returns no error could not take or keep its lock for
	// another reason than that somebody else holds it.
	Unreported func(ctx context.Context, e UnreportedEvent)
}

// An AcquireEvent tells of one call that acquires.
type AcquireEvent struct {
	Kind   Kind          // of the lock
	Key    string        // the lock
	Waited time.Duration // since the call began
	Token  int64         // the fencing token that came with it, in AcquireEnd; 0 without WithFencing
	Err    error         // why it failed, in AcquireEnd
}

// A RenewEvent tells of one try to renew.
type RenewEvent struct {
	Kind  Kind
	Key   string
	Until time.Time // when the trust in the lease ends
	Err   error     // nil when confirmed
}

// An EndEvent tells how a lease ended: Cause matches [ErrReleased], [ErrLost] or [ErrClosed].
type EndEvent struct {
	Kind  Kind
	Key   string
	Held  time.Duration
	Cause error
}

// An UnreportedEvent tells of an error that a generated method cannot return.
type UnreportedEvent struct {
	Name string // of the method, like "orders.Service.Sweep"
	Err  error
}

// The texts of kinds.
const (
	kindMutex     = "mutex"
	kindFair      = "fair"
	kindSemaphore = "semaphore"
	kindPermit    = "permit"
	kindLatch     = "latch"
	kindWrite     = "write"
	kindRead      = "read"
	kindMulti     = "multi"
	kindRedLock   = "redlock"
)
