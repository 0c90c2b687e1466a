package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/examples/internal/replicas"
	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

func TestMain(m *testing.M) {
	if replicas.Name() != "" {
		main() // as the replicas of the test
		return
	}
	os.Exit(m.Run())
}

func TestShow(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"embedded", "redis"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var url string
			var server *redistest.RedisServer
			if name == "redis" {
				server = redistest.Server(t)
				url = server.URL()
			}
			var out bytes.Buffer
			require.NoError(t, show(t.Context(), url, &out), out.String())
			require.Contains(t, out.String(), "audit     counts 5000 cents while they work\n")
			require.Contains(t, out.String(), "audit     counts 5000 cents after 600 transfers, there were 5000\n")
			if server != nil {
				left, err := server.Do("DBSIZE").AsInt64()
				require.NoError(t, err)
				require.Zero(t, left, "keys left behind")
			}
		})
	}
}

// TestTransfer_LocksBoth shows what one transfer locks, also one within an account.
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
