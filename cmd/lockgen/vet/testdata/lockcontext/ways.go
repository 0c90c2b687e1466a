package lockcontext

import (
	"context"
	"iter"
	"time"

	lockrt "github.com/lockgen/lockgen/runtime"
)

func jumps(ctx context.Context, m *lockrt.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		goto failed
	}
	defer lease.Unlock(ctx)
	return work(ctx) // want `ctx does not end when the lock is lost`
failed:
	return work(ctx)
}

func breaks(ctx context.Context, m *lockrt.Mutex, rows [][]int) error {
rows:
	for _, row := range rows {
		lease, err := m.Lock(ctx)
		if err != nil {
			break rows
		}
		for range row {
			lease.Unlock(ctx)
			continue rows
		}
		_ = work(ctx) // want `work under lease.Context\(\)`
		lease.Unlock(ctx)
	}
	return work(ctx)
}

func selects(ctx context.Context, m *lockrt.Mutex, done chan bool) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	select {
	case <-done:
		lease.Unlock(ctx)
		return work(ctx)
	default:
		defer lease.Unlock(ctx)
		return work(ctx) // want `work under lease.Context\(\)`
	}
}

func rangesOverFunc(ctx context.Context, m *lockrt.Mutex, all iter.Seq[int]) error {
	for range all {
		lease, err := m.Lock(ctx)
		if err != nil {
			return work(ctx)
		}
		_ = work(ctx) // want `work under lease.Context\(\)`
		lease.Unlock(ctx)
		_ = work(ctx)
	}
	return work(ctx)
}

func switches(ctx context.Context, m *lockrt.Mutex) error {
	lease, err := m.TryLock(ctx)
	switch err {
	case nil:
		defer lease.Unlock(ctx)
		return work(ctx) // want `work under lease.Context\(\)`
	default:
		return work(ctx)
	}
}

func unlocksWhenTheCallerLeaves(ctx context.Context, m *lockrt.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { lease.Unlock(context.WithoutCancel(ctx)) })
	defer stop()
	return work(lease.Context())
}

func replacesTheOuter(ctx context.Context, m *lockrt.Mutex) error {
	return m.Do(ctx, func(inner context.Context, _ *lockrt.Lease) error {
		ctx = inner
		return work(ctx)
	})
}

func unlocksInTime(ctx context.Context, m *lockrt.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return lease.Unlock(short)
}

func worksInTime(ctx context.Context, m *lockrt.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, time.Second) // want `ctx does not end when the lock is lost`
	defer cancel()
	if err := work(short); err != nil {
		return err
	}
	return lease.Unlock(short)
}

func spanFromContext(context.Context) int { return 0 }

func asksForAValue(ctx context.Context, m *lockrt.Mutex) error {
	return m.Do(ctx, func(inner context.Context, _ *lockrt.Lease) error {
		println(spanFromContext(ctx))
		return work(inner)
	})
}

func worksLater(ctx context.Context, m *lockrt.Mutex, run func(func())) (func(), error) {
	lease, err := m.Lock(ctx)
	if err != nil {
		return nil, err
	}
	after := func() { work(ctx) }
	run(func() { work(ctx) }) // want `ctx does not end when the lock is lost`
	func() { work(ctx) }()    // want `ctx does not end when the lock is lost`
	if err := lease.Unlock(ctx); err != nil {
		return nil, err
	}
	after()
	return func() { work(ctx) }, nil
}
