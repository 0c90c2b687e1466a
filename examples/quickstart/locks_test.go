package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest"
)

func TestOrder_OneAtATime(t *testing.T) {
	one := NewLocks(locktest.Client(t, lockrt.Options{}))
	other := NewLocks(locktest.Client(t, lockrt.Options{})) // as another replica

	held, err := one.Order("42").Lock(t.Context())
	require.NoError(t, err)
	_, err = other.Order("42").TryLock(t.Context())
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	require.NoError(t, held.Unlock(t.Context()))
}
