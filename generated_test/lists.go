package generatedtest

import (
	"context"
	stderrors "errors"
	"net/netip"
	"strings"

	lockrt "github.com/lockgen/lockgen/runtime"
)

var errNameless = stderrors.New("without a name")

// A UUID is an id of bytes, as in several packages.
type UUID [16]byte

// A Line is a part of an order.
type Line struct {
	SKU string
	Qty int
}

// LockKey names what the line takes from the stock.
func (l *Line) LockKey() string { return l.SKU }

// A Tag has its own representation in keys.
type Tag struct{ Space, Name string }

// AppendLockKey fails without a name.
func (t Tag) AppendLockKey(b []byte) ([]byte, error) {
	if t.Name == "" {
		return b, errNameless
	}
	return append(append(append(b, t.Space...), '/'), t.Name...), nil
}

// Lists is a service with one lock for each element of a list.
//
//lockgen:service
type Lists interface {
	// Merge folds orders into the first.
	//
	//lockgen:lock key=gen:order:{ids...} wait=0
	Merge(ctx context.Context, ids ...OrderID) error

	// Reserve takes lines out of the stock of a tenant.
	//
	//lockgen:lock key=gen:{{tenant}}
	//lockgen:lock key=gen:{{tenant}}:sku:{lines...} max=3
	Reserve(ctx context.Context, tenant string, lines []*Line) error

	// Pack takes orders, and then the place where they are packed.
	//
	//lockgen:lock key=gen:order:{ids...}
	//lockgen:lock key=gen:place:{place}
	//lockgen:lock key=gen:place:{place}/{ids...}
	Pack(ctx context.Context, place string, ids ...OrderID) error

	// Touch takes all elements, or no lock if there are none.
	//
	//lockgen:lock key=gen:uuid:{ids...} empty=allow
	Touch(ctx context.Context, ids []UUID) error

	// Bind has parts that are written as hexadecimal and as text.
	//
	//lockgen:lock key=gen:{id}:{hash}:{addr}:{tag}
	Bind(ctx context.Context, id UUID, hash []byte, addr netip.Addr, tag Tag) error

	// Ask has a key part from a function, and one that the function makes as a whole.
	//
	//lockgen:lock key=@askKey
	//lockgen:lock key=@pathKey
	Ask(ctx context.Context, question string, path ...string) error
}

func askKey(question string) (string, error) {
	if question == "why" {
		return "", errNameless
	}
	return question, nil
}

func pathKey(path ...string) lockrt.Key { return lockrt.Key(strings.Join(path, "/")) }

// Box has keys of any type that has a representation in keys.
//
//lockgen:service
type Box[K interface{ LockKey() string }, M ~string | ~int | ~uint16 | ~bool] interface {
	//lockgen:lock key=gen:box:{k}:{m}
	Put(ctx context.Context, k K, m M) error
}
