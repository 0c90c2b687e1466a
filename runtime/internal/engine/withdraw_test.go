package engine

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A said is the answer to a withdrawal.
type said struct {
	fate Fate
	err  error
}

// An office withdraws tickets as answer says, and notes what happens.
type office struct {
	answer          func(request int) said
	began           time.Time
	denied, givenUp atomic.Int32

	mu    sync.Mutex
	times []time.Duration // of requests
	asked map[uint64]int  // how often for each ticket
	named map[uint64]int  // the tokens in the place of each ticket, as the last request names it
}

func newOffice(answer func(request int) said) *office {
	return &office{answer: answer, asked: map[uint64]int{}, named: map[uint64]int{}, began: time.Now()}
}

// sent returns when requests came, and how often for each ticket.
func (o *office) sent() ([]time.Duration, map[uint64]int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.times), maps.Clone(o.asked)
}

// requests returns how many requests came.
func (o *office) requests() int {
	times, _ := o.sent()
	return len(times)
}

func (o *office) Withdraw(list []*Withdrawal) (Fate, error) {
	o.mu.Lock()
	o.times = append(o.times, time.Since(o.began))
	for _, wd := range list {
		o.asked[wd.Number]++
		o.named[wd.Number] = wd.Tokens
	}
	request := len(o.times)
	o.mu.Unlock()
	got := o.answer(request) // which may take its time
	return got.fate, got.err
}

func (o *office) Denied(error) { o.denied.Add(1) }

func (o *office) GivenUp(n int, _ error) { o.givenUp.Add(int32(n)) }

// idle reports whether the goroutine of ws has ended.
func (ws *Withdrawals) idle() bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return !ws.working && len(ws.groups) == 0 && len(ws.queue) == 0
}

// withdrawing runs f in virtual time with withdrawals to an office, which end with it.
func withdrawing(t *testing.T, answer func(request int) said, f func(t *testing.T, ws *Withdrawals, o *office, stop func())) {
	t.Helper()
	atOnce := func() <-chan struct{} {
		done := make(chan struct{})
		close(done)
		return done
	}
	withdrawingUntil(t, atOnce, answer, f)
}

// withdrawingUntil is withdrawing while other requests are under way, until settled says.
func withdrawingUntil(
	t *testing.T, settled func() <-chan struct{}, answer func(request int) said, f func(t *testing.T, ws *Withdrawals, o *office, stop func()),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var ws Withdrawals
		var goroutines sync.WaitGroup
		stopped := make(chan struct{})
		ws.Init(func(f func()) { goroutines.Go(f) }, stopped, settled)
		stop := sync.OnceFunc(func() { close(stopped) })
		f(t, &ws, newOffice(answer), stop)
		stop()
		goroutines.Wait()
		require.True(t, ws.idle())
	})
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

var (
	errBroke  = errors.New("the connection broke")
	errDenied = errors.New("permission denied")
)

func always(x said) func(int) said { return func(int) said { return x } }

// One answer is enough for a ticket without a request that may be late. The goroutine ends with the last ticket, and begins anew.
func TestWithdrawals_OneAnswerIsEnough(t *testing.T) {
	t.Parallel()
	withdrawing(t, always(said{}), func(t *testing.T, ws *Withdrawals, o *office, _ func()) {
		var over atomic.Int32
		for range 2 {
			ws.Add(o, &Withdrawal{Number: 1, Over: func() { over.Add(1) }}, &Withdrawal{Number: 2})
			synctest.Wait()
			require.True(t, ws.idle())
		}
		times, asked := o.sent()
		require.Equal(t, []time.Duration{0, 0}, times)
		require.Equal(t, map[uint64]int{1: 2, 2: 2}, asked)
		require.EqualValues(t, 2, over.Load())
	})
}

// A request for a ticket that may be late is watched for as long as it may take effect, with growing pauses.
func TestWithdrawals_Watch(t *testing.T) {
	t.Parallel()
	withdrawing(t, always(said{}), func(t *testing.T, ws *Withdrawals, o *office, _ func()) {
		var over atomic.Int32
		ws.Add(o, &Withdrawal{Number: 1, Watch: time.Second, Over: func() { over.Add(1) }})
		pass(999 * time.Millisecond)
		require.Zero(t, over.Load())
		pass(10 * time.Second)
		require.EqualValues(t, 1, over.Load())
		ms := time.Millisecond
		times, _ := o.sent()
		require.Equal(t, []time.Duration{0, 25 * ms, 75 * ms, 175 * ms, 375 * ms, 775 * ms, 1575 * ms}, times)
		require.True(t, ws.idle())
	})
}

// A ticket that is added again begins anew: an answer to an earlier request does not end it, and both calls learn of the end.
func TestWithdrawals_AddedAgain(t *testing.T) {
	t.Parallel()
	withdrawing(t, func(request int) said {
		if request == 1 {
			<-time.After(time.Second)
		}
		return said{}
	}, func(t *testing.T, ws *Withdrawals, o *office, _ func()) {
		var first, second, third atomic.Int32
		ws.Add(o, &Withdrawal{Number: 1, Over: func() { first.Add(1) }})
		synctest.Wait()
		ws.Add(o, &Withdrawal{Number: 1, Watch: time.Minute, Over: func() { second.Add(1) }})
		pass(2 * time.Second) // both are answered
		require.Zero(t, first.Load()+second.Load())
		ws.Add(o, &Withdrawal{Number: 1}, &Withdrawal{Number: 1, Over: func() { third.Add(1) }}) // while it is watched
		pass(time.Minute)
		require.Zero(t, first.Load()+second.Load()+third.Load())
		pass(10 * time.Second)
		require.Equal(t, []int32{1, 1, 1}, []int32{first.Load(), second.Load(), third.Load()})
	})
}

// A ticket that was added by its number alone, and then by its place in the wait queue, is withdrawn from its place, in either order.
func TestWithdrawals_ByNumberAndByPlace(t *testing.T) {
	t.Parallel()
	withdrawing(t, always(said{}), func(t *testing.T, ws *Withdrawals, o *office, _ func()) {
		byNumber := func(n uint64) *Withdrawal { return &Withdrawal{Number: n, Watch: time.Minute} }
		byPlace := func(n uint64) *Withdrawal { return &Withdrawal{Number: n, Tokens: 2, Watch: time.Minute} }
		ws.Add(o, byNumber(1), byPlace(2))
		pass(time.Second)
		ws.Add(o, byPlace(1), byNumber(2))
		pass(2 * time.Minute)
		o.mu.Lock()
		defer o.mu.Unlock()
		require.Equal(t, map[uint64]int{1: 2, 2: 2}, o.named)
	})
}

// Tickets that are added during a request go together, and do not wait for its answer for long.
func TestWithdrawals_AMuteConnectionHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	withdrawing(t, func(int) said {
		<-time.After(10 * time.Second)
		return said{}
	}, func(t *testing.T, ws *Withdrawals, o *office, _ func()) {
		for n := range uint64(4) {
			ws.Add(o, &Withdrawal{Number: n})
			pass(2 * time.Millisecond)
		}
		pass(time.Second)
		times, asked := o.sent()
		require.Equal(t, []time.Duration{0, withdrawTogether, 2 * withdrawTogether}, times)
		require.Equal(t, map[uint64]int{0: 1, 1: 1, 2: 1, 3: 1}, asked)
		pass(time.Minute)
		require.True(t, ws.idle())
	})
}

// One goroutine serves many groups, each at its own time. A group without an answer keeps no other one waiting.
func TestWithdrawals_Groups(t *testing.T) {
	t.Parallel()
	withdrawing(t, func(int) said {
		<-time.After(5 * time.Second)
		return said{FateUnknown, errBroke}
	}, func(t *testing.T, ws *Withdrawals, mute *office, _ func()) {
		ws.Add(mute, &Withdrawal{Number: 1})
		offices := make([]*office, 100)
		for i := range offices {
			offices[i] = newOffice(always(said{}))
			ws.Add(offices[i], &Withdrawal{Number: 1, Watch: time.Duration(i) * 10 * time.Millisecond})
		}
		pass(3 * time.Second)
		require.False(t, ws.idle(), "the mute one")
		for i, o := range offices {
			require.Equal(t, i > 0, o.requests() > 1, i)
		}
		require.Equal(t, 1, mute.requests())
	})
}

// An error is no answer. After a minute without one a ticket is given up, and a missing permission is reported once.
func TestWithdrawals_GiveUp(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]said{"broken": {FateUnknown, errBroke}, "denied": {FateDenied, errDenied}} {
		withdrawing(t, always(answer), func(t *testing.T, ws *Withdrawals, o *office, _ func()) {
			var over atomic.Int32
			ws.Add(o, &Withdrawal{Number: 1, Watch: time.Hour, Over: func() { over.Add(1) }})
			pass(withdrawLimit)
			require.Zero(t, over.Load(), name)
			pass(time.Second)
			require.EqualValues(t, 1, over.Load(), name)
			require.EqualValues(t, 1, o.givenUp.Load(), name)
			require.Equal(t, answer.fate == FateDenied, o.denied.Load() == 1, name)
			require.Greater(t, o.requests(), int(withdrawLimit/mostFailingWithdrawPause), name)
			require.True(t, ws.idle(), name)
		})
	}
}

// When the client is closed, a ticket that is watched is withdrawn once more; again if the outcome is unknown, and not on a server that
// is away.
func TestWithdrawals_Close(t *testing.T) {
	t.Parallel()
	answered, broken, away := said{}, said{FateUnknown, errBroke}, said{0, errBroke}
	closed, denied, refused := said{FateClosed, errBroke}, said{FateDenied, errDenied}, said{FateRefused, errBroke}
	for name, test := range map[string]struct {
		before, after said
		more          int
	}{
		"answered":                {answered, answered, 1},
		"answered, then broken":   {answered, broken, mostRest},
		"answered, then away":     {answered, away, 1},
		"answered, then closed":   {answered, closed, 1},
		"answered, then denied":   {answered, denied, 1},
		"broken":                  {broken, broken, mostRest},
		"broken, then answered":   {broken, answered, 1},
		"not there":               {away, answered, 0},
		"not there, and nor then": {away, away, 0},
		"closed":                  {closed, closed, 0},
		"not allowed":             {denied, answered, 0},
		"refused for now":         {refused, answered, 1},
		"refused, and again then": {refused, refused, 1},
	} {
		withdrawing(t, func(request int) said {
			if request == 1 {
				return test.before
			}
			return test.after
		}, func(t *testing.T, ws *Withdrawals, o *office, stop func()) {
			var over atomic.Int32
			ws.Add(o, &Withdrawal{Number: 1, Watch: time.Hour, Over: func() { over.Add(1) }})
			synctest.Wait()
			require.Equal(t, 1, o.requests(), name)
			stop()
			synctest.Wait()
			require.Equal(t, 1+test.more, o.requests(), name)
			require.EqualValues(t, 1, over.Load(), name)
			require.True(t, ws.idle(), name)
		})
	}
	withdrawing(t, func(int) said { // those that come during a request do not wait for its answer any more
		<-time.After(time.Second)
		return said{}
	}, func(t *testing.T, ws *Withdrawals, o *office, stop func()) {
		ws.Add(o, &Withdrawal{Number: 1})
		synctest.Wait()
		ws.Add(o, &Withdrawal{Number: 2})
		stop()
		synctest.Wait()
		times, asked := o.sent()
		require.Equal(t, []time.Duration{0, 0}, times)
		require.Equal(t, map[uint64]int{1: 1, 2: 1}, asked)
	})
	withdrawing(t, always(said{}), func(t *testing.T, ws *Withdrawals, o *office, stop func()) { // one that is not watched is not sent again
		ws.Add(o, &Withdrawal{Number: 1})
		synctest.Wait()
		stop()
		synctest.Wait()
		require.Equal(t, 1, o.requests())
	})
	withdrawing(t, always(said{}), func(t *testing.T, ws *Withdrawals, o *office, stop func()) { // nor is another one that comes later
		ws.Add(o, &Withdrawal{Number: 1, Watch: time.Hour})
		synctest.Wait()
		stop()
		ws.Add(o, &Withdrawal{Number: 2})
		synctest.Wait()
		_, asked := o.sent()
		require.Equal(t, map[uint64]int{1: 2, 2: 1}, asked)
		ws.Add(o, &Withdrawal{Number: 3, Watch: time.Hour}) // by a call that ends after Close
		synctest.Wait()
		_, asked = o.sent()
		require.Equal(t, map[uint64]int{1: 2, 2: 1, 3: 2}, asked)
		require.True(t, ws.idle())
	})
	withdrawing(t, func(request int) said { // the request of Close is under way when another ticket comes
		if request > 1 {
			<-time.After(time.Second)
		}
		return said{}
	}, func(t *testing.T, ws *Withdrawals, o *office, stop func()) {
		ws.Add(o, &Withdrawal{Number: 1, Watch: time.Hour})
		synctest.Wait()
		stop()
		synctest.Wait()
		ws.Add(o, &Withdrawal{Number: 2, Watch: time.Hour})
		pass(2 * time.Second)
		_, asked := o.sent()
		require.Equal(t, map[uint64]int{1: 2, 2: 1}, asked)
		require.True(t, ws.idle())
	})
}

// When the client is closed, tickets that are watched are withdrawn for the last time when the requests before are settled, also one that comes
// after that. A ticket that is not watched waits for nothing.
func TestWithdrawals_CloseWaitsForEarlierRequests(t *testing.T) {
	t.Parallel()
	settles := func() <-chan struct{} {
		done := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(done) })
		return done
	}
	withdrawingUntil(t, settles, always(said{}), func(t *testing.T, ws *Withdrawals, o *office, stop func()) {
		ws.Add(o, &Withdrawal{Number: 1, Watch: time.Hour})
		pass(time.Minute)
		before, _ := o.sent()
		stop()
		pass(999 * time.Millisecond)
		require.Equal(t, len(before), o.requests())
		pass(time.Millisecond)
		require.Equal(t, len(before)+1, o.requests())
		require.True(t, ws.idle())

		ws.Add(o, &Withdrawal{Number: 2, Watch: time.Hour})
		synctest.Wait()
		_, asked := o.sent()
		require.Equal(t, 1, asked[2], "at once")
		require.False(t, ws.idle())
		pass(time.Second)
		_, asked = o.sent()
		require.Greater(t, asked[2], 1)
		require.True(t, ws.idle())
	})
	withdrawingUntil(t, settles, func(request int) said { // the last request is under way when another ticket comes
		if request == 2 {
			<-time.After(time.Minute)
		}
		return said{}
	}, func(t *testing.T, ws *Withdrawals, o *office, stop func()) {
		ws.Add(o, &Withdrawal{Number: 1, Watch: time.Minute})
		stop()
		pass(time.Second)
		require.Equal(t, 2, o.requests())
		ws.Add(o, &Withdrawal{Number: 2, Watch: time.Hour})
		pass(2 * time.Minute)
		times, asked := o.sent()
		require.GreaterOrEqual(t, asked[2], 2, "at once, and when the requests before are settled")
		require.GreaterOrEqual(t, times[len(times)-1]-times[1], time.Second)
		require.True(t, ws.idle())
	})
	withdrawingUntil(t, settles, always(said{0, errBroke}), func(t *testing.T, ws *Withdrawals, o *office, stop func()) {
		ws.Add(o, &Withdrawal{Number: 1})
		synctest.Wait()
		require.False(t, ws.idle())
		stop()
		synctest.Wait()
		require.True(t, ws.idle())
	})
}

// A ticket to watch that is added while the last requests begin, or are under way, is withdrawn when the requests of its call are settled, too.
func TestWithdrawals_AddedAsTheLastRequestsBegin(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		number uint64        // of the ticket that is added: again, for 1
		after  time.Duration // since the earlier requests are settled
	}{
		"another one, at once": {2, 0},
		"another one":          {2, 100 * time.Millisecond},
		"the same, at once":    {1, 0},
		"the same":             {1, 100 * time.Millisecond},
	} {
		var first chan struct{}
		settles := func() <-chan struct{} {
			done := make(chan struct{})
			if first == nil {
				first = done
				return done
			}
			time.AfterFunc(2*time.Second, func() { close(done) })
			return done
		}
		withdrawingUntil(t, settles, func(request int) said {
			if request > 1 {
				<-time.After(300 * time.Millisecond)
			}
			return said{}
		}, func(t *testing.T, ws *Withdrawals, o *office, stop func()) {
			t.Helper()
			ws.Add(o, &Withdrawal{Number: 1, Watch: time.Hour})
			synctest.Wait()
			stop()
			synctest.Wait()
			close(first)
			if test.after > 0 {
				pass(test.after)
			}
			ws.Add(o, &Withdrawal{Number: test.number, Watch: time.Hour})
			pass(1900 * time.Millisecond)
			_, before := o.sent()
			pass(3 * time.Second)
			_, after := o.sent()
			require.Greater(t, after[test.number], before[test.number], name)
			require.True(t, ws.idle(), name)
		})
	}
}

// A ticket to watch that is added while earlier requests are settled is withdrawn for the last time when those of its call are settled, too.
func TestWithdrawals_AddedWhileEarlierRequestsAreSettled(t *testing.T) {
	t.Parallel()
	var calls chan chan struct{} // of settled, and what ends them
	settles := func() <-chan struct{} {
		done := make(chan struct{})
		calls <- done
		return done
	}
	withdrawingUntil(t, settles, always(said{}), func(t *testing.T, ws *Withdrawals, o *office, stop func()) {
		calls = make(chan chan struct{}, 10)
		ws.Add(o, &Withdrawal{Number: 1, Watch: time.Hour})
		stop()
		first := <-calls
		synctest.Wait()
		ws.Add(o, &Withdrawal{Number: 2, Watch: time.Hour})
		synctest.Wait()
		close(first)
		synctest.Wait()
		require.Len(t, calls, 1)
		require.False(t, ws.idle())
		close(<-calls)
		synctest.Wait()
		require.True(t, ws.idle())
		_, asked := o.sent()
		require.Equal(t, map[uint64]int{1: 2, 2: 2}, asked)
	})
}

// The answer to an earlier request says nothing about a ticket that is added once more and sent again, of which the answer is still to come.
func TestWithdrawals_AnsweredAfterItIsSentAgain(t *testing.T) {
	t.Parallel()
	var first, second chan struct{}
	withdrawing(t, func(request int) said {
		switch request {
		case 1:
			<-first
		case 2:
			<-second
			return said{FateUnknown, errBroke}
		}
		return said{}
	}, func(t *testing.T, ws *Withdrawals, o *office, _ func()) {
		first, second = make(chan struct{}), make(chan struct{})
		var over atomic.Int32
		ws.Add(o, &Withdrawal{Number: 1, Over: func() { over.Add(1) }})
		synctest.Wait()
		ws.Add(o, &Withdrawal{Number: 1})
		pass(withdrawTogether)
		require.Equal(t, 2, o.requests())
		close(first)
		synctest.Wait()
		require.Zero(t, over.Load())
		close(second)
		pass(mostFailingWithdrawPause)
		require.Equal(t, 3, o.requests())
		require.EqualValues(t, 1, over.Load())
	})
}

// A ticket is over when its connection is closed for good, though the client is open.
func TestWithdrawals_ConnectionClosedForGood(t *testing.T) {
	t.Parallel()
	withdrawing(t, always(said{FateClosed, errBroke}), func(t *testing.T, ws *Withdrawals, o *office, _ func()) {
		var over atomic.Int32
		ws.Add(o, &Withdrawal{Number: 1, Watch: time.Hour, Over: func() { over.Add(1) }})
		synctest.Wait()
		require.EqualValues(t, 1, over.Load())
		require.True(t, ws.idle())
		require.Equal(t, 1, o.requests())
	})
}

// A ticket that was withdrawn is watched to the end, however long that is.
func TestWithdrawals_WatchedForLong(t *testing.T) {
	t.Parallel()
	withdrawing(t, func(request int) said {
		if request > 1 {
			return said{FateUnknown, errBroke}
		}
		return said{}
	}, func(t *testing.T, ws *Withdrawals, o *office, _ func()) {
		var over atomic.Int32
		ws.Add(o, &Withdrawal{Number: 1, Watch: 2 * withdrawLimit, Over: func() { over.Add(1) }})
		pass(2*withdrawLimit - time.Millisecond)
		require.Zero(t, over.Load())
		pass(mostFailingWithdrawPause)
		require.EqualValues(t, 1, over.Load())
		require.Zero(t, o.givenUp.Load())
	})
}
