package lockrt

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A claim was handed the key, and has to ask for it; meanwhile the clock of the server was set back, and somebody else has the
// key. By that clock the refusal is from before the grant, but it answers a request that was sent after it.
func TestHome_AsksOnceMoreWhenTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	for name, early := range map[string]bool{"sent before": true, "sent after": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &Client{closing: make(chan struct{}), stopped: make(chan struct{}), homes: map[string]*home{}, tasks: make(chan func())}
			c.running = 1
			h := newHome(c, "k")
			h.users = 10
			w := newWaiter(context.Background(), newLease(c, kindMutex, "k", context.Background()), lockConfig{wait: UntilDone, terms: terms{ttl: 30 * time.Second}})
			h.queue.push(w)
			w.place.leading = true
			cl := h.claimFor(w.terms)
			sent := now()
			cl.ours, cl.granted, cl.received = true, time.Now().UnixMicro(), now() // as handed does for one who has to ask
			answer := func(sent time.Time) newsKind {
				h.busy, cl.asking = 1, true
				w.asks.Add(1)
				h.settle(&asking{h: h, w: w, cl: cl, terms: w.terms, line: protocol.StillQueued}, sent, protocol.Verdict{Wait: 30000, At: time.Now().Add(-time.Hour)}, nil)
				n, ok := w.hears()
				require.True(t, ok)
				return n.kind
			}
			if early {
				require.Equal(t, turn, answer(sent.Add(-time.Millisecond)))
			}
			require.Equal(t, refusedFor, answer(now()))
		})
	}
}
