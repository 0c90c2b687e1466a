package protocol

import (
	"strconv"
	"time"

	"github.com/lockgen/lockgen/scripts"
)

// A PermitSemaphore is what one client says of one semaphore whose permits expire. Add and Create are those of a
// [Semaphore].
type PermitSemaphore struct{ Semaphore }

// PermitSemaphore returns what p says of the semaphore of a key whose permits expire.
func (p *Process) PermitSemaphore(key string) PermitSemaphore {
	s := p.counting(key, countsLeases)
	s.leases = PermitLeases(key)
	return PermitSemaphore{s}
}

func (s *PermitSemaphore) keys() []string { return []string{s.key, s.channel, s.leases} }

// MostPermits is how many permits a call can have, and one request of several calls. Each has an id, which the process stores and sends, and for which a
// script of Redis needs microseconds: they are bounded, so that no call fills the memory, and no request stops the server.
const MostPermits = 10_000

// A Permits is what one waiter wants: permits under ids of 16 bytes each, one behind the other.
type Permits struct {
	IDs   string
	Lease time.Duration
}

// AcquirePermits returns the request for permits, as [Semaphore.Acquire] does. [ReadPermits] reads its reply.
func (s *PermitSemaphore) AcquirePermits(r Round, wants []Permits) Command {
	args := r.args(s.p, 2*len(wants))
	for _, w := range wants {
		args = append(args, w.IDs, millis(w.Lease))
	}
	return Command{scripts.PermitAcquire, s.counts(), args}
}

// A PermitVerdict is the answer to a request for permits.
type PermitVerdict struct {
	Served int64         // for how many waiters there were enough, or [Outdated]
	Next   time.Duration // when the next permit expires; negative if none does
	Lasts  time.Duration // the semaphore, and all permits with it; negative for ever
}

// ended is the time to live of a semaphore that has ended.
const ended = -2

// ReadPermits reads the reply to [PermitSemaphore.AcquirePermits].
func ReadPermits(reply []int64) (PermitVerdict, error) {
	if err := short(scripts.PermitAcquire, reply, 3); err != nil {
		return PermitVerdict{}, err
	}
	verdict := PermitVerdict{Served: reply[0], Next: Milliseconds(reply[1])}
	if lasts := reply[2]; lasts != ended {
		verdict.Lasts = Milliseconds(lasts)
	}
	return verdict, nil
}

// Release returns the command that releases permits by their ids. It replies how many had not expired. missing is [CreateMissing] or
// [LeaveMissing].
func (s *PermitSemaphore) Release(ids string, missing Missing) Command {
	return Command{scripts.PermitRelease, s.keys(), []string{ids, s.p.publish, "0", string(missing)}}
}

// ReleaseAll returns the request that releases permits if none of them has expired, and else releases none. It replies
// how many it released, or [Outdated].
func (s *PermitSemaphore) ReleaseAll(r Request, ids string, missing Missing) Command {
	return Command{scripts.PermitRelease, append(s.keys(), s.requests), append([]string{ids, s.p.publish, "1", string(missing)}, r.args()...)}
}

// SetTotal returns the request that sets how many permits there are in all, taken or not. It replies how many are free, or [Outdated].
func (s *PermitSemaphore) SetTotal(r Request, n int) Command {
	return Command{scripts.PermitSet, append(s.keys(), s.requests), r.args(strconv.Itoa(n), s.p.publish)}
}

// NoPermit is for how long a permit lasts that does not exist.
const NoPermit = -2

// Lease returns the command that asks how long a permit lasts. [ReadPermitLease] reads its reply.
func (s *PermitSemaphore) Lease(id string) Command { return s.lease(id, "") }

// SetLease returns the command that has a permit end after d, or never if d is negative. [ReadPermitLease] reads its reply.
func (s *PermitSemaphore) SetLease(id string, d time.Duration) Command {
	if d < 0 {
		return s.lease(id, "-1")
	}
	return s.lease(id, millis(d))
}

func (s *PermitSemaphore) lease(id, ms string) Command {
	return Command{scripts.PermitLease, s.keys(), []string{id, s.p.publish, ms}}
}

// ReadPermitLease reads how long a permit lasts, in milliseconds, -1 for ever, or [NoPermit], and how long the semaphore lasts, and all its permits
// with it: negative for ever.
func ReadPermitLease(reply []int64) (left int64, lasts time.Duration, err error) {
	if err := short(scripts.PermitLease, reply, 2); err != nil {
		return 0, 0, err
	}
	return reply[0], Milliseconds(reply[1]), nil
}

// Count returns the command that asks how many permits are available and how many are taken. initial is how many a semaphore has in
// all that does not exist. [ReadPermitCount] reads its reply.
func (s *PermitSemaphore) Count(initial int) Command {
	return Command{scripts.PermitCount, s.keys(), []string{s.p.publish, strconv.Itoa(initial)}}
}

// ReadPermitCount reads the reply to [PermitSemaphore.Count].
func ReadPermitCount(reply []int64) (available, taken int, err error) {
	if err := short(scripts.PermitCount, reply, 2); err != nil {
		return 0, 0, err
	}
	return int(reply[0]), int(reply[1]), nil
}
