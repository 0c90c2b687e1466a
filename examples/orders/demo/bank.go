package demo

import (
	"context"
	"fmt"

	"github.com/lockgen/lockgen/examples/orders/shop"
)

// A bank moves money at every request, also a repeated one. Its books count the requests.
type bank struct {
	books   *ledger
	replica *replica
}

// Charge moves the money. In the act with locks, the bank never answers the first calls for two of
// the orders.
func (b *bank) Charge(ctx context.Context, p shop.Payment) (string, error) {
	if b.replica.cfg.Locked && (p.Order == crashOrder || p.Order == takenOrder) {
		first, err := b.books.hang(ctx, p.Order)
		if err != nil {
			return "", err
		}
		if first {
			b.replica.tell(event{Kind: hangs, Order: p.Order, Text: fmt.Sprintf("in the bank, while it holds order:%s", p.Order)})
			<-ctx.Done()
			return "", context.Cause(ctx)
		}
	}
	times, err := b.books.pay(ctx, p.Order)
	if err != nil {
		return "", err
	}
	if times > 1 {
		b.replica.tell(event{Kind: paysMore, Text: fmt.Sprintf("order %s AGAIN, %d times now", p.Order, times)})
	} else {
		b.replica.tell(event{Kind: pays, Text: fmt.Sprintf("order %s", p.Order)})
	}
	return fmt.Sprintf("%s/%d", p.Order, times), nil
}
