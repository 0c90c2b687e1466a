package lockrt_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/gen"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

func TestEntityMulti(t *testing.T) {
	t.Parallel()
	c, other := newClient(t, lockrt.Options{}), newClient(t, lockrt.Options{})
	spec := &gen.Spec{Name: "wiki.Locks.Pages", Wait: 0, Watchdog: time.Hour, Fence: true}
	a, b := redistest.Key(t, "a"), redistest.Key(t, "b")
	ids := []pageID{"b", "a", "b"}
	pages := gen.ForMulti(c, spec, ids, []string{b, a, b}, nil)
	keys, err := pages.Keys()
	require.NoError(t, err)
	require.Equal(t, []string{b, a, b}, keys)
	held, err := pages.Lock(patient(t))
	require.NoError(t, err)
	require.EqualValues(t, 2, exists(t, a, b))
	require.NoError(t, held.Err())
	each := held.Held().Each()
	require.Len(t, each, 3)
	for i, id := range ids {
		require.Equal(t, id, each[i].ID())
		require.Equal(t, keys[i], each[i].Key())
		require.NoError(t, each[i].Err())
		require.Positive(t, each[i].Token())
		require.Greater(t, time.Until(each[i].Until()), time.Minute, "as the annotation says")
		require.NoError(t, each[i].Context().Err())
	}
	require.Equal(t, each[0], each[2])
	require.Equal(t, held.Key(), held.Held().Key())
	_, err = other.Mutex(a).TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	again, err := pages.TryLock(held.Context())
	require.NoError(t, err, "it enters again")
	require.NoError(t, again.Unlock(t.Context()))
	_, err = gen.ForMulti(other, spec, ids, keys, nil).Lock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	require.ErrorContains(t, err, "wiki.Locks.Pages: lockgen: lock")
	_, err = gen.ForMulti(other, spec, ids, keys, nil, lockrt.WithWait(lockrt.UntilDone)).TryLock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired, "tried once")
	began := time.Now()
	_, err = gen.ForMulti(other, spec, ids, keys, nil, lockrt.WithWait(50*time.Millisecond)).Lock(patient(t))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	require.GreaterOrEqual(t, time.Since(began), 50*time.Millisecond, "the program says otherwise")
	require.NoError(t, held.Unlock(t.Context()))
	require.ErrorIs(t, each[1].Err(), lockrt.ErrReleased)
	until(t, "both are free", func() bool { return exists(t, a, b) == 0 }) // also of the calls that have given up

	mine := errors.New("mine")
	require.ErrorIs(t, pages.Do(patient(t), func(ctx context.Context, held lockrt.HeldMulti[pageID]) error {
		taken, err := other.Mutex(a).ForceUnlock(patient(t))
		require.NoError(t, err)
		require.True(t, taken)
		receive(t, ctx.Done(), "the loss of one of them")
		require.ErrorIs(t, held.Err(), lockrt.ErrLost)
		require.ErrorIs(t, held.Each()[1].Err(), lockrt.ErrLost)
		require.NoError(t, held.Each()[0].Err())
		return mine
	}), mine)
	until(t, "both are free", func() bool { return exists(t, a, b) == 0 }) // also of the calls that have given up

	one := gen.ForMulti(c, spec, ids[:1], keys[:1], nil)
	require.NoError(t, one.Do(patient(t), func(_ context.Context, held lockrt.HeldMulti[pageID]) error {
		require.Equal(t, pageID("b"), held.Each()[0].ID())
		return held.Each()[0].Err()
	}))
	for _, key := range keys {
		redistest.Shared(t).Do("DEL", "redisson_lock_token:{"+key+"}")
	}
	require.ErrorIs(t, lockrt.HeldMulti[pageID]{}.Err(), lockrt.ErrReleased, "it proves nothing")
	require.Empty(t, lockrt.HeldMulti[pageID]{}.Each())
}

func TestEntityMulti_WithoutKeys(t *testing.T) {
	t.Parallel()
	c, spec := newClient(t, lockrt.Options{}), &gen.Spec{Name: "wiki.Locks.Pages"}
	for want, pages := range map[string]lockrt.EntityMulti[pageID]{
		"wiki.Locks.Pages: ids[1] is empty":                              gen.ForMulti(c, spec, []pageID{"a", ""}, nil, gen.EmptyKey("wiki.Locks.Pages", "ids[1]")),
		"wiki.Locks.Pages: the key is missing: there is nothing to lock": gen.ForMulti[pageID](c, spec, nil, nil, nil),
		"wiki.Locks.Pages: the key is not one for each: 1 for 2":         gen.ForMulti(c, spec, []pageID{"a", "b"}, []string{"a"}, nil),
	} {
		for _, err := range []error{
			second(pages.Keys()), second(pages.Lock(patient(t))), second(pages.TryLock(patient(t))), pages.Do(patient(t), nil),
		} {
			require.EqualError(t, err, want)
		}
	}
	_, err := gen.ForMulti(c, spec, []pageID{"a"}, []string{""}, nil).Lock(patient(t))
	require.EqualError(t, err, "wiki.Locks.Pages: the key is empty")
}
