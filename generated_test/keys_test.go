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

// TestKeys_Refused says which part of the arguments is missing, before anything is locked.
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

// TestKeys_AllocateOnce: the buffer stays on the stack, only the key itself is allocated. Not parallel: allocations are counted for the process.
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

// FuzzKeys: two different tuples of arguments never give one key.
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
