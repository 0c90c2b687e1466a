package key_test

import "time"

// The samples are types of all forms: those of each kind, and those with each method, and with several. The compiler and go/types both read this file.
type (
	plainString string
	plainBytes  []byte
	plainArray  [2]byte

	ownAppend   struct{ plainString }
	ownKey      int
	ownBoth     string
	ownPointer  struct{ id string }
	ownAndText  [3]byte
	textInt     int
	textBytes   []byte
	textArray   [2]byte
	textStruct  struct{ id string }
	textPointer struct{ id string }
	textBoth    struct{ id string }
	embedsTime  struct{ time.Time }
	ownTime     struct{ time.Time }
	noForm      struct{ id string }

	// Pointer types that are defined have no methods.
	toPlain *plainString
	toOwn   *ownKey
	toBytes *textBytes
	toInt   *textInt
)

func (v ownAppend) AppendLockKey(b []byte) ([]byte, error) {
	return append(b, "append:"+v.plainString...), nil
}

func (ownKey) LockKey() string { return "own:key" }

func (ownBoth) AppendLockKey(b []byte) ([]byte, error) { return append(b, "both:append"...), nil }
func (ownBoth) LockKey() string                        { return "both:key" }

func (v *ownPointer) LockKey() string { return "pointer:" + v.id }

func (ownAndText) LockKey() string              { return "own:not-text" }
func (ownAndText) MarshalText() ([]byte, error) { return []byte("text"), nil }

func (textInt) MarshalText() ([]byte, error) { return []byte("text"), nil }

func (textBytes) MarshalText() ([]byte, error) { return []byte("text:bytes"), nil }

func (textArray) AppendText(b []byte) ([]byte, error) { return append(b, "text:array"...), nil }

func (v textStruct) MarshalText() ([]byte, error) { return []byte("text:" + v.id), nil }

func (v *textPointer) MarshalText() ([]byte, error) { return []byte("pointer:" + v.id), nil }

func (textBoth) AppendText(b []byte) ([]byte, error) { return append(b, "both:append"...), nil }
func (textBoth) MarshalText() ([]byte, error)        { return []byte("both:marshal"), nil }

func (ownTime) LockKey() string { return "own:time" }
