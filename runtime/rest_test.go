package lockrt_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A client that holds nothing and waits for nothing takes its time to subscribe again, and does so at once for a call that needs
// messages. A client that holds a key takes no time.
func TestRest_UntilACallNeedsMessages(t *testing.T) {
	t.Parallel()
	const years = 1 << 62 // a random part of it is longer than any test
	for name, needs := range map[string]func(t *testing.T, c, other *lockrt.Client){
		"a holder": func(t *testing.T, c, _ *lockrt.Client) {
			lease := ok(t)(c.Mutex("k").Lock(patient(t)))
			until(t, "the client hears", func() bool { return lockrt.Hears(c) })
			free(t, lease)
		},
		"a waiter": func(t *testing.T, c, other *lockrt.Client) {
			held := ok(t)(other.Mutex("k").Lock(patient(t)))
			got := make(chan *lockrt.Lease, 1)
			go func() { got <- ok(t)(c.Mutex("k").Lock(patient(t))) }()
			until(t, "the client hears", func() bool { return lockrt.Hears(c) })
			free(t, held)
			free(t, receive(t, got, "the lock"))
		},
		"a reader that waits": func(t *testing.T, c, other *lockrt.Client) {
			held := ok(t)(other.RWMutex("k").Lock(patient(t)))
			got := make(chan *lockrt.Lease, 1)
			go func() { got <- ok(t)(c.RWMutex("k").RLock(patient(t))) }()
			until(t, "the client hears", func() bool { return lockrt.Hears(c) })
			free(t, held)
			free(t, receive(t, got, "the lock"))
		},
		"a question": func(t *testing.T, c, _ *lockrt.Client) {
			fleet, err := c.Fleet(patient(t), "")
			require.NoError(t, err)
			require.Empty(t, fleet.Silent)
		},
		"its end": func(t *testing.T, c, _ *lockrt.Client) { require.NoError(t, c.Close()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			proxy := redistest.Proxy(t, server.Addr())
			subscribed := new(atomic.Int64)
			proxy.OnRequest(func(cmd []string) {
				if strings.EqualFold(cmd[0], "SUBSCRIBE") {
					subscribed.Add(1)
				}
			})
			c, other := clientOf(t, proxy.URL(), lockrt.Options{}), clientOf(t, server.URL(), lockrt.Options{})
			lockrt.SpreadBy(c, years)
			held := ok(t)(c.Mutex("first").Lock(patient(t)))
			until(t, "the client hears", func() bool { return lockrt.Hears(c) })
			proxy.Cut()
			until(t, "the client subscribes again, since it holds a key", func() bool { return subscribed.Load() > 1 && lockrt.Hears(c) })
			free(t, held)
			until(t, "the client is at rest", func() bool { return lockrt.AtRest(c) })
			proxy.Cut()
			until(t, "the client is not subscribed", func() bool { return !lockrt.Hears(c) })
			needs(t, c, other)
		})
	}
}
