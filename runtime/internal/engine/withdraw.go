package engine

import (
	"container/heap"
	"slices"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/trace"
)

// Withdrawals make sure that Redis keeps nothing for tickets without a waiter: a request for one may have been answered
// without our knowing, or may reach the server only after the withdrawal. No other ticket has its number, so
// withdrawing it too often does no harm. One goroutine serves all tickets of a client.
//
// Withdrawals watch a ticket for as long as a lease of it lasts, counted from the first answer, if a request may still
// be on its way; else the first answer is enough. They give up after a minute without one. When the client is closed
// they send what was not sent yet, and again if the connection breaks or stays mute, but do not wait for a server that is
// away. They ask a server once more that refused the last request for now. They wait until no earlier request can take
// effect any more, but not for long. Then they withdraw a ticket that they watch once more, and watch it no longer: a
// request for it that reaches the server after that leaves a key until its lease ends.
//
// An error of any kind is no answer: an operator may delete a key of another type, or grant a missing permission.
//
// Tickets that one request can withdraw form a group. A ticket that is added during a request of its group goes with
// the next one, but does not wait for long: on a mute connection requests arrive and answers do not.
type Withdrawals struct {
	spawn   func(f func())         // runs f on another goroutine
	stopped <-chan struct{}        // closed when the client is closed
	settled func() <-chan struct{} // closed when no earlier request may still take effect, or that is not awaited any longer
	kick    chan struct{}          // at most one token: the first of the queue may be due

	mu      sync.Mutex // guards the rest
	groups  map[Withdrawer]*withdrawalGroup
	queue   groupQueue
	working bool // the goroutine runs
	phase   withdrawalsPhase
}

// A withdrawalsPhase is how far the end of the client has come.
type withdrawalsPhase uint8

const (
	withdrawalsOpen     withdrawalsPhase = iota // it is not closed, or a ticket to watch was added since
	withdrawalsSettling                         // it is closed, and earlier requests may still take effect
	withdrawalsLast                             // each ticket is withdrawn for the last time
)

// A Withdrawer withdraws tickets, all of them with one request. The tickets of equal withdrawers form a group.
type Withdrawer interface {
	// Withdraw sends the request, and returns what Redis may have done for it if there is an error.
	Withdraw(list []*Withdrawal) (Fate, error)
	// Denied is called for the first of a row of errors that mean a missing permission.
	Denied(err error)
	// GivenUp is called for a number of tickets that could not be withdrawn, the last time because of err.
	GivenUp(tickets int, err error)
}

// A Withdrawal is a ticket to withdraw. The caller of Add sets the fields of the first paragraph.
type Withdrawal struct {
	Number uint64
	Tokens int           // the tokens in its place of a mutex
	Wait   time.Duration // the duration of its place in a fair mutex's queue
	Field  string        // its name in a read-write lock; "" if only the number is known
	Watch  time.Duration // how long a request for it may still take effect, from the first answer on
	Aside  bool          // a request for it has no answer: another connection may be better
	Over   func()        // called when it is withdrawn, or given up; may be nil

	state       withdrawalState
	limit       monotonic.Time // it is given up after that, if no request is answered before
	until       monotonic.Time // it is watched until then, once a request is answered
	added       int            // how often it was added
	sentAtClose bool           // one of its requests was sent since the client was closed
}

// A withdrawalState is how far a withdrawal has come. docs/architecture.md has the transitions.
type withdrawalState uint8

const (
	withdrawalAdded   withdrawalState = iota // no request was sent since it was added
	withdrawalSent                           // a request was sent, and none is answered
	withdrawalWatched                        // a request is answered, and another one for the ticket may still take effect
	withdrawalOver                           // Redis has nothing for it, or it is given up
)

var withdrawalStates = [...]string{"added", "sent", "watched", "over"}

func (s withdrawalState) String() string { return withdrawalStates[s] }

func (wd *Withdrawal) to(next withdrawalState) {
	if wd.state != next {
		trace.Moves("withdrawal", wd.state, next)
		wd.state = next
	}
}

// A withdrawalGroup is the tickets that are withdrawn together. Withdrawals.mu guards its fields.
type withdrawalGroup struct {
	by         Withdrawer
	all        map[uint64]*Withdrawal
	added      int // how many of them are in this state
	underWay   int // requests
	fate       Fate
	err        error          // of the last request
	rest       int            // requests since the client was closed
	warned     bool           // the missing permission was reported
	last, next monotonic.Time // of the requests
	pause      time.Duration  // between the last two
	due        monotonic.Time // when the goroutine looks at it again
	place      int            // in the queue
}

const (
	// A group pauses between two requests: at first for the least time, then for twice as long after each one, up to the most.
	leastWithdrawPause, mostWithdrawPause = 25 * time.Millisecond, 5 * time.Second
	mostFailingWithdrawPause              = 250 * time.Millisecond // after a request without an answer

	// withdrawLimit is after how long without an answer a ticket is given up.
	withdrawLimit = time.Minute

	// withdrawTogether is the longest time for which tickets are collected while a request of their group is under way.
	withdrawTogether = 5 * time.Millisecond

	// mostRest is how often the rest is sent when the client is closed.
	mostRest = 3

	// mostWithdrawn is the largest number of tickets of one request.
	mostWithdrawn = 500
)

// Init prepares the withdrawals of a client, whose goroutines spawn starts, and which is closed when stopped is. After that, settled is called
// if a ticket is watched.
func (ws *Withdrawals) Init(spawn func(f func()), stopped <-chan struct{}, settled func() <-chan struct{}) {
	ws.spawn, ws.stopped, ws.settled, ws.kick = spawn, stopped, settled, make(chan struct{}, 1)
}

// Add withdraws tickets. It does not block. A ticket that was added before is withdrawn anew.
func (ws *Withdrawals) Add(by Withdrawer, list ...*Withdrawal) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.groups == nil {
		ws.groups = map[Withdrawer]*withdrawalGroup{}
	}
	group := ws.groups[by]
	if group == nil {
		group = &withdrawalGroup{by: by, all: map[uint64]*Withdrawal{}}
		ws.groups[by] = group
		heap.Push(&ws.queue, group)
	}
	limit := monotonic.Now().Add(withdrawLimit)
	for _, wd := range list {
		old := group.all[wd.Number]
		if old == nil {
			group.all[wd.Number], old = wd, wd
		}
		if old == wd || old.state != withdrawalAdded {
			group.added++
		}
		old.to(withdrawalAdded)
		old.Tokens = max(old.Tokens, wd.Tokens) // the one that was added by its number alone does not know its place
		old.Aside, old.Watch, old.limit = wd.Aside, max(old.Watch, wd.Watch), limit
		old.added++
		old.sentAtClose = false
		if wd.Watch > 0 { // it is sent at once, and for the last time when no request for it is under way
			ws.phase = withdrawalsOpen
		}
		switch first, then := old.Over, wd.Over; {
		case old == wd || then == nil:
		case first == nil:
			old.Over = then
		default:
			old.Over = func() { first(); then() }
		}
	}
	ws.touch(group)
	if !ws.working {
		ws.working = true
		ws.spawn(ws.work)
	}
}

// touch has the goroutine look at a group. The caller holds ws.mu.
func (ws *Withdrawals) touch(group *withdrawalGroup) {
	ws.put(group, 0)
	select {
	case ws.kick <- struct{}{}:
	default:
	}
}

// put sets when the goroutine looks at a group. The caller holds ws.mu.
func (ws *Withdrawals) put(group *withdrawalGroup, due monotonic.Time) {
	group.due = due
	heap.Fix(&ws.queue, group.place)
}

// work withdraws tickets until there are none.
func (ws *Withdrawals) work() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	stopped := ws.stopped
	var settled <-chan struct{}
	for {
		wait, over, ok := ws.look()
		for _, f := range over {
			f()
		}
		if !ok {
			return
		}
		timer.Reset(wait)
		select {
		case <-ws.kick:
			if stopped == nil && settled == nil {
				settled = ws.last()
			}
		case <-timer.C:
		case <-stopped:
			stopped, settled = nil, ws.last()
		case <-settled:
			if settled = nil; !ws.close() {
				settled = ws.last()
			}
		}
	}
}

// last returns a channel that is closed when the tickets are to be withdrawn for the last time, or nil if they are.
func (ws *Withdrawals) last() <-chan struct{} {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.phase == withdrawalsLast {
		return nil
	}
	ws.phase = withdrawalsSettling
	for _, group := range ws.groups {
		for _, wd := range group.all {
			if wd.Watch > 0 {
				return ws.settled()
			}
		}
	}
	return ws.stopped
}

// close has the rest sent, since the client is closed, and reports whether it has: not if a ticket to watch has come since last.
func (ws *Withdrawals) close() bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.phase == withdrawalsOpen {
		return false
	}
	ws.phase = withdrawalsLast
	for _, group := range ws.groups {
		ws.put(group, 0)
	}
	return true
}

// look looks at the groups that are due. It returns the time until the next one is, and what to call for tickets whose answers are not
// awaited any more, or false if there are no groups: then the goroutine ends.
func (ws *Withdrawals) look() (wait time.Duration, over []func(), ok bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for at := monotonic.Now(); len(ws.queue) > 0; {
		group := ws.queue[0]
		if group.due.After(at) {
			return group.due.Sub(at), over, true
		}
		if batch := ws.next(group, at); batch != nil {
			ws.spawn(func() { ws.send(group, batch) })
		}
		switch {
		case group.underWay == 0 && (len(group.all) == 0 || ws.phase == withdrawalsLast):
			heap.Pop(&ws.queue)
			delete(ws.groups, group.by)
			over = append(over, group.end()...)
		case group.added > 0:
			ws.put(group, group.last.Add(withdrawTogether))
		case group.underWay > 0:
			ws.put(group, at.Add(time.Hour))
		default:
			ws.put(group, group.next)
		}
	}
	ws.working = false
	return 0, over, false
}

// next returns the tickets of the next request of a group, if it is time for it. The caller holds ws.mu.
func (ws *Withdrawals) next(group *withdrawalGroup, at monotonic.Time) (batch []sentWithdrawal) {
	idle, closing := group.underWay == 0, ws.phase == withdrawalsLast
	switch {
	case group.added > 0 && (idle || closing || at.Sub(group.last) >= withdrawTogether):
		batch, group.pause = group.pick((*Withdrawal).isAdded), leastWithdrawPause
	case !idle || len(group.all) == 0:
	case closing:
		switch {
		case group.err == nil, group.fate&FateRefused != 0: // the server is there
			batch = group.pick((*Withdrawal).isUnsentAtClose)
		case group.fate&FateUnknown != 0 && group.rest < mostRest:
			batch = group.pick((*Withdrawal).isAny)
		}
	case !at.Before(group.next):
		batch, group.pause = group.pick((*Withdrawal).isAny), min(2*group.pause, mostWithdrawPause)
		if group.err != nil {
			group.pause = min(group.pause, mostFailingWithdrawPause)
		}
	}
	if batch == nil {
		return nil
	}
	if closing {
		group.rest++
		for _, s := range batch {
			s.sentAtClose = true
		}
	}
	group.underWay++
	group.last, group.next = at, at.Add(group.pause)
	return batch
}

// A sentWithdrawal is a ticket in a request, as it was by then: it may be added once more meanwhile.
type sentWithdrawal struct {
	*Withdrawal

	then Withdrawal
}

func (wd *Withdrawal) isAny() bool           { return true }
func (wd *Withdrawal) isAdded() bool         { return wd.state == withdrawalAdded } // since the last request
func (wd *Withdrawal) isUnsentAtClose() bool { return !wd.sentAtClose }

// pick returns those tickets of a group for the next request, in which all are that were added. The caller holds ws.mu.
func (group *withdrawalGroup) pick(goes func(wd *Withdrawal) bool) (batch []sentWithdrawal) {
	for _, wd := range group.all {
		if goes(wd) {
			if wd.state == withdrawalAdded {
				wd.to(withdrawalSent)
			}
			batch = append(batch, sentWithdrawal{wd, *wd})
		}
	}
	group.added = 0
	return batch
}

// send sends one request, or a few if there are many tickets, and records the answers.
func (ws *Withdrawals) send(group *withdrawalGroup, batch []sentWithdrawal) {
	for some := range slices.Chunk(batch, mostWithdrawn) {
		list := make([]*Withdrawal, len(some))
		for i := range some {
			list[i] = &some[i].then
		}
		fate, err := group.by.Withdraw(list)
		ws.answered(group, some, fate, err)
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	group.underWay--
	ws.touch(group)
}

// answered records the answer to a request, or its absence.
func (ws *Withdrawals) answered(group *withdrawalGroup, batch []sentWithdrawal, fate Fate, err error) {
	at := monotonic.Now()
	var over []func()
	givenUp := 0
	ws.mu.Lock()
	group.fate, group.err = fate, err
	denied := fate&FateDenied != 0 && !group.warned
	group.warned = group.warned || denied
	for _, s := range batch {
		wd := s.Withdrawal
		if wd.added != s.then.added {
			continue // it was added once more meanwhile
		}
		if err == nil && wd.state == withdrawalSent {
			wd.until = at.Add(wd.Watch)
			wd.to(withdrawalWatched)
		}
		switch watched := wd.state == withdrawalWatched; {
		case fate&FateClosed != 0, watched && !at.Before(wd.until):
		case !watched && at.After(wd.limit):
			givenUp++
		default:
			continue
		}
		delete(group.all, wd.Number)
		wd.to(withdrawalOver)
		if wd.Over != nil {
			over = append(over, wd.Over)
		}
	}
	ws.mu.Unlock()
	if denied {
		group.by.Denied(err)
	}
	if givenUp > 0 {
		group.by.GivenUp(givenUp, err)
	}
	for _, f := range over {
		f()
	}
}

// end returns what to call for the remaining tickets of a group, whose answers are not awaited any more.
func (group *withdrawalGroup) end() (over []func()) {
	for _, wd := range group.all {
		wd.to(withdrawalOver)
		if wd.Over != nil {
			over = append(over, wd.Over)
		}
	}
	return over
}

// A groupQueue is a heap of groups by the times when they are due.
type groupQueue []*withdrawalGroup

func (q groupQueue) Len() int { return len(q) }

func (q groupQueue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }

func (q groupQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

func (q *groupQueue) Push(x any) {
	group := x.(*withdrawalGroup)
	group.place = len(*q)
	*q = append(*q, group)
}

func (q *groupQueue) Pop() any {
	old := *q
	group := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return group
}
