package trace

import "sync/atomic"

// The steps of a call of a MultiLock, in the words of spec/MultiLock.tla, and of the leases that it gets.
const (
	Begins Action = "Begin"   // the call begins, with nothing
	Tries  Action = "Try"     // it asks for several members at once, and joins no wait queue
	Has    Action = "Has"     // it has a member, and did not before
	Turned Action = "Refused" // it does not get the member that it asked for
	Stands Action = "Stand"   // it waits for a member
	Yields Action = "Yield"   // it gives back what it has, and waits for the same member alone
	Takes  Action = "Take"    // it has all members, and returns a lease
	Ends   Action = "End"     // it gives back what it has, to fail or to begin again
	Over   Action = "Over"    // a lease has ended, of any lock
)

// The steps of a round of a RedLock, in the words of spec/RedLock.tla; and [Begins], [Asks], [Has], [Turned] and [Ends]. The lease of a round
// goes on under the number of the round when it passes to another call of the process.
const (
	Elected   Action = "Elected"  // a majority of the servers has granted its parts
	Wins      Action = "Win"      // the parts are the lease
	AsksAgain Action = "AskAgain" // a server without a part in the lease is asked
	Admits    Action = "Admit"    // a part joins the lease
	Frees     Action = "Free"     // the lease is unlocked: it passes to another call, or ends
	Passes    Action = "Pass"     // the grant of a part passes to the lease of another call
)

// A Whole is one event of a call of a MultiLock, or of a round of a RedLock.
type Whole struct {
	Action  Action
	Call    uint64   // which no other call of this operating system process has; 0 of Over
	Client  string   // the UUID of the first client; empty of Over
	Members []string // of Begins: their keys, in the order in which they are locked
	Member  int      // of Tries, Has, Turned, Stands and Yields: the member, or the first of them, by its index; or the server of a RedLock
	Many    int      // of Tries: of how many
	Owner   string   // of Has: the owner in Redis of a mutex; else empty
	Token   int64    // of Wins, and of Has if it is a part: the fencing token, or 0
	Lease   any      // of Has, Takes and Over: identifies the lease
	Freed   bool     // of Over: it was released; else it was lost, or its client is closed
}

// A WholeFunc gets each event of the calls and the leases of a client. It is called under locks, must not block, and must not call the Client.
type WholeFunc func(Whole)

var (
	wholes atomic.Pointer[WholeFunc]
	calls  atomic.Uint64
)

// WholesTo makes the clients that are made from now on call f, until stop is called.
func WholesTo(f WholeFunc) (stop func()) {
	wholes.Store(&f)
	return func() { wholes.CompareAndSwap(&f, nil) }
}

// PresentWholes returns the function for a new client, or nil.
func PresentWholes() WholeFunc {
	if f := wholes.Load(); f != nil {
		return *f
	}
	return nil
}

// A Caller reports the events of one call. A nil Caller reports nothing.
type Caller struct {
	to     WholeFunc
	call   uint64
	client string
	first  int // the member that the call asks for, or the first of them
}

// NewCaller returns what reports to f the events of a call by a client; nil if f is nil.
func NewCaller(f WholeFunc, client string) *Caller {
	if f == nil {
		return nil
	}
	return &Caller{to: f, call: calls.Add(1), client: client}
}

func (c *Caller) says(w Whole) {
	w.Call, w.Client = c.call, c.client
	c.to(w)
}

// Says reports an event of the call as a whole.
func (c *Caller) Says(a Action) {
	if c != nil {
		c.says(Whole{Action: a})
	}
}

// Begins reports the members.
func (c *Caller) Begins(members []string) {
	if c != nil {
		c.says(Whole{Action: Begins, Members: members})
	}
}

// Asks reports that the call asks for one member or, if a is [Tries], for many from that one on.
func (c *Caller) Asks(a Action, member, many int) {
	if c != nil {
		c.first = member
		c.says(Whole{Action: a, Member: member, Many: many})
	}
}

// Gets reports a lease of the member behind the first one that the call asked for, by i.
func (c *Caller) Gets(i int, owner string, lease any) {
	if c != nil {
		c.says(Whole{Action: Has, Member: c.first + i, Owner: owner, Lease: lease})
	}
}

// Turned reports that the call does not get such a member.
func (c *Caller) Turned(i int) {
	if c != nil {
		c.says(Whole{Action: Turned, Member: c.first + i})
	}
}

// Takes reports the lease of the whole.
func (c *Caller) Takes(lease any) {
	if c != nil {
		c.says(Whole{Action: Takes, Lease: lease})
	}
}

// A Part is the lease of a part of a RedLock, with its owner in Redis and its fencing token.
type Part struct {
	Owner string
	Token int64
	Lease any
}

// Part reports a step about a part, if there is one, at a server.
func (c *Caller) Part(a Action, server int, part *Part) {
	switch {
	case c == nil:
	case part != nil:
		c.says(Whole{Action: a, Member: server, Owner: part.Owner, Token: part.Token, Lease: part.Lease})
	default:
		c.says(Whole{Action: a, Member: server})
	}
}

// Wins reports that the parts are the lease, with its fencing token.
func (c *Caller) Wins(token int64) {
	if c != nil {
		c.says(Whole{Action: Wins, Token: token})
	}
}
