package generatedtest_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	gen "github.com/lockgen/lockgen/generated_test"
	lockrt "github.com/lockgen/lockgen/runtime"
)

// lists is the service behind the wrapper: every method calls do.
type lists struct {
	do func(ctx context.Context) error
}

func (l lists) Merge(ctx context.Context, _ ...gen.OrderID) error          { return l.do(ctx) }
func (l lists) Reserve(ctx context.Context, _ string, _ []*gen.Line) error { return l.do(ctx) }
func (l lists) Touch(ctx context.Context, _ []gen.UUID) error              { return l.do(ctx) }
func (l lists) Pack(ctx context.Context, _ string, _ ...gen.OrderID) error { return l.do(ctx) }
func (l lists) Bind(ctx context.Context, _ gen.UUID, _ []byte, _ netip.Addr, _ gen.Tag) error {
	return l.do(ctx)
}

func (l lists) Ask(ctx context.Context, _ string, _ ...string) error { return l.do(ctx) }

func TestLists_LockEachElementOnce(t *testing.T) {
	t.Parallel()
	r, other := newReplica(t, nothing), newReplica(t, nothing)
	a, b, c := newID(t)+"a", newID(t)+"b", newID(t)+"c"
	keys, err := gen.ListsKeys{}.Merge(c, a, a, b)
	require.NoError(t, err)
	require.Len(t, keys, 4, "as they are given; Acquire takes each once")
	called := 0
	merging := gen.NewLockedLists(lists{func(ctx context.Context) error {
		called++
		require.EqualValues(t, 3, held(t, keys[0], keys[1], keys[3]))
		require.ErrorIs(t, other.Ship(patient(t), b), lockrt.ErrNotAcquired, "one of them is what another method locks")
		return nil
	}}, r.locks)
	require.NoError(t, merging.Merge(patient(t), c, a, a, b))
	require.Equal(t, 1, called)
	freed(t, keys...)
}

func TestLists_KeyAfterList(t *testing.T) {
	t.Parallel()
	keys, err := gen.ListsKeys{}.Pack("p", "a", "b")
	require.NoError(t, err)
	require.Equal(t, []string{"gen:order:a", "gen:order:b", "gen:place:p", "gen:place:p/a", "gen:place:p/b"}, keys)
}

func TestLists_AllOrNone(t *testing.T) {
	t.Parallel()
	r, other := newReplica(t, nothing), newReplica(t, nothing)
	ids := []gen.OrderID{newID(t) + "a", newID(t) + "b", newID(t) + "c"}
	keys, err := gen.ListsKeys{}.Merge(ids...)
	require.NoError(t, err)
	merging := gen.NewLockedLists(lists{func(context.Context) error {
		require.Fail(t, "called without its locks")
		return nil
	}}, r.locks)
	lease, err := other.locks.Mutex(keys[2]).Lock(patient(t))
	require.NoError(t, err)
	require.ErrorIs(t, merging.Merge(patient(t), ids...), lockrt.ErrNotAcquired)
	freed(t, keys[0], keys[1])
	require.NoError(t, lease.Unlock(patient(t)))
}

func TestLists_Refused(t *testing.T) {
	t.Parallel()
	l := gen.NewLockedLists(lists{func(context.Context) error {
		require.Fail(t, "called without its locks")
		return nil
	}}, newReplica(t, nothing).locks)
	line := &gen.Line{SKU: "s"}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{l.Merge(patient(t)), "generatedtest.Lists.Merge: ids is empty"},
		{l.Merge(patient(t), nil...), "generatedtest.Lists.Merge: ids is empty"},
		{l.Merge(patient(t), "a", ""), "generatedtest.Lists.Merge: ids[1] is empty"},
		{l.Merge(patient(t), make([]gen.OrderID, 65)...), "generatedtest.Lists.Merge: ids has 65 elements; at most 64 are locked together"},
		{l.Reserve(patient(t), "", []*gen.Line{line}), "generatedtest.Lists.Reserve: tenant is empty"},
		{l.Reserve(patient(t), "t", []*gen.Line{line, nil}), "generatedtest.Lists.Reserve: lines[1] is nil"},
		{l.Reserve(patient(t), "t", []*gen.Line{{}}), "generatedtest.Lists.Reserve: lines[0].LockKey() is empty"},
		{l.Reserve(patient(t), "t", []*gen.Line{line, line, line, line}), "generatedtest.Lists.Reserve: lines has 4 elements; at most 3 are locked together"},
		{l.Ask(patient(t), "why", "x"), "generatedtest.Lists.Ask: askKey() can't be had: without a name"},
		{l.Ask(patient(t), "how"), "generatedtest.Lists.Ask: pathKey() is empty"},
		{l.Ask(patient(t), "how", "{}"), "generatedtest.Lists.Ask: the key has a \"{\" that begins no hash tag; a cluster could not unlock it: close it, as in \"{tag}\""},
		{l.Bind(patient(t), gen.UUID{}, nil, netip.Addr{}, gen.Tag{}), "generatedtest.Lists.Bind: hash is empty"},
		{l.Bind(patient(t), gen.UUID{}, []byte{1}, netip.Addr{}, gen.Tag{}), "generatedtest.Lists.Bind: addr.AppendText() is empty"},
		{l.Bind(patient(t), gen.UUID{}, []byte{1}, netip.IPv4Unspecified(), gen.Tag{}), "generatedtest.Lists.Bind: tag.AppendLockKey() can't be had: without a name"},
	} {
		require.EqualError(t, tt.err, tt.want)
		var bad *lockrt.KeyError
		require.ErrorAs(t, tt.err, &bad)
	}
	_, err := gen.ListsKeys{}.Bind(gen.UUID{}, []byte{1}, netip.IPv4Unspecified(), gen.Tag{})
	require.ErrorContains(t, errors.Unwrap(err), "without a name", "what the method said can be had")
}

// TestLists_Empty shows that with empty=allow a call without elements takes no lock, since there is nothing to protect.
func TestLists_Empty(t *testing.T) {
	t.Parallel()
	called := 0
	l := gen.NewLockedLists(lists{func(ctx context.Context) error {
		called++
		return ctx.Err()
	}}, newReplica(t, nothing).locks)
	require.NoError(t, l.Touch(patient(t), nil))
	require.NoError(t, l.Touch(patient(t), []gen.UUID{{1}, {2}}))
	require.Equal(t, 2, called)
}

func TestLists_Keys(t *testing.T) {
	t.Parallel()
	keys, err := gen.ListsKeys{}.Reserve("a/b", []*gen.Line{{SKU: "x:1"}, {SKU: "y"}})
	require.NoError(t, err)
	require.Equal(t, []string{"gen:{a%2Fb}", "gen:{a%2Fb}:sku:x%3A1", "gen:{a%2Fb}:sku:y"}, keys)
	key, err := gen.ListsKeys{}.Bind(gen.UUID{0xab, 15: 1}, []byte{0, 0xff}, netip.MustParseAddr("fe80::1"), gen.Tag{Space: "s", Name: "n"})
	require.NoError(t, err)
	asked, err := gen.ListsKeys{}.Ask("a:b", "gen", "x")
	require.NoError(t, err)
	require.Equal(t, [2]string{"a%3Ab", "gen/x"}, asked)
	require.Equal(t, "gen:AB000000000000000000000000000001:00FF:fe80%3A%3A1:s%2Fn", key)
}

// region is a type argument with a key of its own.
type region struct{ gen.Region }

func TestBox_TypeParameters(t *testing.T) {
	t.Parallel()
	box := gen.BoxKeys[*gen.Line, string]{}
	_, err := box.Put(nil, "m")
	require.EqualError(t, err, "generatedtest.Box.Put: k is nil", "a nil pointer of a type parameter")
	_, err = box.Put(&gen.Line{SKU: "s"}, "")
	require.EqualError(t, err, "generatedtest.Box.Put: m is empty")
	key, err := box.Put(&gen.Line{SKU: "s"}, "a:b")
	require.NoError(t, err)
	require.Equal(t, "gen:box:s:a%3Ab", key)

	_, err = gen.BoxKeys[interface{ LockKey() string }, bool]{}.Put(nil, false)
	require.EqualError(t, err, "generatedtest.Box.Put: k is nil", "a nil interface")
	key, err = gen.BoxKeys[region, bool]{}.Put(region{gen.Region{Country: "de"}}, false)
	require.NoError(t, err)
	require.Equal(t, "gen:box:de%2F:false", key)
	key, err = gen.BoxKeys[region, int]{}.Put(region{}, -7)
	require.NoError(t, err)
	require.Equal(t, "gen:box:%2F:-7", key)
	key, err = gen.BoxKeys[region, uint16]{}.Put(region{}, 7)
	require.NoError(t, err)
	require.Equal(t, "gen:box:%2F:7", key)
}

// FuzzLists shows that two different lists of ids never give the same keys, and that no key equals one of another
// shape.
func FuzzLists(f *testing.F) {
	f.Add("a", "b", "a,b", "")
	f.Add("a:b", "c", "a", "b:c")
	f.Fuzz(func(t *testing.T, a1, a2, b1, b2 string) {
		ka, errA := gen.ListsKeys{}.Merge(gen.OrderID(a1), gen.OrderID(a2))
		kb, errB := gen.ListsKeys{}.Merge(gen.OrderID(b1), gen.OrderID(b2))
		require.Equal(t, a1 == "" || a2 == "", errA != nil)
		if errA == nil && errB == nil {
			require.Equal(t, a1 == b1 && a2 == b2, ka[0] == kb[0] && ka[1] == kb[1])
		}
		if a1 == "" || b1 == "" {
			return
		}
		ha, err := gen.ListsKeys{}.Bind(gen.UUID{1}, []byte(a1), netip.IPv4Unspecified(), gen.Tag{Name: a2 + "n"})
		require.NoError(t, err)
		hb, err := gen.ListsKeys{}.Bind(gen.UUID{1}, []byte(b1), netip.IPv4Unspecified(), gen.Tag{Name: b2 + "n"})
		require.NoError(t, err)
		require.Equal(t, a1 == b1 && a2 == b2, ha == hb)
	})
}
