package observe

import (
	"fmt"

	"github.com/lockgen/lockgen/runtime/internal/failure"
)

// An Error is the error of a method:
//
//	lockgen: lock "order:42": not acquired after 3s (held by host-a, pid 4211, since 14:02:11, seen at 14:02:12)
type Error struct {
	Op     string  // "lock", "unlock", "read lock", "ttl", "force unlock", "acquire", "release", ...
	Key    string  // of a MultiLock that of the member that failed, or all
	Name   string  // lockrt.WithName of a call that acquires, or of the lost lease, or ""
	Err    error   // why it failed
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

// A DeadlockError is the error of a call that the client ended to break a deadlock, see BreakDeadlocks of lockrt.Options. It matches
// lockrt.ErrDeadlock.
type DeadlockError struct{ Deadlock Deadlock }

// Error names the key, the process, the name and the time of each call of the circle.
func (e *DeadlockError) Error() string {
	return failure.ErrDeadlock.Error() + ": " + e.Deadlock.String()
}

// Unwrap returns lockrt.ErrDeadlock.
func (e *DeadlockError) Unwrap() error { return failure.ErrDeadlock }

// A KeyError says why the arguments of a call give no key, or why the key is unusable. The call has sent nothing.
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
