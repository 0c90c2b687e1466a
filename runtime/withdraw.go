package lockrt

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// withdrawals make sure that Redis keeps nothing for tickets without a waiter: a request for one may have been answered
// without our knowing, or may reach the server only after the withdrawal. No other ticket has its number, so
// withdrawing it too often does no harm.
//
// withdrawals watch a ticket for as long as a lease of it lasts, counted from the first answer, if a request may still
// be on its way; else the first answer is enough. They give up after a minute without one. When the client is closed
// they send the rest once more, and again if the connection breaks or stays mute, but do not wait for a server that is
// away. An error of any kind is no answer: an operator may delete a key of another type, or grant a missing permission.
//
// Tickets that one request can withdraw form a group. A ticket that is added during a request of its group goes with
// the next one, but does not wait for long: on a mute connection requests arrive and answers do not.
type withdrawals struct {
	c *Client

	mu     sync.Mutex // guards the rest
	groups map[withdrawer]*withdrawalGroup
}

// A withdrawer withdraws tickets, all of them with one request.
type withdrawer interface {
	withdraw(c *Client, list []*withdrawal) error
	about() []any // attributes for the log
}

// A withdrawal is a ticket to withdraw. The caller of add sets the fields of the first paragraph.
type withdrawal struct {
	n      uint64
	tokens int           // the tokens in its place of a mutex
	wait   time.Duration // the duration of its place in a fair mutex's queue
	field  string        // its name in a read-write lock; "" if only the number is known
	watch  time.Duration // how long a request for it may still take effect, from the first answer on
	aside  bool          // a request for it has no answer: another connection may be better
	over   func()        // called when it is withdrawn, or given up; may be nil

	limit time.Time // of the first answer
	until time.Time // of the last one; zero before the first
	fresh bool      // no request was sent since it was added
	added int       // how often it was added
}

// A withdrawalGroup is the tickets that are withdrawn together. withdrawals.mu guards its fields.
type withdrawalGroup struct {
	by       withdrawer
	all      map[uint64]*withdrawal
	fresh    int           // how many of them are fresh
	underWay int           // requests
	err      error         // of the last request
	last     int           // requests since the client was closed
	warned   bool          // the missing permission was logged
	kick     chan struct{} // at most one token
}

const (
	leastWithdrawPause, mostWithdrawPause = 25 * time.Millisecond, 5 * time.Second
	mostFailingWithdrawPause              = 250 * time.Millisecond
	withdrawLimit                         = time.Minute

	// withdrawTogether is the longest time for which tickets are collected while a request of their group is under way.
	withdrawTogether = 5 * time.Millisecond

	// mostLast is how often the rest is sent when the client is closed.
	mostLast = 3

	// mostWithdrawn is the largest number of tickets of one request.
	mostWithdrawn = 500
)

// add withdraws tickets. It does not block. A ticket that was added before is withdrawn anew.
func (ws *withdrawals) add(by withdrawer, list ...*withdrawal) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.groups == nil {
		ws.groups = map[withdrawer]*withdrawalGroup{}
	}
	group := ws.groups[by]
	if group == nil {
		group = &withdrawalGroup{by: by, all: map[uint64]*withdrawal{}, kick: make(chan struct{}, 1)}
		ws.groups[by] = group
		ws.c.spawn(func() { ws.work(group) })
	}
	limit := now().Add(withdrawLimit)
	for _, wd := range list {
		old := group.all[wd.n]
		if old == nil {
			group.all[wd.n], old = wd, wd
		}
		if !old.fresh {
			group.fresh++
		}
		old.aside = wd.aside
		old.watch, old.until, old.limit, old.fresh = max(old.watch, wd.watch), time.Time{}, limit, true
		old.added++
		switch first, then := old.over, wd.over; {
		case old == wd || then == nil:
		case first == nil:
			old.over = then
		default:
			old.over = func() { first(); then() }
		}
	}
	group.touch()
}

func (group *withdrawalGroup) touch() {
	select {
	case group.kick <- struct{}{}:
	default:
	}
}

// work withdraws a group until it is empty.
func (ws *withdrawals) work(group *withdrawalGroup) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var last, next time.Time
	pause, stopped := leastWithdrawPause, ws.c.stopped
	for {
		at := now()
		var batch []sentWithdrawal
		ws.mu.Lock()
		switch {
		case group.fresh > 0 && (group.underWay == 0 || stopped == nil || at.Sub(last) >= withdrawTogether):
			batch, pause = group.pick(true), leastWithdrawPause
		case stopped == nil && group.underWay == 0 && transport.Unknown(group.err) && group.last < mostLast && len(group.all) > 0:
			batch = group.pick(false)
		case len(group.all) == 0 && group.underWay == 0, stopped == nil && group.underWay == 0:
			delete(ws.groups, group.by)
			ws.mu.Unlock()
			group.end()
			return
		case group.underWay == 0 && !at.Before(next):
			batch, pause = group.pick(false), min(2*pause, mostWithdrawPause)
			if group.err != nil {
				pause = min(pause, mostFailingWithdrawPause)
			}
		}
		wait := next.Sub(at)
		switch {
		case group.fresh > 0:
			wait = last.Add(withdrawTogether).Sub(at)
		case group.underWay > 0:
			wait = time.Hour
		}
		ws.mu.Unlock()
		if batch != nil && stopped == nil {
			group.last++
		}
		if batch != nil {
			last, next = at, at.Add(pause)
			ws.c.spawn(func() { ws.send(group, batch) })
			continue
		}
		timer.Reset(max(wait, 0))
		select {
		case <-group.kick:
		case <-timer.C:
		case <-stopped:
			stopped = nil
		}
	}
}

// A sentWithdrawal is a ticket in a request, as it was by then: it may be added once more
// meanwhile.
type sentWithdrawal struct {
	*withdrawal
	then withdrawal
}

// pick returns the tickets of the next request: all, or the fresh ones. The caller holds withdrawals.mu.
func (group *withdrawalGroup) pick(fresh bool) (batch []sentWithdrawal) {
	for _, wd := range group.all {
		if wd.fresh || !fresh {
			wd.fresh = false
			batch = append(batch, sentWithdrawal{wd, *wd})
		}
	}
	group.fresh = 0
	group.underWay++
	return batch
}

// send sends one request, or a few if there are many tickets, and records the answers.
func (ws *withdrawals) send(group *withdrawalGroup, batch []sentWithdrawal) {
	for some := range slices.Chunk(batch, mostWithdrawn) {
		list := make([]*withdrawal, len(some))
		for i := range some {
			list[i] = &some[i].then
		}
		err := group.by.withdraw(ws.c, list)
		ws.answered(group, some, err)
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	group.underWay--
	group.touch()
}

// answered records the answer to a request, or its absence.
func (ws *withdrawals) answered(group *withdrawalGroup, batch []sentWithdrawal, err error) {
	at := now()
	var over []func()
	failed := 0
	ws.mu.Lock()
	group.err = err
	tell := transport.Denied(err) && !group.warned
	group.warned = group.warned || tell
	for _, s := range batch {
		wd := s.withdrawal
		if wd.added != s.then.added {
			continue // it was added once more meanwhile
		}
		if err == nil && wd.until.IsZero() {
			wd.until = at.Add(wd.watch)
		}
		switch {
		case err == nil && !at.Before(wd.until), errors.Is(err, rueidis.ErrClosing):
		case !wd.until.IsZero() && at.After(wd.until):
		case wd.until.IsZero() && at.After(wd.limit):
			failed++
		default:
			continue
		}
		delete(group.all, wd.n)
		if wd.over != nil {
			over = append(over, wd.over)
		}
	}
	ws.mu.Unlock()
	if tell {
		ws.c.opts.Logger.Warn("lockgen: requests cannot be withdrawn, and this is tried again", append(group.by.about(), "error", refused(err))...)
	}
	if failed > 0 {
		ws.c.opts.Logger.Warn("lockgen: requests could not be withdrawn; their key expires", append(group.by.about(), "requests", failed, "error", err)...)
	}
	for _, f := range over {
		f()
	}
}

// end calls over for the remaining tickets, whose answers are not awaited any more.
func (group *withdrawalGroup) end() {
	for _, wd := range group.all {
		if wd.over != nil {
			wd.over()
		}
	}
}

// A lockWithdrawer withdraws tickets to a mutex.
type lockWithdrawer struct{ key string }

func (s lockWithdrawer) about() []any { return []any{"kind", kindMutex, "key", s.key} }

func (s lockWithdrawer) withdraw(c *Client, list []*withdrawal) error {
	batch := c.wire.Releases()
	cmd := protocol.Command{Script: batch.Script, Args: slices.Clone(batch.Common)}
	for _, wd := range list {
		c.traces(trace.GivesBack, s.key, wd.n)
		release := protocol.Release{Of: protocol.Ticket{Number: wd.n, Tokens: wd.tokens}}
		cmd.Keys, cmd.Args = c.wire.Release(cmd.Keys, cmd.Args, s.key, release)
	}
	return c.net.RunBatch(cmd)
}

// A fairWithdrawer withdraws tickets to a fair mutex. Without any it makes sure that a waiter is served: the next owner
// gets a free lock, and the process of a holder gets the question whether it still holds.
type fairWithdrawer struct{ key string }

func (s fairWithdrawer) about() []any { return []any{"kind", kindFair, "key", s.key} }

func (s fairWithdrawer) withdraw(c *Client, list []*withdrawal) error {
	tickets := make([]protocol.Departure, len(list))
	for i, wd := range list {
		tickets[i] = protocol.Departure{Number: wd.n, Wait: wd.wait}
	}
	lock := c.wire.Fair(s.key)
	aside := slices.ContainsFunc(list, func(wd *withdrawal) bool { return wd.aside })
	outcome, err := c.runRelease(lock.Leave(tickets, time.Now()), aside)
	if outcome == protocol.FreedForNobody {
		c.spawn(func() {
			if c.pause(handOverLease) {
				_ = s.withdraw(c, nil)
			}
		})
	}
	return err
}

// An rwWithdrawer withdraws tickets to a read-write lock, with one request each, or with one for either side if only the
// number is known.
type rwWithdrawer struct{ key string }

func (s rwWithdrawer) about() []any { return []any{"kind", kindWrite, "key", s.key} }

func (s rwWithdrawer) withdraw(c *Client, list []*withdrawal) (err error) {
	lock := c.wire.RW(s.key)
	errs := make(chan error, 2*len(list))
	sent := 0
	for _, wd := range list {
		fields := []string{wd.field}
		if wd.field == "" {
			fields = []string{lock.Field(wd.n, false), lock.Field(wd.n, true)}
		}
		for _, field := range fields {
			sent++
			c.spawn(func() {
				_, err := c.runRelease(lock.Release(field), wd.aside)
				errs <- err
			})
		}
	}
	for range sent {
		err = cmpOr(err, <-errs)
	}
	return err
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

// ghosts releases owners that the server names although they are over: it lost the last writes, or came back with an
// older file. The server named them for a key of a kind.
func (c *Client) ghosts(kind, key string, numbers []uint64) {
	var by withdrawer
	switch kind {
	case protocol.AboutLock:
		by = lockWithdrawer{key}
	case protocol.AboutFair:
		by = fairWithdrawer{key}
	case protocol.AboutRW:
		by = rwWithdrawer{key}
	default:
		return
	}
	var over []*withdrawal
	c.inboxMu.Lock()
	for _, n := range numbers {
		if _, known := c.subscribers[n]; !known && n <= c.ticketNumbers.Load() {
			over = append(over, &withdrawal{n: n, wait: c.opts.FairWait})
		}
	}
	c.inboxMu.Unlock()
	if len(over) > 0 {
		c.withdrawals.add(by, over...)
	}
}
