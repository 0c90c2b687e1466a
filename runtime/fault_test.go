package lockrt_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// This file loses messages on their way between a client and a server that is well.

// brisk are options of a client that notices a mute connection soon. Its locks are given a
// watchdog time of their own where nothing may be explained by expiry.
var brisk = lockrt.Options{Watchdog: 2400 * time.Millisecond, OpTimeout: patience / 2}

// steady are options of a client that renews its locks soon, and keeps them on a machine that stands still for two or three seconds.
var steady = lockrt.Options{Watchdog: 6 * time.Second, OpTimeout: unhurried}

// unexpiring is a lock that does not expire while a test runs.
var unexpiring = lockrt.WithWatchdog(time.Minute)

// A line is a client whose connections go through a proxy.
type line struct {
	server *redistest.RedisServer
	proxy  *redistest.FaultProxy
	client *lockrt.Client
	key    string
}

// The scripts of acquisitions, and those of releases.
var (
	asks  = redistest.EvalSHA(scripts.Take.SHA1(), scripts.Acquire.SHA1())
	gives = redistest.EvalSHA(scripts.Free.SHA1(), scripts.Release.SHA1())
)

// newLine returns a client that has connected and loaded its scripts.
func newLine(t *testing.T, opts lockrt.Options) *line {
	t.Helper()
	l := newQuietLine(t, opts)
	l.warm(t)
	return l
}

// newQuietLine returns a client that has locked nothing yet: on a busy machine a request of a lock is sent twice now and then, and is
// withdrawn in the background.
func newQuietLine(t *testing.T, opts lockrt.Options) *line {
	t.Helper()
	l := &line{server: redistest.Shared(t), key: redistest.Key(t, "k")}
	l.proxy = redistest.Proxy(t, l.server.Addr())
	l.client = clientOf(t, l.proxy.URL(), opts)
	return l
}

func (l *line) warm(t *testing.T) {
	t.Helper()
	until(t, "the client has an answer in time", func() bool {
		lease, err := l.client.Mutex(redistest.Key(t, "warm")).Lock(patient(t), unexpiring)
		require.NoError(t, err)
		return lease.Unlock(t.Context()) == nil
	})
}

// seen returns a channel on which every run of the script is told before it is passed on.
func (l *line) seen(match func(cmd []string) bool) <-chan struct{} {
	runs := make(chan struct{}, 10000)
	l.proxy.OnRequest(func(cmd []string) {
		if match(cmd) {
			runs <- struct{}{}
		}
	})
	return runs
}

// names reports whether a command names the key of the line.
func (l *line) names(cmd []string) bool { return strings.Contains(strings.Join(cmd, " "), l.key) }

// asks matches the requests for the mutex of the line: a late copy of a request of [line.warm] is for another one.
func (l *line) asks(cmd []string) bool { return asks(cmd) && l.names(cmd) }

// inTime is what a round has to show in which a call sends a request while the network, or the server, is silent.
const inTime = "was the request sent before the call gave up, over the connection that is there"

// underWay reports whether a call has sent a request, and waits for its answer. It has not if it gave up before, since the machine stood
// still, or sends over a new connection, since a request before had no answer in time: nobody answers its HELLO. Then the network delivers
// again, and the round has shown nothing, see atBest.
func underWay[T any](l *line, requests <-chan struct{}, call <-chan T) bool {
	over := time.NewTimer(patience / 4)
	defer over.Stop()
	select {
	case <-requests:
		if len(call) == 0 {
			return true
		}
	case <-call:
	case <-over.C:
	}
	l.proxy.Deliver()
	return false
}

// when returns a channel on which the time of every run of the script is told before it is passed on.
func (l *line) when(match func(cmd []string) bool) chan time.Time {
	times := make(chan time.Time, 10000)
	l.proxy.OnRequest(func(cmd []string) {
		if match(cmd) {
			times <- time.Now()
		}
	})
	return times
}

// until returns once a condition holds that only the server knows.
func until(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	over := patient(tb)
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !holds() {
		select {
		case <-poll.C:
		case <-over.Done():
			require.Fail(tb, "waited too long until "+what)
		}
	}
}

// gone returns when a server has none of the keys: a request that was answered late, and was sent once more, may lock a key again after it was
// unlocked, until it is withdrawn.
func gone(t *testing.T, server *redistest.RedisServer, keys ...string) {
	t.Helper()
	command := append([]string{"EXISTS"}, keys...)
	until(t, strings.Join(keys, ", ")+" is gone", func() bool { return number(t, server, command...) == 0 })
}

// deleted deletes the key of a lease until its loss is known. Once may not do: a request that was answered late, and was sent once more,
// locks the key again.
func deleted(t *testing.T, server *redistest.RedisServer, lease *lockrt.Lease) {
	t.Helper()
	until(t, "it is lost", func() bool {
		server.Do("DEL", lease.Key())
		return lease.Err() != nil
	})
}

// emptied returns when a server has no keys, as [keysOn] counts them.
func emptied(t *testing.T, server *redistest.RedisServer) {
	t.Helper()
	until(t, "no key is left", func() bool { return keysOn(t, server) == 0 })
}

// keysOn returns how many keys there are, but for those that say who a process is: one that holds or waits for long has one.
func keysOn(t *testing.T, server *redistest.RedisServer) int {
	t.Helper()
	keys, err := server.Do("KEYS", "*").AsStrSlice()
	require.NoError(t, err)
	return len(slices.DeleteFunc(keys, func(key string) bool { return strings.HasPrefix(key, "lockgen_process:") }))
}

func number(t *testing.T, server *redistest.RedisServer, cmd ...string) int64 {
	t.Helper()
	n, err := server.Do(cmd...).AsInt64()
	require.NoError(t, err)
	return n
}

// fields returns the owners of a lock and their hold counts.
func fields(t *testing.T, server *redistest.RedisServer, key string) map[string]string {
	t.Helper()
	all, err := server.Do("HGETALL", key).AsStrMap()
	require.NoError(t, err)
	return all
}

func modes() map[string]redistest.Mode {
	return map[string]redistest.Mode{"closed": redistest.Close, "mute": redistest.Mute}
}

type dropper func(match func(cmd []string) bool, n int, mode redistest.Mode) *redistest.Drop

func losses(p *redistest.FaultProxy) map[string]dropper {
	return map[string]dropper{"reply": p.DropReply, "request": p.DropRequest}
}

// everyLoss runs a test for each way in which a message can get lost.
func everyLoss(t *testing.T, test func(t *testing.T, l *line, drop func(match func(cmd []string) bool, n int) *redistest.Drop)) {
	for _, what := range []string{"reply", "request"} {
		for how, mode := range modes() {
			t.Run(what+" "+how, func(t *testing.T) {
				t.Parallel()
				l := newLine(t, brisk)
				test(t, l, func(match func(cmd []string) bool, n int) *redistest.Drop {
					return losses(l.proxy)[what](match, n, mode)
				})
			})
		}
	}
}

func TestFault_LostAcquireIsSentAgainAndCountsOnce(t *testing.T) {
	t.Parallel()
	everyLoss(t, func(t *testing.T, l *line, drop func(match func(cmd []string) bool, n int) *redistest.Drop) {
		for name, lock := range map[string]func(m *lockrt.Mutex) (*lockrt.Lease, error){
			"lock":     func(m *lockrt.Mutex) (*lockrt.Lease, error) { return m.Lock(patient(t), unexpiring) },
			"try lock": func(m *lockrt.Mutex) (*lockrt.Lease, error) { return m.TryLock(patient(t), unexpiring) },
		} {
			lost, m := drop(asks, 1), l.client.Mutex(l.key+name) // not the key that a late request may lock again
			lease, err := lock(m)
			require.NoError(t, err, name)
			receive(t, lost.Done(), "the loss")
			owners := fields(t, l.server, m.Key())
			require.Len(t, owners, 1)
			for _, count := range owners {
				require.Equal(t, "1", count)
			}
			require.NoError(t, lease.Err())
			require.NoError(t, lease.Unlock(t.Context()))
			gone(t, l.server, m.Key())
		}
	})
}

func TestFault_WithdrawalOfALostAcquireLeavesTheNextHolderAlone(t *testing.T) {
	t.Parallel()
	l := newLine(t, brisk)
	other := newClient(t, lockrt.Options{})
	lost := l.proxy.DropReply(asks, 1, redistest.Close)
	lease, err := l.client.Mutex(l.key).Lock(patient(t), unexpiring)
	require.NoError(t, err)
	receive(t, lost.Done(), "the loss")

	releases := l.seen(gives)
	next := lockLater(patient(t), other.Mutex(l.key))
	require.NoError(t, lease.Unlock(t.Context()))
	got := receive(t, next, "the next holder")
	require.NoError(t, got.err)
	for range 4 { // the release, and what makes sure of the lost one
		receive(t, releases, "a withdrawal")
	}
	_, err = got.lease.TTL(patient(t))
	require.NoError(t, err)
	require.NoError(t, got.lease.Unlock(t.Context()))
}

func TestFault_LostAcquireOfOneWhoGivesUpIsWithdrawn(t *testing.T) {
	t.Parallel()
	for how, mode := range modes() {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, brisk)
			l.proxy.DropReply(asks, 0, mode)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			got := lockLater(ctx, l.client.Mutex(l.key), unexpiring)
			until(t, "the server has granted it", func() bool { return number(t, l.server, "EXISTS", l.key) == 1 })
			cancel()
			require.ErrorIs(t, receive(t, got, "the call that gave up").err, context.Canceled)
			gone(t, l.server, l.key)
		})
	}
}

func TestFault_TryLockThatLearnsNothingIsWithdrawn(t *testing.T) {
	t.Parallel()
	l := newLine(t, brisk)
	lost := l.proxy.DropReply(asks, 0, redistest.Close) // of three requests, or fewer on a machine that has no time for them
	_, err := l.client.Mutex(l.key).TryLock(patient(t), unexpiring)
	require.Error(t, err)
	require.NotErrorIs(t, err, lockrt.ErrNotAcquired, "that would be a no")
	until(t, "a loss", func() bool { return lost.Lost() > 0 })
	gone(t, l.server, l.key)
}

func TestFault_LostReleaseIsSentAgain(t *testing.T) {
	t.Parallel()
	everyLoss(t, func(t *testing.T, l *line, drop func(match func(cmd []string) bool, n int) *redistest.Drop) {
		lease, err := l.client.Mutex(l.key).Lock(patient(t), unexpiring)
		require.NoError(t, err)
		lost := drop(gives, 1)
		require.NoError(t, lease.Unlock(t.Context()))
		receive(t, lost.Done(), "the loss")
		gone(t, l.server, l.key)
	})
}

func TestFault_ReleaseSentAgainLeavesTheNextHolderAlone(t *testing.T) {
	t.Parallel()
	for how, mode := range modes() {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, brisk)
			hooks, waiting, _ := watch()
			other := newClient(t, lockrt.Options{Hooks: hooks})
			lease, err := l.client.Mutex(l.key).Lock(patient(t), unexpiring)
			require.NoError(t, err)
			next := lockLater(patient(t), other.Mutex(l.key), unexpiring)
			receive(t, waiting, "the next one to wait")

			releases := l.seen(gives)
			l.proxy.DropReply(gives, 3, mode)
			require.NoError(t, lease.Unlock(t.Context()), "the server has done it")
			got := receive(t, next, "the next holder")
			require.NoError(t, got.err)
			for range 4 {
				receive(t, releases, "a try to release")
			}
			_, err = got.lease.TTL(patient(t))
			require.NoError(t, err)
			require.NoError(t, got.lease.Unlock(t.Context()))
		})
	}
}

func TestFault_CancelledWhileTheAnswerIsUnderWay(t *testing.T) {
	t.Parallel()
	atBest(t, inTime, func() bool {
		l := newLine(t, lockrt.Options{})
		acquires := l.seen(l.asks)
		l.proxy.Blackhole(redistest.Replies)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		got := lockLater(ctx, l.client.Mutex(l.key))
		if !underWay(l, acquires, got) {
			return false
		}
		until(t, "the server has granted it", func() bool { return number(t, l.server, "EXISTS", l.key) == 1 })
		cancel()
		require.ErrorIs(t, receive(t, got, "the answer").err, context.Canceled)
		require.EqualValues(t, 1, number(t, l.server, "EXISTS", l.key), "it did not wait for the answer")
		l.proxy.Deliver()
		gone(t, l.server, l.key)
		return true
	})
}

func TestFault_LateGrantGoesToTheNextInLine(t *testing.T) {
	t.Parallel()
	atBest(t, inTime, func() bool {
		l := newLine(t, lockrt.Options{})
		acquires := l.seen(l.asks)
		l.proxy.Blackhole(redistest.Replies)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first := lockLater(ctx, l.client.Mutex(l.key))
		if !underWay(l, acquires, first) {
			return false
		}
		second := lockLater(patient(t), l.client.Mutex(l.key))
		cancel()
		require.ErrorIs(t, receive(t, first, "the first").err, context.Canceled)
		l.proxy.Deliver()
		got := receive(t, second, "the second")
		require.NoError(t, got.err)
		require.NoError(t, got.lease.Unlock(t.Context()))
		gone(t, l.server, l.key)
		return true
	})
}

// TestFault_LateCopyDoesNotLockWhatWasTaken shows that a late copy of a request does not lock a key again for a holder that has lost it, also if the
// holder does not unlock.
func TestFault_LateCopyDoesNotLockWhatWasTaken(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]string{"Mutex": scripts.Take.SHA1(), "FairMutex": scripts.FairAcquire.SHA1(), "RWMutex": scripts.RWWrite.SHA1()} {
		for _, forced := range []bool{true, false} {
			t.Run(name+", by force: "+strconv.FormatBool(forced), func(t *testing.T) {
				t.Parallel()
				l := newQuietLine(t, brisk)
				lost := l.proxy.DropReply(redistest.EvalSHA(ask), 1, redistest.Mute)
				lease := ok(t)(exclusives[name](l.client, l.key).Lock(patient(t), unexpiring))
				receive(t, lost.Done(), "the loss of a reply")
				copied, err := l.server.Do("DUMP", l.key).ToString()
				require.NoError(t, err)
				if forced {
					taken, err := exclusives[name](newClient(t, lockrt.Options{}), l.key).(interface {
						ForceUnlock(ctx context.Context) (bool, error)
					}).ForceUnlock(patient(t))
					require.NoError(t, err)
					require.True(t, taken)
				} else {
					l.server.Do("DEL", l.key)
				}
				receive(t, lease.Context().Done(), "the loss of the lease")
				for range 2 {
					l.server.Do("RESTORE", l.key, "3600000", copied, "REPLACE")
					gone(t, l.server, l.key)
				}
				require.ErrorIs(t, lease.Unlock(patient(t)), lockrt.ErrLost)
			})
		}
	}
}

func TestFault_LateRequestDoesNotKeepTheKey(t *testing.T) {
	t.Parallel()
	for _, broken := range []bool{false, true} {
		t.Run("connection given up: "+strconv.FormatBool(broken), func(t *testing.T) {
			t.Parallel()
			opts := lockrt.Options{}
			if broken {
				opts = brisk
			}
			atBest(t, inTime, func() bool {
				l := newLine(t, opts)
				acquires, hello := l.seen(l.asks), make(chan struct{}, 1000)
				l.proxy.OnRequest(func(cmd []string) {
					if redistest.Command("HELLO")(cmd) {
						hello <- struct{}{}
					}
				})
				l.proxy.Blackhole(redistest.Requests)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				got := lockLater(ctx, l.client.Mutex(l.key), unexpiring)
				if !underWay(l, acquires, got) {
					return false
				}
				cancel()
				require.ErrorIs(t, receive(t, got, "the call that gave up").err, context.Canceled)
				if broken {
					receive(t, hello, "a new connection to withdraw by")
				}
				require.Zero(t, number(t, l.server, "EXISTS", l.key), "the request is still held up")
				l.proxy.Deliver()
				l.warm(t)
				gone(t, l.server, l.key)
				other := newClient(t, lockrt.Options{})
				lease, err := other.Mutex(l.key).Lock(patient(t))
				require.NoError(t, err)
				require.NoError(t, lease.Unlock(t.Context()))
				gone(t, l.server, l.key)
				return true
			})
		})
	}
}

func TestFault_ReplySlowerThanTheLeaseIsNoGrant(t *testing.T) {
	t.Parallel()
	atBest(t, inTime, func() bool {
		l := newLine(t, lockrt.Options{})
		acquires := l.seen(l.asks)
		l.proxy.Blackhole(redistest.Replies)
		got := lockLater(patient(t), l.client.Mutex(l.key), lockrt.WithLease(3*time.Second))
		if !underWay(l, acquires, got) {
			return false
		}
		until(t, "the server has granted it", func() bool { return number(t, l.server, "EXISTS", l.key) == 1 })
		gone(t, l.server, l.key) // expired, and the reply that grants it is still on its way
		l.proxy.Deliver()
		answer := receive(t, got, "the grant")
		require.NoError(t, answer.err)
		require.NoError(t, answer.lease.Err(), "nobody is given what is over")
		require.NoError(t, answer.lease.Unlock(t.Context()))
		return true
	})
}

func TestFault_RenewalsLostForAWhileCostNothing(t *testing.T) {
	t.Parallel()
	renewed := make(chan lockrt.RenewEvent, 1000)
	opts := lockrt.Options{Watchdog: 9 * time.Second, Hooks: lockrt.Hooks{Renewed: func(_ context.Context, e lockrt.RenewEvent) { renewed <- e }}}
	l := newLine(t, opts)
	lease, err := l.client.Mutex(l.key).Lock(patient(t))
	require.NoError(t, err)
	lost := l.proxy.DropReply(redistest.EvalSHA(scripts.Renew.SHA1()), 2, redistest.Close)
	receive(t, lost.Done(), "two renewals to be lost")
	for receive(t, renewed, "a renewal").Err != nil {
		require.NoError(t, lease.Err())
	}
	require.NoError(t, lease.Unlock(t.Context()))
}

// TestFault_ASilentServerIsNotTheEndOfTheCallersContext: rueidis calls both the deadline of a context.
func TestFault_ASilentServerIsNotTheEndOfTheCallersContext(t *testing.T) {
	t.Parallel()
	l := newLine(t, lockrt.Options{Watchdog: 1500 * time.Millisecond})
	lease, err := l.client.Mutex(l.key).Lock(patient(t))
	require.NoError(t, err)
	l.proxy.Blackhole(redistest.Both)
	receive(t, lease.Context().Done(), "the loss")
	err = context.Cause(lease.Context())
	require.ErrorIs(t, err, lockrt.ErrLost)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	_, err = l.client.Mutex(redistest.Key(t, "other")).Lock(patient(t), lockrt.WithWait(time.Second))
	require.ErrorIs(t, err, lockrt.ErrUnavailable)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	l.proxy.Deliver()
	require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)
}
