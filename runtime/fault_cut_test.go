package lockrt_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// This file cuts holders and waiters off from a server that is well.

func TestFault_HolderCutOffIsToldBeforeItsKeyExpires(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]redistest.Direction{
		"both ways": redistest.Both, "requests": redistest.Requests, "replies": redistest.Replies,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, steady)
			renews := l.seen(redistest.EvalSHA(scripts.Renew.SHA1()))
			held, err := l.client.Mutex(l.key).Lock(patient(t))
			require.NoError(t, err)
			hooks, waiting, _ := watch()
			next := lockLater(patient(t), newClient(t, lockrt.Options{Hooks: hooks}).Mutex(l.key), unexpiring)
			receive(t, waiting, "the next one to wait")
			receive(t, renews, "a renewal")
			l.proxy.Blackhole(d)

			receive(t, held.Context().Done(), "the loss to be told")
			require.ErrorIs(t, context.Cause(held.Context()), lockrt.ErrLost)
			require.False(t, time.Now().Before(held.Until()), "the trust was used up")
			if d&redistest.Requests == 0 { // a lease without a confirmed renewal is not trusted
				require.EqualValues(t, 1, number(t, l.server, "EXISTS", l.key))
			}
			unlocked := make(chan error, 1)
			go func() { unlocked <- held.Unlock(context.Background()) }()
			require.ErrorIs(t, receive(t, unlocked, "the unlock"), lockrt.ErrLost)
			got := receive(t, next, "the next one")
			require.NoError(t, got.err)

			// All that was held up comes now, and changes nothing.
			releases := l.seen(gives)
			owners := fields(t, l.server, l.key)
			l.proxy.Deliver()
			receive(t, releases, "a release after the others")
			l.warm(t)
			require.Equal(t, owners, fields(t, l.server, l.key))
			require.NoError(t, got.lease.Unlock(t.Context()))
			gone(t, l.server, l.key)
		})
	}
}

func TestFault_TrustEndsBeforeTheKeyOfOneWhoIsCutOff(t *testing.T) {
	t.Parallel()
	renewed := make(chan lockrt.RenewEvent, 1000)
	l := newLine(t, lockrt.Options{Watchdog: 5 * time.Second, Hooks: lockrt.Hooks{Renewed: func(_ context.Context, e lockrt.RenewEvent) { renewed <- e }}})
	held, err := l.client.Mutex(l.key).Lock(patient(t))
	require.NoError(t, err)
	for confirmed := 0; confirmed < 2; { // the machine may stand still during some
		if receive(t, renewed, "a renewal").Err == nil {
			confirmed++
		}
		require.NoError(t, held.Err())
	}
	l.proxy.Blackhole(redistest.Requests)
	l.proxy.Cut()
	trusted, expires := held.Until(), number(t, l.server, "PEXPIRETIME", l.key) // neither changes any more
	require.Less(t, trusted.UnixMilli(), expires)
	receive(t, held.Context().Done(), "the loss to be told")
	require.ErrorIs(t, held.Unlock(t.Context()), lockrt.ErrLost)
	l.proxy.Discard()
	gone(t, l.server, l.key)
}

func TestFault_RefusedConnectionsAreRiddenOut(t *testing.T) {
	t.Parallel()
	renewed := make(chan lockrt.RenewEvent, 1000)
	l := newLine(t, lockrt.Options{Watchdog: 9 * time.Second, Hooks: lockrt.Hooks{Renewed: func(_ context.Context, e lockrt.RenewEvent) { renewed <- e }}})
	held, err := l.client.Mutex(l.key).Lock(patient(t))
	require.NoError(t, err)
	l.proxy.Refuse(true)
	for range 2 {
		require.Error(t, receive(t, renewed, "a failed renewal").Err)
	}
	l.proxy.Refuse(false)
	for receive(t, renewed, "a renewal").Err != nil {
		require.NoError(t, held.Err())
	}
	require.NoError(t, held.Err())
	require.NoError(t, held.Unlock(t.Context()))
	gone(t, l.server, l.key)
}

func TestFault_WaitersAreServedWithoutASubscription(t *testing.T) {
	t.Parallel()
	for how, mode := range modes() {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			hooks, waiting, _ := watch()
			l := &line{server: redistest.Shared(t), key: redistest.Key(t, "k")}
			l.proxy = redistest.Proxy(t, l.server.Addr())
			lost := l.proxy.DropReply(redistest.Command("SUBSCRIBE"), 0, mode) // before the client holds anything: it listens from then on
			l.client = clientOf(t, l.proxy.URL(), lockrt.Options{Hooks: hooks})
			l.warm(t)
			holder := newClient(t, lockrt.Options{})
			held, err := holder.Mutex(l.key).Lock(patient(t), unexpiring)
			require.NoError(t, err)
			next := lockLater(patient(t), l.client.Mutex(l.key), unexpiring)
			receive(t, waiting, "the next one to wait")
			until(t, "the subscription is lost", func() bool { return lost.Lost() > 0 })
			require.NoError(t, held.Unlock(t.Context()))
			got := receive(t, next, "the next one")
			require.NoError(t, got.err)
			require.NoError(t, got.lease.Unlock(t.Context()))
		})
	}
}

func TestFault_OneWhoHoldsALockIsNotKeptFromOthersByAMuteConnection(t *testing.T) {
	t.Parallel()
	l := newLine(t, brisk)
	held, err := l.client.Mutex(l.key).Lock(patient(t), unexpiring)
	require.NoError(t, err)
	lost := l.proxy.DropReply(asks, 1, redistest.Mute)
	other := redistest.Key(t, "other")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := lockLater(ctx, l.client.Mutex(other), unexpiring)
	receive(t, lost.Done(), "the loss")
	cancel()
	require.ErrorIs(t, receive(t, first, "the first").err, context.Canceled)
	lease, err := l.client.Mutex(other).Lock(patient(t), unexpiring) // after the same connection is given up
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(t.Context()))
	require.NoError(t, held.Unlock(t.Context()))
	gone(t, l.server, other)
	gone(t, l.server, l.key)
}

func TestFault_SubscriptionsComeAndGoWithTheWaiters(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	hooks, waiting, _ := watch()
	waiter := clientOf(t, server.URL(), lockrt.Options{Hooks: hooks})
	for range 2 {
		server.Do("HSET", "k", "11111111-2222-4333-8444-555555555555:7", "1") // a Java program
		next := lockLater(patient(t), waiter.Mutex("k"), unexpiring)
		receive(t, waiting, "the next one to wait")
		until(t, "it listens to the lock too", func() bool { return channels(t, server) == 2 })
		server.Do("DEL", "k")
		server.Do("PUBLISH", "redisson_lock__channel:{k}", "0")
		got := receive(t, next, "the next one")
		require.NoError(t, got.err)
		require.NoError(t, got.lease.Unlock(t.Context()))
		until(t, "only its own channel is left", func() bool { return channels(t, server) == 1 })
	}
	require.NoError(t, waiter.Close())
	until(t, "nobody listens", func() bool { return channels(t, server) == 0 })
}
