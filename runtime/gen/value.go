package gen

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"time"
)

// The errors of [AppendValue] and [Ask], besides those of the value itself. BadKey turns the first two into the texts
// for values of known types.
var (
	errNilValue   = errors.New("is nil")
	errEmptyValue = errors.New("is empty")

	errNilEmbedded = errors.New("an embedded pointer or interface is nil")
)

// AppendValue appends a value of a type parameter to a key: as the code that is generated for its type argument does,
// so that both lock the same. The type decides that when the code runs, since a constraint that a string meets is met
// by a type with a LockKey too. A value that is nil or empty is an error for [BadKey].
func AppendValue[T any](key []byte, value T) ([]byte, error) {
	out, err := AppendValueOrEmpty(key, value)
	if err == nil && len(out) == len(key) {
		return nil, errEmptyValue
	}
	return out, err
}

// AppendValueOrEmpty is [AppendValue] for values that may be empty.
func AppendValueOrEmpty[T any](key []byte, value T) ([]byte, error) {
	how := mannerOf(reflect.TypeFor[T]())
	if how.by != byKind {
		return appendOwn(key, value, how)
	}
	v := reflect.ValueOf(&value).Elem()
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil, errNilValue
		}
		v = v.Elem()
	}
	switch {
	case v.Kind() == reflect.String:
		return AppendString(key, v.String()), nil
	case v.CanInt():
		return AppendInt(key, v.Int()), nil
	case v.CanUint():
		return AppendUint(key, v.Uint()), nil
	case v.Kind() == reflect.Bool:
		return AppendBool(key, v.Bool()), nil
	default:
		return AppendHex(key, v.Bytes()), nil
	}
}

// appendOwn appends the result of a method of the value.
func appendOwn[T any](key []byte, value T, how manner) (out []byte, err error) {
	if IsNil(value) {
		return nil, errNilValue
	}
	defer notEmbedded(value, &err)
	self := any(value)
	if how.pointer {
		self = &value
	}
	var text []byte
	switch how.by {
	case byAppendLockKey:
		text, err = self.(keyAppender).AppendLockKey(nil)
	case byLockKey:
		return AppendString(key, self.(keyer).LockKey()), nil
	case byAppendText:
		text, err = self.(encoding.TextAppender).AppendText(nil)
	case byMarshalText:
		text, err = self.(encoding.TextMarshaler).MarshalText()
	case byTime:
		err = errors.New("a time.Time has a location and a monotonic clock; use its UnixNano or Unix")
	default:
		err = fmt.Errorf("a %v cannot be written into a key", reflect.TypeFor[T]())
	}
	if err != nil {
		return nil, err
	}
	return AppendString(key, text), nil
}

// Ask calls a method of a value of a type parameter. If that is a method of an embedded pointer or interface that is nil, it is an error for [BadKey]:
// where the type is known when the code is generated, it looks at those itself.
func Ask[T, R any](value T, method func(T) R) (result R, err error) {
	defer notEmbedded(value, &err)
	return method(value), nil
}

// AskOrFail is [Ask] for methods that can fail.
func AskOrFail[T, R any](value T, method func(T) (R, error)) (result R, err error) {
	defer notEmbedded(value, &err)
	return method(value)
}

// notEmbedded is deferred where a method of value is called. It turns the panic of one that is promoted through nil into an error. Other panics go on,
// such as that of an index in a method.
func notEmbedded[T any](value T, err *error) {
	if p := recover(); p != nil {
		if !ofNil(p) || !nilEmbedded(reflect.ValueOf(value), 0) {
			panic(p)
		}
		*err = errNilEmbedded
	}
}

// ofNil reports whether a panic is that of the runtime about a nil pointer.
func ofNil(p any) bool {
	err, ok := p.(runtime.Error)
	_, conversion := p.(*runtime.TypeAssertionError)
	return ok && !conversion && strings.Contains(err.Error(), "nil")
}

// nilEmbedded reports whether a struct, or one that a pointer points to, embeds a pointer or an interface that is nil.
func nilEmbedded(v reflect.Value, depth int) bool {
	const deep = 16 // a struct can embed a pointer to itself
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return true
		}
		v = v.Elem()
	}
	if v.Kind() == reflect.Struct && depth < deep {
		for i := range v.NumField() {
			if v.Type().Field(i).Anonymous && nilEmbedded(v.Field(i), depth+1) {
				return true
			}
		}
	}
	return false
}

// A manner is the way in which the values of a type are written into keys: it is the table of the generator, in its
// order.
type manner struct {
	by      by
	pointer bool // the method has a pointer receiver
}

type by int

const (
	byNothing by = iota
	byAppendLockKey
	byLockKey
	byKind // a string, an integer, a bool, bytes
	byTime
	byAppendText
	byMarshalText
	byBytes // as byKind, if they have no text
)

type (
	keyAppender interface {
		AppendLockKey(b []byte) ([]byte, error)
	}
	keyer interface{ LockKey() string }
)

// manners caches the manner of each type.
var manners sync.Map // reflect.Type to manner

func mannerOf(t reflect.Type) manner {
	if known, ok := manners.Load(t); ok {
		return known.(manner) //nolint:forcetypeassert // the map has nothing else
	}
	how := findManner(t)
	manners.Store(t, how)
	return how
}

func findManner(t reflect.Type) manner {
	target := t
	if t.Kind() == reflect.Pointer {
		target = t.Elem()
		if plain := reflect.PointerTo(target); plain != t && mannerOf(plain).by != byKind {
			return manner{} // t is a defined type, such as type P *ID: it lacks the method of *ID
		}
	}
	for _, m := range []struct {
		by     by
		method reflect.Type
	}{
		{byAppendLockKey, reflect.TypeFor[keyAppender]()},
		{byLockKey, reflect.TypeFor[keyer]()},
		{by: byKind},
		{byAppendText, reflect.TypeFor[encoding.TextAppender]()},
		{byMarshalText, reflect.TypeFor[encoding.TextMarshaler]()},
		{by: byBytes},
	} {
		switch {
		case m.by == byKind && scalar(target):
			return manner{by: byKind}
		case m.by == byBytes && bytes(target):
			return manner{by: byKind}
		case m.method == nil || !t.Implements(m.method) && !reflect.PointerTo(t).Implements(m.method):
		case (m.by == byAppendText || m.by == byMarshalText) && timed(target, m.by, m.method):
			return manner{by: byTime}
		default:
			return manner{m.by, !t.Implements(m.method)}
		}
	}
	return manner{}
}

// scalar reports whether a type is one of those that are written by their kind, whether they have a text or not.
func scalar(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return true
	}
	return false
}

// bytes reports whether a type is a list of them.
func bytes(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Slice:
		return t.Elem().Kind() == reflect.Uint8
	case reflect.Array:
		return t.Elem().Kind() == reflect.Uint8 && t.Len() > 0
	}
	return false
}

// timed reports whether the text of a struct is that of a time.Time that it embeds. Of embedded types the least deep
// has the method that counts.
func timed(t reflect.Type, by by, method reflect.Type) bool {
	if t == reflect.TypeFor[time.Time]() {
		return true
	}
	if t.Kind() != reflect.Struct || declares(t, by) || declares(reflect.PointerTo(t), by) {
		return false
	}
	for structs := []reflect.Type{t}; len(structs) > 0; {
		var deeper []reflect.Type
		for _, s := range structs {
			for i := range s.NumField() {
				e := s.Field(i).Type
				if e.Kind() == reflect.Pointer {
					e = e.Elem()
				}
				switch {
				case !s.Field(i).Anonymous:
				case e.Implements(method) || reflect.PointerTo(e).Implements(method):
					return timed(e, by, method)
				case e.Kind() == reflect.Struct:
					deeper = append(deeper, e)
				}
			}
		}
		structs = deeper
	}
	return false
}

// declares reports whether a type has declared a method itself: the compiler writes those that are promoted. The names
// are constants, so that the linker need not keep all methods of all types.
func declares(t reflect.Type, by by) bool {
	m, ok := t.MethodByName("MarshalText")
	if by == byAppendText {
		m, ok = t.MethodByName("AppendText")
	}
	if !ok {
		return false
	}
	fn := runtime.FuncForPC(m.Func.Pointer())
	file, _ := fn.FileLine(fn.Entry())
	return file != "<autogenerated>"
}
