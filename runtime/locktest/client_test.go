package locktest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest"
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
	tb := &recorder{TB: t}
	c := locktest.Client(tb, lockrt.Options{})
	_, err := c.Mutex("b").Lock(t.Context())
	require.NoError(t, err)
	_, err = c.Mutex("a").Lock(t.Context())
	require.NoError(t, err)
	unlocked, err := c.Mutex("c").Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, unlocked.Unlock(t.Context()))
	tb.end()
	require.Equal(t, []string{"locktest: still locked when the test ended: a, b"}, tb.errors)
}

//nolint:paralleltest // it sets a variable of the environment
func TestClient_HooksOfTheTestRun(t *testing.T) {
	t.Setenv("REDIS_URL", "")
	var events []string
	c := locktest.Client(t, lockrt.Options{Hooks: lockrt.Hooks{
		AcquireEnd: func(_ context.Context, e lockrt.AcquireEvent) { events = append(events, "got "+e.Key) },
		Ended:      func(e lockrt.EndEvent) { events = append(events, "ended "+e.Key) },
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

// A recorder is a test whose failures are looked at.
type recorder struct {
	testing.TB
	cleanups []func()
	errors   []string
}

func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func (r *recorder) end() {
	for _, f := range r.cleanups {
		defer f()
	}
}
