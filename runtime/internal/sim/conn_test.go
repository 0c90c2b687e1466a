package sim

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	mini "github.com/alicebob/miniredis/v2/server"
)

// A link joins a process to a server. It has faults, which its connections share.
type link struct {
	w    *world
	p    *process
	to   *server
	made int // connections so far

	// Guarded by w.mu.
	conns   []*conn
	held    [2]bool // the link keeps the data of a direction, and delivers them when it goes on
	refuses bool    // new connections are refused
	slow    time.Duration
}

// A direction of a link.
const (
	up   = 0 // to the server
	down = 1 // to the client
)

// A conn is a connection of a process to a server.
type conn struct {
	l    *link
	id   int
	addr addr // of the server
	peer *mini.Peer
	out  bytes.Buffer  // of the peer
	rng  [2]*rand.Rand // of each direction; guarded by w.mu

	// Guarded by w.mu.
	last   [2]time.Time // of what was sent in a direction, when it arrives
	ways   [2][]func()  // the deliveries under way in a direction, in the order of their sending
	kept   [2]int       // the number of these that are held up
	broken bool         // the server has no such connection any more
	mute   [2]bool

	tracking bool
	asking   bool   // the next command is for a slot that the server is about to get
	asked    []byte // the written bytes, up to the end of the last command

	in incoming
}

// incoming is what a client can read.
type incoming struct {
	mu    sync.Mutex
	cond  *sync.Cond
	buf   []byte
	err   error
	until time.Time
	alarm *time.Timer
}

func (in *incoming) add(b []byte) {
	in.mu.Lock()
	in.buf = append(in.buf, b...)
	in.mu.Unlock()
	in.cond.Broadcast()
}

func (in *incoming) end(err error) {
	in.mu.Lock()
	if in.err == nil {
		in.err = err
	}
	in.mu.Unlock()
	in.cond.Broadcast()
}

func (in *incoming) read(p []byte) (int, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.buf) == 0 {
		if in.err != nil {
			return 0, in.err
		}
		if !in.until.IsZero() && !time.Now().Before(in.until) {
			return 0, os.ErrDeadlineExceeded
		}
		in.cond.Wait()
	}
	n := copy(p, in.buf)
	in.buf = in.buf[n:]
	return n, nil
}

// dial makes a connection to an address, which takes a round trip.
func (l *link) dial(ctx context.Context, to string) (net.Conn, error) {
	w := l.w
	w.mu.Lock()
	l.made++
	c := &conn{l: l, id: l.made, addr: addr(to), rng: [2]*rand.Rand{
		w.random("up", l.p.id, l.to.id, l.made), w.random("down", l.p.id, l.to.id, l.made)}}
	c.in.cond = sync.NewCond(&c.in.mu)
	trip := w.latency(c, up) + w.latency(c, down)
	w.mu.Unlock()
	select {
	case <-time.After(trip):
	case <-ctx.Done():
		return nil, dialError(ctx.Err())
	}
	for {
		w.mu.Lock()
		heals := w.changed
		switch {
		case l.refuses || l.to.down || l.p.dead || l.to.addr() != to:
			w.mu.Unlock()
			return nil, dialError(errRefused)
		case !l.held[up] && !l.held[down]:
			c.peer = mini.NewPeer(bufio.NewWriter(&c.out))
			l.conns = append(l.conns, c)
			w.mu.Unlock()
			return c, nil
		}
		w.mu.Unlock()
		select {
		case <-heals:
		case <-ctx.Done():
			return nil, dialError(os.ErrDeadlineExceeded)
		}
	}
}

var (
	errRefused = fmt.Errorf("connection refused")
	errReset   = fmt.Errorf("connection reset by peer")
)

func dialError(err error) error { return &net.OpError{Op: "dial", Net: "sim", Err: err} }

// pass has act done when the data arrives that is sent in a direction. The caller holds w.mu.
func (c *conn) pass(dir int, act func()) {
	if c.mute[dir] {
		return
	}
	c.ways[dir] = append(c.ways[dir], act)
	c.travel(dir)
}

// travel has one delivery in a direction arrive, after all earlier ones. The caller holds w.mu.
func (c *conn) travel(dir int) {
	w := c.l.w
	at := time.Now().Add(w.latency(c, dir))
	if !at.After(c.last[dir]) {
		at = c.last[dir].Add(time.Nanosecond)
	}
	c.last[dir] = at
	w.net.at(at, func() { c.arrive(dir) })
}

// arrive makes the oldest delivery of a direction, unless the link holds the data up. So the server reads in the order of sending, whichever
// delivery was under way when the link began to hold data up.
func (c *conn) arrive(dir int) {
	w := c.l.w
	w.mu.Lock()
	if c.l.held[dir] {
		c.kept[dir]++
		w.mu.Unlock()
		return
	}
	act := c.ways[dir][0]
	c.ways[dir] = c.ways[dir][1:]
	if c.mute[dir] {
		act = func() {}
	}
	w.mu.Unlock()
	act()
}

// release sends on what was held up in a direction. The caller holds w.mu.
func (l *link) release(dir int) {
	l.held[dir] = false
	for _, c := range l.conns {
		for range c.kept[dir] {
			c.travel(dir)
		}
		c.kept[dir] = 0
	}
}

// Write takes whole commands out of what is written, and sends each.
func (c *conn) Write(p []byte) (int, error) {
	w := c.l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	c.in.mu.Lock()
	err := c.in.err
	c.in.mu.Unlock()
	if err != nil {
		return 0, err
	}
	c.asked = append(c.asked, p...)
	for {
		args, n := parse(c.asked)
		if n == 0 {
			return len(p), nil
		}
		c.asked = c.asked[n:]
		w.count("commands", 1)
		if w.harms(c, args) {
			return len(p), nil
		}
		c.pass(up, func() { c.l.to.receive(c, args) })
	}
}

// parse returns the first command of what a client wrote and how long it is, or 0 if it is not complete.
func parse(b []byte) (args []string, n int) {
	line := func() (int, bool) {
		end := bytes.IndexByte(b[n:], '\n')
		if end < 1 {
			return 0, false
		}
		v, err := strconv.Atoi(string(b[n+1 : n+end-1]))
		if err != nil {
			panic(fmt.Sprintf("not a command: %q", b[n:]))
		}
		n += end + 1
		return v, true
	}
	count, ok := line()
	if !ok {
		return nil, 0
	}
	args = make([]string, count)
	for i := range args {
		size, ok := line()
		if !ok || len(b) < n+size+2 {
			return nil, 0
		}
		args[i] = string(b[n : n+size])
		n += size + 2
	}
	return args, n
}

// answer sends to the client.
func (c *conn) answer(b []byte) {
	c.l.w.mu.Lock()
	defer c.l.w.mu.Unlock()
	c.pass(down, func() { c.in.add(b) })
}

// cut breaks the connection on both sides; the client hears of it unless it is cut off. The caller holds w.mu.
func (c *conn) cut() {
	if c.broken {
		return
	}
	c.broken = true
	c.l.to.forget(c)
	c.l.drop(c)
	c.in.end(errReset)
}

func (l *link) drop(c *conn) {
	for i, x := range l.conns {
		if x == c {
			l.conns = append(l.conns[:i:i], l.conns[i+1:]...)
			return
		}
	}
}

// Close is the client's. The server hears of it in due time.
func (c *conn) Close() error {
	w := c.l.w
	c.in.end(net.ErrClosed)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !c.broken {
		c.pass(up, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			c.broken = true
			c.l.to.forget(c)
			c.l.drop(c)
		})
	}
	return nil
}

func (c *conn) Read(p []byte) (int, error) { return c.in.read(p) }

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.mu.Lock()
	c.in.until = t
	if c.in.alarm != nil {
		c.in.alarm.Stop()
		c.in.alarm = nil
	}
	if !t.IsZero() {
		c.in.alarm = time.AfterFunc(time.Until(t), c.in.cond.Broadcast)
	}
	c.in.mu.Unlock()
	c.in.cond.Broadcast()
	return nil
}

func (c *conn) SetDeadline(t time.Time) error  { return c.SetReadDeadline(t) }
func (*conn) SetWriteDeadline(time.Time) error { return nil }
func (*conn) LocalAddr() net.Addr              { return addr("client") }
func (c *conn) RemoteAddr() net.Addr           { return c.addr }

type addr string

func (addr) Network() string  { return "sim" }
func (a addr) String() string { return string(a) }

var _ io.Writer = (*conn)(nil)
