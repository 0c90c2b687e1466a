package locks

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
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
	cohortBesideJava = 16
	javasTickets     = 64
)

// follows makes tk believe what the ticket before it did, for one ticket less.
func (*resource) follows(tk, before *ticket) { tk.java = max(before.java, 1) - 1 }

// startAfter returns the start after one for which Redisson's waiters were too slow, or after 0; turn says that it is their
// turn. They have every other turn, and one after each start for which they were too slow, until they had the longest.
func startAfter(start time.Duration, turn bool) time.Duration {
	switch {
	case 0 < start && start < longestStart:
		return min(2*start, longestStart)
	case turn:
		return firstStart
	}
	return 0
}

// refusedByJava records whether one of Redisson's waiters was the reason for a refusal of tk.
func (r *resource) refusedByJava(tk *ticket, foreign bool, sent time.Time) {
	r.c.starts.Refused(r.key, foreign, sent)
	if foreign {
		tk.java = javasTickets
		if tk.extra != nil {
			tk.extra.start = 0
		}
	}
}

// soon records the start of Redisson's waiters, after which tk asks; a longer time is that of the waiter before it, which was granted
// the lock.
func (r *resource) soon(tk *ticket, d time.Duration) time.Duration {
	if d <= longestStart {
		tk.more().start = d
	}
	return d
}

// leaves records what op leaves to Redisson's waiters, if the key is free for calls that ask.
func (r *resource) leaves(op *releaseOp, done protocol.Released) {
	switch {
	case done.Outcome != protocol.Freed || op.again != nil:
	case done.Listeners == 0:
		r.c.starts.Forget(r.key)
	default:
		r.leavesToJava(op, done.Listeners)
	}
}

// leavesToJava records the start of Redisson's waiters after op, when so many clients listened on their channel. Unless it was
// their turn after a hand-over, every other such release is theirs, and fewer are if they use none.
func (r *resource) leavesToJava(op *releaseOp, listeners int64) {
	starts := &r.c.starts
	_, own := r.c.net.Heard(r.channel(nil)) // a subscription stays for a moment after the wait
	last, _ := starts.Last(r.key)
	switch start := op.start; {
	case listeners <= own:
		starts.Forget(r.key)
	case start > 0:
		starts.Begin(r.key, start, op.heard+uint64(own))
	default:
		starts.Begin(r.key, startAfter(last, starts.Due(r.key)), op.heard+uint64(own))
	}
}

// startFor returns for how long the request of w has to wait, since Redisson's waiters have the key to themselves, and whether one of
// them has had it of late. It does
// not wait if a call that tries once needs the answer: that call would learn nothing about what is now.
func (r *resource) startFor(w *waiter) (start time.Duration, foreign bool) {
	starts := &r.c.starts
	if w.Once() || starts.Left(r.key) == 0 || r.awaited() {
		return 0, false
	}
	messages, _ := r.c.net.Heard(r.channel(nil))
	starts.Heard(r.key, messages)
	return starts.Left(r.key), starts.Foreign(r.key, now())
}

// awaited reports whether a call waits for the next answer: one that tries once, or one whose wait is over.
func (r *resource) awaited() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Awaited()
}
