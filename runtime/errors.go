package lockrt

import (
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/observe"
)

// Errors to test for with [errors.Is]. ErrNotAcquired means that another holder has the lock: a goroutine of this
// process, or, by the last answer of Redis, another process. ErrUnavailable means that Redis has not answered since, or cannot
// grant locks at present, as without memory or with too few replicas, so that the holder is unknown; no error matches both. The error of Do, or of a generated method, matches one of them only if
// the work was not begun, or returned it: a lease or a permit whose release has no answer does not match ErrUnavailable.
// An error of the context also matches its cause, and an error of the network matches that of rueidis.
var (
	ErrNotAcquired = failure.ErrNotAcquired // others have the lock
	ErrUnavailable = failure.ErrUnavailable // Redis does not answer, or cannot grant; with its last error
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

// The types of errors are those of package observe.
type (
	Error         = observe.Error         // of a method: the operation, the key, the reason, and the holder
	DeadlockError = observe.DeadlockError // of a call that was ended to break a deadlock
	KeyError      = observe.KeyError      // of arguments that give no usable key
)
