package lockrt

import (
	"context"
	"fmt"
)

// Errors for nil arguments and zero values. Each call with one fails.
var (
	errNoClient = fmt.Errorf("%w: there is no client", ErrBadOption)
	errNoLock   = fmt.Errorf("%w: there is no lock", ErrBadOption)
	errNoLease  = fmt.Errorf("%w: there is no lease", ErrBadOption)
	errNoPermit = fmt.Errorf("%w: there is no permit", ErrBadOption)

	errNoContext  = fmt.Errorf("%w: there is no context", ErrBadOption)
	errNoOption   = fmt.Errorf("%w: an option is nil", ErrBadOption)
	errNoFunction = fmt.Errorf("%w: there is no function", ErrBadOption)
)

// noFunction returns the error of a call that needs a function to run under a lock, and has none.
func noFunction(op, key string) error { return &Error{Op: op, Key: key, Err: errNoFunction} }

// made returns c, or nil if neither [New] nor [Open] made it.
func (c *Client) made() *Client {
	if c == nil || c.rc == nil {
		return nil
	}
	return c
}

// present returns ctx, or, if it is nil, a context that has ended for that reason.
func present(ctx context.Context) context.Context {
	if ctx == nil {
		return absent{context.Background()}
	}
	return ctx
}

// An absent context replaces a nil context of the caller: every call under it fails before it sends anything.
type absent struct{ context.Context }

func (absent) Done() <-chan struct{} { return past }

func (absent) Err() error { return errNoContext }

// past is a channel that is closed.
var past = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// orZero returns p, or a zero value if it is nil.
func orZero[T any](p *T) *T {
	if p == nil {
		return new(T)
	}
	return p
}
