package load_test

import (
	"context"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/examples/internal/replicas"
	"github.com/lockgen/lockgen/examples/service/load"
	"github.com/lockgen/lockgen/examples/service/replica"
	"github.com/lockgen/lockgen/examples/service/servers"
	"github.com/lockgen/lockgen/examples/service/shop"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestMain makes the test binary run as the replicas, too.
func TestMain(m *testing.M) {
	if name := replicas.Name(); name != "" {
		ctx, _ := replicas.Join()
		if err := replica.Run(ctx, load.FromEnvironment(name, os.Getenv)); err != nil {
			_, _ = io.WriteString(os.Stderr, err.Error()+"\n")
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// postgres returns the URL of an empty database.
func postgres(t *testing.T) string {
	t.Helper()
	if os.Getenv("CI") == "" && !servers.PostgresInstalled() {
		t.Skip("PostgreSQL is not installed: make service installs it")
	}
	server, err := servers.Postgres(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	return server.URL
}

// TestAudit shows that the audit finds every kind of damage, and none in correct books.
func TestAudit(t *testing.T) {
	t.Parallel()
	store, err := shop.OpenStore(t.Context(), postgres(t))
	require.NoError(t, err)
	t.Cleanup(store.Close)
	before := load.Books{Cents: 1000, Pieces: 10}
	const right = `
		INSERT INTO wallets VALUES ('a', 400), ('b', 500);
		INSERT INTO items VALUES ('i', 9);
		INSERT INTO orders VALUES ('new', 50, 'new'), ('shipped', 100, 'shipped');
		INSERT INTO reservations VALUES ('shipped', 'i', 1);
		INSERT INTO payments VALUES ('shipped', 'a', 100);
		INSERT INTO transfers VALUES ('t', 7);
		INSERT INTO labels VALUES ('shipped');`
	tests := []struct {
		damage string
		want   string // empty: the books are right
	}{
		{"", ""},
		{`INSERT INTO payments VALUES ('shipped', 'a', 100); UPDATE wallets SET cents = 300 WHERE id = 'a'`, "audit: paid more than once: shipped 2 times"},
		{`INSERT INTO reservations VALUES ('shipped', 'i', 1); UPDATE items SET pieces = 8`, "audit: reserved more than once: shipped 2 times"},
		{`INSERT INTO transfers VALUES ('t', 7)`, "audit: transferred more than once: t 2 times"},
		{`INSERT INTO labels VALUES ('shipped')`, "audit: shipped more than once: shipped 2 times"},
		{`UPDATE items SET pieces = -1; INSERT INTO reservations VALUES ('new', 'i', 10)`, "audit: oversold: i has -1 pieces"},
		{`UPDATE wallets SET cents = cents + (CASE id WHEN 'a' THEN -401 ELSE 401 END)`, "audit: overdrawn: a has -1 cents"},
		{`UPDATE orders SET cents = 99 WHERE id = 'shipped'`, "audit: paid at another price: shipped"},
		{`UPDATE orders SET state = 'paid' WHERE id = 'new'`, "audit: paid without a payment: new"},
		{`INSERT INTO payments VALUES ('new', 'b', 50); UPDATE wallets SET cents = 450 WHERE id = 'b'`, "audit: a payment of an order that is not paid: new"},
		{`UPDATE orders SET state = 'paid'; INSERT INTO payments VALUES ('new', 'b', 50); UPDATE wallets SET cents = 450 WHERE id = 'b'`, "audit: a label of an order that is not shipped: shipped"},
		{`DELETE FROM labels`, "audit: shipped without a label: shipped"},
		{`UPDATE wallets SET cents = 399 WHERE id = 'a'`, "audit: 999 cents, there were 1000"},
		{`UPDATE items SET pieces = 10`, "audit: 11 pieces, there were 10"},
	}
	for _, tt := range tests {
		t.Run(tt.want, func(t *testing.T) {
			_, err := store.DB().Exec(t.Context(), `TRUNCATE wallets, items, orders, reservations, payments, transfers, labels;`+right+tt.damage)
			require.NoError(t, err)
			err = load.Audit(t.Context(), store.DB(), before)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, tt.want, "this and nothing else")
		})
	}
}

// TestFleet_WithoutLocks shows what the locks are for: without them, two replicas that receive the same payment both
// take the money.
func TestFleet_WithoutLocks(t *testing.T) {
	t.Parallel()
	f, err := load.NewFleet(t.Context(), redistest.Server(t).URL(), postgres(t), io.Discard, true)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	require.NoError(t, f.Stock(t.Context(), 12))
	require.NoError(t, f.PayTwice(t.Context(), 0))
	err = f.Audit(t.Context())
	require.ErrorContains(t, err, "audit: paid more than once: order-0 2 times")
	require.ErrorContains(t, err, "cents, there were")
}

// TestFleet_EndsWithItsContext shows that a request that cannot be served ends with the caller's context.
func TestFleet_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	f, err := load.NewFleet(t.Context(), server.URL(), postgres(t), io.Discard, false)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	require.NoError(t, f.Stock(t.Context(), 12))
	server.Kill()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, f.Sell(ctx, 0, 1), context.Canceled)
}
