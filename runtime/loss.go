package lockrt

import (
	"context"
	"errors"
)

// opHold is the operation in the error of a lost lease.
const opHold = "hold"

// ofLease returns the error that the holder of the lease of key with that name sees after it ended
// because of cause.
func ofLease(key, name string, cause error) error {
	if of := (*Error)(nil); !errors.Is(cause, ErrLost) || errors.As(cause, &of) {
		return cause
	}
	return &Error{Op: opHold, Key: key, Name: name, Err: cause}
}

// bare returns the reason why the lease of key ended, without the lease itself.
func bare(key string, err error) error {
	if of, ok := err.(*Error); ok && of.Op == opHold && of.Key == key { //nolint:errorlint // an error of ofLease, with nothing around it
		return of.Err
	}
	return err
}

// failedAt returns err of an operation on the lock of the lease of key, or nil for nil.
func failedAt(op, key string, err error) error {
	if err == nil {
		return nil
	}
	failed := &Error{Op: op, Key: key, Err: bare(key, err)}
	if of := (*Error)(nil); errors.As(err, &of) && of.Op == opHold && of.Key == key {
		failed.Name = of.Name
	}
	return failed
}

// afterLoss joins the error of work under a lease, err, and the error of the release, more. caller is the context of
// the call. Work that ended because of the loss often returns that its context was cancelled. A caller whose own
// context goes on must not mistake that for its end.
func afterLoss(caller context.Context, err, more error) error {
	if errors.Is(more, ErrLost) && caller.Err() == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		err = &ofWork{err}
	}
	return join(err, more)
}

// An ofWork is an error that matches what err matches, except for the ends of contexts.
type ofWork struct{ err error }

func (e *ofWork) Error() string { return e.err.Error() }

func (e *ofWork) Is(target error) bool {
	return target != context.Canceled && target != context.DeadlineExceeded && errors.Is(e.err, target) //nolint:errorlint // these very errors
}

func (e *ofWork) As(target any) bool { return errors.As(e.err, target) }
