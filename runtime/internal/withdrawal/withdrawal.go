// Package withdrawal sends what makes Redis forget owner numbers that no call needs any more: the withdrawals of the loop in package engine,
// and those of the numbers that a server names although they are over, since it has lost writes.
package withdrawal

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/observe"
)

// The kinds whose withdrawals differ. Any other kind is withdrawn like a read-write lock.
const (
	kindMutex = string(observe.KindMutex)
	kindFair  = string(observe.KindFair)
	kindWrite = string(observe.KindWrite)
)

// A Client has the withdrawals of one client.
type Client struct {
	engine.Withdrawals
	Config

	waited engine.Recent // fair locks in whose queues the process waited
	echoes sync.Map      // by hash tags: the turn of the last goroutine that asks again because the client heard again
}

// Config configures the withdrawals of a client.
type Config struct {
	Host
	Wire     protocol.Process
	Net      *transport.Transport
	Logger   *slog.Logger
	FairWait time.Duration // of a ticket in the queue of a fair mutex of which only the number is known
}

// A Host is the client itself.
type Host interface {
	Spawn(f func())
	Pause(d time.Duration) bool
	// Over reports whether the client has given out the number, and nothing uses it any more.
	Over(number uint64) bool
	// Look has the tickets ask that wait for keys of a hash tag, or of all keys for "", but those of fair locks. It does not block.
	Look(tag string)
	// GivesBack reports that the ticket of a mutex is withdrawn, for tests.
	GivesBack(key string, number uint64)
}

// Init prepares the withdrawals of a client, which is closed when stopped is.
func (c *Client) Init(cfg Config, stopped <-chan struct{}) {
	c.Config = cfg
	c.Withdrawals.Init(cfg.Spawn, stopped, cfg.Net.Settled)
}

// A Withdrawer withdraws the tickets to the lock of a kind with a key, see [engine.Withdrawer].
type Withdrawer struct {
	c         *Client
	kind, key string
}

// Of returns the withdrawer of a key.
func (c *Client) Of(kind, key string) Withdrawer { return Withdrawer{c, kind, key} }

// Withdraw implements engine.Withdrawer.
func (by Withdrawer) Withdraw(list []*engine.Withdrawal) (engine.Fate, error) {
	switch by.kind {
	case kindMutex:
		return by.mutex(list)
	case kindFair:
		return by.fair(list)
	}
	lock := by.c.Wire.RW(by.key)
	return by.c.Each(list, lock.Release, func(n uint64) []string { return []string{lock.Field(n, false), lock.Field(n, true)} })
}

// Denied implements engine.Withdrawer.
func (by Withdrawer) Denied(err error) {
	by.c.Logger.Warn("lockgen: requests cannot be withdrawn, and this is tried again", "kind", by.kind, "key", by.key, "error", transport.Refused(err))
}

// GivenUp implements engine.Withdrawer.
func (by Withdrawer) GivenUp(tickets int, err error) {
	by.c.Logger.Warn("lockgen: requests could not be withdrawn; their key expires", "kind", by.kind, "key", by.key, "requests", tickets, "error", err)
}

// withdrawn returns what Redis may have done for a withdrawal although err came back.
func withdrawn(err error) (f engine.Fate, _ error) {
	switch {
	case transport.Unknown(err):
		f = engine.FateUnknown
	case transport.Denied(err):
		f = engine.FateDenied
	case errors.Is(err, rueidis.ErrClosing):
		f = engine.FateClosed
	default:
		if _, replied := transport.Replied(err); replied && transport.Passing(err) {
			f = engine.FateRefused
		}
	}
	return f, err
}

// mutex withdraws tickets to a mutex.
func (by Withdrawer) mutex(list []*engine.Withdrawal) (engine.Fate, error) {
	c := by.c
	batch := c.Wire.Releases()
	texts := protocol.Texts{Args: slices.Clone(batch.Common)}
	for _, wd := range list {
		c.GivesBack(by.key, wd.Number)
		release := protocol.Release{Of: protocol.Ticket{Number: wd.Number, Tokens: wd.Tokens}}
		c.Wire.Release(&texts, by.key, release)
	}
	return withdrawn(c.Net.RunBatch(protocol.Command{Script: batch.Script, Keys: texts.Keys, Args: texts.Args}))
}

// fair withdraws tickets to a fair mutex. Without any it makes sure that a waiter is served: the next owner gets a free lock,
// and the process of a holder gets the question whether it still holds.
func (by Withdrawer) fair(list []*engine.Withdrawal) (engine.Fate, error) {
	c := by.c
	tickets := make([]protocol.Departure, len(list))
	for i, wd := range list {
		tickets[i] = protocol.Departure{Number: wd.Number, Wait: wd.Wait}
	}
	lock := c.Wire.Fair(by.key)
	aside := slices.ContainsFunc(list, func(wd *engine.Withdrawal) bool { return wd.Aside })
	outcome, _, err := c.Release(lock.Leave(tickets, time.Now()), aside)
	c.PassOn(outcome, func() { _, _ = by.fair(nil) })
	return withdrawn(err)
}

// Each withdraws tickets with a release for each name. owners returns the names that a ticket may have if only its
// number is known.
func (c *Client) Each(list []*engine.Withdrawal, release func(owner string) protocol.Command, owners func(n uint64) []string) (engine.Fate, error) {
	errs := make(chan error, 2*len(list))
	sent := 0
	for _, wd := range list {
		names := []string{wd.Field}
		if wd.Field == "" {
			names = owners(wd.Number)
		}
		for _, owner := range names {
			sent++
			c.Spawn(func() {
				_, _, err := c.Release(release(owner), wd.Aside)
				errs <- err
			})
		}
	}
	var err error
	for range sent {
		if failed := <-errs; err == nil {
			err = failed
		}
	}
	return withdrawn(err)
}

// Release sends a release of one ticket, and again if the answer is late. It returns what the request did that was answered first, and
// whether there was another one, which may have done more.
func (c *Client) Release(cmd protocol.Command, aside bool) (outcome protocol.Outcome, again bool, err error) {
	run := c.Net.Run
	if aside {
		run = c.Net.RunAside
	}
	reply, again := c.Net.RunInTime(run, cmd)
	done, err := reply.Int()
	return protocol.Outcome(done), again, err
}

// PassOn calls pass in a moment, if a release left the lock free for a waiter that does not listen: it goes to the next one then, if
// it is still free.
func (c *Client) PassOn(outcome protocol.Outcome, pass func()) {
	if outcome == protocol.FreedForNobody {
		c.Spawn(func() {
			if c.Pause(protocol.HandOverLease) {
				pass()
			}
		})
	}
}
