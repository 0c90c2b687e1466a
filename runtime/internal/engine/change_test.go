package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// oldest is a send of a change that tells the oldest number that is not settled.
func oldest(_, oldest uint64, _ <-chan struct{}) (int64, error) { return int64(oldest), nil }

// A change without an answer is sent again as long as its caller waits, and no more when the caller has left, unless it is made anyway. The
// next request tells Redis to refuse what is late of it.
func TestChange_SendsNoMoreWhenTheCallerHasLeft(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]struct{ ctx, limit time.Duration }{
		"ctx":   {5050 * time.Millisecond, time.Minute}, // in a pause
		"limit": {time.Minute, 5050 * time.Millisecond},
	} {
		for _, anyway := range []bool{false, true} {
			counting(t, nil, func(t *testing.T, x *till) {
				ctx, cancel := context.WithTimeout(t.Context(), ends.ctx)
				defer cancel()
				var sent atomic.Int32
				began := monotonic.Now()
				_, answered, _ := x.Change(ctx, ends.limit, anyway, func(uint64, uint64, <-chan struct{}) (int64, error) {
					sent.Add(1)
					return 0, errBroke
				}, nil)
				require.False(t, answered, name)
				require.LessOrEqual(t, monotonic.Since(began), 5050*time.Millisecond, name)
				before := sent.Load()
				require.Greater(t, before, int32(2), name)
				n, answered, err := x.Change(t.Context(), time.Minute, false, oldest, nil)
				require.NoError(t, err)
				require.True(t, answered)
				if anyway {
					require.EqualValues(t, 1, n, "the change goes on")
				} else {
					require.EqualValues(t, 2, n, "the change is settled")
				}
				x.goroutines.Wait()
				require.Equal(t, anyway, sent.Load() > before, name)
				require.Equal(t, anyway, len(x.saw().abandoned) > 0, name)
			})
		}
	}
}

// A change until a context ends is sent for as long as Insist sends, and its caller waits for that long, or until the context ends: the number is
// settled then.
func TestChangeUntil(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ends  time.Duration // of the context
		takes time.Duration // until there is an answer
		want  error
	}{
		"answered":         {time.Hour, 20 * time.Second, nil},
		"given up":         {time.Hour, time.Hour, errBroke},
		"ended in a pause": {20*time.Second + 50*time.Millisecond, time.Hour, nil},
	} {
		counting(t, nil, func(t *testing.T, x *till) {
			ctx, cancel := context.WithTimeout(t.Context(), test.ends)
			defer cancel()
			var sent atomic.Int32
			began := monotonic.Now()
			n, answered, err := x.ChangeUntil(ctx, 5*time.Second, func(uint64, uint64, <-chan struct{}) (int64, error) {
				sent.Add(1)
				if monotonic.Since(began) < test.takes {
					return 0, errBroke
				}
				return 7, nil
			})
			require.ErrorIs(t, err, test.want, name)
			require.Equal(t, test.takes < test.ends && test.want == nil, answered, name)
			if answered {
				require.EqualValues(t, 7, n, name)
			}
			require.Equal(t, test.want != nil, monotonic.Since(began) > 50*time.Second, name)
			before := sent.Load()
			n, _, err = x.Change(t.Context(), time.Minute, false, oldest, nil)
			require.NoError(t, err, name)
			require.EqualValues(t, 2, n, name)
			x.goroutines.Wait()
			require.Equal(t, before, sent.Load(), name)
			require.Equal(t, test.want != nil, len(x.saw().abandoned) > 0, name)
		})
	}
}

// One that is under way when the context ends is not sent again, nor is its outcome reported.
func TestChangeUntil_UnderWay(t *testing.T) {
	t.Parallel()
	counting(t, nil, func(t *testing.T, x *till) {
		ctx, cancel := context.WithCancel(t.Context())
		sent := 0
		_, answered, err := x.ChangeUntil(ctx, 5*time.Second, func(_, _ uint64, left <-chan struct{}) (int64, error) {
			sent++
			cancel()
			<-left
			return 0, errBroke
		})
		require.False(t, answered)
		require.NoError(t, err)
		x.goroutines.Wait()
		require.Equal(t, 1, sent)
		require.Empty(t, x.saw().abandoned)
	})
}

// A request that is under way when its caller leaves may be done or not. It is not sent again. If it is done all the same, the undo gets the
// answer, and the waiters of this process wake. If that stays unknown, it is withdrawn, and the undo gets what it did. It is settled then, and not before.
func TestChange_UnderWayWhenTheCallerLeaves(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err       error
		withdrawn int
		late      []int64
	}{
		"unknown": {err: errBroke, withdrawn: 2, late: []int64{5}},
		"no":      {err: errPasses},
		"refused": {err: errLasting},
		"done":    {late: []int64{7}},
	} {
		counting(t, dictate(CountAnswer{TTL: -1}), func(t *testing.T, x *till) {
			w := x.waits(1, time.Hour)
			next(t, w, Refused)
			ctx, cancel := context.WithCancel(t.Context())
			answer := make(chan struct{})
			var late []int64
			sent, withdrawn := 0, 0
			var told <-chan struct{}
			x.goroutines.Go(func() {
				synctest.Wait()
				cancel()
			})
			_, answered, err := x.Change(ctx, time.Minute, false, func(_, _ uint64, left <-chan struct{}) (int64, error) {
				sent, told = sent+1, left
				<-answer
				return 7, test.err
			}, &Undo{
				Withdraw: func(number, oldest uint64) (int64, error) {
					require.EqualValues(t, 2, number, name)
					require.Equal(t, number, oldest, name)
					if withdrawn++; withdrawn == 1 {
						return 0, errBroke
					}
					return 5, nil
				},
				Late: func(n int64) { late = append(late, n) },
			})
			require.False(t, answered, name)
			require.NoError(t, err, name)
			<-told
			n, answered, err := x.Change(t.Context(), time.Minute, false, oldest, nil)
			require.NoError(t, err, name)
			require.True(t, answered, name)
			require.EqualValues(t, 2, n, name)
			next(t, w, Reason)
			close(answer)
			synctest.Wait()
			_, woken := w.NextEvent()
			require.Equal(t, test.err == nil, woken, name)
			x.goroutines.Wait()
			require.Equal(t, 1, sent, name)
			require.Equal(t, test.withdrawn, withdrawn, name)
			n, _, err = x.Change(t.Context(), time.Minute, false, oldest, nil)
			require.NoError(t, err, name)
			require.EqualValues(t, 4, n, name)
			require.Equal(t, test.late, late, name)
			require.Empty(t, x.saw().abandoned, name)
			x.Leave(w)
		})
	}
}

// A change without an answer in time is withdrawn, too, when its caller gets an error.
func TestChange_WithoutAnAnswerInTime(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]error{"each broke": errBroke, "the last one was refused": errLasting} {
		counting(t, nil, func(t *testing.T, x *till) {
			var late []int64
			withdrawn := 0
			began := monotonic.Now()
			_, answered, err := x.Change(t.Context(), 5050*time.Millisecond, false, func(uint64, uint64, <-chan struct{}) (int64, error) {
				if monotonic.Since(began) > 2*time.Second {
					return 0, last
				}
				return 0, errBroke
			}, &Undo{
				Withdraw: func(number, oldest uint64) (int64, error) {
					require.Equal(t, number, oldest, name)
					withdrawn++
					return 5, nil
				},
				Late: func(n int64) { late = append(late, n) },
			})
			require.False(t, answered, name)
			require.ErrorIs(t, err, last, name)
			x.goroutines.Wait()
			require.Equal(t, 1, withdrawn, name)
			require.Equal(t, []int64{5}, late, name)
			n, _, err := x.Change(t.Context(), time.Minute, false, oldest, nil)
			require.NoError(t, err, name)
			require.EqualValues(t, 2, n, "it is settled")
		})
	}
}

// A tardy host starts goroutines when it is told to.
type tardy struct {
	*till

	start []func()
}

func (h *tardy) Spawn(f func()) { h.start = append(h.start, f) }

// A change whose caller has left before its first request is sent never is.
func TestChange_NeverSentWhenTheCallerHasLeftBefore(t *testing.T) {
	t.Parallel()
	counting(t, nil, func(t *testing.T, x *till) {
		host := &tardy{till: x}
		x.Init(x, host, &x.lock)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, answered, err := x.Change(ctx, time.Minute, false, func(uint64, uint64, <-chan struct{}) (int64, error) {
			t.Error("it is sent")
			return 0, nil
		}, nil)
		require.False(t, answered)
		require.NoError(t, err)
		for _, f := range host.start {
			f()
		}
		require.Len(t, host.start, 1)
	})
}

// A request whose caller has left, and that can be withdrawn no more, is reported: what it took may be lost.
func TestChange_ThatCannotBeWithdrawn(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err    error
		closes bool
	}{
		"for a minute":                 {err: errBroke},
		"before the end of the client": {err: errBroke, closes: true},
		"for good":                     {err: errLasting},
	} {
		counting(t, nil, func(t *testing.T, x *till) {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			closes := sync.OnceFunc(func() { close(x.closed) })
			began := monotonic.Now()
			_, answered, err := x.Change(ctx, time.Minute, false, func(uint64, uint64, <-chan struct{}) (int64, error) {
				return 0, errBroke
			}, &Undo{
				Withdraw: func(uint64, uint64) (int64, error) {
					if test.closes {
						closes()
					}
					return 0, test.err
				},
				Late: func(int64) { t.Error("it is undone") },
			})
			require.False(t, answered, name)
			require.NoError(t, err, name)
			x.goroutines.Wait()
			require.Equal(t, []bool{true}, x.saw().abandoned, name)
			require.LessOrEqual(t, monotonic.Since(began), insistence, name)
			n, _, err := x.Change(t.Context(), time.Minute, false, oldest, nil)
			require.NoError(t, err, name)
			require.EqualValues(t, 2, n, "it is settled")
		})
	}
}

// Either the caller gets the answer, or the undo does, also when the caller leaves at the same time.
func TestChange_OneGetsTheAnswer(t *testing.T) {
	t.Parallel()
	for range 100 {
		counting(t, nil, func(t *testing.T, x *till) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var late atomic.Int64
			n, answered, err := x.Change(ctx, time.Minute, false, func(uint64, uint64, <-chan struct{}) (int64, error) {
				cancel()
				return 7, nil
			}, &Undo{Late: func(n int64) { late.Add(n) }})
			require.NoError(t, err)
			x.goroutines.Wait()
			require.Equal(t, answered, n == 7)
			require.Equal(t, answered, late.Load() == 0)
			require.EqualValues(t, 7, n+late.Load())
		})
	}
}
