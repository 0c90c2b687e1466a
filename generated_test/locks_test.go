package generatedtest_test

import (
	"context"
	"hash/fnv"
	"testing"

	"github.com/stretchr/testify/require"

	gen "github.com/lockgen/lockgen/generated_test"
	lockrt "github.com/lockgen/lockgen/runtime"
)

// uniqueNumber returns a number that no other test has.
func uniqueNumber(t *testing.T) int64 {
	h := fnv.New32a()
	_, err := h.Write([]byte(newID(t)))
	require.NoError(t, err)
	return int64(h.Sum32()) << 8
}

// ship can be called only by a holder of the order's lock.
func ship(p lockrt.Held[gen.OrderID]) gen.OrderID { return p.ID() }

func TestLocks_ProveThatTheyAreHeld(t *testing.T) {
	t.Parallel()
	locks, others := gen.NewLocks(newReplica(t, nothing).locks), gen.NewLocks(newReplica(t, nothing).locks)
	id := newID(t)
	require.NoError(t, locks.Order(id).Do(patient(t), func(ctx context.Context, p lockrt.Held[gen.OrderID]) error {
		require.Equal(t, id, ship(p))
		require.NoError(t, ctx.Err())
		_, err := others.Order(id).TryLock(patient(t))
		require.ErrorIs(t, err, lockrt.ErrNotAcquired)
		free, err := others.Order(newID(t)).Lock(patient(t))
		require.NoError(t, err)
		return free.Unlock(patient(t))
	}))
	again, err := others.Order(id).Lock(patient(t))
	require.NoError(t, err)
	require.NoError(t, again.Unlock(patient(t)))
}

func TestLocks_TakeTheirOptions(t *testing.T) {
	t.Parallel()
	locks, others := gen.NewLocks(newReplica(t, nothing).locks), gen.NewLocks(newReplica(t, nothing).locks)
	id := gen.UserID(uniqueNumber(t))
	first, err := locks.User(id).Lock(patient(t))
	require.NoError(t, err)
	_, err = others.User(id).Lock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired, "wait=0 tries once")
	require.NoError(t, first.Unlock(patient(t)))

	seat := gen.Seat{Show: int32(uniqueNumber(t) >> 9), Row: "a:1", No: 3}
	held, err := locks.Seat(seat).Lock(patient(t))
	require.NoError(t, err)
	require.Equal(t, seat, held.Held().ID())
	key, err := locks.Seat(seat).Key()
	require.NoError(t, err)
	require.Equal(t, key, held.Key())
	require.NoError(t, held.Unlock(patient(t)))
}

func TestLocks_OfSeveralOrders(t *testing.T) {
	t.Parallel()
	locks, others := gen.NewLocks(newReplica(t, nothing).locks), gen.NewLocks(newReplica(t, nothing).locks, lockrt.WithWait(0))
	a, b := newID(t), newID(t)
	require.NoError(t, locks.Orders(b, a).Do(patient(t), func(_ context.Context, both lockrt.HeldMulti[gen.OrderID]) error {
		each := both.Each()
		require.Equal(t, b, ship(each[0]), "what asks for the proof of one order takes it")
		require.Equal(t, a, ship(each[1]))
		for _, id := range []gen.OrderID{a, b} {
			_, err := others.Order(id).Lock(patient(t))
			require.ErrorIs(t, err, lockrt.ErrNotAcquired, "it is the same lock")
		}
		_, err := others.Orders(newID(t), a).Lock(patient(t))
		require.ErrorIs(t, err, lockrt.ErrNotAcquired)
		return nil
	}))
	held, err := others.Orders(a, a, b).Lock(patient(t))
	require.NoError(t, err)
	require.NoError(t, held.Unlock(patient(t)))
	for want, ids := range map[string][]gen.OrderID{
		"generatedtest.Locks.Orders: ids is empty":                                      nil,
		"generatedtest.Locks.Orders: ids[1] is empty":                                   {a, ""},
		"generatedtest.Locks.Orders: ids has 4 elements; at most 3 are locked together": {a, a, a, a},
	} {
		_, err = locks.Orders(ids...).Lock(patient(t))
		require.EqualError(t, err, want)
	}
}

func TestLocks_OfSeveralParameters(t *testing.T) {
	t.Parallel()
	locks := gen.NewLocks(newReplica(t, nothing).locks)
	row := string(newID(t))
	held, err := locks.Place(row, 7).Lock(patient(t))
	require.NoError(t, err)
	require.Equal(t, gen.Place{Row: row, No: 7}, held.Held().ID())
	require.Positive(t, held.Token())
	_, err = locks.Place(row, 7).TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	require.NoError(t, held.Unlock(patient(t)))
	_, err = locks.Place("", 7).Lock(patient(t))
	require.EqualError(t, err, "generatedtest.Locks.Place: row is empty")
}

func TestLocks_RefuseABadID(t *testing.T) {
	t.Parallel()
	locks := gen.NewLocks(newReplica(t, nothing).locks)
	_, err := locks.Order("").Lock(patient(t))
	require.EqualError(t, err, "generatedtest.Locks.Order: id is empty")
	_, err = locks.Order("").Key()
	require.Error(t, err)
}
