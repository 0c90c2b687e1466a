package lockrt_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A permission that is missing in the middle of a script leaves nothing that stays for ever: what the script had begun is withdrawn.
func TestACL_MissingInTheMiddleLeavesNothingForEver(t *testing.T) {
	t.Parallel()
	locks := map[string]func(c *lockrt.Client) lockrt.Locker{
		"Mutex":        func(c *lockrt.Client) lockrt.Locker { return c.Mutex("k") },
		"Mutex, fence": func(c *lockrt.Client) lockrt.Locker { return c.Mutex("k", lockrt.WithFencing()) },
		"FairMutex":    func(c *lockrt.Client) lockrt.Locker { return c.FairMutex("k", lockrt.WithFencing()) },
		"writer":       func(c *lockrt.Client) lockrt.Locker { return c.RWMutex("k", lockrt.WithFencing()) },
		"reader":       func(c *lockrt.Client) lockrt.Locker { return c.RWMutex("k").RLocker() },
		"MultiLock":    func(c *lockrt.Client) lockrt.Locker { return lockrt.NewMultiLock(c.Mutex("k"), c.Mutex("l")) },
	}
	for name, lock := range locks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			for _, denied := range []string{"-pexpire", "-set", "-del", "-time", "-pttl", "-publish", "-zadd", "-rpush"} {
				require.NoError(t, server.Do("ACL", "SETUSER", "half", "reset", "on", ">pw", "~*", "&*", "+@all", denied).Error())
				c, err := opened(t.Context(), "redis://half:pw@"+server.Addr(), lockrt.Options{})
				require.NoError(t, err)
				for _, free := range []bool{true, false} {
					require.NoError(t, server.Do("FLUSHALL").Error()) // it cannot release it, so the key expires
					var holder *lockrt.Lease
					if !free { // so that it has to wait, and leaves more than the lock
						holder, err = lock(clientOf(t, server.URL(), lockrt.Options{})).Lock(patient(t))
						require.NoError(t, err)
					}
					ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
					lease, err := lock(c).Lock(ctx)
					cancel()
					if err == nil {
						_ = lease.Unlock(t.Context()) // which may not be permitted either
					}
					if holder != nil {
						require.NoError(t, holder.Unlock(t.Context()))
					}
					until(t, "nothing stays for ever without "+denied, func() bool {
						keys, err := server.Do("KEYS", "*").AsStrSlice()
						require.NoError(t, err)
						for _, key := range keys {
							if number(t, server, "PTTL", key) == -1 {
								return false
							}
						}
						return true
					})
				}
				require.NoError(t, c.Close())
			}
		})
	}
}

// A holder whose permission is revoked while it holds a lock frees the lock, and leaves nothing that stays for ever. Its
// waiter has the lock for a whole lease.
func TestACL_RevokedWhileTheLockIsHeld(t *testing.T) {
	t.Parallel()
	locks := map[string]func(c *lockrt.Client) lockrt.Locker{
		"Mutex":        func(c *lockrt.Client) lockrt.Locker { return c.Mutex("k") },
		"Mutex, fence": func(c *lockrt.Client) lockrt.Locker { return c.Mutex("k", lockrt.WithFencing()) },
		"FairMutex":    func(c *lockrt.Client) lockrt.Locker { return c.FairMutex("k") },
		"RWMutex":      func(c *lockrt.Client) lockrt.Locker { return c.RWMutex("k") },
		"MultiLock":    func(c *lockrt.Client) lockrt.Locker { return lockrt.NewMultiLock(c.Mutex("k"), c.Mutex("l")) },
	}
	for name, lock := range locks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			for _, revoked := range []string{"-pexpire", "-hset"} {
				require.NoError(t, server.Do("ACL", "SETUSER", "half", "reset", "on", ">pw", "~*", "&*", "+@all").Error())
				c, err := opened(t.Context(), "redis://half:pw@"+server.Addr(), lockrt.Options{})
				require.NoError(t, err)
				hooks, waiting, _ := watch()
				whole := clientOf(t, server.URL(), lockrt.Options{Hooks: hooks})
				held, err := lock(c).Lock(patient(t))
				require.NoError(t, err)
				got := make(chan error, 1)
				var next *lockrt.Lease
				go func() {
					var err error
					next, err = lock(whole).Lock(patient(t))
					got <- err
				}()
				receive(t, waiting, "a call that waits")
				require.NoError(t, server.Do("ACL", "SETUSER", "half", revoked).Error())
				require.NoError(t, held.Unlock(t.Context()))
				for _, key := range []string{"k", "l", "lockgen_waiting:{k}", "lockgen_waiting:{l}", "lockgen_fair:{k}", "lockgen_writer:{k}", "lockgen_turn:{k}"} {
					require.NotEqual(t, int64(-1), number(t, server, "PTTL", key), "%s without %s", key, revoked)
				}
				require.NoError(t, receive(t, got, "the next holder"))
				require.Greater(t, number(t, server, "PTTL", "k"), int64(15_000), "its lease, no hand-over lease")
				require.NoError(t, next.Unlock(t.Context()))
				require.NoError(t, c.Close())
			}
		})
	}
}

// So it is with what counts: without the right to note what was taken nothing is.
func TestACL_MissingInTheMiddleTakesNoPermits(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	whole := clientOf(t, server.URL(), lockrt.Options{})
	_, err := whole.Semaphore("s", 0).TrySetPermits(t.Context(), 3, 0)
	require.NoError(t, err)
	_, err = whole.PermitSemaphore("p", 0).TrySetPermits(t.Context(), 3, 0)
	require.NoError(t, err)
	_, err = whole.CountDownLatch("l").SetCount(t.Context(), 2)
	require.NoError(t, err)
	for _, denied := range []string{"-zremrangebyscore", "-pexpire", "-zadd", "-incrby"} {
		require.NoError(t, server.Do("ACL", "SETUSER", "half", "reset", "on", ">pw", "~*", "&*", "+@all", denied).Error())
		c, err := opened(t.Context(), "redis://half:pw@"+server.Addr(), lockrt.Options{})
		require.NoError(t, err)
		require.ErrorContains(t, c.Semaphore("s", 0).TryAcquire(patient(t), 2), "permission", denied)
		require.ErrorContains(t, c.Semaphore("s", 0).Release(patient(t), 2), "permission", denied)
		_, err = c.PermitSemaphore("p", 0).TryAcquireN(patient(t), 2)
		require.ErrorContains(t, err, "permission", denied)
		_, err = c.CountDownLatch("l").CountDown(patient(t))
		require.ErrorContains(t, err, "permission", denied)
		requireAvailable(t, 3, whole.Semaphore("s", 0))
		requireCounts(t, whole.PermitSemaphore("p", 0), 3, 0)
		left, err := whole.CountDownLatch("l").Count(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, left)
		keys, err := server.Do("KEYS", "lockgen_requests:*").AsStrSlice()
		require.NoError(t, err)
		require.NotEmpty(t, keys)
		for _, key := range keys {
			require.Positive(t, number(t, server, "PTTL", key), "%s, %s", denied, key)
		}
		require.NoError(t, c.Close())
	}
}
