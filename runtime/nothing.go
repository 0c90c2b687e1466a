package lockrt

import "fmt"

// What is nil, or a zero value, is of no use, and each call says so.
var (
	errNoClient = fmt.Errorf("%w: there is no client", ErrBadOption)
	errNoLock   = fmt.Errorf("%w: there is no lock", ErrBadOption)
	errNoLease  = fmt.Errorf("%w: there is no lease", ErrBadOption)
	errNoPermit = fmt.Errorf("%w: there is no permit", ErrBadOption)
)

// orZero returns p, or a zero value if it is nil.
func orZero[T any](p *T) *T {
	if p == nil {
		return new(T)
	}
	return p
}
