package protocol

import (
	"strconv"
	"strings"
	"time"
)

// Java parses a message that Redisson publishes on the channel of a lock at its release as an integer. A text that Java
// reads as the same number and that begins with a 0 is for Redisson alone.
const (
	unlocked      = "0"            // a lock was released
	leftToJava    = unlocked + "0" // likewise, and it is the turn of Redisson's waiters; or readers have gone
	writeUnlocked = unlocked + "1" // a writer has gone
	latchOpen     = "0"            // a latch has reached zero
	latchClosed   = "1"            // a latch was set, or deleted
)

// ForRedisson reports whether a message on the channel of a lock is for Redisson's waiters alone. Waiters of this library
// receive messages on channels of their own.
func ForRedisson(payload string) bool { return payload == leftToJava || payload == writeUnlocked }

// OpensLatch reports whether a message on the channel of a latch says that it has reached zero.
func OpensLatch(payload string) bool { return payload == latchOpen }

// ClosesLatch reports whether a message on the channel of a latch says that it was set or deleted.
func ClosesLatch(payload string) bool { return payload == latchClosed }

// A MessageKind is the first word of a message to a client.
type MessageKind string

// The kinds of messages; handover.lua describes them.
const (
	MessageGranted MessageKind = "granted" // the owner has the lock
	MessageLook    MessageKind = "look"    // the lock may be free: ask
	MessageSoon    MessageKind = "soon"    // ask later
	MessageWanted  MessageKind = "wanted"  // somebody waits for what the owner has
	MessageTaken   MessageKind = "taken"   // the lock was taken from the owner by force
)

// The kinds of locks that a message can be about.
const (
	AboutLock = "lock"
	AboutFair = "fair"
	AboutRW   = "rw"
)

// A Message is what the server tells a client about one of its owners.
type Message struct {
	Kind   MessageKind
	Number uint64 // of the owner

	Lock, Key string // the kind of the lock and its key; empty if the message does not say them

	// Of MessageGranted. Granted is the zero time if the message does not say it.
	Granted time.Time // by the clock of the server
	Others  bool      // more processes wait
	Token   int64     // the first of the fencing tokens that came with the lock, or 0
	Behind  []uint64  // the numbers of owners of this client that have the lock next

	// Of MessageSoon, and if After is set.
	After time.Duration
	Timed bool // the message says After
}

// ParseMessage reads a message to a client, and reports whether it names an owner.
func ParseMessage(payload string) (m Message, ok bool) {
	said, about, _ := strings.Cut(payload, " of ")
	words := strings.Fields(said)
	if len(words) < 2 {
		return Message{}, false
	}
	number, err := strconv.ParseUint(words[1], 10, 64)
	if err != nil {
		return Message{}, false
	}
	m = Message{Kind: MessageKind(words[0]), Number: number}
	if lock, key, named := strings.Cut(about, " "); named {
		m.Lock, m.Key = lock, key
	}
	integer := func(i int) (int64, bool) {
		if i >= len(words) {
			return 0, false
		}
		n, err := strconv.ParseInt(words[i], 10, 64)
		return n, err == nil
	}
	switch m.Kind {
	case MessageGranted:
		if at, ok := integer(2); ok {
			m.Granted = time.UnixMicro(at)
		}
		others, _ := integer(3)
		m.Others = others > 0
		m.Token, _ = integer(4)
		for i := 5; i < len(words); i++ {
			if n, ok := integer(i); ok {
				m.Behind = append(m.Behind, uint64(n))
			}
		}
	case MessageSoon:
		var ms int64
		ms, m.Timed = integer(2)
		m.After = Milliseconds(ms)
	}
	return m, true
}
