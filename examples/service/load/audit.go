package load

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Books are the sums that must be right in the end, whatever fails meanwhile.
type Books struct {
	Cents  int64 // in all wallets, before the first payment
	Pieces int64 // of all items, before the first reservation
}

// The rules of the books: each query returns a row for each violation.
var rules = []struct {
	broken string
	query  string
}{
	{"paid more than once", `SELECT order_id || ' ' || count(*) || ' times' FROM payments GROUP BY order_id HAVING count(*) > 1`},
	{"reserved more than once", `SELECT order_id || ' ' || count(*) || ' times' FROM reservations GROUP BY order_id HAVING count(*) > 1`},
	{"transferred more than once", `SELECT id || ' ' || count(*) || ' times' FROM transfers GROUP BY id HAVING count(*) > 1`},
	{"shipped more than once", `SELECT order_id || ' ' || count(*) || ' times' FROM labels GROUP BY order_id HAVING count(*) > 1`},
	{"oversold", `SELECT id || ' has ' || pieces || ' pieces' FROM items WHERE pieces < 0`},
	{"overdrawn", `SELECT id || ' has ' || cents || ' cents' FROM wallets WHERE cents < 0`},
	{"paid at another price", `SELECT o.id FROM orders o JOIN payments p ON p.order_id = o.id WHERE p.cents <> o.cents`},
	{"paid without a payment", `SELECT id FROM orders o WHERE state <> 'new' AND NOT EXISTS (SELECT FROM payments WHERE order_id = o.id)`},
	{"a payment of an order that is not paid", `SELECT id FROM orders o WHERE state = 'new' AND EXISTS (SELECT FROM payments WHERE order_id = o.id)`},
	{"a label of an order that is not shipped", `SELECT id FROM orders o WHERE state <> 'shipped' AND EXISTS (SELECT FROM labels WHERE order_id = o.id)`},
	{"shipped without a label", `SELECT id FROM orders o WHERE state = 'shipped' AND NOT EXISTS (SELECT FROM labels WHERE order_id = o.id)`},
}

// Audit returns everything that is wrong in the database.
func Audit(ctx context.Context, db *pgxpool.Pool, before Books) error {
	var wrong []error
	for _, rule := range rules {
		rows, err := db.Query(ctx, rule.query)
		if err != nil {
			return fmt.Errorf("audit: %s: %w", rule.broken, err)
		}
		for rows.Next() {
			var what string
			if err := rows.Scan(&what); err != nil {
				rows.Close()
				return fmt.Errorf("audit: %s: %w", rule.broken, err)
			}
			wrong = append(wrong, fmt.Errorf("audit: %s: %s", rule.broken, what))
		}
		if err := rows.Err(); err != nil {
			return fmt.Errorf("audit: %s: %w", rule.broken, err)
		}
	}
	for _, sum := range []struct {
		of    string
		query string
		want  int64
	}{
		{"cents", `SELECT (SELECT coalesce(sum(cents), 0) FROM wallets)::BIGINT + (SELECT coalesce(sum(cents), 0) FROM payments)::BIGINT`, before.Cents},
		{"pieces", `SELECT (SELECT coalesce(sum(pieces), 0) FROM items)::BIGINT + (SELECT coalesce(sum(pieces), 0) FROM reservations)::BIGINT`, before.Pieces},
	} {
		var got int64
		if err := db.QueryRow(ctx, sum.query).Scan(&got); err != nil {
			return fmt.Errorf("audit: %s: %w", sum.of, err)
		}
		if got != sum.want {
			wrong = append(wrong, fmt.Errorf("audit: %d %s, there were %d", got, sum.of, sum.want))
		}
	}
	return errors.Join(wrong...)
}
