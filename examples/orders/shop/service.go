package shop

import (
	"context"
	"fmt"
	"time"
)

// A Shop is the Service without locks. It is safe for one caller at a time.
type Shop struct {
	store *Store
	bank  Bank
	work  time.Duration // how long each step takes
}

var _ Service = (*Shop)(nil)

// A Bank moves money. It returns a receipt.
type Bank interface {
	Charge(ctx context.Context, p Payment) (receipt string, err error)
}

// New returns a Shop that keeps its records in store and takes money through bank. Between
// reading a record and writing it back it works for as long as work says.
func New(store *Store, bank Bank, work time.Duration) *Shop {
	return &Shop{store: store, bank: bank, work: work}
}

// Pay charges the customer and keeps the receipt.
func (s *Shop) Pay(ctx context.Context, p Payment) (string, error) {
	o, err := s.store.Order(ctx, p.Order)
	if err != nil {
		return "", err
	}
	if o.Receipt != "" {
		return o.Receipt, fmt.Errorf("order %s %w", o.ID, ErrPaid)
	}
	// Is the card good, is the address known, ...
	if err := think(ctx, s.work); err != nil {
		return "", err
	}
	o.Receipt, err = s.bank.Charge(ctx, p)
	if err != nil {
		return "", err
	}
	// The money has moved: keep the receipt even if ctx has ended meanwhile.
	return o.Receipt, s.store.SaveOrder(context.WithoutCancel(ctx), o)
}

// Pack takes the item of a paid order from stock.
func (s *Shop) Pack(ctx context.Context, o *Order) error {
	// The caller read o before it held the locks, so only the names in o are reliable.
	o, err := s.store.Order(ctx, o.ID)
	if err != nil {
		return err
	}
	left, err := s.store.Stock(ctx, o.Item)
	if err != nil {
		return err
	}
	switch {
	case o.Receipt == "":
		return fmt.Errorf("order %s %w", o.ID, ErrUnpaid)
	case o.Packed:
		return fmt.Errorf("order %s %w", o.ID, ErrPacked)
	case left == 0:
		return fmt.Errorf("%s %w", o.Item, ErrSoldOut)
	}
	if err := think(ctx, s.work); err != nil {
		return err
	}
	if err := s.store.SaveStock(ctx, o.Item, left-1); err != nil {
		return err
	}
	o.Packed = true
	return s.store.SaveOrder(ctx, o)
}

// CloseDay writes the report of a day.
func (s *Shop) CloseDay(ctx context.Context, day string) error {
	reports, err := s.store.Reports(ctx, day)
	if err != nil || reports > 0 {
		return err
	}
	if err := think(ctx, s.work); err != nil {
		return err
	}
	return s.store.AddReport(ctx, day)
}

// Find reads an order.
func (s *Shop) Find(ctx context.Context, id OrderID) (*Order, error) {
	return s.store.Order(ctx, id)
}
