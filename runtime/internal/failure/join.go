package failure

import (
	"context"
	"errors"
	"slices"
)

// Join joins the errors that are not nil, and omits a second loss, which adds nothing.
func Join(err, more error) error {
	switch {
	case more == nil:
		return err
	case err == nil:
		return more
	case errors.Is(err, ErrLost) && errors.Is(more, ErrLost):
		return Join(err, besidesLoss(more))
	}
	return &joined{err, more}
}

// besidesLoss returns what err says besides a loss: that another lock could not be released, for example.
func besidesLoss(err error) error {
	if !errors.Is(err, ErrLost) {
		return err
	}
	switch e := err.(type) {
	case *joined:
		return Join(besidesLoss(e.first), besidesLoss(e.second))
	case *apart:
		if rest := besidesLoss(e.err); rest != nil {
			return &apart{rest, e.from}
		}
	case interface{ Unwrap() error }:
		return besidesLoss(e.Unwrap())
	}
	return nil
}

// A joined error is two errors on one line of text.
type joined struct{ first, second error }

func (e *joined) Error() string { return e.first.Error() + "; " + e.second.Error() }

func (e *joined) Unwrap() []error { return []error{e.first, e.second} }

// AfterWork joins the error of work under a lease, err, and the error of the release, more. caller is the context of the call.
//
// Work that ended because of the loss often returns that its context was cancelled. A caller whose own context goes on must not mistake that
// for its end. And a caller that calls again after an outage must not do the work twice: no answer to the release is not
// [ErrUnavailable], which means that the work was not begun.
func AfterWork(caller context.Context, err, more error) error {
	if errors.Is(more, ErrLost) && caller.Err() == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		err = &apart{err, []error{context.Canceled, context.DeadlineExceeded}}
	}
	return Join(err, OfRelease(more))
}

// OfRelease returns the error of a release, err, so that it does not match [ErrUnavailable].
func OfRelease(err error) error {
	if !errors.Is(err, ErrUnavailable) {
		return err
	}
	return &apart{err, []error{ErrUnavailable}}
}

// OfPart returns the error of requests for parts of a lease, err, so that it does not match [ErrLost]: the lease goes on without the parts that are lost.
func OfPart(err error) error {
	if !errors.Is(err, ErrLost) {
		return err
	}
	return &apart{err, []error{ErrLost}}
}

// An apart error matches what err matches, except for some.
type apart struct {
	err  error
	from []error
}

func (e *apart) Error() string { return e.err.Error() }

func (e *apart) Is(target error) bool {
	return !slices.Contains(e.from, target) && errors.Is(e.err, target)
}

func (e *apart) As(target any) bool { return errors.As(e.err, target) }
