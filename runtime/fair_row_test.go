package lockrt_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// Waiters of one process that stand in the queue one behind the other get the lock one after the other, without a request
// to Redis. This file is about such rows.

// A fairRow is a fair lock for which n goroutines of one client wait.
type fairRow struct {
	server *redistest.RedisServer
	key    string
	client *lockrt.Client // of the row
	other  *lockrt.Client
	waits  []<-chan locked
	leave  []context.CancelFunc
}

func newFairRow(t *testing.T, opts lockrt.Options) *fairRow {
	t.Helper()
	return &fairRow{
		server: redistest.Shared(t), key: redistest.Key(t, "k"),
		client: newClient(t, opts), other: newClient(t, lockrt.Options{}),
	}
}

// comes has n more goroutines wait, each behind the one before.
func (r *fairRow) comes(t *testing.T, n int, opts ...lockrt.LockOption) {
	t.Helper()
	for range n {
		before := len(fairQueue(t, r.server, r.key))
		ctx, leave := context.WithCancel(patient(t))
		r.leave = append(r.leave, leave)
		r.waits = append(r.waits, lockLater(ctx, r.client.FairMutex(r.key), opts...))
		until(t, "one more waits", func() bool { return len(fairQueue(t, r.server, r.key)) == before+1 })
	}
}

// next returns the lease of the waiter whose turn it is.
func (r *fairRow) next(t *testing.T) *lockrt.Lease {
	t.Helper()
	lease := gotten(t, r.waits[0], "the next in the row")
	r.waits, r.leave = r.waits[1:], r.leave[1:]
	return lease
}

// begin has n goroutines wait, and returns the lease of the second one once it had it from the first. It tries again
// while Redis was asked for it, by a call that looked in at that moment, as any call may.
func (r *fairRow) begin(t *testing.T, n int, opts ...lockrt.LockOption) *lockrt.Lease {
	t.Helper()
	for range 100 {
		lease := ok(t)(r.other.FairMutex(r.key).Lock(patient(t)))
		r.comes(t, n, opts...)
		free(t, lease)
		local := r.client.Stats().HandOversLocal
		free(t, r.next(t))
		lease = r.next(t)
		if r.client.Stats().HandOversLocal > local {
			return lease
		}
		for range n - 2 {
			free(t, lease)
			lease = r.next(t)
		}
		free(t, lease)
	}
	require.Fail(t, "no goroutine had the lock from another one")
	return nil
}

func TestFairMutex_ARowOfOneProcessGoesOnWithoutRedis(t *testing.T) {
	t.Parallel()
	r := newFairRow(t, lockrt.Options{})
	lease := r.begin(t, 4)
	owner := fairStanding(t, r.client.FairMutex(r.key)).Owner
	behind := queued(t, r.server, r.other.FairMutex(r.key), 4) // and those of the row, until its end
	r.comes(t, 1)
	require.Equal(t, 4, fairStanding(t, r.client.FairMutex(r.key)).Waiting)
	for range 2 {
		free(t, lease)
		lease = r.next(t)
		require.Equal(t, owner, fairStanding(t, r.client.FairMutex(r.key)).Owner, "to Redis it is a holder")
	}
	require.Empty(t, behind)
	require.Equal(t, 2, fairStanding(t, r.client.FairMutex(r.key)).Waiting)
	free(t, lease)
	lease = gotten(t, behind, "the other process, in its turn")
	require.Empty(t, r.waits[0], "a later waiter")
	free(t, lease)
	free(t, r.next(t))
	nothingLeft(t, r.server, r.key)
}

func TestFairMutex_ARowGoesOnBehindThoseWhoGaveUp(t *testing.T) {
	t.Parallel()
	r := newFairRow(t, lockrt.Options{})
	lease := r.begin(t, 4)
	r.leave[0]()
	require.ErrorIs(t, receive(t, r.waits[0], "the one that gave up").err, context.Canceled)
	r.waits, r.leave = r.waits[1:], r.leave[1:]
	local := r.client.Stats().HandOversLocal
	free(t, lease)
	free(t, r.next(t))
	require.Equal(t, local+1, r.client.Stats().HandOversLocal)
	nothingLeft(t, r.server, r.key)
}

// A row ends before a call that wants other terms, or may not be in a row.
func TestFairMutex_ARowEndsBeforeOtherTerms(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]lockrt.LockOption{
		"fencing":  {lockrt.WithFencing()},
		"lease":    {lockrt.WithLease(time.Hour)},
		"watchdog": {lockrt.WithWatchdog(time.Hour)},
		"wait":     {lockrt.WithWait(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFairRow(t, lockrt.Options{})
			lease := r.begin(t, 2)
			r.comes(t, 1, opts...)
			r.comes(t, 2)
			owners := map[string]bool{}
			for range 3 {
				owners[fairStanding(t, r.client.FairMutex(r.key)).Owner] = true
				free(t, lease)
				lease = r.next(t)
			}
			require.Len(t, owners, 3, "each by a grant of its own")
			if name == "fencing" {
				require.Positive(t, number(t, r.server, "DEL", "redisson_lock_token:{"+r.key+"}"))
			}
			free(t, lease)
			nothingLeft(t, r.server, r.key)
		})
	}
	t.Run("Options.Cohort", func(t *testing.T) {
		t.Parallel()
		r := newFairRow(t, lockrt.Options{Cohort: 1})
		lease := ok(t)(r.other.FairMutex(r.key).Lock(patient(t)))
		r.comes(t, 3)
		free(t, lease)
		for range 3 {
			free(t, r.next(t))
		}
		require.Zero(t, r.client.Stats().HandOversLocal)
		nothingLeft(t, r.server, r.key)
	})
}

func TestFairMutex_ARowHasRisingTokens(t *testing.T) {
	t.Parallel()
	r := newFairRow(t, lockrt.Options{})
	lease := r.begin(t, 5, lockrt.WithFencing())
	last := lease.Token()
	require.Positive(t, last)
	for range 3 {
		free(t, lease)
		lease = r.next(t)
		require.Greater(t, lease.Token(), last)
		last = lease.Token()
	}
	free(t, lease)
	lease = ok(t)(r.other.FairMutex(r.key, lockrt.WithFencing()).Lock(patient(t)))
	require.Greater(t, lease.Token(), last)
	free(t, lease)
	r.server.Do("DEL", "redisson_lock_token:{"+r.key+"}")
	nothingLeft(t, r.server, r.key)
}

// WithMaxHold and Extend of one holder of the row do not apply to the next.
func TestFairMutex_ARowPassesOnNobodysLimits(t *testing.T) {
	t.Parallel()
	r := newFairRow(t, lockrt.Options{})
	lease := r.begin(t, 3)
	require.NoError(t, lease.Extend(patient(t), time.Hour))
	free(t, lease)
	lease = r.next(t)
	require.Less(t, time.Until(lease.Until()), time.Minute)
	free(t, lease)

	lease = r.begin(t, 2)
	limited := lockLater(patient(t), r.client.FairMutex(r.key), lockrt.WithMaxHold(time.Hour))
	until(t, "it waits", func() bool { return fairStanding(t, r.client.FairMutex(r.key)).Waiting == 1 })
	r.comes(t, 1)
	free(t, lease)
	free(t, gotten(t, limited, "the one with a limit"))
	lease = r.next(t)
	require.NoError(t, lease.Err())
	free(t, lease)
	nothingLeft(t, r.server, r.key)
}

// Whatever becomes of the lock while a row has it: its holder is told, and the waiters behind get it, in their order unless that
// is gone, too.
func TestFairMutex_ARowWhoseLockIsTaken(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(r *fairRow) error{
		"deleted":             func(r *fairRow) error { return r.server.Do("DEL", r.key).Error() },
		"by force":            func(r *fairRow) error { return second(r.other.FairMutex(r.key).ForceUnlock(r.ctx())) },
		"by force, from here": func(r *fairRow) error { return second(r.client.FairMutex(r.key).ForceUnlock(r.ctx())) },
		"with all that is its": func(r *fairRow) error {
			return r.server.Do("DEL", r.key, "redisson_lock_queue:{"+r.key+"}", "redisson_lock_timeout:{"+r.key+"}").Error()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFairRow(t, steady)
			lease := r.begin(t, 4)
			require.NoError(t, take(r))
			receive(t, lease.Context().Done(), "the loss")
			require.ErrorIs(t, lease.Err(), lockrt.ErrLost)
			require.ErrorIs(t, lease.Unlock(patient(t)), lockrt.ErrLost)
			next := r.next
			if name == "with all that is its" {
				next = r.either
			}
			for range 2 {
				lease := next(t)
				require.NoError(t, lease.Err())
				free(t, lease)
			}
			nothingLeft(t, r.server, r.key)
		})
	}
}

// either returns the lease of one of two waiters, or of the last one.
func (r *fairRow) either(t *testing.T) *lockrt.Lease {
	t.Helper()
	first, last := r.waits[0], r.waits[len(r.waits)-1]
	select {
	case l := <-last:
		require.NoError(t, l.err)
		r.waits = r.waits[:len(r.waits)-1]
		return l.lease
	case l := <-first:
		require.NoError(t, l.err)
		r.waits = r.waits[1:]
		return l.lease
	}
}

func (*fairRow) ctx() context.Context { return context.Background() }

// A request of one in the row that is not answered in time could put it in the queue again. It leaves it.
func TestFairMutex_ARowWithRequestsThatAreLost(t *testing.T) {
	t.Parallel()
	everyLoss(t, func(t *testing.T, l *line, drop func(match func(cmd []string) bool, n int) *redistest.Drop) {
		r := &fairRow{server: l.server, key: l.key, client: l.client, other: newClient(t, lockrt.Options{})}
		lease := ok(t)(r.other.FairMutex(r.key, unexpiring).Lock(patient(t)))
		var all []<-chan locked
		for i := range 6 {
			lost := drop(asksFair, 1)
			all = append(all, lockLater(patient(t), r.client.FairMutex(r.key, unexpiring)))
			receive(t, lost.Done(), fmt.Sprintf("the loss of request %d", i))
		}
		until(t, "all wait", func() bool { return len(fairQueue(t, r.server, r.key)) == len(all) })
		free(t, lease)
		served := make(chan locked, len(all))
		for _, got := range all {
			go func() {
				g := <-got
				if g.err == nil {
					g.err = g.lease.Unlock(context.Background())
				}
				served <- g
			}()
		}
		for range all {
			require.NoError(t, receive(t, served, "all of them").err)
		}
		nothingLeft(t, r.server, r.key)
	})
}

// The process of a row dies. Those of others wait for what the lease has left, and for the dead ones of the row no more
// than two seconds.
func TestFairMutex_ARowWhoseProcessDies(t *testing.T) {
	t.Parallel()
	l := newLine(t, steady)
	r := &fairRow{server: l.server, key: l.key, client: l.client, other: newClient(t, lockrt.Options{})}
	lease := r.begin(t, 5)
	next := lockLater(patient(t), r.other.FairMutex(r.key))
	until(t, "the other waits", func() bool { return fairStanding(t, r.other.FairMutex(r.key)).Waiting == 5 })
	l.proxy.Refuse(true)
	l.proxy.Cut()
	receive(t, lease.Context().Done(), "the loss")
	free(t, gotten(t, next, "the other process"))
	for _, leave := range r.leave {
		leave()
	}
	require.ErrorIs(t, lease.Unlock(patient(t)), lockrt.ErrLost)
	l.proxy.Refuse(false)
	nothingLeft(t, r.server, r.key)
}

// served has n of a row had the lock, of which the last one still has it, and one of the other process wait behind them.
func (r *fairRow) served(t *testing.T, n int, opts ...lockrt.LockOption) (lease *lockrt.Lease, behind <-chan locked) {
	t.Helper()
	lease = r.begin(t, n, opts...)
	for range n - 2 {
		free(t, lease)
		lease = r.next(t)
	}
	return lease, queued(t, r.server, r.other.FairMutex(r.key), n)
}

// If the lock is lost, the waiters of a row that had it do not delay the others by two seconds each.
func TestFairMutex_ARowThatIsLostLeavesTheQueue(t *testing.T) {
	t.Parallel()
	t.Run("while the last one hangs", func(t *testing.T) {
		t.Parallel()
		r := newFairRow(t, steady)
		lease, behind := r.served(t, 6, lockrt.WithMaxHold(500*time.Millisecond))
		receive(t, lease.Context().Done(), "the loss")
		start := time.Now()
		free(t, gotten(t, behind, "the other process"))
		require.Less(t, time.Since(start), 5*time.Second)
		require.ErrorIs(t, lease.Unlock(patient(t)), lockrt.ErrLost)
		nothingLeft(t, r.server, r.key)
	})
	t.Run("by a request that is lost", func(t *testing.T) {
		t.Parallel()
		l := newLine(t, lockrt.Options{OpTimeout: 3 * time.Second})
		r := &fairRow{server: l.server, key: l.key, client: l.client, other: newClient(t, lockrt.Options{})}
		lease, behind := r.served(t, 6)
		lost := l.proxy.DropRequest(givesFair, 1, redistest.Close)
		start := time.Now()
		r.server.Do("DEL", r.key)
		receive(t, lease.Context().Done(), "the loss of the lock")
		receive(t, lost.Done(), "the loss of the request")
		free(t, gotten(t, behind, "the other process"))
		require.Less(t, time.Since(start), 8*time.Second)
		require.ErrorIs(t, lease.Unlock(patient(t)), lockrt.ErrLost)
		nothingLeft(t, r.server, r.key)
	})
	t.Run("by closing the client", func(t *testing.T) {
		t.Parallel()
		r := newFairRow(t, lockrt.Options{})
		lease, behind := r.served(t, 6)
		require.NoError(t, r.client.Close())
		require.ErrorIs(t, lease.Err(), lockrt.ErrClosed)
		require.Len(t, fairQueue(t, r.server, r.key), 1, "the other process")
		require.NoError(t, second(r.other.FairMutex(r.key).ForceUnlock(patient(t))))
		free(t, gotten(t, behind, "the other process"))
		nothingLeft(t, r.server, r.key)
	})
}
