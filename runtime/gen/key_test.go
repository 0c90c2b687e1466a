package gen_test

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/gen"
)

func TestAppend(t *testing.T) {
	t.Parallel()
	type no string
	require.Equal(t, "k:a%3Ab%2F%25%7B%7D%20%7F%00é", string(gen.AppendString([]byte("k:"), no("a:b/%{} \x7f\x00é"))))
	require.Equal(t, "k:", string(gen.AppendString([]byte("k:"), "")))
	require.Equal(t, "-7", string(gen.AppendInt(nil, int8(-7))))
	require.Equal(t, "18446744073709551615", string(gen.AppendUint(nil, ^uint64(0))))
	require.Equal(t, "true", string(gen.AppendBool(nil, true)))
	type octet byte
	require.Equal(t, "k:000AFF", string(gen.AppendHex([]byte("k:"), []octet{0, 10, 255})))
	require.Equal(t, "a%3Ab", string(gen.AppendString(nil, []byte("a:b"))))
}

func TestIsNil(t *testing.T) {
	t.Parallel()
	var p *int
	require.True(t, gen.IsNil(p))
	require.True(t, gen.IsNil[any](nil))
	require.True(t, gen.IsNil[any](p), "an interface with a nil pointer in it")
	require.True(t, gen.IsNil((func())(nil)))
	require.True(t, gen.IsNil[any]((func())(nil)), "an interface with a nil function in it")
	require.False(t, gen.IsNil(new(int)))
	require.False(t, gen.IsNil[any](0))
	require.False(t, gen.IsNil([]int(nil)), "an empty list can say something")
}

func TestKeyError_SaysWhatThePartSaid(t *testing.T) {
	t.Parallel()
	require.EqualError(t, gen.ManyKeys("orders.Service.Merge", "ids", 65, 64), "orders.Service.Merge: ids has 65 elements; at most 64 are locked together")
	err := gen.BadKey("orders.Service.Merge", gen.At("ids", 3)+".LockKey()", context.Canceled)
	require.EqualError(t, err, "orders.Service.Merge: ids[3].LockKey() can't be had: context canceled")
	require.ErrorIs(t, err, context.Canceled)
}

func FuzzAppendString(f *testing.F) {
	f.Add("a:b", "a", "b:")
	f.Add("%3A", ":", "")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		written := string(gen.AppendString(nil, a))
		require.False(t, strings.ContainsAny(written, ":/{} \t\r\n"))
		read, err := url.PathUnescape(written)
		require.NoError(t, err)
		require.Equal(t, a, read, "it can be read back, so no two values are written alike")
		if b != c {
			require.NotEqual(t, string(gen.AppendString(nil, b)), string(gen.AppendString(nil, c)))
		}
	})
}

type owner struct{ names []string }

func (o owner) Name() string { return o.names[0] }

// An item embeds a pointer that may be nil, and has methods of its own, one of which fails in its own way.
type item struct {
	*owner

	parts []string
}

func (i item) First() string         { return i.parts[0] }
func (i item) LockKey() string       { return i.parts[0] }
func (item) Conversion() string      { return any(nil).(string) } //nolint:forcetypeassert // it panics
func (i item) Both() (string, error) { return i.Name(), nil }

// A method that is promoted through nil is an error. Each other panic of a method is that of the method, whatever its value embeds.
func TestAsk_OtherPanicsGoOn(t *testing.T) {
	t.Parallel()
	for name, method := range map[string]func(item) string{"index": item.First, "conversion": item.Conversion} {
		require.Panics(t, func() { _, _ = gen.Ask(item{}, method) }, name)
	}
	require.PanicsWithError(t, "runtime error: index out of range [0] with length 0", func() { _, _ = gen.AppendValue(nil, item{}) })
	_, err := gen.Ask(item{}, item.Name)
	require.ErrorContains(t, err, "an embedded pointer or interface is nil")
	_, err = gen.AskOrFail(item{}, item.Both)
	require.ErrorContains(t, err, "an embedded pointer or interface is nil")
	require.Panics(t, func() { _, _ = gen.Ask(item{owner: &owner{}}, item.Name) })
}
