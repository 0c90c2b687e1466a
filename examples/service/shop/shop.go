// Package shop sells: it reserves stock, takes payments from wallets, moves money between wallets and orders shipping labels. Its data
// is in PostgreSQL, its locks are in Redis.
//
// [Service] declares which method needs which locks. lockgen writes [LockedService] from it, and each replica puts it
// around [Shop]. The shop takes one lock by hand, as an entity: that of an item, see [Locks].
//
// Every row that is written has the fencing token of the last lock holder that used it, see [Store].
package shop

import (
	"context"
	"errors"

	lockrt "github.com/lockgen/lockgen/runtime"
)

type (
	// An OrderID names an order.
	OrderID string
	// A WalletID names a wallet.
	WalletID string
	// An ItemID names an item in stock.
	ItemID string
	// A TransferID names a transfer between wallets.
	TransferID string
)

// An Order is an order of a customer.
type Order struct {
	ID     OrderID
	Wallet WalletID // the wallet that pays
	Item   ItemID
	Pieces int64
	Cents  int64
}

// A Transfer moves money between wallets.
type Transfer struct {
	ID       TransferID
	From, To WalletID
	Cents    int64
}

// A Report sums up the sales.
type Report struct {
	Payments int64
	Cents    int64
	Stored   bool // by an earlier call: another replica makes a new one at this moment
}

// The reasons to refuse a request for good.
var (
	ErrUnknown    = errors.New("does not exist")
	ErrPoor       = errors.New("not enough money in the wallet")
	ErrSoldOut    = errors.New("sold out")
	ErrUnpaid     = errors.New("not paid")
	ErrSameWallet = errors.New("a transfer needs two wallets")
)

// Service is the interface of every replica. A caller can repeat each method with the same arguments, at the same time
// and on another replica: its effect happens once.
//
//lockgen:service prefix=example-service wait=5s watchdog=3s require=all
type Service interface {
	// Reserve takes the pieces of an order from stock. It fails with ErrSoldOut if there are too few. It locks the item by hand.
	//
	//lockgen:nolock
	Reserve(ctx context.Context, o *Order) error

	// Pay takes the price of an order from the wallet. It fails with ErrPoor if the wallet has too little.
	//
	//lockgen:lock key=order:{o.ID} fence
	//lockgen:lock key=wallet:{o.Wallet} fence
	Pay(ctx context.Context, o *Order) error

	// Transfer moves money between two wallets. It fails with ErrPoor if the first one has too little.
	//
	//lockgen:lock key=wallet:{t.From} fence
	//lockgen:lock key=wallet:{t.To} fence
	Transfer(ctx context.Context, t *Transfer) error

	// Ship orders the label of a paid order. The carrier accepts four requests at once, from all replicas together.
	//
	//lockgen:lock key=order:{o.ID} fence
	//lockgen:lock key=carrier kind=permit permits=4
	Ship(ctx context.Context, o *Order) error

	// Report sums up the sales and stores the result. While one replica does that, all other calls return the report
	// that was stored last.
	//
	//lockgen:lock key=report wait=0 busy=fallback
	Report(ctx context.Context) (Report, error)
}

// Locks are the locks that the shop takes by hand.
//
//lockgen:locks prefix=example-service wait=5s watchdog=3s
type Locks interface {
	// Item locks the stock of one item.
	//
	//lockgen:lock key=item:{id} fence
	Item(id ItemID) lockrt.EntityMutex[ItemID]
}
