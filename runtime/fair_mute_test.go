package lockrt_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A connection that has fallen mute, and is found to be only after an hour, keeps nobody from a fair lock: what was
// granted is asked for beside it, and released beside it.
func TestFairMutex_AMuteConnectionIsGoneAround(t *testing.T) {
	t.Parallel()
	for name, tracking := range map[string]lockrt.Tracking{"tracking": lockrt.TrackingAuto, "no tracking": lockrt.TrackingOff} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, key := redistest.Server(t), "k"
			proxy := redistest.Proxy(t, server.Addr())
			hooks, waiting, _ := watch()
			c, err := lockrt.New(redistest.NewClient(t, proxy.Addr(), func(o *rueidis.ClientOption) {
				o.ConnWriteTimeout, o.PipelineMultiplex = time.Hour, -1
			}), lockrt.Options{OpTimeout: patience / 2, Tracking: tracking, Hooks: hooks})
			require.NoError(t, err)
			other := clientOf(t, server.URL(), lockrt.Options{Hooks: hooks})
			m := c.FairMutex(key)

			lost := proxy.DropReply(asksFair, 1, redistest.Mute)
			lease, err := m.Lock(patient(t), unexpiring)
			require.NoError(t, err, "what was granted, without an answer")
			receive(t, lost.Done(), "the loss")

			next := lockLater(patient(t), other.FairMutex(key), unexpiring)
			receive(t, waiting, "the next one to wait")
			require.NoError(t, lease.Unlock(t.Context()), "over the connection that is mute")
			got := gotten(t, next, "the next one")
			require.ErrorIs(t, tryOnce(t, m), lockrt.ErrNotAcquired, "a call that does not wait hears that as well")
			free(t, got)

			proxy.Cut() // at last
			until(t, "nothing is left", func() bool { return keysOn(t, server) == 0 })
			require.NoError(t, c.Close())
		})
	}
}

// tryOnce returns the error of a try.
func tryOnce(t *testing.T, l lockrt.Locker) error {
	t.Helper()
	lease, err := l.TryLock(patient(t))
	if err == nil {
		free(t, lease)
	}
	return err
}

// A client that is closed beside a mute connection does not wait for what other connections have answered.
func TestFairMutex_CloseBesideAMuteConnection(t *testing.T) {
	t.Parallel()
	server, key := redistest.Server(t), "k"
	proxy := redistest.Proxy(t, server.Addr())
	c, err := lockrt.New(redistest.NewClient(t, proxy.Addr(), func(o *rueidis.ClientOption) {
		o.ConnWriteTimeout, o.PipelineMultiplex = time.Hour, -1
	}), lockrt.Options{OpTimeout: patience / 2, Tracking: lockrt.TrackingOff})
	require.NoError(t, err)
	lost := proxy.DropReply(asksFair, 1, redistest.Mute)
	lease, err := c.FairMutex(key).Lock(patient(t), unexpiring)
	require.NoError(t, err)
	receive(t, lost.Done(), "the loss")
	require.NoError(t, lease.Unlock(t.Context()))
	require.NoError(t, c.Close(), "though the first request has no answer yet")
}

// A call that takes over the place of one that gave up asks for the lock when the answer to the earlier request comes too late.
func TestFairMutex_AnInheritedRequestIsAnsweredTooLate(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c := clientOf(t, server.URL(), lockrt.Options{Tracking: lockrt.TrackingOff})
	admin := redistest.NewClient(t, server.Addr())
	m, brief := c.FairMutex("k"), lockrt.WithLease(500*time.Millisecond)
	free(t, ok(t)(m.Lock(patient(t), brief))) // the scripts are there
	require.NoError(t, admin.Do(t.Context(), admin.B().ClientPause().Timeout(1500).All().Build()).Error())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := m.Lock(ctx, brief)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	lease := ok(t)(m.Lock(patient(t), brief)) // in the place of the other call
	_ = lease.Unlock(t.Context())             // it may be over
}
