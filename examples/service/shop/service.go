package shop

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// The states of an order.
const (
	stateNew     = "new"
	statePaid    = "paid"
	stateShipped = "shipped"
)

// Partners are the companies that the shop calls. Their answers take a while, and the shop holds its locks meanwhile.
type Partners interface {
	// Check asks the bank whether it accepts a payment.
	Check(ctx context.Context, id OrderID) error
	// Label orders a shipping label from the carrier. The carrier prints one label per order, also after repeated
	// requests.
	Label(ctx context.Context, id OrderID) error
}

// A Shop is the [Service] without locks: only Reserve takes its lock by hand.
type Shop struct {
	store    *Store
	partners Partners
	locks    Locks
}

var _ Service = (*Shop)(nil)

// New returns a Shop. A [LockedService] wraps it.
func New(store *Store, partners Partners, locks Locks) *Shop {
	return &Shop{store, partners, locks}
}

// Reserve implements [Service].
func (s *Shop) Reserve(ctx context.Context, o *Order) error {
	return s.locks.Item(o.Item).Do(ctx, func(ctx context.Context, item lockrt.Held[ItemID]) error {
		return s.take(ctx, item, o)
	})
}

// take reserves pieces of an item. The proof that the item is locked carries the fencing token.
func (s *Shop) take(ctx context.Context, item lockrt.Held[ItemID], o *Order) error {
	pieces, err := fenced[int64](ctx, s.store.db, readItem, "items", string(item.ID()), item.Token())
	if err != nil {
		return err
	}
	var reserved bool
	if err := s.store.db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM reservations WHERE order_id = $1)`, o.ID).Scan(&reserved); err != nil || reserved {
		return err
	}
	if pieces < o.Pieces {
		return fmt.Errorf("item %s: %w", o.Item, ErrSoldOut)
	}
	return s.store.together(ctx, func(tx pgx.Tx) error {
		if _, err := fenced[int64](ctx, tx, writeItem, "items", string(item.ID()), item.Token(), pieces-o.Pieces); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO reservations VALUES ($1, $2, $3)`, o.ID, o.Item, o.Pieces)
		return err
	})
}

// Pay implements [Service].
func (s *Shop) Pay(ctx context.Context, o *Order) error {
	order, wallet, err := tokensOf(ctx)(ServiceKeys{}.Pay(o))
	if err != nil {
		return err
	}
	state, err := fenced[string](ctx, s.store.db, readOrder, "orders", string(o.ID), order)
	if err != nil || state != stateNew {
		return err
	}
	cents, err := fenced[int64](ctx, s.store.db, readWallet, "wallets", string(o.Wallet), wallet)
	if err != nil {
		return err
	}
	if cents < o.Cents {
		return fmt.Errorf("wallet %s: %w", o.Wallet, ErrPoor)
	}
	if err := s.partners.Check(ctx, o.ID); err != nil {
		return err
	}
	return s.store.together(ctx, func(tx pgx.Tx) error {
		if _, err := fenced[string](ctx, tx, writeOrder, "orders", string(o.ID), order, statePaid); err != nil {
			return err
		}
		if _, err := fenced[int64](ctx, tx, writeWallet, "wallets", string(o.Wallet), wallet, cents-o.Cents); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO payments VALUES ($1, $2, $3)`, o.ID, o.Wallet, o.Cents)
		return err
	})
}

// Transfer implements [Service].
func (s *Shop) Transfer(ctx context.Context, t *Transfer) error {
	if t.From == t.To {
		return ErrSameWallet
	}
	from, to, err := tokensOf(ctx)(ServiceKeys{}.Transfer(t))
	if err != nil {
		return err
	}
	had, err := fenced[int64](ctx, s.store.db, readWallet, "wallets", string(t.From), from)
	if err != nil {
		return err
	}
	has, err := fenced[int64](ctx, s.store.db, readWallet, "wallets", string(t.To), to)
	if err != nil {
		return err
	}
	var done bool
	if err := s.store.db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM transfers WHERE id = $1)`, t.ID).Scan(&done); err != nil || done {
		return err
	}
	if had < t.Cents {
		return fmt.Errorf("wallet %s: %w", t.From, ErrPoor)
	}
	return s.store.together(ctx, func(tx pgx.Tx) error {
		if _, err := fenced[int64](ctx, tx, writeWallet, "wallets", string(t.From), from, had-t.Cents); err != nil {
			return err
		}
		if _, err := fenced[int64](ctx, tx, writeWallet, "wallets", string(t.To), to, has+t.Cents); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO transfers VALUES ($1, $2)`, t.ID, t.Cents)
		return err
	})
}

// Ship implements [Service].
func (s *Shop) Ship(ctx context.Context, o *Order) error {
	order, _ := lockrt.TokenFrom(ctx) // only one of the two locks has a token
	state, err := fenced[string](ctx, s.store.db, readOrder, "orders", string(o.ID), order)
	switch {
	case err != nil || state == stateShipped:
		return err
	case state == stateNew:
		return fmt.Errorf("order %s: %w", o.ID, ErrUnpaid)
	}
	if err := s.partners.Label(ctx, o.ID); err != nil {
		return err
	}
	return s.store.together(ctx, func(tx pgx.Tx) error {
		if _, err := fenced[string](ctx, tx, writeOrder, "orders", string(o.ID), order, stateShipped); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO labels VALUES ($1)`, o.ID)
		return err
	})
}

// Report implements [Service].
func (s *Shop) Report(ctx context.Context) (r Report, err error) {
	err = s.store.together(ctx, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, `SELECT count(*), coalesce(sum(cents), 0)::BIGINT FROM payments`).Scan(&r.Payments, &r.Cents); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM reports`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO reports VALUES ($1, $2)`, r.Payments, r.Cents)
		return err
	})
	return r, err
}

// Stored is the fallback of a [LockedService]: its Report returns the report that was stored last.
func (s *Shop) Stored() Service { return stored{s} }

type stored struct{ *Shop }

func (s stored) Report(ctx context.Context) (Report, error) {
	r := Report{Stored: true}
	err := s.store.db.QueryRow(ctx, `SELECT payments, cents FROM reports`).Scan(&r.Payments, &r.Cents)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil // another replica makes the first report
	}
	return r, err
}

// tokensOf returns, by key, the fencing tokens of two locks that the [LockedService] holds for this call. Without a
// lock the token is 0, which every row refuses that was ever used under a lock.
func tokensOf(ctx context.Context) func(keys [2]string, err error) (first, second int64, _ error) {
	return func(keys [2]string, err error) (first, second int64, _ error) {
		first, _ = lockrt.TokenOf(ctx, keys[0])
		second, _ = lockrt.TokenOf(ctx, keys[1])
		return first, second, err
	}
}
