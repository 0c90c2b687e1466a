package lockrt_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/gen"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

func TestAcquire_LocksAllKeysInOrderAndOnce(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	a, b := redistest.Key(t, "a"), redistest.Key(t, "b")
	spec := &gen.Spec{Name: "orders.Service.Transfer", Wait: time.Second}
	hold, err := gen.With(c).Acquire(patient(t), spec, b, a, b)
	require.NoError(t, err)
	require.EqualValues(t, 2, exists(t, a, b))
	nested, err := gen.With(c).Acquire(hold.Context(), spec, a)
	require.NoError(t, err, "nested calls enter again")
	var none error
	nested.Release(&none)
	require.NoError(t, none)
	hold.Release(&none)
	require.NoError(t, none)
	freed(t, a, b)
	require.ErrorIs(t, context.Cause(hold.Context()), lockrt.ErrReleased)
}

func TestAcquire_AllOrNone(t *testing.T) {
	t.Parallel()
	c, other := newClient(t, lockrt.Options{}), newClient(t, lockrt.Options{})
	a, b := redistest.Key(t, "a"), redistest.Key(t, "b")
	lease, err := other.Mutex(b).Lock(patient(t))
	require.NoError(t, err)
	for _, wait := range []time.Duration{0, time.Second} {
		_, err = gen.With(c).Acquire(patient(t), &gen.Spec{Name: "orders.Service.Transfer", Wait: wait}, a, b)
		require.ErrorIs(t, err, lockrt.ErrNotAcquired)
		require.ErrorContains(t, err, `orders.Service.Transfer: lockgen: lock "`+b+`": not acquired`)
		gone(t, redistest.Shared(t), a) // at once, if the server answers soon
	}
	require.NoError(t, lease.Unlock(t.Context()))
}

func TestAcquire_LossOfAnyEndsTheContext(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	keys := []string{redistest.Key(t, "a"), redistest.Key(t, "b")}
	for _, lost := range keys {
		hold, err := gen.With(c).Acquire(patient(t), &gen.Spec{Name: "n", Wait: lockrt.UntilDone}, keys...)
		require.NoError(t, err)
		require.NoError(t, second(c.Mutex(lost).ForceUnlock(patient(t))))
		receive(t, hold.Context().Done(), "the loss")
		require.ErrorIs(t, context.Cause(hold.Context()), lockrt.ErrLost)
		err = nil
		hold.Release(&err)
		require.ErrorIs(t, err, lockrt.ErrLost)
		freed(t, keys...) // the rest is given back
	}
}

func TestAcquire_UsesTheSpec(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	key := redistest.Key(t, "k")
	ttl := func(spec gen.Spec) time.Duration {
		hold, err := gen.With(c).Acquire(patient(t), &spec, key)
		require.NoError(t, err)
		ms, err := redistest.Shared(t).Do("PTTL", key).AsInt64()
		require.NoError(t, err)
		hold.Release(&err)
		require.NoError(t, err)
		return time.Duration(ms) * time.Millisecond
	}
	require.InDelta(t, 30*time.Second, ttl(gen.Spec{}), float64(10*time.Second))
	require.InDelta(t, time.Hour, ttl(gen.Spec{Watchdog: time.Hour}), float64(time.Minute))
	require.InDelta(t, 2*time.Hour, ttl(gen.Spec{Lease: 2 * time.Hour}), float64(time.Minute))
}

func TestAcquire_RefusesBadKeys(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	spec := &gen.Spec{Name: "orders.Service.Pay"}
	_, err := gen.With(c).Acquire(patient(t), spec)
	require.EqualError(t, err, "orders.Service.Pay: the key is missing: there is nothing to lock")
	_, err = gen.With(c).Acquire(patient(t), spec, strings.Repeat("k", 2000))
	require.EqualError(t, err, "orders.Service.Pay: the key is 2000 bytes long; at most 1024 are accepted")
	var bad *lockrt.KeyError
	require.ErrorAs(t, err, &bad)
	require.EqualError(t, gen.NilKey("orders.Service.Pay", "o.Owner"), "orders.Service.Pay: o.Owner is nil")
	require.EqualError(t, gen.EmptyKey("orders.Service.Pay", "o.ID"), "orders.Service.Pay: o.ID is empty")
}

type orderID string

func TestEntityMutex(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	spec := &gen.Spec{Name: "locks.Locks.Order", Wait: 0, Watchdog: time.Hour}
	m := gen.For(c, spec, orderID("a/b"), redistest.Key(t, "order:a%2Fb"), nil)
	key, err := m.Key()
	require.NoError(t, err)

	var proof lockrt.Held[orderID]
	require.ErrorIs(t, proof.Err(), lockrt.ErrReleased, "the zero value proves nothing")
	require.NoError(t, m.Do(patient(t), func(ctx context.Context, held lockrt.Held[orderID]) error {
		proof = held
		require.Equal(t, orderID("a/b"), held.ID())
		require.Equal(t, key, held.Key())
		require.NoError(t, held.Err())
		require.Greater(t, time.Until(held.Until()), time.Minute)
		require.Equal(t, ctx, held.Context())
		_, err = m.Lock(t.Context())
		require.ErrorIs(t, err, lockrt.ErrNotAcquired, "the annotation says wait=0")
		_, err = m.Lock(t.Context(), lockrt.WithWait(time.Millisecond))
		require.ErrorContains(t, err, "after", "the call says otherwise")
		standing, err := m.Inspect(ctx)
		require.NoError(t, err)
		require.True(t, standing.Ours)
		inner, err := m.TryLock(ctx)
		require.NoError(t, err)
		return inner.Unlock(ctx)
	}))
	require.ErrorIs(t, proof.Err(), lockrt.ErrReleased)
	taken, err := m.ForceUnlock(patient(t))
	require.NoError(t, err)
	require.False(t, taken)

	none := gen.For(c, spec, orderID(""), "", gen.EmptyKey("locks.Locks.Order", "id"))
	for _, err := range []error{
		second(none.Key()), second(none.Lock(patient(t))), second(none.TryLock(patient(t))), second(none.ForceUnlock(patient(t))), second(none.Inspect(patient(t))),
		none.Do(patient(t), nil),
	} {
		require.EqualError(t, err, "locks.Locks.Order: id is empty")
	}
}

func TestAcquire_NoKeysAreMeantOrAMistake(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	ctx := patient(t)
	hold, err := gen.With(c).Acquire(ctx, &gen.Spec{Name: "n", Empty: true})
	require.NoError(t, err)
	require.Equal(t, ctx, hold.Context())
	hold.Release(&err)
	require.NoError(t, err)
	_, err = gen.With(c).Acquire(ctx, &gen.Spec{Name: "n"})
	var bad *lockrt.KeyError
	require.ErrorAs(t, err, &bad)
}
