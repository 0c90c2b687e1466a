package unlock

import (
	"context"
	"errors"
	"iter"

	lockrt "github.com/lockgen/lockgen/runtime"
)

func otherErrorOfALoop(ctx context.Context, m *lockrt.Mutex, items iter.Seq2[int, error]) error {
	for _, err := range items {
		if err != nil {
			lease, err := m.Lock(ctx)
			if err != nil {
				return err
			}
			lease.Unlock(ctx)
		}
	}
	return nil
}

func otherErrorOfALoopThatLeaves(ctx context.Context, m *lockrt.Mutex, items iter.Seq2[int, error]) error {
	for _, err := range items {
		if err != nil {
			lease, err := m.Lock(ctx) // want `lease is not unlocked on the way that returns at line \d+`
			if err != nil {
				return err
			}
			if err := work(lease.Context()); err != nil {
				return err
			}
			lease.Unlock(ctx)
		}
	}
	return nil
}

func otherErrorBefore(ctx context.Context, m *lockrt.Mutex) error {
	var err = work(ctx)
	if err != nil {
		lease, err := m.Lock(ctx)
		if err != nil {
			return err
		}
		return lease.Unlock(ctx)
	}
	return err
}

func otherErrorBeforeThatLeaves(ctx context.Context, m *lockrt.Mutex) error {
	var err = work(ctx)
	if err != nil {
		lease, err := m.Lock(ctx) // want `lease is not unlocked on the way that returns at line \d+`
		if err != nil {
			return err
		}
		if ctx.Err() == nil {
			err = lease.Unlock(ctx)
		}
		return err
	}
	return err
}

func toldByALoop(ctx context.Context, m *lockrt.Mutex, tell chan bool) (err error) {
	var told bool
	var lease *lockrt.Lease
	for told = range tell {
		println(told)
	}
	if told {
		lease, err = m.Lock(ctx) // want `lease is not unlocked on the way that returns at line \d+`
	}
	if err != nil {
		return err
	}
	for told = range tell {
		println(told)
	}
	if told {
		return lease.Unlock(ctx)
	}
	return nil
}

func toldByTheSameRound(ctx context.Context, m *lockrt.Mutex, all []bool) (err error) {
	for _, told := range all {
		var lease *lockrt.Lease
		if told {
			if lease, err = m.Lock(ctx); err != nil {
				return err
			}
		}
		err = errors.Join(err, work(ctx))
		if told {
			lease.Unlock(ctx)
		}
	}
	return err
}

// Another variable of the same name changes nothing.
func toldOnce(ctx context.Context, m *lockrt.Mutex, told bool) (err error) {
	var lease *lockrt.Lease
	if told {
		if lease, err = m.Lock(ctx); err != nil {
			return err
		}
	}
	for _, told := range []bool{true, false} {
		told = !told
		println(told)
	}
	if told {
		return lease.Unlock(ctx)
	}
	return nil
}

// It is not asked, either.
func toldAnother(ctx context.Context, m *lockrt.Mutex, told bool) (err error) {
	var lease *lockrt.Lease
	if told {
		lease, err = m.Lock(ctx) // want `lease is not unlocked on the way that returns at line \d+`
	}
	if err != nil {
		return err
	}
	if told := ctx.Err() != nil; told {
		return lease.Unlock(ctx)
	}
	return nil
}
