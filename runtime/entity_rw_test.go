package lockrt_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/gen"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

type pageID string

func TestEntityRWMutex(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	c := newClient(t, lockrt.Options{})
	spec := &gen.Spec{Name: "wiki.Locks.Page", Wait: 0}
	page := gen.ForRW(c, spec, pageID("home"), redistest.Key(t, "page"), nil)
	key, err := page.Key()
	require.NoError(t, err)

	w, err := page.Lock(patient(t))
	require.NoError(t, err)
	require.Equal(t, pageID("home"), w.Held().ID())
	require.NoError(t, w.Err())
	_, err = page.RLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	require.ErrorContains(t, err, "wiki.Locks.Page: lockgen: read lock")
	_, err = page.TryRLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	s, err := page.Inspect(patient(t))
	require.NoError(t, err)
	require.Equal(t, 1, s.WriteCount)
	taken, err := page.ForceRUnlock(patient(t))
	require.NoError(t, err)
	require.False(t, taken)
	free(t, w.Lease)

	r, err := page.RLock(patient(t))
	require.NoError(t, err)
	r2, err := page.TryRLock(patient(t))
	require.NoError(t, err)
	require.Equal(t, pageID("home"), r2.Held().ID())
	_, err = page.TryLock(r.Context())
	require.ErrorIs(t, err, lockrt.ErrUpgrade)
	taken, err = page.ForceUnlock(patient(t))
	require.NoError(t, err)
	require.False(t, taken)
	free(t, r.Lease, r2.Lease)

	mine := errors.New("mine")
	require.ErrorIs(t, page.Do(patient(t), func(ctx context.Context, held lockrt.Held[pageID]) error {
		require.NoError(t, held.Err())
		return page.RDo(ctx, func(_ context.Context, shared lockrt.HeldShared[pageID]) error {
			require.NoError(t, shared.Err())
			return mine
		})
	}), mine)
	nothingLeft(t, server, key)

	require.ErrorIs(t, lockrt.HeldShared[pageID]{}.Err(), lockrt.ErrReleased, "it proves nothing")
	require.False(t, reflect.TypeFor[lockrt.HeldShared[pageID]]().AssignableTo(reflect.TypeFor[lockrt.Held[pageID]]()),
		"a proof of reading is none of writing")
}

func TestEntityRWMutex_Fence(t *testing.T) {
	t.Parallel()
	key := redistest.Key(t, "page")
	page := gen.ForRW(newClient(t, lockrt.Options{}), &gen.Spec{Wait: lockrt.UntilDone, Fence: true}, pageID("home"), key, nil)
	w, err := page.Lock(patient(t))
	require.NoError(t, err)
	require.Positive(t, w.Token())
	free(t, w.Lease)
	r, err := page.RLock(patient(t))
	require.NoError(t, err)
	require.Zero(t, r.Token())
	free(t, r.Lease)
	redistest.Shared(t).Do("DEL", "redisson_lock_token:{"+key+"}")
}

func TestEntityRWMutex_WithoutAKey(t *testing.T) {
	t.Parallel()
	bad := gen.EmptyKey("wiki.Locks.Page", "id")
	page := gen.ForRW(newClient(t, lockrt.Options{}), &gen.Spec{}, pageID(""), "", bad)
	for _, err := range []error{
		second(page.Key()), second(page.Lock(patient(t))), second(page.TryLock(patient(t))), second(page.RLock(patient(t))),
		second(page.TryRLock(patient(t))), second(page.ForceUnlock(patient(t))), second(page.ForceRUnlock(patient(t))),
		second(page.Inspect(patient(t))), page.Do(patient(t), nil), page.RDo(patient(t), nil),
	} {
		require.Equal(t, bad, err)
	}
}
