package engine

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
)

// A ticket becomes a grant only if Redis granted it in time to a call that wants it, of a process that still grants. Its marks say
// what Redis may have all the same.
func TestTicketCore_Judge(t *testing.T) {
	t.Parallel()
	broke, closed := errors.New("the connection broke"), errors.New("closed")
	for name, test := range map[string]struct {
		answer           Answer
		unwanted, forced bool
		closed           error

		want               Judgment
		err                error
		unclaimed, unknown bool
	}{
		"granted":               {answer: Answer{Granted: true}, want: JudgedGranted, unclaimed: true},
		"refused":               {want: JudgedRefused},
		"granted, unwanted":     {answer: Answer{Granted: true}, unwanted: true, want: JudgedAgain, unclaimed: true},
		"granted, while closed": {answer: Answer{Granted: true}, closed: closed, err: closed, unclaimed: true},
		"granted, too late":     {answer: Answer{Granted: true, Sent: time.Now().Add(-28 * time.Second)}, err: ErrLate, unclaimed: true},
		"granted, then taken":   {answer: Answer{Granted: true}, forced: true, want: JudgedAgain, unclaimed: true},
		"no answer":             {answer: Answer{Err: broke, Fate: FateUnknown}, err: broke, unknown: true},
		"not sent":              {answer: Answer{Err: broke}, err: broke},
		"not confirmed":         {answer: Answer{Err: broke, Fate: FateUnconfirmed}, err: broke, unclaimed: true},
		"both, an error":        {answer: Answer{Granted: true, Err: broke}, err: broke},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tk := TicketCore{State: TicketAsking, Forced: test.forced}
			test.answer.TTL = 30 * time.Second
			if test.answer.Sent.IsZero() {
				test.answer.Sent = time.Now()
			}
			got, err := tk.Judge(test.answer, !test.unwanted, test.closed)
			require.Equal(t, test.want, got)
			require.ErrorIs(t, err, test.err)
			require.Equal(t, test.err == nil, err == nil)
			require.Equal(t, test.unclaimed, tk.UnclaimedGrant)
			require.Equal(t, test.unknown, tk.OutcomeUnknown)
			require.False(t, tk.Forced)
		})
	}
}

// Once its outcome is unknown, no later answer makes it known.
func TestTicketCore_StaysInDoubt(t *testing.T) {
	t.Parallel()
	var tk TicketCore
	tk.Doubt(FateUnknown)
	tk.Doubt(0)
	_, _ = tk.Judge(Answer{}, true, nil)
	require.True(t, tk.OutcomeUnknown)
}

// A grant that nobody was given stays one when a later request fails.
func TestTicketCore_StaysUnclaimed(t *testing.T) {
	t.Parallel()
	tk := TicketCore{UnclaimedGrant: true}
	_, _ = tk.Judge(Answer{Err: errBroke}, true, nil)
	require.True(t, tk.UnclaimedGrant)
}

// A ticket that asks comes to rest in line, if it has asked for a place there. Others stay as they are.
func TestTicketCore_Rest(t *testing.T) {
	t.Parallel()
	for from, want := range map[TicketCore]TicketState{
		{State: TicketAsking}:                 TicketIdle,
		{State: TicketAsking, Standing: true}: TicketQueued,
		{State: TicketGranted}:                TicketGranted,
		{State: TicketDone, Standing: true}:   TicketDone,
	} {
		left := from.Left()
		from.Rest()
		require.Equal(t, want, from.State, want)
		require.Equal(t, want > TicketGranted, left, want)
	}
}

// The trust in a hand-over begins no later than the server can have made it: as an earlier answer relates the clocks, or when the
// ticket was made. A server's clock that is set forward gains nothing.
func TestSuccessorCore_HandedOver(t *testing.T) {
	t.Parallel()
	local := time.Now()
	server := local.Add(-time.Hour) // its clock is wrong
	made := local.Add(-time.Minute)
	fresh := func() *SuccessorCore { return &SuccessorCore{Since: monotonic.Of(made)} }

	tk := fresh()
	require.WithinDuration(t, made, tk.HandedOver(server, local), time.Microsecond, "without an answer")
	require.True(t, tk.UnclaimedGrant)
	require.Equal(t, server.UnixMicro(), tk.HandedAt())

	tk = fresh()
	tk.Refuse(local.Add(-time.Second), server.Add(-time.Second))
	require.True(t, tk.Refused)
	require.True(t, tk.RefusedSince(server.Add(-2*time.Second)))
	require.False(t, tk.RefusedSince(server))
	require.WithinDuration(t, local.Add(-100*time.Millisecond), tk.HandedOver(server.Add(-100*time.Millisecond), local), time.Millisecond, "with an answer")

	tk = fresh()
	tk.Refuse(local.Add(-time.Second), server.Add(-time.Second))
	require.Equal(t, local, tk.HandedOver(server.Add(time.Hour), local), "the clock was set forward")
}

// A ticket rests that has a place in the wait queue, and of which Redis has said nothing for about as long as a waiter waits between two
// requests.
func TestSuccessorCore_Rests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rests := func(tk *SuccessorCore, after time.Duration) bool {
			time.Sleep(after)
			return tk.Rests()
		}
		require.False(t, rests(&SuccessorCore{TicketCore: TicketCore{Standing: true}}, longAlarm), "no answer")
		var tk SuccessorCore
		tk.Refuse(time.Now(), time.Now())
		require.False(t, rests(&tk, longAlarm), "it has no place")
		tk.Standing = true
		require.True(t, tk.Rests())
		tk.Refuse(time.Now(), time.Now())
		require.False(t, tk.Rests(), "a refusal a moment ago")
		require.False(t, rests(&tk, longAlarm-earlyAlarm-1))
		require.True(t, rests(&tk, 1))
		tk.Sees(Sighting{})
		require.False(t, tk.Rests(), "the server may be another one")
	})
}

// A refusal that may be older than the hand-over says nothing about it, by the clocks of both.
func TestSuccessorCore_ARefusalFromBeforeTheHandOver(t *testing.T) {
	t.Parallel()
	at := time.Now()
	for name, test := range map[string]struct {
		sent, server time.Duration
		keeps        bool
	}{
		"both before":               {sent: -time.Millisecond, server: -time.Millisecond, keeps: true},
		"the clock was set back":    {sent: time.Millisecond, server: -time.Hour},
		"sent before, run after it": {sent: -time.Millisecond, server: time.Millisecond},
	} {
		var tk SuccessorCore
		tk.HandedOver(at, at)
		tk.Refuse(at.Add(test.sent), at.Add(test.server))
		require.Equal(t, test.keeps, tk.UnclaimedGrant, name)
	}
}

// A recheck happens once, at the time that was set last, and not when it was stopped.
func TestRecheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var x Recheck
		x.Stop() // nothing was set
		looks := 0
		began := time.Now()
		look := func() {
			require.Equal(t, 3*time.Second, time.Since(began))
			looks++
		}
		x.In(time.Second, look)
		x.In(3*time.Second, look)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 1, looks)
		x.In(time.Second, look)
		x.Stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 1, looks)
	})
}

// A refusal after the hand-over of the lock counts, unless the server may have refused before it: its clock was set, if it says that more
// time has passed than since the ticket was made.
func TestSuccessorCore_RefusedSinceHandOver(t *testing.T) {
	t.Parallel()
	at := time.Now()
	tk := &SuccessorCore{Since: monotonic.Of(at.Add(-time.Second))}
	tk.HandedOver(at, at)
	tk.Since = monotonic.Now() // it is granted
	for _, each := range []struct {
		after    time.Duration
		so, sure bool
	}{{-time.Millisecond, false, true}, {500 * time.Millisecond, true, true}, {time.Hour, true, false}} {
		so, sure := tk.RefusedSinceHandOver(at.Add(each.after))
		require.Equal(t, each.so, so, each.after)
		require.Equal(t, each.sure, sure, each.after)
	}
	_, sure := new(SuccessorCore).RefusedSinceHandOver(at)
	require.False(t, sure, "it was never handed over")
}
