// Package failure has the errors that programs test for. Package lockrt exports and documents them.
package failure

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// The errors of calls, and of the ends of leases.
var (
	ErrNotAcquired = errors.New("not acquired")
	ErrUnavailable = errors.New("server unavailable")
	ErrLost        = errors.New("lease lost")
	ErrReleased    = errors.New("lease released")
	ErrClosed      = errors.New("client closed")
	ErrUpgrade     = errors.New("held for reading")
	ErrWrongType   = errors.New("key holds something else")
	ErrDeleted     = errors.New("latch deleted")
	ErrDeadlock    = errors.New("deadlock")
	ErrReplicas    = errors.New("not confirmed by replicas")
	ErrBadOption   = errors.New("unusable option")
)

// named are all of these.
var named = []error{
	ErrNotAcquired, ErrUnavailable, ErrLost, ErrReleased, ErrClosed, ErrUpgrade, ErrWrongType, ErrDeleted, ErrDeadlock, ErrReplicas, ErrBadOption,
}

// Named reports whether err matches one of the errors that programs test for.
func Named(err error) bool { return matches(err, named) }

// lasting are the errors of the client itself that the next call would get again.
var lasting = []error{ErrBadOption, ErrClosed, ErrUpgrade, ErrDeleted}

// Lasting reports whether err is one of the client itself that the next call would get again.
func Lasting(err error) bool { return matches(err, lasting) }

// matches reports whether err matches one of the targets.
func matches(err error, targets []error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// Ended returns the error of a context that is done.
func Ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	switch {
	case cause == nil:
		return err
	case errors.Is(cause, err):
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// Lost returns the error of a lease that was lost because of cause.
func Lost(cause error) error { return fmt.Errorf("%w: %w", ErrLost, cause) }
