package protocol

import (
	"fmt"
	"strconv"
	"time"

	"github.com/lockgen/lockgen/scripts"
)

// A Fair is what one client says of one fair lock.
type Fair struct {
	p                                    *Process
	key                                  string
	queue, times, notes, prefix, counter string // Redisson does not know the notes; prefix is the start of its waiters' channels
}

// Fair returns what p says of the fair lock of a key.
func (p *Process) Fair(key string) Fair {
	return Fair{
		p: p, key: key,
		queue: prefixed("redisson_lock_queue", key), times: prefixed("redisson_lock_timeout", key),
		notes: prefixed("lockgen_fair", key), prefix: prefixed(channelPrefix, key), counter: prefixed(counterPrefix, key),
	}
}

func (l *Fair) keys() []string {
	return []string{l.key, l.queue, l.times, l.notes, l.prefix, l.counter}
}

// Channel returns the channel on which Redisson tells one owner, and nobody else, that it is its turn.
func (l *Fair) Channel(owner string) string { return l.prefix + ":" + owner }

// A FairRequest is a request for a fair lock.
type FairRequest struct {
	Owner  string
	Queue  Queueing
	Lease  time.Duration
	Wait   time.Duration // how long its place in the queue lasts, beyond those before it
	Next   time.Duration // how long the place of a Java thread that is next lasts at most while the lock is free
	Hears  bool          // it may be handed the lock by a message
	Tokens int           // how many fencing tokens it wants
}

// Acquire returns a request for the lock, at a time of this machine. [ReadFairAcquire] reads its reply.
func (l *Fair) Acquire(r FairRequest, at time.Time) Command {
	drawn, note := strconv.Itoa(r.Tokens), ""
	if r.Hears {
		note = millis(r.Wait) + " " + millis(min(HandOverLease, r.Lease)) + " " + drawn + " " + l.p.keepTokens
	}
	return Command{scripts.FairAcquire, l.keys(),
		[]string{millis(r.Lease), r.Owner, string(r.Queue), millis(r.Wait), clock(at), l.p.publish, note, drawn, l.p.keepTokens, millis(r.Next)}}
}

// ReadFairAcquire reads the reply to [Fair.Acquire].
func ReadFairAcquire(reply []int64) (v Verdict, err error) {
	if len(reply) != 5 {
		return v, fmt.Errorf("%d values in the reply of five", len(reply))
	}
	const free, unplaced = 1, 2
	v.Free, v.Unplaced = reply[2]&free != 0, reply[2]&unplaced != 0
	if v.Wait = reply[0]; v.Granted() {
		v.Token = reply[1]
		return v, nil
	}
	v.Foreign, v.At = reply[1] == 1, serverTime(reply[3], reply[4])
	return v, nil
}

// FreedForNobody is an outcome of the release of a fair lock: it is free, and it is the turn of one that does not listen.
const FreedForNobody Outcome = 2

// Release returns the release of the lock by its owner, or the end of its place in the queue. after are the tickets of
// owners of the same process that had the lock after it, or with it, and need it no more. It replies an [Outcome].
func (l *Fair) Release(owner string, wait time.Duration, at time.Time, after []Departure) Command {
	args := appendDepartures([]string{owner, millis(wait), clock(at), l.p.publish}, after)
	return Command{scripts.FairRelease, l.keys(), args}
}

// A Departure is the end of a ticket for a fair lock.
type Departure struct {
	Number uint64
	Wait   time.Duration // how long its place in the queue was to last
}

// Leave returns the command that ends tickets of the client, and releases the lock if one of them has it. Without
// tickets it passes on a free lock, and has the owner of another one asked whether it has it. It replies an [Outcome].
func (l *Fair) Leave(tickets []Departure, at time.Time) Command {
	return Command{scripts.FairLeave, l.keys(), appendDepartures([]string{l.p.UUID, clock(at), l.p.publish}, tickets)}
}

// appendDepartures appends tickets to arguments as the scripts read them.
func appendDepartures(args []string, tickets []Departure) []string {
	for _, t := range tickets {
		args = append(args, strconv.FormatUint(t.Number, 10), millis(t.Wait))
	}
	return args
}

// ForceUnlock returns the command that takes the lock from its owner, or from those alone that are named. It replies 1 if it did.
func (l *Fair) ForceUnlock(at time.Time, owners ...string) Command {
	return Command{scripts.FairForceUnlock, l.keys(), append([]string{clock(at), l.p.publish}, owners...)}
}

// FairMarks returns the keys of which one exists at least while a call waits for a fair lock, or has it after it waited.
func FairMarks(key string) []string {
	l := (&Process{}).Fair(key)
	return []string{l.queue, l.notes}
}

// Inspect returns the command that asks for the holder and the waiters of the lock. [ReadInspection] reads its reply.
func (l *Fair) Inspect() Command { return l.p.inspect(l.key, l.queue, l.prefix) }
