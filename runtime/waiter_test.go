package runtime

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Who gives up lets another call use its waiter when no request knows it any more. A request does until
// it has said what became of it, or that would be said to a stranger.
func TestHome_RequestKnowsItsWaiterUntilItHasSpoken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHome(&Client{}, "k")
		w := &waiter{news: make(chan news)}
		h.queue.push(w)
		h.busy = 1
		w.asks.Add(1)
		go h.settle(&asking{h: h, w: w, cl: &claim{}}, time.Now(), verdict{}, errors.New("no"))
		synctest.Wait() // it is about to speak
		require.EqualValues(t, 1, w.asks.Load())
		require.Equal(t, failed, (<-w.news).kind)
		synctest.Wait()
		require.Zero(t, w.asks.Load())
	})
}
