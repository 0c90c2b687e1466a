package engine

import (
	"errors"
	"sync"
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
	mu      sync.Mutex
	answer  func(request int) said
	sent    []time.Duration // when requests came
	asked   map[uint64]int  // how often for each ticket
	denied  int
	givenUp int
	began   time.Time
}

func (o *office) Withdraw(list []*Withdrawal) (Fate, error) {
	o.mu.Lock()
	o.sent = append(o.sent, time.Since(o.began))
	for _, wd := range list {
		o.asked[wd.Number]++
	}
	request := len(o.sent)
	o.mu.Unlock()
	got := o.answer(request) // which may take its time
	return got.fate, got.err
}

func (o *office) Denied(error) { o.denied++ }

func (o *office) GivenUp(n int, _ error) { o.givenUp += n }

// withdrawing runs f in virtual time with withdrawals to an office, which end with it.
func withdrawing(t *testing.T, answer func(request int) said, f func(t *testing.T, ws *Withdrawals, o *office, stop func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var ws Withdrawals
		var goroutines sync.WaitGroup
		stopped := make(chan struct{})
		ws.Init(func(f func()) { goroutines.Go(f) }, stopped)
		stop := sync.OnceFunc(func() { close(stopped) })
		f(t, &ws, &office{answer: answer, asked: map[uint64]int{}, began: time.Now()}, stop)
		stop()
		goroutines.Wait()
		require.Empty(t, ws.groups)
		require.Empty(t, ws.queue)
		require.False(t, ws.working)
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
		over := 0
		for range 2 {
			ws.Add(o, &Withdrawal{Number: 1, Over: func() { over++ }}, &Withdrawal{Number: 2})
			synctest.Wait()
			require.False(t, ws.working)
		}
		require.Equal(t, []time.Duration{0, 0}, o.sent)
		require.Equal(t, map[uint64]int{1: 2, 2: 2}, o.asked)
		require.Equal(t, 2, over)
	})
}

// A request for a ticket that may be late is watched for as long as it may take effect, with growing pauses.
func TestWithdrawals_Watch(t *testing.T) {
	t.Parallel()
	withdrawing(t, always(said{}), func(t *testing.T, ws *Withdrawals, o *office, _ func()) {
		over := 0
		ws.Add(o, &Withdrawal{Number: 1, Watch: time.Second, Over: func() { over++ }})
		pass(999 * time.Millisecond)
		require.Zero(t, over)
		pass(10 * time.Second)
		require.Equal(t, 1, over)
		ms := time.Millisecond
		require.Equal(t, []time.Duration{0, 25 * ms, 75 * ms, 175 * ms, 375 * ms, 775 * ms, 1575 * ms}, o.sent)
		require.False(t, ws.working)
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
		first, second, third := 0, 0, 0
		ws.Add(o, &Withdrawal{Number: 1, Over: func() { first++ }})
		synctest.Wait()
		ws.Add(o, &Withdrawal{Number: 1, Watch: time.Minute, Over: func() { second++ }})
		pass(2 * time.Second) // both are answered
		require.Zero(t, first+second)
		ws.Add(o, &Withdrawal{Number: 1}, &Withdrawal{Number: 1, Over: func() { third++ }}) // while it is watched
		pass(time.Minute)
		require.Zero(t, first+second+third)
		pass(10 * time.Second)
		require.Equal(t, []int{1, 1, 1}, []int{first, second, third})
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
		require.Equal(t, []time.Duration{0, withdrawTogether, 2 * withdrawTogether}, o.sent)
		require.Equal(t, map[uint64]int{0: 1, 1: 1, 2: 1, 3: 1}, o.asked)
		pass(time.Minute)
		require.False(t, ws.working)
	})
}

// One goroutine serves many groups, each at its own time. A group without an answer keeps no other one waiting.
func TestWithdrawals_Groups(t *testing.T) {
	t.Parallel()
	withdrawing(t, always(said{}), func(t *testing.T, ws *Withdrawals, mute *office, _ func()) {
		mute.answer = func(int) said {
			<-time.After(5 * time.Second)
			return said{FateUnknown, errBroke}
		}
		ws.Add(mute, &Withdrawal{Number: 1})
		offices := make([]*office, 100)
		for i := range offices {
			offices[i] = &office{answer: always(said{}), asked: map[uint64]int{}, began: time.Now()}
			ws.Add(offices[i], &Withdrawal{Number: 1, Watch: time.Duration(i) * 10 * time.Millisecond})
		}
		pass(3 * time.Second)
		require.Len(t, ws.groups, 1, "the mute one")
		for i, o := range offices {
			require.Equal(t, i > 0, len(o.sent) > 1, i)
		}
		require.Len(t, mute.sent, 1)
	})
}

// An error is no answer. After a minute without one a ticket is given up, and a missing permission is reported once.
func TestWithdrawals_GiveUp(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]said{"broken": {FateUnknown, errBroke}, "denied": {FateDenied, errDenied}} {
		withdrawing(t, always(answer), func(t *testing.T, ws *Withdrawals, o *office, _ func()) {
			over := 0
			ws.Add(o, &Withdrawal{Number: 1, Watch: time.Hour, Over: func() { over++ }})
			pass(withdrawLimit)
			require.Zero(t, over, name)
			pass(time.Second)
			require.Equal(t, 1, over, name)
			require.Equal(t, 1, o.givenUp, name)
			require.Equal(t, answer.fate == FateDenied, o.denied == 1, name)
			require.Greater(t, len(o.sent), int(withdrawLimit/mostFailingWithdrawPause), name)
			require.False(t, ws.working, name)
		})
	}
}

// When the client is closed, the rest is sent once more; again if its outcome is unknown, and not to a server that is away.
func TestWithdrawals_Close(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer said
		more   int
	}{
		"answered":    {said{}, 0},
		"broken":      {said{FateUnknown, errBroke}, mostRest},
		"not there":   {said{0, errBroke}, 0},
		"closed":      {said{FateClosed, errBroke}, 0},
		"not allowed": {said{FateDenied, errDenied}, 0},
	} {
		withdrawing(t, always(test.answer), func(t *testing.T, ws *Withdrawals, o *office, stop func()) {
			over := 0
			ws.Add(o, &Withdrawal{Number: 1, Watch: time.Hour, Over: func() { over++ }})
			synctest.Wait()
			require.Len(t, o.sent, 1, name)
			stop()
			synctest.Wait()
			require.Len(t, o.sent, 1+test.more, name)
			require.Equal(t, 1, over, name)
			require.False(t, ws.working, name)
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
		require.Equal(t, []time.Duration{0, 0}, o.sent)
		require.Equal(t, map[uint64]int{1: 1, 2: 1}, o.asked)
	})
}
