package shop

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed schema.sql
var schema string

// ErrStale means that a later holder of the lock has used the row: the statement wrote nothing.
var ErrStale = errors.New("stale fencing token")

// A Store keeps the rows of the shop in PostgreSQL.
//
// The rule of fencing: a lock holder reads a row by one UPDATE that writes the token of its lock into the row, and writes the row only
// where the token is not larger than its own. From the read on, no earlier holder can change the row, even if its write is on the way
// already. A row whose new value does not depend on the old one needs no such read: the condition of the write is enough.
type Store struct {
	db *pgxpool.Pool
}

// OpenStore connects to the database at url and creates the tables that are missing. [Store.Close] ends the connections.
func OpenStore(ctx context.Context, url string) (*Store, error) {
	db, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("shop: open store: %w", err)
	}
	if _, err := db.Exec(ctx, schema); err != nil {
		db.Close()
		return nil, fmt.Errorf("shop: create tables: %w", err)
	}
	return &Store{db}, nil
}

// Close ends the connections. Call it after the last use of the store.
func (s *Store) Close() { s.db.Close() }

// DB returns the connections.
func (s *Store) DB() *pgxpool.Pool { return s.db }

// A querier is a transaction, or the connections themselves.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// The statements that read under a lock, and those that write. $1 is the id and $2 the token.
const (
	readWallet  = `UPDATE wallets SET token = $2 WHERE id = $1 AND token <= $2 RETURNING cents`
	writeWallet = `UPDATE wallets SET cents = $3, token = $2 WHERE id = $1 AND token <= $2 RETURNING cents`

	readItem  = `UPDATE items SET token = $2 WHERE id = $1 AND token <= $2 RETURNING pieces`
	writeItem = `UPDATE items SET pieces = $3, token = $2 WHERE id = $1 AND token <= $2 RETURNING pieces`

	readOrder  = `UPDATE orders SET token = $2 WHERE id = $1 AND token <= $2 RETURNING state`
	writeOrder = `UPDATE orders SET state = $3, token = $2 WHERE id = $1 AND token <= $2 RETURNING state`
)

// fenced runs one of the statements above and returns its result. If no row matches, the token is smaller than that of
// the row, [ErrStale], or the row does not exist, [ErrUnknown].
func fenced[T any](ctx context.Context, q querier, statement, table, id string, token int64, values ...any) (got T, err error) {
	err = q.QueryRow(ctx, statement, append([]any{id, token}, values...)...).Scan(&got)
	if !errors.Is(err, pgx.ErrNoRows) {
		return got, err
	}
	var last int64
	err = q.QueryRow(ctx, `SELECT token FROM `+table+` WHERE id = $1`, id).Scan(&last)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return got, fmt.Errorf("%s %q: %w", table, id, ErrUnknown)
	case err != nil:
		return got, err
	}
	return got, fmt.Errorf("%s %q: token %d, the row has %d: %w", table, id, token, last, ErrStale)
}

// together calls fn in a transaction.
func (s *Store) together(ctx context.Context, fn func(tx pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, s.db, fn)
}
