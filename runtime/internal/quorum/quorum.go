// Package quorum decides the rounds of a red lock. In a round a call asks each server for its part of the lock. The package counts the
// answers, and decides when a majority has granted it, when no majority can, how long missing answers are waited for, what is released
// and when the call asks again. It knows no server: its caller asks, releases and listens.
package quorum

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/trace"
)

// A Contest is the rounds of one call. It competes with other calls on the servers.
type Contest[P any] struct {
	Took atomic.Int64 // response time of a majority in the last round that was decided

	// Trace gets each answer, and each decision of a round, for tests; or it is nil. It is called with the lock.
	Trace func(r *Round[P], a trace.Action, server int, part P)

	call  Call[P]
	terms Terms
	mu    *sync.Mutex // of the call; guards the rest

	hears    bool // of releases
	latest   *Round[P]
	refusals int // consecutive rounds without a majority
	ties     int // rounds in which others asked at the same time
}

// Terms are what the decisions depend on.
type Terms struct {
	Servers int
	Needs   int           // how many of them are a majority
	Once    bool          // there is no other round
	Limit   time.Duration // for an answer
}

// A Call is the call of a contest. Pace is called with the lock, the others are without.
type Call[P any] interface {
	// Pace returns how long a server usually takes for an answer, or 0 before its first one.
	Pace(server int) time.Duration
	// Cut acts on a round that was lost because answers are missing.
	Cut(r *Round[P])
	// Prompt makes the call ask again.
	Prompt()
}

// A Round is one request to each of the servers. Its fields are for the caller that won or lost it.
type Round[P any] struct {
	Parts []P           // the majority that won it, or the parts to release, when it is lost
	Err   error         // why it was lost, if there can be no majority without the servers that failed
	Pause time.Duration // before the round after it

	Caller *trace.Caller // reports the round, for tests; or nil

	of     *Contest[P]
	cancel context.CancelFunc // of the requests
	state  State
	began  time.Time
	votes  []vote
	parts  []P           // the grants, until it is held or lost
	err    error         // of a failed request, of one that failed for good if there is one
	final  bool          // err does not pass
	cut    *time.Timer   // ends it while it is split
	took   time.Duration // response time of a majority, when it became split
}

// A State is what became of a round. docs/architecture.md has the transitions.
type State uint8

const (
	Asking   State = iota // fewer than a majority of the servers have granted or refused it
	Split                 // a majority of the servers has answered, but not alike
	Won                   // a majority has granted it
	Held                  // its grants are parts of the lease
	Lost                  // its grants are released
	Prompted              // lost, and the call has a reason to ask again
)

var states = [...]string{"asking", "split", "won", "held", "lost", "prompted"}

// String returns the name of the state in docs/architecture.md.
func (s State) String() string { return states[s] }

// An Answer is that of one server in a round.
type Answer uint8

const (
	Missing Answer = iota
	Granted
	Refused
	Away   // it fails, and may grant its part later
	Failed // for good
)

// A vote is the answer of one server, and its messages since.
type vote struct {
	answer   Answer
	released bool // it has announced a release since the round began
}

// An Outcome is what the caller does about an answer.
type Outcome uint8

const (
	None    Outcome = iota
	Win             // it makes the majority the lease, by Hold, or calls Lose
	Lose            // it acts on the lost round
	Join            // it adds the late part to the lease
	AskOn           // it asks the server of a missing part of the lease later
	Release         // it releases the late part
)

// Init prepares a contest under the lock mu.
func (c *Contest[P]) Init(call Call[P], terms Terms, mu *sync.Mutex) {
	c.call, c.terms, c.mu = call, terms, mu
}

// Begin begins a round. The caller asks the servers; cancel ends these requests.
func (c *Contest[P]) Begin(cancel context.CancelFunc) *Round[P] {
	r := &Round[P]{of: c, cancel: cancel, began: time.Now(), votes: make([]vote, c.terms.Servers)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latest = r
	return r
}

// Listens records that the call hears of releases from now on. The caller holds the lock.
func (c *Contest[P]) Listens() { c.hears = true }

// Heard records that a server announces a release.
func (c *Contest[P]) Heard(server int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latest.votes[server].released = true
	c.latest.prompt()
}

// unheardPace is the assumed response time of a server that has not answered yet.
const unheardPace = 100 * time.Millisecond

// grace is how long to wait for servers when a majority has answered within took: for longer than they usually take.
func (c *Contest[P]) grace(took time.Duration, servers ...int) time.Duration {
	for _, i := range servers {
		took = max(took, cmp.Or(c.call.Pace(i), unheardPace))
	}
	return min(10*time.Millisecond+3*took, c.terms.Limit)
}

// hurry returns how long to wait for the missing answers when a majority has answered within took, but not alike. These servers may be
// needed, or be away or slow, while other processes wait for the parts that this call was granted. So a call that may ask again usually
// does not wait for them, and never before it hears of releases: prompt could not end that wait. A call that tries once waits as long as
// they may decide.
func (r *Round[P]) hurry(took time.Duration) time.Duration {
	switch {
	case r.of.terms.Once:
		return r.of.terms.Limit
	case !r.of.hears || rand.N(16) > 0:
		return r.of.grace(took)
	}
	return r.of.grace(took, r.servers(Missing)...)
}

// Patience returns how long to wait until the majority of r knows something more.
func (r *Round[P]) Patience() time.Duration {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	if r.of.terms.Once { // there is no other round
		return r.of.terms.Limit
	}
	return r.of.grace(time.Duration(r.of.Took.Load()), r.servers(Missing, Granted, Refused, Away, Failed)...)
}

// servers returns the servers with one of these answers.
func (r *Round[P]) servers(answers ...Answer) (all []int) {
	for i, v := range r.votes {
		if slices.Contains(answers, v.answer) {
			all = append(all, i)
		}
	}
	return all
}

func (r *Round[P]) to(next State) {
	trace.Moves("round", r.state, next)
	r.state = next
	if a := decisions[next]; a != "" {
		var none P
		r.says(a, 0, none)
	}
}

// decisions are the states of a round that tests replay.
var decisions = [...]trace.Action{Won: trace.Elected, Held: trace.Wins, Lost: trace.Ends, Prompted: ""}

// says reports an answer or a decision, if a test wants to know.
func (r *Round[P]) says(a trace.Action, server int, part P) {
	if r.of.Trace != nil {
		r.of.Trace(r, a, server, part)
	}
}

// Answer records the answer of a server, with the part that it granted, or the error of a request that failed.
func (r *Round[P]) Answer(server int, a Answer, part P, err error) Outcome {
	took := time.Since(r.began)
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.votes[server].answer = a
	if len(r.servers(Missing)) == 0 {
		r.cancel()
	}
	defer r.prompt()
	granted := a == Granted
	if granted {
		r.says(trace.Has, server, part)
	} else {
		r.says(trace.Turned, server, part)
	}
	switch {
	case r.state == Held && granted:
		return Join
	case r.state == Held && a != Failed:
		return AskOn
	case r.state > Held && granted:
		return Release
	case r.state > Won:
		return None
	case granted:
		r.parts = append(r.parts, part)
	case a >= Away && err != nil && !r.final:
		r.err, r.final = err, a == Failed
	}
	needs, refused := r.of.terms.Needs, len(r.servers(Refused))
	switch {
	case r.state == Won:
	case len(r.parts) >= needs:
		r.Parts = slices.Clone(r.parts)
		r.decide(Won, took)
		return Win
	case refused+len(r.servers(Away, Failed)) > r.of.terms.Servers-needs:
		r.decide(Lost, took)
		return Lose
	case r.state == Asking && len(r.parts)+refused >= needs:
		r.to(Split)
		r.took = took
		r.cut = time.AfterFunc(r.hurry(took)-took, r.end)
	}
	return None
}

// decide ends the wait for a majority, which has answered within took.
func (r *Round[P]) decide(next State, took time.Duration) {
	if r.cut != nil {
		r.cut.Stop()
	}
	r.of.Took.Store(int64(took))
	r.to(next)
	if next == Lost {
		r.of.loses(r)
	}
}

// end ends a round that is split: the missing servers may be away, and another round may be won without them.
func (r *Round[P]) end() {
	r.of.mu.Lock()
	due := r.state == Split
	if due {
		r.decide(Lost, r.took)
		r.prompt()
	}
	r.of.mu.Unlock()
	if due {
		r.of.call.Cut(r)
	}
}

// Hold records that the majority of a won round is the lease. It returns the parts that came meanwhile, and the servers that may grant
// theirs later. The caller holds the lock.
func (r *Round[P]) Hold() (late []P, missing []int) {
	r.to(Held)
	return r.parts[len(r.Parts):], r.servers(Refused, Away)
}

// Lose ends a won round whose majority is no lease.
func (r *Round[P]) Lose() {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.to(Lost)
	r.of.loses(r)
	r.prompt()
}

// tiesOfAPace is how many ties leave the pauses as they are. A holder of a bare majority, while other servers are away, looks like
// competitors that ask at the same time, for as long as it holds: so the pauses double after some ties, up to 32 times the first one.
const tiesOfAPace = 8

// loses ends the missing requests of r, which is lost now.
func (c *Contest[P]) loses(r *Round[P]) {
	if r.Parts = r.parts; len(r.servers(Away, Failed)) > c.terms.Servers-c.terms.Needs {
		r.Err = r.err
	}
	if c.refusals++; len(r.parts) > 0 && len(r.parts) >= len(r.servers(Refused)) { // others ask at the same time, and none of them got more
		c.ties++
		c.refusals = min(c.ties/tiesOfAPace, 5)
	}
	pause := min((time.Millisecond+time.Duration(c.Took.Load()))<<min(c.refusals, 8), 250*time.Millisecond)
	r.Pause = pause/2 + rand.N(pause)
	r.cancel()
}

// prompt makes the call ask again if another round than r may be won: when r is lost, after a time that differs from one process to the
// next. It ends r soon if r is split, and does not need the missing answers: the servers that answered would grant a majority now. Servers
// that are not slower than these still have the time to answer. Without that two calls that share the servers which answer would keep
// their parts in turn, each for so long that the other one is refused there again.
func (r *Round[P]) prompt() {
	c := r.of
	switch {
	case r != c.latest || !r.promising():
	case r.state == Split:
		r.cut.Reset(3*r.took - time.Since(r.began))
	case r.state == Lost:
		r.to(Prompted)
		time.AfterFunc(rand.N(time.Millisecond+2*time.Duration(c.Took.Load())), func() {
			c.mu.Lock()
			due := r == c.latest
			c.mu.Unlock()
			if due {
				c.call.Prompt()
			}
		})
	}
}

// promising reports whether another round may be won where r was lost: as many of the servers that refused have announced a release as are
// missing for a majority. Fewer announcements do not count: while a third caller holds the lock on a bare majority, two waiters are granted
// the other servers in turn, and each release of these is announced.
func (r *Round[P]) promising() bool {
	released := 0
	for _, v := range r.votes {
		if v.answer == Refused && v.released {
			released++
		}
	}
	return released > 0 && released >= min(r.of.terms.Needs-len(r.servers(Granted)), len(r.servers(Refused)))
}
