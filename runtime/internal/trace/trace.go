// Package trace lets a Client report its steps of the protocol, one after the other, in the words of spec/Mutex.tla.
// Tests replay them against the specification. Without a test it costs a comparison with nil.
package trace

import (
	"fmt"
	"sync/atomic"
	"time"
)

// An Action is what a process does or learns, by the name of the module where that has one.
type Action string

// The steps of a process about a ticket for a key, which it names by its owner.
const (
	Asks      Action = "Asks"      // it begins, or asks again: the module's Begin and Again
	Joins     Action = "Joins"     // it asks by the request that gives the ticket before it back
	Sent      Action = "Sent"      // a request that waited for others is on its way now
	SentAgain Action = "SentAgain" // it has no answer for a while, and goes over another connection, too
	Unknown   Action = "Unknown"   // a request has no answer, or one that nothing is made of
	Refused   Action = "Refused"   // somebody else has the key
	Granted   Action = "Granted"   // a request is answered with the key
	Handed    Action = "Handed"    // another process has passed the key on to it
	Settled   Action = "Settled"   // it was handed over before its request was answered, which it is now
	Renews    Action = "Renew"     // it is to be renewed, or looked at
	Prolongs  Action = "Prolongs"  // likewise, by a holder, who may release it meanwhile
	Renewed   Action = "Renewed"   // it is renewed
	Lost      Action = "Lost"      // the server has it no more
	RunsOut   Action = "RunOut"    // it is trusted no more
	Unlocks   Action = "Unlock"    // nobody has it any more
	GivesUp   Action = "GiveUp"    // nobody wants it any more
	GivesBack Action = "GiveBack"  // it is released to the server
)

// A Step is one event of a Client.
type Step struct {
	Action Action
	Key    string
	Owner  string        // as Redis has it
	Line   int           // of Asks and SentAgain, how it asks: 0 to stand in no line, 1 to stand in it, 2 when it may stand there already
	Trust  time.Duration // of Granted, Handed and Renewed: for how long from now, the margin not taken off
	Token  int64         // of Granted and Handed: the first of its fencing tokens, or 0 if it has none
	At     time.Time
}

// A Func gets each step. It is called under locks, must not block, and must not call the Client.
type Func func(Step)

var present atomic.Pointer[Func]

// To makes the clients that are made from now on call f, until stop is called.
func To(f Func) (stop func()) {
	present.Store(&f)
	return func() { present.CompareAndSwap(&f, nil) }
}

// Present returns the function for a new client, or nil.
func Present() Func {
	if f := present.Load(); f != nil {
		return *f
	}
	return nil
}

// A Watch gets each move of a machine, "ticket" or "grant", from one of its states to another. It is called under locks, and must not block.
type Watch func(machine, from, to string)

var watching atomic.Pointer[Watch]

// Watched has f get the moves of all clients of the process, until stop is called.
func Watched(f Watch) (stop func()) {
	watching.Store(&f)
	return func() { watching.CompareAndSwap(&f, nil) }
}

// Moves says that a machine goes from one of its states to another.
func Moves(machine string, from, to fmt.Stringer) {
	if f := watching.Load(); f != nil {
		(*f)(machine, from.String(), to.String())
	}
}
