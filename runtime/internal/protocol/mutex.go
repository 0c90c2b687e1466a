package protocol

import (
	"strconv"
	"time"

	"github.com/lockgen/lockgen/scripts"
)

// A Ticket is one request for a lock, under an owner that is used for this request and its repetitions alone.
type Ticket struct {
	Number uint64 // of the owner
	Tokens int    // how many fencing tokens it is handed the lock with
}

// position returns the text of a ticket in the wait queue: its owner, and the tokens that it is handed the lock with.
func (p *Process) position(t Ticket) string {
	if t.Tokens == 0 {
		return p.Owner(t.Number)
	}
	return p.Owner(t.Number) + "+" + strconv.Itoa(t.Tokens) + "," + p.keepTokens
}

// Queueing reports whether a request stands in the wait queue if the lock is not free.
type Queueing string

// The values are those that acquire.lua and fair_acquire.lua read.
const (
	NotQueued   Queueing = "0" // it does not
	Queued      Queueing = "1" // it does
	StillQueued Queueing = "2" // it does, and may stand there already
)

// Takes is the batch of requests for locks that nobody else has.
func (p *Process) Takes() Batch { return Batch{Script: scripts.Take, Shares: true} }

// Take appends a request for a lock that neither stands in the wait queue nor draws fencing tokens. [ReadAcquire] reads
// its answer.
func (p *Process) Take(to *Texts, key string, number uint64, lease time.Duration) {
	var b [mostOwner]byte
	to.add(key)
	to.say(to.text(p.appendOwner(b[:0], number)), p.millis(lease))
}

// Acquires is the batch of requests for locks that may stand in the wait queue or draw fencing tokens.
func (p *Process) Acquires() Batch { return Batch{Script: scripts.Acquire} }

// Acquire appends a request for a lock, with as many fencing tokens as tokens says. [ReadAcquire] reads its answer.
func (p *Process) Acquire(to *Texts, key string, t Ticket, q Queueing, tokens int, lease time.Duration) {
	n := mutexNamesOf(key)
	to.add(key, n.waiting, n.counter)
	to.say(p.millis(lease), p.position(t), string(q), strconv.Itoa(tokens), p.keepTokens)
}

// A Verdict is the answer to a request for a lock.
type Verdict struct {
	Wait    int64     // [Granted], or for how many milliseconds another owner has the lock; -1 for ever
	Token   int64     // the first of the fencing tokens, of a grant
	Foreign bool      // the other owner is no client of this library
	At      time.Time // by the clock of the server, of a refusal

	// Of a fair lock:
	Free     bool // it is free and another owner's turn, which may come for it for Wait more milliseconds
	Unplaced bool // the owner should have stood in the queue, and did not
}

// Granted reports whether the lock was granted.
func (v Verdict) Granted() bool { return v.Wait == Granted }

// ReadAcquire reads the answer to [Process.Take] and [Process.Acquire].
func ReadAcquire(a Answer) Verdict {
	if a[0] == Granted {
		return Verdict{Wait: Granted, Token: a[1]}
	}
	return Verdict{Wait: a[0], Foreign: a[1] == 1, At: serverTime(a[2], a[3])}
}

// Frees is the batch of releases of locks that nobody of this library waits for.
func (p *Process) Frees() Batch {
	return Batch{Script: scripts.Free, Common: []string{unlocked, p.publish}, Channel: true}
}

// Free appends the release of a lock for which nobody is known to wait. [ReadRelease] reads its answer, which is
// [Contended] if that is not so.
func (p *Process) Free(to *Texts, key string, number uint64) {
	var b [mostOwner]byte
	waiting, owner := waitingIn(to, key, p.appendOwner(b[:0], number))
	to.add(key)
	to.behind = append(to.behind, waiting)
	to.say(owner)
}

// Releases is the batch of releases of locks that others may wait for.
func (p *Process) Releases() Batch {
	return Batch{Script: scripts.Release, Common: []string{unlocked, p.publish, millis(HandOverLease)}}
}

// A Release is the release of a lock, or the end of a ticket that waits for it.
type Release struct {
	Of    Ticket
	Start time.Duration // for how long Redisson's waiters, if any listen, have the lock to themselves; 0 if it is not their turn
	Again Ticket        // by which the same process wants the lock once more; number 0 for none
	Lease time.Duration // of Again
}

// Release appends a release. [ReadRelease] reads its answer.
func (p *Process) Release(to *Texts, key string, r Release) {
	again, lease := "", "0"
	if r.Again.Number != 0 {
		again, lease = p.position(r.Again), p.millis(r.Lease)
	}
	n := mutexNamesOf(key)
	to.add(key, n.waiting, n.channel, n.counter)
	to.say(p.position(r.Of), again, lease, millis(r.Start))
}

// An Outcome is what a release did.
type Outcome int64

// The values are those of the replies of the scripts.
const (
	NotOurs   Outcome = -1 // nothing: the lock was not the owner's
	Freed     Outcome = 0  // the lock is free
	PassedOn  Outcome = 1  // another process has the lock
	Kept      Outcome = 2  // the ticket that was to follow has the lock
	Contended Outcome = 3  // nothing: somebody stands in the wait queue, and this script does not serve it
)

// A Released is the answer to a release.
type Released struct {
	Outcome   Outcome
	Listeners int64 // of a lock that is free: how many clients have subscribed to Redisson's channel

	// Of a release with a ticket that follows:
	At    time.Time // by the clock of the server
	Token int64     // the first of the fencing tokens of that ticket, if it has the lock and wants some
}

// ReadRelease reads the answer to [Process.Free] and [Process.Release].
func ReadRelease(a Answer) Released {
	done := Released{Outcome: Outcome(a[0]), At: serverTime(a[1], a[2])}
	if done.Outcome == Freed {
		done.Listeners = a[3]
	} else {
		done.Token = a[3]
	}
	return done
}

// ForceUnlock returns the command that takes a lock from its owner, or from those alone that are named. It replies 1 if it did.
func (p *Process) ForceUnlock(key string, owners ...string) Command {
	n := mutexNamesOf(key)
	args := append([]string{unlocked, p.publish, millis(HandOverLease)}, owners...)
	return Command{scripts.ForceUnlock, []string{key, n.waiting, n.channel, n.counter}, args}
}

// RaiseToken returns the command that makes the next fencing token of a lock larger than one of another server.
func (p *Process) RaiseToken(key string, token int64) Command {
	return Command{scripts.Raise, []string{prefixed(counterPrefix, key)}, []string{strconv.FormatInt(token, 10), p.keepTokens}}
}
