package lockcontext

import (
	"context"
	"errors"

	lockrt "github.com/lockgen/lockgen/runtime"
)

type service struct{}

func (service) release(ctx context.Context, lease *lockrt.Lease) error { return lease.Unlock(ctx) }

func (s service) helperReleases(ctx context.Context, m *lockrt.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	if err := s.release(ctx, lease); err != nil {
		return err
	}
	return work(ctx)
}

func (s service) helperReleasesLater(ctx context.Context, m *lockrt.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer s.release(ctx, lease)
	return work(ctx) // want `ctx does not end when the lock is lost`
}

func (s service) worksBeforeTheHelper(ctx context.Context, m *lockrt.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	if err := work(ctx, 1); err != nil { // want `ctx does not end when the lock is lost`
		return errors.Join(err, s.release(ctx, lease))
	}
	return s.release(ctx, lease)
}

func closureReleases(ctx context.Context, m *lockrt.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	unlock := func() { lease.Unlock(ctx) }
	if err := work(ctx, 1); err != nil { // want `ctx does not end when the lock is lost`
		unlock()
		return work(ctx)
	}
	unlock()
	return work(ctx)
}

func closureReleasesLater(ctx context.Context, m *lockrt.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	unlock := func() { lease.Unlock(ctx) }
	defer unlock()
	return work(ctx) // want `ctx does not end when the lock is lost`
}

func closureOfAClosure(ctx context.Context, m *lockrt.Mutex) (err error) {
	var lease *lockrt.Lease
	unlock := func() { lease.Unlock(ctx) }
	finish := func() { println("done"); unlock() }
	if lease, err = m.Lock(ctx); err != nil {
		return err
	}
	work(ctx, 1) // want `ctx does not end when the lock is lost`
	finish()
	return work(ctx)
}

func methodValue(ctx context.Context, m *lockrt.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	unlock := lease.Unlock
	work(ctx, 1) // want `ctx does not end when the lock is lost`
	if err := unlock(ctx); err != nil {
		return err
	}
	return work(ctx)
}

func calledLiteral(ctx context.Context, m *lockrt.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	func() {
		defer lease.Unlock(ctx)
		work(lease.Context())
	}()
	return work(ctx)
}

func calledLiteralThatReads(ctx context.Context, m *lockrt.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Unlock(ctx)
	func() { work(lease.Context()) }()
	return work(ctx) // want `ctx does not end when the lock is lost`
}

func insideOfAProof(ctx context.Context, m lockrt.EntityMutex[ID]) error {
	held, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	if err := held.Lease.Unlock(ctx); err != nil {
		return err
	}
	return work(ctx)
}

func insideOfAProofLater(ctx context.Context, m lockrt.EntityMutex[ID]) error {
	held, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer held.Lease.Unlock(ctx)
	if err := show(held.Context(), held.Held()); err != nil {
		return err
	}
	return work(ctx) // want `ctx does not end when the lock is lost`
}

func otherName(ctx context.Context, m *lockrt.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	l := lease
	if err := l.Unlock(ctx); err != nil {
		return err
	}
	return work(ctx)
}

func deferredNow(ctx context.Context, m *lockrt.Mutex, stops func(*lockrt.Lease) func()) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer stops(lease)()
	return work(ctx)
}

func deferredLater(ctx context.Context, m *lockrt.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer func() { errors.Join(err, lease.Unlock(ctx)) }()
	return work(ctx) // want `ctx does not end when the lock is lost`
}
