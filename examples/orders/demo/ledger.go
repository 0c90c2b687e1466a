package demo

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/examples/orders/shop"
)

// The fields of a ledger.
const (
	paidField   = "paid:" // followed by an order
	hungField   = "hung:" // followed by an order
	piecesField = "pieces"
)

// A ledger counts what the replicas really did, with commands that cannot interleave.
type ledger struct {
	rc   rueidis.Client
	name string
}

// pay counts a payment, and returns how often the order has been paid.
func (l *ledger) pay(ctx context.Context, id shop.OrderID) (int64, error) {
	return l.count(ctx, paidField+string(id))
}

// pack counts a packed piece, and returns how many pieces have been packed.
func (l *ledger) pack(ctx context.Context) (int64, error) { return l.count(ctx, piecesField) }

// hang returns true to the first caller for an order.
func (l *ledger) hang(ctx context.Context, id shop.OrderID) (bool, error) {
	n, err := l.count(ctx, hungField+string(id))
	return n == 1, err
}

func (l *ledger) count(ctx context.Context, field string) (int64, error) {
	n, err := l.rc.Do(ctx, l.rc.B().Hincrby().Key(l.name).Field(field).Increment(1).Build()).AsInt64()
	if err != nil {
		return 0, fmt.Errorf("ledger: %w", err)
	}
	return n, nil
}

// tally adds everything up.
func (l *ledger) tally(ctx context.Context) (tally, error) {
	t := tally{payments: map[shop.OrderID]int{}}
	fields, err := l.rc.Do(ctx, l.rc.B().Hgetall().Key(l.name).Build()).AsStrMap()
	if err != nil {
		return t, fmt.Errorf("ledger: %w", err)
	}
	for field, value := range fields {
		n, err := strconv.Atoi(value)
		if err != nil {
			return t, fmt.Errorf("ledger: %s: %w", field, err)
		}
		if id, ok := strings.CutPrefix(field, paidField); ok {
			t.payments[shop.OrderID(id)] = n
		} else if field == piecesField {
			t.pieces = n
		}
	}
	return t, nil
}

// A tally is the result of one act.
type tally struct {
	payments map[shop.OrderID]int
	pieces   int // packed
	stock    int // at the beginning
	reports  int // of one day
	took     time.Duration
}

// taken is how many payments there were.
func (t tally) taken() (sum int) {
	for _, times := range t.payments {
		sum += times
	}
	return sum
}

// paid is how many orders were paid at all.
func (t tally) paid() int { return len(t.payments) }

// double is how many payments were duplicates.
func (t tally) double() int { return t.taken() - t.paid() }

// oversold is how many pieces were packed that were not in stock.
func (t tally) oversold() int { return max(0, t.pieces-t.stock) }
