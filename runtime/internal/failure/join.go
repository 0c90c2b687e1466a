package failure

import (
	"context"
	"errors"
)

// Join joins the errors that are not nil, and omits one that adds nothing.
func Join(err, more error) error {
	if more == nil || err != nil && errors.Is(err, ErrLost) && errors.Is(more, ErrLost) {
		return err
	}
	if err == nil {
		return more
	}
	return &joined{err, more}
}

// A joined error is two errors on one line of text.
type joined struct{ first, second error }

func (e *joined) Error() string { return e.first.Error() + "; " + e.second.Error() }

func (e *joined) Unwrap() []error { return []error{e.first, e.second} }

// AfterLoss joins the error of work under a lease, err, and the error of the release, more. caller is the context of
// the call. Work that ended because of the loss often returns that its context was cancelled. A caller whose own
// context goes on must not mistake that for its end.
func AfterLoss(caller context.Context, err, more error) error {
	if errors.Is(more, ErrLost) && caller.Err() == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		err = &ofWork{err}
	}
	return Join(err, more)
}

// An ofWork is an error that matches what err matches, except for the ends of contexts.
type ofWork struct{ err error }

func (e *ofWork) Error() string { return e.err.Error() }

func (e *ofWork) Is(target error) bool {
	return target != context.Canceled && target != context.DeadlineExceeded && errors.Is(e.err, target) //nolint:errorlint // these very errors
}

func (e *ofWork) As(target any) bool { return errors.As(e.err, target) }
