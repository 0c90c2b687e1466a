package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/examples/orders/locks"
	"github.com/lockgen/lockgen/examples/orders/shop"
	lockrt "github.com/lockgen/lockgen/runtime"
)

// IsReplica reports whether this process was started as a replica.
func IsReplica() bool { return os.Getenv(replicaVar) != "" }

// RunReplica does the work of one replica. It returns when the work is done, or when the parent is
// gone.
func RunReplica() error {
	var cfg replicaConfig
	if err := json.Unmarshal([]byte(os.Getenv(replicaVar)), &cfg); err != nil {
		return fmt.Errorf("%s: %w", replicaVar, err)
	}
	signal.Ignore(os.Interrupt) // a terminal sends it to all processes; the parent decides
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	begin := make(chan struct{})
	go obey(os.Stdin, begin, cancel)

	r := &replica{cfg: cfg, teller: teller{replica: cfg.Replica, out: os.Stdout}}
	rc, err := connect(cfg.URL)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer rc.Close()
	if err := r.open(rc); err != nil {
		return err
	}
	r.tell(event{Kind: isReady})
	select {
	case <-begin:
	case <-ctx.Done():
		return nil
	}
	err = errors.Join(r.run(ctx), r.close())
	if errors.Is(context.Cause(ctx), errStopped) {
		return nil // the parent knows already
	}
	return err
}

// errStopped is the cause of the end of a replica whose parent ended or closed its input.
var errStopped = errors.New("told to stop")

// obey closes begin at the first line of in, and cancels the work when in ends.
func obey(in io.Reader, begin chan<- struct{}, cancel context.CancelCauseFunc) {
	r := bufio.NewReader(in)
	if _, err := r.ReadString('\n'); err == nil {
		close(begin)
	}
	_, _ = io.Copy(io.Discard, r)
	cancel(errStopped)
	time.AfterFunc(stopping, func() { os.Exit(1) })
}

// A replica is one process of the shop.
type replica struct {
	teller

	cfg    replicaConfig
	shop   *shop.Shop
	svc    shop.Service // the shop, or the shop behind its locks
	books  *ledger
	client *lockrt.Client // nil without locks
	locks  locks.Locks    // nil without locks
}

// open builds the service, with or without locks.
func (r *replica) open(rc rueidis.Client) error {
	r.books = &ledger{rc: rc, name: ledgerName(r.cfg.Run)}
	r.shop = shop.New(shop.NewStore(rc, storeName(r.cfg.Run)), &bank{books: r.books, replica: r}, r.cfg.Work)
	r.svc = r.shop
	if !r.cfg.Locked {
		return nil
	}
	client, err := lockrt.Open(context.Background(), r.cfg.URL, lockrt.Options{Hooks: hooks(&r.teller)})
	if err != nil {
		return fmt.Errorf("locks: %w", err)
	}
	r.client = client
	r.svc = shop.NewLockedService(r.shop, client)
	r.locks = locks.NewLocks(client)
	return nil
}

func (r *replica) close() error {
	if r.client == nil {
		return nil
	}
	return r.client.Close()
}

// run processes every order from payment to shipping, as far as this replica gets.
func (r *replica) run(ctx context.Context) error {
	for n := range r.cfg.Orders {
		if err := r.order(ctx, orderID(n+1)); err != nil {
			return err
		}
	}
	return redo(func() error { return r.svc.CloseDay(ctx, today) })
}

// redo repeats a call whose lock was lost. The outcome of such a call is uncertain; every method
// checks what is done before it acts.
func redo(call func() error) error {
	err := call()
	for errors.Is(err, lockrt.ErrLost) {
		err = call()
	}
	return err
}

// order pays, packs and ships an order. It stops where another replica did the same before.
func (r *replica) order(ctx context.Context, id shop.OrderID) error {
	for _, step := range []func(context.Context, shop.OrderID) error{r.pay, r.pack, r.ship} {
		err := redo(func() error { return step(ctx, id) })
		if refused(err) {
			r.tell(event{Kind: finds, Text: err.Error()})
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func refused(err error) bool {
	return errors.Is(err, shop.ErrPaid) || errors.Is(err, shop.ErrPacked) || errors.Is(err, shop.ErrSoldOut) || errors.Is(err, shop.ErrShipped)
}

func (r *replica) pay(ctx context.Context, id shop.OrderID) error {
	_, err := r.svc.Pay(ctx, shop.Payment{Order: id, Cents: price})
	return err
}

func (r *replica) pack(ctx context.Context, id shop.OrderID) error {
	o, err := r.svc.Find(ctx, id)
	if err != nil {
		return err
	}
	if err := r.svc.Pack(ctx, o); err != nil {
		return err
	}
	pieces, err := r.books.pack(ctx)
	if err != nil {
		return err
	}
	if stock := stockOf(r.cfg.Orders); pieces > stock {
		r.tell(event{Kind: packMore, Text: fmt.Sprintf("order %s: piece %d of the %d in stock", id, pieces, stock)})
	} else {
		r.tell(event{Kind: packs, Text: "order " + string(id)})
	}
	return nil
}

// ship takes the order's lock by hand. The lease is the proof that Ship asks for; so without locks
// there is no shipping.
func (r *replica) ship(ctx context.Context, id shop.OrderID) error {
	if r.locks == nil {
		return nil
	}
	return r.locks.Order(id).Do(ctx, func(ctx context.Context, held lockrt.Held[shop.OrderID]) error {
		if err := r.shop.Ship(ctx, held); err != nil {
			return err
		}
		r.tell(event{Kind: ships, Text: "order " + string(held.ID())})
		return nil
	})
}
