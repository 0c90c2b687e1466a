// Basic shows each failure of the lock of many articles, SET NX PX and DEL, and how a lock of this library behaves in
// its place:
//
//	go run ./examples/basic
//
// It starts a server inside the program, or uses the one that REDIS_URL names.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/redis/rueidis"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/embedded"
)

func main() {
	if err := run(context.Background(), os.Getenv("REDIS_URL"), 600*time.Millisecond, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "basic: %v\n", err)
		os.Exit(1)
	}
}

// run shows everything, on the server that url names, or on one of its own if url is empty. A lock of both kinds stays held for ttl after its holder
// died.
func run(ctx context.Context, url string, ttl time.Duration, out io.Writer) error {
	if url == "" {
		var stop func()
		var err error
		if url, stop, err = embedded.Start(); err != nil {
			return err
		}
		defer stop()
	}
	option, err := rueidis.ParseURL(url)
	if err != nil {
		return err
	}
	option.DisableCache, option.ForceSingleClient = true, true
	rc, err := rueidis.NewClient(option)
	if err != nil {
		return err
	}
	defer rc.Close()
	client, err := lockrt.Open(ctx, url, lockrt.Options{Watchdog: ttl})
	if err != nil {
		return err
	}
	defer client.Close()
	s := &show{rc: rc, client: client, ttl: ttl, out: out, prefix: "example-basic:" + client.ID() + ":"}
	for _, part := range []func(context.Context) error{s.reentry, s.waiting, s.slowHolder, s.deleting} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

type show struct {
	rc     rueidis.Client
	client *lockrt.Client
	ttl    time.Duration
	out    io.Writer
	prefix string
}

func (s *show) say(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

// reentry: a function that holds a lock calls another one that takes the same lock.
func (s *show) reentry(ctx context.Context) error {
	s.say("no reentry")
	b := newBasic(s.rc, s.prefix+"a", time.Minute)
	if err := b.lock(ctx); err != nil {
		return err
	}
	s.say("  SET NX: locked, and again by the same holder: %v", b.lock(ctx))
	if _, err := b.unlock(ctx); err != nil {
		return err
	}
	m := s.client.Mutex(s.prefix + "b")
	return m.Do(ctx, func(ctx context.Context, _ *lockrt.Lease) error {
		return m.Do(ctx, func(context.Context, *lockrt.Lease) error {
			s.say("  lockgen: locked, and again under its context: entered")
			return nil
		})
	})
}

// waiting: a second caller arrives while the lock is held.
func (s *show) waiting(ctx context.Context) error {
	s.say("no waiting")
	holder, other := newBasic(s.rc, s.prefix+"c", time.Minute), newBasic(s.rc, s.prefix+"c", time.Minute)
	if err := holder.lock(ctx); err != nil {
		return err
	}
	s.say("  SET NX: another one: %v; when to try again it has to guess", other.lock(ctx))
	if _, err := holder.unlock(ctx); err != nil {
		return err
	}
	m := s.client.Mutex(s.prefix + "d")
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	got := make(chan error, 1)
	go func() {
		next, err := m.Lock(ctx)
		if err == nil {
			err = next.Unlock(ctx)
		}
		got <- err
	}()
	if err := errors.Join(lease.Unlock(ctx), <-got); err != nil {
		return err
	}
	s.say("  lockgen: another one: waited, and had it when it was given back")
	return nil
}

// slowHolder: the work takes longer than the key's time to live.
func (s *show) slowHolder(ctx context.Context) error {
	s.say("expiry under a slow holder")
	slow, other := newBasic(s.rc, s.prefix+"e", s.ttl), newBasic(s.rc, s.prefix+"e", time.Minute)
	if err := slow.lock(ctx); err != nil {
		return err
	}
	if err := s.pass(ctx, 2*s.ttl); err != nil {
		return err
	}
	if err := other.lock(ctx); err != nil {
		return err
	}
	s.say("  SET NX: the holder still works, and another one has locked: two at once, and nobody was told")
	if _, err := other.unlock(ctx); err != nil {
		return err
	}
	m := s.client.Mutex(s.prefix + "f")
	return m.Do(ctx, func(held context.Context, _ *lockrt.Lease) error {
		if err := s.pass(held, 2*s.ttl); err != nil {
			return err
		}
		another, err := m.TryLock(ctx) // not under the lease's context, which would re-enter the lock
		s.say("  lockgen: the holder still works, its lease is renewed; another one is refused: %v", errors.Is(err, lockrt.ErrNotAcquired))
		if err != nil {
			return nil //nolint:nilerr // the expected outcome
		}
		return another.Unlock(ctx)
	})
}

// deleting: the slow holder finishes, and deletes a key that another holder has by now.
func (s *show) deleting(ctx context.Context) error {
	s.say("deleting somebody else's")
	slow, other, third := newBasic(s.rc, s.prefix+"g", s.ttl), newBasic(s.rc, s.prefix+"g", time.Minute), newBasic(s.rc, s.prefix+"g", time.Minute)
	if err := slow.lock(ctx); err != nil {
		return err
	}
	if err := s.pass(ctx, 2*s.ttl); err != nil {
		return err
	}
	if err := errors.Join(other.lock(ctx), slow.unlockBlindly(ctx), third.lock(ctx)); err != nil {
		return err
	}
	s.say("  SET NX, DEL: the slow one deleted the lock of another one, and a third one has it now")
	ours, err := other.unlock(ctx)
	if err != nil {
		return err
	}
	s.say("  SET NX, compare and delete: whose lock was deleted learns of it when it unlocks: still its own: %v", ours)
	if _, err := third.unlock(ctx); err != nil {
		return err
	}
	m := s.client.Mutex(s.prefix + "h")
	lease, err := m.Lock(ctx, lockrt.WithLease(s.ttl))
	if err != nil {
		return err
	}
	defer lease.Unlock(ctx)  //nolint:errcheck // for returns before the Unlock below
	next, err := m.Lock(ctx) // returns once the lease is over
	if err != nil {
		return err
	}
	s.say("  lockgen: the slow one was told before: %v; its unlock: %v; the other one's lock: still its own: %v",
		errors.Is(lease.Err(), lockrt.ErrLost), errors.Is(lease.Unlock(ctx), lockrt.ErrLost), next.Err() == nil)
	return next.Unlock(ctx)
}

// pass lets time pass, as slow work does.
func (s *show) pass(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
