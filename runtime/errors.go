package lockrt

import (
	"context"
	"fmt"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// Errors to test for with [errors.Is]. ErrNotAcquired means that another holder has the lock: a goroutine of this
// process, or, by the last answer of Redis, another process. ErrUnavailable means that Redis has not answered since, so
// that the holder is unknown; no error matches both. An error of the context also matches its cause, and an error
// of the network matches that of rueidis.
var (
	ErrNotAcquired = failure.ErrNotAcquired // others have the lock
	ErrUnavailable = failure.ErrUnavailable // Redis does not answer; with its last error
	ErrLost        = failure.ErrLost        // the lease ended without Unlock or Close
	ErrReleased    = failure.ErrReleased    // the lease was unlocked
	ErrClosed      = failure.ErrClosed      // by Close or Shutdown; Redis may have run the last request
	ErrUpgrade     = failure.ErrUpgrade     // the call asks to write under its own read lease, and would wait for itself
	ErrWrongType   = failure.ErrWrongType   // the key is not a lock: a string, a list, ...
	ErrDeleted     = failure.ErrDeleted     // while a call waited for it
	ErrDeadlock    = failure.ErrDeadlock    // the call was ended to break one; a [DeadlockError] names its calls
	ErrReplicas    = failure.ErrReplicas    // fewer replicas than [Options.Replicas] confirmed: the Client released the grant
	ErrBadOption   = failure.ErrBadOption   // an option, a number or an argument; nothing was sent
)

// An Error is the error of a method:
//
//	lockgen: lock "order:42": not acquired after 3s (held by host-a, pid 4211, since 14:02:11, seen at 14:02:12)
type Error struct {
	Op     string // "lock", "unlock", "read lock", "ttl", "force unlock", "acquire", "release", ...
	Key    string // of a MultiLock that of the member that failed, or all
	Name   string // [WithName] of a call that acquires, or of the lost lease, or ""
	Err    error
	Holder *Holder // the holder that the call waited for, if the Client knows it; else nil
}

// Error returns the operation, the key and the reason, and the holder if it is known.
func (e *Error) Error() string {
	text := fmt.Sprintf("lockgen: %s %q: %v", e.Op, e.Key, e.Err)
	if e.Holder != nil {
		text += " (" + e.Holder.String() + ")"
	}
	return text
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// A DeadlockError is the error of a call that the client ended to break a deadlock, see [Options.BreakDeadlocks]. It
// matches [ErrDeadlock].
type DeadlockError struct{ Deadlock Deadlock }

// Error names the key, the process, the name and the time of each call of the circle.
func (e *DeadlockError) Error() string { return ErrDeadlock.Error() + ": " + e.Deadlock.String() }

// Unwrap returns [ErrDeadlock].
func (e *DeadlockError) Unwrap() error { return ErrDeadlock }

// A KeyError says why the arguments of a call give no key, or why the key is unusable. The call has sent
// nothing.
type KeyError struct {
	Name   string // of the lock in generated code, like "orders.Service.Pay"; else empty
	Path   string // the part of the key, like "o.Owner"; empty for the key as a whole
	Reason string // "is nil", "is empty", ...
	Err    error  // the error of the method or function that makes the part; else nil
}

// Error names the part of the key, and what is wrong with it.
func (e *KeyError) Error() string {
	path := e.Path
	if path == "" {
		path = "the key"
	}
	if e.Name == "" {
		return path + " " + e.Reason
	}
	return e.Name + ": " + path + " " + e.Reason
}

// Unwrap returns Err.
func (e *KeyError) Unwrap() error { return e.Err }

// ended returns the error of a context that is done.
func ended(ctx context.Context) error { return failure.Ended(ctx) }

func cmpOr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// refused translates an answer of Redis into the error that callers test for.
func refused(err error) error { return transport.Refused(err) }

// passing reports whether err goes away by itself, so that a waiting call may wait for that too.
func passing(err error) bool { return transport.Passing(err) }

// sendsAgain returns how often a call that does not wait sends a request again at once that failed with err: once to
// learn its outcome, and once for each connection to a server that may have been cut while it was idle: the connection
// of a lone caller, and the shared one.
func sendsAgain(err error) int {
	switch {
	case transport.Cut(err):
		return 2
	case transport.Unknown(err):
		return 1
	}
	return 0
}
