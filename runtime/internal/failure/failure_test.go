package failure_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/failure"
)

func TestLasting(t *testing.T) {
	t.Parallel()
	for _, err := range []error{failure.ErrBadOption, failure.ErrClosed, failure.ErrUpgrade, failure.ErrDeleted} {
		require.True(t, failure.Lasting(fmt.Errorf("a call: %w", err)), err)
	}
	for _, err := range []error{nil, failure.ErrUnavailable, failure.ErrLost, failure.ErrNotAcquired} {
		require.False(t, failure.Lasting(err), err)
	}
}

func TestEnded(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("of its own")
	cancel(reason)
	err := failure.Ended(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, reason)

	plain, stop := context.WithCancel(t.Context())
	stop()
	require.Equal(t, context.Canceled, failure.Ended(plain))
}

func TestJoin(t *testing.T) {
	t.Parallel()
	one, two := errors.New("one"), errors.New("two")
	require.NoError(t, failure.Join(nil, nil))
	require.Equal(t, one, failure.Join(one, nil))
	require.Equal(t, two, failure.Join(nil, two))
	both := failure.Join(one, two)
	require.ErrorIs(t, both, one)
	require.ErrorIs(t, both, two)
	require.EqualError(t, both, "one; two")
	loss := failure.Lost(one)
	require.Equal(t, loss, failure.Join(loss, failure.Lost(two)), "the second one says nothing new")
}

func TestAfterLoss(t *testing.T) {
	t.Parallel()
	loss := failure.Lost(errors.New("expired"))
	err := failure.AfterLoss(t.Context(), context.Canceled, loss)
	require.ErrorIs(t, err, failure.ErrLost)
	require.NotErrorIs(t, err, context.Canceled, "the caller's own context goes on")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, failure.AfterLoss(ctx, context.Canceled, loss), context.Canceled)
}
