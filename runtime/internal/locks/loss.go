package locks

import (
	"errors"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/observe"
)

// opHold is the operation in the error of a lost lease.
const opHold = "hold"

// ofLease returns the error that the holder of the lease of key with that name sees after it ended
// because of cause.
func ofLease(key, name string, cause error) error {
	if of := (*observe.Error)(nil); !errors.Is(cause, failure.ErrLost) || errors.As(cause, &of) {
		return cause
	}
	return &observe.Error{Op: opHold, Key: key, Name: name, Err: cause}
}

// bare returns the reason why the lease of key ended, without the lease itself.
func bare(key string, err error) error {
	if of, ok := err.(*observe.Error); ok && of.Op == opHold && of.Key == key { //nolint:errorlint // an error of ofLease, with nothing around it
		return of.Err
	}
	return err
}

// failedAt returns err of an operation on the lock of the lease of key, or nil for nil.
func failedAt(op, key string, err error) error {
	if err == nil {
		return nil
	}
	failed := &observe.Error{Op: op, Key: key, Err: bare(key, err)}
	if of := (*observe.Error)(nil); errors.As(err, &of) && of.Op == opHold && of.Key == key {
		failed.Name = of.Name
	}
	return failed
}
