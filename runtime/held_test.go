package lockrt_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/gen"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// The methods of a proof, and the types with them.
type proof interface {
	Key() string
	Err() error
	Context() context.Context
	Until() time.Time
}

var (
	_ interface {
		proof
		ID() pageID
		Token() int64
	} = lockrt.Held[pageID]{}
	_ interface {
		proof
		ID() pageID
	} = lockrt.HeldShared[pageID]{}
	_ interface {
		proof
		ID() pageID
	} = lockrt.HeldPermit[pageID]{}
	_ interface {
		proof
		Each() []lockrt.Held[pageID]
	} = lockrt.HeldMulti[pageID]{}
)

// TestHeld_IsAProofAndNothingElse: no proof can unlock, nor make anything last.
func TestHeld_IsAProofAndNothingElse(t *testing.T) {
	t.Parallel()
	for typ, want := range map[reflect.Type][]string{
		reflect.TypeFor[lockrt.Held[pageID]]():       {"Context", "Err", "ID", "Key", "Token", "Until"},
		reflect.TypeFor[lockrt.HeldShared[pageID]](): {"Context", "Err", "ID", "Key", "Until"},
		reflect.TypeFor[lockrt.HeldPermit[pageID]](): {"Context", "Err", "ID", "Key", "Until"},
		reflect.TypeFor[lockrt.HeldMulti[pageID]]():  {"Context", "Each", "Err", "Key", "Until"},
	} {
		var has []string
		for m := range reflect.PointerTo(typ).Methods() {
			has = append(has, m.Name)
		}
		require.Equal(t, want, has, typ)
		for _, f := range reflect.VisibleFields(typ) {
			require.False(t, f.IsExported(), "%v.%s", typ, f.Name)
		}
	}
}

// TestHeld_ZeroProvesNothing: and no method of it fails in another way.
func TestHeld_ZeroProvesNothing(t *testing.T) {
	t.Parallel()
	var zero lockrt.Held[pageID]
	require.Empty(t, zero.ID())
	require.Zero(t, zero.Token())
	for _, p := range []proof{zero, lockrt.HeldShared[pageID]{}, lockrt.HeldPermit[pageID]{}, lockrt.HeldMulti[pageID]{}} {
		require.ErrorIs(t, p.Err(), lockrt.ErrReleased)
		require.EqualError(t, p.Err(), "lockgen: lease released: a zero proof proves no lock")
		require.Empty(t, p.Key())
		require.Zero(t, p.Until())
		require.Error(t, p.Context().Err())
		require.ErrorIs(t, context.Cause(p.Context()), lockrt.ErrBadOption)
	}
	require.Empty(t, lockrt.HeldMulti[pageID]{}.Each())
}

// TestHeld_EndsWithItsLease: a proof that is kept says how the lease ended.
func TestHeld_EndsWithItsLease(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	key := redistest.Key(t, "page")
	page := gen.For(c, &gen.Spec{Name: "wiki.Locks.Page", Wait: lockrt.UntilDone, Fence: true}, pageID("home"), key, nil)
	lease, err := page.Lock(patient(t))
	require.NoError(t, err)
	held := lease.Held()
	require.Equal(t, lease.Token(), held.Token())
	require.Positive(t, held.Token())
	require.Equal(t, lease.Until(), held.Until())
	require.Equal(t, lease.Context(), held.Context())
	require.NoError(t, held.Err())
	taken, err := page.ForceUnlock(patient(t))
	require.NoError(t, err)
	require.True(t, taken)
	receive(t, held.Context().Done(), "the loss")
	require.ErrorIs(t, held.Err(), lockrt.ErrLost)
	require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)
	redistest.Shared(t).Do("DEL", "redisson_lock_token:{"+key+"}")

	shop := gen.ForPermits(c, &gen.Spec{Name: "shops.Locks.Shop"}, 1, shopID(7), redistest.Key(t, "shop"), nil)
	permit, err := shop.TryAcquire(patient(t))
	require.NoError(t, err)
	require.Equal(t, shopID(7), permit.Held().ID())
	require.Len(t, permit.PermitID(), 32)
	require.Equal(t, permit.Until(), permit.Held().Until())
	require.NoError(t, permit.Release(t.Context()))
	require.ErrorIs(t, permit.Held().Err(), lockrt.ErrReleased)
}
