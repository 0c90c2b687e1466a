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
