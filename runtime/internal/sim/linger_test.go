package sim

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// has reports whether the server has a key.
func (w *world) has(key string) bool {
	return strings.TrimSpace(w.order(w.servers[0], "EXISTS", key)) != ":0"
}

// TestLinger shows, in virtual time, until when a key lingers: to the end of its time, or until another process asks for it.
func TestLinger(t *testing.T) {
	const d, mostLatency = 20 * time.Millisecond, 1500 * time.Microsecond // one way
	for name, test := range map[string]struct {
		next func(w *world, m []*lockrt.Mutex) (got func())
		from time.Duration // after Unlock, by then it has the key
		to   time.Duration
	}{
		"nobody wants it": {
			next: func(w *world, _ []*lockrt.Mutex) func() {
				for w.has("key0") {
					time.Sleep(100 * time.Microsecond)
				}
				return func() {}
			},
			from: d, to: d + 2*mostLatency,
		},
		// It is refused, stands in line, and the key is released, which is reported.
		"another process": {
			next: func(w *world, m []*lockrt.Mutex) func() {
				l, err := m[1].Lock(w.t.Context())
				require.NoError(w.t, err)
				return func() { require.NoError(w.t, l.Unlock(w.t.Context())) }
			},
			to: 8 * mostLatency,
		},
		"a thread of Redisson": {
			next: func(w *world, _ []*lockrt.Mutex) func() {
				p := w.enlist(w.t.Context())
				j := &javaThread{p: p, rng: w.random("java"), owner: javaUUID + ":1", heard: make(chan struct{}, 1)}
				p.uuid, j.rc = javaUUID, p.reach(w.servers[0])
				h := &javaHeld{j: j, key: "key0"}
				require.NoError(w.t, h.take(w.plan.watchdog))
				return func() {
					require.NoError(w.t, h.Unlock(w.t.Context()))
					j.rc.Close()
				}
			},
			from: d, to: d + 8*mostLatency,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, mutex.name)
				w.plan = &plan{kind: mutex, servers: 1, processes: 2, keys: 1, watchdog: 30 * time.Second, latency: 100 * time.Microsecond}
				w.plan.options = lockrt.Options{Linger: d, Tracking: lockrt.TrackingOff}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				w.stop = cancel
				var m []*lockrt.Mutex
				for range w.plan.processes {
					p := w.enlist(ctx)
					p.connect(w.servers[0])
					p.uuid = p.cs[0].ID()
					m = append(m, p.cs[0].Mutex("key0"))
					l, err := p.cs[0].Mutex("warm").Lock(ctx)
					require.NoError(t, err)
					time.Sleep(time.Second) // it hears other processes
					require.NoError(t, l.Unlock(ctx))
					time.Sleep(time.Second)
					require.False(t, w.has("warm"))
				}
				l, err := m[0].Lock(ctx)
				require.NoError(t, err)
				began := time.Now()
				require.NoError(t, l.Unlock(ctx))
				require.Zero(t, time.Since(began), "nothing is sent")
				require.True(t, w.has("key0"))
				got := test.next(w, m)
				took := time.Since(began)
				require.GreaterOrEqual(t, took, test.from)
				require.LessOrEqual(t, took, test.to)
				got()
				cancel()
				w.end()
				require.Empty(t, w.failures)
			})
			runtime.GC() // the content of pools belongs to the bubble that made it
			runtime.GC()
		})
	}
}
