package lockrt

import (
	"context"
	"errors"
)

// opHold is the operation that the error of a lost lease is of.
const opHold = "hold"

// ofLease returns cause, why the lease of key with that name ended, as the error that its holder sees.
func ofLease(key, name string, cause error) error {
	if of := (*Error)(nil); !errors.Is(cause, ErrLost) || errors.As(cause, &of) {
		return cause
	}
	return &Error{Op: opHold, Key: key, Name: name, Err: cause}
}

// bare returns why the lease of key ended without saying again which lease it is.
func bare(key string, err error) error {
	if of, ok := err.(*Error); ok && of.Op == opHold && of.Key == key { //nolint:errorlint // what ofLease made, and nothing around it
		return of.Err
	}
	return err
}

// failedAt returns err of an operation on what the lease of key is of.
func failedAt(op, key string, err error) error {
	failed := &Error{Op: op, Key: key, Err: bare(key, err)}
	if of := (*Error)(nil); errors.As(err, &of) && of.Op == opHold && of.Key == key {
		failed.Name = of.Name
	}
	return failed
}

// afterLoss joins what work under a lease returned, err, with what giving it back did, more. caller is the context of the call. Work that
// ended since the lease was lost often says that its context was cancelled; a caller whose own context goes on is not to take that
// for the end of it.
func afterLoss(caller context.Context, err, more error) error {
	if errors.Is(more, ErrLost) && caller.Err() == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		err = &ofWork{err}
	}
	return join(err, more)
}

// An ofWork is an error that matches what err does, but for the ends of contexts.
type ofWork struct{ err error }

func (e *ofWork) Error() string { return e.err.Error() }

func (e *ofWork) Is(target error) bool {
	return target != context.Canceled && target != context.DeadlineExceeded && errors.Is(e.err, target) //nolint:errorlint // these very ones
}

func (e *ofWork) As(target any) bool { return errors.As(e.err, target) }
