package lockrt_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// This file has changes of counts whose callers leave before Redis has answered. The client sends no request of such a change any more. One
// that is under way may still be done, once: the outcome is unknown. Later changes of the same client are not overtaken by it.

// leave makes a call with a context that ends while Redis refuses connections, and lets connections through again.
func (l *line) leave(t *testing.T, times int, call func(ctx context.Context) error) {
	t.Helper()
	l.proxy.Refuse(true)
	for range times {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		require.ErrorIs(t, call(ctx), context.DeadlineExceeded)
		cancel()
	}
	l.proxy.Refuse(false)
}

// tenPermits returns a semaphore with ten permits.
func (l *line) tenPermits(t *testing.T) *lockrt.Semaphore {
	t.Helper()
	s := l.client.Semaphore(l.key, 0)
	created, err := s.TrySetPermits(patient(t), 10, 0)
	require.NoError(t, err)
	require.True(t, created)
	return s
}

func TestFault_Semaphore_ResizesWhoseCallersHaveLeftAreNotDone(t *testing.T) {
	t.Parallel()
	l := newLine(t, lockrt.Options{})
	s := l.tenPermits(t)
	l.leave(t, 8, func(ctx context.Context) error { _, err := s.Resize(ctx, 5); return err })
	require.NoError(t, l.client.Close(), "which waits for what goes on in the background")
	requireInt(t, 10, l.server, "GET", l.key)
}

func TestFault_Semaphore_DrainWhoseCallerHasLeftIsNotDone(t *testing.T) {
	t.Parallel()
	atBest(t, "was no request on its way to a new connection when the call gave up", func() bool {
		l := newLine(t, lockrt.Options{})
		s := l.tenPermits(t)
		asks := l.seen(redistest.EvalSHA(scripts.SemaphoreDrain.SHA1()))
		l.leave(t, 1, func(ctx context.Context) error { _, err := s.Drain(ctx); return err })
		require.NoError(t, l.client.Close(), "which waits for what goes on in the background")
		requireInt(t, 10, l.server, "GET", l.key)
		return len(asks) == 0
	})
}

// A Drain that is under way when its caller leaves takes permits that nobody gets. The client gives them back.
func TestFault_Semaphore_LateDrainIsGivenBack(t *testing.T) {
	t.Parallel()
	atBest(t, inTime, func() bool {
		l := newLine(t, lockrt.Options{})
		s := l.tenPermits(t)
		drains, releases := make(chan struct{}, 100), make(chan struct{}, 100)
		l.proxy.OnRequest(func(cmd []string) {
			switch {
			case redistest.EvalSHA(scripts.SemaphoreDrain.SHA1())(cmd):
				drains <- struct{}{}
			case redistest.EvalSHA(scripts.SemaphoreRelease.SHA1())(cmd):
				releases <- struct{}{}
			}
		})
		l.proxy.Blackhole(redistest.Requests)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		got := later(func() error { _, err := s.Drain(ctx); return err })
		if !underWay(l, drains, got) {
			return false
		}
		cancel()
		require.ErrorIs(t, receive(t, got, "the call that gave up"), context.Canceled)
		requireInt(t, 10, l.server, "GET", l.key)
		l.proxy.Deliver()
		receive(t, releases, "the release")
		until(t, "it is given back", func() bool { return number(t, l.server, "GET", l.key) == 10 })
		tidy(t, l.client, l.server, l.key)
		return true
	})
}

// A Drain whose replies are lost, and whose caller has left, took permits that nobody gets. The client finds out, and gives them back.
func TestFault_Semaphore_DrainWithoutAReplyIsGivenBack(t *testing.T) {
	t.Parallel()
	l := newLine(t, lockrt.Options{})
	s := l.tenPermits(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l.proxy.DropReply(redistest.EvalSHA(scripts.SemaphoreDrain.SHA1()), 0, redistest.Close)
	got := later(func() error { _, err := s.Drain(ctx); return err })
	until(t, "it has taken all", func() bool { return number(t, l.server, "GET", l.key) == 0 })
	cancel()
	require.ErrorIs(t, receive(t, got, "the call that gave up"), context.Canceled)
	until(t, "they are given back", func() bool { return number(t, l.server, "GET", l.key) == 10 })
	tidy(t, l.client, l.server, l.key)
}

// A Drain that fails since no reply comes in time took permits that nobody gets, too.
func TestFault_Semaphore_DrainThatFailsIsGivenBack(t *testing.T) {
	t.Parallel()
	l := newLine(t, lockrt.Options{OpTimeout: 500 * time.Millisecond})
	s := l.tenPermits(t)
	l.proxy.DropReply(redistest.EvalSHA(scripts.SemaphoreDrain.SHA1()), 0, redistest.Close)
	got := later(func() error { _, err := s.Drain(t.Context()); return err })
	until(t, "it has taken all", func() bool { return number(t, l.server, "GET", l.key) == 0 })
	require.ErrorIs(t, receive(t, got, "the call"), lockrt.ErrUnavailable)
	until(t, "they are given back", func() bool { return number(t, l.server, "GET", l.key) == 10 })
	tidy(t, l.client, l.server, l.key)
}

// A Drain of which one copy has no reply and another one is refused may have taken permits as well.
func TestFault_Semaphore_DrainWithARefusedCopyIsGivenBack(t *testing.T) {
	t.Parallel()
	atBest(t, inTime, func() bool {
		l := &line{server: redistest.Server(t), key: redistest.Key(t, "k")}
		l.proxy = redistest.Proxy(t, l.server.Addr())
		l.client = clientOf(t, l.proxy.URL(), lockrt.Options{})
		l.warm(t)
		s := l.tenPermits(t)
		drains := l.seen(redistest.EvalSHA(scripts.SemaphoreDrain.SHA1()))
		lost := l.proxy.DropReply(redistest.EvalSHA(scripts.SemaphoreDrain.SHA1()), 1, redistest.Mute)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		got := later(func() error { _, err := s.Drain(ctx); return err })
		receive(t, lost.Done(), "the lost reply")
		end := occupied(t, l.server)
		for range 3 { // the copy has been refused when there is a third one
			select {
			case <-drains:
			case <-got: // the copy was sent before the server was busy
				return false
			}
		}
		cancel()
		require.ErrorIs(t, receive(t, got, "the call that gave up"), context.Canceled)
		end()
		until(t, "they are given back", func() bool { return number(t, l.server, "GET", l.key) == 10 })
		return true
	})
}

// After a Drain no permit is free: not even those that an earlier Drain took whose caller has left.
func TestFault_Semaphore_LateDrainStaysAfterAnother(t *testing.T) {
	t.Parallel()
	atBest(t, inTime, func() bool {
		l := newLine(t, lockrt.Options{})
		s := l.tenPermits(t)
		drains := l.seen(redistest.EvalSHA(scripts.SemaphoreDrain.SHA1()))
		l.proxy.Blackhole(redistest.Replies)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		got := later(func() error { _, err := s.Drain(ctx); return err })
		if !underWay(l, drains, got) {
			return false
		}
		until(t, "it has taken all", func() bool { return number(t, l.server, "GET", l.key) == 0 })
		cancel()
		require.ErrorIs(t, receive(t, got, "the call that gave up"), context.Canceled)
		sent := l.seen(func([]string) bool { return true }) // the network is silent: it may be the HELLO of another connection
		second := make(chan int, 1)
		go func() {
			n, err := s.Drain(patient(t))
			assert.NoError(t, err)
			second <- n
		}()
		receive(t, sent, "the second request")
		l.proxy.Deliver()
		if receive(t, second, "the second Drain") != 0 { // it began when the permits were given back
			return false
		}
		require.NoError(t, l.client.Close(), "which waits for what goes on in the background")
		requireInt(t, 0, l.server, "GET", l.key)
		l.server.Do("DEL", l.key)
		return true
	})
}

// So it is with permits that are on their way back when the next Drain begins.
func TestFault_Semaphore_AnotherDrainEndsTheReleaseOfALateOne(t *testing.T) {
	t.Parallel()
	l := newLine(t, lockrt.Options{})
	s := l.tenPermits(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	drains := l.proxy.DropReply(redistest.EvalSHA(scripts.SemaphoreDrain.SHA1()), 0, redistest.Close)
	releases := l.proxy.DropRequest(redistest.EvalSHA(scripts.SemaphoreRelease.SHA1()), 0, redistest.Close)
	got := later(func() error { _, err := s.Drain(ctx); return err })
	until(t, "it has taken all", func() bool { return number(t, l.server, "GET", l.key) == 0 })
	cancel()
	require.ErrorIs(t, receive(t, got, "the call that gave up"), context.Canceled)
	drains.Stop()
	until(t, "they are on their way back", func() bool { return releases.Lost() > 0 })
	n, err := s.Drain(patient(t))
	require.NoError(t, err)
	require.Zero(t, n)
	releases.Stop()
	require.NoError(t, l.client.Close(), "which waits for what goes on in the background")
	requireInt(t, 0, l.server, "GET", l.key)
	l.server.Do("DEL", l.key)
}

// A change that Redis confirms is not undone by earlier ones of the same client, whose callers have left.
func TestFault_Permit_SetPermitsIsNotOvertaken(t *testing.T) {
	t.Parallel()
	l := newLine(t, lockrt.Options{})
	s := l.client.PermitSemaphore(l.key, 0)
	require.NoError(t, s.SetPermits(patient(t), 3))
	lost := l.proxy.DropRequest(redistest.EvalSHA(scripts.PermitSet.SHA1()), 1, redistest.Close)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := later(func() error { return s.SetPermits(ctx, 5) })
	receive(t, lost.Done(), "the loss")
	cancel()
	if err := receive(t, got, "the call that gave up"); err != nil { // or it was sent again before
		require.ErrorIs(t, err, context.Canceled)
	}
	l.leave(t, 1, func(ctx context.Context) error { return s.SetPermits(ctx, 6) })
	require.NoError(t, s.SetPermits(patient(t), 10))
	require.NoError(t, l.client.Close(), "which waits for what goes on in the background")
	requireInt(t, 10, l.server, "GET", l.key)
}

// SetPermits counts once: its second run does not undo what other processes have done since the first.
func TestFault_Permit_LostSetPermitsCountsOnce(t *testing.T) {
	t.Parallel()
	everyLoss(t, func(t *testing.T, l *line, drop func(match func(cmd []string) bool, n int) *redistest.Drop) {
		s := l.client.PermitSemaphore(l.key, 0)
		require.NoError(t, s.SetPermits(patient(t), 3))
		lost := drop(redistest.EvalSHA(scripts.PermitSet.SHA1()), 1)
		require.NoError(t, s.SetPermits(patient(t), 5))
		receive(t, lost.Done(), "the loss")
		requireInt(t, 5, l.server, "GET", l.key)
		tidyPermits(t, l.client, l.server, l.key)
	})
}

// A Delete whose caller has left deletes no latch that another process starts later.
func TestFault_Latch_DeleteWhoseCallerHasLeftIsNotDone(t *testing.T) {
	t.Parallel()
	l := newLine(t, lockrt.Options{})
	latch, other := l.client.CountDownLatch(l.key), newClient(t, lockrt.Options{}).CountDownLatch(l.key)
	_, err := latch.SetCount(patient(t), 2)
	require.NoError(t, err)
	asks := l.seen(redistest.EvalSHA(scripts.LatchDelete.SHA1()))
	var waits <-chan error
	l.leave(t, 1, func(ctx context.Context) error {
		_, err := latch.Delete(ctx)
		_, otherErr := other.Delete(patient(t))
		require.NoError(t, otherErr)
		started, otherErr := other.SetCount(patient(t), 3)
		require.NoError(t, otherErr)
		require.True(t, started)
		waits = later(func() error { return other.Wait(patient(t)) })
		return err
	})
	require.NoError(t, l.client.Close(), "which waits for what goes on in the background")
	require.Empty(t, asks)
	for range 3 {
		_, err := other.CountDown(t.Context())
		require.NoError(t, err)
	}
	require.NoError(t, receive(t, waits, "the latch"))
}
