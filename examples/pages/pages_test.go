// Package pages has the code of the documentation pages, as tests that run it.
package pages

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// runs counts how often the code of a page reached its work.
type runs struct {
	mu sync.Mutex
	n  int
}

func (r *runs) work(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	return ctx.Err()
}

// ran requires that the code of a page worked n times, without an error.
func ran(t *testing.T, n int, code func(ctx context.Context, work func(ctx context.Context) error) error) {
	t.Helper()
	var r runs
	require.NoError(t, code(t.Context(), r.work))
	require.Equal(t, n, r.n)
}

// open returns a client of a server of its own.
func open(t *testing.T) *lockrt.Client {
	t.Helper()
	client, err := lockrt.Open(t.Context(), redistest.Server(t).URL(), lockrt.Options{OpTimeout: 15 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

func TestOpen(t *testing.T) {
	t.Parallel()
	url := locktest.Server(t)
	ran(t, 1, func(ctx context.Context, work func(ctx context.Context) error) error {
		client, err := lockrt.Open(ctx, url, lockrt.Options{})
		if err != nil {
			return err
		}
		defer client.Close()
		return work(ctx)
	})
}

func TestMutex(t *testing.T) {
	t.Parallel()
	client := locktest.Client(t, lockrt.Options{})
	ran(t, 1, func(ctx context.Context, pay func(ctx context.Context) error) error {
		err := client.Mutex("order:42").Do(ctx, func(ctx context.Context, lease *lockrt.Lease) error {
			return pay(ctx)
		}, lockrt.WithWait(3*time.Second))
		return err
	})
}

func TestFairMutex(t *testing.T) {
	t.Parallel()
	client := locktest.Client(t, lockrt.Options{})
	ran(t, 1, func(ctx context.Context, serve func(ctx context.Context) error) error {
		err := client.FairMutex("desk").Do(ctx, func(ctx context.Context, lease *lockrt.Lease) error {
			return serve(ctx)
		})
		return err
	})
}

func TestRWMutex(t *testing.T) {
	t.Parallel()
	client := locktest.Client(t, lockrt.Options{})
	ran(t, 2, func(ctx context.Context, work func(ctx context.Context) error) error {
		load, save := work, work
		config := client.RWMutex("config")
		err := config.RDo(ctx, func(ctx context.Context, _ *lockrt.Lease) error {
			return load(ctx)
		})
		if err != nil {
			return err
		}
		err = config.Do(ctx, func(ctx context.Context, _ *lockrt.Lease) error {
			return save(ctx)
		})
		return err
	})
}

func TestMultiLock(t *testing.T) {
	t.Parallel()
	client := locktest.Client(t, lockrt.Options{})
	ran(t, 1, func(ctx context.Context, move func(ctx context.Context) error) error {
		transfer := lockrt.NewMultiLock(client.Mutex("account:1"), client.Mutex("account:2"))
		err := transfer.Do(ctx, func(ctx context.Context, _ *lockrt.Lease) error {
			return move(ctx)
		})
		return err
	})
}

func TestRedLock(t *testing.T) {
	t.Parallel()
	a, b, c := open(t), open(t), open(t)
	ran(t, 1, func(ctx context.Context, book func(ctx context.Context) error) error {
		ledger := lockrt.NewRedLock("ledger", []*lockrt.Client{a, b, c})
		err := ledger.Do(ctx, func(ctx context.Context, _ *lockrt.Lease) error {
			return book(ctx)
		})
		return err
	})
}

func TestPermits(t *testing.T) {
	t.Parallel()
	client := locktest.Client(t, lockrt.Options{})
	ran(t, 1, func(ctx context.Context, work func(ctx context.Context) error) error {
		err := client.PermitSemaphore("jobs", 8).Do(ctx, func(ctx context.Context, _ *lockrt.Permit) error {
			return work(ctx)
		})
		return err
	})
}

func TestSemaphore(t *testing.T) {
	t.Parallel()
	client := locktest.Client(t, lockrt.Options{})
	ran(t, 0, func(ctx context.Context, _ func(ctx context.Context) error) error {
		stock := client.Semaphore("stock", 100)
		if err := stock.Acquire(ctx, 3); err != nil {
			return err
		}
		return stock.Release(ctx, 3)
	})
	available, err := client.Semaphore("stock", 100).Available(t.Context())
	require.NoError(t, err)
	require.Equal(t, 100, available)
}

func TestLatch(t *testing.T) {
	t.Parallel()
	client := locktest.Client(t, lockrt.Options{})
	ran(t, 0, func(ctx context.Context, _ func(ctx context.Context) error) error {
		imports := client.CountDownLatch("import")
		if _, err := imports.SetCount(ctx, 2); err != nil {
			return err
		}
		for range 2 { // as two other processes do that have finished
			if _, err := imports.CountDown(ctx); err != nil {
				return err
			}
		}
		return imports.Wait(ctx)
	})
}

func TestElection(t *testing.T) {
	t.Parallel()
	client := locktest.Client(t, lockrt.Options{})
	ran(t, 1, func(ctx context.Context, lead func(ctx context.Context) error) error {
		err := client.Election("reports").Lead(ctx, "10.0.0.7:8080", func(ctx context.Context, term *lockrt.Leadership) error {
			return lead(ctx)
		})
		return err
	})
}

func TestSchedule(t *testing.T) {
	t.Parallel()
	client := locktest.Client(t, lockrt.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	invoice := func(_ context.Context, _, _ time.Time) error {
		cancel()
		return nil
	}
	err := client.Every("invoices", time.Hour, func(ctx context.Context, tick lockrt.Tick) error {
		return invoice(ctx, tick.Since(), tick.Start)
	}).Run(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

var errStale = errors.New("stale token")

// A rowStore is a store with one row, which keeps the largest token that it has seen.
type rowStore struct{ token int64 }

func (s *rowStore) write(_ context.Context, _ string, token int64) error {
	if token < s.token {
		return errStale
	}
	s.token = token
	return nil
}

func TestFencing(t *testing.T) {
	t.Parallel()
	client, ctx, store := locktest.Client(t, lockrt.Options{}), t.Context(), new(rowStore)
	err := client.Mutex("order:42").Do(ctx, func(ctx context.Context, lease *lockrt.Lease) error {
		return store.write(ctx, "paid", lease.Token())
	}, lockrt.WithFencing())
	require.NoError(t, err)
	require.Positive(t, store.token)
	require.ErrorIs(t, store.write(ctx, "late", store.token-1), errStale)
}

func TestReport_StopsWhenTheLockIsLost(t *testing.T) {
	client := locktest.Client(t, lockrt.Options{})
	err := client.Mutex("report").Do(t.Context(), func(ctx context.Context, lease *lockrt.Lease) error {
		locktest.Lose(t, lease)
		<-ctx.Done() // the work under test has to notice that
		return nil
	})
	require.ErrorIs(t, err, lockrt.ErrLost)
}

func TestReport_ALostReplyCountsOnce(t *testing.T) {
	network := locktest.NewNetwork(t)
	report := network.Client(lockrt.Options{}).Mutex("report")
	lost := network.DropReply()
	lease, err := report.Lock(t.Context()) // the client asks again
	require.NoError(t, err)
	<-lost
	standing, err := report.Inspect(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, standing.Count)
	require.NoError(t, lease.Unlock(t.Context()))
}
