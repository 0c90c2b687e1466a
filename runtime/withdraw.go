package lockrt

import (
	"errors"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// A withdrawer withdraws the tickets to the lock of a kind with a key, see [engine.Withdrawer].
type withdrawer struct {
	c         *Client
	kind, key string
}

func (by withdrawer) Withdraw(list []*engine.Withdrawal) (engine.Fate, error) {
	switch by.kind {
	case kindMutex:
		return by.mutex(list)
	case kindFair:
		return by.fair(list)
	}
	lock := by.c.wire.RW(by.key)
	return by.c.withdrawEach(list, lock.Release, func(n uint64) []string { return []string{lock.Field(n, false), lock.Field(n, true)} })
}

func (by withdrawer) Denied(err error) {
	by.c.opts.Logger.Warn("lockgen: requests cannot be withdrawn, and this is tried again", "kind", by.kind, "key", by.key, "error", refused(err))
}

func (by withdrawer) GivenUp(tickets int, err error) {
	by.c.opts.Logger.Warn("lockgen: requests could not be withdrawn; their key expires", "kind", by.kind, "key", by.key, "requests", tickets, "error", err)
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
	}
	return f, err
}

// mutex withdraws tickets to a mutex.
func (by withdrawer) mutex(list []*engine.Withdrawal) (engine.Fate, error) {
	c := by.c
	batch := c.wire.Releases()
	cmd := protocol.Command{Script: batch.Script, Args: slices.Clone(batch.Common)}
	for _, wd := range list {
		c.traces(trace.GivesBack, by.key, wd.Number)
		release := protocol.Release{Of: protocol.Ticket{Number: wd.Number, Tokens: wd.Tokens}}
		cmd.Keys, cmd.Args = c.wire.Release(cmd.Keys, cmd.Args, by.key, release)
	}
	return withdrawn(c.net.RunBatch(cmd))
}

// fair withdraws tickets to a fair mutex. Without any it makes sure that a waiter is served: the next owner gets a free lock,
// and the process of a holder gets the question whether it still holds.
func (by withdrawer) fair(list []*engine.Withdrawal) (engine.Fate, error) {
	c := by.c
	tickets := make([]protocol.Departure, len(list))
	for i, wd := range list {
		tickets[i] = protocol.Departure{Number: wd.Number, Wait: wd.Wait}
	}
	lock := c.wire.Fair(by.key)
	aside := slices.ContainsFunc(list, func(wd *engine.Withdrawal) bool { return wd.Aside })
	outcome, err := c.runRelease(lock.Leave(tickets, time.Now()), aside)
	c.passOn(outcome, func() { _, _ = by.fair(nil) })
	return withdrawn(err)
}

// passOn calls pass in a moment, if a release left the lock free for a waiter that does not listen: it goes to the next one then, if
// it is still free.
func (c *Client) passOn(outcome protocol.Outcome, pass func()) {
	if outcome == protocol.FreedForNobody {
		c.spawn(func() {
			if c.pause(handOverLease) {
				pass()
			}
		})
	}
}

// withdrawEach withdraws tickets with a release for each name. owners returns the names that a ticket may have if only its
// number is known.
func (c *Client) withdrawEach(list []*engine.Withdrawal, release func(owner string) protocol.Command, owners func(n uint64) []string) (engine.Fate, error) {
	errs := make(chan error, 2*len(list))
	sent := 0
	for _, wd := range list {
		names := []string{wd.Field}
		if wd.Field == "" {
			names = owners(wd.Number)
		}
		for _, owner := range names {
			sent++
			c.spawn(func() {
				_, err := c.runRelease(release(owner), wd.Aside)
				errs <- err
			})
		}
	}
	var err error
	for range sent {
		err = cmpOr(err, <-errs)
	}
	return withdrawn(err)
}

// runRelease sends a release of one ticket, and again if the answer is late. It returns what the release did, as far as
// the client knows.
func (c *Client) runRelease(cmd protocol.Command, aside bool) (protocol.Outcome, error) {
	run := c.net.Run
	if aside {
		run = c.net.RunAside
	}
	reply, again := c.net.RunInTime(run, cmd)
	done, err := reply.Int()
	outcome := protocol.Outcome(done)
	if outcome == protocol.NotOurs && again {
		outcome = protocol.Freed // perhaps by the request without an answer
	}
	return outcome, err
}

// kindsAbout are the kinds of the locks that a message can be about.
var kindsAbout = map[string]string{protocol.AboutLock: kindMutex, protocol.AboutFair: kindFair, protocol.AboutRW: kindWrite}

// ghosts releases owners that the server names although they are over: it lost the last writes, or came back with an
// older file. The server named them for a key of a kind.
func (c *Client) ghosts(about, key string, numbers []uint64) {
	kind, ok := kindsAbout[about]
	if !ok {
		return
	}
	var over []*engine.Withdrawal
	for _, n := range numbers {
		if _, known, _ := c.subscribers.Find(n); !known && n <= c.ticketNumbers.Load() {
			over = append(over, &engine.Withdrawal{Number: n, Wait: c.opts.FairWait})
		}
	}
	if len(over) > 0 {
		c.withdrawals.Add(withdrawer{c, kind, key}, over...)
	}
}
