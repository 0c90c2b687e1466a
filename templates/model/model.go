// Package model is not for import by programs: it is what the lockgen command knows about one file before it is written, plain data.
package model

import (
	"go/types"
	"slices"
	"time"
)

// UntilDone as Lock.Wait means as long as the context lives.
const UntilDone time.Duration = -1

// A File is one generated file.
type File struct {
	Path, Name string            // of its package
	Constraint string            // the //go:build line of its source, or empty
	Aliases    map[string]string // import path to the name that the source file uses, for those it imports
	Declared   []string          // names in scope of the package, generated ones left out
	Services   []*Service
	Locks      []*Locks
}

// A Service is an interface whose calls are to be locked.
type Service struct {
	Interface   *types.TypeName
	TypeParams  []*types.TypeParam
	Wrapper     string // LockedService
	Constructor string // NewLockedService
	Keys        string // ServiceKeys
	Methods     []*Method
}

// Locks is an interface whose methods declare locks of entities.
type Locks struct {
	Interface   *types.TypeName
	TypeParams  []*types.TypeParam
	Type        string // redisLocks
	Constructor string // NewLocks
	Keys        string // LocksKeys
	Methods     []*Method
}

// A Method is one of an interface.
type Method struct {
	Name     string
	Doc      []string // lines without comment markers
	Block    bool     // Doc stands in a block comment
	Params   []Param
	Variadic bool
	Results  []Param
	Lock     *Lock // nil for one that needs none
	Entity   *Entity
}

// An Entity is what a method with several parameters declares the lock of: a struct with a field for each of them.
type Entity struct {
	Type   types.Type
	Fields []string
}

// A Param is a parameter or a result; the name can be empty or blank.
type Param struct {
	Name string
	Type types.Type
}

// A Lock is what a method holds: one or more keys under one set of options.
type Lock struct {
	SpecName string        // orders.Service.Pay
	SpecVar  string        // lockServicePay
	Wait     time.Duration // UntilDone, 0 to try once
	Watchdog time.Duration // 0 for the runtime's default
	Lease    time.Duration // 0 for one that is renewed
	Min      time.Duration // how long the lock stays locked at least
	Linger   time.Duration // how long the key stays with the client after the call
	Keep     bool          // it stays locked until the lease ends
	Report   bool          // a loss doesn't end the context of the call
	Skip     bool          // a busy lock is no error
	Fallback bool          // when the lock is busy another implementation is called
	Context  int           // index of the parameter that carries the context, or -1
	Stream   *Stream
	Keys     []*Key
	Builder  *Builder // the existing builder of the keys, or nil
}

// A Builder is the type that has the builders of another interface's keys: BaseKeys, or BaseKeys[Order].
type Builder struct {
	Interface *types.TypeName
	Keys      string
	Args      []types.Type
}

// Mixed reports whether the keys are of different kinds of lock, so that each has to say which.
func (l *Lock) Mixed() bool {
	first := l.Keys[0]
	return slices.ContainsFunc(l.Keys, func(k *Key) bool { return k.Kind != first.Kind || k.Permits != first.Permits || k.Fence != first.Fence })
}

// A Kind is one of the runtime's, or that of a typed lock.
type Kind int

// The kinds.
const (
	Mutex Kind = iota
	Write
	Read
	ReadWrite // a typed lock, which has both sides
	Fair
	Permit // of a semaphore
	Multi  // a typed lock of several entities, all of them mutexes
	Red    // on a majority of servers
)

// A Stream is a result that needs the lock after the method has returned.
type Stream struct {
	Result int // its index

	// Of a sequence:
	Pairs bool // it is an iter.Seq2

	// Of an interface that is closed; the others are sequences.
	Closer  string // the type that is generated for it, or empty
	Methods []*Method
}

// A Key is a template with its placeholders resolved.
type Key struct {
	Text    string // order:{o.ID}, prefix included
	Kind    Kind
	Permits int  // of a semaphore
	Fence   bool // with a fencing token
	Parts   []Part
}

// A Part of a key is a literal, or the value of a placeholder.
type Part struct {
	Literal string
	Value   *Value
}

// A Value is a way from a parameter to something that can be written into a key, or to a list of such things.
type Value struct {
	Param int        // index of the parameter; of an element of a list, and of what a function makes, it says nothing
	Func  *Func      // the function that makes the value, instead of a path; or nil
	Nil   Nil        // the parameter
	Steps []Step     // on from the parameter
	Deref bool       // the last step, or the parameter, is a pointer to the value
	Leaf  Leaf       // of a list: of its elements
	Type  types.Type // of what the path names, before it is dereferenced or asked for its key; of a list, of its elements
	Empty bool       // it may be empty: a text without characters, a list without elements
	Array bool       // the written value, or the list, is an array: it has to be sliced, and is never empty
	Each  *Value     // of a list: how to get on from an element
	List  types.Type // of a list: its type
	Max   int        // of a list: the most elements
}

// A Func is a function of the package that makes a key, or a part of one.
type Func struct {
	Name     string
	Args     []int // indexes of the parameters that it is called with
	Variadic bool  // the last of them is passed as a list
	Fails    bool  // it has an error as its second result
}

// CanBeEmpty reports whether there are values of which nothing would be written.
func (v *Value) CanBeEmpty() bool {
	return v.Leaf == String || v.Leaf == Raw || v.Leaf == Text || v.Leaf == Open || v.Leaf == Hex && !v.Array
}

// A Step selects a field or calls a method.
type Step struct {
	Name   string
	Call   bool
	Buffer bool       // the method appends to what it is given
	Fails  bool       // the method has an error as its second result
	Hops   []Hop      // the embedded pointers and interfaces on the way to Name, which must not be nil
	On     types.Type // the type parameter whose method it is, if that can be promoted through what only the program knows; or nil
	Nil    Nil        // the result of the step
}

// A Hop is an embedded pointer or interface.
type Hop struct {
	Path []string // from where the step begins
	Nil  Nil
}

// Nil says how to find out that something is nil, which it must not be.
type Nil int

// The ways in which a value can be nil.
const (
	NeverNil   Nil = iota
	NilPointer     // a pointer or a function
	NilInside      // an interface, which can have a nil pointer in it, or of a type parameter whose types can be pointers or interfaces
)
