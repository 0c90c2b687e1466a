package hub

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/trace/tracetest"
)

// TestMain has the whole run fail if a channel makes a move that docs/architecture.md does not draw, or does not make one that it draws.
func TestMain(m *testing.M) {
	page := filepath.Join("..", "..", "..", "docs", "architecture.md")
	os.Exit(tracetest.Record().RunAll(m, page, "channel"))
}

// A scripted connection answers as its test says.
type scripted struct {
	sink      Sink
	subscribe func(sink Sink, channels []string) (elsewhere []string, err error)
}

func (c scripted) Subscribe(channels []string) ([]string, error) {
	return c.subscribe(c.sink, channels)
}
func (c scripted) Unsubscribe([]string) error { return nil }
func (c scripted) Close()                     {}

// scriptedHub returns a hub whose lanes are named by lane, and a function that returns the state of the channel x.
func scriptedHub(lane func() string, subscribe func(sink Sink, channels []string) ([]string, error)) (h *Hub, x func() state) {
	h = New(Config{
		Dial: func(_ string, sink Sink) (Conn, <-chan error, error) {
			return scripted{sink, subscribe}, make(chan error), nil
		},
		Lane: func(string) string { return lane() }, Linger: time.Second, Backoff: []time.Duration{10 * time.Millisecond},
	})
	return h, func() state {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.channels["x"].now()
	}
}

func one() string { return "one" }

// TestChannel_Elsewhere has a server that ends a subscription before it has confirmed it, or confirms that the channel is elsewhere.
func TestChannel_Elsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries []state
		var x func() state
		h, x := scriptedHub(one, func(sink Sink, channels []string) ([]string, error) {
			switch tries = append(tries, x()); len(tries) {
			case 1: // ended, and refused: it is asked for again
				sink.Dropped("x")
				tries = append(tries, x())
				return nil, ErrRefused
			case 3: // ended, and confirmed
				sink.Dropped("x")
			case 4:
				return channels, nil
			}
			return nil, nil
		})
		defer h.Close()
		begin := time.Now()
		<-h.Listen("x", func(Event) {}).Ready()
		require.Less(t, time.Since(begin), time.Second, "it tries again soon")
		synctest.Wait()
		require.Equal(t, []state{asked, ended, asked, asked, asked}, tries)
		require.Equal(t, live, x())
	})
}

// TestChannel_WhileItsListenersAreCalled has a subscription that ends, moves or is closed at that time.
func TestChannel_WhileItsListenersAreCalled(t *testing.T) {
	for name, c := range map[string]struct {
		does func(h *Hub, sink Sink, server *atomic.Value)
		then []state // at once
		last state   // in the end
	}{
		"nothing":           {func(*Hub, Sink, *atomic.Value) {}, []state{telling}, live},
		"the server has it": {func(_ *Hub, sink Sink, _ *atomic.Value) { sink.Dropped("x") }, []state{ended}, live},
		"it has moved": {func(h *Hub, _ Sink, server *atomic.Value) {
			server.Store("two")
			h.Reassign()
		}, []state{off, asked, telling, live}, live}, // the other lane goes on at once
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var server atomic.Value
				server.Store("one")
				var from atomic.Pointer[Sink] // the connection that subscribed first
				h, x := scriptedHub(func() string { return server.Load().(string) }, func(sink Sink, _ []string) ([]string, error) {
					from.CompareAndSwap(nil, &sink)
					return nil, nil
				})
				defer h.Close()
				seen := make(chan [2]state, 1)
				var first atomic.Bool // call of the listener: the other lane calls it, too, meanwhile
				h.Listen("x", func(Event) {
					if first.CompareAndSwap(false, true) {
						before := x()
						c.does(h, *from.Load(), &server)
						seen <- [2]state{before, x()}
					}
				})
				<-time.After(time.Second)
				states := <-seen
				require.Equal(t, telling, states[0])
				require.Contains(t, c.then, states[1])
				require.Equal(t, c.last, x())
			})
		})
	}
}

// A faithful connection is subscribed to what it was asked for last.
type faithful struct {
	to   map[string]bool
	hold <-chan struct{}
}

func (c faithful) Subscribe(channels []string) ([]string, error) {
	for _, name := range channels {
		c.to[name] = true
	}
	if c.to["y"] {
		<-c.hold
	}
	return nil, nil
}

func (c faithful) Unsubscribe(channels []string) error {
	for _, name := range channels {
		delete(c.to, name)
	}
	return nil
}

func (c faithful) Close() {}

// TestChannel_ComesBack has a channel that moves to another server and back while its first one is being asked for something else.
func TestChannel_ComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, hold := "one", make(chan struct{})
		c := faithful{map[string]bool{}, hold}
		h := New(Config{
			Dial: func(name string, _ Sink) (Conn, <-chan error, error) {
				if name == "one" {
					return c, make(chan error), nil
				}
				return faithful{map[string]bool{}, hold}, make(chan error), nil
			},
			Lane: func(string) string { return server }, Linger: time.Second, Backoff: []time.Duration{10 * time.Millisecond},
		})
		defer h.Close()
		x := h.Listen("x", func(Event) {})
		<-x.Ready()
		h.Listen("y", func(Event) {})
		synctest.Wait()
		for _, server = range []string{"two", "one"} {
			h.Reassign()
		}
		close(hold)
		synctest.Wait()
		require.True(t, x.Live())
		require.Equal(t, map[string]bool{"x": true, "y": true}, c.to)
	})
}

// TestChannel_ComesBackUnsubscribed has a channel that moves to another server and back while its first one is being asked for it, which has ended the
// subscription meanwhile.
func TestChannel_ComesBackUnsubscribed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, hold, now := "one", make(chan struct{}), make(chan struct{})
		close(now)
		conns := map[string]faithful{"one": {map[string]bool{}, hold}, "two": {map[string]bool{}, now}}
		h := New(Config{
			Dial: func(name string, _ Sink) (Conn, <-chan error, error) { return conns[name], make(chan error), nil },
			Lane: func(string) string { return server }, Linger: time.Second, Backoff: []time.Duration{10 * time.Millisecond},
		})
		defer h.Close()
		y := h.Listen("y", func(Event) {})
		synctest.Wait()
		server = "two"
		h.Reassign()
		synctest.Wait()
		require.True(t, y.Live())
		delete(conns["one"].to, "y")
		server = "one"
		h.Reassign()
		require.False(t, y.Live())
		close(hold)
		synctest.Wait()
		require.True(t, y.Live())
		require.Contains(t, conns["one"].to, "y")
	})
}

// A confirming connection says of each subscription that it has ended, also of those that it was to end.
type confirming struct {
	scripted

	before func()
}

func (c confirming) Unsubscribe(channels []string) error {
	c.before()
	for _, name := range channels {
		c.sink.Dropped(name)
	}
	return nil
}

// TestChannel_ComesBackWhileItEnds has a listener come while the subscription that nobody wanted any more ends: the channel has not moved.
func TestChannel_ComesBackWhileItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h *Hub
		var next ear
		asks := 0
		h = New(Config{
			Dial: func(_ string, sink Sink) (Conn, <-chan error, error) {
				subscribe := func(Sink, []string) ([]string, error) { return nil, nil }
				return confirming{scripted{sink, subscribe}, func() { h.Listen("x", next.hear) }}, make(chan error), nil
			},
			Lane: func(string) string { return "one" }, Moved: func() { asks++ }, Linger: time.Second, Backoff: []time.Duration{10 * time.Millisecond},
		})
		defer h.Close()
		l := h.Listen("x", func(Event) {})
		<-l.Ready()
		l.Close()
		<-time.After(2 * time.Second)
		synctest.Wait()
		require.Equal(t, []Event{{Subscribed: true}}, next.heard())
		require.Zero(t, asks)
	})
}

// TestChannel_ConnectionEnds has a connection end while a subscription is under way, and while it is subscribed.
func TestChannel_ConnectionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &net{hang: true}
		h := newHub(n)
		defer h.Close()
		l := h.Listen("x", func(Event) {})
		ch := l.ch
		synctest.Wait()
		require.Equal(t, asked, ch.now())
		n.mu.Lock()
		n.down = errBroken
		n.conn.Close()
		n.mu.Unlock()
		synctest.Wait()
		require.Equal(t, off, ch.now())
		n.mu.Lock()
		n.down, n.hang = nil, false
		n.mu.Unlock()
		<-l.Ready()
		synctest.Wait()
		require.Equal(t, live, ch.now())
		n.mu.Lock()
		n.down = errBroken
		n.mu.Unlock()
		n.conn.broken <- errBroken
		synctest.Wait()
		require.Equal(t, off, ch.now())
	})
}
