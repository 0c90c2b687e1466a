package protocol

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/lockgen/lockgen/scripts"
)

// The kinds of keys that count, as they stand in the names of keys.
const (
	countsPermits = "semaphore"
	countsLeases  = "permit"
	countsLatch   = "latch"
)

// A Request is a request that counts. Redis keeps its result under its number until the client needs it no more, so that it
// counts once however often it is sent.
type Request struct {
	Number uint64
	Oldest uint64        // the number below which the client needs no results
	Keep   time.Duration // for how long Redis keeps the result
}

func (r Request) args(more ...string) []string {
	return append([]string{strconv.FormatUint(r.Number, 10), strconv.FormatUint(r.Oldest, 10), millis(r.Keep)}, more...)
}

// Outdated is the reply to a request that the client gave up before. A client that numbers its requests never gets it.
const Outdated = -9

// ErrOutdated is what Outdated means.
var ErrOutdated = errors.New("redis says that this request was given up")

// A Semaphore is what one client says of one semaphore, of either kind.
type Semaphore struct {
	p                      *Process
	key, channel, requests string
	leases                 string // the sorted set of the permits that are taken, if they expire; or ""
}

// Semaphore returns what p says of the semaphore of a key.
func (p *Process) Semaphore(key string) Semaphore { return p.counting(key, countsPermits) }

func (p *Process) counting(key, kind string) Semaphore {
	return Semaphore{p: p, key: key, channel: CountChannel(key), requests: p.requests(key, kind)}
}

// counts returns the keys of a numbered request.
func (s *Semaphore) counts() []string {
	keys := []string{s.key, s.channel, s.requests}
	if s.leases != "" {
		keys = append(keys, s.leases)
	}
	return keys
}

// A Round is one request for the permits of several waiters of this process.
type Round struct {
	Request
	Again  bool // it was sent before
	Create int  // how many permits a semaphore is created with if it does not exist; 0 not to create it
}

// againAt is where the arguments of a round say whether it was sent before.
const againAt = 3

// SentAgain returns a command of a Round, to be sent once more.
func SentAgain(cmd Command) Command {
	cmd.Args = slices.Clone(cmd.Args)
	cmd.Args[againAt] = flag(true)
	return cmd
}

func (r Round) args(p *Process, more int) []string {
	args := make([]string, 0, 6+more)
	return append(append(args, r.Request.args()...), flag(r.Again), strconv.Itoa(r.Create), p.publish)
}

// Acquire returns the request for permits: so many for each waiter, in their order. Without waiters the round is given
// up: what it took stays taken, and it takes nothing any more. It replies for how many waiters there were enough, or
// [Outdated].
func (s *Semaphore) Acquire(r Round, wants []int) Command {
	args := r.args(s.p, len(wants))
	for _, n := range wants {
		args = append(args, strconv.Itoa(n))
	}
	return Command{scripts.SemaphoreAcquire, []string{s.key, s.channel, s.requests}, args}
}

// Missing says what happens to a semaphore that does not exist when permits are added to it.
type Missing string

// The values are those that semaphore_release.lua and permit_release.lua read.
const (
	CreateMissing Missing = "0"
	LeaveMissing  Missing = "1"
	ReportMissing Missing = "2" // create it, and reply that it did not exist
)

// MissingOf says whether a release creates a semaphore, for a client whose next request creates the semaphore with that many permits, or none with 0.
func MissingOf(create int) Missing {
	if create > 0 {
		return LeaveMissing
	}
	return CreateMissing
}

// Add returns the request that adds permits, or takes them away if n is negative. It replies 1, 0 if the semaphore does not
// exist or did not, or [Outdated].
func (s *Semaphore) Add(r Request, n int, missing Missing) Command {
	return Command{scripts.SemaphoreRelease, s.counts(), r.args(strconv.Itoa(n), s.p.publish, string(missing))}
}

// Create returns the request that creates the semaphore with n permits in all, for a time or, if that is 0, for ever, or until the taken permits
// end. It replies 1 if it did, or [Outdated].
func (s *Semaphore) Create(r Request, n int, ttl time.Duration) Command {
	return Command{scripts.SemaphoreSet, s.counts(), r.args(strconv.Itoa(n), s.p.publish, millis(ttl))}
}

// Drain returns the request that takes all permits that are available. It replies how many these were, or [Outdated].
func (s *Semaphore) Drain(r Request) Command {
	return Command{scripts.SemaphoreDrain, []string{s.key, s.requests}, r.args()}
}
