package generatedtest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	gen "github.com/lockgen/lockgen/generated_test"
	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestHooks_KnowTheMethodAndTheTemplate shows that hooks get the method that locks, and the template of its key: there
// are few of those, however many keys there are.
func TestHooks_KnowTheMethodAndTheTemplate(t *testing.T) {
	t.Parallel()
	type label struct{ name, template string }
	acquired, ended := make(chan label, 100), make(chan label, 100)
	client, err := lockrt.Open(t.Context(), redistest.Shared(t).URL(), lockrt.Options{Hooks: lockrt.Hooks{
		AcquireEnd: func(_ context.Context, e lockrt.AcquireEvent) { acquired <- label{e.Name, e.Template} },
		Ended:      func(_ context.Context, e lockrt.EndEvent) { ended <- label{e.Name, e.Template} },
	}})
	require.NoError(t, err)
	defer client.Close()
	told := func(want label) {
		t.Helper()
		require.Equal(t, want, receive(t, acquired, "a call"))
		require.Equal(t, want, receive(t, ended, "the end of its lease"))
	}
	service := gen.NewLockedOrders(orders{func(context.Context) error { return nil }}, client)
	require.NoError(t, service.Ship(patient(t), newID(t)))
	told(label{"generatedtest.Orders.Ship", "gen:order:{id}"})

	locks := gen.NewLocks(client)
	held, err := locks.Order(newID(t)).Lock(patient(t))
	require.NoError(t, err)
	require.NoError(t, held.Unlock(t.Context()))
	told(label{"generatedtest.Locks.Order", "gen/shop:order:{id}"})
	several, err := locks.Orders(newID(t)+"a", newID(t)+"b").Lock(patient(t))
	require.NoError(t, err)
	require.NoError(t, several.Unlock(t.Context()))
	told(label{"generatedtest.Locks.Orders", "gen/shop:order:{ids...}"})
	held, err = locks.Order(newID(t)).Lock(patient(t), lockrt.WithName("nightly"))
	require.NoError(t, err)
	require.NoError(t, held.Unlock(t.Context()))
	told(label{"nightly", "gen/shop:order:{id}"})
}
