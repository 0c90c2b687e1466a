package hub

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// resting returns a hub with one listener, of a client that rests for d at most, and its connection to n.
func resting(n *net, d func(string) time.Duration) (*Hub, *Listener) {
	n.start = time.Now()
	h := New(Config{Dial: n.dial, Linger: time.Second, Backoff: []time.Duration{10 * time.Millisecond, 100 * time.Millisecond}, Resting: d})
	l := h.Listen("x", func(Event) {})
	<-l.Ready()
	return h, l
}

// breaks ends the connection of n, and the server does not take another one for down.
func (n *net) breaks(down time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.start, n.dials = time.Now(), nil
	if down > 0 {
		n.down = errBroken
		time.AfterFunc(down, func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.down = nil
		})
	}
	n.conn.broken <- errBroken
}

// redialed returns when the connection was made that works.
func (n *net) redialed() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials[len(n.dials)-1]
}

// Clients at rest come back at different times after their server has failed, also if it is away for longer than they rest. Those that
// need messages come back at once.
func TestHub_ClientsAtRestComeBackAtDifferentTimes(t *testing.T) {
	const spread, parts, clients = 500 * time.Millisecond, 5, 1000
	for name, down := range map[string]time.Duration{"a moment": 0, "some seconds": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nets, listeners := make([]*net, clients+1), make([]*Listener, clients+1)
				for i := range nets {
					nets[i] = new(net)
					h, l := resting(nets[i], func(string) time.Duration {
						if i == clients {
							return 0
						}
						return spread
					})
					defer h.Close()
					listeners[i] = l
				}
				for _, n := range nets {
					n.breaks(down)
				}
				<-time.After(down + spread)
				synctest.Wait()
				var came [parts]int
				for i, l := range listeners[:clients] {
					require.True(t, l.Live())
					came[int(parts*(nets[i].redialed()-down)/spread)]++
				}
				require.NotContains(t, came, 0)
				require.Less(t, slices.Max(came[:]), clients/2, came)
				require.LessOrEqual(t, nets[clients].redialed()-down, 100*time.Millisecond, "it never rests")
			})
		})
	}
}

// A client that begins to need messages while it rests subscribes at once.
func TestHub_NoRestForWhatIsNeeded(t *testing.T) {
	for name, needs := range map[string]func(h *Hub, l *Listener){
		"messages on its channel": func(_ *Hub, l *Listener) { l.Hurry() },
		"another listener to it":  func(h *Hub, _ *Listener) { h.Listen("x", func(Event) {}) },
		"another channel":         func(h *Hub, _ *Listener) { h.Listen("y", func(Event) {}) },
		"nothing, it is closed":   func(h *Hub, _ *Listener) { h.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, rests := new(net), new(atomic.Int64)
				rests.Store(int64(1000 * time.Hour))
				h, l := resting(n, func(channel string) time.Duration {
					if channel == "" { // its first connection, for no channel yet
						return 0
					}
					return time.Duration(rests.Load())
				})
				defer h.Close()
				l.Hurry() // needless
				synctest.Wait()
				n.breaks(0)
				synctest.Wait()
				require.False(t, l.Live(), "it rests")
				require.Zero(t, n.connections())

				needs(h, l)
				synctest.Wait()
				if name == "nothing, it is closed" {
					require.Zero(t, n.connections())
					l.Hurry() // nothing
					return
				}
				require.True(t, l.Live())
				require.Equal(t, 1, n.connections())
				<-time.After(lasting)
				if name == "another channel" { // somebody waits there
					n.breaks(0)
					synctest.Wait()
					require.True(t, l.Live())
					return
				}
				rests.Store(0)
				n.breaks(0)
				synctest.Wait()
				require.True(t, l.Live(), "it needs messages")
			})
		})
	}
}
