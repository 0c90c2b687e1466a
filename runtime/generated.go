package runtime

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"
)

// What this file holds is called by the code that lockgen generates, and changes only in ways
// that old generated code compiles with.

// GeneratedCodeV1 is referred to by generated code. A compiler that does not find it says that
// the generator is newer than this package: update the module, or generate with the lockgen of
// the module's version.
const GeneratedCodeV1 = true

// A Spec is what an annotation says about the locks of one method.
type Spec struct {
	Name     string        // of the method, like "orders.Service.Pay"; it begins error messages
	Wait     time.Duration // [UntilDone], 0 to try once, or a bound for all keys together
	Watchdog time.Duration // 0 for [Options.Watchdog]
	Lease    time.Duration // a fixed length without renewal; 0 for the watchdog
	Empty    bool          // that there are no keys is no mistake: then nothing is locked
	Fence    bool          // with a fencing token, which the method finds by [TokenFrom]
}

func (s *Spec) options() []LockOption {
	opts := []LockOption{WithWait(s.Wait)}
	if s.Fence {
		opts = append(opts, WithFencing())
	}
	switch {
	case s.Lease != 0:
		opts = append(opts, WithLease(s.Lease))
	case s.Watchdog != 0:
		opts = append(opts, WithWatchdog(s.Watchdog))
	}
	return opts
}

// explain says in err which annotation it is about.
func (s *Spec) explain(err error) error {
	if bad := new(KeyError); errors.As(err, &bad) {
		return &KeyError{Name: s.Name, Path: bad.Path, Reason: bad.Reason, Err: bad.Err}
	}
	return fmt.Errorf("%s: %w", s.Name, err)
}

// Acquire locks keys as spec says: all or none, in the order of the keys so that two calls
// cannot wait for each other, each once however often it is named. It fails like [Mutex.Lock].
func (c *Client) Acquire(ctx context.Context, spec *Spec, keys ...string) (*Hold, error) {
	if len(keys) == 0 && !spec.Empty {
		return nil, &KeyError{Name: spec.Name, Reason: "is missing: there is nothing to lock"}
	}
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	hold := &Hold{ctx: ctx, leases: make([]*Lease, 0, len(keys))}
	opts := spec.options()
	start := time.Now()
	for _, key := range keys {
		if spec.Wait > 0 {
			opts[0] = WithWait(max(0, spec.Wait-time.Since(start)))
		}
		// Each under the one before: the last context ends with the first loss.
		lease, err := c.Mutex(key).Lock(hold.ctx, opts...)
		if err != nil {
			return nil, join(spec.explain(err), hold.unlock())
		}
		hold.leases = append(hold.leases, lease)
		hold.ctx = lease.Context()
	}
	return hold, nil
}

// A Hold is what [Client.Acquire] acquired.
type Hold struct {
	ctx    context.Context // of the last lease, or of the call if there is none
	leases []*Lease
}

// Context returns the context to work under. It ends when any of the locks is lost, with a cause
// matching [ErrLost], and when they are released.
func (h *Hold) Context() context.Context { return h.ctx }

// Release unlocks all and joins to *err what went wrong: that a lock was lost while the method
// ran, even if the method returned nil, or that it could not be given back.
func (h *Hold) Release(err *error) { *err = join(*err, h.unlock()) }

// unlock gives back in the reverse order, all of them whatever happens.
func (h *Hold) unlock() (err error) {
	for _, lease := range slices.Backward(h.leases) {
		err = join(err, lease.Unlock(h.ctx))
	}
	return err
}

// NilKey returns the [KeyError] for a nil pointer on the way to a part of a key.
func NilKey(name, path string) error {
	return &KeyError{Name: name, Path: path, Reason: "is nil"}
}

// EmptyKey returns the [KeyError] for an empty part of a key.
func EmptyKey(name, path string) error {
	return &KeyError{Name: name, Path: path, Reason: "is empty"}
}

// ManyKeys returns the [KeyError] for a list of n elements where at most most are locked together.
func ManyKeys(name, path string, n, most int) error {
	return &KeyError{Name: name, Path: path, Reason: fmt.Sprintf("has %d elements; at most %d are locked together", n, most)}
}

// BadKey returns the [KeyError] for a part of a key that could not be made because of err.
func BadKey(name, path string, err error) error {
	return &KeyError{Name: name, Path: path, Reason: "can't be had: " + err.Error(), Err: err}
}

// At returns the path of an element of a list: ids[3].
func At(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// IsNil reports whether value, which is of a type parameter, is a nil pointer or interface. What
// is known to be one when the code is generated is compared there.
func IsNil[T any](value T) bool {
	v := reflect.ValueOf(&value).Elem()
	if v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// Scalar are the kinds that [AppendScalar] can tell apart.
type Scalar interface {
	~string | ~bool | ~int | ~int8 | ~int16 | ~int32 | ~int64 |
		~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

// IsEmpty reports whether value, which is of a type parameter, is a string without characters.
func IsEmpty[T Scalar](value T) bool {
	v := reflect.ValueOf(value)
	return v.Kind() == reflect.String && v.Len() == 0
}

// AppendScalar appends a value of a type parameter that can be of several kinds, as the function
// for its kind does. For one kind that function is faster.
func AppendScalar[T Scalar](key []byte, value T) []byte {
	switch v := reflect.ValueOf(value); {
	case v.CanInt():
		return AppendInt(key, v.Int())
	case v.CanUint():
		return AppendUint(key, v.Uint())
	case v.Kind() == reflect.Bool:
		return AppendBool(key, v.Bool())
	default:
		return AppendString(key, v.String())
	}
}

// AppendHex appends bytes to a key in hexadecimal, upper case. What is of fixed length, like the
// id of a thing, is given as a slice of it.
func AppendHex[T ~byte](key []byte, value []T) []byte {
	for _, c := range value {
		key = append(key, hex[c>>4], hex[c&0xf])
	}
	return key
}

const hex = "0123456789ABCDEF"

// AppendString appends a value to a key so that it cannot be taken for anything else: bytes that
// separate or end parts of a key, or are no good in a log, are percent-escaped.
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
