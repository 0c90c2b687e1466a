package lockweb_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/contrib/lockweb"
	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestForce_SomePermits shows that the page says so if it takes one of the permits of a holder: its process has others of the semaphore, and names
// the first id of each holder alone. A holder in the process of the page keeps the others, another one loses its lease.
func TestForce_SomePermits(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]bool{"of the client of the page": true, "of another process": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			opened := func() *lockrt.Client {
				c, err := lockrt.Open(t.Context(), server.URL(), lockrt.Options{OpTimeout: unhurried, Watchdog: 6 * time.Second})
				require.NoError(t, err)
				t.Cleanup(func() { _ = c.Close() })
				return c
			}
			c, operator := opened(), opened()
			lost := make(chan error, 2)
			acquire := func() *lockrt.Permit {
				p, err := c.PermitSemaphore("jobs", 6).AcquireN(t.Context(), 3)
				require.NoError(t, err)
				context.AfterFunc(p.Context(), func() { lost <- context.Cause(p.Context()) })
				return p
			}
			first, second := acquire(), acquire()
			page := lockweb.Fleet(operator)
			if own {
				page = lockweb.Handler(operator, c)
			}
			v := &viewer{t: t, page: page.With(lockweb.WithForce(func(*http.Request) error { return nil }))}
			var body string
			require.Eventually(t, func() bool {
				_, body = v.do(http.MethodGet, "", "")
				return len(linkIn.FindAllStringSubmatch(body, -1)) == 2
			}, time.Minute, 10*time.Millisecond, "the processes listen")
			id := linkIn.FindStringSubmatch(body)[1]
			_, question := v.do(http.MethodGet, "?part=force&id="+id, "")
			token := tokenIn.FindStringSubmatch(question)[1]
			code, body := v.do(http.MethodPost, "?part=force", "id="+id+"&token="+token)
			require.Equal(t, http.StatusOK, code, body)
			require.Contains(t, body, "One permit was taken")
			require.Contains(t, body, "has lost one of its 3 permits of jobs.")
			require.NotContains(t, body, "The lock was taken")
			if own {
				require.Contains(t, body, "It keeps its lease and the others.")
				sizes := []int{len(first.PermitIDs()), len(second.PermitIDs())}
				slices.Sort(sizes)
				require.Equal(t, []int{2, 3}, sizes)
				require.NoError(t, first.Err())
				require.NoError(t, second.Err())
				return
			}
			require.Contains(t, body, "It learns the loss when it renews or releases them. The others are free when it releases them, or after their lease time.")
			require.ErrorIs(t, <-lost, lockrt.ErrLost)
		})
	}
}
