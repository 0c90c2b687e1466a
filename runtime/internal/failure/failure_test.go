package failure_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
	for name, more := range map[string]error{
		"behind": failure.Join(failure.Lost(one), two), "before": failure.Join(two, failure.Lost(one)),
		"wrapped":     fmt.Errorf("unlock: %w", failure.Join(failure.Lost(one), two)),
		"no answer":   failure.OfRelease(failure.Join(failure.Lost(one), fmt.Errorf("%w: %w", failure.ErrUnavailable, two))),
		"of three":    failure.Join(failure.Join(failure.Lost(one), failure.Lost(one)), two),
		"of one more": failure.Join(failure.Lost(one), failure.Join(two, failure.Lost(one))),
	} {
		err := failure.Join(loss, more)
		require.ErrorIs(t, err, failure.ErrLost, name)
		require.ErrorIs(t, err, two, name)
		require.Equal(t, 1, strings.Count(err.Error(), failure.ErrLost.Error()), "%s: %v", name, err)
	}
}

// A release without an answer is no outage of the call, also if another lock was lost.
func TestAfterWork_LostAndNotReleased(t *testing.T) {
	t.Parallel()
	reason := errors.New("reason")
	loss := failure.Lost(errors.New("expired"))
	silent := fmt.Errorf("release: %w: %w", failure.ErrUnavailable, reason)
	for name, more := range map[string]error{
		"lost first":    failure.Join(loss, silent),
		"silent first":  failure.Join(silent, loss),
		"of an unlock":  fmt.Errorf("unlock: %w", failure.OfRelease(failure.Join(loss, silent))),
		"of one of two": failure.Join(failure.OfRelease(failure.Join(loss, silent)), loss),
	} {
		err := failure.AfterWork(t.Context(), loss, more)
		require.ErrorIs(t, err, failure.ErrLost, name)
		require.ErrorIs(t, err, reason, name)
		require.NotErrorIs(t, err, failure.ErrUnavailable, name)
	}
	require.Equal(t, loss, failure.AfterWork(t.Context(), loss, failure.OfRelease(fmt.Errorf("%w: %w", failure.ErrLost, silent))))
}

func TestAfterWork(t *testing.T) {
	t.Parallel()
	loss := failure.Lost(errors.New("expired"))
	err := failure.AfterWork(t.Context(), context.Canceled, loss)
	require.ErrorIs(t, err, failure.ErrLost)
	require.NotErrorIs(t, err, context.Canceled, "the caller's own context goes on")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, failure.AfterWork(ctx, context.Canceled, loss), context.Canceled)
}

// TestAfterWork_NotUnavailable shows that work that was done is not to be done again because its release has no answer.
func TestAfterWork_NotUnavailable(t *testing.T) {
	t.Parallel()
	cause := errors.New("refused connection")
	silence := fmt.Errorf("release: %w: %w", failure.ErrUnavailable, cause)
	for _, err := range []error{failure.AfterWork(t.Context(), nil, silence), failure.OfRelease(silence)} {
		require.NotErrorIs(t, err, failure.ErrUnavailable)
		require.ErrorIs(t, err, cause)
		require.EqualError(t, err, silence.Error())
	}
	require.ErrorIs(t, failure.AfterWork(t.Context(), silence, nil), failure.ErrUnavailable, "by the work itself")
	require.NoError(t, failure.OfRelease(nil))
	require.Equal(t, cause, failure.OfRelease(cause))
}
