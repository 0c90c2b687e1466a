package generatedtest_test

import (
	"context"
	"testing"
	"time"

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
	client, err := lockrt.Open(t.Context(), redistest.Shared(t).URL(), lockrt.Options{OpTimeout: unhurried, Hooks: lockrt.Hooks{
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

// TestHooks_OfADeadlockKnowTheTemplate has two clients wait for each other with locks of generated code, the first of which also calls the
// hooks of a call that waits.
func TestHooks_OfADeadlockKnowTheTemplate(t *testing.T) {
	t.Parallel()
	type label struct{ name, template string }
	order := label{"generatedtest.Locks.Order", "gen/shop:order:{id}"}
	started, waiting, found := make(chan label, 100), make(chan label, 100), make(chan label, 100)
	open := func() *lockrt.Client {
		client, err := lockrt.Open(t.Context(), redistest.Shared(t).URL(), lockrt.Options{
			OpTimeout:     unhurried,
			DeadlockAfter: 250 * time.Millisecond, BreakDeadlocks: true,
			Hooks: lockrt.Hooks{
				AcquireStart: func(ctx context.Context, e lockrt.AcquireEvent) context.Context {
					started <- label{e.Name, e.Template}
					return ctx
				},
				Waiting:  func(_ context.Context, e lockrt.AcquireEvent) { waiting <- label{e.Name, e.Template} },
				Deadlock: func(_ context.Context, e lockrt.DeadlockEvent) { found <- label{e.Name, e.Template} },
			},
		})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, client.Close()) })
		return client
	}
	one, two := gen.NewLocks(open()), gen.NewLocks(open())
	a, b := newID(t)+"a", newID(t)+"b"
	heldA, err := one.Order(a).Lock(patient(t))
	require.NoError(t, err)
	require.Equal(t, order, receive(t, started, "a call"))
	heldB, err := two.Order(b).Lock(patient(t))
	require.NoError(t, err)
	wait := func(locks gen.Locks, under context.Context, id gen.OrderID, own interface{ Unlock(context.Context) error }, done chan<- error) {
		held, err := locks.Order(id).Lock(under)
		if err == nil {
			_ = held.Unlock(context.WithoutCancel(under))
		}
		_ = own.Unlock(context.WithoutCancel(under))
		done <- err
	}
	done := make(chan error, 2)
	go wait(one, heldA.Context(), b, heldA, done)
	require.Equal(t, order, receive(t, waiting, "a call that waits"))
	go wait(two, heldB.Context(), a, heldB, done)
	require.Equal(t, order, receive(t, found, "a deadlock"))
	broken := 0
	for range 2 {
		if err := receive(t, done, "a call"); err != nil {
			require.ErrorIs(t, err, lockrt.ErrDeadlock)
			broken++
		}
	}
	require.Equal(t, 1, broken)
}
