package generatedtest_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	gen "github.com/lockgen/lockgen/generated_test"
	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

func TestService_KeepsTheSecondCallerOut(t *testing.T) {
	t.Parallel()
	id := newID(t)
	other := newReplica(t, nothing)
	inside := 0
	r := newReplica(t, func(ctx context.Context) error {
		inside++
		require.ErrorIs(t, other.Ship(patient(t), id), lockrt.ErrNotAcquired, "the same id")
		require.EqualError(t, other.Ship(patient(t), id), `generatedtest.Orders.Ship: lockgen: lock "`+key(t, id)+`": not acquired`)
		require.NoError(t, other.Ship(patient(t), newID(t)), "another id")
		return nil
	})
	receipt, err := r.Pay(patient(t), &gen.Order{ID: id}, 5)
	require.NoError(t, err)
	require.Equal(t, "receipt", receipt)
	require.Equal(t, 1, inside)
	freed(t, key(t, id)) // released
	require.NoError(t, other.Ship(patient(t), id), "and free for the next")
}

// key builds the key of an order.
func key(t *testing.T, id gen.OrderID) string {
	key, err := gen.OrdersKeys{}.Ship(id)
	require.NoError(t, err)
	return key
}

func TestService_TheSecondCallerWaits(t *testing.T) {
	t.Parallel()
	id := newID(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	first := newReplica(t, func(context.Context) error {
		close(entered)
		<-leave
		return nil
	})
	second := newReplica(t, nothing)
	done := make(chan error, 2)
	go func() {
		_, err := first.Pay(patient(t), &gen.Order{ID: id}, 1)
		done <- err
	}()
	receive(t, entered, "the first caller to get in")
	_, err := second.Soon(id)
	require.ErrorIs(t, err, lockrt.ErrNotAcquired, "wait= bounds it although it has no context")
	go func() {
		_, err := second.Pay(patient(t), &gen.Order{ID: id}, 1)
		done <- err
	}()
	close(leave)
	require.NoError(t, receive(t, done, "the first"))
	require.NoError(t, receive(t, done, "the second"))
	n, err := second.Soon(id)
	require.NoError(t, err)
	require.Equal(t, 3, n)
}

func TestService_PassesErrorsOn(t *testing.T) {
	t.Parallel()
	id, own := newID(t), errors.New("out of stock")
	r := newReplica(t, func(context.Context) error { return own })
	require.ErrorIs(t, r.Ship(patient(t), id), own)
	freed(t, key(t, id))

	_, err := r.Pay(patient(t), nil, 1)
	require.EqualError(t, err, "generatedtest.Orders.Pay: o is nil", "the service isn't called without its lock")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, r.Ship(ctx, id), context.Canceled)
}

func TestService_ReleasesAfterAPanic(t *testing.T) {
	t.Parallel()
	id := newID(t)
	r := newReplica(t, func(context.Context) error { panic("bug") })
	require.PanicsWithValue(t, "bug", func() { _ = r.Ship(patient(t), id) })
	freed(t, key(t, id))
	require.NoError(t, newReplica(t, nothing).Ship(patient(t), id))
}

func TestService_ReleasesAfterGoexit(t *testing.T) {
	t.Parallel()
	id := newID(t)
	r := newReplica(t, func(context.Context) error { runtime.Goexit(); return nil })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.Ship(patient(t), id)
	}()
	receive(t, ended, "the goroutine to end")
	freed(t, key(t, id))
	require.NoError(t, newReplica(t, nothing).Ship(patient(t), id))
}

func TestService_TellsOfALostLease(t *testing.T) {
	t.Parallel()
	id := newID(t)
	own := errors.New("gave up")
	var r replica
	r = newReplica(t, func(ctx context.Context) error {
		was, err := r.locks.Mutex(key(t, id)).ForceUnlock(patient(t))
		require.NoError(t, err)
		require.True(t, was)
		receive(t, ctx.Done(), "the call's context to end")
		require.ErrorIs(t, context.Cause(ctx), lockrt.ErrLost)
		return nil
	})
	err := r.Ship(patient(t), id)
	require.ErrorIs(t, err, lockrt.ErrLost, "although the method returned nil")

	r = newReplica(t, func(ctx context.Context) error {
		_, err := r.locks.Mutex(key(t, id)).ForceUnlock(patient(t))
		require.NoError(t, err)
		receive(t, ctx.Done(), "the call's context to end")
		return own
	})
	_, err = r.Pay(patient(t), &gen.Order{ID: id}, 1)
	require.ErrorIs(t, err, lockrt.ErrLost)
	require.ErrorIs(t, err, own, "both are told")
}

func TestService_BusySkip(t *testing.T) {
	t.Parallel()
	shard := redistest.Key(t, "shard")
	called := 0
	other := newReplica(t, func(context.Context) error {
		called++
		return nil
	})
	r := newReplica(t, func(context.Context) error {
		require.NoError(t, other.Nightly(patient(t), shard), "busy, so nothing is done and nothing is wrong")
		return nil
	})
	require.NoError(t, r.Nightly(patient(t), shard))
	require.Zero(t, called)
	require.NoError(t, other.Nightly(patient(t), shard))
	require.Equal(t, 1, called)
	require.EqualError(t, other.Nightly(patient(t), ""), "generatedtest.Orders.Nightly: shard is empty", "other failures are told")

	called = 0
	r = newReplica(t, func(ctx context.Context) error {
		other.Sweep(patient(t), shard)
		return nil
	})
	r.Sweep(patient(t), shard)
	require.Zero(t, called)
	other.Sweep(patient(t), shard)
	require.Equal(t, 1, called)
}

// TestService_ErrorsThatNoMethodReturns shows that a method without an error result reports its
// error to the logger and the hooks.
func TestService_ErrorsThatNoMethodReturns(t *testing.T) {
	t.Parallel()
	var told []lockrt.UnreportedEvent
	var with context.Context // that of the last event
	var log bytes.Buffer
	client, err := lockrt.Open(t.Context(), redistest.Shared(t).URL(), lockrt.Options{
		OpTimeout: unhurried,
		Logger:    slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError})),
		Hooks:     lockrt.Hooks{Unreported: func(ctx context.Context, e lockrt.UnreportedEvent) { with, told = ctx, append(told, e) }},
	})
	require.NoError(t, err)
	called := 0
	work := func(context.Context) {}
	s := gen.NewLockedOrders(orders{func(ctx context.Context) error { called++; work(ctx); return nil }}, client)
	is := func(err error) { // is compares with the only error since the last call
		t.Helper()
		require.Len(t, told, 1)
		require.Equal(t, "generatedtest.Orders.Sweep", told[0].Name)
		require.Equal(t, "gen:sweep:{shard}", told[0].Template)
		require.ErrorIs(t, told[0].Err, err)
		require.Contains(t, log.String(), "name=generatedtest.Orders.Sweep")
		told = nil
		log.Reset()
	}

	shard := redistest.Key(t, "shard")
	key, err := gen.OrdersKeys{}.Sweep(shard)
	require.NoError(t, err)
	r := newReplica(t, func(context.Context) error {
		s.Sweep(patient(t), shard)
		return nil
	})
	r.Sweep(patient(t), shard)
	require.Zero(t, called)
	require.Empty(t, told, "that somebody else holds it is no error")
	require.Empty(t, log.String())

	s.Sweep(patient(t), "")
	require.Len(t, told, 1)
	require.EqualError(t, told[0].Err, "generatedtest.Orders.Sweep: shard is empty")
	told = nil
	log.Reset()

	cancelled, cancel := context.WithCancel(patient(t))
	cancel()
	s.Sweep(cancelled, shard)
	is(context.Canceled)
	require.Equal(t, cancelled, with)
	require.Zero(t, called)

	var none context.Context
	s.Sweep(none, shard)
	is(lockrt.ErrBadOption)
	require.NotNil(t, with, "a hook may ask it for values")
	require.Zero(t, called)

	work = func(ctx context.Context) {
		_, err := client.Mutex(key).ForceUnlock(patient(t))
		require.NoError(t, err)
		<-ctx.Done()
	}
	s.Sweep(patient(t), shard)
	require.Equal(t, 1, called)
	is(lockrt.ErrLost)

	require.NoError(t, client.Close())
	s.Sweep(patient(t), shard)
	require.Equal(t, 1, called)
	is(lockrt.ErrClosed)
}

func TestService_SeveralLocks(t *testing.T) {
	t.Parallel()
	id := newID(t)
	order := &gen.Order{ID: id, Owner: &gen.User{ID: gen.UserID(uniqueNumber(t))}}
	to := order.Owner.ID + 1
	keys, err := gen.OrdersKeys{}.Transfer(order, to)
	require.NoError(t, err)
	other := newReplica(t, nothing)
	r := newReplica(t, func(context.Context) error {
		require.EqualValues(t, 3, held(t, keys[:]...))
		require.ErrorIs(t, other.Ship(patient(t), id), lockrt.ErrNotAcquired)
		return nil
	})
	require.NoError(t, r.Transfer(patient(t), order, to))
	freed(t, keys[:]...)

	r = newReplica(t, func(context.Context) error {
		require.EqualValues(t, 2, held(t, keys[0], keys[1]))
		return nil
	})
	require.NoError(t, r.Transfer(patient(t), order, order.Owner.ID), "two keys that are equal are one lock")

	lease, err := other.locks.Mutex(keys[2]).Lock(patient(t))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(patient(t))
	cancel()
	require.ErrorIs(t, r.Transfer(ctx, order, to), context.Canceled)
	freed(t, keys[0], keys[1]) // all or none
	require.NoError(t, lease.Unlock(patient(t)))
}

func TestService_EntersAgainUnderItsOwnLock(t *testing.T) {
	t.Parallel()
	id := newID(t)
	var r replica
	depth := 0
	r = newReplica(t, func(ctx context.Context) error {
		if depth++; depth > 2 {
			return nil
		}
		return r.Ship(ctx, id)
	})
	require.NoError(t, r.Ship(patient(t), id))
	require.Equal(t, 3, depth)
	freed(t, key(t, id))
}

func TestService_PassesThrough(t *testing.T) {
	t.Parallel()
	r := newReplica(t, func(ctx context.Context) error { return ctx.Err() })
	n, err := r.Export(patient(t), nil, "a", "b")
	require.NoError(t, err)
	require.Equal(t, 2, n)
	lines, err := r.Lines(patient(t), newID(t))
	require.NoError(t, err)
	require.NotNil(t, lines)
	require.NoError(t, r.Global(patient(t)))
}

func TestService_HashTag(t *testing.T) {
	t.Parallel()
	tenant, region := redistest.Key(t, "tenant"), gen.Region{Country: "de"}
	keys, err := gen.OrdersKeys{}.Tagged(tenant, region)
	require.NoError(t, err)
	r := newReplica(t, func(context.Context) error {
		require.EqualValues(t, 2, held(t, keys[:]...))
		return nil
	})
	require.NoError(t, r.Tagged(patient(t), tenant, region))
}
