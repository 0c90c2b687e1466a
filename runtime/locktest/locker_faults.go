package locktest

import (
	"context"
	"errors"
	"slices"
	"time"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// faultChecks are the checks with faults of messages and servers. Each has a server of its own.
var faultChecks = []check{
	{"LostReplyToLock", lost(true, duringLock)},
	{"LostRequestToLock", lost(false, duringLock)},
	{"LostReplyToUnlock", lost(true, duringUnlock)},
	{"LostRequestToUnlock", lost(false, duringUnlock)},
	{"LostGrantIsGivenBack", (*suite).lostGrant},
	{"ScriptsFlushed", (*suite).scriptsFlushed},
	{"Reconnect", (*suite).reconnect},
	{"HalfOpen", (*suite).halfOpen},
	{"StoppedServer", (*suite).stoppedServer},
	{"ServerComesBackEmpty", (*suite).serverComesBackEmpty},
	{"SubscribersKilled", (*suite).subscribersKilled},
}

// brisk are options of a client that finds a mute connection soon, and loses a lock soon.
var brisk = lockrt.Options{Watchdog: 2400 * time.Millisecond, OpTimeout: 5 * time.Second}

// A line is a proxy and the address of the server behind it.
type line struct {
	*redistest.FaultProxy

	url string
}

// proxy starts one in front of the server.
func (s *suite) proxy() line {
	p, by, ok := inFront(s.tb, s.url)
	s.that(ok, "a fault needs one server at redis://host:port, not %q", s.url)
	return line{p, by}
}

// lost checks the outcome of an operation whose message gets lost, with its connection and without.
func lost(reply bool, during func(p *process, lose func())) func(s *suite) {
	return func(s *suite) {
		s.ownServer()
		for _, mode := range []redistest.Mode{redistest.Close, redistest.Mute} {
			proxy := s.proxy()
			p, other := s.processAt(proxy.url, brisk), s.process()
			p.pass() // so that scripts are loaded
			drop := proxy.DropRequest
			if reply {
				drop = proxy.DropReply
			}
			var done <-chan struct{}
			during(p, func() { done = drop(redistest.Command("EVALSHA"), 1, mode).Done() })
			receive(s, done, "the message to be lost")
			s.until("nothing of the lock is left", func() bool { return len(s.keys()) == 0 })
			other.pass()
		}
	}
}

func duringLock(p *process, lose func()) {
	lose()
	l := p.hold(unexpiring)
	p.s.ok(l.Err(), "the lease")
	p.s.process().refused("another process")
	p.s.ok(l.Unlock(p.s.ctx()), "unlock once, for it was locked once")
}

func duringUnlock(p *process, lose func()) {
	s := p.s
	l := p.hold(unexpiring)
	got := s.process().later(s.ctx(), unexpiring)
	lose()
	s.ok(l.Unlock(s.ctx()), "unlock")
	next := s.granted(got, "the next holder")
	s.is(l.Unlock(s.ctx()), "unlock twice", lockrt.ErrReleased)
	_, err := next.TTL(s.ctx())
	s.ok(err, "the next holder's lease")
	s.ok(next.Unlock(s.ctx()), "unlock")
}

func (s *suite) lostGrant() {
	s.ownServer()
	proxy := s.proxy()
	p := s.processAt(proxy.url, brisk)
	p.pass()
	drop := proxy.DropReply(redistest.Command("EVALSHA"), 0, redistest.Close)
	ctx, cancel := context.WithCancel(s.ctx())
	defer cancel()
	got := p.soon(ctx, unexpiring)
	s.until("the server has granted it", func() bool { return len(s.keys()) > 0 })
	cancel()
	s.is(receive(s, got, "the call that gave up").err, "the call that gave up", context.Canceled)
	drop.Stop()
	s.until("it is given back", func() bool { return len(s.keys()) == 0 })
}

func (s *suite) scriptsFlushed() {
	server := s.ownServer()
	one, two := s.process(), s.process()
	for range 2 {
		server.Do("SCRIPT", "FLUSH")
		l := one.hold(unexpiring)
		got := two.later(s.ctx(), unexpiring)
		server.Do("SCRIPT", "FLUSH")
		s.ok(l.Unlock(s.ctx()), "unlock")
		next := s.granted(got, "the next holder")
		server.Do("SCRIPT", "FLUSH")
		s.ok(next.Extend(s.ctx(), 2*time.Minute), "extend")
		s.ok(next.Unlock(s.ctx()), "unlock")
	}
}

func (s *suite) reconnect() {
	s.ownServer()
	proxy := s.proxy()
	one, two := s.processAt(proxy.url, lockrt.Options{}), s.processAt(proxy.url, lockrt.Options{})
	l := one.hold(unexpiring)
	got := two.later(s.ctx(), unexpiring)
	proxy.Cut()
	s.ok(l.Err(), "a lease does not depend on a connection")
	s.ok(l.Unlock(s.ctx()), "unlock")
	next := s.granted(got, "the call that waited meanwhile")
	proxy.Cut()
	s.ok(next.Err(), "a lease does not depend on a connection")
	one.refused("the key is held")
	s.ok(next.Unlock(s.ctx()), "unlock")
}

func (s *suite) halfOpen() {
	s.ownServer()
	proxy := s.proxy()
	one, two := s.processAt(proxy.url, brisk), s.process()
	l := one.hold(lockrt.WithWatchdog(6 * time.Second))
	got := two.later(s.ctx(), unexpiring)
	proxy.Blackhole(redistest.Both)
	next := s.granted(got, "another process, when the key has expired")
	s.is(l.Err(), "a lease whose key went to somebody else", lockrt.ErrLost)
	s.ends(l, lockrt.ErrLost, "the loss of a holder that is cut off")
	start := time.Now()
	s.is(l.Unlock(s.ctx()), "unlock", lockrt.ErrLost)
	s.that(time.Since(start) < brisk.OpTimeout+slack, "unlock took %v", time.Since(start))

	proxy.Deliver() // the delayed messages arrive now
	s.until("the client that was cut off hears the server again", func() bool {
		_, err := one.lock.TryLock(s.ctx())
		return errors.Is(err, lockrt.ErrNotAcquired)
	})
	_, err := next.TTL(s.ctx())
	s.ok(err, "the next holder's lease")
	s.ok(next.Unlock(s.ctx()), "unlock")
	one.pass()
}

func (s *suite) stoppedServer() {
	server := s.ownServer()
	one, two := s.processAt(s.url, brisk), s.processAt(s.url, brisk)
	two.pass()
	l := one.hold()
	server.Stop()
	s.tb.Cleanup(server.Cont) // or clients could not end
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := two.lock.Lock(ctx)
	s.is(err, "lock while the server does not answer", context.DeadlineExceeded)
	s.that(time.Since(start) < slack, "a deadline of 100ms was kept after %v", time.Since(start))
	s.ends(l, lockrt.ErrLost, "the loss of a holder whose server does not answer")
	start = time.Now()
	s.that(l.Unlock(s.ctx()) != nil, "a lease that was lost is unlocked")
	s.that(time.Since(start) < brisk.OpTimeout+slack, "unlock took %v", time.Since(start))
	server.Cont()
	two.pass()
	one.pass()
}

func (s *suite) serverComesBackEmpty() {
	server := s.ownServer()
	one, two := s.processAt(s.url, brisk), s.processAt(s.url, brisk)
	terms := unexpiring
	if s.silent() {
		terms = lockrt.WithWatchdog(brisk.Watchdog) // the next renewal finds the loss
	}
	l := one.hold(terms)
	got := two.later(s.ctx(), unexpiring)
	for _, p := range []*process{one, two} {
		s.until("it listens", func() bool { return s.silent() || s.channels(p.client.ID()) > 0 })
	}
	server.Restart()
	s.ends(l, lockrt.ErrLost, "the loss of a key that the server has forgotten")
	next := s.granted(got, "the call that waited meanwhile")
	s.is(l.Unlock(s.ctx()), "unlock", lockrt.ErrLost)
	_, err := next.TTL(s.ctx())
	s.ok(err, "the next holder's lease")
	s.ok(next.Unlock(s.ctx()), "unlock")
}

func (s *suite) subscribersKilled() {
	server := s.ownServer()
	one, two := s.process(), s.process()
	for range 3 {
		l := one.hold(unexpiring)
		got := two.later(s.ctx(), unexpiring)
		s.until("the waiters listen", func() bool { return s.silent() || s.channels("") > 0 })
		server.Do("CLIENT", "KILL", "TYPE", "pubsub")
		s.ok(l.Unlock(s.ctx()), "unlock, heard by nobody")
		s.ok(s.granted(got, "the waiter without a subscription").Unlock(s.ctx()), "unlock")
	}
}

// silent reports whether locks of this kind subscribe to nothing.
func (s *suite) silent() bool { return slices.Contains(s.lacks, NoListening) }
