package spec

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A teller turns a run of the relation into a trace in real time: a tick is a second, and no number is used twice.
type teller struct {
	b      Bounds
	at     time.Duration
	number map[Owner]int
	last   int
}

func newTeller(b Bounds) *teller { return &teller{b: b, number: map[Owner]int{}} }

func (x *teller) owner(o Owner) Owner {
	if o.P < 0 {
		return o
	}
	return Owner{o.P, x.number[o]}
}

// tell returns the event of a step from a state, if there is one.
func (x *teller) tell(from State, step Step) (e Said, ok bool) {
	e = Said{At: x.at, Action: step.Action}
	to := step.To
	switch step.Action {
	case "Tick":
		x.at += time.Second
		return e, false
	case "Lose", "GivenBack":
		return e, false
	case "Begin":
		x.last++
		x.number[step.Who] = x.last
		e.Action, e.Line = "Asks", asked(from, to, step.Who).Arg
	case "Again":
		e.Action, e.Line = "Asks", asked(from, to, step.Who).Arg
	case "Granted", "Handed":
		if to.Proc[step.Who.P].St != "held" { // the answer has no effect
			e.Action = "Unknown"
			if step.Action == "Handed" {
				return e, false
			}
		}
		e.Trust = time.Duration(to.Proc[step.Who.P].Trust) * time.Second
	case "Renewed":
		e.Trust = time.Duration(to.Proc[step.Who.P].Trust) * time.Second
	case "RunAcquire", "RunRenew", "RunRelease":
		e.TTL = time.Duration(x.b.Lease) * time.Second
		if step.Action == "RunAcquire" {
			e.Line = asked(to, from, step.Who).Arg
		}
		e.Srv = &Seen{Owner: x.owner(to.Srv.Owner), Left: time.Duration(to.Srv.Left) * time.Second}
		for _, o := range to.Srv.Line {
			e.Srv.Line = append(e.Srv.Line, x.owner(o))
		}
	}
	e.Who = x.owner(step.Who)
	return e, true
}

// asked returns the request that is under way in the second state alone.
func asked(from, to State, o Owner) Message {
	for _, m := range to.Net {
		if m.Kind == "acquire" && m.O == o && !slices.Contains(from.Net, m) {
			return m
		}
	}
	return Message{Arg: to.Net[slices.IndexFunc(to.Net, func(m Message) bool { return m.Kind == "acquire" && m.O == o })].Arg}
}

// check returns a check of the teller's trace.
func (x *teller) check() *Check {
	return NewCheck(x.b.Procs, time.Duration(x.b.Claim)*time.Second, 0, 0)
}

// TestCheckAcceptsRuns shows that the check accepts random runs of the relation in real time.
func TestCheckAcceptsRuns(t *testing.T) {
	b := Bounds{Procs: 3, Numbers: 3, Lease: 3, Claim: 2, MaxNet: 4, Lossy: true, Contended: true}
	told := map[string]int{}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		x := newTeller(b)
		c := x.check()
		s := b.Init()
		for range 150 {
			steps := b.Next(s)
			step := steps[r.IntN(len(steps))]
			if step.Action == "Tick" && r.IntN(3) > 0 {
				step = steps[r.IntN(len(steps))]
			}
			if e, ok := x.tell(s, step); ok {
				require.NoError(t, c.Say(e), "seed %d", seed)
				told[e.Action]++
			}
			s = step.To
		}
	}
	for _, action := range []string{"Asks", "Unknown", "Refused", "Granted", "Handed", "Settled", "Renew", "Renewed", "Lost", "RunOut", "Unlock",
		"GiveUp", "GiveBack", "RunAcquire", "RunRenew", "RunRelease"} {
		require.NotZero(t, told[action], action)
	}
}

// TestCheckRejects shows that the check rejects traces whose last event leaves the protocol.
func TestCheckRejects(t *testing.T) {
	const ms = time.Millisecond
	a, b := Owner{0, 1}, Owner{1, 1}
	free := &Seen{Owner: None}
	has := func(o Owner, left time.Duration, line ...Owner) *Seen { return &Seen{Owner: o, Left: left, Line: line} }
	granted := []Said{
		{At: 0, Action: "Asks", Who: a},
		{At: 1 * ms, Action: "RunAcquire", Who: a, TTL: time.Second, Srv: has(a, time.Second)},
		{At: 2 * ms, Action: "Granted", Who: a, Trust: 998 * ms},
	}
	refused := append(slices.Clone(granted),
		Said{At: 3 * ms, Action: "Asks", Who: b, Line: 1},
		Said{At: 4 * ms, Action: "RunAcquire", Who: b, Line: 1, TTL: time.Second, Srv: has(a, 997*ms, b)},
		Said{At: 6 * ms, Action: "Refused", Who: b})
	released := append(slices.Clone(refused),
		Said{At: 7 * ms, Action: "Unlock", Who: a},
		Said{At: 7 * ms, Action: "GiveBack", Who: a},
		Said{At: 8 * ms, Action: "RunRelease", Who: a, Heed: true, Srv: has(b, 200*ms)})
	accepted := append(slices.Clone(released), Said{At: 10 * ms, Action: "Handed", Who: b, Trust: 197 * ms})
	for name, trace := range map[string][]Said{
		"trust from the answer":         append(slices.Clone(granted[:2]), Said{At: 5 * ms, Action: "Granted", Who: a, Trust: time.Second}),
		"a hand-over trusted too long":  append(slices.Clone(released), Said{At: 10 * ms, Action: "Handed", Who: b, Trust: 199 * ms}),
		"a longer lease at the server":  append(slices.Clone(granted[:1]), Said{At: 1 * ms, Action: "RunAcquire", Who: a, TTL: time.Second, Srv: has(a, 2*time.Second)}),
		"the wrong owner at the server": append(slices.Clone(granted[:1]), Said{At: 1 * ms, Action: "RunAcquire", Who: a, TTL: time.Second, Srv: free}),
		"passed over in line": append(slices.Clone(refused), Said{At: 7 * ms, Action: "Unlock", Who: a}, Said{At: 7 * ms, Action: "GiveBack", Who: a},
			Said{At: 8 * ms, Action: "RunRelease", Who: a, Heed: true, Srv: free}),
		"handed to one that does not listen": append(slices.Clone(refused), Said{At: 7 * ms, Action: "Unlock", Who: a}, Said{At: 7 * ms, Action: "GiveBack", Who: a},
			Said{At: 8 * ms, Action: "RunRelease", Who: a, Heed: true, Deaf: []int{1}, Srv: has(b, 200*ms)}),
		"not put in line":            append(slices.Clone(refused[:4]), Said{At: 4 * ms, Action: "RunAcquire", Who: b, Line: 1, TTL: time.Second, Srv: has(a, 997*ms)}),
		"asked twice at once":        append(slices.Clone(granted[:1]), Said{At: 1 * ms, Action: "Asks", Who: a}),
		"a holder asks":              append(slices.Clone(granted), Said{At: 3 * ms, Action: "Asks", Who: a}),
		"a second claim":             append(slices.Clone(granted), Said{At: 3 * ms, Action: "Asks", Who: Owner{0, 2}}),
		"an owner used again":        append(slices.Clone(released), Said{At: 9 * ms, Action: "Asks", Who: a}),
		"given back while held":      append(slices.Clone(granted), Said{At: 3 * ms, Action: "GiveBack", Who: a}),
		"a renewal after Unlock":     append(slices.Clone(released), Said{At: 9 * ms, Action: "Renew", Who: a}),
		"lost though the server has": append(slices.Clone(granted), Said{At: 3 * ms, Action: "Lost", Who: a}),
		"granted without an answer":  append(slices.Clone(granted[:1]), Said{At: 1 * ms, Action: "Granted", Who: a, Trust: ms}),
		"a token that nobody drew":   append(slices.Clone(granted[:2]), Said{At: 2 * ms, Action: "Granted", Who: a, Trust: 998 * ms, Token: 5}),
		"a token that was drawn for another": append(slices.Clone(granted[:1]), Said{At: 1 * ms, Action: "RunAcquire", Who: a, TTL: time.Second, Drawn: []Draw{{b, 5, 5}}},
			Said{At: 2 * ms, Action: "Granted", Who: a, Trust: 998 * ms, Token: 5}),
		"a token that was drawn before": append(slices.Clone(granted[:1]), Said{At: 1 * ms, Action: "RunAcquire", Who: a, TTL: time.Second, Drawn: []Draw{{a, 5, 6}}},
			Said{At: 2 * ms, Action: "RunAcquire", Who: a, TTL: time.Second, Drawn: []Draw{{a, 6, 6}}}),
		"tokens fall where the server forgets, whose clock goes on": {{At: 0, Action: "Asks", Who: a}, {At: 1 * ms, Action: "RunAcquire", Who: a, TTL: time.Second, Drawn: []Draw{{a, 5, 6}}},
			{At: 2 * ms, Action: "Granted", Who: a, Trust: 998 * ms, Token: 5}, {At: 3 * ms, Action: "Fault", Srv: free}, {At: 4 * ms, Action: "RunRelease", Who: a, Drawn: []Draw{{a, 1, 1}}}},
		"Redisson takes what somebody has":  append(slices.Clone(granted), Said{At: 3 * ms, Action: "JavaTakes", Who: Redisson, TTL: time.Second, Srv: has(Redisson, time.Second)}),
		"Redisson frees what somebody has":  append(slices.Clone(granted), Said{At: 3 * ms, Action: "JavaFrees", Who: Redisson, Srv: free}),
		"sent again, and never sent before": {{At: 0, Action: "SentAgain", Who: a}},
		"sent again once, and run thrice": append(slices.Clone(granted[:1]), Said{At: 1 * ms, Action: "SentAgain", Who: a},
			Said{At: 2 * ms, Action: "RunAcquire", Who: a, TTL: time.Second}, Said{At: 2 * ms, Action: "RunAcquire", Who: a, TTL: time.Second},
			Said{At: 2 * ms, Action: "RunAcquire", Who: a, TTL: time.Second}),
		"a renewal that is run thrice": append(slices.Clone(granted), Said{At: 3 * ms, Action: "Renew", Who: a},
			Said{At: 4 * ms, Action: "RunRenew", Who: a, TTL: time.Second}, Said{At: 4 * ms, Action: "RunRenew", Who: a, TTL: time.Second},
			Said{At: 4 * ms, Action: "RunRenew", Who: a, TTL: time.Second}),
		"trust from the second copy of a renewal": append(slices.Clone(granted), Said{At: 3 * ms, Action: "Renew", Who: a},
			Said{At: 5 * ms, Action: "RunRenew", Who: a, TTL: time.Second}, Said{At: 6 * ms, Action: "RunRenew", Who: a, TTL: time.Second},
			Said{At: 7 * ms, Action: "Renewed", Who: a, Trust: 997 * ms}),
		"a renewal that nobody sent": append(slices.Clone(granted), Said{At: 3 * ms, Action: "RunRenew", Who: a, TTL: time.Second}),
	} {
		c := NewCheck(2, 200*ms, ms/2, 0)
		for i, e := range trace {
			err := c.Say(e)
			if i == len(trace)-1 {
				require.ErrorContains(t, err, "leaves the protocol", name)
			} else {
				require.NoError(t, err, name)
			}
		}
	}
	c := NewCheck(2, 200*ms, ms/2, 0)
	for _, e := range accepted {
		require.NoError(t, c.Say(e))
	}
	c = NewCheck(2, 200*ms, ms/2, 0)
	for _, e := range []Said{ // a request that is sent again is run once more after the lock was given back, which is then given back again
		{At: 0, Action: "Asks", Who: a},
		{At: 1 * ms, Action: "SentAgain", Who: a},
		{At: 2 * ms, Action: "RunAcquire", Who: a, TTL: time.Second, Srv: has(a, time.Second)},
		{At: 3 * ms, Action: "Granted", Who: a, Trust: 997 * ms},
		{At: 4 * ms, Action: "Unlock", Who: a},
		{At: 4 * ms, Action: "GiveBack", Who: a},
		{At: 5 * ms, Action: "RunRelease", Who: a, Heed: true, Srv: free},
		{At: 6 * ms, Action: "RunAcquire", Who: a, TTL: time.Second, Srv: has(a, time.Second)},
		{At: 7 * ms, Action: "GiveBack", Who: a},
		{At: 8 * ms, Action: "RunRelease", Who: a, Heed: true, Srv: free},
	} {
		require.NoError(t, c.Say(e))
	}
}

// TestCheckRenewsTwice shows that a renewal may run twice, also after the release, and that the next one may too.
func TestCheckRenewsTwice(t *testing.T) {
	const ms = time.Millisecond
	a := Owner{0, 1}
	has, free := &Seen{Owner: a, Left: time.Second}, &Seen{Owner: None}
	c := NewCheck(1, 200*ms, ms/2, 0)
	for _, e := range []Said{
		{At: 0, Action: "Asks", Who: a},
		{At: 1 * ms, Action: "RunAcquire", Who: a, TTL: time.Second, Srv: has},
		{At: 2 * ms, Action: "Granted", Who: a, Trust: 998 * ms},
		{At: 3 * ms, Action: "Renew", Who: a},
		{At: 4 * ms, Action: "RunRenew", Who: a, TTL: time.Second, Srv: has},
		{At: 5 * ms, Action: "RunRenew", Who: a, TTL: time.Second, Srv: has},
		{At: 6 * ms, Action: "Renewed", Who: a, Trust: 997 * ms},
		{At: 7 * ms, Action: "Renew", Who: a},
		{At: 7 * ms, Action: "Unlock", Who: a},
		{At: 7 * ms, Action: "GiveBack", Who: a},
		{At: 8 * ms, Action: "RunRelease", Who: a, Heed: true, Srv: free},
		{At: 8 * ms, Action: "RunRenew", Who: a, TTL: time.Second, Srv: free},
		{At: 9 * ms, Action: "RunRenew", Who: a, TTL: time.Second, Srv: free},
	} {
		require.NoError(t, c.Say(e))
	}
}

// TestCheckSent shows that of two requests that are asked at one moment, the later one is marked as sent.
func TestCheckSent(t *testing.T) {
	const ms = time.Millisecond
	a := Owner{0, 1}
	for trust, accepted := range map[time.Duration]bool{998 * ms: true, 1000 * ms: false} {
		c := NewCheck(2, 200*ms, ms/2, 0)
		for _, e := range []Said{
			{At: 0, Action: "Asks", Who: a},
			{At: 0, Action: "Sent", Who: a},
			{At: 0, Action: "Unknown", Who: a},
			{At: 0, Action: "Asks", Who: a, Line: 1},
			{At: 5 * ms, Action: "Sent", Who: a},
			{At: 6 * ms, Action: "RunAcquire", Who: a, Line: 1, TTL: time.Second, Srv: &Seen{Owner: a, Left: time.Second}},
		} {
			require.NoError(t, c.Say(e))
		}
		err := c.Say(Said{At: 7 * ms, Action: "Granted", Who: a, Trust: trust})
		require.Equal(t, accepted, err == nil, "%v: %v", trust, err)
	}
}

// TestCheckFaults shows that the check follows a server that loses its data, and one whose clock is
// set.
func TestCheckFaults(t *testing.T) {
	a := Owner{0, 1}
	c := NewCheck(1, 2*time.Second, 0, 0)
	for _, e := range []Said{
		{At: 0, Action: "Asks", Who: a},
		{At: time.Second, Action: "RunAcquire", Who: a, TTL: 10 * time.Second, Srv: &Seen{Owner: a, Left: 10 * time.Second}},
		{At: 2 * time.Second, Action: "Granted", Who: a, Trust: 8 * time.Second},
		{At: 3 * time.Second, Action: "Fault", Jump: 5 * time.Second, Srv: &Seen{Owner: a, Left: 3 * time.Second}},
		{At: 4 * time.Second, Action: "Renew", Who: a},
		{At: 5 * time.Second, Action: "RunRenew", Who: a, TTL: 10 * time.Second, Srv: &Seen{Owner: a, Left: 10 * time.Second}},
		{At: 5 * time.Second, Action: "Fault", Srv: &Seen{Owner: None}},
		{At: 6 * time.Second, Action: "Lost", Who: a},
	} {
		require.NoError(t, c.Say(e))
	}
}

// TestCheckTokensOfAPart shows that the tokens of a part of a RedLock may fall once the server has forgotten its counter, since other
// servers may have raised that beyond the clock of this one. Tokens of any other lock may not.
func TestCheckTokensOfAPart(t *testing.T) {
	t.Parallel()
	a, b := Owner{0, 1}, Owner{0, 2}
	draws := func(at time.Duration, who Owner, token int64) Said {
		return Said{
			At: at, Action: "RunAcquire", Who: who, TTL: time.Second, Srv: &Seen{Owner: who, Left: time.Second},
			Drawn: []Draw{{Who: who, First: token, Last: token}},
		}
	}
	begin := []Said{
		{At: 0, Action: "Asks", Who: a},
		draws(1, a, 9),
		{At: 2, Action: "Granted", Who: a, Trust: time.Second - 2, Token: 9},
		{At: 3, Action: "Unlock", Who: a},
		{At: 3, Action: "GiveBack", Who: a},
		{At: 4, Action: "RunRelease", Who: a, Srv: &Seen{Owner: None}},
	}
	forgets := Said{At: 5, Action: "Fault", Srv: &Seen{Owner: None}}
	asks := Said{At: 6, Action: "Asks", Who: b}
	for _, tt := range []struct {
		name     string
		part     bool
		then     []Said
		accepted bool
	}{
		{"a part whose server has forgotten", true, []Said{forgets, asks}, true},
		{"a part whose server knows", true, []Said{asks}, false},
		{"a mutex", false, []Said{forgets, asks}, false},
	} {
		c := NewCheck(1, 2*time.Second, 0, 0)
		c.Part = tt.part
		for _, e := range slices.Concat(begin, tt.then) {
			require.NoError(t, c.Say(e), tt.name)
		}
		err := c.Say(draws(7, b, 8))
		require.Equal(t, tt.accepted, err == nil, "%s: %v", tt.name, err)
	}
}
