package model

import (
	"go/token"
	"go/types"
	"strings"
)

// A Form is one of the ways to write the values of a type into a key: by a method of the type, or by its kind.
type Form struct {
	Method    string // of the type; empty for a form by kind
	Signature *types.Signature
	Own       bool // the method has no other purpose, so that another signature is a mistake

	Kind  types.BasicInfo // of a form by kind: what the underlying basic type is
	Bytes bool            // of a form by kind: it is a list of bytes

	Leaf Leaf
}

// Forms is the table of all forms. A type is written by the first one that it has.
//
// Package gen of the runtime has the same table, for types that only the program knows: those of type arguments. It has its own copy, since programs
// would link go/types with this one. The test TestForms_AsInTheRuntime of the package that resolves keys compares both.
var Forms = []Form{
	{Method: "AppendLockKey", Signature: appends, Own: true, Leaf: Text},
	{Method: "LockKey", Signature: plain, Own: true, Leaf: String},
	{Kind: types.IsString, Leaf: String},
	{Kind: types.IsUnsigned, Leaf: Uint},
	{Kind: types.IsInteger, Leaf: Int},
	{Kind: types.IsBoolean, Leaf: Bool},
	// Bytes that know how they are written have one text, and can be of several forms, as net.IP is: these stand before the bytes.
	{Method: "AppendText", Signature: appends, Leaf: Text},
	{Method: "MarshalText", Signature: marshals, Leaf: Text},
	{Bytes: true, Leaf: Hex},
}

// Buffer reports whether the method of a form appends to what it is given.
func (f Form) Buffer() bool { return f.Method != "" && f.Signature.Params().Len() > 0 }

// String is the method of a form with its signature: LockKey() string.
func (f Form) String() string {
	return f.Method + strings.TrimPrefix(types.TypeString(f.Signature, nil), "func")
}

// Takes says of a form by kind whether it is that of a type.
func (f Form) Takes(t types.Type) bool {
	switch u := t.Underlying().(type) {
	case *types.Basic:
		return u.Info()&f.Kind != 0 && u.Info()&types.IsUntyped == 0
	case *types.Slice:
		return f.Bytes && IsByte(u.Elem())
	case *types.Array:
		return f.Bytes && IsByte(u.Elem()) && u.Len() > 0
	}
	return false
}

// HasKind reports whether the values of a type can be written by their kind, whatever methods they
// have.
func HasKind(t types.Type) bool {
	for _, f := range Forms {
		if f.Takes(t) {
			return true
		}
	}
	return false
}

// IsByte reports whether the values of a type are bytes.
func IsByte(t types.Type) bool {
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Kind() == types.Uint8
}

// The methods by which types write themselves.
var (
	plain     = types.NewSignatureType(nil, nil, nil, nil, unnamed(types.Typ[types.String]), false)
	marshals  = types.NewSignatureType(nil, nil, nil, nil, unnamed(someBytes, anError), false)
	appends   = types.NewSignatureType(nil, nil, nil, unnamed(someBytes), unnamed(someBytes, anError), false)
	someBytes = types.NewSlice(types.Universe.Lookup("byte").Type())
	anError   = types.Universe.Lookup("error").Type()
)

func unnamed(list ...types.Type) *types.Tuple {
	vars := make([]*types.Var, len(list))
	for i, t := range list {
		vars[i] = types.NewVar(token.NoPos, nil, "", t)
	}
	return types.NewTuple(vars...)
}

// A Leaf says how a value is written.
type Leaf int

// The leaves.
const (
	String Leaf = iota // escaped; empty is an error
	Int
	Uint
	Bool
	Hex  // bytes in upper case; none are an error
	Text // bytes of a text, as String
	Open // of a type parameter: as its type argument is written, which is found out when the program runs
	Raw  // as it is: it is a key already
)

// Appender is the function of package gen that appends a leaf, for those that one function can append without an error.
func (l Leaf) Appender() string {
	return map[Leaf]string{
		String: "AppendString",
		Int:    "AppendInt",
		Uint:   "AppendUint",
		Bool:   "AppendBool",
		Hex:    "AppendHex",
		Text:   "AppendString",
	}[l]
}
