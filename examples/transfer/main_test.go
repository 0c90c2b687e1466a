package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/examples/internal/replicastest"
	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest"
)

func TestMain(m *testing.M) { replicastest.Main(m, main) }

func TestShow(t *testing.T) {
	t.Parallel()
	replicastest.Show(t, show, func(t *testing.T, out string) {
		t.Helper()
		require.Contains(t, out, "audit     counts 5000 cents while they work\n")
		require.Contains(t, out, "audit     counts 5000 cents after 600 transfers, there were 5000\n")
	})
}

// TestTransfer_LocksBoth shows which locks a transfer takes, including one within an account.
func TestTransfer_LocksBoth(t *testing.T) {
	t.Parallel()
	client := locktest.Client(t, lockrt.Options{})
	b, closeBank, err := open(locktest.Server(t))
	require.NoError(t, err)
	defer closeBank()
	b.locks = NewLocks(client, lockrt.WithWait(0))
	for _, id := range accounts {
		require.NoError(t, b.store.save(t.Context(), id, cents))
	}
	require.NoError(t, b.transfer(t.Context(), "ann", "bob", 300))
	require.NoError(t, b.transfer(t.Context(), "zoe", "zoe", 300))
	require.ErrorIs(t, b.transfer(t.Context(), "ann", "bob", 701), errPoor)
	for id, want := range map[AccountID]int64{"ann": 700, "bob": 1300, "zoe": 1000} {
		got, err := b.total(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, want, got, id)
	}

	other := NewLocks(locktest.Client(t, lockrt.Options{})) // of another replica
	held, err := other.Accounts("bob").Lock(t.Context())
	require.NoError(t, err)
	require.ErrorIs(t, b.transfer(t.Context(), "bob", "ann", 1), lockrt.ErrNotAcquired)
	require.ErrorIs(t, b.transfer(t.Context(), "ann", "bob", 1), lockrt.ErrNotAcquired)
	require.NoError(t, b.transfer(t.Context(), "ann", "zoe", 1), "nothing is left locked")
	require.NoError(t, held.Unlock(t.Context()))
	require.NoError(t, b.store.drop(t.Context()))
}

func TestOpen_Nothing(t *testing.T) {
	t.Parallel()
	_, _, err := open("redis://127.0.0.1:1")
	require.Error(t, err)
}
