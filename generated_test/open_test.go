package generatedtest_test

import (
	"encoding"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	gen "github.com/lockgen/lockgen/generated_test"
	lockrt "github.com/lockgen/lockgen/runtime"
)

// value is the part of a key after its literal, or the reason why there is no key.
func value(literal, key string, err error) string {
	if err == nil {
		return strings.TrimPrefix(key, literal)
	}
	var bad *lockrt.KeyError
	if !errors.As(err, &bad) {
		return "no KeyError: " + err.Error()
	}
	return bad.Reason
}

// same requires one key from a type that is known when the code is generated and from one that is known when it runs.
func same[K any](t *testing.T, want, literal string, known func(K) (string, error), id K, open ...func(K) (string, error)) {
	t.Helper()
	key, err := known(id)
	require.Equal(t, want, value(literal, key, err))
	for i, build := range open {
		key, err := build(id)
		require.Equal(t, want, value("gen:open:", key, err), "%T, %d", id, i)
	}
}

// openKind returns all ways to build the key of a type with one of several kinds.
func openKind[K ~string | ~int64 | ~uint8 | ~bool | ~[16]byte | ~[]byte]() []func(K) (string, error) {
	return []func(K) (string, error){
		gen.OpenKindKeys[K]{}.One,
		func(id K) (string, error) { return gen.OpenKindKeys[K]{}.Pointer(&id) },
		func(id K) (string, error) {
			keys, err := gen.OpenKindKeys[K]{}.List(id)
			return strings.Join(keys, " "), err
		},
	}
}

func openText[K encoding.TextMarshaler]() []func(K) (string, error) {
	return []func(K) (string, error){
		gen.OpenTextKeys[K]{}.One,
		func(id K) (string, error) {
			keys, err := gen.OpenTextKeys[K]{}.List(id)
			return strings.Join(keys, " "), err
		},
	}
}

// TestKeys_TypeArgumentsAreWrittenAsTypes shows that a generic service with type arguments locks the same as one that
// names these types.
func TestKeys_TypeArgumentsAreWrittenAsTypes(t *testing.T) {
	t.Parallel()
	known := gen.KnownKeys{}
	same(t, "a%3Ab", "gen:open:plain:", known.Plain, "a:b", openKind[gen.Plain]()...)
	same(t, "is empty", "gen:open:plain:", known.Plain, "", openKind[gen.Plain]()...)
	same(t, "lower-a", "gen:open:lower:", known.Lower, "a", append(openKind[gen.Lower](), gen.OpenKeyKeys[gen.Lower]{}.One)...)
	same(t, "ptr-a", "gen:open:ptr:", known.LowerPtr, "a", openKind[gen.LowerPtr]()...)
	same(t, "first%2F", "gen:open:signed:", known.Signed, 7, append(openKind[gen.Signed](), gen.OpenKeyKeys[gen.Signed]{}.One)...)
	same(t, "can't be had: without a name", "gen:open:signed:", known.Signed, -7, append(openKind[gen.Signed](), gen.OpenKeyKeys[gen.Signed]{}.One)...)
	same(t, "a", "gen:open:texted:", known.Texted, "a", append(openKind[gen.Texted](), openText[gen.Texted]()...)...)
	texted := gen.Texted("a")
	same(t, "a", "gen:open:pointer:", known.TextedPtr, &texted, openText[*gen.Texted]()...)
	same(t, "is nil", "gen:open:pointer:", known.TextedPtr, nil, openText[*gen.Texted]()...)
	words := gen.Words{A: "a", B: "b"}
	same(t, "a%3Ab", "gen:open:words:", known.Words, words, openText[gen.Words]()...)
	same(t, "a%3Ab", "gen:open:wordsptr:", known.WordsPtr, &words, openText[*gen.Words]()...)
	same(t, "is nil", "gen:open:wordsptr:", known.WordsPtr, nil, openText[*gen.Words]()...)
	same(t, "a", "gen:open:wordskey:", known.WordsKey, gen.WordsKey{Words: words}, append(openText[gen.WordsKey](), gen.OpenKeyKeys[gen.WordsKey]{}.One)...)
	same(t, "is empty", "gen:open:wordskey:", known.WordsKey, gen.WordsKey{}, append(openText[gen.WordsKey](), gen.OpenKeyKeys[gen.WordsKey]{}.One)...)
	same(t, "a%3Ab", "gen:open:text:", known.Text, encoding.TextMarshaler(gen.WordsKey{Words: words}), openText[encoding.TextMarshaler]()...)
	same(t, "is nil", "gen:open:text:", known.Text, nil, openText[encoding.TextMarshaler]()...)
	same(t, "second", "gen:open:keyer:", known.Keyer, gen.Keyer(gen.Signed(1)), gen.OpenKeyKeys[gen.Keyer]{}.One)
	same(t, "is nil", "gen:open:keyer:", known.Keyer, gen.Keyer((*gen.Line)(nil)), gen.OpenKeyKeys[gen.Keyer]{}.One)
	same(t, "is nil", "gen:open:text:", known.Text, encoding.TextMarshaler((*gen.Words)(nil)), openText[encoding.TextMarshaler]()...)
	same(t, "is nil", "gen:open:keyer:", known.Keyer, nil, gen.OpenKeyKeys[gen.Keyer]{}.One)
	same(t, "01000000000000000000000000000000", "gen:open:uuid:", known.UUID, gen.UUID{1}, openKind[gen.UUID]()...)
	same(t, "0AFF", "gen:open:bytes:", known.Bytes, []byte{10, 255}, openKind[[]byte]()...)
	same(t, "is empty", "gen:open:bytes:", known.Bytes, nil, openKind[[]byte]()...)
	short, long := net.IPv4(192, 0, 2, 1).To4(), net.IPv4(192, 0, 2, 1).To16()
	for _, ip := range []net.IP{short, long} {
		same(t, "192.0.2.1", "gen:open:ip:", known.IP, ip, append(openKind[net.IP](), openText[net.IP]()...)...)
	}
	same(t, "is empty", "gen:open:ip:", known.IP, nil, append(openKind[net.IP](), openText[net.IP]()...)...)
	same(t, "is nil", "gen:open:makeskey:", known.MakesKey, nil, gen.OpenKeyKeys[gen.MakesKey]{}.One)
	same(t, "true", "gen:open:bool:", known.Bool, true, openKind[bool]()...)
	same(t, "255", "gen:open:uint:", known.Uint, 255, openKind[uint8]()...)
}

// TestKeys_TypeArgumentsRefused shows that the wrapper refuses at run time what the generator refuses for a type that
// it knows.
func TestKeys_TypeArgumentsRefused(t *testing.T) {
	t.Parallel()
	_, err := gen.OpenTextKeys[time.Time]{}.One(time.Time{})
	require.EqualError(t, err, "generatedtest.OpenText.One: id can't be had: a time.Time has a location and a monotonic clock; use its UnixNano or Unix")
	_, err = gen.OpenTextKeys[*time.Time]{}.List(&time.Time{}, nil)
	require.ErrorContains(t, err, "generatedtest.OpenText.List: ids[0] can't be had: a time.Time")
	_, err = gen.OpenKindKeys[gen.Plain]{}.List("a", "")
	require.EqualError(t, err, "generatedtest.OpenKind.List: ids[1] is empty")
	_, err = gen.OpenKindKeys[gen.Plain]{}.Pointer(nil)
	require.EqualError(t, err, "generatedtest.OpenKind.Pointer: id is nil")
	for _, build := range []func() (string, error){
		func() (string, error) { return gen.OpenKeyKeys[*gen.Line]{}.One(nil) },
		func() (string, error) { return gen.OpenKeyKeys[gen.Keyer]{}.One((*gen.Line)(nil)) },
	} {
		_, err = build()
		require.EqualError(t, err, "generatedtest.OpenKey.One: id is nil")
	}
	for _, build := range []func() (string, error){
		func() (string, error) { return gen.OpenTextKeys[struct{ time.Time }]{}.One(struct{ time.Time }{}) },
		func() (string, error) {
			return gen.OpenTextKeys[*struct{ *time.Time }]{}.One(&struct{ *time.Time }{&time.Time{}})
		},
		func() (string, error) { return gen.OpenTextKeys[stamp]{}.One(stamp{}) },
		func() (string, error) { return gen.OpenTextKeys[struct{ stamp }]{}.One(struct{ stamp }{}) },
	} {
		_, err = build()
		require.EqualError(t, err, "generatedtest.OpenText.One: id can't be had: a time.Time has a location and a monotonic clock; use its UnixNano or Unix")
	}
	const embedded = " can't be had: an embedded pointer or interface is nil"
	_, err = gen.OpenKeyKeys[struct{ *gen.Line }]{}.One(struct{ *gen.Line }{})
	require.EqualError(t, err, "generatedtest.OpenKey.One: id"+embedded)
	_, err = gen.OpenKeyKeys[*struct{ gen.Keyer }]{}.One(&struct{ gen.Keyer }{})
	require.EqualError(t, err, "generatedtest.OpenKey.One: id"+embedded)
	_, err = gen.OpenPathKeys[struct{ *gen.Row }]{}.One(struct{ *gen.Row }{})
	require.EqualError(t, err, "generatedtest.OpenPath.One: row.ID()"+embedded)
	_, err = gen.OpenPathKeys[struct{ *gen.Row }]{}.Fails(struct{ *gen.Row }{})
	require.EqualError(t, err, "generatedtest.OpenPath.Fails: row.Number()"+embedded)
	_, err = gen.OpenPathKeys[*gen.Row]{}.One(nil)
	require.EqualError(t, err, "generatedtest.OpenPath.One: row is nil")
	_, err = gen.OpenPathKeys[gen.Row]{}.Fails(gen.Row{})
	require.EqualError(t, err, "generatedtest.OpenPath.Fails: row.Number() can't be had: without a name")
	require.PanicsWithValue(t, "bug", func() { _, _ = gen.OpenKeyKeys[broken]{}.One(broken{}) })
	key, err := gen.OpenKindKeys[gen.Plain]{}.Empty("")
	require.NoError(t, err)
	require.Equal(t, "gen:open:", key)
}

// TestKeys_TypeArgumentsOnTheWay shows that a path goes through the methods of a type argument.
func TestKeys_TypeArgumentsOnTheWay(t *testing.T) {
	t.Parallel()
	row := gen.Row{Name: "a", No: 7}
	key, err := gen.OpenPathKeys[struct{ *gen.Row }]{}.One(struct{ *gen.Row }{&row})
	require.NoError(t, err)
	require.Equal(t, "gen:open:a", key)
	key, err = gen.OpenPathKeys[*gen.Row]{}.Fails(&row)
	require.NoError(t, err)
	require.Equal(t, "gen:open:7", key)
}

// stamp is a time.Time by another name.
type stamp struct{ time.Time }

// day has a time.Time and its own MarshalText.
type day struct{ time.Time }

func (d day) AppendText(b []byte) ([]byte, error) { return d.AppendFormat(b, time.DateOnly), nil }

// dayPtr has MarshalText as a method of its pointer.
type dayPtr struct{ time.Time }

func (d *dayPtr) AppendText(b []byte) ([]byte, error) { return d.AppendFormat(b, time.DateOnly), nil }

// TestKeys_TypeArgumentsWithATimeAndAText shows that a type that embeds a time.Time and has its own text is written as
// this text.
func TestKeys_TypeArgumentsWithATimeAndAText(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	key, err := gen.OpenTextKeys[day]{}.One(day{at})
	require.NoError(t, err)
	require.Equal(t, "gen:open:2026-01-02", key)
	key, err = gen.OpenTextKeys[struct{ day }]{}.One(struct{ day }{day{at}})
	require.NoError(t, err)
	require.Equal(t, "gen:open:2026-01-02", key)
	key, err = gen.OpenTextKeys[dayPtr]{}.One(dayPtr{at})
	require.NoError(t, err)
	require.Equal(t, "gen:open:2026-01-02", key)
}

// TestKeys_NilInsideOfAnInterface shows that a nil pointer in an interface is an error of the call, as the nil
// interface is.
func TestKeys_NilInsideOfAnInterface(t *testing.T) {
	t.Parallel()
	var row *gen.Row // its ID has a value receiver
	var line *gen.Line
	for _, nothing := range []gen.Identified{nil, row} {
		_, err := gen.ClosedPathKeys{}.One(nothing)
		require.EqualError(t, err, "generatedtest.ClosedPath.One: row is nil")
		_, err = gen.ClosedPathKeys{}.Promoted(&gen.Holder{Identified: nothing})
		require.EqualError(t, err, "generatedtest.ClosedPath.Promoted: holder.Identified is nil")
		_, err = gen.OpenPathKeys[interface {
			gen.Identified
			Number() (int64, error)
		}]{}.One(row)
		require.EqualError(t, err, "generatedtest.OpenPath.One: row is nil")
	}
	_, err := gen.ClosedPathKeys{}.List(gen.Signed(1), line)
	require.EqualError(t, err, "generatedtest.ClosedPath.List: rows[1] is nil")
	var bad *lockrt.KeyError
	require.ErrorAs(t, err, &bad)
	key, err := gen.ClosedPathKeys{}.Promoted(&gen.Holder{Identified: gen.Row{Name: "a"}})
	require.NoError(t, err)
	require.Equal(t, "gen:closed:a", key)
}

type broken struct{ *gen.Line }

func (broken) LockKey() string { panic("bug") }

// TestKeys_TypeArgumentsAllocateOnce shows that a type that is written by its kind costs no more than a known one. It
// is not parallel: allocations are counted.
func TestKeys_TypeArgumentsAllocateOnce(t *testing.T) {
	require.InDelta(t, 1, testing.AllocsPerRun(100, func() { sinkString, sinkError = gen.OpenKindKeys[gen.Plain]{}.One("4711") }), 0)
	require.InDelta(t, 1, testing.AllocsPerRun(100, func() { sinkString, sinkError = gen.OpenKindKeys[int64]{}.One(4711) }), 0)
}
