package generatedtest

import (
	"context"
	"io"
	"iter"
	"time"
)

// Ids of the things that are locked.
type (
	OrderID string
	UserID  int64
)

// A User owns orders.
type User struct{ ID UserID }

// Label names the user; nil has none.
func (u *User) Label() string {
	if u == nil {
		return ""
	}
	return "u-" + time.Duration(u.ID).String()
}

// An Order is an order of a user.
type Order struct {
	*Audit
	ID    OrderID
	Owner *User
	Ref   *string
}

// A Region has a key of its own.
type Region struct{ Country, City string }

// LockKey names the region in keys.
func (r Region) LockKey() string { return r.Country + "/" + r.City }

// Audit is embedded, so its field is promoted.
type Audit struct{ By UserID }

// Orders is a service with every form of lock.
//
//lockgen:service wait=ctx require=all
type Orders interface {
	// Pay settles the order.
	//
	//lockgen:lock key=gen:order:{o.ID}
	Pay(ctx context.Context, o *Order, cents int64) (receipt string, err error)

	// Ship sends the order unless another caller does so already.
	//
	//lockgen:lock key=gen:order:{id} wait=0
	Ship(ctx context.Context, id OrderID) error

	// Soon waits a little.
	//
	//lockgen:lock key=gen:order:{id} wait=20ms
	Soon(id OrderID) (int, error)

	// Transfer moves an order to another user.
	//
	//lockgen:lock key=gen:order:{o.ID}
	//lockgen:lock key=gen:user:{o.Owner.ID}
	//lockgen:lock key=gen:user:{to}
	Transfer(ctx context.Context, o *Order, to UserID) error

	// Nightly runs once, for all callers together.
	//
	//lockgen:lock key=gen:nightly:{shard} wait=0 busy=skip
	Nightly(ctx context.Context, shard string) error

	// Sweep tidies up, and reports nothing.
	//
	//lockgen:lock key=gen:sweep:{shard} wait=0 busy=skip lease=1m
	Sweep(ctx context.Context, shard string)

	// Global has no part that varies.
	//
	//lockgen:lock key=gen:global
	//lockgen:lock key=gen:global:two
	Global(ctx context.Context) error

	// Audited has a path through an embedded pointer, a method, and a pointer to a string.
	//
	//lockgen:lock key=gen:{o.By}/{o.Owner.Label()}:{o.Ref}
	Audited(ctx context.Context, o Order) error

	// Lines goes on after it returned.
	//
	//lockgen:lock key=gen:order:{id} scope=return
	Lines(ctx context.Context, id OrderID) (iter.Seq[string], error)

	// Tagged puts all keys of a tenant into one slot of a cluster.
	//
	//lockgen:lock key=gen:{{tenant}}:order
	//lockgen:lock key=gen:{{tenant}}:region:{r}
	Tagged(ctx context.Context, tenant string, r Region) error

	//lockgen:nolock
	Export(ctx context.Context, w io.Writer, parts ...string) (n int, err error)
}
