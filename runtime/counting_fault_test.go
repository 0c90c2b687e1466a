package lockrt_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/leaktest"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// This file loses messages and servers under semaphores, permits and latches. Their counts must come
// out right: Redis cannot see in them what was counted twice.

func requireInt(t *testing.T, want int64, server *redistest.RedisServer, cmd ...string) {
	t.Helper()
	require.Equal(t, want, number(t, server, cmd...))
}

func TestFault_Semaphore_LostAcquireCountsOnce(t *testing.T) {
	t.Parallel()
	everyLoss(t, func(t *testing.T, l *line, drop func(match func(cmd []string) bool, n int) *redistest.Drop) {
		s := l.client.Semaphore(l.key, 10)
		for name, take := range map[string]func() error{
			"acquire":     func() error { return s.Acquire(patient(t), 3) },
			"try acquire": func() error { return s.TryAcquire(patient(t), 3) },
		} {
			lost := drop(redistest.EvalSHA(scripts.SemaphoreAcquire.SHA1()), 1)
			require.NoError(t, take(), name)
			receive(t, lost.Done(), "the loss")
			requireInt(t, 7, l.server, "GET", l.key)
			require.NoError(t, s.Release(t.Context(), 3))
			requireInt(t, 10, l.server, "GET", l.key)
		}
		tidy(t, l.client, l.server, l.key)
	})
}

func TestFault_Semaphore_LostReleaseCountsOnce(t *testing.T) {
	t.Parallel()
	everyLoss(t, func(t *testing.T, l *line, drop func(match func(cmd []string) bool, n int) *redistest.Drop) {
		s := l.client.Semaphore(l.key, 10)
		require.NoError(t, s.Acquire(patient(t), 3))
		lost := drop(redistest.EvalSHA(scripts.SemaphoreRelease.SHA1()), 1)
		require.NoError(t, s.Release(t.Context(), 3))
		receive(t, lost.Done(), "the loss")
		requireInt(t, 10, l.server, "GET", l.key)
		lost = drop(redistest.EvalSHA(scripts.SemaphoreRelease.SHA1()), 1)
		_, err := s.Resize(t.Context(), 5)
		require.NoError(t, err)
		receive(t, lost.Done(), "the loss")
		requireInt(t, 15, l.server, "GET", l.key)
		lost = drop(redistest.EvalSHA(scripts.SemaphoreDrain.SHA1()), 1)
		n, err := s.Drain(t.Context())
		require.NoError(t, err)
		require.Equal(t, 15, n)
		receive(t, lost.Done(), "the loss")
		requireInt(t, 0, l.server, "GET", l.key)
		tidy(t, l.client, l.server, l.key)
	})
}

func TestFault_Semaphore_CreatedOnce(t *testing.T) {
	t.Parallel()
	everyLoss(t, func(t *testing.T, l *line, drop func(match func(cmd []string) bool, n int) *redistest.Drop) {
		lost := drop(redistest.EvalSHA(scripts.SemaphoreSet.SHA1()), 1)
		created, err := l.client.Semaphore(l.key, 0).TrySetPermits(t.Context(), 5, 0)
		require.NoError(t, err)
		require.True(t, created, "it was, though nobody heard of it")
		receive(t, lost.Done(), "the loss")
		requireInt(t, 5, l.server, "GET", l.key)
	})
}

// A waiter that gives up with an unknown outcome leaves no permit taken.
func TestFault_Semaphore_LostAcquireOfOneWhoGivesUpIsGivenBack(t *testing.T) {
	t.Parallel()
	for how, mode := range modes() {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, brisk)
			s := l.client.Semaphore(l.key, 10)
			lost := l.proxy.DropReply(redistest.EvalSHA(scripts.SemaphoreAcquire.SHA1()), 0, mode)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			got := later(func() error { return s.Acquire(ctx, 3) })
			until(t, "the server has granted it", func() bool {
				return number(t, l.server, "EXISTS", l.key) == 1 && number(t, l.server, "GET", l.key) == 7
			})
			cancel()
			require.ErrorIs(t, receive(t, got, "the call that gave up"), context.Canceled)
			lost.Stop()
			until(t, "it is given back", func() bool { return number(t, l.server, "GET", l.key) == 10 })
			tidy(t, l.client, l.server, l.key)
			require.NoError(t, s.TryAcquire(patient(t), 10))
		})
	}
}

// Nor if its client is closed before the outcome is known.
func TestFault_Semaphore_ClosedClientGivesBackWhatItMayHaveTaken(t *testing.T) {
	t.Parallel()
	for how, mode := range modes() {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, brisk)
			s := l.client.Semaphore(l.key, 10)
			lost := l.proxy.DropReply(redistest.EvalSHA(scripts.SemaphoreAcquire.SHA1()), 0, mode)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			got := later(func() error { return s.Acquire(ctx, 3) })
			until(t, "the server has granted it", func() bool {
				return number(t, l.server, "EXISTS", l.key) == 1 && number(t, l.server, "GET", l.key) == 7
			})
			cancel()
			require.ErrorIs(t, receive(t, got, "the call that gave up"), context.Canceled)
			lost.Stop()
			require.NoError(t, l.client.Close())
			requireInt(t, 10, l.server, "GET", l.key)
		})
	}
}

func TestFault_Semaphore_TryThatLearnsNothingIsGivenBack(t *testing.T) {
	t.Parallel()
	l := newLine(t, brisk)
	s := l.client.Semaphore(l.key, 10)
	lost := l.proxy.DropReply(redistest.EvalSHA(scripts.SemaphoreAcquire.SHA1()), 0, redistest.Close) // of three requests, or more or fewer on a busy machine
	err := s.TryAcquire(patient(t), 3)
	require.Error(t, err)
	require.NotErrorIs(t, err, lockrt.ErrNotAcquired, "that would be a no")
	until(t, "a loss", func() bool { return lost.Lost() > 0 })
	lost.Stop()
	until(t, "it is given back", func() bool { return number(t, l.server, "GET", l.key) == 10 })
	tidy(t, l.client, l.server, l.key)
}

// A request that is held up arrives when its caller has gone, and what it asked for was withdrawn.
func TestFault_Semaphore_LateRequestTakesNothing(t *testing.T) {
	t.Parallel()
	atBest(t, inTime, func() bool {
		l := newLine(t, lockrt.Options{})
		s := l.client.Semaphore(l.key, 10)
		created, err := s.TrySetPermits(t.Context(), 10, 0)
		require.NoError(t, err)
		require.True(t, created)
		asks := l.seen(redistest.EvalSHA(scripts.SemaphoreAcquire.SHA1()))
		l.proxy.Blackhole(redistest.Requests)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		got := later(func() error { return s.Acquire(ctx, 3) })
		if !underWay(l, asks, got) {
			return false
		}
		cancel()
		require.ErrorIs(t, receive(t, got, "the call that gave up"), context.Canceled)
		requireInt(t, 10, l.server, "GET", l.key)
		l.proxy.Deliver()
		tidy(t, l.client, l.server, l.key)
		requireInt(t, 10, l.server, "GET", l.key)
		return true
	})
}

func TestFault_Permit_LostAcquireCountsOnce(t *testing.T) {
	t.Parallel()
	everyLoss(t, func(t *testing.T, l *line, drop func(match func(cmd []string) bool, n int) *redistest.Drop) {
		s := l.client.PermitSemaphore(l.key, 10)
		lost := drop(redistest.EvalSHA(scripts.PermitAcquire.SHA1()), 1)
		p, err := s.AcquireN(patient(t), 3, unexpiring)
		require.NoError(t, err)
		receive(t, lost.Done(), "the loss")
		requireInt(t, 7, l.server, "GET", l.key)
		requireInt(t, 3, l.server, "ZCARD", "{"+l.key+"}:timeout")
		require.NoError(t, p.Err())

		lost = drop(redistest.EvalSHA(scripts.PermitRelease.SHA1()), 1)
		require.NoError(t, p.Release(t.Context()), "the server has done it, or does it now")
		receive(t, lost.Done(), "the loss")
		requireInt(t, 10, l.server, "GET", l.key)
		tidyPermits(t, l.client, l.server, l.key)
	})
}

func TestFault_Permit_LostReleaseByIDsSaysWhatItDid(t *testing.T) {
	t.Parallel()
	everyLoss(t, func(t *testing.T, l *line, drop func(match func(cmd []string) bool, n int) *redistest.Drop) {
		s := l.client.PermitSemaphore(l.key, 10)
		held, err := s.Acquire(patient(t), unexpiring)
		require.NoError(t, err)
		gone, err := s.Acquire(patient(t), unexpiring)
		require.NoError(t, err)
		require.NoError(t, gone.Release(t.Context()))

		lost := drop(redistest.EvalSHA(scripts.PermitRelease.SHA1()), 1)
		require.ErrorIs(t, s.Release(t.Context(), held.PermitID(), gone.PermitID()), lockrt.ErrLost, "one of them is not there")
		receive(t, lost.Done(), "the loss")
		require.NoError(t, held.Err(), "it was not given back")
		requireInt(t, 9, l.server, "GET", l.key)

		lost = drop(redistest.EvalSHA(scripts.PermitRelease.SHA1()), 1)
		require.NoError(t, s.Release(t.Context(), held.PermitID()), "the server has done it, or does it now")
		receive(t, lost.Done(), "the loss")
		require.ErrorIs(t, held.Err(), lockrt.ErrLost)
		requireInt(t, 10, l.server, "GET", l.key)
		require.ErrorIs(t, held.Release(t.Context()), lockrt.ErrLost)
		tidyPermits(t, l.client, l.server, l.key)
	})
}

// Redis may have done a release by ids that has no answer: the permits of this process are not trusted any more, nor is a hold of some of
// them.
func TestFault_Permit_ReleaseByIDsWithoutAnAnswerEndsTheTrust(t *testing.T) {
	t.Parallel()
	for what := range losses(nil) {
		for how, mode := range modes() {
			t.Run(what+" "+how, func(t *testing.T) {
				t.Parallel()
				l := newLine(t, lockrt.Options{OpTimeout: 2 * time.Second})
				s := l.client.PermitSemaphore(l.key, 10)
				fixed, renewed := permit(t, s, 1, lockrt.WithLease(time.Hour)), permit(t, s, 1, unexpiring)
				several, other := permit(t, s, 3, lockrt.WithLease(time.Hour)), permit(t, s, 1, lockrt.WithLease(time.Hour))
				ids := several.PermitIDs()

				lost := losses(l.proxy)[what](redistest.EvalSHA(scripts.PermitRelease.SHA1()), 0, mode)
				require.ErrorIs(t, s.Release(t.Context(), fixed.PermitID(), renewed.PermitID(), ids[1]), lockrt.ErrUnavailable)
				require.ErrorIs(t, fixed.Err(), lockrt.ErrLost)
				require.ErrorIs(t, context.Cause(fixed.Context()), lockrt.ErrLost)
				require.ErrorIs(t, renewed.Err(), lockrt.ErrLost)
				require.Equal(t, []string{ids[0], ids[2]}, several.PermitIDs())
				require.NoError(t, several.Err())
				require.NoError(t, other.Err())
				lost.Stop()
				until(t, "the release is done", func() bool { return number(t, l.server, "GET", l.key) == 7 })
				require.ErrorIs(t, fixed.Release(t.Context()), lockrt.ErrLost)
				require.ErrorIs(t, renewed.Release(t.Context()), lockrt.ErrLost)
				require.NoError(t, several.Release(t.Context()))
				require.NoError(t, other.Release(t.Context()))
				tidyPermits(t, l.client, l.server, l.key)
			})
		}
	}
}

// A holder stops before its permits are released by ids, as by its own release: Redis may grant them before it answers.
func TestPermit_HolderStopsBeforeItIsReleasedByIDs(t *testing.T) {
	t.Parallel()
	l := newLine(t, lockrt.Options{})
	s := l.client.PermitSemaphore(l.key, 10)
	p, several := permit(t, s, 1, lockrt.WithLease(time.Hour)), permit(t, s, 2, lockrt.WithLease(time.Hour))
	ids := several.PermitIDs()
	asked := make(chan [2]error, 10)
	release := redistest.EvalSHA(scripts.PermitRelease.SHA1())
	l.proxy.OnRequest(func(cmd []string) {
		if release(cmd) {
			asked <- [2]error{p.Err(), several.Err()}
		}
	})
	require.NoError(t, s.Release(t.Context(), p.PermitID()))
	told := receive(t, asked, "the request")
	require.ErrorIs(t, told[0], lockrt.ErrLost)
	require.NoError(t, told[1])
	require.NoError(t, s.Release(t.Context(), ids[0]))
	require.NoError(t, receive(t, asked, "the request")[1], "it has another one")
	require.NoError(t, s.Release(t.Context(), several.PermitIDs()...))
	require.ErrorIs(t, receive(t, asked, "the request")[1], lockrt.ErrLost)
	tidyPermits(t, l.client, l.server, l.key)
}

// A release by ids that does nothing, since one of them is gone, leaves a permit the others, which it gives back at its end.
func TestPermit_KeepsTheIDsOfAReleaseThatFailed(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	c, other := clientOf(t, server.URL(), lockrt.Options{}), clientOf(t, server.URL(), lockrt.Options{})
	key := redistest.Key(t, "k")
	s := c.PermitSemaphore(key, 3)
	p, err := s.AcquireN(patient(t), 3)
	require.NoError(t, err)
	ids := p.PermitIDs()
	require.NoError(t, other.PermitSemaphore(key, 3).Release(patient(t), ids[0]))
	require.ErrorIs(t, s.Release(patient(t), ids[0], ids[1]), lockrt.ErrLost)
	require.NoError(t, p.Err())
	_ = p.Release(patient(t))
	free, err := s.Available(patient(t))
	require.NoError(t, err)
	require.Equal(t, 3, free)
}

func TestFault_Permit_LostAcquireOfOneWhoGivesUpIsGivenBack(t *testing.T) {
	t.Parallel()
	for how, mode := range modes() {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, brisk)
			lost := l.proxy.DropReply(redistest.EvalSHA(scripts.PermitAcquire.SHA1()), 0, mode)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			got := permitLater(ctx, l.client.PermitSemaphore(l.key, 10), 3, unexpiring)
			until(t, "the server has granted it", func() bool { return number(t, l.server, "ZCARD", "{"+l.key+"}:timeout") == 3 })
			cancel()
			require.ErrorIs(t, receive(t, got, "the call that gave up").err, context.Canceled)
			lost.Stop()
			until(t, "it is given back", func() bool { return number(t, l.server, "GET", l.key) == 10 })
			tidyPermits(t, l.client, l.server, l.key)
		})
	}
}

func TestFault_Permit_ReplySlowerThanTheLeaseIsNoGrant(t *testing.T) {
	t.Parallel()
	atBest(t, inTime, func() bool {
		l := newLine(t, lockrt.Options{})
		s := l.client.PermitSemaphore(l.key, 1)
		asks := l.seen(redistest.EvalSHA(scripts.PermitAcquire.SHA1()))
		l.proxy.Blackhole(redistest.Replies)
		got := permitLater(patient(t), s, 1, lockrt.WithLease(3*time.Second))
		if !underWay(l, asks, got) {
			return false
		}
		until(t, "the server has granted it", func() bool { return number(t, l.server, "ZCARD", "{"+l.key+"}:timeout") == 1 })
		other := newClient(t, lockrt.Options{}).PermitSemaphore(l.key, 1)
		requireEventuallyCounts(t, other, 1, 0) // expired, and the reply that grants it is still on its way
		l.proxy.Deliver()
		p := receive(t, got, "the grant")
		require.NoError(t, p.err)
		require.NoError(t, p.Err(), "nobody is given what is over")
		require.NoError(t, p.Release(t.Context()))
		requireCounts(t, other, 1, 0)
		return true
	})
}

// Redis may not have run an update whose reply is lost, so the update extends no trust.
func TestFault_Permit_LostUpdateExtendsNoTrust(t *testing.T) {
	t.Parallel()
	everyLoss(t, func(t *testing.T, l *line, drop func(func(cmd []string) bool, int) *redistest.Drop) {
		s := l.client.PermitSemaphore(l.key, 1)
		p := permit(t, s, 1, lockrt.WithLease(3*time.Second))
		end := p.Until()
		lost := drop(redistest.EvalSHA(scripts.PermitLease.SHA1()), 0)
		_, err := s.UpdateLease(patient(t), p.PermitID(), time.Hour)
		require.Error(t, err)
		lost.Stop()
		require.Equal(t, end, p.Until())
		receive(t, p.Context().Done(), "the end of trust")
	})
}

// The trust of a permit that its holder shortens ends with the shorter lease, also before the reply comes.
func TestFault_Permit_ShorterLeaseIsTrustedFromTheRequest(t *testing.T) {
	t.Parallel()
	atBest(t, inTime, func() bool {
		l := newLine(t, lockrt.Options{OpTimeout: time.Minute})
		s := l.client.PermitSemaphore(l.key, 1)
		p := permit(t, s, 1, lockrt.WithLease(time.Hour))
		asks := l.seen(redistest.EvalSHA(scripts.PermitLease.SHA1()))
		l.proxy.Blackhole(redistest.Replies)
		updated := later(func() error {
			_, err := s.UpdateLease(patient(t), p.PermitID(), time.Second)
			return err
		})
		if !underWay(l, asks, updated) {
			return false
		}
		receive(t, p.Context().Done(), "the end of trust")
		require.Empty(t, updated, "the outcome")
		requireEventuallyCounts(t, newClient(t, lockrt.Options{}).PermitSemaphore(l.key, 1), 1, 0)
		l.proxy.Deliver()
		require.NoError(t, receive(t, updated, "the outcome"))
		return true
	})
}

// The permits of a request expire even if the client learns its outcome much later, when it sends
// the request again.
func TestFault_Permit_RequestSentAgainIsTrustedFromTheFirstTime(t *testing.T) {
	t.Parallel()
	atBest(t, inTime, func() bool {
		l := newLine(t, lockrt.Options{})
		asks := l.seen(redistest.EvalSHA(scripts.PermitAcquire.SHA1()))
		l.proxy.Blackhole(redistest.Replies)
		got := permitLater(patient(t), l.client.PermitSemaphore(l.key, 1), 1, lockrt.WithLease(3*time.Second))
		if !underWay(l, asks, got) {
			return false
		}
		until(t, "the server has granted it", func() bool { return number(t, l.server, "ZCARD", "{"+l.key+"}:timeout") == 1 })
		other := newClient(t, lockrt.Options{}).PermitSemaphore(l.key, 1)
		held, err := other.Acquire(patient(t)) // when it has expired
		require.NoError(t, err)
		l.proxy.Cut()
		l.proxy.Deliver()
		receive(t, asks, "the request, again")
		receive(t, asks, "a new one")
		require.Empty(t, got, "it is another's")
		require.NoError(t, held.Release(t.Context()))
		p := receive(t, got, "the grant")
		require.NoError(t, p.err)
		require.NoError(t, p.Err())
		require.NoError(t, p.Release(t.Context()))
		requireCounts(t, other, 1, 0)
		return true
	})
}

func requireEventuallyCounts(t *testing.T, s *lockrt.PermitSemaphore, available, acquired int) {
	t.Helper()
	until(t, "permits are counted", func() bool {
		free, err := s.Available(patient(t))
		if err != nil { // a connection was mute, and the machine took longer to send again than it lasted
			return false
		}
		taken, err := s.Acquired(patient(t))
		return err == nil && free == available && taken == acquired
	})
}

func TestFault_Permit_RenewalsLostForAWhileCostNothing(t *testing.T) {
	t.Parallel()
	renewed := make(chan lockrt.RenewEvent, 1000)
	l := newLine(t, lockrt.Options{Watchdog: 9 * time.Second, Hooks: lockrt.Hooks{Renewed: func(_ context.Context, e lockrt.RenewEvent) { renewed <- e }}})
	p, err := l.client.PermitSemaphore(l.key, 1).Acquire(patient(t))
	require.NoError(t, err)
	lost := l.proxy.DropReply(redistest.EvalSHA(scripts.PermitRenew.SHA1()), 2, redistest.Close)
	receive(t, lost.Done(), "two renewals to be lost")
	for receive(t, renewed, "a renewal").Err != nil {
		require.NoError(t, p.Err())
	}
	require.NoError(t, p.Release(t.Context()))
}

// A holder that is cut off is told before Redis can give its permit to another.
func TestFault_Permit_HolderCutOffIsToldInTime(t *testing.T) {
	t.Parallel()
	l := newLine(t, steady)
	p, err := l.client.PermitSemaphore(l.key, 1).Acquire(patient(t))
	require.NoError(t, err)
	hooks, waiting, _ := watch()
	other := newClient(t, lockrt.Options{Hooks: hooks}).PermitSemaphore(l.key, 1)
	got := permitLater(patient(t), other, 1)
	receive(t, waiting, "the other to wait")
	l.proxy.Blackhole(redistest.Both)
	next := receive(t, got, "the permit")
	require.NoError(t, next.err)
	require.ErrorIs(t, p.Err(), lockrt.ErrLost, "told before")
	l.proxy.Deliver() // its late renewals change nothing
	l.warm(t)
	require.NoError(t, next.Err())
	requireCounts(t, other, 0, 1)
	require.ErrorIs(t, p.Release(t.Context()), lockrt.ErrLost)
	require.NoError(t, next.Release(t.Context()))
	requireEventuallyCounts(t, other, 1, 0)
}

func TestFault_Latch_LostCountDownCountsOnce(t *testing.T) {
	t.Parallel()
	everyLoss(t, func(t *testing.T, l *line, drop func(match func(cmd []string) bool, n int) *redistest.Drop) {
		latch := l.client.CountDownLatch(l.key)
		lost := drop(redistest.EvalSHA(scripts.LatchSet.SHA1()), 1)
		started, err := latch.SetCount(t.Context(), 3)
		require.NoError(t, err)
		require.True(t, started)
		receive(t, lost.Done(), "the loss")
		lost = drop(redistest.EvalSHA(scripts.LatchDown.SHA1()), 1)
		countDown(t, latch, 2)
		receive(t, lost.Done(), "the loss")
		lost = drop(redistest.EvalSHA(scripts.LatchCount.SHA1()), 1)
		require.Error(t, latch.Wait(patient(t), lockrt.WithWait(500*time.Millisecond)))
		receive(t, lost.Done(), "the loss")
		lost = drop(redistest.EvalSHA(scripts.LatchDelete.SHA1()), 1)
		deleted, err := latch.Delete(t.Context())
		require.NoError(t, err)
		require.True(t, deleted)
		receive(t, lost.Done(), "the loss")
		tidy(t, l.client, l.server, l.key)
	})
}

// takers are what waits for something that one client gives to another, over any faults.
var takers = map[string]func(one, two *lockrt.Client, key string) (take func(ctx context.Context) error, give func() error){
	"semaphore": func(one, two *lockrt.Client, key string) (func(ctx context.Context) error, func() error) {
		return func(ctx context.Context) error { return two.Semaphore(key, 0).Acquire(ctx, 1) },
			func() error { return one.Semaphore(key, 0).Release(context.Background(), 1) }
	},
	"permit": func(one, two *lockrt.Client, key string) (func(ctx context.Context) error, func() error) {
		return func(ctx context.Context) error {
				p, err := two.PermitSemaphore(key, 0).Acquire(ctx)
				if err != nil {
					return err
				}
				return p.Release(context.Background())
			},
			func() error {
				_, err := one.PermitSemaphore(key, 0).TrySetPermits(context.Background(), 1, 0)
				return err
			}
	},
	"latch": func(one, two *lockrt.Client, key string) (func(ctx context.Context) error, func() error) {
		return func(ctx context.Context) error {
				if _, err := two.CountDownLatch(key).SetCount(ctx, 1); err != nil {
					return err
				}
				return two.CountDownLatch(key).Wait(ctx)
			},
			func() error { _, err := one.CountDownLatch(key).CountDown(context.Background()); return err }
	},
}

// givenAfter has one client wait, makes a fault happen to the server of both, and has the other give.
func givenAfter(t *testing.T, fault func(t *testing.T, server *redistest.RedisServer)) {
	t.Parallel()
	for name, taker := range takers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			hooks, waiting, _ := watch()
			one := clientOf(t, server.URL(), brisk)
			two := clientOf(t, server.URL(), lockrt.Options{Watchdog: brisk.Watchdog, Hooks: hooks})
			take, give := taker(one, two, "k")
			got := later(func() error { return take(patient(t)) })
			receive(t, waiting, "it to wait")
			fault(t, server)
			requireNothing(t, got)
			until(t, "it can be given", func() bool { return give() == nil })
			require.NoError(t, receive(t, got, "what it waits for"))
			tidy(t, one, server, "k")
			tidy(t, two, server, "k")
		})
	}
}

func TestFault_Counting_KilledConnections(t *testing.T) {
	givenAfter(t, func(t *testing.T, server *redistest.RedisServer) {
		t.Helper()
		for range 3 {
			server.Do("CLIENT", "KILL", "TYPE", "pubsub")
			server.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		}
	})
}

func TestFault_Counting_FlushedScripts(t *testing.T) {
	givenAfter(t, func(t *testing.T, server *redistest.RedisServer) {
		t.Helper()
		server.Do("SCRIPT", "FLUSH")
	})
}

func TestFault_Counting_StoppedServer(t *testing.T) {
	givenAfter(t, func(t *testing.T, server *redistest.RedisServer) {
		t.Helper()
		probe := clientOf(t, server.URL(), brisk)
		server.Stop()
		_, err := probe.Semaphore("other", 1).Drain(t.Context())
		require.Error(t, err, "it does not answer")
		server.Cont()
	})
}

// A server that comes back empty has forgotten semaphores and latches. Nobody waits for ever: the semaphore is created
// again, and the latch is not there any more.
func TestFault_Counting_KilledServer(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	hooks, waiting, ends := watch()
	c := clientOf(t, server.URL(), lockrt.Options{Watchdog: steady.Watchdog, Hooks: hooks})
	s, p, l := c.Semaphore("s", 1), c.PermitSemaphore("p", 1), c.CountDownLatch("l")
	require.NoError(t, s.Acquire(patient(t), 1))
	held, err := p.Acquire(patient(t))
	require.NoError(t, err)
	_, err = l.SetCount(t.Context(), 1)
	require.NoError(t, err)
	gotS := later(func() error { return s.Acquire(patient(t), 1) })
	gotP := permitLater(patient(t), p, 1)
	gotL := later(func() error { return l.Wait(patient(t)) })
	for range 3 {
		receive(t, waiting, "all to wait")
	}
	server.Restart()
	require.NoError(t, receive(t, gotS, "the semaphore"))
	require.NoError(t, receive(t, gotL, "the latch"))
	require.ErrorIs(t, receive(t, ends, "the loss").Cause, lockrt.ErrLost)
	require.ErrorIs(t, held.Err(), lockrt.ErrLost)
	next := receive(t, gotP, "the permit")
	require.NoError(t, next.err)
	require.NoError(t, next.Release(t.Context()))
	require.ErrorIs(t, held.Release(t.Context()), lockrt.ErrLost)
	requireCounts(t, p, 1, 0)
}

// While Redis is down, each call returns when its context ends, or when its patience is over.
func TestFault_Counting_CallsAreBoundedWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{Watchdog: brisk.Watchdog, OpTimeout: time.Second})
	s, p, l := c.Semaphore("s", 1), c.PermitSemaphore("p", 1), c.CountDownLatch("l")
	held, err := p.Acquire(patient(t))
	require.NoError(t, err)
	server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	for _, err := range all(
		func() error { return s.Acquire(ctx, 1) },
		func() error { _, err := p.Acquire(ctx); return err },
		func() error { return l.Wait(ctx) },
		func() error { _, err := s.Available(ctx); return err },
		func() error { _, err := p.Total(ctx); return err },
		func() error { _, err := l.Count(ctx); return err },
	) {
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	for _, err := range all(
		func() error { return s.Release(t.Context(), 1) },
		func() error { _, err := s.Drain(t.Context()); return err },
		func() error { return held.Release(t.Context()) },
		func() error { return p.SetPermits(t.Context(), 1) },
		func() error { _, err := l.CountDown(t.Context()); return err },
		func() error { _, err := l.Delete(t.Context()); return err },
	) {
		require.Error(t, err)
	}
	require.Less(t, time.Since(start), 10*time.Second)
	server.Cont()
	until(t, "it is given back all the same", func() bool {
		n, err := p.Available(patient(t))
		return err == nil && n == 1
	})
}

// all calls functions at once and returns their errors.
func all(calls ...func() error) []error {
	errs := make([]error, len(calls))
	var wg sync.WaitGroup
	for i, call := range calls {
		wg.Go(func() { errs[i] = call() })
	}
	wg.Wait()
	return errs
}

// Random work over a network that loses replies: in the end every count is what it was.
func TestFault_Counting_LossyNetwork(t *testing.T) {
	t.Parallel()
	for how, mode := range modes() {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, lockrt.Options{Watchdog: brisk.Watchdog, OpTimeout: patience})
			s, p, latch := l.client.Semaphore(l.key+"s", 3), l.client.PermitSemaphore(l.key+"p", 3), l.client.CountDownLatch(l.key+"l")
			const rounds, goroutines = 6, 6
			_, err := latch.SetCount(t.Context(), rounds*goroutines)
			require.NoError(t, err)
			var turn int
			var mu sync.Mutex
			lossy := func(cmd []string) bool {
				if !redistest.Command("EVALSHA")(cmd) {
					return false
				}
				mu.Lock()
				defer mu.Unlock()
				turn++
				return turn%7 == 0
			}
			lost := l.proxy.DropReply(lossy, 8, mode)
			done := later(func() error { return latch.Wait(patient(t)) })
			var wg sync.WaitGroup
			for g := range goroutines {
				wg.Go(func() {
					for i := range rounds {
						n := 1 + (g+i)%3
						if err := s.Acquire(patient(t), n); err != nil {
							t.Error(err)
							return
						}
						permit, err := p.AcquireN(patient(t), n, unexpiring)
						if err != nil {
							t.Error(err)
							return
						}
						if err := permit.Release(context.Background()); err != nil {
							t.Error(err)
						}
						if err := s.Release(context.Background(), n); err != nil {
							t.Error(err)
						}
						if _, err := latch.CountDown(context.Background()); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			require.NoError(t, receive(t, done, "the latch"))
			lost.Stop()
			require.Positive(t, lost.Lost())
			until(t, "every count is right", func() bool { // a late copy of a request may take something that it gives back soon
				return number(t, l.server, "GET", s.Key()) == 3 && number(t, l.server, "GET", p.Key()) == 3 &&
					number(t, l.server, "ZCARD", "{"+p.Key()+"}:timeout") == 0 && number(t, l.server, "EXISTS", latch.Key()) == 0
			})
		})
	}
}

// Calls that try once share one request with a lost reply, and all of them get the answer.
func TestFault_Semaphore_TriesAreAllAnswered(t *testing.T) {
	t.Parallel()
	l := newLine(t, lockrt.Options{})
	s := l.client.Semaphore(l.key, 0)
	created, err := s.TrySetPermits(t.Context(), 2, 0)
	require.NoError(t, err)
	require.True(t, created)
	for range 20 {
		lost := l.proxy.DropReply(redistest.EvalSHA(scripts.SemaphoreAcquire.SHA1()), 1, redistest.Close)
		calls := make([]func() error, 8)
		for i := range calls {
			calls[i] = func() error { return s.TryAcquire(patient(t), 3) }
		}
		for _, err := range all(calls...) {
			require.ErrorIs(t, err, lockrt.ErrNotAcquired)
		}
		receive(t, lost.Done(), "the loss")
		requireInt(t, 2, l.server, "GET", l.key)
	}
	tidy(t, l.client, l.server, l.key)
}

// After closing nothing runs any more, whatever was under way.
func TestFault_Counting_LeavesNoGoroutine(t *testing.T) { //nolint:paralleltest // counts goroutines
	leaktest.Check(t)
	server := redistest.Server(t)
	hooks, waiting, _ := watch()
	c, err := opened(t.Context(), server.URL(), lockrt.Options{OpTimeout: unhurried, Hooks: hooks})
	require.NoError(t, err)
	key := redistest.Key(t, "k")
	s, p, l := c.Semaphore(key+"s", 1), c.PermitSemaphore(key+"p", 1), c.CountDownLatch(key+"l")
	require.NoError(t, s.Acquire(patient(t), 1))
	held, err := p.Acquire(patient(t))
	require.NoError(t, err)
	_, err = l.SetCount(t.Context(), 1)
	require.NoError(t, err)
	done := make(chan error, 3)
	go func() { done <- s.Acquire(patient(t), 1) }()
	go func() { _, err := p.Acquire(patient(t)); done <- err }()
	go func() { done <- l.Wait(patient(t)) }()
	for range cap(done) {
		receive(t, waiting, "all to wait")
	}
	require.NoError(t, c.Close())
	for range cap(done) {
		require.ErrorIs(t, receive(t, done, "the end of the wait"), lockrt.ErrClosed)
	}
	require.ErrorIs(t, held.Err(), lockrt.ErrClosed)
}

// A semaphore of each kind may use one key. The requests of one with unknown outcomes stay when the other drops its
// own.
func TestFault_Semaphore_KeepsItsRequestInDoubtFromTheOtherKindOnItsKey(t *testing.T) {
	t.Parallel()
	l := newLine(t, brisk)
	s, p := l.client.Semaphore(l.key, 8), l.client.PermitSemaphore(l.key, 8)
	lost := l.proxy.DropReply(redistest.EvalSHA(scripts.SemaphoreAcquire.SHA1()), 0, redistest.Close)
	got := later(func() error { return s.Acquire(patient(t), 3) })
	until(t, "the server has granted it", func() bool {
		return number(t, l.server, "EXISTS", l.key) == 1 && number(t, l.server, "GET", l.key) == 5
	})
	permit, err := p.Acquire(patient(t), unexpiring)
	require.NoError(t, err)
	require.NoError(t, permit.Release(t.Context()))
	lost.Stop()
	require.NoError(t, receive(t, got, "the semaphore"))
	left, err := s.Available(patient(t))
	require.NoError(t, err)
	require.Equal(t, 5, left)
}
