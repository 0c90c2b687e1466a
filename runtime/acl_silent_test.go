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

// A release takes effect also if the server permits no message about it: Unlock returns no error for the missing
// permission, and of many releases at once each takes effect.
func TestACL_WhatIsGivenBackIsSoThoughNobodyMayBeTold(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string][]string{
		"no channels": {"resetchannels"}, "no messages": {"allchannels", "-publish", "-spublish"}, "nor listeners": {"resetchannels", "-pubsub"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			u := aclUser{name: "mute", password: "secret", rules: append([]string{"on", ">secret", "allkeys", "allcommands"}, rules...)}
			u.join(server)
			c := clientOf(t, u.login(t, server.URL()), lockrt.Options{})
			ctx := patient(t)
			rw, fair := c.RWMutex("rw"), c.FairMutex("fair")
			lockers := map[string]lockrt.Locker{
				"mutex": c.Mutex("mutex"), "fair": fair, "write": rw, "read": rw.RLocker(),
				"multi": lockrt.NewMultiLock(c.Mutex("m1"), c.Mutex("m2"), c.Mutex("m3")), "red": lockrt.RedLockOf(c.Mutex("red")),
			}
			for kind, locker := range lockers {
				for _, opts := range [][]lockrt.LockOption{nil, {lockrt.WithLease(time.Minute)}} {
					lease, err := locker.Lock(ctx, opts...)
					require.NoError(t, err, kind)
					require.NoError(t, lease.Unlock(ctx), kind)
				}
			}
			force := map[string][2]func() error{
				"mutex": {func() error { _, err := c.Mutex("mutex").Lock(ctx); return err }, func() error { _, err := c.Mutex("mutex").ForceUnlock(ctx); return err }},
				"fair":  {func() error { _, err := fair.Lock(ctx); return err }, func() error { _, err := fair.ForceUnlock(ctx); return err }},
				"read":  {func() error { _, err := rw.RLock(ctx); return err }, func() error { _, err := rw.ForceRUnlock(ctx); return err }},
				"write": {func() error { _, err := rw.Lock(ctx); return err }, func() error { _, err := rw.ForceUnlock(ctx); return err }},
			}
			for kind, do := range force {
				require.NoError(t, do[0](), kind)
				require.NoError(t, do[1](), kind)
			}

			// One that is not handed what it waits for, and asks by its timer.
			held, err := c.Mutex("mutex").Lock(ctx)
			require.NoError(t, err)
			hooks, waiting, _ := watch()
			other := clientOf(t, u.login(t, server.URL()), lockrt.Options{Hooks: hooks})
			next := lockLater(ctx, other.Mutex("mutex"))
			receive(t, waiting, "the next one")
			require.NoError(t, held.Unlock(ctx))
			got := receive(t, next, "the next one")
			require.NoError(t, got.err)
			require.NoError(t, got.lease.Unlock(ctx))

			// Many at once, some of which somebody waits for.
			ends := make(chan error, 100)
			var leases []*lockrt.Lease
			for i := range cap(ends) {
				lease, err := c.Mutex(fmt.Sprintf("many:%d", i)).Lock(ctx)
				require.NoError(t, err)
				leases = append(leases, lease)
				if i%3 == 0 {
					impatient, cancel := context.WithCancel(ctx)
					gaveUp := lockLater(impatient, other.Mutex(lease.Key()))
					receive(t, waiting, "one that waits")
					cancel()
					require.ErrorIs(t, receive(t, gaveUp, "the one that waits").err, context.Canceled)
				}
			}
			for _, lease := range leases {
				go func() { ends <- lease.Unlock(context.WithoutCancel(ctx)) }()
			}
			for range leases {
				require.NoError(t, receive(t, ends, "an unlock"))
			}

			s := c.Semaphore("semaphore", 2)
			require.NoError(t, s.Acquire(ctx, 2))
			require.NoError(t, s.Release(ctx, 2))
			_, err = s.Resize(ctx, 1)
			require.NoError(t, err)
			permit, err := c.PermitSemaphore("permits", 1).Acquire(ctx)
			require.NoError(t, err)
			require.NoError(t, permit.Release(ctx))
			l := c.CountDownLatch("latch")
			for range 2 {
				_, err = l.SetCount(ctx, 1)
				require.NoError(t, err)
				_, err = l.CountDown(ctx)
				require.NoError(t, err)
			}
			_, err = l.SetCount(ctx, 1)
			require.NoError(t, err)
			_, err = l.Delete(ctx)
			require.NoError(t, err)
		})
	}
}
