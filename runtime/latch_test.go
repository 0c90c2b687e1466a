package lockrt_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// newLatch returns a latch that is set to n, and where it says that somebody begins to wait.
func newLatch(t *testing.T, n int) (*lockrt.CountDownLatch, <-chan string) {
	t.Helper()
	hooks, waiting, _ := watch()
	l := newClient(t, lockrt.Options{Hooks: hooks}).CountDownLatch(redistest.Key(t, "l"))
	if n > 0 {
		started, err := l.SetCount(t.Context(), n)
		require.NoError(t, err)
		require.True(t, started)
	}
	return l, waiting
}

func requireCount(t *testing.T, want int, l *lockrt.CountDownLatch) {
	t.Helper()
	n, err := l.Count(patient(t))
	require.NoError(t, err)
	require.Equal(t, want, n)
}

func countDown(t *testing.T, l *lockrt.CountDownLatch, left int) {
	t.Helper()
	n, err := l.CountDown(t.Context())
	require.NoError(t, err)
	require.Equal(t, left, n)
}

// hears waits until as many clients listen to what is said of the latch.
func hears(t *testing.T, l *lockrt.CountDownLatch, n int64) {
	t.Helper()
	until(t, "they listen", func() bool {
		return subscribers(t, redistest.Shared(t), "redisson_countdownlatch__channel__{"+l.Key()+"}") == n
	})
}

func TestRedisson_Latch_AwaitTimeout(t *testing.T) {
	t.Parallel()
	l, waiting := newLatch(t, 1)
	got := later(func() error { return l.Wait(patient(t), lockrt.WithWait(patience)) })
	receive(t, waiting, "it to wait")
	countDown(t, l, 0)
	require.NoError(t, receive(t, got, "the end of the wait"))
}

func TestRedisson_Latch_AwaitTimeoutFail(t *testing.T) {
	t.Parallel()
	l, _ := newLatch(t, 1)
	start := time.Now()
	err := l.Wait(patient(t), lockrt.WithWait(100*time.Millisecond))
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	require.GreaterOrEqual(t, time.Since(start), 100*time.Millisecond)
	require.ErrorIs(t, l.Wait(patient(t), lockrt.WithWait(0)), lockrt.ErrNotAcquired)
	requireCount(t, 1, l)
}

func TestRedisson_Latch_MultiAwait(t *testing.T) {
	t.Parallel()
	l, waiting := newLatch(t, 5)
	hooks, thirdWaiting, _ := watch()
	third := newClient(t, lockrt.Options{Hooks: hooks}).CountDownLatch(l.Key())
	got := make(chan error, 10)
	for range 5 {
		go func() { got <- l.Wait(patient(t)) }()
		receive(t, waiting, "it to wait")
		go func() { got <- third.Wait(patient(t)) }()
		receive(t, thirdWaiting, "it to wait")
	}
	for left := 4; left >= 0; left-- {
		requireNothing(t, got)
		countDown(t, l, left)
	}
	for range cap(got) {
		require.NoError(t, receive(t, got, "the end of the wait"))
	}
	require.Zero(t, number(t, redistest.Shared(t), "EXISTS", l.Key()))
}

func TestRedisson_Latch_CountDown(t *testing.T) {
	t.Parallel()
	l, _ := newLatch(t, 2)
	requireCount(t, 2, l)
	countDown(t, l, 1)
	requireCount(t, 1, l)
	for range 3 {
		countDown(t, l, 0)
		requireCount(t, 0, l)
		require.NoError(t, l.Wait(patient(t)))
	}
	none, _ := newLatch(t, 0)
	countDown(t, none, 0)
	require.NoError(t, none.Wait(patient(t)))
	require.Zero(t, number(t, redistest.Shared(t), "EXISTS", none.Key()))
}

func TestRedisson_Latch_Delete(t *testing.T) {
	t.Parallel()
	l, _ := newLatch(t, 1)
	deleted, err := l.Delete(t.Context())
	require.NoError(t, err)
	require.True(t, deleted)
	require.Zero(t, number(t, redistest.Shared(t), "EXISTS", l.Key()))
	requireCount(t, 0, l)
	require.NoError(t, l.Wait(patient(t)), "there is none")
}

func TestRedisson_Latch_DeleteFailed(t *testing.T) {
	t.Parallel()
	l, _ := newLatch(t, 0)
	deleted, err := l.Delete(t.Context())
	require.NoError(t, err)
	require.False(t, deleted)
}

func TestRedisson_Latch_TrySetCount(t *testing.T) {
	t.Parallel()
	l, _ := newLatch(t, 2)
	started, err := l.SetCount(t.Context(), 4)
	require.NoError(t, err)
	require.False(t, started)
	requireCount(t, 2, l)
}

func TestRedisson_Latch_Count(t *testing.T) {
	t.Parallel()
	l, _ := newLatch(t, 0)
	requireCount(t, 0, l)
	_, err := l.SetCount(t.Context(), 3)
	require.NoError(t, err)
	requireCount(t, 3, l)
}

func TestRedisson_Latch_SingleCountDownAwait_SingleInstance(t *testing.T) {
	t.Parallel()
	const many = 24
	l, _ := newLatch(t, many)
	var wg sync.WaitGroup
	for range many {
		wg.Go(func() {
			if err := l.Wait(patient(t)); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if _, err := l.CountDown(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	requireCount(t, 0, l)
}

// The deletion of a latch ends all waits for it, by this library or by Java, with the message or
// without.
func TestLatch_DeletedFailsThoseWhoWait(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for name, remove := range map[string]func(l *lockrt.CountDownLatch){
		"by this library": func(l *lockrt.CountDownLatch) {
			deleted, err := newClient(t, lockrt.Options{}).CountDownLatch(l.Key()).Delete(t.Context())
			require.NoError(t, err)
			require.True(t, deleted)
		},
		"unheard": func(l *lockrt.CountDownLatch) {
			server.Do("EVAL", "redis.call('del', KEYS[1]) redis.call('set', KEYS[2], 1, 'PX', 60000)", "2", l.Key(), "lockgen_deleted:{"+l.Key()+"}")
		},
		"by Java": func(l *lockrt.CountDownLatch) {
			server.Do("EVAL", "redis.call('del', KEYS[1]) redis.call('publish', KEYS[2], 1)", "2", l.Key(), "redisson_countdownlatch__channel__{"+l.Key()+"}")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, waiting := newLatch(t, 2)
			got := make(chan error, 70) // more than one request asks for
			for range cap(got) {
				go func() { got <- l.Wait(patient(t)) }()
				receive(t, waiting, "it to wait")
			}
			hears(t, l, 1)
			remove(l)
			for range cap(got) {
				err := receive(t, got, "the end of the wait")
				require.ErrorIs(t, err, lockrt.ErrDeleted)
				require.EqualError(t, err, `lockgen: wait "`+l.Key()+`": latch deleted`)
			}
		})
	}
}

// Counted down by Java, with plain commands; or by a program that does not say so.
func TestLatch_IsOpenedByOthers(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for name, said := range map[string]bool{"heard": true, "unheard": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, waiting := newLatch(t, 1)
			got := later(func() error { return l.Wait(patient(t)) })
			receive(t, waiting, "it to wait")
			hears(t, l, 1)
			server.Do("DEL", l.Key())
			if said {
				server.Do("PUBLISH", "redisson_countdownlatch__channel__{"+l.Key()+"}", "0")
			}
			require.NoError(t, receive(t, got, "the end of the wait"))
		})
	}
}

// Redisson says the same of a latch that was set and of one that was deleted.
func TestLatch_SetWhileSomebodyListensIsNotDeleted(t *testing.T) {
	t.Parallel()
	l, waiting := newLatch(t, 1)
	got := later(func() error { return l.Wait(patient(t)) })
	receive(t, waiting, "it to wait")
	hears(t, l, 1)
	server := redistest.Shared(t)
	channel := "redisson_countdownlatch__channel__{" + l.Key() + "}"
	server.Do("PUBLISH", channel, "1")
	requireCount(t, 1, l)
	requireNothing(t, got)
	countDown(t, l, 0)
	require.NoError(t, receive(t, got, "the end of the wait"))
}

func TestLatch_SaysWhatJavaUnderstands(t *testing.T) {
	t.Parallel()
	l, _ := newLatch(t, 0)
	said := listen(t, "redisson_countdownlatch__channel__{"+l.Key()+"}")
	for range 2 {
		_, err := l.SetCount(t.Context(), 2)
		require.NoError(t, err)
	}
	require.Equal(t, "1", receive(t, said, "that it was set"))
	for range 3 {
		_, err := l.CountDown(t.Context())
		require.NoError(t, err)
	}
	require.Equal(t, "0", receive(t, said, "that it is open"))
	_, err := l.SetCount(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, "1", receive(t, said, "that it was set"))
	_, err = l.Delete(t.Context())
	require.NoError(t, err)
	require.Equal(t, "1", receive(t, said, "that it was deleted"))
	requireNothing(t, said)
}

func TestLatch_CanBeUsedAgain(t *testing.T) {
	t.Parallel()
	l, waiting := newLatch(t, 0)
	for range 5 {
		started, err := l.SetCount(t.Context(), 2)
		require.NoError(t, err)
		require.True(t, started)
		got := later(func() error { return l.Wait(patient(t)) })
		receive(t, waiting, "it to wait")
		countDown(t, l, 1)
		countDown(t, l, 0)
		require.NoError(t, receive(t, got, "the end of the wait"))
	}
}

// An attempt that begins after the last count succeeds, also beside a call of the same process that has been refused a moment ago.
func TestLatch_AnAttemptAfterTheLastCountSucceeds(t *testing.T) {
	t.Parallel()
	l, waiting := newLatch(t, 1)
	got := later(func() error { return l.Wait(patient(t)) })
	receive(t, waiting, "it to wait")
	require.ErrorIs(t, l.Wait(t.Context(), lockrt.WithWait(0)), lockrt.ErrNotAcquired)
	countDown(t, l, 0)
	require.NoError(t, l.Wait(t.Context(), lockrt.WithWait(0)))
	require.NoError(t, receive(t, got, "the end of the wait"))
}

func TestLatch_CancelledCloseAndTidy(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	c := newClient(t, lockrt.Options{Hooks: hooks})
	l := c.CountDownLatch(redistest.Key(t, "l"))
	_, err := l.SetCount(t.Context(), 1)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := make(chan error, 2)
	for range cap(got) {
		go func() { got <- l.Wait(ctx) }()
		receive(t, waiting, "it to wait")
	}
	cancel()
	for range cap(got) {
		require.ErrorIs(t, receive(t, got, "one that was cancelled"), context.Canceled)
	}
	countDown(t, l, 0)
	tidy(t, c, redistest.Shared(t), l.Key())

	_, err = l.SetCount(t.Context(), 1)
	require.NoError(t, err)
	go func() { got <- l.Wait(patient(t)) }()
	receive(t, waiting, "it to wait")
	require.NoError(t, c.Close())
	require.ErrorIs(t, receive(t, got, "the one that waits"), lockrt.ErrClosed)
	redistest.Shared(t).Do("DEL", l.Key())
}

func TestLatch_RefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	l, _ := newLatch(t, 0)
	for _, n := range []int{0, -1, tooMany} {
		_, err := l.SetCount(t.Context(), n)
		require.ErrorIs(t, err, lockrt.ErrBadOption)
	}
	require.ErrorIs(t, l.Wait(t.Context(), lockrt.WithFencing()), lockrt.ErrBadOption)
	server := redistest.Shared(t)
	server.Do("SET", l.Key(), "text")
	require.ErrorIs(t, l.Wait(patient(t)), lockrt.ErrWrongType)
	_, err := l.Count(patient(t))
	require.ErrorIs(t, err, lockrt.ErrWrongType)
	_, err = l.CountDown(t.Context())
	require.ErrorIs(t, err, lockrt.ErrWrongType)
	bad := newClient(t, lockrt.Options{}).CountDownLatch("")
	require.EqualError(t, bad.Wait(t.Context()), `lockgen: wait "": the key is empty`)
	_, err = bad.CountDown(t.Context())
	require.EqualError(t, err, `lockgen: count down "": the key is empty`)
}

// However many wait in a process, one request learns for all of them that the latch is open.
func TestLatch_OneAnswerIsForAll(t *testing.T) {
	t.Parallel()
	hooks, waiting, _ := watch()
	line := newLine(t, lockrt.Options{Hooks: hooks})
	l, other := line.client.CountDownLatch(line.key), newClient(t, lockrt.Options{}).CountDownLatch(line.key)
	asked := line.seen(redistest.EvalSHA(scripts.LatchCount.SHA1()))
	got := make(chan error, 100)
	atBest(t, "one request was enough", func() bool {
		_, err := l.SetCount(t.Context(), 1)
		require.NoError(t, err)
		for range cap(got) {
			go func() { got <- l.Wait(patient(t)) }()
			receive(t, waiting, "it to wait")
		}
		until(t, "it listens", func() bool {
			return subscribers(t, line.server, "redisson_countdownlatch__channel__{"+line.key+"}") == 1
		})
		for len(asked) > 0 {
			<-asked
		}
		countDown(t, other, 0)
		for range cap(got) {
			require.NoError(t, receive(t, got, "the end of the wait"))
		}
		return len(asked) == 1
	})
}

// A latch that is open refuses no call, also if no message says that it is open: neither an attempt, nor the request at the end of the wait.
func TestLatch_RefusesNobodyWhenItIsOpen(t *testing.T) {
	t.Parallel()
	const long = 300 * time.Millisecond
	for name, test := range map[string]struct {
		opts  []lockrt.LockOption
		until time.Duration // the next request
	}{
		"an attempt":                {opts: []lockrt.LockOption{lockrt.WithBackoff(lockrt.ConstantBackoff(time.Millisecond).Attempts(2))}},
		"the last one that polls":   {opts: []lockrt.LockOption{lockrt.WithBackoff(lockrt.ConstantBackoff(time.Hour)), lockrt.WithWait(long)}, until: long},
		"the last one that listens": {opts: []lockrt.LockOption{lockrt.WithWait(long)}, until: long},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key, refused := redistest.Key(t, "l"), false
			l := newClient(t, lockrt.Options{Hooks: lockrt.Hooks{Waiting: func(context.Context, lockrt.AcquireEvent) {
				refused = true
				redistest.Shared(t).Do("DEL", key)
				<-patientFor(t, test.until).Done()
			}}}).CountDownLatch(key)
			atBest(t, "the answers came in time", func() bool {
				_, err := l.SetCount(t.Context(), 1)
				require.NoError(t, err)
				if err = l.Wait(patient(t), test.opts...); refused {
					require.NotErrorIs(t, err, lockrt.ErrNotAcquired)
				}
				return refused && err == nil
			})
		})
	}
}
