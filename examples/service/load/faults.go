package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/lockgen/lockgen/examples/service/replica"
	"github.com/lockgen/lockgen/examples/service/shop"
)

// Config is the configuration of [Run].
type Config struct {
	Redis, Postgres string                          // URLs
	RestartRedis    func(ctx context.Context) error // kills it and starts it again, empty
	Orders          int
	Out             io.Writer
}

// Run sells half of the orders in peace and half of them while it kills a replica that holds locks, restarts Redis and pauses a replica.
// It fails if anything was done twice, sold more often than there is, or not served in the end.
func Run(ctx context.Context, cfg Config) (err error) {
	f, err := NewFleet(ctx, cfg.Redis, cfg.Postgres, cfg.Out, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Stock(ctx, cfg.Orders); err != nil {
		return err
	}
	if err := f.Sell(ctx, 0, cfg.Orders/2); err != nil {
		return err
	}
	most := f.partners.mostLabels()
	f.group.Print("load", fmt.Sprintf("sold %d orders in peace, at most %d labels were printed at once", cfg.Orders/2, most))
	// A replica that loses a permit, or gives up, stops waiting for the carrier. The carrier notices that a moment
	// later.
	if most > mostOnce && f.count(replica.Lost, replica.Failed, "") == 0 {
		return fmt.Errorf("load: %d labels were printed at once, %d are allowed", most, mostOnce)
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rest := make(chan error, 1)
	go func() { rest <- f.Sell(ctx, cfg.Orders/2, cfg.Orders) }()
	for _, fault := range []func(context.Context) error{f.crash, f.restart(cfg.RestartRedis), f.freeze} {
		if err := fault(ctx); err != nil {
			cancel()
			return errors.Join(err, <-rest)
		}
	}
	if err := <-rest; err != nil {
		return err
	}
	f.group.Print("load", fmt.Sprintf("sold %d orders beside the faults", cfg.Orders-cfg.Orders/2))
	if err := f.Audit(ctx); err != nil {
		return err
	}
	return f.sold(ctx)
}

// sold fails if a piece is left that an order needed, or if an order has no result.
func (f *Fleet) sold(ctx context.Context) error {
	var left, open int
	err := f.store.DB().QueryRow(ctx, `SELECT (SELECT sum(pieces) FROM items)::BIGINT,
		(SELECT count(*) FROM orders o WHERE state <> 'shipped' AND EXISTS (SELECT FROM reservations WHERE order_id = o.id))`).Scan(&left, &open)
	if err != nil {
		return err
	}
	if left != 0 || open != 0 {
		return fmt.Errorf("load: %d pieces are left, %d orders are not shipped", left, open)
	}
	f.group.Print("audit", fmt.Sprintf("nothing was done twice, %d cents and %d pieces are all there", f.before.Cents, f.before.Pieces))
	return nil
}

// A payment goes to one replica. The bank delays its answer while the replica holds the locks of order and wallet.
type payment struct {
	order *shop.Order
	check *heldCheck
	reply chan replica.Answer // Outcome is "" if there was no answer
}

// begin sends a payment of a new order to a replica and returns when the replica has asked the
// bank.
func (f *Fleet) begin(ctx context.Context, name string, id shop.OrderID, of int) (*payment, error) {
	p := &payment{
		order: &shop.Order{ID: id, Wallet: wallet(of), Item: item(of), Pieces: 1, Cents: 100},
		reply: make(chan replica.Answer, 1),
	}
	if err := f.order(ctx, p.order); err != nil {
		return nil, err
	}
	p.check = f.partners.hold(id, 1)
	send := func() {
		a, err := f.ask(ctx, name, "/pay", p.order)
		if err != nil {
			a = replica.Answer{}
		}
		p.reply <- a
	}
	go send()
	for {
		select {
		case <-p.check.arrived:
			return p, nil
		case a := <-p.reply: // other requests held the wallet for too long, or its lock was lost
			if a.Outcome == replica.OK {
				return nil, fmt.Errorf("load: order %s was paid without a question to the bank", id)
			}
			pause(ctx, 50*time.Millisecond)
			go send()
		case <-ctx.Done():
			return nil, fmt.Errorf("load: the bank was not asked about order %s: %w", id, context.Cause(ctx))
		}
	}
}

// elsewhere pays the order through another replica, which needs the locks of the first one, and prints how long that
// took.
func (f *Fleet) elsewhere(ctx context.Context, name string, p *payment, since string) error {
	begin := time.Now()
	outcome, err := f.insist(ctx, name, "/pay", p.order)
	if err != nil {
		return err
	}
	if outcome != replica.OK {
		return fmt.Errorf("load: order %s: %s", p.order.ID, outcome)
	}
	f.group.Print("load", fmt.Sprintf("%s was paid by another replica %v after %s", p.order.ID, time.Since(begin).Round(time.Millisecond), since))
	return nil
}

// refused lets the bank answer the first replica. Another replica has made the payment: the first one must not report
// success.
func (f *Fleet) refused(ctx context.Context, p *payment) error {
	close(p.check.answer)
	select {
	case a := <-p.reply:
		if a.Outcome == replica.OK {
			return fmt.Errorf("load: two replicas paid order %s", p.order.ID)
		}
		f.group.Print("load", fmt.Sprintf("the first payment of %s failed: %s", p.order.ID, cmp.Or(strings.ReplaceAll(a.Detail, "\n", "; "), "no answer")))
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// crash kills a replica, as kill -9 does, while it holds the locks of an order and a wallet. The other replicas get
// them when the watchdog time is over.
func (f *Fleet) crash(ctx context.Context) error {
	p, err := f.begin(ctx, "A", "crash", 1)
	if err != nil {
		return err
	}
	f.group.Kill("A")
	f.group.Print("load", "KILLS replica A, which holds the locks of order crash")
	if err := f.elsewhere(ctx, "B", p, "the crash"); err != nil {
		return err
	}
	if err := f.group.Start("A"); err != nil {
		return err
	}
	_, err = f.group.Await(ctx, "listens")
	return err
}

// restart restarts Redis, which comes back without any lock, while a replica holds some.
func (f *Fleet) restart(redis func(ctx context.Context) error) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		p, err := f.begin(ctx, "B", "restart", 2)
		if err != nil {
			return err
		}
		f.group.Print("load", "RESTARTS Redis: all locks are gone")
		if err := redis(ctx); err != nil {
			return err
		}
		if err := f.elsewhere(ctx, "C", p, "the restart"); err != nil {
			return err
		}
		return f.refused(ctx, p)
	}
}

// freeze pauses a replica for longer than its locks live. When it runs on, its payment is refused.
func (f *Fleet) freeze(ctx context.Context) error {
	p, err := f.begin(ctx, "C", "freeze", 3)
	if err != nil {
		return err
	}
	f.group.Tell("C", "pause")
	if _, err := f.group.Await(ctx, "stops"); err != nil {
		return err
	}
	if err := f.elsewhere(ctx, "A", p, "the pause"); err != nil {
		return err
	}
	if err := f.group.Resume("C"); err != nil {
		return err
	}
	return f.refused(ctx, p)
}

// PayTwice sends the payment of an order to two replicas at once. The bank answers when both have asked. PayTwice
// returns when both are done. It is for replicas without locks: with locks the second one never asks.
func (f *Fleet) PayTwice(ctx context.Context, order int) error {
	check := f.partners.hold(f.orders[order].ID, 2)
	done := make(chan error, 1)
	go func() {
		_, err := f.both(ctx, "/pay", f.orders[order])
		done <- err
	}()
	if err := check.await(ctx); err != nil {
		return err
	}
	close(check.answer)
	return <-done
}
