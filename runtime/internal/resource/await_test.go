package resource

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/core/coretest"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// A scripted contest answers each request as the test says, at once.
type scripted struct {
	answer func(n int) engine.Event
	asked  []time.Time
	waiter *Waiter // that asked last
}

func (s *scripted) Join(*Waiter) Entry     { return ToAsk }
func (s *scripted) Leave(*Waiter)          {}
func (s *scripted) Channel(*Waiter) string { return "" }
func (s *scripted) Hear(string)            {}

func (s *scripted) Subject(w *Waiter) (kind, key string) { return "", "" }

func (s *scripted) Ask(w *Waiter) {
	s.asked, s.waiter = append(s.asked, time.Now()), w
	w.Notify(s.answer(len(s.asked)))
}

// pauses returns for how long it was not asked, between the requests.
func (s *scripted) pauses() (all []time.Duration) {
	for i := 1; i < len(s.asked); i++ {
		all = append(all, s.asked[i].Sub(s.asked[i-1]))
	}
	return all
}

// awaits has a waiter that does not listen ask s until it is over, in virtual time.
func awaits(t *testing.T, opts core.Settings, cfg leases.Config, s *scripted, d time.Duration, look func(err error, took time.Duration)) {
	t.Helper()
	opts = coretest.Defaults(opts)
	synctest.Test(t, func(t *testing.T) {
		c := new(Client)
		c.Settings = opts
		c.MakeChannels()
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		w := &Waiter{Call: engine.Call{Since: monotonic.Now(), Wait: leases.UntilDone}}
		cfg.Polling = true
		start := time.Now()
		err := c.Await(ctx, s, w, &cfg, nil)
		look(err, time.Since(start))
	})
}

// A standing contest has a waiter stand in line in a registry that does not know it: the client ended a moment before it joined.
type standing struct{ scripted }

func (s *standing) Join(*Waiter) Entry { return ToWait }
func (s *standing) queueKey() string   { return "" }

// TestAwait_InLineAfterTheEndOfTheClient shows that a call that begins to stand in line finds that its client has ended: no event comes.
func TestAwait_InLineAfterTheEndOfTheClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := new(Client)
		c.Settings = coretest.Defaults(core.Settings{DeadlockAfter: -1})
		c.MakeChannels()
		close(c.Closing)
		w := &Waiter{Call: engine.Call{Since: monotonic.Now(), Wait: leases.UntilDone}}
		err := c.Await(context.Background(), new(standing), w, &leases.Config{Wait: leases.UntilDone, Terms: engine.Terms{Polling: true}}, nil)
		require.ErrorIs(t, err, failure.ErrClosed)
	})
}

// A mute contest has a waiter in line whose request is not answered.
type mute struct{ standing }

func (s *mute) Join(*Waiter) Entry                     { return ToAsk }
func (s *mute) Ask(*Waiter)                            {}
func (s *mute) StartFor(*Waiter) (time.Duration, bool) { return 0, false }

// TestAwait_EndOfTheClientWhileItAsks shows that a call in line that awaits an answer needs no channel to learn that its client ends: an event
// comes, see [user.Refuse]. One that begins after that finds it.
func TestAwait_EndOfTheClientWhileItAsks(t *testing.T) {
	t.Parallel()
	for _, ended := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := new(Client)
			c.Settings = coretest.Defaults(core.Settings{DeadlockAfter: -1})
			c.MakeChannels()
			if ended {
				close(c.Closing)
			}
			w := &Waiter{Call: engine.Call{Since: monotonic.Now(), Wait: leases.UntilDone}}
			outcome := make(chan error, 1)
			go func() {
				outcome <- c.Await(context.Background(), new(mute), w, &leases.Config{Wait: leases.UntilDone, Terms: engine.Terms{Polling: true}}, nil)
			}()
			synctest.Wait()
			if !ended {
				close(c.Closing)
				synctest.Wait()
				require.Empty(t, outcome)
				w.Poke()
			}
			require.ErrorIs(t, <-outcome, failure.ErrClosed)
		})
	}
}

var (
	errBroken = errors.New("the connection broke")
	broken    = engine.Event{Kind: engine.Failed, Err: errBroken}
	no        = engine.Event{Kind: engine.Refused, TTL: time.Hour}
	yes       = engine.Event{Kind: engine.Given}
)

// A call without an answer asks again as Settings.Retry has it, a refused call as WithBackoff does; a half of each pause
// is at random.
func TestAwait_PausesByThePolicy(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		policy core.Backoff
		want   []time.Duration
	}{
		"by default":  {core.Backoff{}, []time.Duration{10 * ms, 20 * ms, 40 * ms, 80 * ms, 160 * ms, 250 * ms, 250 * ms}},
		"constant":    {core.ConstantBackoff(70 * ms), []time.Duration{70 * ms, 70 * ms, 70 * ms}},
		"linear":      {core.LinearBackoff(10*ms, 30*ms, 80*ms), []time.Duration{10 * ms, 40 * ms, 70 * ms, 80 * ms, 80 * ms}},
		"exponential": {core.ExponentialBackoff(ms, 5*time.Second), []time.Duration{ms, 2 * ms, 4 * ms, 8 * ms, 16 * ms, 32 * ms}},
	} {
		for reason, answer := range map[string]engine.Event{"not answered": broken, "refused": no} {
			if reason == "refused" && test.policy == (core.Backoff{}) {
				continue // WithBackoff has no default
			}
			s := &scripted{answer: func(n int) engine.Event {
				if n > len(test.want) {
					return yes
				}
				return answer
			}}
			cfg := leases.Config{Wait: leases.UntilDone, Backoff: test.policy}
			awaits(t, core.Settings{Retry: test.policy}, cfg, s, time.Hour, func(err error, _ time.Duration) {
				require.NoError(t, err)
			})
			pauses := s.pauses()
			require.Len(t, pauses, len(test.want))
			for i, longest := range test.want {
				require.GreaterOrEqual(t, pauses[i], longest/2, "%s, %s, pause %d", name, reason, i)
				require.LessOrEqual(t, pauses[i], longest, "%s, %s, pause %d", name, reason, i)
			}
		}
	}
}

// Attempts are counted in a row: an answer, of whatever kind, begins anew.
func TestAwait_BoundedAttempts(t *testing.T) {
	t.Parallel()
	answers := []engine.Event{broken, broken, no, broken, broken, no, broken, broken, broken, broken}
	s := &scripted{answer: func(n int) engine.Event { return answers[n-1] }}
	cfg := leases.Config{Wait: leases.UntilDone, Backoff: core.ConstantBackoff(time.Second)}
	awaits(t, core.Settings{Retry: core.ConstantBackoff(time.Second).Attempts(3)}, cfg, s, time.Hour, func(err error, _ time.Duration) {
		require.ErrorIs(t, err, errBroken)
		require.EqualError(t, err, "server unavailable in 3 attempts: the connection broke")
	})
	require.Len(t, s.asked, 9)

	s = &scripted{answer: func(int) engine.Event { return no }}
	cfg.Backoff = cfg.Backoff.Attempts(4)
	awaits(t, core.Settings{}, cfg, s, time.Hour, func(err error, _ time.Duration) {
		require.ErrorIs(t, err, failure.ErrNotAcquired)
		require.ErrorContains(t, err, "in 4 attempts")
	})
	require.Len(t, s.asked, 4)
}

// A request during a pause, for which another call is the reason, is no attempt, and the pause ends when it would have.
func TestAwait_WhatOthersAskIsNoAttempt(t *testing.T) {
	t.Parallel()
	for _, pause := range []time.Duration{time.Second, time.Hour} {
		s := new(scripted)
		s.answer = func(n int) engine.Event {
			if n <= 3 {
				time.AfterFunc(pause/10, s.waiter.Poke)
			}
			return no
		}
		cfg := leases.Config{Wait: leases.UntilDone, Backoff: core.ConstantBackoff(pause).Attempts(2)}
		awaits(t, core.Settings{}, cfg, s, 2*pause, func(err error, took time.Duration) {
			require.ErrorIs(t, err, failure.ErrNotAcquired)
			require.ErrorContains(t, err, "in 2 attempts")
			require.GreaterOrEqual(t, took, pause/2)
			require.LessOrEqual(t, took, pause)
		})
		require.GreaterOrEqual(t, len(s.asked), 5)
	}
}

// Without a bound of its own an outage is waited out for half a minute, or for the lease if that is longer.
func TestAwait_WaitsAnOutageOut(t *testing.T) {
	t.Parallel()
	for ttl, most := range map[time.Duration]time.Duration{time.Second: 30 * time.Second, time.Minute: time.Minute} {
		s := &scripted{answer: func(int) engine.Event { return broken }}
		cfg := leases.Config{Wait: leases.UntilDone, Terms: engine.Terms{TTL: ttl}}
		awaits(t, core.Settings{}, cfg, s, time.Hour, func(err error, took time.Duration) {
			require.ErrorIs(t, err, errBroken)
			require.GreaterOrEqual(t, took, most)
			require.Less(t, took, most+time.Second)
		})
	}
}

// The context, and the wait, end a pause however long it is.
func TestAwait_APauseEndsWithTheCall(t *testing.T) {
	t.Parallel()
	long := core.ConstantBackoff(20 * time.Minute)
	for reason, answer := range map[string]engine.Event{"not answered": broken, "refused": no} {
		s := &scripted{answer: func(int) engine.Event { return answer }}
		cfg := leases.Config{Wait: leases.UntilDone, Backoff: long}
		awaits(t, core.Settings{Retry: long}, cfg, s, time.Second, func(err error, took time.Duration) {
			require.ErrorIs(t, err, context.DeadlineExceeded, reason)
			require.Equal(t, time.Second, took, reason)
		})
		cfg.Wait = 2 * time.Second
		awaits(t, core.Settings{Retry: long}, cfg, s, time.Hour, func(err error, took time.Duration) {
			require.ErrorIs(t, err, map[string]error{"not answered": failure.ErrUnavailable, "refused": failure.ErrNotAcquired}[reason])
			require.Equal(t, 2*time.Second, took, reason)
		})
	}
}

// A call that tries once does not fail because of a lost answer: it asks once more to learn the answer.
func TestAwait_ATryAsksOnceMore(t *testing.T) {
	t.Parallel()
	for reason, test := range map[string]struct {
		answers []engine.Event
		err     error
	}{
		"lost, and granted": {[]engine.Event{broken, yes}, nil},
		"lost, and refused": {[]engine.Event{broken, no}, failure.ErrNotAcquired},
		"lost, and again":   {[]engine.Event{broken, broken}, errBroken},
	} {
		s := &scripted{answer: func(n int) engine.Event { return test.answers[n-1] }}
		awaitsOnce(t, s, func(err error) { require.ErrorIs(t, err, test.err, reason) })
		require.Len(t, s.asked, len(test.answers))
	}
}

func awaitsOnce(t *testing.T, s *scripted, look func(err error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := new(Client)
		c.MakeChannels()
		w := engine.NewWaiter[Wish]()
		look(c.Await(t.Context(), s, w, new(leases.Config), nil))
	})
}

// The log gets one line about a call that waits without a bound after five seconds, unless Settings.DeadlockAfter says
// otherwise.
func TestAwait_TellsOfAWaitWithoutABound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		after, wait, deadline, want time.Duration
	}{
		"by default":     {0, leases.UntilDone, 0, 5 * time.Second},
		"later":          {time.Minute, leases.UntilDone, 0, time.Minute},
		"never":          {-1, leases.UntilDone, 0, 0},
		"a bounded wait": {0, time.Hour - time.Second, 0, 0},
		"a deadline":     {0, leases.UntilDone, time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var notified []time.Duration
				start := time.Now()
				opts := coretest.Defaults(core.Settings{DeadlockAfter: test.after, Logger: slog.New(logged(func() { notified = append(notified, time.Since(start)) }))})
				c := new(Client)
				c.MakeChannels()
				c.Settings, c.Watchdog = opts, watchdog.New(nil, func() int { return 1 }, nil)
				c.Fleet = newMember(c)
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Hour, cancel)
				if test.deadline > 0 {
					ctx, cancel = context.WithTimeout(ctx, test.deadline)
				}
				defer cancel()
				s := &scripted{answer: func(int) engine.Event { return no }}
				w := &Waiter{Call: engine.Call{Since: monotonic.Now(), Wait: leases.UntilDone}}
				require.Error(t, c.Await(ctx, s, w, &leases.Config{Wait: test.wait, Terms: engine.Terms{Polling: true}, Backoff: core.ConstantBackoff(time.Minute)}, nil))
				var want []time.Duration
				if test.want > 0 {
					want = []time.Duration{test.want}
				}
				require.Equal(t, want, notified)
			})
		})
	}
}

// logged is a handler that is called for each line.
type logged func()

func (l logged) Enabled(context.Context, slog.Level) bool  { return true }
func (l logged) Handle(context.Context, slog.Record) error { l(); return nil }
func (l logged) WithAttrs([]slog.Attr) slog.Handler        { return l }
func (l logged) WithGroup(string) slog.Handler             { return l }
