package engine

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// A wanting is what waiters of these tests wait for.
type wanting struct{ demand *Demand }

func (x wanting) Demand() *Demand { return x.demand }

// A till counts permits, and answers batches as it is said to.
type till struct {
	Counter[wanting]

	lock       sync.Mutex // of the counter
	goroutines sync.WaitGroup
	number     atomic.Uint64
	late       atomic.Bool   // grants come when their leases are over
	closed     chan struct{} // when the client is

	mu     sync.Mutex // guards the rest
	answer func(b *CountBatch[wanting], wanted bool) CountAnswer
	seen   tillSeen
}

// A tillSeen is what a till has seen.
type tillSeen struct {
	numbers, oldest []uint64 // of the batches, as they were sent
	undone          []int    // permits
	abandoned       []bool   // batches, or changes
}

var (
	errLasting = errors.New("it stays so")
	errPasses  = errors.New("it was not done, and passes")
)

func (x *till) Send(b *CountBatch[wanting], number, oldest uint64, wanted bool) CountAnswer {
	x.mu.Lock()
	x.seen.numbers, x.seen.oldest = append(x.seen.numbers, number), append(x.seen.oldest, oldest)
	answer := x.answer
	x.mu.Unlock()
	return answer(b, wanted)
}

func (x *till) answers(answer func(b *CountBatch[wanting], wanted bool) CountAnswer) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.answer = answer
}

func (x *till) saw() tillSeen {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.seen
}

func (x *till) Undo(_ *Waiter[wanting], d Demand) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.seen.undone = append(x.seen.undone, d.N)
}

func (x *till) Abandoned(batch bool, _ error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.seen.abandoned = append(x.seen.abandoned, batch)
}

func (x *till) Grant(_ *Waiter[wanting], _, _ time.Time) bool { return !x.late.Load() }

func (x *till) Number() uint64 { return x.number.Add(1) }

func (x *till) Spawn(f func()) { x.goroutines.Go(f) }

func (x *till) Backoff(tries int) time.Duration {
	return time.Duration(min(tries, 10)) * 100 * time.Millisecond
}

func (x *till) Fate(err error) (unknown, passing bool) {
	return errors.Is(err, errBroke), !errors.Is(err, errLasting)
}

func (x *till) Granting() bool {
	select {
	case <-x.closed:
		return false
	default:
		return true
	}
}

func (x *till) Pause(d time.Duration) bool {
	if !x.Granting() {
		return false
	}
	select {
	case <-time.After(d):
		return true
	case <-x.closed:
		return false
	}
}

// waits has one wait for n permits.
func (x *till) waits(n int, wait time.Duration) *Waiter[wanting] {
	return x.demands(Demand{N: n}, wait)
}

func (x *till) demands(d Demand, wait time.Duration) *Waiter[wanting] {
	w := NewWaiter[wanting]()
	w.For.demand, w.Call.Wait = &d, wait
	if x.Join(w) == ToAsk {
		x.Ask(w)
	}
	return w
}

// counting runs f in virtual time with a till that answers, and in the end nothing is unknown.
func counting(t *testing.T, answer func(b *CountBatch[wanting], wanted bool) CountAnswer, f func(t *testing.T, x *till)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		x := &till{answer: answer, closed: make(chan struct{})}
		x.Init(x, x, &x.lock)
		f(t, x)
		x.goroutines.Wait()
		require.True(t, x.Settled())
	})
}

func dictate(a CountAnswer) func(*CountBatch[wanting], bool) CountAnswer {
	return func(*CountBatch[wanting], bool) CountAnswer { return a }
}

// held is dictate for a batch that is answered when the test calls answer.
func held(a CountAnswer) (answers func(*CountBatch[wanting], bool) CountAnswer, answer func()) {
	hold := make(chan struct{})
	return func(*CountBatch[wanting], bool) CountAnswer {
		<-hold
		return a
	}, sync.OnceFunc(func() { close(hold) })
}

func next(t *testing.T, w *Waiter[wanting], kind EventKind) Event {
	t.Helper()
	synctest.Wait()
	ev, ok := w.NextEvent()
	require.True(t, ok, "an event")
	require.Equal(t, kind, ev.Kind)
	return ev
}

// A request with an unknown outcome is sent again as it was, under its number, by the waiter that asks next. Those that have left are
// released what it granted them.
func TestCounter_UnknownIsSentAgain(t *testing.T) {
	t.Parallel()
	counting(t, nil, func(t *testing.T, x *till) {
		answers, answer := held(CountAnswer{Err: errBroke})
		x.answers(answers)
		first, second := x.waits(1, time.Hour), x.waits(2, time.Hour)
		answer()
		require.ErrorIs(t, next(t, first, Failed).Err, errBroke)
		x.Leave(first)
		next(t, second, Failed) // it had asked, too
		next(t, second, Reason)
		x.answers(dictate(CountAnswer{Granted: 1}))
		x.Ask(second) // sends the demand of the first one, and then its own
		next(t, second, Given)
		require.Equal(t, []uint64{1, 1, 2}, x.saw().numbers)
		require.Equal(t, []int{1}, x.saw().undone)
	})
}

// If nobody waits any more, the outcome is found out all the same, and no permits are taken then; nor once the client is closed, but once.
func TestCounter_UnknownIsSettledWithoutWaiters(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		after     func(x *till)
		answer    CountAnswer
		sent      int
		abandoned bool
	}{
		"answered":     {answer: CountAnswer{Granted: 1}, sent: 2},
		"closed":       {answer: CountAnswer{Err: errBroke}, after: func(x *till) { close(x.closed) }, sent: 2, abandoned: true},
		"never":        {answer: CountAnswer{Err: errBroke}, sent: -1, abandoned: true},
		"an error":     {answer: CountAnswer{Err: errLasting}, sent: 2, abandoned: true},
		"not any more": {answer: CountAnswer{}, sent: 2},
	} {
		counting(t, dictate(CountAnswer{Err: errBroke}), func(t *testing.T, x *till) {
			began := monotonic.Now()
			w := x.waits(3, 0)
			next(t, w, Failed)
			x.answers(func(_ *CountBatch[wanting], wanted bool) CountAnswer {
				assert.False(t, wanted, name)
				return test.answer
			})
			if test.after != nil {
				test.after(x)
			}
			x.Leave(w)
			x.goroutines.Wait()
			if test.sent > 0 {
				require.Len(t, x.saw().numbers, test.sent, name)
			} else {
				require.Greater(t, monotonic.Since(began), insistence, name)
				require.Less(t, monotonic.Since(began), KeepResults, name)
			}
			require.Equal(t, test.abandoned, len(x.saw().abandoned) == 1, name)
			require.Equal(t, test.answer.Granted == 1, len(x.saw().undone) == 1, name)
		})
	}
}

// A grant whose lease is over is released, and its waiter asks anew.
func TestCounter_LateGrants(t *testing.T) {
	t.Parallel()
	counting(t, dictate(CountAnswer{Granted: 1}), func(t *testing.T, x *till) {
		x.late.Store(true)
		w := x.waits(3, time.Hour)
		require.ErrorIs(t, next(t, w, Failed).Err, ErrLate)
		require.Equal(t, []int{3}, x.saw().undone)
		x.late.Store(false)
		x.Ask(w)
		next(t, w, Reason)
		next(t, w, Given)
		require.Equal(t, []uint64{1, 2}, x.saw().numbers)
		x.Leave(w) // it does not want it any more
		x.goroutines.Wait()
		require.Equal(t, []int{3, 3}, x.saw().undone)
	})
}

// A grant whose answer comes when the client grants nothing any more is released, also if its waiter has not left yet.
func TestCounter_GrantedAfterTheEnd(t *testing.T) {
	t.Parallel()
	counting(t, nil, func(t *testing.T, x *till) {
		answers, answer := held(CountAnswer{Granted: 1})
		x.answers(answers)
		w := x.waits(3, time.Hour)
		synctest.Wait()
		close(x.closed)
		x.answers(dictate(CountAnswer{TTL: time.Second}))
		answer()
		next(t, w, Refused)
		require.Equal(t, []int{3}, x.saw().undone)
		x.Leave(w)
	})
}

// joined returns waiters for so many permits each, none of which has asked.
func joined(t *testing.T, x *till, ns ...int) (all []*Waiter[wanting]) {
	t.Helper()
	for _, n := range ns {
		w := NewWaiter[wanting]()
		w.For.demand, w.Call.Wait = &Demand{N: n}, time.Hour
		require.Equal(t, ToAsk, x.Join(w))
		all = append(all, w)
	}
	return all
}

// A request is for a bounded number of permits, unless one waiter wants more.
func TestCounter_MostPermitsOfOneRequest(t *testing.T) {
	t.Parallel()
	counting(t, nil, func(t *testing.T, x *till) {
		x.Most = 10
		asked := make(chan struct{})
		var batches [][]int
		x.answers(func(b *CountBatch[wanting], _ bool) CountAnswer {
			<-asked
			var ns []int
			for _, p := range b.Parts {
				ns = append(ns, p.Demand.N)
			}
			batches = append(batches, ns)
			return CountAnswer{Granted: len(ns)}
		})
		all := joined(t, x, 6, 4, 3, 20, 5)
		for _, w := range all {
			x.Ask(w)
		}
		close(asked)
		x.goroutines.Wait()
		require.Equal(t, [][]int{{6, 4}, {3}, {20}, {5}}, batches)
		for _, w := range all {
			next(t, w, Given)
		}
	})
}

// A waiter that is about to ask when the request of another one brings it what it wants asks for nothing more, and gives that back when it leaves.
func TestCounter_GrantedBeforeItAsks(t *testing.T) {
	t.Parallel()
	counting(t, dictate(CountAnswer{Granted: 2}), func(t *testing.T, x *till) {
		all := joined(t, x, 1, 2)
		x.Ask(all[0])
		for _, w := range all {
			next(t, w, Given)
		}
		x.Ask(all[1])
		x.Leave(all[1])
		x.goroutines.Wait()
		require.Equal(t, []uint64{1}, x.saw().numbers)
		require.Equal(t, []int{2}, x.saw().undone)
	})
}

// The refusal of a waiter that has left meanwhile is none of the next one, which Redis was not asked for.
func TestCounter_RefusedAfterItHasLeft(t *testing.T) {
	t.Parallel()
	counting(t, nil, func(t *testing.T, x *till) {
		answers, answer := held(CountAnswer{TTL: time.Hour})
		x.answers(answers)
		all := joined(t, x, 5, 1)
		for _, w := range all {
			x.Ask(w)
		}
		synctest.Wait()
		x.Leave(all[0])
		x.answers(dictate(CountAnswer{Granted: 1}))
		answer()
		next(t, all[1], Given)
	})
}

// The next waiter has the turn when a request fails whose waiter has left meanwhile.
func TestCounter_FailsForOneThatHasLeft(t *testing.T) {
	t.Parallel()
	for _, err := range []error{errBroke, errPasses, errLasting} {
		counting(t, dictate(CountAnswer{TTL: time.Second}), func(t *testing.T, x *till) {
			head := x.waits(3, time.Hour)
			next(t, head, Refused)
			behind := x.waits(2, time.Hour)
			answers, answer := held(CountAnswer{Err: err})
			x.answers(answers)
			x.Ask(head)
			synctest.Wait()
			x.Leave(head)
			answer()
			next(t, behind, Turn)
			x.answers(func(b *CountBatch[wanting], _ bool) CountAnswer { return CountAnswer{Granted: len(b.Parts)} })
			x.Ask(behind)
			for synctest.Wait(); ; { // after an unknown outcome the counter asks for the head first
				if ev, ok := behind.NextEvent(); !ok || ev.Kind == Given {
					require.True(t, ok, "an event")
					break
				}
				x.Ask(behind)
				synctest.Wait()
			}
			x.Leave(behind)
			x.goroutines.Wait()
		})
	}
}

// The next waiter to come asks after a request has failed whose waiter, which was refused before, has left.
func TestCounter_FailsForTheOnlyOneWhichHasLeft(t *testing.T) {
	t.Parallel()
	for _, err := range []error{errBroke, errPasses, errLasting} {
		counting(t, dictate(CountAnswer{TTL: time.Second}), func(t *testing.T, x *till) {
			head := x.waits(3, time.Hour)
			next(t, head, Refused)
			answers, answer := held(CountAnswer{Err: err})
			x.answers(answers)
			x.Ask(head)
			synctest.Wait()
			x.Leave(head)
			answer()
			synctest.Wait()
			x.answers(func(b *CountBatch[wanting], _ bool) CountAnswer { return CountAnswer{Granted: len(b.Parts)} })
			next(t, x.waits(1, time.Hour), Given)
		})
	}
}

// The head is refused, and the others wait behind it. One that tries once makes room instead, and is not put behind one that waits.
func TestCounter_Refused(t *testing.T) {
	t.Parallel()
	counting(t, nil, func(t *testing.T, x *till) {
		answers, answer := held(CountAnswer{TTL: time.Second})
		x.answers(answers)
		tries, head, behind := x.waits(5, 0), x.waits(3, time.Hour), x.waits(1, time.Hour)
		answer()
		next(t, tries, Refused)
		require.Equal(t, time.Second, next(t, head, Refused).TTL)
		next(t, behind, Behind)
		late := NewWaiter[wanting]()
		late.For.demand = new(Demand)
		require.Equal(t, TurnedAway, x.Join(late))
		x.Leave(head)
		next(t, behind, Turn)
		x.answers(dictate(CountAnswer{Granted: 1, Deleted: errLasting}))
		x.Ask(behind)
		require.ErrorIs(t, next(t, behind, Failed).Err, errLasting, "it was refused before")
		x.Leave(behind)
	})
}

// A waiter that tries once hears of a refusal also if a request of another one brings it, and makes room.
func TestCounter_ATryIsRefusedByTheRequestOfAnother(t *testing.T) {
	t.Parallel()
	counting(t, dictate(CountAnswer{Err: errBroke}), func(t *testing.T, x *till) {
		tries := x.waits(1, 0)
		next(t, tries, Failed)
		x.answers(dictate(CountAnswer{TTL: time.Second}))
		waits := x.waits(1, time.Hour) // sends the request of the try again
		next(t, tries, Refused)
		require.Equal(t, PlaceNone, tries.Place)
		next(t, waits, Refused)
		require.Equal(t, []uint64{1, 1, 2}, x.saw().numbers)
		x.Leave(waits)
	})
}

// The next waiter asks after a try was refused that was behind another waiter before.
func TestCounter_ATryThatCameToTheHeadMakesRoom(t *testing.T) {
	t.Parallel()
	counting(t, nil, func(t *testing.T, x *till) {
		answers, answer := held(CountAnswer{TTL: time.Second})
		x.answers(answers)
		head, tries := x.waits(1, time.Hour), x.waits(1, 0)
		answer()
		next(t, head, Refused)
		next(t, tries, Behind)
		x.Leave(head)
		next(t, tries, Turn)
		x.Ask(tries)
		next(t, tries, Refused)
		later := x.waits(1, time.Hour)
		next(t, later, Refused)
		x.Leave(later)
	})
}

// Where all want the same, a waiter that tries once asks behind a head that was refused, and asks anew if the answer is to an older request.
func TestCounter_ATryOfWhatAllWantAsks(t *testing.T) {
	t.Parallel()
	counting(t, dictate(CountAnswer{TTL: time.Second}), func(t *testing.T, x *till) {
		x.Alike = true
		head := x.waits(1, time.Hour)
		next(t, head, Refused)
		tries := x.waits(1, 0)
		next(t, tries, Behind)
		x.Leave(tries)

		answers, answer := held(CountAnswer{TTL: time.Second})
		x.answers(answers)
		x.Ask(head)
		synctest.Wait() // for the request
		tries = x.waits(1, 0)
		x.answers(dictate(CountAnswer{Granted: 2}))
		answer()
		next(t, tries, Given)
		next(t, head, Refused)
		next(t, head, Given)
	})
}

// When what is counted was deleted, a waiter that was refused before fails, and one that has come since has what it wants.
func TestCounter_DeletedSinceTheRefusal(t *testing.T) {
	t.Parallel()
	counting(t, dictate(CountAnswer{TTL: time.Second}), func(t *testing.T, x *till) {
		x.Alike = true
		head := x.waits(1, time.Hour)
		next(t, head, Refused)
		x.answers(dictate(CountAnswer{Granted: 2, Deleted: errLasting}))
		tries := x.waits(1, 0)
		next(t, tries, Given)
		require.ErrorIs(t, next(t, head, Failed).Err, errLasting)
	})
}

// Behind a head that polls, the first waiter that listens has it ask, and gets the answer, too: when it comes, when a request is answered that was
// under way then, and when the one before it leaves.
func TestCounter_Deputy(t *testing.T) {
	t.Parallel()
	polls := func(x *till) *Waiter[wanting] {
		w := NewWaiter[wanting]()
		w.For.demand, w.Call.Wait, w.Terms.Polling = &Demand{N: 1}, time.Hour, true
		if x.Join(w) == ToAsk {
			x.Ask(w)
		}
		return w
	}
	counting(t, nil, func(t *testing.T, x *till) {
		answers, answer := held(CountAnswer{TTL: time.Second})
		x.answers(answers)
		head, second := polls(x), polls(x)
		deputy := x.waits(1, time.Hour) // while the request is under way
		answer()
		next(t, head, Refused)
		next(t, second, Behind)
		require.Equal(t, Event{Kind: Refused, TTL: time.Second, Foreign: true, InLine: true, Deputy: true}, next(t, deputy, Refused))
		later := x.waits(1, time.Hour)
		synctest.Wait()
		require.True(t, later.Events.Empty())
		require.True(t, head.Events.Empty())

		x.Leave(deputy)
		next(t, head, Reason)
		x.Ask(head)
		next(t, head, Refused)
		require.True(t, next(t, later, Refused).Deputy)

		x.Leave(later)
		next(t, head, Reason)
		last := x.waits(1, time.Hour)
		next(t, head, Reason)
		x.Leave(head) // the next one asks
		next(t, second, Turn)
		x.Ask(second)
		next(t, second, Refused)
		require.True(t, next(t, last, Refused).Deputy)

		x.Leave(second)
		next(t, last, Turn)
		x.answers(dictate(CountAnswer{Granted: 1}))
		x.Ask(last)
		next(t, last, Given)
	})
}

// A waiter that creates the semaphore has what it wants although one before it was refused, since there was none; also if it comes while the
// request of that one is under way.
func TestCounter_CreatedBehindTheHead(t *testing.T) {
	t.Parallel()
	for name, underWay := range map[string]bool{"refused": false, "under way": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			counting(t, nil, func(t *testing.T, x *till) {
				hold := make(chan struct{})
				x.answers(func(b *CountBatch[wanting], _ bool) CountAnswer {
					if b.Create == 0 {
						<-hold
						return CountAnswer{TTL: -1}
					}
					return CountAnswer{Granted: len(b.Parts)}
				})
				head := x.waits(1, time.Hour)
				if !underWay {
					close(hold)
					next(t, head, Refused)
				}
				waits, tries := x.demands(Demand{N: 1, Create: 5}, time.Hour), x.demands(Demand{N: 1, Create: 5}, 0)
				if underWay {
					close(hold)
				}
				for _, w := range []*Waiter[wanting]{head, waits, tries} {
					next(t, w, Given)
					x.Leave(w)
				}
			})
		})
	}
}

// A request creates the semaphore as the first waiter does that is there and does so at all. Such a waiter waits behind another one.
func TestCounter_CreatesAsTheFirstWaiterDoes(t *testing.T) {
	t.Parallel()
	counting(t, nil, func(t *testing.T, x *till) {
		created := make(chan int, 100)
		x.answers(func(b *CountBatch[wanting], _ bool) CountAnswer {
			created <- b.Create
			return CountAnswer{TTL: -1}
		})
		waits := func(create int) *Waiter[wanting] { return x.demands(Demand{N: 9, Create: create}, time.Hour) }
		head := waits(0)
		next(t, head, Refused)
		_, five := waits(0), waits(5)
		next(t, five, Behind)
		_, seven := waits(0), waits(7)
		ask := func() int {
			for len(created) > 0 {
				<-created
			}
			x.Ask(head)
			synctest.Wait()
			return <-created
		}
		require.Equal(t, 5, ask())
		x.Leave(five)
		require.Equal(t, 7, ask())
		x.Leave(seven)
		require.Zero(t, ask())
		eight := waits(8)
		next(t, eight, Behind)
		require.Equal(t, 8, ask())
		for x.Queue.First != nil {
			x.Leave(x.Queue.First)
		}
	})
}

// A request with an unknown outcome is not sent again when Redis does not remember its result any more, however long
// the caller waits.
func TestCounter_InsistsNoLongerThanRedisRemembers(t *testing.T) {
	t.Parallel()
	for _, anyway := range []bool{false, true} {
		counting(t, nil, func(t *testing.T, x *till) {
			began := monotonic.Now()
			var last time.Duration
			_, answered, err := x.Change(t.Context(), 10*time.Minute, anyway, func(uint64, uint64, <-chan struct{}) (int64, error) {
				last = monotonic.Since(began)
				return 0, errBroke
			}, nil)
			require.False(t, answered, "an earlier one may have been done")
			require.ErrorIs(t, err, errBroke)
			require.Greater(t, last, insistence/2)
			require.LessOrEqual(t, last, insistence)
			x.goroutines.Wait()
			require.Equal(t, anyway, len(x.saw().abandoned) == 1)
		})
	}
}

// An error that says that a request was not done says nothing about an earlier one with an unknown outcome.
func TestCounter_AnErrorAfterAnUnknownOutcomeIsNoAnswer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		errs     []error
		answered bool
	}{
		"refused":          {errs: []error{errLasting}, answered: true},
		"refused later":    {errs: []error{errPasses, errLasting}, answered: true},
		"unknown, refused": {errs: []error{errBroke, errPasses, errLasting}},
		"unknown, done":    {errs: []error{errBroke, nil}, answered: true},
	} {
		counting(t, nil, func(t *testing.T, x *till) {
			last, tries := test.errs[len(test.errs)-1], 0
			_, answered, err := x.Change(t.Context(), time.Minute, false, func(uint64, uint64, <-chan struct{}) (int64, error) {
				tries++
				return 0, test.errs[tries-1]
			}, nil)
			require.Equal(t, test.answered, answered, name)
			require.Equal(t, last, err, name)
			require.Len(t, test.errs, tries, name)
		})
	}
}

// A batch is not repeated when Redis may have forgotten its result, however many wait: the next request is another one.
func TestCounter_UnknownIsGivenUpWhenRedisMayHaveForgottenIt(t *testing.T) {
	t.Parallel()
	counting(t, dictate(CountAnswer{Err: errBroke}), func(t *testing.T, x *till) {
		w := x.waits(1, time.Hour)
		began := monotonic.Now()
		for len(x.saw().abandoned) == 0 {
			next(t, w, Failed)
			for _, ok := w.NextEvent(); ok; _, ok = w.NextEvent() {
			}
			pass(time.Second)
			x.Ask(w)
			require.Less(t, monotonic.Since(began), KeepResults)
		}
		require.Greater(t, monotonic.Since(began), insistence)
		next(t, w, Failed)
		require.Equal(t, []bool{true}, x.saw().abandoned)
		numbers := x.saw().numbers
		require.Equal(t, []uint64{1, 2}, slices.Compact(slices.Clone(numbers)))
		require.Equal(t, uint64(2), x.saw().oldest[len(numbers)-1], "Redis runs the first one no more")
		x.answers(dictate(CountAnswer{}))
		x.Leave(w)
	})
}

// A change whose caller has gone is made in the background, or not any more. When it is made, it wakes the waiters of this process, for
// whom there may be no message.
func TestCounter_ChangesInTheBackground(t *testing.T) {
	t.Parallel()
	for _, anyway := range []bool{false, true} {
		counting(t, dictate(CountAnswer{TTL: -1}), func(t *testing.T, x *till) {
			w := x.waits(1, time.Hour)
			next(t, w, Refused)
			reachable := time.Now().Add(20 * time.Second)
			_, answered, err := x.Change(t.Context(), 10*time.Second, anyway, func(number, oldest uint64, _ <-chan struct{}) (int64, error) {
				assert.Equal(t, []uint64{2, 2}, []uint64{number, oldest})
				if time.Now().Before(reachable) {
					return 0, errBroke
				}
				return 1, nil
			}, nil)
			require.False(t, answered)
			require.Equal(t, !anyway, err != nil)
			_, poked := w.NextEvent()
			require.False(t, poked)
			x.goroutines.Wait()
			if _, poked = w.NextEvent(); anyway {
				require.True(t, poked)
			} else {
				require.False(t, poked)
			}
			require.Empty(t, x.saw().abandoned)
			x.Leave(w)
		})
	}
}

// A caller whose context ends waits no more. When the client is closed, a change for which nobody waits is tried once more.
func TestCounter_ChangesAfterTheEnd(t *testing.T) {
	t.Parallel()
	counting(t, nil, func(t *testing.T, x *till) {
		ctx, cancel := context.WithCancel(t.Context())
		var sent atomic.Int32
		time.AfterFunc(5*time.Second, cancel)
		began := time.Now()
		_, answered, _ := x.Insist(ctx, time.Second*20, func() (int64, error) {
			sent.Add(1)
			return 0, errBroke
		})
		require.False(t, answered)
		require.Equal(t, 5*time.Second, time.Since(began))
		pass(20 * time.Second)
		before := sent.Load()
		close(x.closed)
		x.goroutines.Wait()
		require.Equal(t, before+1, sent.Load())
		require.Equal(t, []bool{false}, x.saw().abandoned)
	})
}

// A request tells the oldest one that is not settled. A message about many permits has many waiters asked for at once.
func TestCounter_Numbers(t *testing.T) {
	t.Parallel()
	counting(t, dictate(CountAnswer{TTL: -1}), func(t *testing.T, x *till) {
		w := x.waits(1, time.Hour)
		next(t, w, Refused)
		hold := make(chan struct{})
		x.goroutines.Go(func() {
			_, answered, err := x.Change(t.Context(), time.Hour, false, func(uint64, uint64, <-chan struct{}) (int64, error) {
				<-hold
				return 7, nil
			}, nil)
			assert.True(t, answered)
			assert.NoError(t, err)
		})
		synctest.Wait()
		x.Ask(w)
		next(t, w, Refused)
		close(hold)
		next(t, w, Reason)
		x.Ask(w)
		next(t, w, Refused)
		require.Equal(t, []uint64{1, 3, 4}, x.saw().numbers)
		require.Equal(t, []uint64{1, 2, 4}, x.saw().oldest)
		width := func() int {
			x.lock.Lock()
			defer x.lock.Unlock()
			return x.width
		}
		require.Equal(t, 1, width())
		x.Widen(math.MaxInt)
		require.Equal(t, MostAtOnce, width())
		x.Leave(w)
	})
}
