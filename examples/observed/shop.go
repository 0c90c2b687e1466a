package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/examples/orders/shop"
	lockrt "github.com/lockgen/lockgen/runtime"
)

const (
	replicas = 3
	orders   = 6 // at a time; all replicas sell all of them
	work     = 50 * time.Millisecond
	tea      = shop.SKU("tea")
	price    = 499
)

// A market is the shop, with its replicas.
type market struct {
	clients  []*lockrt.Client
	services []shop.Service
	store    *shop.Store
	charged  atomic.Int64
}

// openShop opens a client for each replica, as each process of a real service has one.
func openShop(ctx context.Context, url string, hooks lockrt.Hooks) (m *market, err error) {
	m = &market{}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
		}
	}()
	for i := range replicas {
		c, err := lockrt.Open(ctx, url, lockrt.Options{Name: nameOf(i), Hooks: hooks, ProfileLabels: true})
		if err != nil {
			return m, err
		}
		m.clients = append(m.clients, c)
		if m.store == nil {
			m.store = shop.NewStore(c.Redis(), fmt.Sprintf("lockgen-observed:%s", c.ID()))
		}
		m.services = append(m.services, shop.NewLockedService(shop.New(m.store, m, work), c))
	}
	return m, nil
}

// nameOf returns the name of a replica.
func nameOf(i int) string { return fmt.Sprintf("shop-%d", i+1) }

func (m *market) close() error {
	var errs []error
	for _, c := range m.clients {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Charge implements [shop.Bank].
func (m *market) Charge(context.Context, shop.Payment) (string, error) {
	return fmt.Sprintf("receipt-%d", m.charged.Add(1)), nil
}

// sell makes all replicas process the same orders, round after round, until ctx ends.
func (m *market) sell(ctx context.Context) error {
	for round := 1; ctx.Err() == nil; round++ {
		if err := m.round(ctx, round); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// round makes all replicas process the same orders once.
func (m *market) round(ctx context.Context, round int) error {
	for i := range orders {
		if err := m.store.SaveOrder(ctx, &shop.Order{ID: orderID(i), Item: tea, Cents: price}); err != nil {
			return err
		}
	}
	if err := m.store.SaveStock(ctx, tea, orders); err != nil {
		return err
	}
	failed := make(chan error, replicas*orders)
	var group sync.WaitGroup
	for _, service := range m.services {
		for i := range orders {
			group.Go(func() { failed <- deal(ctx, service, orderID(i), fmt.Sprintf("day %d", round)) })
		}
	}
	group.Wait()
	close(failed)
	var errs []error
	for err := range failed {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// deal processes one order from payment to stock. It is no error if another replica was faster.
func deal(ctx context.Context, service shop.Service, id shop.OrderID, day string) error {
	_, err := service.Pay(ctx, shop.Payment{Order: id, Cents: price})
	if err != nil && !errors.Is(err, shop.ErrPaid) {
		return forced(err)
	}
	err = service.Pack(ctx, &shop.Order{ID: id, Item: tea})
	if err != nil && !errors.Is(err, shop.ErrPacked) {
		return forced(err)
	}
	return forced(service.CloseDay(ctx, day))
}

// forced returns err, or nil if a user of the page has forced the lock open.
func forced(err error) error {
	if errors.Is(err, lockrt.ErrLost) {
		return nil
	}
	return err
}

func orderID(i int) shop.OrderID { return shop.OrderID(fmt.Sprintf("A-%d", i+1)) }
