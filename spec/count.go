package spec

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A Count is a semaphore or a latch: how much there is of it. No module has it; the rule is that of the scripts that count. A Count is
// immutable.
type Count struct {
	Is    bool             // there is one
	N     int64            // permits that are left, or the count of a latch
	Taken map[string]int64 // permits that expire, by their ids: when, by the clock of the server, in ms
}

// A CountSaid is an event of a trace of a semaphore or a latch: what a server did for whom. The actions are:
//
//	Take     a Semaphore: the waiters of a process want so many each
//	Give     a Semaphore: so many come back
//	Acquire  a PermitSemaphore: the waiters of a process want permits with these ids
//	Release  a PermitSemaphore: of permits
//	Renew    a PermitSemaphore: of permits, each of which has to be there
//	Lease    a PermitSemaphore: how long one permit lasts, or from now on lasts
//	Look     a PermitSemaphore: how many permits are left
//	Total    a PermitSemaphore: how many permits there are in all from now on
//	Create   a semaphore of either kind, unless there is one
//	Drain    a Semaphore: all permits that are left
//	Start    a CountDownLatch, unless it is running
//	Down     a CountDownLatch
//	Read     a CountDownLatch
//	Delete   a CountDownLatch
//	Fault    the server has another state for a reason that is not of the protocol
type CountSaid struct {
	At        time.Duration // since the trace began
	Action    string
	Request   Request    // of all but Renew, Lease, Look and Read, and of a Release only if that has one
	Make      int64      // of Take, Acquire, Look and Create: the permits of a new semaphore; of Start: the count; of Total: the permits
	Wants     []Want     // of Take, Acquire, Release, Renew and Lease
	Give      int64      // of Give
	Only      bool       // of Give: if there is a semaphore; of Release: all of them or none
	Had       bool       // of Give: the reply is whether there was a semaphore
	Leave     bool       // of Release: it creates no semaphore
	Clock     int64      // of the server, in ms
	Found     bool       // the server has answered the request before
	Reply     []int64    // as far as it is known
	Published []string   // the published messages, in order
	Srv       *CountSeen // the state of the server after it; nil if it is unknown
}

// CountSeen is a semaphore or a latch as a server has it.
type CountSeen = Count

// A Request is one of a process, whose result the server keeps.
type Request struct {
	Process string // "" if it is none
	Number  int64
	Floor   int64 // the process needs no results below it any more
	Again   bool  // it was sent before: its result is kept, whatever it is
	Keep    time.Duration
}

// A Want is what a waiter is to get, or what is renewed or released.
type Want struct {
	N   int64
	IDs []string
	TTL int64 // in ms; of Lease: 0 to leave it, Endless for ever
}

// Endless is the duration of a permit that does not expire, and never is when that is.
const (
	Endless = -1
	never   = 922337203685477
)

// A CountCheck replays the trace of one semaphore or latch, event by event, while it happens: how much there is of it, what is granted to
// whom in which order and for how long, what is published, and that a request that comes twice counts once. Semaphores with a time to live
// are not replayed.
type CountCheck struct {
	s       Count
	at      time.Duration
	results map[resultOf][]int64
	sure    map[resultOf]time.Duration // of those that the server must know: until when
	vague   map[resultOf]bool          // of requests that were disturbed
	floors  map[string]int64
	said    []CountSaid
}

type resultOf struct {
	process string
	number  int64
}

// GivenUp is the reply to a request that its process has given up.
const GivenUp = -9

// NewCountCheck returns a check of a trace.
func NewCountCheck() *CountCheck {
	return &CountCheck{results: map[resultOf][]int64{}, sure: map[resultOf]time.Duration{}, vague: map[resultOf]bool{}, floors: map[string]int64{}}
}

// Say replays the next event. It fails if that is none of the protocol.
func (c *CountCheck) Say(e CountSaid) error {
	c.at = max(c.at, e.At)
	if c.said = append(c.said, e); len(c.said) > mostSaid {
		c.said = c.said[1:]
	}
	id := resultOf{e.Request.Process, e.Request.Number}
	if e.Action == "Fault" {
		clear(c.sure)
		c.vague[id] = true
		c.floors[id.process] = max(c.floors[id.process], e.Request.Floor)
		if e.Srv != nil {
			c.s = *e.Srv
		}
		return nil
	}
	if why := c.step(e); why != "" {
		return rejected(c.said, []string{why}, c.s)
	}
	return nil
}

// step replays e, and returns why it is none of the steps.
func (c *CountCheck) step(e CountSaid) (why string) {
	if e.Found {
		if why := c.found(e); why != "" {
			return why
		}
		return c.agree(c.s, e)
	}
	id := resultOf{e.Request.Process, e.Request.Number}
	if until, must := c.sure[id]; must && c.at < until {
		return fmt.Sprintf("the request was done before, with the result %d", c.results[id])
	}
	r := countRun{Count: c.s, now: e.Clock}
	r.Taken = maps.Clone(r.Taken)
	reply, noted := r.do(e)
	switch {
	case reply == nil:
		return "there is no such action"
	case len(e.Reply) > len(reply) || !slices.Equal(reply[:len(e.Reply)], e.Reply):
		return fmt.Sprintf("the reply may be %d", reply)
	case !slices.Equal(r.published, e.Published):
		return fmt.Sprintf("what is published may be %q", r.published)
	}
	if e.Request.Process != "" && noted {
		c.floors[id.process] = max(c.floors[id.process], e.Request.Floor)
		c.results[id] = append(c.results[id], reply[0])
		c.sure[id] = c.at + e.Request.Keep
	}
	return c.agree(r.Count, e)
}

// found returns what is wrong with the answer to a request that the server says that it has answered before.
func (c *CountCheck) found(e CountSaid) (why string) {
	id := resultOf{e.Request.Process, e.Request.Number}
	switch {
	case id.process == "":
		return "it was no request"
	case len(e.Published) > 0:
		return "what is published may be nothing"
	case len(e.Reply) == 0:
		if _, answered := c.results[id]; !answered && !c.vague[id] && id.number >= c.floors[id.process] {
			return "it was not answered"
		}
	case e.Reply[0] == GivenUp && id.number >= c.floors[id.process]:
		return "it was not given up"
	case e.Reply[0] != GivenUp && !c.vague[id] && !slices.Contains(c.results[id], e.Reply[0]):
		return fmt.Sprintf("its results were %d", c.results[id])
	}
	return ""
}

// agree compares a state with what was seen.
func (c *CountCheck) agree(s Count, e CountSaid) (why string) {
	if e.Srv != nil && (s.Is != e.Srv.Is || s.N != e.Srv.N || !maps.Equal(s.Taken, e.Srv.Taken)) {
		return "it may be " + s.String()
	}
	c.s = s
	return ""
}

func (s Count) String() string {
	if !s.Is {
		return "none"
	}
	var all []string
	for _, id := range slices.SortedFunc(maps.Keys(s.Taken), func(a, b string) int { return cmp.Or(cmp.Compare(s.Taken[a], s.Taken[b]), cmp.Compare(a, b)) }) {
		all = append(all, fmt.Sprintf("%x until %d", id, s.Taken[id]))
	}
	return fmt.Sprintf("%d, taken [%s]", s.N, strings.Join(all, ", "))
}

func (e CountSaid) String() string {
	s := fmt.Sprintf("%v %s at %d", e.At, e.Action, e.Clock)
	if e.Request.Process != "" {
		s += fmt.Sprintf(" of %s:%d from %d on, again %v, known %v", e.Request.Process, e.Request.Number, e.Request.Floor, e.Request.Again, e.Found)
	}
	for _, w := range e.Wants {
		s += fmt.Sprintf(", %d and %x for %d ms", w.N, w.IDs, w.TTL)
	}
	s += fmt.Sprintf(", replied %d and published %q", e.Reply, e.Published)
	if e.Srv != nil {
		s += fmt.Sprintf(", %v", *e.Srv)
	}
	return s
}
