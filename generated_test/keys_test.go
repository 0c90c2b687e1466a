package generatedtest_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	gen "github.com/lockgen/lockgen/generated_test"
	lockrt "github.com/lockgen/lockgen/runtime"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	keys := gen.OrdersKeys{}
	ref := "r 1"
	order := &gen.Order{ID: "a:b/c", Owner: &gen.User{ID: 7}, Audit: &gen.Audit{By: -1}, Ref: &ref}

	key, err := keys.Pay(order)
	require.NoError(t, err)
	require.Equal(t, "gen:order:a%3Ab%2Fc", key)
	several, err := keys.Transfer(order, 9)
	require.NoError(t, err)
	require.Equal(t, [3]string{"gen:order:a%3Ab%2Fc", "gen:user:7", "gen:user:9"}, several)
	key, err = keys.Audited(*order)
	require.NoError(t, err)
	require.Equal(t, "gen:-1/u-7ns:r%201", key)
	require.Equal(t, [2]string{"gen:global", "gen:global:two"}, keys.Global())
	tagged, err := keys.Tagged("{acme}", gen.Region{Country: "de", City: "Ulm"})
	require.NoError(t, err)
	require.Equal(t, [2]string{"gen:{%7Bacme%7D}:order", "gen:{%7Bacme%7D}:region:de%2FUlm"}, tagged)

	key, err = gen.LocksKeys{}.Seat(gen.Seat{Show: -3, Row: "{a}%", Aisle: true, No: 255})
	require.NoError(t, err)
	require.Equal(t, "gen/shop:seat:-3/%7Ba%7D%25:255:true", key)
	key, err = gen.NamesKeys{}.Predeclared("n", 1, false, 2, "b")
	require.NoError(t, err)
	require.Equal(t, "names:n/1/false/2/b", key)
	key, err = gen.StoreKeys[string, int, any]{}.Put("k", 4)
	require.NoError(t, err)
	require.Equal(t, "names:k:4", key)
}

// TestKeys_Refused shows that the error names the missing part of the arguments, before anything is
// locked.
func TestKeys_Refused(t *testing.T) {
	t.Parallel()
	keys := gen.OrdersKeys{}
	empty := ""
	whole := gen.Order{ID: "1", Owner: &gen.User{}, Audit: &gen.Audit{}, Ref: &empty}
	for _, tt := range []struct {
		build func() error
		want  string
	}{
		{func() error { _, err := keys.Pay(nil); return err }, "generatedtest.Orders.Pay: o is nil"},
		{func() error { _, err := keys.Pay(&gen.Order{}); return err }, "generatedtest.Orders.Pay: o.ID is empty"},
		{func() error { _, err := keys.Transfer(&gen.Order{ID: "1"}, 2); return err }, "generatedtest.Orders.Transfer: o.Owner is nil"},
		{func() error { _, err := keys.Audited(gen.Order{}); return err }, "generatedtest.Orders.Audited: o.Audit is nil"},
		{func() error { _, err := keys.Audited(gen.Order{Audit: whole.Audit}); return err }, "generatedtest.Orders.Audited: o.Owner is nil"},
		{func() error {
			_, err := keys.Audited(gen.Order{Audit: whole.Audit, Owner: whole.Owner})
			return err
		}, "generatedtest.Orders.Audited: o.Ref is nil"},
		{func() error { _, err := keys.Audited(whole); return err }, "generatedtest.Orders.Audited: o.Ref is empty"},
		{func() error { _, err := gen.LocksKeys{}.Order(""); return err }, "generatedtest.Locks.Order: id is empty"},
	} {
		err := tt.build()
		require.EqualError(t, err, tt.want)
		var bad *lockrt.KeyError
		require.ErrorAs(t, err, &bad)
	}
}

// TestKeys_AllocateOnce shows that the buffer stays on the stack, and that only the key is allocated. It is not
// parallel: allocations are counted for the whole process.
func TestKeys_AllocateOnce(t *testing.T) {
	order := &gen.Order{ID: "4711", Owner: &gen.User{ID: 7}}
	require.InDelta(t, 1, testing.AllocsPerRun(100, func() { sinkString, sinkError = gen.OrdersKeys{}.Pay(order) }), 0)
	require.InDelta(t, 3, testing.AllocsPerRun(100, func() { sinkKeys, sinkError = gen.OrdersKeys{}.Transfer(order, 9) }), 0)
	seat := gen.Seat{Show: 1 << 20, Row: "a:1", No: 17}
	require.InDelta(t, 1, testing.AllocsPerRun(100, func() { sinkString, sinkError = gen.LocksKeys{}.Seat(seat) }), 0)
	id, hash, addr, tag := gen.UUID{1}, []byte{1}, netip.IPv4Unspecified(), gen.Tag{Name: "n"}
	require.InDelta(t, 1, testing.AllocsPerRun(100, func() { sinkString, sinkError = gen.ListsKeys{}.Bind(id, hash, addr, tag) }), 0)
}

var (
	sinkString string
	sinkKeys   [3]string
	sinkError  error
)

// FuzzKeys shows that two different tuples of arguments never give one key.
func FuzzKeys(f *testing.F) {
	f.Add(int32(1), "a", uint8(2), true, int32(1), "a:2", uint8(2), true)
	f.Add(int32(1), "a/1", uint8(2), true, int32(1), "a", uint8(2), false)
	f.Add(int32(-1), "%3A", uint8(2), true, int32(-1), ":", uint8(2), true)
	f.Add(int32(0), "{x}", uint8(0), false, int32(0), "x", uint8(0), false)
	f.Fuzz(func(t *testing.T, show1 int32, row1 string, no1 uint8, aisle1 bool, show2 int32, row2 string, no2 uint8, aisle2 bool) {
		a, b := gen.Seat{Show: show1, Row: row1, No: no1, Aisle: aisle1}, gen.Seat{Show: show2, Row: row2, No: no2, Aisle: aisle2}
		keyA, errA := gen.LocksKeys{}.Seat(a)
		keyB, errB := gen.LocksKeys{}.Seat(b)
		require.Equal(t, row1 == "", errA != nil)
		require.Equal(t, row2 == "", errB != nil)
		if errA != nil || errB != nil {
			return
		}
		require.Equal(t, a == b, keyA == keyB, "%+v %+v %s", a, b, keyA)
		require.False(t, strings.ContainsAny(keyA, "{} \n"), keyA)

		keyA, errA = gen.NamesKeys{}.Locals(row1, row2)
		require.Equal(t, row1 == "" || row2 == "", errA != nil)
		keyB, errB = gen.NamesKeys{}.Locals(row2, row1)
		require.NoError(t, errB)
		require.Equal(t, row1 == row2, keyA == keyB, keyA)
	})
}

// FuzzKeys_Kinds is FuzzKeys for bytes, texts, functions and lists.
func FuzzKeys_Kinds(f *testing.F) {
	f.Add([]byte{1}, []byte{2}, []byte{3, 4, 5, 6}, "a/b", []byte{1}, []byte{2, 0}, []byte{3, 4, 5, 6}, "a/b")
	f.Add([]byte{0}, []byte("0"), []byte("0000000000000000"), "%2F", []byte{}, []byte("0"), []byte("0000000000000000"), "/")
	f.Add([]byte{1}, []byte{1}, []byte("\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x01\x02\x03\x04"), ":", []byte{1}, []byte{1}, []byte{1, 2, 3, 4}, ":")
	f.Fuzz(func(t *testing.T, id1, hash1, addr1 []byte, text1 string, id2, hash2, addr2 []byte, text2 string) {
		type tuple struct {
			id         gen.UUID
			hash, text string
			addr       netip.Addr
		}
		build := func(id, hash, addr []byte, text string) (tuple, []string) {
			v := tuple{hash: string(hash), text: text}
			copy(v.id[:], id)
			v.addr, _ = netip.AddrFromSlice(addr)
			key, err := gen.ListsKeys{}.Bind(v.id, hash, v.addr, gen.Tag{Name: text})
			require.Equal(t, len(hash) == 0 || text == "" || !v.addr.IsValid(), err != nil, "%+v %v", v, err)
			if err != nil {
				return v, nil
			}
			asked, err := gen.ListsKeys{}.Ask(text, "path")
			require.Equal(t, text == "why", err != nil)
			lists, err := gen.ListsKeys{}.Merge(gen.OrderID(text), gen.OrderID(hash))
			require.NoError(t, err)
			open, err := gen.OpenKindKeys[string]{}.One(text)
			require.NoError(t, err)
			return v, append([]string{key, asked[0], open}, lists...)
		}
		a, keysA := build(id1, hash1, addr1, text1)
		b, keysB := build(id2, hash2, addr2, text2)
		if keysA == nil || keysB == nil {
			return
		}
		require.Equal(t, a == b, keysA[0] == keysB[0], "%+v %+v %s", a, b, keysA[0])
		if a.text != "why" && b.text != "why" {
			require.Equal(t, a.text == b.text, keysA[1] == keysB[1])
		}
		require.Equal(t, a.text == b.text, keysA[2] == keysB[2])
		require.Equal(t, a.text == b.text, keysA[3] == keysB[3])
		require.Equal(t, a.hash == b.hash, keysA[4] == keysB[4])
	})
}
