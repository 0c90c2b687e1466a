package locks

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/policy"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/resource"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// A ticket was handed the key, and has to ask for it; meanwhile the clock of the server was set back, and somebody else has the
// key. By that clock the refusal is from before the grant, but it answers a request that was sent after it.
func TestResource_AsksOnceMoreWhenTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	for name, early := range map[string]bool{"sent before": true, "sent after": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := new(resource.Client)
			c.MakeChannels()
			c.Started()
			r := policy.NewMutex(c, "k")
			r.Users.Store(10)
			w := resource.NewWaiter(context.Background(), leases.New(c.Core(), core.KindMutex, context.Background()), &leases.Config{Wait: leases.UntilDone, Terms: engine.Terms{TTL: 30 * time.Second}})
			r.Queue.Push(w)
			w.Place = engine.PlaceLeading
			tk := r.TicketFor(w.Terms)
			sent := core.Now()
			tk.HandedOver(time.Now(), time.Now()) // as Handed does for a waiter that has to ask
			answer := func(sent time.Time) engine.EventKind {
				r.Busy, tk.Asking = 1, 1
				tk.To(engine.TicketAsking)
				w.Asks.Add(1)
				r.Settle(&resource.AcquireOp{Waiter: w, Ticket: tk, Terms: w.Terms, Line: protocol.StillQueued}, sent, protocol.Verdict{Wait: 30000, At: time.Now().Add(-time.Hour)}, false, nil)
				ev, ok := w.NextEvent()
				require.True(t, ok)
				return ev.Kind
			}
			if early {
				require.Equal(t, engine.Turn, answer(sent.Add(-time.Millisecond)))
			}
			require.Equal(t, engine.Refused, answer(core.Now()))
		})
	}
}

// A release that leaves the key to the next goroutine of this process grants it nothing, if the key was taken by force before the answer
// came: the ticket asks.
func TestResource_AsksForWhatWasTakenBeforeItsGrantWasKnown(t *testing.T) {
	t.Parallel()
	for name, forced := range map[string]bool{"taken": true, "refused": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := new(resource.Client)
			c.MakeChannels()
			r := policy.NewMutex(c, "k")
			w := resource.NewWaiter(context.Background(), leases.New(c.Core(), core.KindMutex, context.Background()), &leases.Config{Wait: leases.UntilDone, Terms: engine.Terms{TTL: 30 * time.Second, Renew: true}})
			r.Queue.Push(w)
			again := r.TicketFor(w.Terms)
			again.Standing = true
			again.To(engine.TicketQueued)
			done := resource.Released{Released: protocol.Released{Outcome: protocol.PassedOn, At: time.Now()}, Sent: core.Now()}
			want := engine.Refused
			if forced {
				again.Taken()
				done.Outcome, want = protocol.Kept, engine.Turn
			}
			r.Mu.Lock()
			r.Resume(&resource.ReleaseOp{Again: again, Terms: w.Terms}, done, nil)
			r.Mu.Unlock()
			ev, ok := w.NextEvent()
			require.True(t, ok)
			require.Equal(t, want, ev.Kind)
			require.Nil(t, r.Grant)
			require.Equal(t, forced, again.UnclaimedGrant)
		})
	}
}

// A hand-over is not trusted if a message came before it that says that the lock was taken by force: that may be about this hand-over, if the two messages
// come over different connections.
func TestResource_AsksAfterAHandOverThatWasTaken(t *testing.T) {
	t.Parallel()
	for name, forced := range map[string]bool{"taken": true, "not taken": false} {
		c := clientOf(t, redistest.Shared(t).URL(), core.Settings{})
		r, _, tk, _ := (&stateTest{t, c}).mutex(redistest.Key(t, "k"))
		r.Mu.Lock()
		tk.To(engine.TicketQueued)
		r.Mu.Unlock()
		if forced {
			tk.Taken()
		}
		tk.Handed(protocol.Message{Number: tk.Number, Granted: time.Now()})
		require.Equal(t, !forced, stateOf(tk) == engine.TicketGranted, name)
	}
}

// A release that should leave the key to the next goroutine of this process grants it nothing without the fencing token that it wants, when
// it has failed, or when the key was not there to be released: the ticket asks at once.
func TestResource_AsksAfterAReleaseThatLeftItNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fenced  bool
		outcome protocol.Outcome
		err     error
		want    engine.EventKind
	}{
		"no token":  {fenced: true, outcome: protocol.Kept, want: engine.Turn},
		"not ours":  {outcome: protocol.NotOurs, want: engine.Turn},
		"failed":    {outcome: protocol.Freed, err: errors.New("the connection broke"), want: engine.Turn},
		"passed on": {outcome: protocol.PassedOn, want: engine.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := new(resource.Client)
			c.MakeChannels()
			r := policy.NewMutex(c, "k")
			terms := engine.Terms{TTL: 30 * time.Second, Renew: true, Fenced: test.fenced}
			w := resource.NewWaiter(context.Background(), leases.New(c.Core(), core.KindMutex, context.Background()), &leases.Config{Wait: leases.UntilDone, Terms: terms})
			r.Queue.Push(w)
			r.Mu.Lock()
			defer r.Mu.Unlock()
			again := r.TicketFor(terms)
			again.Standing = true
			again.To(engine.TicketQueued)
			done := resource.Released{Released: protocol.Released{Outcome: test.outcome, At: time.Now()}, Sent: core.Now()}
			r.Resume(&resource.ReleaseOp{Again: again, Terms: terms}, done, test.err)
			ev, ok := w.NextEvent()
			require.True(t, ok)
			require.Equal(t, test.want, ev.Kind)
			require.Nil(t, r.Grant)
		})
	}
}

// A key is handed over while a request for it is under way, and unlocked before the answer comes: the release waits for the answer, or the
// request could take the key again.
func TestResource_AReleaseWaitsForTheRequestOfItsTicket(t *testing.T) {
	t.Parallel()
	c := clientOf(t, redistest.Shared(t).URL(), core.Settings{})
	r, w, tk, op := (&stateTest{t, c}).mutex("k")
	request, l := op(), w.For.Lease
	redistest.Shared(t).Do("HSET", r.Key, c.base.Wire.Owner(tk.Number), "1")
	tk.Handed(protocol.Message{Number: tk.Number, Granted: time.Now()})
	require.Equal(t, engine.TicketGranted, stateOf(tk))
	done := make(chan error, 1)
	go func() { done <- l.Core().Grant.Unlock(l) }()
	waits := func() bool {
		r.Mu.Lock()
		defer r.Mu.Unlock()
		return tk.Rare().Pending != nil
	}
	require.Eventually(t, waits, 10*time.Second, time.Millisecond, "it was sent before the answer")
	has := func() bool {
		n, err := redistest.Shared(t).Do("EXISTS", r.Key).AsInt64()
		require.NoError(t, err)
		return n == 1
	}
	require.True(t, has())
	r.Settle(request, time.Now(), protocol.Verdict{Wait: protocol.Granted}, false, nil) // once more
	r.Quit()                                                                            // as the request does when it is answered
	require.NoError(t, <-done)
	require.False(t, has())
}

// A ticket that stood in the wait queue is withdrawn when the server refuses its release for good: the ticket may be handed the key still.
func TestResource_ARefusedReleaseOfOneInLineIsWithdrawn(t *testing.T) {
	t.Parallel()
	for standing, want := range map[bool]engine.TicketState{true: engine.TicketWithdrawing, false: engine.TicketDone} {
		c := clientOf(t, redistest.Shared(t).URL(), core.Settings{})
		r, w, tk, _ := (&stateTest{t, c}).mutex(strconv.FormatBool(standing))
		redistest.Shared(t).Do("SET", r.Key, "no list")
		refused := c.Redis().Do(t.Context(), c.Redis().B().Llen().Key(r.Key).Build()).Error()
		require.Error(t, refused)
		redistest.Shared(t).Do("DEL", r.Key)
		r.Mu.Lock()
		tk.Standing = standing
		tk.To(engine.TicketAsking)
		release := r.EndGrant(r.Promote(trace.Granted, tk, w, time.Now(), tk.TTL))
		r.Mu.Unlock()
		release.Answered(time.Now(), protocol.Answer{}, false, refused)
		require.ErrorIs(t, release.Outcome(nil), failure.ErrWrongType)
		require.Equal(t, want, stateOf(tk))
	}
}

// A lease that the clock has ended, when its holder asked, is lost, also where the watchdog does not know it yet, and Redis has the key still:
// Unlock says so, and frees the key.
func TestUnlock_TellsOfALossByTheClock(t *testing.T) {
	t.Parallel()
	c := clientOf(t, redistest.Shared(t).URL(), core.Settings{})
	for kind, of := range map[string]func(key string) Locker{
		core.KindMutex: func(key string) Locker { return c.Mutex(key) },
		core.KindFair:  func(key string) Locker { return c.FairMutex(key) },
		core.KindWrite: func(key string) Locker { return c.RWMutex(key) },
	} {
		key := redistest.Key(t, kind)
		l, err := of(key).Lock(t.Context())
		require.NoError(t, err)
		l.Core().End(failure.Lost(watchdog.ErrElapsed)) // as Err does
		require.ErrorIs(t, l.Unlock(t.Context()), failure.ErrLost, kind)
		n, err := redistest.Shared(t).Do("EXISTS", key).AsInt64()
		require.NoError(t, err)
		require.Zero(t, n, kind)
	}
}

// A call under a lease that the clock has ended does not enter its grant, which Redis may have still.
func TestRWMutex_NoCallEntersALeaseThatHasEnded(t *testing.T) {
	t.Parallel()
	c := clientOf(t, redistest.Shared(t).URL(), core.Settings{})
	m := c.RWMutex(redistest.Key(t, "k"))
	l, err := m.Lock(t.Context())
	require.NoError(t, err)
	under := context.WithoutCancel(l.Context())
	again, err := m.TryLock(under)
	require.NoError(t, err)
	require.NoError(t, again.Unlock(under))
	l.Core().End(failure.Lost(watchdog.ErrElapsed)) // as Err does
	_, err = m.TryLock(under)
	require.ErrorIs(t, err, failure.ErrNotAcquired)
	_ = l.Unlock(under)
}

// A reader that asks under the write lock of its owner asks under the next one of that owner, too, if the first one is unlocked before its request arrives.
// Otherwise the owner would wait for itself.
func TestRWMutex_AnOwnerReadsUnderItsPresentWriteLock(t *testing.T) {
	t.Parallel()
	c := clientOf(t, redistest.Shared(t).URL(), core.Settings{})
	m := c.RWMutex(redistest.Key(t, "k"))
	ctx := leases.WithOwner(t.Context(), leases.NewOwner())
	first, err := m.Lock(ctx)
	require.NoError(t, err)

	cfg, err := leases.Configure(c.Core(), nil, []leases.Option{leases.WithWait(10 * time.Second)})
	require.NoError(t, err)
	l := leases.New(c.Core(), core.KindRead, ctx) // as RLock does
	r, err := c.rws.Enter(m.Key(), false)
	require.NoError(t, err)
	defer r.Exit()
	entered, under, err := r.Enter(ctx, l, &cfg)
	require.NoError(t, err)
	require.False(t, entered)
	require.Equal(t, first.Core().Grant, leases.Grant(under))
	w := resource.NewWaiter(ctx, l, &cfg)
	r.NewTicket(w, false, under)

	require.NoError(t, first.Unlock(ctx))
	second, err := m.Lock(ctx)
	require.NoError(t, err)
	reader, err := c.base.Contend(ctx, r, w, &cfg, nil)
	require.NoError(t, err)
	require.NoError(t, second.Unlock(ctx))
	require.NoError(t, reader.Err())
	require.NoError(t, reader.Unlock(ctx))
}

// A call that gets a key that lingers has it for as long as its own options say: the renewal ends, and then the lease.
func TestMutex_WhatLingersIsBoundByTheNextCall(t *testing.T) {
	t.Parallel()
	c := clientOf(t, redistest.Shared(t).URL(), core.Settings{})
	c.base.Settings.Linger = 30 * time.Minute
	c.base.Hear()
	require.Eventually(t, c.base.Heard, 20*time.Second, time.Millisecond)
	m := c.Mutex(redistest.Key(t, "k"), leases.WithWatchdog(500*time.Millisecond))
	first, err := m.Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, first.Unlock(t.Context()))
	bound, err := m.Lock(t.Context(), leases.WithMaxHold(time.Millisecond)) // without a request, unless the machine stood still
	require.NoError(t, err)
	select {
	case <-bound.Context().Done():
	case <-time.After(20 * time.Second):
		require.Fail(t, "it is renewed without end")
	}
	require.ErrorIs(t, bound.Unlock(t.Context()), failure.ErrLost)
}

// A reader joins no grant of another reader that was extended for that one alone, or after which others wait.
func TestRWMutex_AReaderDoesNotJoinEachGrant(t *testing.T) {
	t.Parallel()
	c := clientOf(t, redistest.Shared(t).URL(), core.Settings{})
	for name, test := range map[string]struct {
		before func(l *leases.Lease, g *resource.Grant)
		joins  bool
	}{
		"as it is": {func(*leases.Lease, *resource.Grant) {}, true},
		"extended": {func(l *leases.Lease, _ *resource.Grant) { require.NoError(t, l.Extend(t.Context(), time.Hour)) }, false},
		"others wait": {func(_ *leases.Lease, g *resource.Grant) {
			g.Resource().Mu.Lock()
			defer g.Resource().Mu.Unlock()
			g.Ticket.OthersWait = true
		}, false},
	} {
		m := c.RWMutex(redistest.Key(t, name))
		first, err := m.RLock(t.Context())
		require.NoError(t, err)
		g := first.Core().Grant.(*resource.Grant) //nolint:forcetypeassert // of a read-write lock
		test.before(first, g)
		second, err := m.RLock(t.Context())
		require.NoError(t, err)
		require.Equal(t, test.joins, second.Core().Grant == leases.Grant(g), name)
		require.NoError(t, second.Unlock(t.Context()))
		require.NoError(t, first.Unlock(t.Context()))
	}
}

// A key is handed over while a request for it is under way, and lost before that request arrives, which takes it again: the holder gives it
// back.
func TestResource_WhatIsGrantedOnceMoreAfterItsLossIsGivenBack(t *testing.T) {
	t.Parallel()
	c := clientOf(t, redistest.Shared(t).URL(), core.Settings{})
	r, w, tk, op := (&stateTest{t, c}).mutex("k")
	request, l := op(), w.For.Lease
	tk.Handed(protocol.Message{Number: tk.Number, Granted: time.Now()})
	require.Equal(t, engine.TicketGranted, stateOf(tk))
	c.base.Watchdog.Lose(l.Core().Guard(), watchdog.ErrRefused)
	r.Settle(request, time.Now(), protocol.Verdict{Wait: protocol.Granted}, false, nil)
	r.Quit() // as the request does when it is answered
	require.ErrorIs(t, l.Core().Grant.Unlock(l), failure.ErrLost)
	require.Equal(t, engine.TicketWithdrawing, stateOf(tk))
}

// A refusal that is older than a message has the head of the queue ask again, and not the waiter that listens for it. If the client is closed, the
// call of the head fails.
func TestResource_ARefusalThatIsTooOldIsOfTheHeadAlone(t *testing.T) {
	t.Parallel()
	for closed, want := range map[bool]engine.EventKind{false: engine.Turn, true: engine.Failed} {
		c := clientOf(t, redistest.Shared(t).URL(), core.Settings{})
		r, err := c.mutexes.Enter(redistest.Key(t, strconv.FormatBool(closed)), false)
		require.NoError(t, err)
		joins := func(polling bool) *resource.Waiter {
			cfg, err := leases.Configure(c.Core(), nil, nil)
			require.NoError(t, err)
			cfg.Polling = polling
			w := resource.NewWaiter(context.Background(), leases.New(c.Core(), core.KindMutex, context.Background()), &cfg)
			r.Join(w)
			return w
		}
		head := joins(true)
		tk := r.TicketFor(head.Terms)
		request := r.Prepare(head)
		deputy := joins(false)
		for _, w := range []*resource.Waiter{head, deputy} {
			for _, heard := w.NextEvent(); heard; _, heard = w.NextEvent() {
			}
		}
		r.Mu.Lock()
		require.Same(t, deputy, r.Queue.Deputy())
		tk.Looks = true // a message
		r.Mu.Unlock()
		end := make(chan error, 1)
		if closed {
			go func() { end <- c.Close() }() // which waits for the answer
			<-c.Core().Closing
		}
		r.Settle(request, time.Now(), protocol.Verdict{Wait: 1000, At: time.Now()}, false, nil)
		r.Quit() // as the request does when it is answered
		ev, heard := head.NextEvent()
		for heard && ev.Kind != engine.Turn && ev.Kind != engine.Failed { // that the client is closed
			ev, heard = head.NextEvent()
		}
		require.True(t, heard)
		require.Equal(t, want, ev.Kind)
		if closed {
			require.Equal(t, failure.ErrClosed, ev.Err)
		}
		ev, heard = deputy.NextEvent()
		require.False(t, heard && ev.Kind == engine.Turn, "it has %+v", ev)
		removeFrom(r, deputy)
		removeFrom(r, head)
		r.Exit()
		if closed {
			require.NoError(t, <-end)
		}
	}
}

// A key is handed over to a process whose last waiter has gone. The answer to its request, which is older, does not hide that: then the
// next turn is that of Redisson's waiters.
func TestResource_RemembersWhatItWasHandedWithoutAWaiter(t *testing.T) {
	t.Parallel()
	c := clientOf(t, redistest.Shared(t).URL(), core.Settings{})
	r, w, tk, op := (&stateTest{t, c}).mutex("k")
	request, sent, at := op(), core.Now(), time.Now()
	removeFrom(r, w)
	tk.Handed(protocol.Message{Number: tk.Number, Granted: at.Add(time.Millisecond)})
	r.Settle(request, sent, protocol.Verdict{Wait: 1000, At: at}, false, nil)
	r.Quit() // as the request does when it is answered
	r.Mu.Lock()
	defer r.Mu.Unlock()
	require.True(t, tk.UnclaimedGrant)
}

// A waiter that has heard nothing for long, and has its place in the wait queue, asks together with many others. For any other reason few ask
// together, so that an answer comes soon.
func TestResource_ReviewsAfterALongTime(t *testing.T) {
	t.Parallel()
	c := clientOf(t, redistest.Shared(t).URL(), core.Settings{Tracks: true})
	r, w, tk, _ := (&stateTest{t, c}).mutex("k")
	for _, step := range []struct {
		standing bool
		to       *transport.Batcher
		ago      time.Duration // before now, the request of this step is sent, which is refused
		recheck  bool
	}{
		{false, c.base.Takes, time.Hour, true},
		{false, c.base.Takes, time.Hour, true},
		{true, c.base.Reviews, time.Hour, true},
		{true, c.base.Acquires, time.Hour, false}, // a message
		{true, c.base.Reviews, 0, true},
		{true, c.base.Acquires, time.Hour, true},
		{true, c.base.Reviews, 0, true},
	} {
		tk.Standing, w.Recheck = step.standing, step.recheck
		op := r.Prepare(w)
		require.Same(t, step.to, op.To)
		at := time.Now().Add(-step.ago)
		r.Settle(op, at, protocol.Verdict{Wait: 1000, At: at}, false, nil)
		r.Quit()
	}
	removeFrom(r, w)
}

// A waiter that a message wakes after a long time is in a hurry: its request does not gather with those to recheck.
func TestResource_AMessageAfterALongTimeIsNoRecheck(t *testing.T) {
	t.Parallel()
	c := clientOf(t, redistest.Shared(t).URL(), core.Settings{Tracks: true})
	c.base.Reviews = c.base.Net.Reviewer(protocol.Batch{Script: scripts.New("rechecks", "return redis.error_reply('ERR this is no time to recheck')")})
	key, rc, ctx := redistest.Key(t, "k"), c.Redis(), t.Context()
	require.NoError(t, rc.Do(ctx, rc.B().Hset().Key(key).FieldValue().FieldValue("java:1", "1").Build()).Error())
	require.NoError(t, rc.Do(ctx, rc.B().Pexpire().Key(key).Milliseconds(60000).Build()).Error())
	got := make(chan error, 1)
	go func() {
		l, err := c.Mutex(key).Lock(ctx)
		if err == nil {
			err = l.Unlock(ctx)
		}
		got <- err
	}()
	require.Eventually(t, func() bool {
		r, ok := c.mutexes.Find(key)
		if !ok {
			return false
		}
		r.Mu.Lock()
		defer r.Mu.Unlock()
		if r.Ticket == nil || !r.Ticket.Standing || r.Ticket.State != engine.TicketQueued || r.Busy > 0 {
			return false
		}
		past := time.Now().Add(-time.Minute)
		r.Ticket.Sees(engine.SightingOf(past, past))
		return r.Ticket.Rests()
	}, 10*time.Second, time.Millisecond)
	require.NoError(t, rc.Do(ctx, rc.B().Del().Key(key).Build()).Error())
	require.NoError(t, rc.Do(ctx, rc.B().Publish().Channel(protocol.LockChannel(key)).Message("0").Build()).Error())
	require.NoError(t, <-got)
}
