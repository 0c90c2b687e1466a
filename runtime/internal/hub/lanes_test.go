package hub

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// servers are several, each of which has some channels.
type servers struct {
	mu     sync.Mutex
	has    map[string]string // which server has which channel
	known  map[string]string // as far as the hub knows
	down   map[string]bool
	denied string // a channel that no server permits
	asked  int    // times that the hub asked which server has what
	sinks  map[string]Sink
	breaks map[string]chan error
	log    []string
}

type serverConn struct {
	s    *servers
	name string
}

func (s *servers) dial(name string, sink Sink) (Conn, <-chan error, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down[name] {
		return nil, nil, errBroken
	}
	s.sinks[name], s.breaks[name] = sink, make(chan error, 1)
	return serverConn{s, name}, s.breaks[name], nil
}

func (s *servers) lane(channel string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[channel]
}

func (s *servers) moved() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	for channel, name := range s.has {
		s.known[channel] = name
	}
}

func (s *servers) asks() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// place has a server have a channel.
func (s *servers) place(channel, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.has[channel] = name
}

func (c serverConn) Subscribe(channels []string) (elsewhere []string, err error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	for _, channel := range channels {
		if c.s.has[channel] != c.name {
			elsewhere = append(elsewhere, channel)
			continue
		}
		c.s.log = append(c.s.log, c.name+" sub "+channel)
	}
	if len(elsewhere) == 0 && slices.Contains(channels, c.s.denied) {
		return []string{c.s.denied}, ErrRefused
	}
	return elsewhere, nil
}

func (c serverConn) Unsubscribe(channels []string) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	for _, channel := range channels {
		c.s.log = append(c.s.log, c.name+" unsub "+channel)
	}
	return nil
}

func (c serverConn) Close() {}

func (s *servers) sent() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.log
	s.log = nil
	return slices.Sorted(slices.Values(log))
}

func newServers() (*servers, *Hub) {
	s := &servers{
		has: map[string]string{"x": "a", "y": "b", "z": "a"}, known: map[string]string{"x": "a", "y": "b", "z": "a"},
		down: map[string]bool{"nobody": true}, sinks: map[string]Sink{}, breaks: map[string]chan error{},
	}
	return s, New(Config{
		Dial: s.dial, Lane: s.lane, Moved: s.moved, Linger: time.Second,
		Backoff: []time.Duration{10 * time.Millisecond, 100 * time.Millisecond},
	})
}

func TestHub_AChannelIsSubscribedWhereItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newServers()
		defer h.Close()
		var x, y ear
		<-h.Listen("x", x.hear).Ready()
		synctest.Wait()
		<-h.Listen("y", y.hear).Ready()
		synctest.Wait()
		require.Equal(t, []string{"a sub x", "b sub y"}, s.sent())
		s.sinks["b"].Message("y", "1")
		require.Equal(t, []Event{{Subscribed: true}}, x.heard())
		require.Equal(t, []Event{{Subscribed: true}, {Payload: "1"}}, y.heard())
	})
}

func TestHub_ADroppedChannelIsSubscribedWhereItIsNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newServers()
		defer h.Close()
		var x, z ear
		l := h.Listen("x", x.hear)
		<-l.Ready()
		synctest.Wait()
		<-h.Listen("z", z.hear).Ready()
		synctest.Wait()
		s.sent()

		s.place("x", "b")
		s.sinks["a"].Dropped("x")
		live, sent := l.Live(), s.sent()
		require.True(t, !live || len(sent) > 0, "not subscribed at once, until it is subscribed anew")
		synctest.Wait()
		require.True(t, l.Live())
		require.ElementsMatch(t, []string{"a unsub x", "b sub x"}, append(sent, s.sent()...), "it may have ended one of two kinds")
		require.Equal(t, []Event{{Subscribed: true}, {Subscribed: true, Again: true}}, x.heard())
		require.Equal(t, []Event{{Subscribed: true}}, z.heard(), "the others stay where they are")
	})
}

// The hub tries again to subscribe a channel that a server refuses, and does not ask each time which server has it: other channels would wait for
// the answer.
func TestHub_ARefusedChannelHasNotMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newServers()
		defer h.Close()
		s.denied = "z"
		var x, z ear
		<-h.Listen("x", x.hear).Ready()
		refused := h.Listen("z", z.hear)
		time.Sleep(time.Second) // in a bubble
		require.Greater(t, len(s.sent()), 5)
		require.Zero(t, s.asks())

		s.place("x", "b")
		s.sinks["a"].Dropped("x")
		synctest.Wait()
		require.Equal(t, 1, s.asks())
		require.Equal(t, []Event{{Subscribed: true}, {Subscribed: true, Again: true}}, x.heard())

		s.sent()
		s.place("z", "b")
		s.moved()
		h.Reassign()
		synctest.Wait()
		require.Contains(t, s.sent(), "a unsub z", "it may have subscribed one of two kinds")
		refused.Close()
		synctest.Wait()
		require.Contains(t, s.sent(), "b unsub z")
		h.Listen("z", z.hear)
		synctest.Wait()
		s.mu.Lock()
		s.denied = ""
		s.mu.Unlock()
		time.Sleep(time.Second)
		require.Equal(t, []Event{{Subscribed: true, Again: true}}, z.heard())
	})
}

// A server that ends a subscription and has the channel again may have lost what it had, so the listeners hear of it. The words of an old
// connection count no more.
func TestHub_AServerHasAChannelAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newServers()
		defer h.Close()
		var x ear
		<-h.Listen("x", x.hear).Ready()
		synctest.Wait()
		first := s.sinks["a"]
		first.Dropped("x")
		synctest.Wait()
		want := []Event{{Subscribed: true}, {Subscribed: true, Again: true}}
		require.Equal(t, want, x.heard())

		s.breaks["a"] <- errBroken
		<-time.After(time.Second)
		synctest.Wait()
		want = append(want, Event{Subscribed: true, Again: true})
		require.Equal(t, want, x.heard())
		first.Dropped("x")
		synctest.Wait()
		require.Equal(t, want, x.heard())
	})
}

func TestHub_AChannelThatIsNotWhereItWasThoughtToBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newServers()
		defer h.Close()
		s.place("x", "b")
		s.known["x"] = "a"
		var x ear
		<-h.Listen("x", x.hear).Ready()
		synctest.Wait()
		require.Equal(t, []string{"a unsub x", "b sub x"}, s.sent(), "it may have subscribed one of two kinds")
		require.Equal(t, 1, s.asks())

		// Nobody has it for a while: that is not asked for all the time.
		s.place("x", "nobody")
		s.sinks["b"].Dropped("x")
		begin := time.Now()
		time.Sleep(2 * time.Second) // in a bubble
		require.Less(t, s.asks(), 30)
		s.place("x", "a")
		time.Sleep(200 * time.Millisecond)
		require.Equal(t, []string{"a sub x", "b unsub x"}, s.sent(), "after %v", time.Since(begin))
	})
}

func TestHub_ChannelsOfAServerThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newServers()
		defer h.Close()
		var x, y, z ear
		<-h.Listen("x", x.hear).Ready()
		synctest.Wait()
		<-h.Listen("y", y.hear).Ready()
		synctest.Wait()
		lz := h.Listen("z", z.hear)
		<-lz.Ready()
		synctest.Wait()
		s.sent()

		s.mu.Lock()
		s.down["a"] = true
		s.mu.Unlock()
		s.breaks["a"] <- errBroken
		time.Sleep(time.Second)
		require.False(t, lz.Live())
		require.Empty(t, s.sent(), "there is nowhere to go")
		s.place("x", "b")
		s.place("z", "b")
		time.Sleep(200 * time.Millisecond)
		require.True(t, lz.Live())
		require.Equal(t, []string{"b sub x", "b sub z"}, s.sent())
		require.Equal(t, []Event{{Subscribed: true}}, y.heard(), "another server's stay as they are")
	})
}

// A channel of which a server still sends messages, though another one has it, is given up there.
func TestHub_AChannelLeavesTheServerThatHadIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newServers()
		defer h.Close()
		var x, z ear
		<-h.Listen("x", x.hear).Ready()
		synctest.Wait()
		<-h.Listen("z", z.hear).Ready()
		synctest.Wait()
		s.sent()
		s.place("x", "b")
		s.place("z", "b")
		s.sinks["a"].Dropped("x")
		synctest.Wait()
		require.Equal(t, []string{"a unsub x", "a unsub z", "b sub x", "b sub z"}, s.sent())
		require.Equal(t, []Event{{Subscribed: true}, {Subscribed: true, Again: true}}, z.heard())
	})
}

// A channel that a server has dropped when nobody listens any more, or has not got when the last listener leaves, is given up there in each way.
func TestHub_AChannelThatNobodyWantsLeavesTheServerThatDroppedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newServers()
		defer h.Close()
		var x, z ear
		lx := h.Listen("x", x.hear)
		<-lx.Ready()
		synctest.Wait()
		lx.Close()
		s.sinks["a"].Dropped("x")
		synctest.Wait()
		require.Equal(t, []string{"a sub x", "a unsub x"}, s.sent())

		s.place("z", "nobody")
		s.known["z"] = "a"
		lz := h.Listen("z", z.hear)
		synctest.Wait()
		require.Equal(t, "nobody", s.known["z"])
		require.Equal(t, []string{"a unsub z"}, s.sent())
		lz.Close()
	})
}

func TestHub_ReassignSubscribesWhereChannelsAreNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newServers()
		defer h.Close()
		var x, y ear
		h.Listen("x", x.hear)
		h.Listen("y", y.hear)
		synctest.Wait()
		s.sent()
		h.Reassign() // nothing has moved
		synctest.Wait()
		require.Empty(t, s.sent())
		s.place("x", "b")
		s.moved()
		h.Reassign()
		synctest.Wait()
		require.Equal(t, []string{"a unsub x", "b sub x"}, s.sent())
		require.Equal(t, []Event{{Subscribed: true}, {Subscribed: true, Again: true}}, x.heard())
		require.Equal(t, []Event{{Subscribed: true}}, y.heard())
		h.Close()
		h.Reassign()
	})
}

// lanes returns the names of the lanes of h.
func lanes(h *Hub) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.lanes))
}

// The servers of a cluster come and go, with new addresses. A lane without channels ends when its connection does, and begins again when its
// server has a channel again.
func TestHub_ALaneEndsWithItsServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newServers()
		defer h.Close()
		var x, y ear
		lx := h.Listen("x", x.hear)
		h.Listen("y", y.hear)
		synctest.Wait()
		require.Equal(t, []string{"a", "b"}, lanes(h))
		s.place("x", "b")
		s.moved()
		h.Reassign()
		synctest.Wait()
		require.True(t, lx.Live())
		require.Equal(t, []string{"a", "b"}, lanes(h), "its connection lasts")
		s.breaks["a"] <- errBroken
		time.Sleep(time.Second)
		require.Equal(t, []string{"b"}, lanes(h))
		s.place("x", "a")
		s.moved()
		h.Reassign()
		synctest.Wait()
		require.Equal(t, []string{"a", "b"}, lanes(h))
		require.True(t, lx.Live())
	})
}

// A slowConn answers when its gate is open.
type slowConn struct {
	name string
	gate <-chan struct{}
	log  func(string)
}

func (c slowConn) Subscribe(channels []string) (elsewhere []string, err error) {
	c.log(c.name + " sub " + channels[0])
	<-c.gate
	return nil, nil
}

func (c slowConn) Unsubscribe(channels []string) error {
	c.log(c.name + " unsub " + channels[0])
	return nil
}

func (slowConn) Close() {}

// TestHub_AChannelThatMovesBeforeItIsSubscribed shows that the server that had a channel does not go on to send its messages.
func TestHub_AChannelThatMovesBeforeItIsSubscribed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var log []string
		owner := "a"
		gates := map[string]chan struct{}{"a": make(chan struct{}), "b": make(chan struct{})}
		close(gates["b"])
		h := New(Config{
			Dial: func(name string, _ Sink) (Conn, <-chan error, error) {
				return slowConn{name, gates[name], func(line string) {
					mu.Lock()
					defer mu.Unlock()
					log = append(log, line)
				}}, make(chan error), nil
			},
			Lane: func(string) string { return owner }, Linger: time.Second, Backoff: []time.Duration{10 * time.Millisecond},
		})
		defer h.Close()
		l := h.Listen("x", func(Event) {})
		synctest.Wait()
		h.mu.Lock()
		owner = "b"
		h.mu.Unlock()
		h.Reassign()
		<-l.Ready()
		synctest.Wait()
		close(gates["a"])
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []string{"a sub x", "b sub x", "a unsub x"}, log)
		require.True(t, l.Live())
	})
}
