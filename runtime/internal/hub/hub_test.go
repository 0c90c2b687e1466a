package hub

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// net is what a hub dials: connections to a server that is up or not.
type net struct {
	mu       sync.Mutex
	down     error
	dials    []time.Duration
	commands []string
	conn     *conn
	refusal  error                // of subscribing
	admitted string               // a channel that is not refused, if it is asked for alone or together with others
	hang     bool                 // subscribing is not answered until the connection is closed
	before   func(channel string) // called before the answer to subscribing
	start    time.Time
}

type conn struct {
	net     *net
	message func(channel, payload string)
	broken  chan error
	closed  chan struct{}
	once    sync.Once
}

var errBroken = errors.New("broken")

func (n *net) dial(_ string, sink Sink) (Conn, <-chan error, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dials = append(n.dials, time.Since(n.start))
	if n.down != nil {
		return nil, nil, n.down
	}
	n.conn = &conn{net: n, message: sink.Message, broken: make(chan error, 1), closed: make(chan struct{})}
	return n.conn, n.conn.broken, nil
}

func (c *conn) command(name string, channels []string) error {
	channels = slices.Sorted(slices.Values(channels))
	c.net.mu.Lock()
	hang, refusal := c.net.hang, c.net.refusal
	for _, ch := range channels {
		c.net.commands = append(c.net.commands, name+" "+ch)
	}
	c.net.mu.Unlock()
	if hang {
		<-c.closed
		return errBroken
	}
	if name == "sub" {
		return refusal
	}
	return nil
}

func (n *net) refuse(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refusal = err
}

// connections returns how many there were.
func (n *net) connections() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.dials)
}

func (c *conn) Subscribe(channels []string) (refused []string, err error) {
	err = c.command("sub", channels)
	if err != nil && slices.Contains(channels, c.net.admitted) {
		refused = slices.DeleteFunc(slices.Clone(channels), func(ch string) bool { return ch == c.net.admitted })
	}
	if c.net.before != nil {
		for _, ch := range channels {
			c.net.before(ch)
		}
	}
	return refused, err
}

func (c *conn) Unsubscribe(channels []string) error { return c.command("unsub", channels) }
func (c *conn) Close()                              { c.once.Do(func() { close(c.closed) }) }

func (n *net) sent() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.commands)
}

func newHub(n *net) *Hub {
	n.start = time.Now()
	return New(Config{Dial: n.dial, Linger: time.Second, Backoff: []time.Duration{10 * time.Millisecond, 100 * time.Millisecond}})
}

// The type collects the events of a listener.
type ear struct {
	mu     sync.Mutex
	events []Event
}

func (e *ear) hear(ev Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = append(e.events, ev)
}

func (e *ear) heard() []Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.events)
}

func TestHub_OneSubscriptionForAllListenersOfAChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &net{}
		h := newHub(n)
		defer h.Close()
		var a, b, other ear
		la := h.Listen("x", a.hear)
		<-la.Ready()
		synctest.Wait()
		lb := h.Listen("x", b.hear)
		<-lb.Ready()
		synctest.Wait()
		<-h.Listen("y", other.hear).Ready()
		synctest.Wait()
		require.True(t, lb.Live())
		n.conn.message("x", "0")
		synctest.Wait()
		require.Equal(t, []Event{{Subscribed: true}, {Payload: "0"}}, a.heard())
		require.Equal(t, []Event{{Payload: "0"}}, b.heard(), "it was subscribed before")
		require.Equal(t, []Event{{Subscribed: true}}, other.heard())
		require.Equal(t, []string{"sub x", "sub y"}, n.sent())

		la.Close()
		la.Close()
		n.conn.message("x", "0")
		n.conn.message("unknown", "0")
		require.Len(t, a.heard(), 2, "closed")
		require.Len(t, b.heard(), 2)
	})
}

// Messages that arrive after the server has begun to subscribe, and before every listener knows,
// are delivered after the subscription.
func TestHub_WhatIsSaidIsToldAfterTheSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &net{}
		h := newHub(n)
		defer h.Close()
		both := make(chan struct{})
		n.before = func(channel string) {
			<-both // listen: a listener that comes later is not called for the subscription
			n.conn.message(channel, "early")
		}
		var a, b ear
		for _, e := range []*ear{&a, &b} {
			h.Listen("x", func(ev Event) {
				e.hear(ev)
				if ev.Subscribed {
					n.conn.message("x", "while they are told")
				}
			})
		}
		close(both)
		synctest.Wait()
		n.conn.message("x", "later")
		want := []Event{{Subscribed: true}, {Payload: "early"}, {Payload: "while they are told"}, {Payload: "while they are told"}, {Payload: "later"}}
		require.Equal(t, want, a.heard())
		require.Equal(t, want, b.heard())
	})
}

// A listener knows whether a message came after the last listener had left.
func TestHub_WhatIsSaidToNobodyIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &net{}
		h := newHub(n)
		defer h.Close()
		var e ear
		listen := func(missed bool) {
			t.Helper()
			l := h.Listen("x", e.hear)
			<-l.Ready()
			synctest.Wait()
			require.Equal(t, missed, l.Missed())
			l.Close()
		}
		listen(false)
		listen(false)
		n.conn.message("x", "to nobody")
		listen(true)
		listen(false)
		n.conn.message("x", "to nobody")
		l := h.Listen("x", e.hear)
		n.conn.message("x", "to one")
		l.Close()
		listen(false)
		n.conn.message("x", "to nobody")
		time.Sleep(2 * time.Second) // it is not subscribed any more: the next listener learns that it is
		listen(false)
		require.Equal(t, []Event{{Subscribed: true}, {Payload: "to one"}, {Subscribed: true}}, e.heard())
	})
}

func TestHub_UnsubscribesAfterTheLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &net{}
		h := newHub(n)
		defer h.Close()
		var e ear
		l := h.Listen("x", e.hear)
		<-l.Ready()
		synctest.Wait()
		l.Close()
		<-time.After(900 * time.Millisecond)
		again := h.Listen("x", e.hear)
		<-again.Ready()
		synctest.Wait()
		again.Close()
		<-time.After(900 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, []string{"sub x"}, n.sent())
		<-time.After(200 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, []string{"sub x", "unsub x"}, n.sent())
		<-h.Listen("x", e.hear).Ready()
		synctest.Wait()
		require.Equal(t, []string{"sub x", "unsub x", "sub x"}, n.sent())
	})
}

func TestHub_BrokenConnectionIsReplacedAndEverybodyTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &net{}
		h := newHub(n)
		defer h.Close()
		var a, b ear
		la, lb := h.Listen("x", a.hear), h.Listen("y", b.hear)
		<-la.Ready()
		synctest.Wait()
		<-lb.Ready()
		synctest.Wait()
		n.mu.Lock()
		n.down = errBroken
		first := n.conn
		n.mu.Unlock()
		first.broken <- errBroken
		synctest.Wait()
		require.False(t, la.Live())
		<-first.closed
		<-time.After(time.Second) // tries at once, after 10ms, and every 100ms
		n.mu.Lock()
		ms := time.Millisecond
		require.Equal(t, []time.Duration{0, 10 * ms, 110 * ms, 210 * ms}, n.dials[1:5])
		n.down = nil
		n.mu.Unlock()
		<-time.After(100 * time.Millisecond)
		synctest.Wait()
		require.True(t, la.Live())
		require.Equal(t, []Event{{Subscribed: true}, {Subscribed: true, Again: true}}, a.heard())
		require.Equal(t, []Event{{Subscribed: true}, {Subscribed: true, Again: true}}, b.heard())
		n.conn.message("y", "0")
		require.Len(t, b.heard(), 3)
	})
}

// A server that ends each connection as soon as that subscribes is not dialled without a pause, and the log is not filled.
func TestHub_ConnectionsThatDoNotLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, cuts := new(net), atomic.Bool{}
		cuts.Store(true)
		var reports atomic.Int32
		n.start = time.Now()
		h := New(Config{
			Dial: func(lane string, sink Sink) (Conn, <-chan error, error) {
				conn, broken, err := n.dial(lane, sink)
				if n.connections() > 1000 {
					cuts.Store(false) // the test has failed
				}
				if cuts.Load() {
					n.conn.broken <- errBroken
				}
				return conn, broken, err
			},
			Linger:   time.Second,
			Backoff:  []time.Duration{10 * time.Millisecond, 100 * time.Millisecond},
			OnBroken: func(error) { reports.Add(1) },
		})
		defer h.Close()
		l := h.Listen("x", func(Event) {})
		<-time.After(10 * time.Second)
		require.LessOrEqual(t, n.connections(), 110)
		require.Equal(t, int32(2), reports.Load())

		cuts.Store(false)
		<-time.After(lasting + 200*time.Millisecond)
		require.True(t, l.Live())
		n.breaks(0)
		synctest.Wait()
		require.True(t, l.Live(), "a connection that has lasted is replaced at once")
		require.Equal(t, int32(3), reports.Load())
	})
}

func TestHub_FirstSubscriptionAfterAFailureSaysSo(t *testing.T) {
	for _, hang := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := &net{hang: hang}
			if !hang {
				n.down = errBroken
			}
			h := newHub(n)
			defer h.Close()
			var e ear
			l := h.Listen("x", e.hear)
			synctest.Wait()
			n.mu.Lock()
			n.down, n.hang = nil, false
			if hang {
				n.conn.Close() // while it subscribes
			}
			n.mu.Unlock()
			<-l.Ready()
			synctest.Wait()
			require.Equal(t, []Event{{Subscribed: true, Again: true}}, e.heard())
		})
	}
}

func TestHub_NobodyListensAnyMoreWhileDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &net{down: errBroken}
		h := newHub(n)
		defer h.Close()
		var e ear
		l := h.Listen("x", e.hear)
		<-time.After(time.Second)
		l.Close()
		<-time.After(time.Second)
		n.mu.Lock()
		tries := len(n.dials)
		n.mu.Unlock()
		<-time.After(time.Hour)
		n.mu.Lock()
		defer n.mu.Unlock()
		require.Len(t, n.dials, tries, "nobody wants a connection")
	})
}

// Nobody relies on a subscription of a hub that is closed.
func TestHub_CloseEndsSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(&net{})
		l := h.Listen("x", func(Event) {})
		<-l.Ready()
		h.Close()
		require.False(t, l.Live())
	})
}

func TestHub_CloseEndsACallUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &net{hang: true}
		h := newHub(n)
		var e ear
		l := h.Listen("x", e.hear)
		synctest.Wait()
		h.Close()
		h.Close()
		require.Empty(t, e.heard())
		l.Close()
		late := h.Listen("x", e.hear) // hears nothing, breaks nothing
		require.False(t, late.Live())
		late.Close()
	})
}

func TestHub_ReconnectReplacesAConnectionThatIsNotBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &net{}
		h := newHub(n)
		defer h.Close()
		var e ear
		l := h.Listen("x", e.hear)
		<-l.Ready()
		synctest.Wait()
		first := n.conn
		h.Reconnect()
		h.Reconnect() // before it got round to the first, or after that
		synctest.Wait()
		<-first.closed
		require.NotSame(t, first, n.conn)
		require.True(t, l.Live())
		heard := e.heard()
		want := []Event{{Subscribed: true}, {Subscribed: true, Again: true}, {Subscribed: true, Again: true}}
		require.Equal(t, want[:min(n.connections(), len(want))], heard)
		require.Greater(t, len(heard), 1)
		first.message("x", "late")
		require.Equal(t, heard, e.heard(), "nothing is heard over the old one any more")
		n.conn.message("x", "0")
		require.Len(t, e.heard(), len(heard)+1)
	})
}

// A connection is replaced once, also during a call.
func TestHub_ReconnectDuringACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &net{}
		h := newHub(n)
		defer h.Close()
		<-h.Listen("x", func(Event) {}).Ready()
		<-time.After(lasting)
		synctest.Wait()
		n.mu.Lock()
		n.hang = true
		n.mu.Unlock()
		l := h.Listen("y", func(Event) {})
		synctest.Wait()
		n.mu.Lock()
		n.hang = false
		n.mu.Unlock()
		h.Reconnect()
		<-l.Ready()
		synctest.Wait()
		require.Equal(t, 2, n.connections())
	})
}

func TestHub_ReconnectEndsAPauseAndACallUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &net{down: errBroken}
		h := newHub(n)
		defer h.Close()
		var e ear
		l := h.Listen("x", e.hear)
		<-time.After(time.Second) // it tries every 100ms
		synctest.Wait()
		n.mu.Lock()
		n.down, n.hang = nil, true
		n.mu.Unlock()
		h.Reconnect()
		synctest.Wait() // it subscribes, and is not answered
		n.mu.Lock()
		n.hang = false
		n.mu.Unlock()
		since := time.Now()
		h.Reconnect()
		<-l.Ready()
		require.Zero(t, time.Since(since))
	})
	newHub := newHub(&net{})
	newHub.Close()
	newHub.Reconnect() // nothing
}

func TestHub_CloseUnused(t *testing.T) {
	newHub(&net{}).Close()
}

func TestHub_ManyComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &net{}
		h := newHub(n)
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				for range 20 {
					var e ear
					l := h.Listen(string(rune('a'+i%5)), e.hear)
					<-l.Ready()
					l.Close()
				}
			})
		}
		wg.Wait()
		<-time.After(2 * time.Second)
		synctest.Wait()
		h.mu.Lock()
		require.Empty(t, h.channels)
		h.mu.Unlock()
		h.Close()
		require.Len(t, n.sent(), 10, "five channels, subscribed and unsubscribed once")
	})
}

// A server that refuses a channel is asked again over the same connection, which may be there for something else, too. A channel
// that is not wanted any more is unsubscribed meanwhile.
func TestHub_RefusedChannelsKeepTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &net{}
		h := newHub(n)
		defer h.Close()
		var a, b ear
		la := h.Listen("x", a.hear)
		<-la.Ready()
		synctest.Wait()
		n.refuse(fmt.Errorf("%w: no permission", ErrRefused))
		lb := h.Listen("y", b.hear)
		la.Close()
		time.Sleep(1450 * time.Millisecond) // 10 ms, then every 100 ms; it ends between two tries
		require.False(t, lb.Live())
		require.Contains(t, n.sent(), "unsub x")
		tries := len(n.sent())
		require.Greater(t, tries, 10)
		require.Less(t, tries, 20)
		n.refuse(nil)
		<-lb.Ready()
		synctest.Wait()
		require.Equal(t, 1, n.connections())
		n.conn.message("y", "1")
		synctest.Wait()
		require.Equal(t, []Event{{Subscribed: true}, {Payload: "1"}}, b.heard())
	})
}

// A channel that a server refuses holds up no other one that comes later, on a connection that has subscribed to some.
func TestHub_ARefusedChannelHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &net{start: time.Now()}
		h := New(Config{Dial: n.dial, Linger: time.Second, Backoff: []time.Duration{time.Hour}})
		defer h.Close()
		<-h.Listen("x", func(Event) {}).Ready()
		n.refuse(fmt.Errorf("%w: no permission", ErrRefused))
		denied := h.Listen("y", func(Event) {})
		synctest.Wait()
		n.admitted = "z"
		<-h.Listen("z", func(Event) {}).Ready()
		require.False(t, denied.Live())
		require.Less(t, time.Since(n.start), time.Hour)
	})
}

// A connection that never was one can refuse all for good, as a server did when it was made. It is replaced.
func TestHub_RefusedChannelsOfABrokenConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &net{}
		n.refuse(fmt.Errorf("%w: busy", ErrRefused))
		h := newHub(n)
		defer h.Close()
		l := h.Listen("x", func(Event) {})
		synctest.Wait()
		n.breaks(0)
		synctest.Wait()
		require.Equal(t, 1, n.connections(), "since then")
		n.refuse(nil)
		<-l.Ready()
	})
}
