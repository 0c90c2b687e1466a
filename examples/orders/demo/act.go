package demo

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/examples/orders/locks"
	"github.com/lockgen/lockgen/examples/orders/shop"
)

const (
	crashOrder = shop.OrderID("A-2") // the demo kills the replica that pays it first
	takenOrder = shop.OrderID("A-3") // the demo forces the lock open that the first paying replica holds
	watchdog   = 2 * time.Second     // of the service's locks
	patience   = 3 * time.Second     // how long a replica hangs before the operator acts: longer than the watchdog
	today      = "2026-01-31"
	price      = 499
	tea        = shop.SKU("tea")
)

// stockOf is one piece less than the orders need.
func stockOf(orders int) int64 { return int64(orders) - 1 }

// storeName and ledgerName are the keys of a run.
func storeName(run string) string  { return run + ":store" }
func ledgerName(run string) string { return run + ":ledger" }

func orderID(n int) shop.OrderID { return shop.OrderID(fmt.Sprintf("A-%d", n)) }

// An act is one run of all replicas over all orders.
type act struct {
	cfg     Config
	rc      rueidis.Client
	printer *printer
	locks   locks.Locks // nil without locks
}

// run ends when every replica has.
func (a *act) run(outer context.Context) (tally, error) {
	ctx, cancel := context.WithCancel(outer)
	defer cancel()
	run := "lockgen-orders:" + rand.Text()[:8]
	defer a.remove(ctx, run)
	store, books := shop.NewStore(a.rc, storeName(run)), &ledger{rc: a.rc, name: ledgerName(run)}
	if err := a.fill(ctx, store); err != nil {
		return tally{}, err
	}

	events := make(chan event)
	replicas := make([]*process, a.cfg.Replicas)
	for i := range replicas {
		p, err := start(ctx, replicaConfig{
			Replica: i + 1,
			URL:     a.cfg.URL,
			Run:     run,
			Orders:  a.cfg.Orders,
			Work:    a.cfg.Work,
			Locked:  a.locks != nil,
		}, events)
		if err != nil {
			cancel()
			for range replicas[:i] {
				drain(events)
			}
			return tally{}, err
		}
		replicas[i] = p
	}
	begin, err := a.watch(ctx, cancel, replicas, events)
	if outer.Err() != nil {
		err = context.Cause(outer)
	}
	if err != nil {
		return tally{}, err
	}
	took := time.Since(begin)
	t, err := books.tally(ctx)
	if err != nil {
		return t, err
	}
	reports, err := store.Reports(ctx, today)
	t.stock, t.reports, t.took = int(stockOf(a.cfg.Orders)), int(reports), took
	return t, err
}

// watch prints the events of the replicas until all have ended. It starts them together, and plays
// the operator who acts when a replica hangs.
func (a *act) watch(ctx context.Context, cancel context.CancelFunc, replicas []*process, events <-chan event) (begin time.Time, failed error) {
	flush := time.NewTicker(reorder)
	defer flush.Stop()
	var patient <-chan time.Time // fires when the victim is to be killed
	var victim *process
	fail := func(err error) {
		if failed == nil {
			failed = err
		}
		cancel()
	}
	ready := 0
	for running := len(replicas); running > 0; {
		select {
		case e := <-events:
			switch e.Kind {
			case isReady:
				if ready++; ready == len(replicas) {
					begin = time.Now()
					a.printer.begin(begin)
					for _, p := range replicas {
						p.begin()
					}
				}
			case hasEnded:
				running--
				if e.Err != "" && replicas[e.Replica-1] != victim {
					fail(fmt.Errorf("replica %d: %s", e.Replica, e.Err))
				}
			case hangs:
				a.printer.add(e)
				if e.Order == crashOrder {
					victim, patient = replicas[e.Replica-1], time.After(patience)
				} else if err := a.take(ctx, e.Order); err != nil {
					fail(err)
				}
			default:
				a.printer.add(e)
			}
		case <-patient:
			a.printer.add(event{At: time.Now(), Kind: kills, Text: fmt.Sprintf("replica %d, which holds order:%s", victim.replica, crashOrder)})
			victim.kill()
		case now := <-flush.C:
			a.printer.flush(now.Add(-reorder))
		}
	}
	a.printer.flush(time.Now())
	return begin, failed
}

// take forces the lock of an order open.
func (a *act) take(ctx context.Context, id shop.OrderID) error {
	a.printer.add(event{At: time.Now(), Kind: takes, Text: "order:" + string(id) + " by force"})
	_, err := a.locks.Order(id).ForceUnlock(ctx)
	return err
}

// fill writes the initial records of an act.
func (a *act) fill(ctx context.Context, store *shop.Store) error {
	for n := range a.cfg.Orders {
		if err := store.SaveOrder(ctx, &shop.Order{ID: orderID(n + 1), Item: tea, Cents: price}); err != nil {
			return err
		}
	}
	return store.SaveStock(ctx, tea, stockOf(a.cfg.Orders))
}

// remove deletes the records of an act. If that fails, the server is gone, or a few bytes stay.
func (a *act) remove(ctx context.Context, run string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopping)
	defer cancel()
	_ = a.rc.Do(ctx, a.rc.B().Del().Key(storeName(run), ledgerName(run)).Build()).Error()
}

// drain reads until a replica has ended.
func drain(events <-chan event) {
	for e := range events {
		if e.Kind == hasEnded {
			return
		}
	}
}
