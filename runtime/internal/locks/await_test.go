package locks

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/resource"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// An unlisted contest is in no registry, as that of a RedLock. It refuses the first request, during which a release is announced, and does not
// answer the second one.
type unlisted struct {
	asks  int
	again chan struct{} // closed by the second request
}

func (*unlisted) Join(*resource.Waiter) resource.Entry        { return resource.ToAsk }
func (*unlisted) Leave(*resource.Waiter)                      {}
func (*unlisted) Channel(*resource.Waiter) string             { return "" }
func (*unlisted) Hear(string)                                 {}
func (*unlisted) Subject(*resource.Waiter) (kind, key string) { return "", "" }

func (q *unlisted) Ask(w *resource.Waiter) {
	if q.asks++; q.asks > 1 {
		close(q.again)
		return
	}
	w.Poke()
	w.Notify(engine.Event{Kind: engine.Refused, TTL: time.Hour, InLine: true})
}

// TestAwait_TheClientEndsDuringARequest shows that a call whose contest is in no registry ends with its client while a request is under way, also
// if it was about to wait for its next event alone before.
func TestAwait_TheClientEndsDuringARequest(t *testing.T) {
	t.Parallel()
	c := clientOf(t, redistest.Shared(t).URL(), core.Settings{DeadlockAfter: -1})
	cfg := &leases.Config{Wait: leases.UntilDone}
	q, done := &unlisted{again: make(chan struct{})}, make(chan error, 1)
	go func() {
		done <- c.base.Await(context.Background(), q, resource.NewWaiter(context.Background(), nil, cfg), cfg, nil)
	}()
	<-q.again
	require.NoError(t, c.base.Close())
	select {
	case err := <-done:
		require.ErrorIs(t, err, failure.ErrClosed)
	case <-patient(t).Done():
		require.Fail(t, "the call does not hear of the end of its client")
	}
}
