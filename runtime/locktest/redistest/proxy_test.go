package redistest_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A wire is a connection on which the test speaks the protocol itself.
type wire struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
}

func dial(t *testing.T, addr string) *wire {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(opTimeout)))
	return &wire{t: t, conn: conn, r: bufio.NewReader(conn)}
}

// send writes commands, given as words on a line each, in one piece.
func (w *wire) send(commands ...string) {
	w.t.Helper()
	var b strings.Builder
	for _, command := range commands {
		words := strings.Fields(command)
		b.WriteString("*" + strconv.Itoa(len(words)) + "\r\n")
		for _, word := range words {
			b.WriteString("$" + strconv.Itoa(len(word)) + "\r\n" + word + "\r\n")
		}
	}
	_, err := io.WriteString(w.conn, b.String())
	require.NoError(w.t, err)
}

// expect reads exactly these bytes.
func (w *wire) expect(raw string) {
	w.t.Helper()
	got := make([]byte, len(raw))
	n, err := io.ReadFull(w.r, got)
	require.NoError(w.t, err, "got %q", got[:n])
	require.Equal(w.t, raw, string(got))
}

// expectEnd reads that the connection was closed.
func (w *wire) expectEnd() {
	w.t.Helper()
	rest, err := io.ReadAll(w.r)
	require.Empty(w.t, string(rest))
	if err != nil {
		require.ErrorContains(w.t, err, "reset")
	}
}

// expectSilence asks that nothing comes for a moment.
func (w *wire) expectSilence() {
	w.t.Helper()
	require.NoError(w.t, w.conn.SetReadDeadline(time.Now().Add(30*time.Millisecond)))
	_, err := w.r.ReadByte()
	var timeout net.Error
	require.ErrorAs(w.t, err, &timeout)
	require.True(w.t, timeout.Timeout())
	require.NoError(w.t, w.conn.SetReadDeadline(time.Now().Add(opTimeout)))
}

// await ends the test if the event does not come.
func await(t *testing.T, event <-chan struct{}) {
	t.Helper()
	select {
	case <-event:
	case <-time.After(opTimeout):
		require.Fail(t, "the event did not come")
	}
}

// awaitValue waits until the server has the value at the key.
func awaitValue(t *testing.T, s *redistest.RedisServer, key, value string) {
	t.Helper()
	require.Eventually(t, func() bool {
		got, err := s.Do("GET", key).ToString()
		return err == nil && got == value
	}, opTimeout, pollEvery)
}

func TestProxy_PassesEverything(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		edit func(o *rueidis.ClientOption)
	}{
		{"protocol 3", func(*rueidis.ClientOption) {}},
		{"protocol 2", func(o *rueidis.ClientOption) { o.AlwaysRESP2, o.DisableCache = true, true }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Shared(t)
			p := redistest.Proxy(t, s.Addr())
			c := redistest.NewClient(t, p.Addr(), tt.edit)
			big := strings.Repeat("0123456789\r\n", 400_000)
			key := redistest.Key(t, "big")
			require.NoError(t, c.Do(t.Context(), c.B().Set().Key(key).Value(big).Build()).Error())
			got, err := c.Do(t.Context(), c.B().Get().Key(key).Build()).ToString()
			require.NoError(t, err)
			require.Equal(t, big, got)

			heard, subscribed := make(chan string, 1), make(chan struct{}, 1)
			ctx, cancel := context.WithCancel(rueidis.WithOnSubscriptionHook(t.Context(), func(rueidis.PubSubSubscription) { subscribed <- struct{}{} }))
			var wg sync.WaitGroup
			wg.Go(func() {
				_ = c.Receive(ctx, c.B().Subscribe().Channel(key).Build(), func(m rueidis.PubSubMessage) { heard <- m.Message })
			})
			await(t, subscribed)
			counter := redistest.Key(t, "counter")
			for range 32 {
				wg.Go(func() {
					for range 50 {
						c.Do(t.Context(), c.B().Incr().Key(counter).Build())
					}
				})
			}
			s.Do("PUBLISH", key, "hello")
			require.Equal(t, "hello", <-heard)
			cancel()
			wg.Wait()
			n, err := c.Do(t.Context(), c.B().Get().Key(counter).Build()).AsInt64()
			require.NoError(t, err)
			require.Equal(t, int64(32*50), n)
		})
	}
}

func TestProxy_PassesInvalidations(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	p := redistest.Proxy(t, s.Addr())
	invalidated := make(chan struct{}, 1)
	c := redistest.NewClient(t, p.Addr(), func(o *rueidis.ClientOption) {
		o.OnInvalidations = func(m []rueidis.RedisMessage) {
			if len(m) > 0 { // not a flush of everything at the end of a connection
				invalidated <- struct{}{}
			}
		}
	})
	key := redistest.Key(t, "cached")
	s.Do("SET", key, "1")
	require.NoError(t, c.DoCache(t.Context(), c.B().Get().Key(key).Cache(), time.Minute).Error())
	s.Do("SET", key, "2")
	await(t, invalidated)
	got, err := c.Do(t.Context(), c.B().Get().Key(key).Build()).ToString()
	require.NoError(t, err)
	require.Equal(t, "2", got)
}

func TestProxy_DropReplyClose(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	p := redistest.Proxy(t, s.Addr())
	c := redistest.NewClient(t, p.Addr())
	key := redistest.Key(t, "n")
	drop := p.DropReply(redistest.Command("INCR"), 1, redistest.Close)
	require.Zero(t, drop.Lost())
	require.Error(t, c.Do(t.Context(), c.B().Incr().Key(key).Build()).Error())
	await(t, drop.Done())
	require.Equal(t, 1, drop.Lost())
	n, err := s.Do("GET", key).AsInt64()
	require.NoError(t, err)
	require.Equal(t, int64(1), n, "the server has acted")

	n, err = c.Do(t.Context(), c.B().Incr().Key(key).Build()).ToInt64()
	require.NoError(t, err, "one reply is lost and no other")
	require.Equal(t, int64(2), n)
}

func TestProxy_DropReplyInPipeline(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	p := redistest.Proxy(t, s.Addr())
	key := redistest.Key(t, "n")
	p.DropReply(redistest.Command("incr"), 1, redistest.Close)
	w := dial(t, p.Addr())
	w.send("SET "+key+" 7", "GET "+key, "INCR "+key, "GET "+key)
	w.expect("+OK\r\n$1\r\n7\r\n")
	w.expectEnd()
	awaitValue(t, s, key, "8")
}

func TestProxy_DropReplyMute(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	p := redistest.Proxy(t, s.Addr())
	key := redistest.Key(t, "n")
	drop := p.DropReply(redistest.Command("INCR"), 1, redistest.Mute)
	w := dial(t, p.Addr())
	w.send("SET "+key+" 0", "INCR "+key, "INCR "+key)
	w.expect("+OK\r\n")
	await(t, drop.Done())
	w.expectSilence()
	awaitValue(t, s, key, "2")

	other := dial(t, p.Addr())
	other.send("GET " + key)
	other.expect("$1\r\n2\r\n")
}

func TestProxy_DropRequest(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	p := redistest.Proxy(t, s.Addr())
	key := redistest.Key(t, "n")
	drop := p.DropRequest(redistest.Command("INCR"), 2, redistest.Mute)
	for range 2 {
		w := dial(t, p.Addr())
		w.send("SET "+key+" 0", "INCR "+key, "INCR "+key)
		w.expect("+OK\r\n")
		w.expectSilence()
	}
	await(t, drop.Done())
	awaitValue(t, s, key, "0")

	drop = p.DropRequest(redistest.EvalSHA("abc"), 0, redistest.Close)
	for range 3 {
		w := dial(t, p.Addr())
		w.send("EVALSHA abc 0")
		w.expectEnd()
	}
	require.Equal(t, 3, drop.Lost())
	drop.Stop()
	w := dial(t, p.Addr())
	w.send("EVALSHA abc 0")
	w.expect("-NOSCRIPT")
}

// TestProxy_PushesAnswerNothing loses the reply to the one command that follows
// subscriptions, with messages in between.
func TestProxy_PushesAnswerNothing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ hello, push string }{{"HELLO 3", ">"}, {"HELLO 2", "*"}} {
		t.Run(tt.hello, func(t *testing.T) {
			t.Parallel()
			s := redistest.Shared(t)
			p := redistest.Proxy(t, s.Addr())
			key := redistest.Key(t, "n")
			frame := func(words ...string) string {
				b := tt.push + strconv.Itoa(len(words)) + "\r\n"
				for _, word := range words {
					if strings.HasPrefix(word, ":") {
						b += word + "\r\n"
						continue
					}
					b += "$" + strconv.Itoa(len(word)) + "\r\n" + word + "\r\n"
				}
				return b
			}
			w := dial(t, p.Addr())
			w.send(tt.hello)
			skipReply(t, w)

			a, b := key+"a", key+"b"
			w.send("SUBSCRIBE "+a+" "+b, "PSUBSCRIBE "+key+"*")
			w.expect(frame("subscribe", a, ":1") + frame("subscribe", b, ":2") + frame("psubscribe", key+"*", ":3"))
			s.Do("PUBLISH", a, "hi")
			w.expect(frame("message", a, "hi") + frame("pmessage", key+"*", a, "hi"))
			w.send("UNSUBSCRIBE", "PUNSUBSCRIBE", "PING")
			for range 3 {
				skipReply(t, w)
			}
			w.expect("+PONG\r\n")

			w.send("UNSUBSCRIBE", "SUBSCRIBE "+a) // the first takes off nothing
			skipReply(t, w)
			w.expect(frame("subscribe", a, ":1"))
			s.Do("PUBLISH", a, "again")
			w.expect(frame("message", a, "again"))
			w.send("UNSUBSCRIBE " + a)
			w.expect(frame("unsubscribe", a, ":0"))

			drop := p.DropReply(redistest.Command("INCR"), 1, redistest.Close)
			w.send("SET "+key+" 4", "INCR "+key, "GET "+key)
			w.expect("+OK\r\n")
			w.expectEnd()
			require.Equal(t, 1, drop.Lost())
			awaitValue(t, s, key, "5")
		})
	}
}

// skipReply reads one reply, however long.
func skipReply(t *testing.T, w *wire) {
	t.Helper()
	line, err := w.r.ReadString('\n')
	require.NoError(t, err)
	switch line[0] {
	case '*', '>', '%', '$':
		n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
		require.NoError(t, err)
		switch {
		case line[0] == '$' && n >= 0:
			_, err = w.r.Discard(n + 2)
			require.NoError(t, err)
			return
		case line[0] == '$':
			return
		case line[0] == '%':
			n *= 2
		}
		for range n {
			skipReply(t, w)
		}
	}
}

func TestProxy_DropSubscription(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	p := redistest.Proxy(t, s.Addr())
	p.DropReply(redistest.Command("SUBSCRIBE"), 1, redistest.Close)
	w := dial(t, p.Addr())
	w.send("HELLO 3")
	skipReply(t, w)
	w.send("PING", "SUBSCRIBE "+redistest.Key(t, "a"))
	w.expect("+PONG\r\n")
	w.expectEnd()
}

func TestProxy_BlackholeDelivers(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	p := redistest.Proxy(t, s.Addr())
	key := redistest.Key(t, "n")
	w := dial(t, p.Addr())
	w.send("SET " + key + " 0")
	w.expect("+OK\r\n")

	p.Blackhole(redistest.Replies)
	w.send("INCR " + key)
	awaitValue(t, s, key, "1")
	w.expectSilence()
	p.Deliver()
	w.expect(":1\r\n")

	seen := make(chan struct{}, 1)
	p.OnRequest(func([]string) { seen <- struct{}{} })
	p.Blackhole(redistest.Both)
	w.send("INCR " + key)
	await(t, seen)
	require.NoError(t, w.conn.Close()) // and still it arrives
	fresh := dial(t, p.Addr())
	fresh.send("GET " + key)
	await(t, seen)
	fresh.expectSilence()
	awaitValue(t, s, key, "1")
	p.Deliver()
	awaitValue(t, s, key, "2")
	skipReply(t, fresh)
	require.Eventually(t, func() bool { return p.Conns() == 1 }, opTimeout, pollEvery)
}

func TestProxy_BlackholeDiscards(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	p := redistest.Proxy(t, s.Addr())
	key := redistest.Key(t, "n")
	s.Do("SET", key, "0")
	seen := make(chan struct{}, 1)
	p.OnRequest(func([]string) { seen <- struct{}{} })
	w := dial(t, p.Addr())
	p.Blackhole(redistest.Both)
	w.send("INCR " + key)
	await(t, seen)
	p.Discard()
	w.expectEnd()
	fresh := dial(t, p.Addr())
	fresh.send("GET " + key)
	fresh.expect("$1\r\n0\r\n")
}

func TestProxy_Refuse(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	p := redistest.Proxy(t, s.Addr())
	w := dial(t, p.Addr())
	w.send("PING")
	w.expect("+PONG\r\n")
	for range 2 {
		p.Refuse(true)
		w.expectEnd()
		_, err := net.Dial("tcp", p.Addr())
		require.ErrorContains(t, err, "refused")
		p.Refuse(true)
		p.Refuse(false)
		p.Refuse(false)
		w = dial(t, p.Addr())
		w.send("PING")
		w.expect("+PONG\r\n")
	}
	p.Cut()
	w.expectEnd()
}

// TestProxy_RefusesFromSeveralGoroutines shows that the port is opened once, and not after the end of the proxy.
func TestProxy_RefusesFromSeveralGoroutines(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	var late *redistest.FaultProxy
	t.Run("until its end", func(t *testing.T) {
		p := redistest.Proxy(t, s.Addr())
		late = p
		for range 20 {
			p.Refuse(true)
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() { p.Refuse(false) })
			}
			all.Wait()
			w := dial(t, p.Addr())
			w.send("PING")
			w.expect("+PONG\r\n")
		}
		p.Refuse(true)
	})
	late.Refuse(false)
	_, err := net.Dial("tcp", late.Addr())
	require.ErrorContains(t, err, "refused")
}

func TestProxy_Delay(t *testing.T) {
	t.Parallel()
	const oneWay = 20 * time.Millisecond
	s := redistest.Shared(t)
	p := redistest.Proxy(t, s.Addr())
	key := redistest.Key(t, "n")
	w := dial(t, p.Addr())
	p.Delay(oneWay)
	start := time.Now()
	w.send("SET "+key+" 1", "INCR "+key, "GET "+key)
	w.expect("+OK\r\n:2\r\n$1\r\n2\r\n")
	require.GreaterOrEqual(t, time.Since(start), 2*oneWay)
	p.Delay(0)
	w.send("GET " + key)
	w.expect("$1\r\n2\r\n")
}

func TestProxy_ShowsRequests(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	p := redistest.Proxy(t, s.Addr())
	var got [][]string
	p.OnRequest(func(cmd []string) { got = append(got, cmd) })
	w := dial(t, p.Addr())
	w.send("PING", "ECHO hello", "GET "+redistest.Key(t, "none"))
	w.expect("+PONG\r\n$5\r\nhello\r\n$-1\r\n")
	require.Len(t, got, 3)
	require.Equal(t, []string{"ECHO", "hello"}, got[1])
	_, err := io.WriteString(w.conn, "PING inline\r\n\r\n")
	require.NoError(t, err)
	w.expect("$6\r\ninline\r\n")
}

func TestProxy_ServerGone(t *testing.T) {
	t.Parallel()
	s := redistest.Server(t)
	p := redistest.Proxy(t, s.Addr())
	w := dial(t, p.Addr())
	w.send("PING")
	w.expect("+PONG\r\n")
	s.Kill()
	w.expectEnd()
	if conn, err := net.Dial("tcp", p.Addr()); err == nil { // it may notice here or there
		_, err = conn.Read(make([]byte, 1))
		require.Error(t, err)
	}
	s.Restart()
	w = dial(t, p.Addr())
	w.send("PING")
	w.expect("+PONG\r\n")
}
