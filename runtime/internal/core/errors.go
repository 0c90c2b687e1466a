package core

import (
	"context"
	"errors"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/observe"
)

// Ended returns the error of a context that is done.
func Ended(ctx context.Context) error { return failure.Ended(ctx) }

// FirstError returns a, or b if a is nil.
func FirstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// Refused translates an answer of Redis into the error that callers test for.
func Refused(err error) error { return transport.Refused(err) }

// Passing reports whether err goes away by itself, so that a waiting call may wait for that too.
func Passing(err error) bool { return transport.Passing(err) }

// SendsAgain returns how often a call that does not wait sends a request again at once that failed with err. It sends a request with an
// unknown outcome once more. After a cut connection, it sends the request once for each connection to a server that may have been cut while
// it was idle: the direct one, and the shared one. A connection that is cut while it is dialled costs one more request.
func SendsAgain(err error) int {
	switch {
	case transport.CutWhileDialled(err):
		return 3
	case transport.Cut(err):
		return 2
	case transport.Unknown(err):
		return 1
	}
	return 0
}

// OpHold is the operation in the error of a lost lease.
const OpHold = "hold"

// LeaseError returns the error that a holder sees after cause ended its lease of key, which has that name.
func LeaseError(key, name string, cause error) error {
	if of := (*observe.Error)(nil); !errors.Is(cause, failure.ErrLost) || errors.As(cause, &of) {
		return cause
	}
	return &observe.Error{Op: OpHold, Key: key, Name: name, Err: cause}
}

// CauseOf returns the cause in err, if err is the LeaseError of a lease of key, and otherwise err.
func CauseOf(key string, err error) error {
	if of, ok := err.(*observe.Error); ok && of.Op == OpHold && of.Key == key { //nolint:errorlint // a LeaseError, with nothing around it
		return of.Err
	}
	return err
}

// FailedAt returns the error of the operation op on the lock named key that failed with err, or nil if err is nil.
func FailedAt(op, key string, err error) error {
	if err == nil {
		return nil
	}
	failed := &observe.Error{Op: op, Key: key, Err: CauseOf(key, err)}
	if of := (*observe.Error)(nil); errors.As(err, &of) && of.Op == OpHold && of.Key == key {
		failed.Name = of.Name
	}
	return failed
}
