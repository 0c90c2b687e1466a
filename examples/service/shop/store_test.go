package shop

import (
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"

	"github.com/lockgen/lockgen/examples/service/servers"
)

// openStore returns a store of a database of its own.
func openStore(t *testing.T) *Store {
	t.Helper()
	if os.Getenv("CI") == "" && !servers.PostgresInstalled() {
		t.Skip("PostgreSQL is not installed: make service installs it")
	}
	server, err := servers.Postgres(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	store, err := OpenStore(t.Context(), server.URL)
	require.NoError(t, err)
	t.Cleanup(store.Close)
	_, err = store.db.Exec(t.Context(), `INSERT INTO wallets VALUES ('w', 100); INSERT INTO items VALUES ('i', 5); INSERT INTO orders VALUES ('o', 7)`)
	require.NoError(t, err)
	return store
}

// token is as large as a real token.
const token int64 = 1_800_000_000_000_000

// TestFenced runs the statements of the recipe on a real PostgreSQL.
func TestFenced(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	ctx := t.Context()

	t.Run("the holder reads and writes", func(t *testing.T) {
		cents, err := fenced[int64](ctx, store.db, readWallet, "wallets", "w", token)
		require.NoError(t, err)
		require.EqualValues(t, 100, cents)
		for _, value := range []int64{90, 80} { // any number of times
			cents, err = fenced[int64](ctx, store.db, writeWallet, "wallets", "w", token, value)
			require.NoError(t, err)
			require.Equal(t, value, cents)
		}
	})
	t.Run("an earlier holder does neither, once a later one has read", func(t *testing.T) {
		cents, err := fenced[int64](ctx, store.db, readWallet, "wallets", "w", token+1)
		require.NoError(t, err)
		require.EqualValues(t, 80, cents)
		_, err = fenced[int64](ctx, store.db, writeWallet, "wallets", "w", token, int64(0))
		require.ErrorIs(t, err, ErrStale)
		require.ErrorContains(t, err, `wallets "w": token 1800000000000000, the row has 1800000000000001`)
		_, err = fenced[int64](ctx, store.db, readWallet, "wallets", "w", token)
		require.ErrorIs(t, err, ErrStale)
		_, err = fenced[int64](ctx, store.db, readWallet, "wallets", "w", 0) // without a lock
		require.ErrorIs(t, err, ErrStale)
		cents, err = fenced[int64](ctx, store.db, readWallet, "wallets", "w", token+1)
		require.NoError(t, err)
		require.EqualValues(t, 80, cents, "nothing was written")
	})
	t.Run("a stale write takes the whole transaction with it", func(t *testing.T) {
		require.ErrorIs(t, store.together(ctx, func(tx pgx.Tx) error {
			if _, err := fenced[string](ctx, tx, writeOrder, "orders", "o", token, statePaid); err != nil {
				return err
			}
			_, err := fenced[int64](ctx, tx, writeWallet, "wallets", "w", token, int64(0))
			return err
		}), ErrStale)
		state, err := fenced[string](ctx, store.db, readOrder, "orders", "o", token)
		require.NoError(t, err)
		require.Equal(t, stateNew, state)
	})
	t.Run("a row that does not exist", func(t *testing.T) {
		_, err := fenced[int64](ctx, store.db, readItem, "items", "none", token)
		require.ErrorIs(t, err, ErrUnknown)
		require.NotErrorIs(t, err, ErrStale)
	})
}

// TestFenced_Tokens shows that the tokens of locks are microseconds of the server's clock, which fit a BIGINT and not an INTEGER, and
// rise although Redis has lost all its data.
func TestFenced_Tokens(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	server := redistest.Server(t)
	begin := time.Now().Add(-time.Minute).UnixMicro()
	hold := func() int64 {
		t.Helper()
		client, err := lockrt.Open(t.Context(), server.URL(), lockrt.Options{OpTimeout: 15 * time.Second})
		require.NoError(t, err)
		defer client.Close()
		held, err := NewLocks(client).Item("i").Lock(t.Context())
		require.NoError(t, err)
		return held.Token()
	}
	first := hold()
	require.Greater(t, first, begin)
	require.Less(t, first, time.Now().Add(time.Minute).UnixMicro())
	_, err := fenced[int64](t.Context(), store.db, readItem, "items", "i", first)
	require.NoError(t, err)

	server.Restart()
	second := hold()
	require.Greater(t, second, first)
	_, err = fenced[int64](t.Context(), store.db, writeItem, "items", "i", second, int64(4))
	require.NoError(t, err)
	_, err = fenced[int64](t.Context(), store.db, writeItem, "items", "i", first, int64(3))
	require.ErrorIs(t, err, ErrStale)
}
