package locktest_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

//nolint:paralleltest // NoLeaks counts goroutines
func TestClient_TwoReplicas(t *testing.T) {
	t.Setenv("REDIS_URL", "")
	locktest.NoLeaks(t)
	waiting := make(chan struct{})
	one := locktest.Client(t, lockrt.Options{})
	two := locktest.Client(t, lockrt.Options{Hooks: lockrt.Hooks{
		Waiting: func(context.Context, lockrt.AcquireEvent) { close(waiting) },
	}})
	lease, err := one.Mutex("order:42").Lock(t.Context())
	require.NoError(t, err)
	_, err = two.Mutex("order:42").TryLock(t.Context())
	require.ErrorIs(t, err, lockrt.ErrNotAcquired)
	served := make(chan error, 1)
	go func() {
		served <- two.Mutex("order:42").Do(t.Context(), func(context.Context, *lockrt.Lease) error { return nil })
	}()
	<-waiting
	require.NoError(t, lease.Unlock(t.Context()))
	select {
	case err := <-served:
		require.NoError(t, err)
	case <-time.After(20 * time.Second):
		require.Fail(t, "the waiter was not served")
	}
}

//nolint:paralleltest // it sets a variable of the environment
func TestClient_ForgottenLease(t *testing.T) {
	t.Setenv("REDIS_URL", "")
	tb := &locktest.Recorder{TB: t}
	c := locktest.Client(tb, lockrt.Options{})
	_, err := c.Mutex("b").Lock(t.Context())
	require.NoError(t, err)
	_, err = c.Mutex("a").Lock(t.Context())
	require.NoError(t, err)
	unlocked, err := c.Mutex("c").Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, unlocked.Unlock(t.Context()))
	tb.End()
	require.Equal(t, []string{"locktest: still locked when the test ended: a, b"}, tb.Errors)
}

// everyServer runs a test with each of the servers that Server chooses between.
func everyServer(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	for name, env := range map[string]map[string]string{
		"installed": {},
		"named":     {"REDIS_URL": redistest.Shared(t).URL()},
		"embedded":  {"LOCKGEN_REDIS_SERVER": "no such program", "CI": ""}, // with it nothing is left out
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("REDIS_URL", "")
			for name, value := range env {
				t.Setenv(name, value)
			}
			test(t)
		})
	}
}

//nolint:paralleltest // it sets a variable of the environment
func TestServer(t *testing.T) {
	everyServer(t, func(t *testing.T) {
		url := locktest.Server(t)
		require.Equal(t, url, locktest.Server(t), "one for each test")
		require.Equal(t, os.Getenv("LOCKGEN_REDIS_SERVER") != "", url == locktest.Embedded(t))
		require.Equal(t, os.Getenv("REDIS_URL") != "", url == redistest.Shared(t).URL())
		t.Run("another test", func(t *testing.T) {
			require.Equal(t, os.Getenv("REDIS_URL") != "", url == locktest.Server(t))
		})
	})
}

//nolint:paralleltest // it sets a variable of the environment
func TestClient_KeyLeftBehind(t *testing.T) {
	everyServer(t, func(t *testing.T) {
		tb := &locktest.Recorder{TB: t}
		c := locktest.Client(tb, lockrt.Options{})
		a, b, text := redistest.Key(t, "a"), redistest.Key(t, "b"), redistest.Key(t, "text")
		for _, key := range []string{a, b, text} {
			lease, err := c.Mutex(key).Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(t.Context()))
		}
		addr, _ := strings.CutPrefix(locktest.Server(tb), "redis://")
		rc := redistest.NewClient(t, addr, func(o *rueidis.ClientOption) { o.DisableCache = true })
		for _, cmd := range [][]string{
			{"HSET", a, c.ID() + ":7", "1"},
			{"HSET", b, "11111111-2222-4333-8444-555555555555:7", "1"},
			{"SET", text, "somebody else's"},
		} {
			require.NoError(t, rc.Do(t.Context(), rc.B().Arbitrary(cmd...).Build()).Error())
		}
		defer func() {
			require.Equal(t, []string{"locktest: still in Redis when the test ended: " + a + "; if that is on purpose, by release=keep or min=, force it open before the end"}, tb.Errors)
			if url := os.Getenv("REDIS_URL"); url != "" {
				require.NoError(t, rc.Do(t.Context(), rc.B().Del().Key(a, b, text).Build()).Error())
			}
		}()
		tb.End()
	})
}

// TestClient_LooksWhereItHasOpened shows that the check at the end connects as the client does.
//
//nolint:paralleltest // it sets a variable of the environment
func TestClient_LooksWhereItHasOpened(t *testing.T) {
	for name, url := range map[string]string{
		"a slash at the end":        redistest.Server(t).URL() + "/",
		"sentinels with a password": redistest.Sentinel(t, redistest.WithPassword("s3cret")).URL(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("REDIS_URL", url)
			tb := &locktest.Recorder{TB: t}
			lease, err := locktest.Client(tb, lockrt.Options{}).Mutex("k").Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(t.Context()))
			tb.End()
			require.Empty(t, tb.Errors)
		})
	}
}

// TestClient_MayNotLook shows that a test does not pass for one that leaves no keys if the user may not look.
//
//nolint:paralleltest // it sets a variable of the environment
func TestClient_MayNotLook(t *testing.T) {
	server := redistest.Server(t)
	server.Do("ACL", "SETUSER", "limited", "on", ">secret", "~*", "&*", "+@all", "-hkeys")
	t.Setenv("REDIS_URL", "redis://limited:secret@"+server.Addr())
	tb := &locktest.Recorder{TB: t}
	lease, err := locktest.Client(tb, lockrt.Options{}).Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(t.Context()))
	tb.End()
	require.Len(t, tb.Errors, 1)
	require.Contains(t, tb.Errors[0], `look for keys that were left behind: "k": NOPERM`)
}

//nolint:paralleltest // it sets a variable of the environment
func TestLose(t *testing.T) {
	everyServer(t, func(t *testing.T) {
		c := locktest.Client(t, lockrt.Options{})
		key := redistest.Key(t, "k")
		err := c.Mutex(key).Do(t.Context(), func(ctx context.Context, lease *lockrt.Lease) error {
			locktest.Lose(t, lease)
			require.ErrorIs(t, context.Cause(ctx), lockrt.ErrLost)
			tb := &locktest.Recorder{TB: t}
			tb.Run(func() { locktest.Lose(tb, lease) })
			require.Len(t, tb.Errors, 1)
			require.Contains(t, tb.Errors[0], "cannot be lost: its lease has ended: ")
			require.Contains(t, tb.Errors[0], "lease lost: ")
			return nil
		})
		require.ErrorIs(t, err, lockrt.ErrLost)

		lease, err := c.Mutex(key).Lock(t.Context())
		require.NoError(t, err)
		addr, _ := strings.CutPrefix(locktest.Server(t), "redis://")
		rc := redistest.NewClient(t, addr, func(o *rueidis.ClientOption) { o.DisableCache = true })
		require.NoError(t, rc.Do(t.Context(), rc.B().Del().Key(key).Build()).Error())
		tb := &locktest.Recorder{TB: t}
		tb.Run(func() { locktest.Lose(tb, lease) })
		require.Len(t, tb.Errors, 1)
		require.Regexp(t, "cannot be lost: (nobody has it in Redis|its lease has ended)", tb.Errors[0])
		require.ErrorIs(t, lease.Unlock(t.Context()), lockrt.ErrLost)
	})
}

//nolint:paralleltest // it sets a variable of the environment
func TestClient_HooksOfTheTestRun(t *testing.T) {
	t.Setenv("REDIS_URL", "")
	var events []string
	c := locktest.Client(t, lockrt.Options{Hooks: lockrt.Hooks{
		AcquireEnd: func(_ context.Context, e lockrt.AcquireEvent) { events = append(events, "got "+e.Key) },
		Ended:      func(_ context.Context, e lockrt.EndEvent) { events = append(events, "ended "+e.Key) },
	}})
	lease, err := c.Mutex("a").Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(t.Context()))
	require.Equal(t, []string{"got a", "ended a"}, events)
}

func TestEmbedded_OnePerTest(t *testing.T) {
	t.Parallel()
	url := locktest.Embedded(t)
	require.Equal(t, url, locktest.Embedded(t))
	t.Run("another test", func(t *testing.T) {
		t.Parallel()
		require.NotEqual(t, url, locktest.Embedded(t))
	})
}
