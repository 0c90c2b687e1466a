package policy

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/resource"
)

// Redisson's waiters get the message of a release at the same time as those of this library, but their way to the next
// request is longer. Each time that they are too slow for their start, the next one is twice as long.
const (
	firstStart   = 5 * time.Millisecond
	longestStart = 50 * time.Millisecond
)

// Redisson's waiters have their start once in two hand-overs between processes of this library. Where they use it, few
// goroutines of a process hold the lock in a row, so that Redisson's waiters have a fifth of all turns, or more. A process
// does not see each of their turns: it believes for a few tickets more that they want the lock.
const (
	CohortBesideJava = 16
	JavaTickets      = 64
)

// InheritJava has tk believe what the ticket before it believed of Redisson's waiters, for one ticket less.
func (*Mutex) InheritJava(tk, before *resource.Ticket) { tk.Java = max(before.Java, 1) - 1 }

// StartAfter returns the start after one for which Redisson's waiters were too slow, or after 0; turn says that it is their
// turn. They have every other turn, and one after each start for which they were too slow, until they had the longest.
func StartAfter(start time.Duration, turn bool) time.Duration {
	switch {
	case 0 < start && start < longestStart:
		return min(2*start, longestStart)
	case turn:
		return firstStart
	}
	return 0
}

// refusedByJava records whether one of Redisson's waiters was the reason for a refusal of tk.
func (r *Mutex) refusedByJava(tk *resource.Ticket, foreign bool, sent time.Time) {
	r.Client.Starts.Refused(r.Key, foreign, sent)
	if foreign {
		tk.Java = JavaTickets
		if tk.Extra != nil {
			tk.Extra.Start = 0
		}
	}
}

// Soon records the start of Redisson's waiters, after which tk asks; a longer time is that of the waiter before it, which was granted
// the lock.
func (r *Mutex) Soon(tk *resource.Ticket, d time.Duration) time.Duration {
	if d <= longestStart {
		tk.More().Start = d
	}
	return d
}

// NoteRelease records what op leaves to Redisson's waiters, if the key is free for calls that ask.
func (r *Mutex) NoteRelease(op *resource.ReleaseOp, done protocol.Released) {
	switch {
	case done.Outcome != protocol.Freed || op.Again != nil:
	case done.Listeners == 0:
		r.Client.Starts.Forget(r.Key)
	default:
		r.noteStart(op, done.Listeners)
	}
}

// noteStart records the start of Redisson's waiters after op, when so many clients listened on their channel. Unless it was their turn
// after a hand-over, every other such release is theirs, and fewer are if they use none.
func (r *Mutex) noteStart(op *resource.ReleaseOp, listeners int64) {
	starts := &r.Client.Starts
	_, own := r.Client.Net.Heard(r.Channel(nil)) // a subscription stays for a moment after the wait
	last, _ := starts.Last(r.Key)
	switch start := op.Start; {
	case listeners <= own:
		starts.Forget(r.Key)
	case start > 0:
		starts.Begin(r.Key, start, op.Heard+uint64(own))
	default:
		starts.Begin(r.Key, StartAfter(last, starts.Due(r.Key)), op.Heard+uint64(own))
	}
}

// StartFor returns for how long the request of w has to wait, since Redisson's waiters have the key to themselves, and whether one of them
// has had it of late. The request does not wait if a call that tries once needs the answer: that call would learn nothing about what is
// now.
func (r *Mutex) StartFor(w *resource.Waiter) (start time.Duration, foreign bool) {
	starts := &r.Client.Starts
	if w.Once() || starts.Left(r.Key) == 0 || r.awaited() {
		return 0, false
	}
	messages, _ := r.Client.Net.Heard(r.Channel(nil))
	starts.Heard(r.Key, messages)
	return starts.Left(r.Key), starts.Foreign(r.Key, core.Now())
}

// awaited reports whether a call waits for the next answer: one that tries once, or one whose wait is over.
func (r *Mutex) awaited() bool {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return r.Awaited()
}
