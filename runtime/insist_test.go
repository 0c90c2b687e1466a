package lockrt

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A request with an unknown outcome is not sent again when Redis does not remember its result any more, however long
// the caller waits.
func TestInsist_NoLongerThanRedisRemembers(t *testing.T) {
	t.Parallel()
	for _, anyway := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			opts, err := Options{OpTimeout: 10 * time.Minute}.withDefaults()
			require.NoError(t, err)
			c := &Client{opts: opts, tasks: make(chan func()), closing: make(chan struct{}), stopped: make(chan struct{})}
			ts := newCounter(c, kindSemaphore, "k")
			c.started()
			ts.users = 1 << 10 // it is in no registry
			start := time.Now()
			var last time.Duration
			_, err = ts.insist(t.Context(), anyway, func() {}, func() (int64, error) {
				last = time.Since(start)
				return 0, errors.New("the connection broke")
			})
			require.EqualError(t, err, "the connection broke")
			require.Greater(t, last, insistence/2)
			require.LessOrEqual(t, last, insistence)
			ts.exit()
			close(c.stopped)
		})
	}
}
