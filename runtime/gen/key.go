package gen

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// GeneratedCodeV1 is a name that generated code refers to. A compiler that does not find it shows
// that the generator is newer than this package: update the module, or generate with the lockgen of
// the module's version.
const GeneratedCodeV1 = true

// NilKey returns the [lockrt.KeyError] for a nil pointer on the way to a part of a key.
func NilKey(name, path string) error {
	return &lockrt.KeyError{Name: name, Path: path, Reason: "is nil"}
}

// EmptyKey returns the [lockrt.KeyError] for an empty part of a key.
func EmptyKey(name, path string) error {
	return &lockrt.KeyError{Name: name, Path: path, Reason: "is empty"}
}

// ManyKeys returns the [lockrt.KeyError] for a list of n elements where at most most can be locked together.
func ManyKeys(name, path string, n, most int) error {
	return &lockrt.KeyError{Name: name, Path: path, Reason: fmt.Sprintf("has %d elements; at most %d are locked together", n, most)}
}

// BadKey returns the [lockrt.KeyError] for a part of a key that could not be made because of err.
func BadKey(name, path string, err error) error {
	switch {
	case errors.Is(err, errNilValue):
		return NilKey(name, path)
	case errors.Is(err, errEmptyValue):
		return EmptyKey(name, path)
	}
	return &lockrt.KeyError{Name: name, Path: path, Reason: "can't be had: " + err.Error(), Err: err}
}

// At returns the path of an element of a list: ids[3].
func At(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// IsNil reports whether value, which is an interface or of a type parameter, is nil or has a nil
// pointer or function in it. Generated code itself compares values that are known to be pointers.
func IsNil[T any](value T) bool {
	v := reflect.ValueOf(&value).Elem()
	if v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return !v.IsValid() || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Func) && v.IsNil()
}

// AppendHex appends bytes to a key in hexadecimal, upper case. Generated code passes an array, such
// as an id of fixed length, as a slice.
func AppendHex[T ~byte](key []byte, value []T) []byte {
	for _, c := range value {
		key = append(key, hex[c>>4], hex[c&0xf])
	}
	return key
}

const hex = "0123456789ABCDEF"

// AppendString appends a value to a key so that it cannot be mistaken for anything else: bytes that
// separate or end parts of a key, or are unsafe in a log, are percent-escaped.
func AppendString[T ~string | ~[]byte](key []byte, value T) []byte {
	plain := 0 // where the bytes that need no escape begin
	for i := range len(value) {
		if c := value[i]; escaped(c) {
			key = append(key, value[plain:i]...)
			key = append(key, '%', hex[c>>4], hex[c&0xf])
			plain = i + 1
		}
	}
	return append(key, value[plain:]...)
}

func escaped(c byte) bool {
	switch c {
	case ':', '/', '%', '{', '}', 0x7f:
		return true
	}
	return c <= ' '
}

// AppendInt appends a value to a key in decimal.
func AppendInt[T ~int | ~int8 | ~int16 | ~int32 | ~int64](key []byte, value T) []byte {
	return strconv.AppendInt(key, int64(value), 10)
}

// AppendUint appends a value to a key in decimal.
func AppendUint[T ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr](key []byte, value T) []byte {
	return strconv.AppendUint(key, uint64(value), 10)
}

// AppendBool appends true or false to a key.
func AppendBool[T ~bool](key []byte, value T) []byte {
	return strconv.AppendBool(key, bool(value))
}
