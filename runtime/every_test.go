package lockrt_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// A ticker is a schedule whose runs a test looks at.
type ticker struct {
	ticks   chan lockrt.Tick
	running atomic.Int32 // runs at once
	overlap atomic.Bool
	fail    atomic.Bool // runs fail
}

func newTicker() *ticker { return &ticker{ticks: make(chan lockrt.Tick, 10_000)} }

func (k *ticker) tick(_ context.Context, t lockrt.Tick) error {
	if k.running.Add(1) > 1 {
		k.overlap.Store(true)
	}
	defer k.running.Add(-1)
	k.ticks <- t
	if k.fail.Load() {
		return errors.New("a run that fails")
	}
	return nil
}

// run runs s until the test ends.
func run(t *testing.T, s *lockrt.Schedule) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := later(func() error { return s.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		if err := receive(t, done, "Run"); !errors.Is(err, lockrt.ErrClosed) {
			require.ErrorIs(t, err, context.Canceled)
		}
	})
}

// inTurn takes n ticks, and checks that no interval is run twice, nor one before another.
func (k *ticker) inTurn(t *testing.T, n int, last time.Time) time.Time {
	t.Helper()
	for range n {
		tick := receive(t, k.ticks, "the next run")
		require.Greater(t, tick.Start, last)
		require.Zero(t, tick.Start.UnixMilli()%tick.Interval.Milliseconds())
		last = tick.Start
	}
	require.False(t, k.overlap.Load())
	return last
}

// TestEvery_OncePerInterval has clients whose clocks go at different rates, so that they ask too early, too late and too often.
func TestEvery_OncePerInterval(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(t *testing.T) string{
		"standalone": func(t *testing.T) string { return redistest.Shared(t).URL() },
		"cluster":    func(t *testing.T) string { return redistest.SharedCluster(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job, k := redistest.Key(t, "job"), newTicker()
			for _, rate := range []float64{0.7, 1, 1, 3, 20} {
				run(t, lockrt.AtRate(clientOf(t, url(t), lockrt.Options{}).Every(job, 100*time.Millisecond, k.tick), rate))
			}
			first := receive(t, k.ticks, "the first run")
			require.Zero(t, first.Missed)
			require.Zero(t, first.Done)
			require.Equal(t, first.Start.Add(-first.Interval), first.Since())
			k.inTurn(t, 30, first.Start)
		})
	}
}

// The times are those of the server's clock.
func TestEvery_ByTheClockOfTheServer(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	k := newTicker()
	at := func() time.Time {
		s, err := server.Do("TIME").AsStrSlice()
		require.NoError(t, err)
		seconds, err := strconv.ParseInt(s[0], 10, 64)
		require.NoError(t, err)
		return time.Unix(seconds, 0)
	}
	before := at()
	run(t, newClient(t, lockrt.Options{}).Every(redistest.Key(t, "job"), time.Second, k.tick))
	tick := receive(t, k.ticks, "the run")
	require.False(t, tick.Start.Before(before))
	require.False(t, tick.Start.After(at()))
}

// An interval that is longer than the time since 1970 is the first one, and begins like every other one.
func TestEvery_LongerThanSince1970(t *testing.T) {
	t.Parallel()
	server, job, k := redistest.Shared(t), redistest.Key(t, "job"), newTicker()
	const century = 100 * 365 * 24 * time.Hour
	run(t, newClient(t, lockrt.Options{}).Every(job, century, k.tick))
	tick := receive(t, k.ticks, "the run")
	require.Equal(t, lockrt.Tick{Start: time.UnixMilli(0), Interval: century}, tick)
	require.Empty(t, k.ticks)
	until(t, "the run is recorded", func() bool {
		done, _ := server.Do("HGET", "lockgen_every:{"+job+"}", "done").ToString()
		return done == "0"
	})
	server.Do("DEL", "lockgen_every:{"+job+"}")
}

// TestEvery_Missed shows the fields of a Tick about earlier intervals.
func TestEvery_Missed(t *testing.T) {
	t.Parallel()
	const week = 7 * 24 * time.Hour
	server := redistest.Shared(t)
	job, k := redistest.Key(t, "job"), newTicker()
	c := newClient(t, lockrt.Options{})
	state := "lockgen_every:{" + job + "}"

	// Nobody lived for four intervals.
	s := c.Every(job, week, k.tick)
	run(t, s)
	first := receive(t, k.ticks, "the first run")
	until(t, "it is done", func() bool { return number(t, server, "HLEN", state) == 3 })
	old := strconv.FormatInt(first.Start.Add(-5*week).UnixMilli(), 10)
	server.Do("HSET", state, "begun", old, "done", old)
	run(t, c.Every(job, week, k.tick)) // as if it was started now
	tick := receive(t, k.ticks, "the run after a pause")
	require.Equal(t, 4, tick.Missed)
	require.Equal(t, first.Start.Add(-5*week), tick.Done)
	require.Equal(t, tick.Done, tick.Since())
	require.Equal(t, week, tick.Interval)
	until(t, "it is done", func() bool {
		done, err := server.Do("HGET", state, "done").ToString()
		return err == nil && done == strconv.FormatInt(tick.Start.UnixMilli(), 10)
	})
	require.Greater(t, number(t, server, "PTTL", state), int64(99*week/time.Millisecond))
	server.Do("DEL", state)
}

// A run that fails is not done: the next ones are told so until one succeeds.
func TestEvery_ARunThatFails(t *testing.T) {
	t.Parallel()
	log := &lines{}
	job, k := redistest.Key(t, "job"), newTicker()
	run(t, newClient(t, lockrt.Options{Logger: log.logger()}).Every(job, 100*time.Millisecond, k.tick))
	receive(t, k.ticks, "a run")
	k.fail.Store(true)
	var tick lockrt.Tick
	for tick.Missed < 2 {
		next := receive(t, k.ticks, "a run that fails")
		require.GreaterOrEqual(t, next.Missed, tick.Missed)
		tick = next
	}
	require.Equal(t, tick.Since(), tick.Start.Add(-time.Duration(tick.Missed+1)*tick.Interval))
	k.fail.Store(false)
	for tick.Missed > 0 {
		tick = receive(t, k.ticks, "a run that succeeds")
	}
	require.Positive(t, log.count("a run of a schedule failed"))
}

// A run that has lost the lock is not done, whatever it returns: another process may have run meanwhile.
func TestEvery_ARunThatLosesTheLock(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	job, k := redistest.Key(t, "job"), newTicker()
	var once atomic.Bool
	run(t, c.Every(job, 100*time.Millisecond, func(ctx context.Context, tick lockrt.Tick) error {
		if once.CompareAndSwap(false, true) {
			if _, err := c.Mutex(job).ForceUnlock(context.WithoutCancel(ctx)); err != nil {
				return err
			}
			<-ctx.Done()
		}
		return k.tick(ctx, tick)
	}))
	first := receive(t, k.ticks, "the run that loses the lock")
	next := receive(t, k.ticks, "the next run")
	require.Greater(t, next.Start, first.Start)
	require.Zero(t, next.Done, "none has succeeded")
	require.Equal(t, next.Start, receive(t, k.ticks, "the run after that").Done)
}

// A process asks at least once in a minute: the clock of the server may be set, and the machine of the process may sleep, while its timers stand still.
func TestEvery_AsksAgainInALongInterval(t *testing.T) {
	t.Parallel()
	l := newLine(t, lockrt.Options{})
	looks := l.seen(func(cmd []string) bool { return redistest.EvalSHA(scripts.Every.SHA1())(cmd) && cmd[6] == "" })
	k, week := newTicker(), 7*24*time.Hour
	run(t, lockrt.AtRate(l.client.Every(l.key, week, k.tick), 6000)) // a minute takes 10ms, and the week longer than the test
	k.inTurn(t, 1, time.Time{})
	for range 5 {
		receive(t, looks, "the next question")
	}
	require.Empty(t, k.ticks)
}

// A run is begun, and recorded as done, also if a reply or a request about it is lost, and if the context of Run ends meanwhile.
func TestEvery_ARunIsRecorded(t *testing.T) {
	t.Parallel()
	const week = 7 * 24 * time.Hour
	server := redistest.Shared(t)
	begins, done := redistest.EvalSHA(scripts.Every.SHA1()), redistest.EvalSHA(scripts.EveryDone.SHA1())
	for name, lose := range map[string]func(proxy *redistest.FaultProxy) *redistest.Drop{
		"the reply to its beginning is lost": func(proxy *redistest.FaultProxy) *redistest.Drop {
			return proxy.DropReply(func(cmd []string) bool { return begins(cmd) && cmd[6] != "" }, 1, redistest.Close)
		},
		"the request about its end is lost": func(proxy *redistest.FaultProxy) *redistest.Drop {
			return proxy.DropRequest(done, 1, redistest.Close)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := redistest.Proxy(t, server.Addr())
			c := clientOf(t, proxy.URL(), lockrt.Options{})
			job := redistest.Key(t, "job")
			lost := lose(proxy)
			ctx, cancel := context.WithCancel(patient(t))
			var start time.Time
			require.ErrorIs(t, c.Every(job, week, func(_ context.Context, tick lockrt.Tick) error {
				start = tick.Start
				cancel()
				return nil
			}).Run(ctx), context.Canceled)
			receive(t, lost.Done(), "the loss")
			require.Equal(t, start.UnixMilli(), number(t, server, "HGET", "lockgen_every:{"+job+"}", "done"))
			server.Do("DEL", "lockgen_every:{"+job+"}")
		})
	}
}

// A run that takes longer than an interval delays the next one, wherever that is.
func TestEvery_ALongRun(t *testing.T) {
	t.Parallel()
	job, k := redistest.Key(t, "job"), newTicker()
	held, end := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	long := func(ctx context.Context, tick lockrt.Tick) error {
		err := k.tick(ctx, tick)
		if once.CompareAndSwap(false, true) {
			k.running.Add(1)
			defer k.running.Add(-1)
			close(held)
			<-end
		}
		return err
	}
	log := &lines{}
	c := newClient(t, lockrt.Options{Logger: log.logger(), DeadlockAfter: 100 * time.Millisecond})
	run(t, c.Every(job, 100*time.Millisecond, long))
	receive(t, held, "the long run")
	first := receive(t, k.ticks, "the long run")
	hooks, waiting, _ := watch()
	other := newClient(t, lockrt.Options{Hooks: hooks, Logger: log.logger(), DeadlockAfter: 100 * time.Millisecond})
	run(t, other.Every(job, 100*time.Millisecond, long))
	for range 3 {
		receive(t, waiting, "the other one, in interval after interval")
	}
	require.Empty(t, k.ticks)
	close(end)
	next := receive(t, k.ticks, "the next run")
	require.GreaterOrEqual(t, next.Start.Sub(first.Start), 2*next.Interval)
	k.inTurn(t, 3, next.Start)
	require.Zero(t, log.count(stillWaits), "each wait is bounded")
}

// A process that waits for the other one for less than the interval, by WithBackoff, pauses before it asks again.
func TestEvery_BoundedAttempts(t *testing.T) {
	t.Parallel()
	job, k := redistest.Key(t, "job"), newTicker()
	lease := ok(t)(newClient(t, lockrt.Options{}).Mutex(job).Lock(patient(t)))
	waits := make(chan time.Time, 10_000)
	c := newClient(t, lockrt.Options{
		Retry: lockrt.ConstantBackoff(200 * time.Millisecond),
		Hooks: lockrt.Hooks{Waiting: func(context.Context, lockrt.AcquireEvent) { waits <- time.Now() }},
	})
	run(t, c.Every(job, 7*24*time.Hour, k.tick, lockrt.WithBackoff(lockrt.ConstantBackoff(time.Millisecond).Attempts(1))))
	last := receive(t, waits, "it to wait")
	for range 3 {
		next := receive(t, waits, "it to wait again")
		require.GreaterOrEqual(t, next.Sub(last), 100*time.Millisecond)
		last = next
	}
	free(t, lease)
	receive(t, k.ticks, "the run")
	redistest.Shared(t).Do("DEL", "lockgen_every:{"+job+"}")
}

// A process that is cut off while it runs is told, and others go on when its lease is over.
func TestEvery_CutOff(t *testing.T) {
	t.Parallel()
	proxy := redistest.Proxy(t, redistest.Shared(t).Addr())
	job, k := redistest.Key(t, "job"), newTicker()
	away, err := opened(t.Context(), proxy.URL(), lockrt.Options{Watchdog: time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { _ = away.Close() })
	causes := make(chan error, 1)
	begun := make(chan lockrt.Tick, 1)
	run(t, away.Every(job, 100*time.Millisecond, func(ctx context.Context, tick lockrt.Tick) error {
		select {
		case begun <- tick:
			<-ctx.Done()
			causes <- context.Cause(ctx)
		default:
		}
		return ctx.Err()
	}))
	first := receive(t, begun, "the run")
	proxy.Blackhole(redistest.Both)
	run(t, newClient(t, lockrt.Options{}).Every(job, 100*time.Millisecond, k.tick))
	next := receive(t, k.ticks, "the next run, elsewhere")
	require.ErrorIs(t, receive(t, causes, "the end of the first one"), lockrt.ErrLost)
	require.Greater(t, next.Start, first.Start)
	k.inTurn(t, 3, next.Start)
	proxy.Deliver()
}

// TestEvery_RestartedEmpty shows that processes remember for a server that has forgotten.
func TestEvery_RestartedEmpty(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	log := &lines{}
	k := newTicker()
	const interval = 3 * time.Second // which a server takes less than to be back, so that the same interval goes on
	c, other := clientOf(t, server.URL(), lockrt.Options{Logger: log.logger()}), clientOf(t, server.URL(), lockrt.Options{})
	schedules := []*lockrt.Schedule{
		lockrt.AtRate(c.Every("job", interval, k.tick), 20), lockrt.AtRate(other.Every("job", interval, k.tick), 20), // they ask often
	}
	for _, s := range schedules {
		run(t, s)
	}
	last := k.inTurn(t, 1, time.Time{})
	until(t, "both know of the run", func() bool {
		return !slices.ContainsFunc(schedules, func(s *lockrt.Schedule) bool { return lockrt.Known(s).Before(last) })
	})
	server.Kill()
	until(t, "it is held up", func() bool { return log.count("is held up") > 0 })
	server.Restart()
	k.inTurn(t, 1, last)
	until(t, "it goes on", func() bool { return log.count("a schedule goes on") > 0 })
}

// A server that restarts empty learns from a process which interval it was the last to do, so that the next run leaves nothing out.
func TestEvery_RestartedEmptyAfterASuccess(t *testing.T) {
	t.Parallel()
	for name, recorded := range map[string]bool{"recorded": true, "not recorded": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			log := &lines{}
			k := newTicker()
			c := clientOf(t, server.URL(), lockrt.Options{Logger: log.logger(), OpTimeout: time.Second, Watchdog: 10 * time.Second})
			var once sync.Once
			run(t, c.Every("job", 100*time.Millisecond, func(ctx context.Context, tick lockrt.Tick) error {
				if !recorded {
					once.Do(server.Kill)
				}
				return k.tick(ctx, tick)
			}))
			last := receive(t, k.ticks, "a run")
			if recorded {
				until(t, "it is recorded", func() bool {
					done, err := server.Do("HGET", "lockgen_every:{job}", "done").AsInt64()
					return err == nil && done >= last.Start.UnixMilli()
				})
				server.Kill()
			}
			until(t, "it is held up", func() bool { return log.count("is held up") > 0 })
			for len(k.ticks) > 0 {
				last = receive(t, k.ticks, "a run before that")
			}
			server.Restart()
			next := receive(t, k.ticks, "the next run")
			require.Equal(t, last.Start, next.Done)
			require.Equal(t, last.Start, next.Since())
			require.Equal(t, int(next.Start.Sub(last.Start)/next.Interval)-1, next.Missed)
		})
	}
}

// A server that loses the last writes during a run, as by a failover, has at its end that the interval was begun and done. A process that does not
// know of the interval does not run it once more.
func TestEvery_TheServerGoesBackDuringARun(t *testing.T) {
	t.Parallel()
	const week = 7 * 24 * time.Hour // the test has one interval
	server := redistest.Server(t)
	k := newTicker()
	state := "lockgen_every:{job}"
	ctx, cancel := context.WithCancel(patient(t))
	require.ErrorIs(t, clientOf(t, server.URL(), lockrt.Options{}).Every("job", week, func(ctx context.Context, tick lockrt.Tick) error {
		old := strconv.FormatInt(tick.Start.Add(-week).UnixMilli(), 10)
		server.Do("HSET", state, "begun", old, "by", "another 1", "done", old)
		cancel()
		return k.tick(ctx, tick)
	}).Run(ctx), context.Canceled)
	start := receive(t, k.ticks, "the run").Start
	require.Equal(t, start.UnixMilli(), number(t, server, "HGET", state, "begun"))
	require.Equal(t, start.UnixMilli(), number(t, server, "HGET", state, "done"))

	other := clientOf(t, server.URL(), lockrt.Options{}).Every("job", week, k.tick)
	ctx, cancel = context.WithCancel(patient(t))
	ended := later(func() error { return other.Run(ctx) })
	until(t, "the other process knows of it", func() bool { return lockrt.Known(other).Equal(start) })
	cancel()
	require.ErrorIs(t, receive(t, ended, "the end of the other one"), context.Canceled)
	require.Empty(t, k.ticks)
}

// A process that asked before the interval began waits for the lock. If somebody deletes the schedule meanwhile, or the server evicts it, that
// process does not run the interval once more.
func TestEvery_TheScheduleIsDeletedDuringARun(t *testing.T) {
	t.Parallel()
	const week = 7 * 24 * time.Hour // the test has one interval
	server := redistest.Server(t)
	var runs atomic.Int32
	begun, goOn := make(chan struct{}), make(chan struct{})
	clients := []*lockrt.Client{clientOf(t, server.URL(), lockrt.Options{}), clientOf(t, server.URL(), lockrt.Options{})}
	held := ok(t)(clients[0].Mutex("job").Lock(patient(t))) // so that both processes ask before one of them begins
	schedules := make([]*lockrt.Schedule, len(clients))
	for i, c := range clients {
		schedules[i] = c.Every("job", week, func(context.Context, lockrt.Tick) error {
			if runs.Add(1) == 1 {
				close(begun)
				<-goOn
			}
			return nil
		})
		run(t, schedules[i])
	}
	until(t, "both wait", func() bool { return clients[0].Stats().Waiting == 1 && clients[1].Stats().Waiting == 1 })
	require.NoError(t, held.Unlock(patient(t)))
	receive(t, begun, "the run")
	server.Do("DEL", "lockgen_every:{job}")
	close(goOn)
	until(t, "both know of it", func() bool { return !lockrt.Known(schedules[0]).IsZero() && !lockrt.Known(schedules[1]).IsZero() })
	require.EqualValues(t, 1, runs.Load())
}

// TestEvery_LostReplies has the server act on what a schedule asks, and loses its replies.
func TestEvery_LostReplies(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]redistest.Mode{"closed": redistest.Close, "mute": redistest.Mute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := redistest.Proxy(t, redistest.Shared(t).Addr())
			c, err := opened(t.Context(), proxy.URL(), lockrt.Options{OpTimeout: 300 * time.Millisecond})
			require.NoError(t, err)
			t.Cleanup(func() { _ = c.Close() })
			job, k := redistest.Key(t, "job"), newTicker()
			run(t, c.Every(job, 500*time.Millisecond, k.tick))
			last := k.inTurn(t, 1, time.Time{})
			begins := redistest.EvalSHA(scripts.Every.SHA1())
			for range 2 {
				lost := proxy.DropReply(func(cmd []string) bool { return begins(cmd) && cmd[6] != "" }, 1, mode)
				receive(t, lost.Done(), "the reply to be lost")
				last = k.inTurn(t, 1, last)
			}
			lost := proxy.DropReply(redistest.EvalSHA(scripts.EveryDone.SHA1()), 1, mode)
			receive(t, lost.Done(), "the reply to be lost")
			k.inTurn(t, 2, last)
		})
	}
}

// Two runs under one owner are two: they do not enter each other's.
func TestEvery_OneOwner(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	job, k := redistest.Key(t, "job"), newTicker()
	ctx, cancel := context.WithCancel(lockrt.WithOwner(t.Context(), lockrt.NewOwner()))
	var all []<-chan error
	for range 3 {
		all = append(all, later(func() error { return c.Every(job, 100*time.Millisecond, k.tick).Run(ctx) }))
	}
	k.inTurn(t, 10, time.Time{})
	cancel()
	for _, got := range all {
		require.ErrorIs(t, receive(t, got, "Run"), context.Canceled)
	}
}

// Below a lease of its name a run enters the lock again. Two of them would run at the same time.
func TestEvery_BelowALeaseOfItsName(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	job, k := redistest.Key(t, "job"), newTicker()
	lease := ok(t)(c.Mutex(job).Lock(patient(t), lockrt.WithFencing()))
	for range 2 {
		ctx, cancel := context.WithCancel(lease.Context())
		first := later(func() error { return c.Every(job, 100*time.Millisecond, k.tick).Run(ctx) })
		last := k.inTurn(t, 1, time.Time{})
		err := c.Every(job, 100*time.Millisecond, k.tick).Run(ctx)
		require.ErrorIs(t, err, lockrt.ErrBadOption)
		require.ErrorContains(t, err, "another Run of this schedule")
		k.inTurn(t, 2, last)
		cancel()
		require.ErrorIs(t, receive(t, first, "Run"), context.Canceled)
		for len(k.ticks) > 0 {
			<-k.ticks
		}
	}
	free(t, lease)
	run(t, c.Every(job, 100*time.Millisecond, k.tick))
	run(t, c.Every(job, 100*time.Millisecond, k.tick))
	k.inTurn(t, 2, time.Time{})
}

// A Run whose outer lease has ended is in the way of none below the next lease.
func TestEvery_BelowTheNextLeaseOfItsName(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	job, k := redistest.Key(t, "job"), newTicker()
	m := c.Mutex(job)
	lease := ok(t)(m.Lock(patient(t), lockrt.WithFencing()))
	in, out := make(chan struct{}), make(chan struct{})
	first := later(func() error {
		return c.Every(job, 100*time.Millisecond, func(context.Context, lockrt.Tick) error {
			close(in)
			<-out
			return nil
		}).Run(lease.Context())
	})
	receive(t, in, "the first run")
	_, err := m.ForceUnlock(patient(t))
	require.NoError(t, err)
	receive(t, lease.Context().Done(), "the loss")
	next := ok(t)(m.Lock(patient(t), lockrt.WithFencing()))
	ctx, cancel := context.WithCancel(next.Context())
	second := later(func() error { return c.Every(job, 100*time.Millisecond, k.tick).Run(ctx) })
	k.inTurn(t, 2, time.Time{})
	close(out)
	require.Error(t, receive(t, first, "the first Run"))
	require.ErrorContains(t, c.Every(job, 100*time.Millisecond, k.tick).Run(ctx), "another Run of this schedule")
	cancel()
	require.ErrorIs(t, receive(t, second, "the second Run"), context.Canceled)
	free(t, next)
}

func TestEvery_WhatCannotBe(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	fn := func(context.Context, lockrt.Tick) error { return nil }
	for name, s := range map[string]*lockrt.Schedule{
		"nil": nil, "zero": {}, "no client": (*lockrt.Client)(nil).Every("a", time.Hour, fn),
		"no function": c.Every("a", time.Hour, nil), "no interval": c.Every("a", 0, fn), "too short": c.Every("a", time.Millisecond, fn),
		"negative": c.Every("a", -time.Hour, fn), "microseconds": c.Every("a", time.Second+time.Microsecond, fn),
		"option": c.Every("a", time.Hour, fn, lockrt.WithWatchdog(time.Millisecond)),
	} {
		require.ErrorIs(t, s.Run(t.Context()), lockrt.ErrBadOption, name)
	}
	//lint:ignore SA1012 a nil context is what the test is about
	require.ErrorIs(t, c.Every("a", time.Hour, fn).Run(nil), lockrt.ErrBadOption)
	bad := new(lockrt.KeyError)
	require.ErrorAs(t, c.Every("", time.Hour, fn).Run(t.Context()), &bad)
	server := redistest.Shared(t)
	job := redistest.Key(t, "job")
	server.Do("SET", "lockgen_every:{"+job+"}", "text")
	defer server.Do("DEL", "lockgen_every:{"+job+"}")
	require.ErrorIs(t, c.Every(job, time.Hour, fn).Run(t.Context()), lockrt.ErrWrongType)
	text := redistest.Key(t, "text")
	server.Do("SET", text, "text")
	defer server.Do("DEL", text)
	require.ErrorIs(t, c.Every(text, time.Hour, fn).Run(t.Context()), lockrt.ErrWrongType)
}

// A connection that is closed with the client says so in its own words.
func TestAsks_ClosedMeanwhile(t *testing.T) {
	t.Parallel()
	c := newClient(t, lockrt.Options{})
	err := lockrt.Asks(t.Context(), c, func() error { return rueidis.ErrClosing })
	require.ErrorIs(t, err, rueidis.ErrClosing)
	require.NotErrorIs(t, err, lockrt.ErrClosed, "the user has closed the connections, and not the client")
	var closed <-chan error
	err = lockrt.Asks(t.Context(), c, func() error {
		closed = later(c.Close)
		until(t, "the client is closed", func() bool {
			_, err := c.Mutex(redistest.Key(t, "k")).TryLock(t.Context())
			return errors.Is(err, lockrt.ErrClosed)
		})
		return rueidis.ErrClosing
	})
	require.ErrorIs(t, err, lockrt.ErrClosed)
	require.NoError(t, receive(t, closed, "the end of Close"))
}

func TestEvery_PanicAndClose(t *testing.T) {
	t.Parallel()
	c, err := opened(t.Context(), redistest.Shared(t).URL(), lockrt.Options{})
	require.NoError(t, err)
	job := redistest.Key(t, "job")
	require.PanicsWithValue(t, "bug", func() {
		_ = c.Every(job, time.Hour, func(context.Context, lockrt.Tick) error { panic("bug") }).Run(t.Context())
	})
	gone(t, redistest.Shared(t), job)
	for _, interval := range []time.Duration{100 * time.Millisecond, 7 * 24 * time.Hour} { // Run does not wait for the next one
		job := job + interval.String()
		c, err := opened(t.Context(), redistest.Shared(t).URL(), lockrt.Options{})
		require.NoError(t, err)
		begun := make(chan struct{}, 100)
		done := later(func() error {
			return c.Every(job, interval, func(context.Context, lockrt.Tick) error { begun <- struct{}{}; return nil }).Run(t.Context())
		})
		receive(t, begun, "a run")
		require.NoError(t, c.Close())
		require.ErrorIs(t, receive(t, done, "Run"), lockrt.ErrClosed)
		redistest.Shared(t).Do("DEL", "lockgen_every:{"+job+"}", job)
	}
	require.NoError(t, c.Close())
	redistest.Shared(t).Do("DEL", "lockgen_every:{"+job+"}")
}
