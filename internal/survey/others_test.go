package survey

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A falling client has answers to some requests, and none after that.
type falling struct {
	rueidis.Client

	left int
}

func (c *falling) DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	if c.left--; c.left < 0 {
		all := make([]rueidis.RedisResult, len(multi))
		for i := range all {
			all[i] = rueidis.NewErrorResult(os.ErrDeadlineExceeded)
		}
		return all
	}
	return c.Client.DoMulti(ctx, multi...)
}

// A server that no longer answers when the permits are counted has them all the same: the semaphore is not free.
func TestReadSemaphore_WithoutTheLastAnswer(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Key(t, "s")
	server.Do("SET", key, "0")
	server.Do("ZADD", PermitLeases(key), "9007199254740991", "one", "9007199254740991", "two")
	for answers, want := range []*Others{nil, {Permits: 2, AtMost: true}, {Permits: 2, AtMost: true}, {Permits: 2}} {
		w := New()
		err := w.readSemaphore(t.Context(), &falling{server.NewClient(), answers}, key, time.Minute)
		if want == nil {
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			continue
		}
		require.NoError(t, err)
		require.NotNil(t, w.Locks[key], answers)
		require.Equal(t, *want, w.Locks[key].Others, answers)
	}
	server.Do("DEL", key, PermitLeases(key))
}
