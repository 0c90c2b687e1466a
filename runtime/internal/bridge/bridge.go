// Package bridge lets package gen, which serves generated code, reach functions of package lockrt that are not exported
// to programs. It imports neither of them: lockrt lends its functions and opens its types here, and gen takes them.
package bridge

import "context"

// Functions are lent by package lockrt. A field of type any has a function whose type names types of lockrt, which this
// package cannot name: gen asserts the type when it is initialized.
type Functions struct {
	Renews       any // func(c *lockrt.Client, opts []lockrt.LockOption) (renews bool, err error)
	Label        any // func(name, template string) lockrt.LockOption
	Profiles     any // func(c *lockrt.Client) bool
	PermitLocker any // func(s *lockrt.PermitSemaphore) lockrt.Locker
	GiveBack     any // func(leases []*lockrt.Lease, least time.Duration, keep bool) error
	Unreported   any // func(ctx context.Context, c *lockrt.Client, name, template string, err error)
	UnreportedOf any // func(call context.Context, l *lockrt.Lease, name, template string, err error)

	Ended     func(ctx context.Context) error
	Profiled  func(ctx context.Context, name string) (under context.Context, end func())
	AfterWork func(caller context.Context, err, more error) error
	Explain   func(name string, err error) error
}

var lent Functions

// Lend is called once, when package lockrt is initialized. Its result only lets it stand in a declaration.
func Lend(f Functions) struct{} {
	lent = f
	return struct{}{}
}

// Lent returns the functions of package lockrt.
func Lent() Functions { return lent }

// An Entity is embedded by the types of lockrt that lock entities. Only the functions of this package set and read its
// content, so programs do not see it.
type Entity[K, P any] struct{ parts Parts[K, P] }

// Parts are the parts of the lock of one or several entities.
type Parts[K, P any] struct {
	Lock  P
	Name  string // of the method that gives it, like "orders.Locks.Order"
	ID    K
	Keys  []string // of several, each in the place of its id
	Fence bool     // a writer has a fencing token
	Err   error    // why the key could not be built
}

// Bind makes e the lock that consists of p.
func Bind[K, P any](e *Entity[K, P], p Parts[K, P]) { e.parts = p }

// Of returns the parts of e.
func Of[K, P any](e *Entity[K, P]) *Parts[K, P] { return &e.parts }
