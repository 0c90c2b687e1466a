package observe

import (
	"context"
	"time"
)

// Hooks are functions that a Client calls for each event, for metrics and traces. Any may be nil. Fields may be added.
//
// A hook that sleeps delays its own caller and nobody else. AcquireStart, Waiting, AcquireEnd, Acquired and Unreported
// run on the goroutine of the call that they are about. Of a sequence, Unreported runs on the goroutine of the loop, or on one of its own
// if the context of the call ends before a loop begins. Ended runs on the goroutine that releases the lease, after the
// next caller has got the lock. Renewed, and Ended of a lease that was lost or closed, run on one goroutine of the
// Client, one at a time, in the order of the events. While more than 10,000 events wait for that goroutine, calls of
// Renewed are left out, and no call of Ended is. Client.Close waits for it for Options.OpTimeout at most.
//
// Options.Logger gets a panic of a hook, and what the hook was called for goes on. A hook that returns a nil context has returned the one it was given.
//
// A MultiLock and a RedLock are one lock each: each hook is called once for all parts. Renewed is about a key in Redis: it is called for each part.
type Hooks struct {
	// AcquireStart is called when a call that acquires begins. It may return a context that carries a span: Waiting and AcquireEnd get it.
	AcquireStart func(ctx context.Context, e AcquireEvent) context.Context
	// Waiting is called once, when the call has to wait for others.
	Waiting func(ctx context.Context, e AcquireEvent)
	// AcquireEnd is called once, with any outcome of the call.
	AcquireEnd func(ctx context.Context, e AcquireEvent)
	// Acquired is called after AcquireEnd with the context of a call that got a lease or a permit. It may return a child of that context
	// that carries a span for the time for which the lock is held: the child becomes the parent of the lease's context, and Renewed and Ended
	// get it.
	Acquired func(ctx context.Context, e AcquireEvent) context.Context
	// Renewed is called after each try to renew a lease, except a try that failed after the lease had ended, or that ended after
	// Client.Close.
	Renewed func(ctx context.Context, e RenewEvent)
	// Ended is called once for each lease that a caller received, after Acquired, for any reason of
	// the end.
	Ended func(ctx context.Context, e EndEvent)
	// TraceParent returns the W3C trace parent of the span that ctx carries, or an empty string. Client.Snapshot, and the answer to another
	// process's Client.Fleet, call it with the contexts of the calls that hold and wait. The function reads values of ctx, and nothing else of it:
	// such a call may be about to get its lease.
	//
	// With it and AcquireEnd, a call that has waited for a second for a Mutex, a FairMutex, an RWMutex or one of them in a MultiLock learns the
	// trace parents of the holders: see AcquireEvent.HolderTraces. They are asked for beside the wait, which takes no longer for it. It costs one
	// command and two messages for each of at most 8 holders, once a second for all calls of the Client that wait for a key, and for 10 keys a
	// second at most.
	TraceParent func(ctx context.Context) string
	// Deadlock is called once for each call of the Client that is found to be in a [Deadlock], with the context of the call, on the goroutine that
	// calls Renewed. The Client finds deadlocks as Options.DeadlockAfter says.
	Deadlock func(ctx context.Context, e DeadlockEvent)
	// Unreported is called with an error that a generated method cannot return. A method without an error could not acquire or keep its lock, unless
	// another holder is the reason. A loop over the sequence of a method with scope=iter had no lock, lost it, or could not give it back; if the
	// second part of an iter.Seq2 is an error, the loop gets that as its last pair instead, unless it has ended by break.
	Unreported func(ctx context.Context, e UnreportedEvent)
}

// An AcquireEvent is about one call that acquires.
type AcquireEvent struct {
	ID        uint64        // of the call, and of the lease that it gets; no other call in this process has it
	Kind      Kind          // of the lock
	Name      string        // lockrt.WithName, else the kind: a name has few values where a key has many
	Template  string        // of the key, as in "order:{o.ID}", of a lock of generated code; else empty
	Key       string        // the lock; of a MultiLock its keys, separated by a comma and a space
	Parts     []string      // the keys of a MultiLock; not to be changed
	Contended bool          // the call has to wait for others, or had to
	Waited    time.Duration // since the call began, in AcquireEnd and Acquired
	Outcome   Outcome       // how the call ended, in AcquireEnd and Acquired
	Grant     Grant         // how it got the lock, in AcquireEnd and Acquired
	Token     int64         // the fencing token that came with it, in AcquireEnd and Acquired; 0 without WithFencing
	Err       error         // why it failed, in AcquireEnd
	// HolderTraces are what Hooks.TraceParent of their processes said of the calls that held the lock when this one had waited for a second, in
	// AcquireEnd and Acquired. A holder in Java, or without a trace, or of which no answer came before the call ended, is left out.
	HolderTraces []string
}

// An Outcome is the outcome of a call that acquires.
type Outcome string

// The outcomes.
const (
	OutcomeAcquired  Outcome = "acquired"
	OutcomeBusy      Outcome = "busy"      // another holder has the lock: lockrt.ErrNotAcquired
	OutcomeCancelled Outcome = "cancelled" // the context of the call ended
	OutcomeLost      Outcome = "lost"      // the lease under whose context the call was made ended with lockrt.ErrLost
	OutcomeError     Outcome = "error"     // anything else, such as lockrt.ErrUnavailable
)

// A Grant is the way in which a call got its lock.
type Grant string

// The grants. A call that failed has none. A call that takes from a Semaphore or waits for a CountDownLatch has [GrantServer].
const (
	GrantServer Grant = "server" // Redis granted it; of a MultiLock always
	GrantLocal  Grant = "local"  // another goroutine of this process handed it over, or it lingered
	GrantRemote Grant = "remote" // another process handed it over
	GrantShared Grant = "shared" // the process had it already: the caller entered again, or reads beside others
)

// A RenewEvent is about one try to renew a key in Redis.
type RenewEvent struct {
	ID       uint64 // of the lease, or of the first lease that has the key; 0 while no caller has it
	Kind     Kind
	Name     string // as in AcquireEvent
	Template string // as in AcquireEvent
	Key      string
	Until    time.Time // when the trust in the lease ends
	Err      error     // nil when confirmed
}

// An EndEvent is the end of a lease.
type EndEvent struct {
	ID       uint64 // of the lease: the ID of its AcquireEvent
	Kind     Kind
	Name     string // as in AcquireEvent
	Template string // as in AcquireEvent
	Key      string
	Parts    []string      // the keys of a MultiLock; not to be changed
	At       time.Time     // when it ended
	Held     time.Duration // until then
	Reason   EndReason
	Cause    error // matches lockrt.ErrReleased, ErrLost or ErrClosed
}

// An EndReason is the reason why a lease ended, in one word.
type EndReason string

// The reasons. Those below EndClosed are losses: the cause matches lockrt.ErrLost.
const (
	EndReleased    EndReason = "released"    // its holder released it
	EndClosed      EndReason = "closed"      // its Client was closed
	EndTaken       EndReason = "taken"       // Redis does not have it any more: it was deleted, expired or taken by force
	EndElapsed     EndReason = "elapsed"     // its fixed length is over, see lockrt.WithLease
	EndMaxHold     EndReason = "max_hold"    // it was held for longer than lockrt.WithMaxHold allows
	EndUnconfirmed EndReason = "unconfirmed" // no renewal was confirmed in time
	EndOther       EndReason = "other"       // anything else
)

// An UnreportedEvent is about an error that a generated method cannot return.
type UnreportedEvent struct {
	Name     string // of the method, like "orders.Service.Sweep"
	Template string // of the keys that it locks, as in "order:{o.ID}"
	Err      error
}
