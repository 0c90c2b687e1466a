package shop_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/examples/orders/locks"
	"github.com/lockgen/lockgen/examples/orders/shop"
	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A till is a bank that counts.
type till struct {
	charged atomic.Int64
	arrive  func() // called by each Charge, if set
}

func (b *till) Charge(context.Context, shop.Payment) (string, error) {
	if b.arrive != nil {
		b.arrive()
	}
	b.charged.Add(1)
	return "receipt", nil
}

// A scene is a shop for one test on a real server.
type scene struct {
	t     *testing.T
	store *shop.Store
	bank  *till
	shop  *shop.Shop
	id    shop.OrderID
	item  shop.SKU
}

func newScene(t *testing.T, work time.Duration) *scene {
	t.Helper()
	s := &scene{
		t:     t,
		store: shop.NewStore(redistest.Shared(t).Client(), redistest.Key(t, "store")),
		bank:  &till{},
		id:    shop.OrderID(redistest.Key(t, "A")),
		item:  shop.SKU(redistest.Key(t, "tea")),
	}
	s.shop = shop.New(s.store, s.bank, work)
	s.save(s.id)
	return s
}

func (s *scene) save(id shop.OrderID) *shop.Order {
	s.t.Helper()
	o := &shop.Order{ID: id, Item: s.item, Cents: 499}
	require.NoError(s.t, s.store.SaveOrder(s.t.Context(), o))
	return o
}

func (s *scene) payment() shop.Payment { return shop.Payment{Order: s.id, Cents: 499} }

// unhurried is the time in which Redis answers: a busy machine may stand still for longer than the default.
const unhurried = 15 * time.Second

// client is the client of one replica.
func (s *scene) client(hooks lockrt.Hooks) *lockrt.Client {
	s.t.Helper()
	c, err := lockrt.Open(s.t.Context(), redistest.Shared(s.t).URL(), lockrt.Options{OpTimeout: unhurried, Hooks: hooks})
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, c.Close()) })
	return c
}

// replicas returns the services of n processes.
func (s *scene) replicas(n int) []shop.Service {
	s.t.Helper()
	var all []shop.Service
	for range n {
		all = append(all, shop.NewLockedService(s.shop, s.client(lockrt.Hooks{})))
	}
	return all
}

func TestShop_WithoutLocksPaysTwice(t *testing.T) {
	t.Parallel()
	s := newScene(t, time.Microsecond)
	var both sync.WaitGroup // in the bank at the same time
	both.Add(2)
	s.bank.arrive = func() { both.Done(); both.Wait() }
	done := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := s.shop.Pay(context.Background(), s.payment())
			done <- err
		}()
	}
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	require.EqualValues(t, 2, s.bank.charged.Load())
}

func TestLockedService_PaysOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t, time.Millisecond)
	var calls sync.WaitGroup
	var paid, refused atomic.Int64
	for _, svc := range s.replicas(3) {
		for range 4 {
			calls.Go(func() {
				receipt, err := svc.Pay(context.Background(), s.payment())
				if err == nil {
					paid.Add(1)
				} else if errors.Is(err, shop.ErrPaid) && receipt == "receipt" {
					refused.Add(1)
				}
			})
		}
	}
	calls.Wait()
	require.EqualValues(t, 1, s.bank.charged.Load())
	require.EqualValues(t, 1, paid.Load())
	require.EqualValues(t, 11, refused.Load())
}

func TestLockedService_PacksWhatIsInStock(t *testing.T) {
	t.Parallel()
	s := newScene(t, time.Millisecond)
	require.NoError(t, s.store.SaveStock(t.Context(), s.item, 3))
	replicas := s.replicas(3)
	var calls sync.WaitGroup
	var packed, soldOut atomic.Int64
	for i := range 6 {
		o := s.save(s.id + shop.OrderID(rune('0'+i)))
		svc := replicas[i%len(replicas)]
		_, err := svc.Pay(t.Context(), shop.Payment{Order: o.ID, Cents: o.Cents})
		require.NoError(t, err)
		calls.Go(func() {
			err := svc.Pack(context.Background(), o)
			if err == nil {
				packed.Add(1)
			} else if errors.Is(err, shop.ErrSoldOut) {
				soldOut.Add(1)
			}
		})
	}
	calls.Wait()
	require.EqualValues(t, 3, packed.Load())
	require.EqualValues(t, 3, soldOut.Load())
	left, err := s.store.Stock(t.Context(), s.item)
	require.NoError(t, err)
	require.Zero(t, left)
}

func TestLockedService_PayWaitsAndFindDoesNot(t *testing.T) {
	t.Parallel()
	s := newScene(t, time.Microsecond)
	held, err := locks.NewLocks(s.client(lockrt.Hooks{})).Order(s.id).Lock(t.Context())
	require.NoError(t, err)

	waiting := make(chan string, 1)
	svc := shop.NewLockedService(s.shop, s.client(lockrt.Hooks{
		Waiting: func(_ context.Context, e lockrt.AcquireEvent) { waiting <- e.Key },
	}))
	done := make(chan error, 1)
	go func() {
		_, err := svc.Pay(context.Background(), s.payment())
		done <- err
	}()
	key, err := locks.LocksKeys{}.Order(s.id)
	require.NoError(t, err)
	require.Equal(t, key, <-waiting, "the service and the locks mean the same key")

	o, err := svc.Find(t.Context(), s.id)
	require.NoError(t, err)
	require.Empty(t, o.Receipt)

	require.NoError(t, held.Unlock(t.Context()))
	require.NoError(t, <-done)
}

func TestLockedService_CloseDaySkipsWhileOthersAreAtIt(t *testing.T) {
	t.Parallel()
	s := newScene(t, time.Microsecond)
	day := redistest.Key(t, "day")
	key, err := shop.ServiceKeys{}.CloseDay(day)
	require.NoError(t, err)
	lease, err := s.client(lockrt.Hooks{}).Mutex(key).Lock(t.Context())
	require.NoError(t, err)

	svc := s.replicas(1)[0]
	require.NoError(t, svc.CloseDay(t.Context(), day))
	reports, err := s.store.Reports(t.Context(), day)
	require.NoError(t, err)
	require.Zero(t, reports)

	require.NoError(t, lease.Unlock(t.Context()))
	for range 2 {
		require.NoError(t, svc.CloseDay(t.Context(), day))
		reports, err = s.store.Reports(t.Context(), day)
		require.NoError(t, err)
		require.EqualValues(t, 1, reports)
	}
}

func TestLockedService_RefusesToLockNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t, time.Microsecond)
	svc := s.replicas(1)[0]
	_, err := svc.Pay(t.Context(), shop.Payment{Cents: 499})
	require.EqualError(t, err, "shop.Service.Pay: p.Order is empty")
	require.EqualError(t, svc.Pack(t.Context(), nil), "shop.Service.Pack: o is nil")
	require.EqualError(t, svc.Pack(t.Context(), &shop.Order{ID: s.id}), "shop.Service.Pack: o.Item is empty")
	require.Zero(t, s.bank.charged.Load())
}

func TestLockedService_DoesNotChargeWhenTheLockIsLost(t *testing.T) {
	t.Parallel()
	s := newScene(t, time.Hour) // only the loss ends it
	held := make(chan struct{})
	client := s.client(lockrt.Hooks{
		AcquireEnd: func(context.Context, lockrt.AcquireEvent) { close(held) },
	})
	done := make(chan error, 1)
	go func() {
		_, err := shop.NewLockedService(s.shop, client).Pay(context.Background(), s.payment())
		done <- err
	}()
	<-held
	taken, err := locks.NewLocks(client).Order(s.id).ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, taken)
	require.ErrorIs(t, <-done, lockrt.ErrLost)
	require.Zero(t, s.bank.charged.Load())
}

func TestShop_ShipsOnceAndOnlyWithTheLock(t *testing.T) {
	t.Parallel()
	s := newScene(t, time.Microsecond)
	o := s.save(s.id)
	o.Receipt, o.Packed = "receipt", true
	require.NoError(t, s.store.SaveOrder(t.Context(), o))
	order := locks.NewLocks(s.client(lockrt.Hooks{})).Order(s.id)

	held, err := order.Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, held.Unlock(t.Context()))
	require.ErrorIs(t, s.shop.Ship(t.Context(), held.Held()), lockrt.ErrReleased, "a proof of the past proves nothing")

	require.NoError(t, order.Do(t.Context(), s.shop.Ship))
	require.ErrorIs(t, order.Do(t.Context(), s.shop.Ship), shop.ErrShipped)
}
