package locks

import (
	"context"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// ended returns the error of a context that is done.
func ended(ctx context.Context) error { return failure.Ended(ctx) }

func cmpOr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// refused translates an answer of Redis into the error that callers test for.
func refused(err error) error { return transport.Refused(err) }

// passing reports whether err goes away by itself, so that a waiting call may wait for that too.
func passing(err error) bool { return transport.Passing(err) }

// sendsAgain returns how often a call that does not wait sends a request again at once that failed with err: once to
// learn its outcome, and once for each connection to a server that may have been cut while it was idle: the connection
// of a lone caller, and the shared one.
func sendsAgain(err error) int {
	switch {
	case transport.Cut(err):
		return 2
	case transport.Unknown(err):
		return 1
	}
	return 0
}
