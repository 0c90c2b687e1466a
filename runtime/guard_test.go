package lockrt_test

import (
	"context"
	"log/slog"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// panicking returns hooks each of which panics.
func panicking() lockrt.Hooks {
	var h lockrt.Hooks
	v := reflect.ValueOf(&h).Elem()
	for i := range v.NumField() {
		v.Field(i).Set(reflect.MakeFunc(v.Field(i).Type(), func([]reflect.Value) []reflect.Value { panic("out of order") }))
	}
	return h
}

// While all hooks panic, calls lock, wait, hand over, renew and lose as without hooks, and leave nothing behind.
func TestHooks_ThatPanicCostNoLock(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{Watchdog: 6 * time.Second, Hooks: panicking(), Logger: slog.New(slog.DiscardHandler)})
	m := c.Mutex(redistest.Key(t, "k"))
	first := ok(t)(m.Lock(patient(t)))
	require.NotEmpty(t, c.Snapshot().Held)
	next := lockLater(patient(t), m)
	until(t, "it waits", func() bool { return c.Stats().Waiting == 1 })
	until(t, "leases are renewed", func() bool { return c.Stats().Renewals > 0 })
	free(t, first)
	second := receive(t, next, "the next one")
	require.NoError(t, second.err)
	forced(t, m)
	receive(t, second.lease.Context().Done(), "the loss")
	free(t, ok(t)(m.Lock(patient(t))))
	require.NoError(t, c.Close())
}

// A hook that returns no context has returned the one that it was given.
func TestHooks_MayReturnNoContext(t *testing.T) {
	t.Parallel()
	ended := make(chan context.Context, 1)
	c := newClient(t, lockrt.Options{Hooks: lockrt.Hooks{
		AcquireStart: func(context.Context, lockrt.AcquireEvent) context.Context { return nil },
		AcquireEnd:   func(ctx context.Context, _ lockrt.AcquireEvent) { ended <- ctx },
		Acquired:     func(context.Context, lockrt.AcquireEvent) context.Context { return nil },
	}})
	type key struct{}
	ctx := context.WithValue(patient(t), key{}, "of the caller")
	lease := ok(t)(c.Mutex(redistest.Key(t, "k")).Lock(ctx))
	require.Equal(t, "of the caller", receive(t, ended, "the end of the call").Value(key{}))
	require.Equal(t, "of the caller", lease.Context().Value(key{}))
	free(t, lease)
}
