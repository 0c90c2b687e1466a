package generatedtest

import (
	"context"
	"encoding"
	"net"
)

// Ids with various representations in keys.
type (
	Plain    string // the plain string
	Lower    string // from LockKey
	LowerPtr string // from LockKey of its pointer
	Signed   int64  // from AppendLockKey, which precedes LockKey
	Texted   string // the string, although it has a text too
	Words    struct{ A, B string }
	WordsKey struct{ Words } // from LockKey, although it has a text too
)

// LockKey is called, although the type is a string.
func (l Lower) LockKey() string { return "lower-" + string(l) }

// LockKey is one of the pointer.
func (l *LowerPtr) LockKey() string { return "ptr-" + string(*l) }

// LockKey is not called, since there is AppendLockKey.
func (s Signed) LockKey() string { return "second" }

// AppendLockKey precedes LockKey.
func (s Signed) AppendLockKey(b []byte) ([]byte, error) {
	if s < 0 {
		return nil, errNameless
	}
	return append(b, "first/"...), nil
}

// MarshalText is not called, since the type is a string.
func (t Texted) MarshalText() ([]byte, error) { return []byte("text"), nil }

// MarshalText is the representation of a struct.
func (w Words) MarshalText() ([]byte, error) { return []byte(w.A + ":" + w.B), nil }

// LockKey precedes MarshalText.
func (w WordsKey) LockKey() string { return w.A }

// MakesKey is a function type with a LockKey, and can be nil.
type MakesKey func() string

// LockKey calls the function.
func (m MakesKey) LockKey() string { return m() }

// A Keyer is an id of any type with a LockKey, which takes precedence over everything else that the
// type has.
type Keyer interface{ LockKey() string }

// Known has keys of types that are known when the code is generated. The interfaces below have the same types, known
// only when the code runs. Both must give the same keys.
//
//lockgen:service
type Known interface {
	//lockgen:lock key=gen:open:plain:{id}
	Plain(ctx context.Context, id Plain) error
	//lockgen:lock key=gen:open:lower:{id}
	Lower(ctx context.Context, id Lower) error
	//lockgen:lock key=gen:open:ptr:{id}
	LowerPtr(ctx context.Context, id LowerPtr) error
	//lockgen:lock key=gen:open:signed:{id}
	Signed(ctx context.Context, id Signed) error
	//lockgen:lock key=gen:open:texted:{id}
	Texted(ctx context.Context, id Texted) error
	//lockgen:lock key=gen:open:pointer:{id}
	TextedPtr(ctx context.Context, id *Texted) error
	//lockgen:lock key=gen:open:words:{id}
	Words(ctx context.Context, id Words) error
	//lockgen:lock key=gen:open:wordsptr:{id}
	WordsPtr(ctx context.Context, id *Words) error
	//lockgen:lock key=gen:open:wordskey:{id}
	WordsKey(ctx context.Context, id WordsKey) error
	//lockgen:lock key=gen:open:text:{id}
	Text(ctx context.Context, id encoding.TextMarshaler) error
	//lockgen:lock key=gen:open:keyer:{id}
	Keyer(ctx context.Context, id Keyer) error
	//lockgen:lock key=gen:open:uuid:{id}
	UUID(ctx context.Context, id UUID) error
	//lockgen:lock key=gen:open:bytes:{id}
	Bytes(ctx context.Context, id []byte) error
	//lockgen:lock key=gen:open:ip:{id}
	IP(ctx context.Context, id net.IP) error
	//lockgen:lock key=gen:open:makeskey:{id}
	MakesKey(ctx context.Context, id MakesKey) error
	//lockgen:lock key=gen:open:bool:{id}
	Bool(ctx context.Context, id bool) error
	//lockgen:lock key=gen:open:uint:{id}
	Uint(ctx context.Context, id uint8) error
}

// OpenKind is constrained by kinds.
//
//lockgen:service
type OpenKind[K ~string | ~int64 | ~uint8 | ~bool | ~[16]byte | ~[]byte] interface {
	//lockgen:lock key=gen:open:{id}
	One(ctx context.Context, id K) error
	//lockgen:lock key=gen:open:{id}
	Pointer(ctx context.Context, id *K) error
	//lockgen:lock key=gen:open:{ids...}
	List(ctx context.Context, ids ...K) error
	//lockgen:lock key=gen:open:{id} empty=allow
	Empty(ctx context.Context, id K) error
}

// OpenText is constrained by a method that does not come first in precedence.
//
//lockgen:service
type OpenText[K encoding.TextMarshaler] interface {
	//lockgen:lock key=gen:open:{id}
	One(ctx context.Context, id K) error
	//lockgen:lock key=gen:open:{ids...}
	List(ctx context.Context, ids ...K) error
}

// OpenKey is constrained by a method that precedes kinds and texts.
//
//lockgen:service
type OpenKey[K interface{ LockKey() string }] interface {
	//lockgen:lock key=gen:open:{id}
	One(ctx context.Context, id K) error
}

// A Row has its parts as methods.
type Row struct {
	Name string
	No   int64
}

// ID names the row.
func (r Row) ID() string { return r.Name }

// Number fails without a number.
func (r Row) Number() (int64, error) {
	if r.No == 0 {
		return 0, errNameless
	}
	return r.No, nil
}

// An Identified is anything with an id.
type Identified interface{ ID() string }

// A Holder has the id of the value that it embeds.
type Holder struct{ Identified }

// ClosedPath has paths that go on from an interface.
//
//lockgen:service
type ClosedPath interface {
	//lockgen:lock key=gen:closed:{row.ID()}
	One(ctx context.Context, row Identified) error
	//lockgen:lock key=gen:closed:{holder.ID()}
	Promoted(ctx context.Context, holder *Holder) error
	//lockgen:lock key=gen:closed:{rows...}
	List(ctx context.Context, rows ...Keyer) error
}

// OpenPath has paths that go on from a type parameter.
//
//lockgen:service
type OpenPath[R interface {
	ID() string
	Number() (int64, error)
}] interface {
	//lockgen:lock key=gen:open:{row.ID()}
	One(ctx context.Context, row R) error
	//lockgen:lock key=gen:open:{row.Number()}
	Fails(ctx context.Context, row R) error
}
