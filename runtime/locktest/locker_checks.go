package locktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// checks are the checks without faults.
var checks = []check{
	{"Excludes", (*suite).excludes},
	{"RefusesWhatIsHeld", (*suite).refusesWhatIsHeld},
	{"HandsOver", (*suite).handsOver},
	{"WaitRunsOut", (*suite).waitRunsOut},
	{"WaitOfZero", (*suite).waitOfZero},
	{"ContextDoneBefore", (*suite).contextDoneBefore},
	{"ContextDoneWhileWaiting", (*suite).contextDoneWhileWaiting},
	{"ContextDoneAtTheGrant", (*suite).contextDoneAtTheGrant},
	{"Reentry", (*suite).reentry},
	{"AnotherContextIsAStranger", (*suite).anotherContextIsAStranger},
	{"UnlockTwice", (*suite).unlockTwice},
	{"UnlockByMany", (*suite).unlockByMany},
	{"UnlockWithContextDone", (*suite).unlockWithContextDone},
	{"LeaseContext", (*suite).leaseContext},
	{"FixedLeaseIsOverBeforeTheKey", (*suite).fixedLease},
	{"Renews", (*suite).renews},
	{"MaxHold", (*suite).maxHold},
	{"TellsOfLoss", (*suite).tellsOfLoss},
	{"Extend", (*suite).extend},
	{"Close", (*suite).closes},
	{"Shutdown", (*suite).shutdown},
	{"ShutdownCutShort", (*suite).shutdownCutShort},
	{"BadKeys", (*suite).badKeys},
	{"BadOptions", (*suite).badOptions},
	{"KeyOfAnotherType", (*suite).keyOfAnotherType},
	{"StormLeavesNothing", (*suite).storm},
}

// slack is how late a call may return on a busy machine.
const slack = 5 * time.Second

// unexpiring is for leases that must not expire during a check.
var unexpiring = lockrt.WithWatchdog(time.Minute)

var errWhy = errors.New("the reason for the cancellation")

func (s *suite) excludes() {
	const processes, goroutines, rounds = 3, 3, 10
	var inside, total atomic.Int32
	round := func(p *process) (ok bool) {
		ctx, cancel := context.WithTimeout(context.Background(), s.patience)
		defer cancel()
		l, err := p.lock.Lock(ctx)
		if err != nil {
			s.tb.Errorf("lock: %v", err)
			return false
		}
		before := inside.Add(1)
		if _, err := l.TTL(ctx); err != nil { // which takes as long as another caller needs to come, too
			s.tb.Errorf("the time to live: %v", err)
		}
		if after := inside.Add(-1); before != 1 || after != 0 {
			s.tb.Errorf("%d have the lock at a time", max(before, after+1))
		}
		total.Add(1)
		if err := l.Unlock(ctx); err != nil {
			s.tb.Errorf("unlock: %v", err)
		}
		return true
	}
	var all []*process
	for range processes {
		p := s.process()
		all = append(all, p)
		round(p) // which connects: a holder that has to connect on a busy machine keeps the others waiting, and may be too late to renew
	}
	var wg sync.WaitGroup
	for _, p := range all {
		for range goroutines {
			wg.Go(func() {
				for range rounds {
					if !round(p) {
						return
					}
				}
			})
		}
	}
	wg.Wait()
	s.that(total.Load() == processes*(1+goroutines*rounds), "the lock was held %d times of %d", total.Load(), processes*(1+goroutines*rounds))
}

func (s *suite) refusesWhatIsHeld() {
	one, two := s.process(), s.process()
	l := one.hold(unexpiring)
	s.that(l.Key() == one.lock.Key(), "a lease of %q says that its key is %q", one.lock.Key(), l.Key())
	s.ok(l.Err(), "a lease that is held")
	one.refused("the same process")
	two.refused("another process")
	s.ok(l.Err(), "a lease that is held")
	s.ok(l.Unlock(s.ctx()), "unlock")
	for _, p := range []*process{one, two} {
		l, err := p.lock.TryLock(s.ctx())
		for ctx := s.ctx(); errors.Is(err, lockrt.ErrNotAcquired) && ctx.Err() == nil; { // a request that was sent twice may arrive again
			l, err = p.lock.TryLock(ctx)
		}
		s.ok(err, "try lock of a free key")
		s.ok(l.Unlock(s.ctx()), "unlock")
	}
}

func (s *suite) handsOver() {
	one, two := s.process(), s.process()
	l := one.hold(unexpiring)
	here, there := one.later(s.ctx(), unexpiring), two.later(s.ctx(), unexpiring)
	s.ok(l.Unlock(s.ctx()), "unlock")
	for range 2 {
		select {
		case o := <-here:
			s.ok(o.err, "the waiter in the same process")
			two.refused("another process, while that one has it")
			s.none(there)
			s.ok(o.lease.Unlock(s.ctx()), "unlock")
		case o := <-there:
			s.ok(o.err, "the waiter in another process")
			one.refused("the first process, while that one has it")
			s.none(here)
			s.ok(o.lease.Unlock(s.ctx()), "unlock")
		case <-time.After(s.patience):
			s.tb.Fatalf("waited too long for a waiter")
		}
	}
}

// none fails if a waiter has the lock, too.
func (s *suite) none(other <-chan outcome) {
	select {
	case o := <-other:
		s.tb.Fatalf("both waiters are through at a time, the second one with the error %v", o.err)
	default:
	}
}

func (s *suite) waitRunsOut() {
	const wait = 150 * time.Millisecond
	one, two := s.process(), s.process()
	l := one.hold(unexpiring)
	for _, p := range []*process{one, two} {
		var err error
		var took time.Duration
		for ctx := s.ctx(); ctx.Err() == nil; {
			start := time.Now()
			_, err = p.lock.Lock(ctx, lockrt.WithWait(wait))
			if took = time.Since(start); !errors.Is(err, lockrt.ErrUnavailable) { // of a server that was slow for longer than the wait
				break
			}
		}
		s.is(err, "the wait is over", lockrt.ErrNotAcquired)
		s.that(took >= wait && took < wait+slack, "a wait of %v took %v", wait, took)
	}
	s.ok(l.Err(), "the lease of the holder")
	s.ok(l.Unlock(s.ctx()), "unlock")
	two.pass()
}

func (s *suite) waitOfZero() {
	one, two := s.process(), s.process()
	l := one.hold(unexpiring, lockrt.WithWait(0))
	for _, p := range []*process{one, two} {
		start := time.Now()
		_, err := p.lock.Lock(s.ctx(), lockrt.WithWait(0))
		s.is(err, "no wait", lockrt.ErrNotAcquired)
		s.that(time.Since(start) < slack, "no wait took %v", time.Since(start))
	}
	got := two.later(s.ctx(), unexpiring, lockrt.WithWait(lockrt.UntilDone))
	s.ok(l.Unlock(s.ctx()), "unlock")
	s.ok(s.granted(got, "the waiter until the context is done").Unlock(s.ctx()), "unlock")
}

func (s *suite) contextDoneBefore() {
	one, two := s.process(), s.process()
	ctx, cancel := context.WithCancelCause(s.ctx())
	cancel(errWhy)
	try := func(key string) {
		s.tb.Helper()
		_, err := one.lock.Lock(ctx)
		s.is(err, "lock "+key+" under a context that is done", context.Canceled, errWhy)
		_, err = one.lock.TryLock(ctx)
		s.is(err, "try lock "+key+" under a context that is done", context.Canceled, errWhy)
	}
	try("a free key")
	l, err := two.lock.TryLock(s.ctx())
	s.ok(err, "nobody should have it")
	try("a held key")
	s.ok(l.Unlock(s.ctx()), "unlock")
	two.pass()
}

func (s *suite) contextDoneWhileWaiting() {
	one, two := s.process(), s.process()
	l := one.hold(unexpiring)
	for _, p := range []*process{one, two} {
		ctx, cancel := context.WithCancelCause(s.ctx())
		got := p.later(ctx, unexpiring)
		cancel(errWhy)
		o := receive(s, got, "the call that was cancelled")
		s.is(o.err, "cancelled while waiting", context.Canceled, errWhy)

		short, stop := context.WithTimeout(s.ctx(), 50*time.Millisecond)
		start := time.Now()
		_, err := p.lock.Lock(short, unexpiring)
		stop()
		s.is(err, "the deadline is over", context.DeadlineExceeded)
		s.that(time.Since(start) < slack, "a deadline of 50ms was kept after %v", time.Since(start))
	}
	s.ok(l.Err(), "the lease of the holder")
	s.ok(l.Unlock(s.ctx()), "unlock")
	two.pass()
	one.pass()
}

func (s *suite) contextDoneAtTheGrant() {
	const rounds = 20
	one, two, three := s.process(), s.process(), s.process()
	for i := range rounds {
		l := one.hold(unexpiring)
		ctx, cancel := context.WithCancel(s.ctx())
		got := []*process{one, two}[i%2].later(ctx, unexpiring)
		go cancel()
		s.ok(l.Unlock(s.ctx()), "unlock")
		o := receive(s, got, "the call that is cancelled when the key is granted")
		if o.err == nil {
			s.ok(o.lease.Unlock(s.ctx()), "unlock")
		} else {
			s.is(o.err, "cancelled when the key is granted", context.Canceled)
		}
		three.pass()
	}
}

func (s *suite) closes() {
	one, two := s.mortal(), s.process()
	l := one.hold(lockrt.WithWatchdog(s.patience / 2))
	here, there := one.later(s.ctx(), unexpiring), two.later(s.ctx(), unexpiring)
	s.ok(one.client.Close(), "close")
	s.is(receive(s, here, "the waiter whose client is closed").err, "the waiter whose client is closed", lockrt.ErrClosed)
	s.ends(l, lockrt.ErrClosed, "the end of a lease whose client is closed")
	_, err := one.lock.Lock(s.ctx())
	s.is(err, "lock after close", lockrt.ErrClosed)
	_, err = one.lock.TryLock(s.ctx())
	s.is(err, "try lock after close", lockrt.ErrClosed)
	s.ok(one.client.Close(), "close twice")
	s.ok(s.granted(there, "another process, when the key has expired").Unlock(s.ctx()), "unlock")
}

func (s *suite) shutdown() {
	one, two := s.mortal(), s.process()
	l := one.hold(unexpiring)
	waits := one.later(s.ctx(), unexpiring)
	down := make(chan error, 1)
	ctx := s.ctx()
	go func() { down <- one.client.Shutdown(ctx) }()
	s.is(receive(s, waits, "the waiter at the shutdown").err, "the waiter at the shutdown", lockrt.ErrClosed)
	_, err := one.lock.Lock(s.ctx())
	s.is(err, "lock during the shutdown", lockrt.ErrClosed)
	s.ok(l.Err(), "the lease during the shutdown")
	two.refused("the key during the shutdown")
	select {
	case err := <-down:
		s.tb.Fatalf("Shutdown did not wait for Unlock, and returned %v", err)
	default:
	}
	s.ok(l.Unlock(s.ctx()), "unlock during the shutdown")
	s.ok(receive(s, down, "the shutdown"), "shutdown")
	two.pass()
}

func (s *suite) shutdownCutShort() {
	one := s.mortal()
	l := one.hold(lockrt.WithWatchdog(3 * time.Second))
	ctx, cancel := context.WithCancel(s.ctx())
	cancel()
	s.is(one.client.Shutdown(ctx), "shutdown with a context that is done", context.Canceled)
	s.ends(l, lockrt.ErrClosed, "the end of the lease")
}

func (s *suite) badKeys() {
	proxy, by, counts := inFront(s.tb, s.url)
	if !counts {
		by = s.url
	}
	p := s.processAt(by, lockrt.Options{})
	p.pass()
	bad := []string{"", strings.Repeat("x", 1025), "a{b", "{}x"}
	var sent, all atomic.Int32
	count := func(cmd []string) {
		if !redistest.Command("EVALSHA")(cmd) {
			return
		}
		all.Add(1) // those that release what came late, too
		if slices.ContainsFunc(bad, func(key string) bool { return slices.Contains(cmd, key) }) && !slices.Contains(cmd, p.lock.Key()) {
			sent.Add(1)
		}
	}
	if counts {
		proxy.OnRequest(count)
	}
	for _, key := range bad {
		lock := s.make(p.client, key)
		for name, try := range map[string]func(context.Context, ...lockrt.LockOption) (lease, error){"lock": lock.Lock, "try lock": lock.TryLock} {
			_, err := try(s.ctx())
			if _, ok := errors.AsType[*lockrt.KeyError](err); !ok {
				s.tb.Fatalf("%s of the key %.20q: the error is %v, and no KeyError", name, key, err)
			}
		}
	}
	s.that(sent.Load() == 0, "%d requests were sent for keys that cannot be", sent.Load())
	p.pass()
	s.that(!counts || all.Load() > 0, "requests are not seen")
}

func (s *suite) badOptions() {
	p := s.process()
	for name, opts := range map[string][]lockrt.LockOption{
		"a wait of -2s":             {lockrt.WithWait(-2 * time.Second)},
		"a lease of 0":              {lockrt.WithLease(0)},
		"a lease of -1s":            {lockrt.WithLease(-time.Second)},
		"a lease of 1µs":            {lockrt.WithLease(time.Microsecond)},
		"a watchdog of 0":           {lockrt.WithWatchdog(0)},
		"a watchdog of 1ms":         {lockrt.WithWatchdog(time.Millisecond)},
		"a maximal hold of nothing": {lockrt.WithMaxHold(0)},
	} {
		_, err := p.lock.Lock(s.ctx(), opts...)
		s.is(err, "lock with "+name, lockrt.ErrBadOption)
	}
	s.that(len(s.keys()) == 0, "something was written: %q", s.keys())
}

func (s *suite) keyOfAnotherType() {
	p := s.process()
	if slices.Contains(s.lacks, MajorityOfKeys) {
		s.ok(p.hold(unexpiring).Unlock(s.ctx()), "unlock") // its keys have the names that the other checks look for
		return
	}
	s.cmd("SET", s.key, "precious")
	_, err := p.lock.Lock(s.ctx())
	s.is(err, "lock of a string", lockrt.ErrWrongType)
	_, err = p.lock.TryLock(s.ctx())
	s.is(err, "try lock of a string", lockrt.ErrWrongType)
	value, err := s.cmd("GET", s.key).ToString()
	s.ok(err, "read the string")
	s.that(value == "precious", "the string has become %q", value)
	s.cmd("DEL", s.key)
	p.pass()
}

func (s *suite) storm() {
	const processes, hasty, rounds = 2, 6, 25
	var ids []string
	var all []*process
	of := newMark()
	of.run(func() {
		for range processes {
			all = append(all, s.mortal())
		}
		// Longer than a waiter takes to ask by itself, and shorter than a lease: a key that stays locked without a
		// holder is found.
		ctx, over := context.WithTimeout(context.Background(), 45*time.Second)
		defer over()
		var inside atomic.Int32
		var wg sync.WaitGroup
		for _, p := range all {
			for i := range hasty {
				wg.Go(func() {
					for range rounds {
						ctx, cancel := ctx, context.CancelFunc(func() {})
						if i > 0 { // one is in no hurry
							ctx, cancel = context.WithTimeout(ctx, rand.N(3*time.Millisecond))
						}
						l, err := p.lock.Lock(ctx, unexpiring)
						switch {
						case err == nil:
							if n := inside.Add(1); n != 1 {
								s.tb.Errorf("%d have the lock at a time", n)
							}
							inside.Add(-1)
							if err := l.Unlock(ctx); err != nil {
								s.tb.Errorf("unlock: %v", err)
							}
						case i == 0:
							s.tb.Errorf("lock, by the patient caller: %v", err)
						}
						cancel()
					}
				})
			}
		}
		wg.Wait()
	})
	s.until("no key is left", func() bool { return len(s.keys()) == 0 })
	s.until("nobody listens for the key", func() bool { return s.channels(s.key) == 0 })
	of.run(func() {
		for _, p := range all {
			s.ok(p.client.Close(), "close")
			ids = append(ids, p.client.ID())
		}
	})
	for _, id := range ids {
		s.until("nobody listens for the client", func() bool { return s.channels(id) == 0 })
	}
	s.untilNone("no goroutine is left", of.left)
}
