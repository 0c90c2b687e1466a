package generatedtest

import (
	"context"
	"encoding"
	"net"
)

// Ids that say in various ways how they are written into keys.
type (
	Plain    string // not at all
	Lower    string // by a LockKey
	LowerPtr string // by a LockKey of its pointer
	Signed   int64  // by an AppendLockKey, before a LockKey
	Texted   string // as a string, though it has a text too
	Words    struct{ A, B string }
	WordsKey struct{ Words } // by a LockKey, though it has a text too
)

// LockKey isn't asked for what the string is.
func (l Lower) LockKey() string { return "lower-" + string(l) }

// LockKey is one of the pointer.
func (l *LowerPtr) LockKey() string { return "ptr-" + string(*l) }

// LockKey comes second.
func (s Signed) LockKey() string { return "second" }

// AppendLockKey comes first.
func (s Signed) AppendLockKey(b []byte) ([]byte, error) {
	if s < 0 {
		return nil, errNameless
	}
	return append(b, "first/"...), nil
}

// MarshalText isn't asked for what is a string.
func (t Texted) MarshalText() ([]byte, error) { return []byte("text"), nil }

// MarshalText is how a struct is written.
func (w Words) MarshalText() ([]byte, error) { return []byte(w.A + ":" + w.B), nil }

// LockKey comes before the text.
func (w WordsKey) LockKey() string { return w.A }

// MakesKey is a function with a LockKey, which can be nil.
type MakesKey func() string

// LockKey calls the function.
func (m MakesKey) LockKey() string { return m() }

// A Keyer is an id of any type with a LockKey, which is asked for although the type may have more.
type Keyer interface{ LockKey() string }

// Known has the keys of types that are known when the code is generated. Those of the interfaces below, which are known only when it runs, must
// be the same.
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

// OpenText is constrained by a method that is not the first to be asked for.
//
//lockgen:service
type OpenText[K encoding.TextMarshaler] interface {
	//lockgen:lock key=gen:open:{id}
	One(ctx context.Context, id K) error
	//lockgen:lock key=gen:open:{ids...}
	List(ctx context.Context, ids ...K) error
}

// OpenKey is constrained by one that is asked for before kinds and texts.
//
//lockgen:service
type OpenKey[K interface{ LockKey() string }] interface {
	//lockgen:lock key=gen:open:{id}
	One(ctx context.Context, id K) error
}

// A Row says what it is by methods.
type Row struct {
	Name string
	No   int64
}

// ID names the row.
func (r Row) ID() string { return r.Name }

// Number fails without one.
func (r Row) Number() (int64, error) {
	if r.No == 0 {
		return 0, errNameless
	}
	return r.No, nil
}

// An Identified is anything with an id.
type Identified interface{ ID() string }

// A Holder has an id by what it embeds.
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
