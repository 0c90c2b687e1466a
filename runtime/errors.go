package lockrt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// Errors to test for with [errors.Is]. When a context ended a call, its error matches
// ctx.Err() and [context.Cause] of it, and says what Redis had said by then; when Redis or the way to it did, the error of rueidis.
//
// A call that waits, or tries, fails with ErrNotAcquired if somebody else has what it wants: a goroutine of this process,
// or by the last answer of Redis, which is asked once more when the wait is over unless it has just answered. It fails with
// ErrUnavailable if Redis has not answered since, so that nobody knows; then it never matches ErrNotAcquired.
var (
	ErrNotAcquired = errors.New("not acquired")             // Redis says that somebody else has it; see ErrUnavailable
	ErrUnavailable = errors.New("server unavailable")       // it has not said whether somebody else has it; with what it failed
	ErrLost        = errors.New("lease lost")               // ended by neither Unlock nor Close
	ErrReleased    = errors.New("lease released")           // ended by Unlock
	ErrClosed      = errors.New("client closed")            // ended by Close or Shutdown
	ErrUpgrade     = errors.New("held for reading")         // by the one who asks to write: it would wait for itself
	ErrWrongType   = errors.New("key holds something else") // the key is not a lock: a string, a list, ...
	ErrDeleted     = errors.New("latch deleted")            // while it was waited for
	ErrReplicas    = transport.ErrReplicas                  // by as many as [Options.Replicas] says: what was granted is given back
	ErrBadOption   = errors.New("unusable option")          // a zero or negative duration, or two that exclude each other
)

// An Error is what the methods that talk to Redis return. It reads
//
//	lockgen: lock "order:42": not acquired after 3s
type Error struct {
	Op  string // "lock", "unlock", "read lock", "ttl", "force unlock", "acquire", "release", ...
	Key string
	Err error
}

// Error says what was to be done to which key, and what went wrong.
func (e *Error) Error() string { return fmt.Sprintf("lockgen: %s %q: %v", e.Op, e.Key, e.Err) }

// Unwrap returns what went wrong.
func (e *Error) Unwrap() error { return e.Err }

// A KeyError says why a key cannot be built from the arguments of a call, or cannot be
// used. Nothing has been sent to Redis.
type KeyError struct {
	Name   string // of the lock in generated code, like "orders.Service.Pay"; else empty
	Path   string // the part of the key, like "o.Owner"; empty for the key as a whole
	Reason string // "is nil", "is empty", ...
	Err    error  // what the method or function said that was to make the part; else nil
}

// Error says which part of which key is unusable, and why.
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

// Unwrap returns the error of what was to make the part, or nil.
func (e *KeyError) Unwrap() error { return e.Err }

// errLate is the outcome of a request that was granted for a time that is over already.
var errLate = errors.New("the answer came when the lease it granted was over")

// ended returns the error of a context that is done.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(cause, err) {
		return cmpOr(cause, err)
	}
	return fmt.Errorf("%w: %w", err, cause)
}

func cmpOr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// refused translates what Redis answered into the error that callers test for.
func refused(err error) error {
	reply, ok := rueidis.IsRedisErr(err)
	switch {
	case !ok:
		return err
	case strings.Contains(reply.Error(), "WRONGTYPE"):
		return fmt.Errorf("%w: %w", ErrWrongType, err)
	case transport.Denied(err):
		return fmt.Errorf("a permission is missing, which ACL LOG on the server names: %w", err)
	}
	return err
}

// lasting are the errors of the client itself that will be the same the next time.
var lasting = []error{ErrBadOption, ErrClosed, ErrUpgrade, ErrDeleted}

// passing reports whether err goes away by itself, so that a call that waits anyway may wait for that too.
func passing(err error) bool {
	if _, ok := transport.Replied(err); !ok && slices.ContainsFunc(lasting, func(target error) bool { return errors.Is(err, target) }) {
		return false
	}
	return transport.Passing(err)
}

// sendsAgain returns how often a request that failed with err is sent again at once by a call that does not wait: once to learn
// what it did, and as often as a client has connections to a server that may have been cut while nobody used them, which are
// the one for a lone caller and the one that all share.
func sendsAgain(err error) int {
	switch {
	case transport.Cut(err):
		return 2
	case transport.Unknown(err):
		return 1
	}
	return 0
}
