package quorum

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/trace/tracetest"
)

// TestMain has the whole run fail if a round makes a move that docs/architecture.md does not draw, or does not make one that it draws.
func TestMain(m *testing.M) {
	page := filepath.Join("..", "..", "..", "docs", "architecture.md")
	os.Exit(tracetest.Record().RunAll(m, page, "round"))
}

var (
	errAway   = errors.New("it is away")
	errFailed = errors.New("it is broken for good")
)

// A caller is the call of a contest in virtual time. Its parts are the numbers of servers.
type caller struct {
	Contest[int]

	lock sync.Mutex // of the contest
	pace time.Duration

	mu      sync.Mutex // guards the rest
	cuts    []*Round[int]
	prompts int
	ends    int // of the requests of rounds
}

func (x *caller) Pace(int) time.Duration { return x.pace }

func (x *caller) Cut(r *Round[int]) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.cuts = append(x.cuts, r)
}

func (x *caller) Prompt() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.prompts++
}

func (x *caller) prompted() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.prompts
}

// cutsAfter returns how many rounds were cut after d.
func (x *caller) cutsAfter(d time.Duration) int {
	time.Sleep(d)
	synctest.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.cuts)
}

func (x *caller) begin() *Round[int] {
	return x.Begin(func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.ends++
	})
}

// contesting runs f in virtual time with a call that asks so many servers.
func contesting(t *testing.T, servers int, f func(t *testing.T, x *caller)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		x := &caller{}
		x.Init(x, Terms{Servers: servers, Needs: servers/2 + 1, Limit: time.Minute}, &x.lock)
		f(t, x)
	})
}

// votes answers r in the order of the servers: g grants, r refuses, a is away, f fails for good, and - does not answer. It returns the last
// outcome.
func (x *caller) votes(r *Round[int], answers string) (last Outcome) {
	for i, a := range answers {
		switch a {
		case 'g':
			last = r.Answer(i, Granted, i, nil)
		case 'r':
			last = r.Answer(i, Refused, 0, errors.New("it is refused"))
		case 'a':
			last = r.Answer(i, Away, 0, errAway)
		case 'f':
			last = r.Answer(i, Failed, 0, errFailed)
		}
	}
	return last
}

func (x *caller) is(r *Round[int]) State {
	x.lock.Lock()
	defer x.lock.Unlock()
	return r.state
}

// A majority of equal answers decides, and the outcome says what becomes of those that come later.
func TestRound_AMajorityDecides(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		servers int
		votes   string
		outcome Outcome
		state   State
		parts   []int
		err     error
	}{
		"a majority grants it":                   {5, "ggg", Win, Won, []int{0, 1, 2}, nil},
		"a majority grants it, not at once":      {5, "rgrgg", Win, Won, []int{1, 3, 4}, nil},
		"a majority refuses it":                  {5, "grrr", Lose, Lost, []int{0}, nil},
		"a majority is away":                     {5, "aaa", Lose, Lost, nil, errAway},
		"a majority fails, one for good":         {5, "afa", Lose, Lost, nil, errFailed},
		"so few refuse it that a majority might": {5, "rr", None, Asking, nil, nil},
		"some refuse it and some are away":       {5, "raa", Lose, Lost, nil, nil},
		"answers differ":                         {5, "grg", None, Split, nil, nil},
		"answers differ until the last":          {3, "grr", Lose, Lost, []int{0}, nil},
	} {
		contesting(t, test.servers, func(t *testing.T, x *caller) {
			r := x.begin()
			require.Equal(t, test.outcome, x.votes(r, test.votes), name)
			require.Equal(t, test.state, x.is(r), name)
			require.Equal(t, test.parts, r.Parts, name)
			require.Equal(t, test.err, r.Err, name)
			if test.state == Lost {
				require.Positive(t, x.ends, name)
			}
		})
	}
}

// Late parts join a lease, or are released. Servers that refused their part, or were away, are asked again; those that failed for good are
// not.
func TestRound_LateAnswers(t *testing.T) {
	t.Parallel()
	contesting(t, 7, func(t *testing.T, x *caller) {
		r := x.begin()
		require.Equal(t, Win, x.votes(r, "rgggg"))
		require.Equal(t, None, r.Answer(5, Granted, 5, nil), "it comes while the token is written")
		x.lock.Lock()
		late, missing := r.Hold()
		x.lock.Unlock()
		require.Equal(t, []int{1, 2, 3, 4}, r.Parts)
		require.Equal(t, []int{5}, late)
		require.Equal(t, []int{0}, missing)
		require.Zero(t, x.ends)
		require.Equal(t, AskOn, r.Answer(6, Away, 0, errAway))
		require.Equal(t, 1, x.ends, "nothing is missing any more")
	})
	contesting(t, 5, func(t *testing.T, x *caller) {
		r := x.begin()
		require.Equal(t, Win, x.votes(r, "ggg"))
		x.lock.Lock()
		r.Hold()
		x.lock.Unlock()
		require.Equal(t, Join, r.Answer(3, Granted, 3, nil))
		require.Equal(t, None, r.Answer(4, Failed, 0, errFailed))
	})
	contesting(t, 5, func(t *testing.T, x *caller) {
		r := x.begin()
		require.Equal(t, Win, x.votes(r, "ggg"))
		require.Equal(t, None, r.Answer(3, Granted, 3, nil))
		r.Lose() // the token is not written
		require.Equal(t, []int{0, 1, 2, 3}, r.Parts)
		require.NoError(t, r.Err)
		require.Equal(t, Release, r.Answer(4, Granted, 4, nil))
	})
}

// A round that is split waits for missing answers: as long as the others took, and a bit; for slow servers only if it hears of releases, and
// then sometimes; for the whole limit if there is no other round.
func TestRound_WaitsForMissingAnswers(t *testing.T) {
	t.Parallel()
	longest := func(x *caller, rounds int) (most time.Duration) {
		for range rounds {
			r, cuts := x.begin(), x.cutsAfter(time.Millisecond)
			x.votes(r, "grg")
			began := time.Now()
			for x.cutsAfter(time.Millisecond) == cuts {
			}
			most = max(most, time.Since(began))
		}
		return most
	}
	contesting(t, 5, func(t *testing.T, x *caller) {
		x.pace = 200 * time.Millisecond
		require.Equal(t, 12*time.Millisecond, longest(x, 100))
		x.Listens()
		require.Equal(t, 609*time.Millisecond, longest(x, 1000))
		x.terms.Once = true
		require.Equal(t, time.Minute-time.Millisecond, longest(x, 1))
	})
	contesting(t, 5, func(t *testing.T, x *caller) {
		x.Listens()
		require.Equal(t, 309*time.Millisecond, longest(x, 1000), "a server that is not known is not so slow")
	})
}

// The majority that won a round gets as long as its servers usually take; all the time there is, if there is no other round.
func TestRound_Patience(t *testing.T) {
	t.Parallel()
	contesting(t, 3, func(t *testing.T, x *caller) {
		x.pace = 50 * time.Millisecond
		r := x.begin()
		x.votes(r, "gg")
		require.Equal(t, 160*time.Millisecond, r.Patience())
		x.terms.Once = true
		require.Equal(t, time.Minute, r.Patience())
	})
}

// A split round that the last answers decide is not cut.
func TestRound_DecidedInTime(t *testing.T) {
	t.Parallel()
	contesting(t, 5, func(t *testing.T, x *caller) {
		won, lost := x.begin(), x.begin()
		x.votes(won, "grg")
		x.votes(lost, "grg")
		require.Equal(t, Win, won.Answer(4, Granted, 4, nil))
		lost.Answer(3, Refused, 0, nil)
		require.Equal(t, Lose, lost.Answer(4, Away, 0, errAway))
		require.Zero(t, x.cutsAfter(time.Hour))
		require.NoError(t, lost.Err)
	})
}

// A round that a failure decides before the third of five servers has refused is no tie: nobody else asks at the same time, so the pauses
// grow. They do not where as much was granted as was refused, unless that goes on.
func TestRound_PausesGrowUnlessOthersAskToo(t *testing.T) {
	t.Parallel()
	const longest = 125 * time.Millisecond // half of the longest pause
	for votes, x := range map[string]struct {
		rounds int
		least  time.Duration
	}{
		"rrr":   {10, longest},
		"rra":   {10, longest},
		"raa":   {10, longest},
		"grrr":  {10, longest},
		"grra":  {10, longest},
		"ggrra": {10, 0},
		"gragr": {5 * tiesOfAPace, 16 * time.Millisecond},
	} {
		contesting(t, 5, func(t *testing.T, c *caller) {
			var last time.Duration
			for range x.rounds {
				r := c.begin()
				require.Equal(t, Lose, c.votes(r, votes), votes)
				last = r.Pause
			}
			if x.least > 0 {
				require.GreaterOrEqual(t, last, x.least, votes)
			} else {
				require.Less(t, last, 16*time.Millisecond, votes)
			}
		})
	}
}

// A call that lost a round asks again when as many of the servers that refused have announced a release as it lacks for a majority.
func TestRound_ReleasesOfTooFewServersDoNotCount(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		votes    string // of five servers
		releases []int  // by which server, in this order
		asks     bool   // because of the last of them, and of none before
	}{
		"a bare majority has it, and one of that gives it back":   {"rrrgg", []int{0}, true},
		"a bare majority has it, and others ask for the rest":     {"rrrrr", []int{3, 4, 3, 4}, false},
		"a bare majority has it, and another asks for the rest":   {"rrrgr", []int{4, 4}, false},
		"a bare majority gives it back, one after the other":      {"rrrrr", []int{0, 1, 2}, true},
		"one of a bare majority is enough, when the rest is free": {"rrrrr", []int{3, 4, 0}, true},
		"what this process gives back itself does not count":      {"rrrgg", []int{3, 4}, false},
		"two ask at the same time, and one server is away":        {"ggrr-", []int{3}, true},
		"others have failed": {"raaaa", []int{0}, true},
		"others have failed, and one of those that refused has it": {"rraaa", []int{1}, false},
	} {
		contesting(t, 5, func(t *testing.T, x *caller) {
			x.Listens()
			r := x.begin()
			x.votes(r, test.votes)
			x.cutsAfter(time.Second) // while it is split
			for i, from := range test.releases {
				require.Equal(t, Lost, x.is(r), "%s, after %d releases", name, i)
				x.lock.Lock()
				r.votes[from].released = false // to see that it is heard once more
				x.lock.Unlock()
				x.Heard(from)
			}
			require.Equal(t, test.asks, x.is(r) == Prompted, name)
			x.cutsAfter(time.Second)
			require.Equal(t, test.asks, x.prompted() == 1, name)
		})
	}
}

// A call that has begun another round meanwhile is not prompted.
func TestRound_PromptsForTheLatestRoundAlone(t *testing.T) {
	t.Parallel()
	contesting(t, 3, func(t *testing.T, x *caller) {
		r := x.begin()
		x.votes(r, "rr")
		x.Heard(0)
		x.Heard(1)
		require.Equal(t, Prompted, x.is(r))
		later := x.begin()
		x.cutsAfter(time.Second)
		require.Zero(t, x.prompted())
		x.votes(later, "rr")
		r.Answer(2, Refused, 0, nil)
		require.Equal(t, Lost, x.is(later), "the releases came before its round")
	})
}

// A round that waits for servers that have not answered ends when those that answered would grant a majority now. Until then it keeps its
// parts from others, which may keep theirs from it.
func TestRound_DoesNotWaitForAnswersThatItDoesNotNeed(t *testing.T) {
	t.Parallel()
	for votes, releases := range map[string][]int{"ggr--": {2}, "rgr--": {2, 0}} {
		contesting(t, 5, func(t *testing.T, x *caller) {
			x.terms.Once = true // it would wait for long
			r := x.begin()
			time.Sleep(time.Second)
			x.votes(r, votes)
			for _, from := range releases {
				require.Zero(t, x.cutsAfter(time.Second))
				require.Equal(t, Split, x.is(r))
				x.Heard(from)
			}
			require.Equal(t, 1, x.cutsAfter(2*time.Second), votes)
			require.Equal(t, Prompted, x.is(r))
		})
	}
}
