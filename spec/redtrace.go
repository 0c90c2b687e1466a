package spec

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// RedRound is the action of the module with which a round begins.
const RedRound = "Ballot"

// A RedTold is an event of a trace of a RedLock in real time. The actions about an owner at a server are those of a mutex in a [Said], as the
// runtime and the server report them; Granted is whether the server has the owner after Run. The others are about a round, whose lease keeps
// the number of the round for as long as the lease passes from one call of the process to the next:
//
//	Ballot    a round begins
//	Asks      the round asks a server, if it has no owner
//	Has       a server has granted a part: an owner, with a lease in the process
//	Refused   a server has not
//	Elected   of the module, likewise Win, AskAgain and End
//	Admit     a part joins the lease
//	Free      the lease is unlocked: at this moment it passes to another call of the process, or ends
//	Pass      it passes with this part, which has a new lease
//	Over      the lease of a part has ended: it was given back, if Granted, or it is trusted no more
//	Knows     a server has the token as the largest that it drew or that was written to it
//	Fault     a server may have forgotten
type RedTold struct {
	At      time.Duration // since the trace began
	Action  string
	Round   uint64
	Server  int
	Owner   string
	Lease   any
	Granted bool
	Trust   time.Duration // of Granted and Renewed: for how long at most the process trusts in it
	TTL     time.Duration // of RunAcquire and RunRenew: the lease
	Token   int64
}

func (e RedTold) String() string {
	return fmt.Sprintf("%v %s of round %d at server %d, %q, granted %v, trusted for %v, with the token %d", e.At, e.Action, e.Round, e.Server, e.Owner, e.Granted, e.Trust, e.Token)
}

// mostRounds bounds the number of rounds that are not over at a time.
const mostRounds = 500

// A RedTrace replays the trace of one RedLock, event by event, by the steps of [RedBounds]. Each round is a process of the module, and a
// release ends its slot at once: the owners of a round are its own. A trace says what happens in the process in order, so there is one state.
//
// The servers have no state of their own here: a [Check] for each replays the part as a mutex, and a trace says what a server ran. Of several
// requests or renewals of one owner, the age of the youngest counts. The runtime may do some things that the module leaves out: to ask a
// server again that has not answered an earlier round; to renew a part before the call has its lease; to end its trust early; to win by a
// part that has ended meanwhile, and to lose the round then; to give back a late part whose server does not learn the token; to pass a
// lease to another call of the process. Of two things at one moment the end of a trust counts as the later one.
type RedTrace struct {
	// Patience is for how long something may be due that happens at once in virtual time: 0 there. While something is due, no time passes
	// for the trace.
	Patience time.Duration

	b      RedBounds
	s      RedState
	late   time.Duration // for which a process may trust in a part longer, as in [NewCheck]
	at     time.Duration
	rounds map[uint64]*redRound
	parts  [][]redPart // by round and server
	owned  map[redPlace]*redOwned
	leases map[any]redPlace // the server, and the number of the round as text, of leases that go on
	over   map[any]bool     // leases that have ended, and were no parts then
	ended  []any            // likewise, parts, at this moment
	known  map[int]int64    // tokens, by server
	faulty bool             // a server may have forgotten tokens
	said   []RedTold
}

// A redPlace is an owner at a server.
type redPlace struct {
	server int
	owner  string
}

// A redRound is a round, and then its lease.
type redRound struct {
	p       int // of the state
	id      uint64
	began   time.Duration
	asked   []bool
	granted int
	freed   bool          // it is unlocked at this moment
	passed  time.Duration // when it was passed last; or -1
	won     bool
	done    time.Duration // when it ended; or -1
}

// A redPart is a part of a round: its lease, if that goes on, and its owner.
type redPart struct {
	lease any
	owner string
	again bool // it was asked again
	owed  bool // it is to be given back at this moment
}

// A redOwned is what a server has for an owner: since when it was asked, until when the process may trust in it, and until when it may if
// what the server has run is answered. sent is when its renewals were sent.
type redOwned struct {
	asked, until, reach time.Duration
	granted             bool
	sent                []time.Duration
	round               *redRound // that has it as a part; or nil
}

// NewRedTrace returns a replay of a trace of a RedLock on so many servers.
func NewRedTrace(servers int, late time.Duration) *RedTrace {
	b := RedBounds{Servers: servers, Lease: math.MaxInt, MaxToken: math.MaxInt, Fenced: true, Renewing: true, Again: true}
	return &RedTrace{b: b, s: b.Init(), late: late, rounds: map[uint64]*redRound{}, owned: map[redPlace]*redOwned{},
		leases: map[any]redPlace{}, over: map[any]bool{}, known: map[int]int64{}}
}

// Say replays the next event. It fails if the protocol does not permit it.
func (c *RedTrace) Say(e RedTold) error {
	if c.said = append(c.said, e); len(c.said) > mostSaid {
		c.said = c.said[1:]
	}
	wrong := ""
	if d := e.At - c.at; d > 0 {
		if wrong = c.moment(); wrong == "" || d > c.Patience {
			c.b.after(&c.s, int(d))
			c.at = e.At
		} else {
			wrong = ""
		}
	}
	if wrong == "" {
		wrong = c.step(e)
	}
	switch {
	case wrong != "":
		return rejected(c.said, []string{wrong}, c.s)
	case len(c.rounds) > mostRounds:
		return fmt.Errorf("the trace may be in too many states: %d rounds are not over", len(c.rounds))
	}
	return nil
}

// Done replays that nothing else happens.
func (c *RedTrace) Done(at time.Duration) error {
	if err := c.Say(RedTold{At: at, Action: "Knows", Token: c.known[0]}); err != nil {
		return err
	}
	for lease, place := range c.leases {
		if r := c.owned[place].round; r != nil && r.done >= 0 {
			return rejected(c.said, []string{fmt.Sprintf("round %d has ended, and keeps %v of server %d", r.id, lease, place.server)}, c.s)
		}
	}
	return nil
}

// now reports whether a moment, which is -1 if it has not come, is this one.
func (c *RedTrace) now(moment time.Duration) bool { return moment >= 0 && c.at-moment <= c.Patience }

// moment returns what was to happen at the last moment, and did not; and ends what ended then.
func (c *RedTrace) moment() string {
	for _, id := range slices.Sorted(maps.Keys(c.rounds)) {
		r := c.rounds[id]
		if i := slices.Index(r.asked, false); i >= 0 {
			return fmt.Sprintf("round %d has not asked server %d at once", id, i)
		}
		if r.freed {
			return fmt.Sprintf("the lease of round %d is unlocked, and has neither passed nor ended", id)
		}
		if i := slices.IndexFunc(c.parts[r.p], func(x redPart) bool { return x.owed }); i >= 0 {
			return fmt.Sprintf("round %d is over, and has not given back the part of server %d", id, i)
		}
	}
	for _, lease := range c.ended {
		if place, has := c.leases[lease]; has {
			c.ends(c.owned[place].round, place.server)
		}
	}
	c.ended = nil
	for id, r := range c.rounds {
		if r.done >= 0 && !slices.ContainsFunc(c.s.Slot[r.p], func(x RedSlot) bool { return x.St != "none" }) {
			delete(c.rounds, id)
		}
	}
	return ""
}

// do takes a step of the relation, if it permits that in the state, with this length of a lease.
func (c *RedTrace) do(action string, p, i int, lease time.Duration) (done bool) {
	b := c.b
	b.Lease = int(lease)
	add := func(a string, _, at int, change func(to *RedState)) {
		if a == action && at == i && !done {
			done = true
			change(&c.s)
		}
	}
	if b.wholes(c.s, p, add); i >= 0 {
		b.asks(c.s, p, i, add)
		b.renews(c.s, p, i, add)
	}
	return done
}

// run has a server answer a request with yes or no, with any earlier holder of the lock.
func (c *RedTrace) run(p, i, owner int, token int64) {
	c.s.Srv[i].Owner = owner
	c.do("Run", p, i, 0)
	c.s.Slot[p][i].Token = int(token)
}

// back has the part of a server given back.
func (c *RedTrace) back(r *redRound, i int) {
	x := &c.parts[r.p][i]
	c.s.Slot[r.p][i] = backSlot
	c.do("Release", r.p, i, 0)
	place := redPlace{i, x.owner}
	c.owned[place].round = nil
	delete(c.leases, x.lease)
	*x = redPart{}
}

// ends has a part be trusted no more.
func (c *RedTrace) ends(r *redRound, i int) {
	if x := &c.s.Slot[r.p][i]; x.St == "part" {
		x.Trust = 0
		c.do("PartLost", r.p, i, 0)
		c.back(r, i)
	}
}

// begin begins a round, as a process that has nothing.
func (c *RedTrace) begin(id uint64) {
	used := map[int]bool{}
	for _, r := range c.rounds {
		used[r.p] = true
	}
	p := 0
	for used[p] {
		p++
	}
	if p == len(c.s.Proc) {
		c.s.Proc = append(c.s.Proc, RedProc{})
		c.s.Slot = append(c.s.Slot, nil)
		c.parts = append(c.parts, nil)
	}
	c.s.Proc[p] = RedProc{St: "idle"}
	c.s.Slot[p], c.parts[p] = slices.Repeat([]RedSlot{noSlot}, c.b.Servers), make([]redPart, c.b.Servers)
	c.rounds[id] = &redRound{p: p, id: id, began: c.at, asked: make([]bool, c.b.Servers), passed: -1, done: -1}
	c.do(RedRound, p, -1, 0)
}

// step returns what is wrong with the next event.
func (c *RedTrace) step(e RedTold) string {
	switch e.Action {
	case "Knows":
		c.known[e.Server] = e.Token
		return ""
	case "Fault":
		c.faulty = true
		return ""
	case RedRound:
		if c.rounds[e.Round] != nil {
			return "the round has begun before"
		}
		c.begin(e.Round)
		return ""
	case "Over":
		return c.gone(e)
	}
	if e.Round == 0 {
		return c.owner(e)
	}
	r := c.rounds[e.Round]
	if r == nil {
		return "there is no such round"
	}
	return c.round(r, e)
}
