package core

import (
	"context"
	"fmt"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/observe"
)

// Errors for nil arguments and zero values. Each call with one fails.
var (
	ErrNoClient = fmt.Errorf("%w: there is no client", failure.ErrBadOption)
	ErrNoLock   = fmt.Errorf("%w: there is no lock", failure.ErrBadOption)
	ErrNoLease  = fmt.Errorf("%w: there is no lease", failure.ErrBadOption)
	ErrNoPermit = fmt.Errorf("%w: there is no permit", failure.ErrBadOption)

	ErrNoContext  = fmt.Errorf("%w: there is no context", failure.ErrBadOption)
	ErrNoOption   = fmt.Errorf("%w: an option is nil", failure.ErrBadOption)
	ErrNoFunction = fmt.Errorf("%w: there is no function", failure.ErrBadOption)
)

// NoFunction returns the error of a call that needs a function to run under a lock, and has none.
func NoFunction(op, key string) error { return &observe.Error{Op: op, Key: key, Err: ErrNoFunction} }

// Made returns c, or nil if Init has not made it.
func (c *Client) Made() *Client {
	if c == nil || c.RC == nil {
		return nil
	}
	return c
}

// Present returns ctx, or, if it is nil, a context that has ended for that reason.
func Present(ctx context.Context) context.Context {
	if ctx == nil {
		return absent{context.Background()}
	}
	return ctx
}

// An absent context replaces a nil context of the caller: every call under it fails before it sends anything.
type absent struct{ context.Context }

func (absent) Done() <-chan struct{} { return past }

func (absent) Err() error { return ErrNoContext }

// past is a channel that is closed.
var past = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// OrZero returns p, or a zero value if it is nil.
func OrZero[T any](p *T) *T {
	if p == nil {
		return new(T)
	}
	return p
}
