package locktest

import (
	"context"
	"slices"
	"time"

	lockrt "github.com/lockgen/lockgen/runtime"
)

func (s *suite) reentry() {
	one, two := s.process(), s.process()
	outer := one.hold(unexpiring)
	inner, err := one.lock.TryLock(outer.Context())
	if slices.Contains(s.lacks, NoReentry) {
		s.is(err, "the holder once more", lockrt.ErrNotAcquired)
		s.ok(outer.Unlock(s.ctx()), "unlock")
		return
	}
	s.ok(err, "the holder once more")
	innermost, err := one.lock.Lock(inner.Context())
	s.ok(err, "the holder a third time")
	s.ok(inner.Unlock(s.ctx()), "unlock in the middle")
	s.ends(inner, lockrt.ErrReleased, "the lease in the middle")
	two.refused("another process, while two leases are left")
	s.ok(outer.Unlock(s.ctx()), "unlock the first lease")
	two.refused("another process, while one lease is left")
	one.refused("the same process, while one lease is left")
	s.ok(innermost.Unlock(s.ctx()), "unlock the last lease")
	two.pass()
}

func (s *suite) anotherContextIsAStranger() {
	one, two := s.process(), s.process()
	l := one.hold(unexpiring)
	one.refused("the same goroutine under another context")
	_, err := two.lock.TryLock(l.Context())
	s.is(err, "another process under the context of the lease", lockrt.ErrNotAcquired)
	s.ok(l.Unlock(s.ctx()), "unlock")

	next := one.hold(unexpiring)
	_, err = one.lock.TryLock(context.WithoutCancel(l.Context()))
	s.is(err, "under the context of a lease that has ended", lockrt.ErrNotAcquired)
	s.ok(next.Unlock(s.ctx()), "unlock")
}

func (s *suite) unlockTwice() {
	one, two := s.process(), s.process()
	l := one.hold(unexpiring)
	s.ok(l.Unlock(s.ctx()), "unlock")
	s.is(l.Unlock(s.ctx()), "unlock twice", lockrt.ErrReleased)
	next := two.hold(unexpiring)
	s.is(l.Unlock(s.ctx()), "unlock when another one has it", lockrt.ErrReleased)
	one.refused("another holder's key is not freed")
	_, err := next.TTL(s.ctx())
	s.ok(err, "the next holder's lease")
	s.ok(next.Unlock(s.ctx()), "unlock")
	s.until("a lease that was unlocked has no time to live", func() bool { // a late copy of its request locks the key until it is withdrawn
		_, err := l.TTL(s.ctx())
		return err != nil
	})
}

func (s *suite) unlockByMany() {
	const many = 8
	l := s.process().hold(unexpiring)
	errs := make(chan error, many)
	for range many {
		go func() { errs <- l.Unlock(context.Background()) }()
	}
	unlocked := 0
	for range many {
		if err := receive(s, errs, "unlock"); err == nil {
			unlocked++
		} else {
			s.is(err, "unlock by many", lockrt.ErrReleased)
		}
	}
	s.that(unlocked == 1, "of %d calls of Unlock %d said yes", many, unlocked)
}

func (s *suite) unlockWithContextDone() {
	one, two := s.process(), s.process()
	l := one.hold(unexpiring)
	ctx, cancel := context.WithCancel(s.ctx())
	cancel()
	s.ok(l.Unlock(ctx), "unlock with a context that is done")
	two.pass()
}

func (s *suite) leaseContext() {
	type private struct{}
	one, two := s.process(), s.process()
	parent, cancel := context.WithCancelCause(context.WithValue(s.ctx(), private{}, 42))
	defer cancel(nil)
	l, err := one.lock.Lock(parent, unexpiring)
	s.ok(err, "lock")
	s.that(l.Context().Value(private{}) == 42, "the lease's context has not the values of its parent")
	child, stop := context.WithCancel(l.Context())
	defer stop()
	s.ok(l.Unlock(s.ctx()), "unlock")
	s.ends(l, lockrt.ErrReleased, "the end of the lease's context")
	receive(s, child.Done(), "the end of a context below that of the lease")
	s.is(context.Cause(child), "a context below that of the lease", lockrt.ErrReleased)

	l, err = one.lock.Lock(parent, unexpiring)
	s.ok(err, "lock")
	cancel(errWhy)
	receive(s, l.Context().Done(), "the end of a context above")
	s.is(context.Cause(l.Context()), "the parent was cancelled", errWhy)
	s.ok(l.Err(), "a lease outlives its parent")
	two.refused("the key is held until Unlock")
	s.ok(l.Unlock(parent), "unlock")
}

func (s *suite) fixedLease() {
	const length, margin = 600 * time.Millisecond, 60 * time.Millisecond
	one, two := s.process(), s.process()
	before := time.Now()
	l := one.hold(lockrt.WithLease(length))
	granted := time.Now()
	until := l.Until() // before the key is asked about: a part that joins late may make both later
	ttl, err := l.TTL(s.ctx())
	asked := time.Now() // the key has no longer to live than that from now
	if err == nil {     // otherwise it is over already
		s.that(ttl <= length, "a lease of %v has %v to live", length, ttl)
		most := asked.Add(ttl + time.Millisecond - margin) // Redis counts in whole milliseconds
		s.that(!until.After(most), "the lease is trusted for %v, and the key lives for %v", until.Sub(asked), ttl)
	}
	s.that(!l.Until().After(granted.Add(length-margin)), "a lease of %v is trusted for %v after its grant", length, l.Until().Sub(granted))
	s.that(l.Until().After(before.Add(length-2*margin)), "a lease of %v is trusted for %v", length, l.Until().Sub(before))
	got := two.soon(s.ctx(), unexpiring)
	next := s.granted(got, "the next one, after the end of the lease")
	s.that(time.Since(before) >= length, "a lease of %v was over after %v", length, time.Since(before))
	s.is(l.Err(), "a lease whose key went to somebody else", lockrt.ErrLost)
	s.that(l.Context().Err() != nil, "the context of a lease whose key went to somebody else is not done")
	s.ends(l, lockrt.ErrLost, "the end of the lease")
	s.is(l.Unlock(s.ctx()), "unlock after the end", lockrt.ErrLost)
	_, err = next.TTL(s.ctx())
	s.ok(err, "the next holder's lease, after the late unlock")
	s.ok(next.Unlock(s.ctx()), "unlock")
}

func (s *suite) renews() {
	const watchdog = 6 * time.Second
	one, two := s.process(), s.process()
	l := one.hold(lockrt.WithWatchdog(watchdog))
	first := l.Until()
	s.until("the lease is trusted for longer than it was at first", func() bool {
		s.ok(l.Err(), "a lease that is renewed")
		return l.Until().After(first.Add(watchdog))
	})
	two.refused("the key is still held")
	s.ok(l.Unlock(s.ctx()), "unlock")
}

func (s *suite) maxHold() {
	one, two := s.process(), s.process()
	l := one.hold(lockrt.WithWatchdog(500*time.Millisecond), lockrt.WithMaxHold(200*time.Millisecond))
	s.ends(l, lockrt.ErrLost, "the end of a lease that was held for too long")
	two.pass()
	s.is(l.Unlock(s.ctx()), "unlock after the end", lockrt.ErrLost)
}

func (s *suite) tellsOfLoss() {
	one, two := s.process(), s.process()
	l := one.hold(lockrt.WithWatchdog(900 * time.Millisecond))
	s.until("the lease is lost", func() bool { // once may not do: a request that was answered late, and was sent once more, locks again
		for _, key := range s.keys() {
			s.cmd("DEL", key)
		}
		return l.Err() != nil
	})
	s.ends(l, lockrt.ErrLost, "the loss of a key that was deleted")
	next := two.hold(unexpiring)
	_, err := l.TTL(s.ctx())
	s.is(err, "the time to live of a lease that was lost", lockrt.ErrLost)
	s.is(l.Extend(s.ctx(), time.Minute), "extending a lease that was lost", lockrt.ErrLost)
	s.is(l.Unlock(s.ctx()), "unlocking a lease that was lost", lockrt.ErrLost)
	s.is(l.Unlock(s.ctx()), "unlocking it twice", lockrt.ErrReleased)
	_, err = next.TTL(s.ctx())
	s.ok(err, "the next holder's lease")
	s.ok(next.Unlock(s.ctx()), "unlock")
	one.pass()
}

func (s *suite) extend() {
	const long = 40 * time.Second
	l := s.process().hold(lockrt.WithLease(10 * time.Second))
	s.ok(l.Extend(s.ctx(), long), "extend")
	ttl, err := l.TTL(s.ctx())
	asked := time.Now() // the key has no longer to live than that from now
	s.ok(err, "time to live")
	s.that(ttl > 20*time.Second && ttl <= long, "after an extension to %v the key lives for %v", long, ttl)
	s.that(!l.Until().After(asked.Add(ttl)), "the lease is trusted for %v, and the key lives for %v", l.Until().Sub(asked), ttl)
	s.that(l.Until().After(asked.Add(20*time.Second)), "after an extension to %v the lease is trusted for %v", long, l.Until().Sub(asked))
	s.ok(l.Extend(s.ctx(), time.Second), "extend by less than is left")
	ttl, err = l.TTL(s.ctx())
	s.ok(err, "time to live")
	s.that(ttl > 20*time.Second, "an extension has shortened the lease to %v", ttl)
	s.is(l.Extend(s.ctx(), time.Millisecond), "extend by next to nothing", lockrt.ErrBadOption)
	s.is(l.Extend(s.ctx(), -time.Second), "extend by less than nothing", lockrt.ErrBadOption)
	s.ok(l.Unlock(s.ctx()), "unlock")
	s.is(l.Extend(s.ctx(), long), "extend after unlock", lockrt.ErrReleased)
}
