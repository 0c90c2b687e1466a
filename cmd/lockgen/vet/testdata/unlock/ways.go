package unlock

import (
	"context"
	"errors"
	"iter"
	"time"

	lockrt "github.com/lockgen/lockgen/runtime"
)

func jumps(ctx context.Context, m *lockrt.Mutex, n int) error {
again:
	lease, err := m.TryLock(ctx) // want `lease is not unlocked on the way that returns at line 27`
	if err != nil {
		n--
		if n > 0 {
			goto again
		}
		return err
	}
	if work(lease.Context()) != nil {
		goto done
	}
	return lease.Unlock(ctx)
done:
	return nil
}

func jumpsBack(ctx context.Context, c *lockrt.Client) {
again:
	lease, err := c.Mutex("a").TryLock(ctx) // want `lease is not unlocked on the way that replaces it at line 32`
	if err == nil && work(lease.Context()) == nil {
		goto again
	}
	panic("never mind")
}

func labels(ctx context.Context, m *lockrt.Mutex, rounds [][]int) error {
rows:
	for _, row := range rounds {
		for _, n := range row {
			lease, err := m.Lock(ctx) // want `lease is not unlocked on the way that returns at line 55`
			switch {
			case err != nil:
				continue rows
			case n == 0:
				break rows
			}
			if err := lease.Unlock(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func labelsThatUnlock(ctx context.Context, m *lockrt.Mutex, rounds [][]int) error {
rows:
	for _, row := range rounds {
		for _, n := range row {
			lease, err := m.Lock(ctx)
			if err != nil {
				break rows
			}
			lease.Unlock(ctx)
			if n == 0 {
				continue rows
			}
		}
	}
	return nil
}

func selects(ctx context.Context, m *lockrt.Mutex, done <-chan error) error {
	lease, err := m.Lock(ctx) // want `lease is not unlocked on the way that returns at line 82`
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err = <-done:
	}
	return errors.Join(err, lease.Unlock(ctx))
}

func selectsThatUnlock(ctx context.Context, m *lockrt.Mutex, done <-chan error) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return lease.Unlock(ctx)
		case err := <-done:
			return errors.Join(err, lease.Unlock(ctx))
		default:
		}
	}
}

func panicsAndReturns(ctx context.Context, m *lockrt.Mutex) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("panic")
		}
	}()
	lease, err := m.Lock(ctx) // want `lease is not unlocked on the way that panics at line 115`
	if err != nil {
		return err
	}
	if work(lease.Context()) != nil {
		panic("work")
	}
	return lease.Unlock(ctx)
}

// No rule knows here which function recovers.
func panicsOnly(ctx context.Context, m *lockrt.Mutex) (err error) {
	defer println("done")
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	if work(lease.Context()) != nil {
		panic("work")
	}
	return lease.Unlock(ctx)
}

func deferredInLoop(ctx context.Context, locks []*lockrt.Mutex) error {
	for _, m := range locks {
		lease, err := m.Lock(ctx)
		if err != nil {
			return err
		}
		defer lease.Unlock(ctx)
	}
	return work(ctx)
}

func deferredInLoopAsItIs(ctx context.Context, locks []*lockrt.Mutex) (err error) {
	var lease *lockrt.Lease
	for _, m := range locks {
		if lease, err = m.Lock(ctx); err != nil {
			return err
		}
		defer lease.Unlock(ctx)
	}
	return work(ctx)
}

func deferredInLoopAsItWillBe(ctx context.Context, locks []*lockrt.Mutex) (err error) {
	var lease *lockrt.Lease
	for _, m := range locks {
		if lease, err = m.Lock(ctx); err != nil { // want `lease is not unlocked on the way that replaces it at line 158`
			return err
		}
		defer func() { lease.Unlock(ctx) }()
	}
	return work(ctx)
}

func deferredBefore(ctx context.Context, m *lockrt.Mutex) (err error) {
	var lease *lockrt.Lease
	defer func() {
		if lease != nil {
			lease.Unlock(ctx)
		}
	}()
	for lease == nil {
		if lease, err = m.TryLock(ctx); err != nil && !errors.Is(err, lockrt.ErrNotAcquired) {
			return err
		}
	}
	return work(lease.Context())
}

func replaced(ctx context.Context, a, b *lockrt.Mutex) error {
	lease, err := a.Lock(ctx) // want `lease is not unlocked on the way that replaces it at line 186`
	if err != nil {
		return err
	}
	lease, err = b.Lock(ctx)
	if err != nil {
		return err
	}
	return lease.Unlock(ctx)
}

func rangesOverFunc(ctx context.Context, m *lockrt.Mutex, all iter.Seq[int]) error {
	for n := range all {
		lease, err := m.Lock(ctx) // want `lease is not unlocked on the way that returns at line 200`
		if err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
		if err := lease.Unlock(ctx); err != nil {
			return err
		}
	}
	return nil
}

func yields(ctx context.Context, m *lockrt.Mutex) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		lease, err := m.Lock(ctx) // want `lease is not unlocked on the way that returns at line 218`
		if err != nil {
			yield(0, err)
			return
		}
		for n := range 3 {
			if !yield(n, nil) {
				return
			}
		}
		lease.Unlock(ctx)
	}
}

func yieldsAndDefers(ctx context.Context, m *lockrt.Mutex) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		lease, err := m.Lock(ctx)
		if err != nil {
			yield(0, err)
			return
		}
		defer lease.Unlock(ctx)
		_ = yield(1, nil) && yield(2, nil)
	}
}

func switches(ctx context.Context, m *lockrt.Mutex) error {
	lease, err := m.TryLock(ctx)
	switch err {
	case lockrt.ErrNotAcquired:
		return nil
	case nil:
		return lease.Unlock(ctx)
	default:
		return err
	}
}

func switchesAndLeaves(ctx context.Context, c *lockrt.Client) error {
	lease, err := c.Mutex("a").TryLock(ctx) // want `lease is not unlocked on the way that returns at line 253`
	switch err {
	case nil:
		return work(lease.Context())
	}
	return err
}

func certainError(ctx context.Context, m *lockrt.Mutex) error {
	lease, err := m.TryLock(ctx)
	if err == lockrt.ErrNotAcquired {
		return nil
	}
	if err != nil {
		return err
	}
	return lease.Unlock(ctx)
}

func bothMustHold(ctx context.Context, m *lockrt.Mutex, ready bool) error {
	lease, err := m.TryLock(ctx) // want `lease is not unlocked on the way that returns at line 274`
	if err == nil && ready {
		return lease.Unlock(ctx)
	}
	return err
}

func oneMustHold(ctx context.Context, m *lockrt.Mutex, ready bool) error {
	lease, err := m.TryLock(ctx) // want `lease is not unlocked on the way that returns at line 280`
	if err != nil || !ready {
		return err
	}
	return lease.Unlock(ctx)
}

func keepsWhatTheErrorSays(ctx context.Context, m *lockrt.Mutex) error {
	lease, err := m.Lock(ctx)
	var ok = err == nil
	if !ok {
		return err
	}
	return lease.Unlock(ctx)
}

func keepsWhetherThereIsALease(ctx context.Context, m *lockrt.Mutex) error {
	lease, err := m.TryLock(ctx)
	got := lease != nil
	if !got {
		return err
	}
	return lease.Unlock(ctx)
}

func switchesOverTypes(ctx context.Context, m *lockrt.Mutex) error {
	lease, err := m.Lock(ctx)
	switch err.(type) {
	case nil:
		return lease.Unlock(ctx)
	case *lockrt.KeyError:
		return nil
	}
	return err
}

func switchesOverTruth(ctx context.Context, m *lockrt.Mutex) error {
	lease, err := m.Lock(ctx)
	switch err != nil {
	case true:
		return err
	}
	return lease.Unlock(ctx)
}

func locksAndUnlocksIfTold(ctx context.Context, m *lockrt.Mutex, told bool) error {
	var lease *lockrt.Lease
	if told {
		var err error
		if lease, err = m.Lock(ctx); err != nil {
			return err
		}
	}
	if !told {
		return work(ctx)
	}
	return lease.Unlock(ctx)
}

func locksIfToldTwice(ctx context.Context, m *lockrt.Mutex, told, again bool) (err error) {
	var lease *lockrt.Lease
	if told && !again {
		lease, err = m.Lock(ctx)
	} else {
		lease, err = m.Lock(ctx) // want `lease is not unlocked on the way that returns at line 345`
	}
	if err != nil || again {
		return err
	}
	if told {
		return lease.Unlock(ctx)
	}
	return work(lease.Context())
}

func isToldSomethingElse(ctx context.Context, m *lockrt.Mutex, told bool) (err error) {
	var lease *lockrt.Lease
	if told {
		lease, err = m.Lock(ctx) // want `lease is not unlocked on the way that returns at line 365`
	}
	if err != nil {
		return err
	}
	told = ctx.Err() != nil
	if told {
		return lease.Unlock(ctx)
	}
	return nil
}

func deferredInLoopAsDeclaredThere(ctx context.Context, locks []*lockrt.Mutex) (err error) {
	for _, m := range locks {
		var lease *lockrt.Lease
		if lease, err = m.Lock(ctx); err != nil {
			return err
		}
		defer func() { lease.Unlock(ctx) }()
	}
	return work(ctx)
}

func declaredAnew(ctx context.Context, locks []*lockrt.Mutex) (err error) {
	for _, m := range locks {
		var lease, err = m.Lock(ctx) // want `lease is not unlocked on the way that returns at line 389`
		if err == nil {
			err = work(lease.Context())
		}
		if err == nil {
			err = lease.Unlock(ctx)
		}
	}
	return nil
}

func leftToExpire(ctx context.Context, m *lockrt.Mutex) error {
	lease, err := m.Lock(ctx, lockrt.WithLease(time.Minute))
	if err != nil {
		return err
	}
	return work(lease.Context())
}

func leftToExpireOnOneWay(ctx context.Context, m *lockrt.Mutex) error {
	lease, err := m.Lock(ctx, lockrt.WithLease(time.Minute)) // want `lease is not unlocked on the way that returns at line 406`
	if err != nil {
		return err
	}
	if err := work(lease.Context()); err != nil {
		return err
	}
	return lease.Unlock(ctx)
}

type options struct{ lock bool }

func locksIfThereIsAMutex(ctx context.Context, m *lockrt.Mutex, o *options) (err error) {
	var lease, second *lockrt.Lease
	if m != nil {
		if lease, err = m.Lock(ctx); err != nil {
			return err
		}
	}
	if m == nil || !o.lock {
		return lease.Unlock(ctx)
	}
	if o.lock {
		second, err = m.Lock(ctx)
	}
	if err != nil {
		return errors.Join(err, lease.Unlock(ctx))
	}
	if o.lock {
		err = second.Unlock(ctx)
	}
	return errors.Join(err, lease.Unlock(ctx))
}

func changesTheOption(ctx context.Context, m *lockrt.Mutex, o *options) (err error) {
	var lease *lockrt.Lease
	if o.lock {
		lease, err = m.Lock(ctx) // want `lease is not unlocked on the way that returns at line 447`
	}
	if err != nil {
		return err
	}
	o.lock = false
	if o.lock {
		return lease.Unlock(ctx)
	}
	return nil
}

func asksAnotherVariable(ctx context.Context, m *lockrt.Mutex, err error, n int) error {
	if err == nil && n == 0 {
		lease, err := m.Lock(ctx) // want `lease is not unlocked on the way that returns at line 459`
		if err != nil {
			return err
		}
		if n++; n == 0 {
			return lease.Unlock(ctx)
		}
		return err
	}
	return err
}
