package lockrt_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/gen"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

type shopID int

func TestEntitySemaphore(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	spec := &gen.Spec{Name: "shops.Locks.Shop", Wait: 0}
	s := gen.ForPermits(c, spec, 2, shopID(7), redistest.Key(t, "shop"), nil)
	first, err := s.Acquire(patient(t))
	require.NoError(t, err)
	require.Equal(t, shopID(7), first.Held().ID())
	require.NoError(t, first.Err())
	require.NoError(t, s.Do(patient(t), func(ctx context.Context, held lockrt.HeldPermit[shopID]) error {
		requireAvailable(t, 0, s)
		_, err := s.TryAcquire(ctx)
		require.ErrorIs(t, err, lockrt.ErrNotAcquired)
		require.ErrorContains(t, err, "shops.Locks.Shop: lockgen: try acquire")
		_, err = s.Acquire(ctx)
		require.ErrorIs(t, err, lockrt.ErrNotAcquired, "as the annotation says")
		return held.Err()
	}))
	require.NoError(t, first.Release(t.Context()))
	requireAvailable(t, 2, s)
	require.ErrorIs(t, lockrt.HeldPermit[shopID]{}.Err(), lockrt.ErrReleased)
}

func TestEntitySemaphore_WithoutAKey(t *testing.T) {
	t.Parallel()
	bad := &lockrt.KeyError{Name: "shops.Locks.Shop", Path: "id", Reason: "is empty"}
	s := gen.ForPermits(newClient(t, lockrt.Options{}), &gen.Spec{}, 2, shopID(0), "", bad)
	_, err := s.Acquire(t.Context())
	require.ErrorIs(t, err, bad)
	_, err = s.TryAcquire(t.Context())
	require.ErrorIs(t, err, bad)
	_, err = s.Available(t.Context())
	require.ErrorIs(t, err, bad)
	_, err = s.Key()
	require.ErrorIs(t, err, bad)
	require.ErrorIs(t, s.Do(t.Context(), func(context.Context, lockrt.HeldPermit[shopID]) error { return nil }), bad)
}
