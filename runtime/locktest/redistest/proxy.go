package redistest

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Mode is the fate of a connection that lost a message.
type Mode int

const (
	// Close ends the connection in place of the message.
	Close Mode = iota
	// Mute leaves the connection open, without any further messages to the client. After a lost
	// reply, requests still reach the server; after a lost request, none.
	Mute
)

// A Direction says which way messages go.
type Direction int

// The two directions, and both.
const (
	Requests Direction = 1 << iota
	Replies
	Both = Requests | Replies
)

// A FaultProxy stands between clients and one server. It passes on everything, in
// order, until the test says otherwise. It knows which reply belongs to which request,
// pipelined or not, in both versions of the protocol; what a server pushes belongs
// to none. CLIENT REPLY and MONITOR are the commands that it does not understand.
//
// All methods may be called from any goroutine.
type FaultProxy struct {
	tb     testing.TB
	target string
	port   port // chosen once, before the proxy is shared
	pumps  sync.WaitGroup

	refusing  sync.Mutex // orders the calls of Refuse and close
	mu        sync.Mutex
	listener  net.Listener // nil while connections are refused
	closed    bool
	links     map[*link]struct{}
	held      Direction
	delay     time.Duration
	drops     []*Drop
	observers []func(cmd []string)
	changed   chan struct{} // closed and replaced when held or delay changes
}

// Proxy starts a proxy in front of the server at addr. It ends with the test.
func Proxy(tb testing.TB, addr string) *FaultProxy {
	tb.Helper()
	p := &FaultProxy{tb: tb, target: addr, links: make(map[*link]struct{}), changed: make(chan struct{})}
	if err := p.listen(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.close)
	return p
}

// Addr returns the host and port at which the proxy listens.
func (p *FaultProxy) Addr() string { return address(p.port.number) }

// URL returns the address in the form redis://host:port.
func (p *FaultProxy) URL() string { return "redis://" + p.Addr() }

// Command matches requests by the name of the command, in upper or lower case.
func Command(names ...string) func(cmd []string) bool {
	return func(cmd []string) bool {
		for _, name := range names {
			if strings.EqualFold(cmd[0], name) {
				return true
			}
		}
		return false
	}
}

// EvalSHA matches the requests to run one of the scripts with the given SHA-1.
func EvalSHA(shas ...string) func(cmd []string) bool {
	return func(cmd []string) bool {
		return len(cmd) > 1 && strings.EqualFold(cmd[0], "EVALSHA") && slices.Contains(shas, cmd[1])
	}
}

// A Drop is a standing order to lose messages.
type Drop struct {
	match func(cmd []string) bool
	mode  Mode
	reply bool
	done  chan struct{}

	mu   sync.Mutex
	left int // how many are still to be chosen; negative: no limit
	lost int // how many are lost so far
	want int
}

// DropReply lets the server act on the next n requests that match, and loses its
// replies. With n <= 0 that goes on for ever; a nil match matches every request. A
// connection loses one message by order; what is lost after it is not counted.
func (p *FaultProxy) DropReply(match func(cmd []string) bool, n int, mode Mode) *Drop {
	return p.drop(match, n, mode, true)
}

// DropRequest loses the next n requests that match before they reach the server.
// Otherwise it is like DropReply.
func (p *FaultProxy) DropRequest(match func(cmd []string) bool, n int, mode Mode) *Drop {
	return p.drop(match, n, mode, false)
}

func (p *FaultProxy) drop(match func(cmd []string) bool, n int, mode Mode, reply bool) *Drop {
	d := &Drop{match: match, mode: mode, reply: reply, done: make(chan struct{}), left: n, want: n}
	if n <= 0 {
		d.left = -1
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drops = append(p.drops, d)
	return d
}

// Done is closed when all n messages are lost.
func (d *Drop) Done() <-chan struct{} { return d.done }

// Lost returns how many messages are lost so far.
func (d *Drop) Lost() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lost
}

// Stop ends the order. Messages of requests that were chosen before are still lost.
func (d *Drop) Stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left = 0
}

// choose reports whether this request is one of those to suffer.
func (d *Drop) choose(cmd []string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left == 0 || d.match != nil && !d.match(cmd) {
		return false
	}
	if d.left > 0 {
		d.left--
	}
	return true
}

func (d *Drop) count() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lost++; d.lost == d.want {
		close(d.done)
	}
}

// OnRequest calls fn with every request, before it is passed on or lost. Requests of
// one connection come in order; those of several may come at once.
func (p *FaultProxy) OnRequest(fn func(cmd []string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.observers = append(p.observers, fn)
}

// Blackhole holds everything that goes one way, or both. Connections stay open and new ones are
// accepted. Deliver delivers the held data late; Discard drops them.
func (p *FaultProxy) Blackhole(d Direction) {
	p.change(func() { p.held |= d })
}

// Deliver ends Blackhole. All that was held is passed on, in order, even where the
// sender is gone by now.
func (p *FaultProxy) Deliver() {
	p.change(func() { p.held = 0 })
}

// Discard ends Blackhole. It drops the held data, and cuts the connections that exist.
func (p *FaultProxy) Discard() {
	p.Cut()
	p.change(func() { p.held = 0 })
}

// Delay makes every message take d longer, each way. It keeps the order of messages and affects
// only those that come after the call.
func (p *FaultProxy) Delay(d time.Duration) {
	p.change(func() { p.delay = d })
}

// Cut resets all connections. New ones are accepted.
func (p *FaultProxy) Cut() {
	p.mu.Lock()
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	p.mu.Unlock()
	for _, l := range links {
		l.reset()
	}
}

// Refuse resets all connections and refuses new ones, until it is called with false.
func (p *FaultProxy) Refuse(on bool) {
	p.tb.Helper()
	p.refusing.Lock()
	defer p.refusing.Unlock()
	p.mu.Lock()
	listener, closed := p.listener, p.closed
	if on {
		p.listener = nil
	}
	p.mu.Unlock()
	switch {
	case on && listener != nil:
		_ = listener.Close()
		p.Cut()
	case !on && listener == nil && !closed: // else another one may have the port
		if err := p.listen(); err != nil {
			p.tb.Error(err)
		}
	}
}

// Conns returns how many connections are open.
func (p *FaultProxy) Conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

func (p *FaultProxy) change(set func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	set()
	close(p.changed)
	p.changed = make(chan struct{})
}

// rules returns what holds now, and a channel that is closed when it changes.
func (p *FaultProxy) rules() (held Direction, delay time.Duration, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held, p.delay, p.changed
}

func (p *FaultProxy) observe(cmd []string) {
	p.mu.Lock()
	observers := p.observers
	p.mu.Unlock()
	for _, fn := range observers {
		fn(cmd)
	}
}

// choose returns the first order that the request falls under.
func (p *FaultProxy) choose(cmd []string) *Drop {
	p.mu.Lock()
	drops := p.drops
	p.mu.Unlock()
	for _, d := range drops {
		if d.choose(cmd) {
			return d
		}
	}
	return nil
}

// listen opens the port, a new one the first time.
func (p *FaultProxy) listen() error {
	at := p.port
	var listener net.Listener
	err := await("a port", func() bool {
		if p.port.number == 0 {
			at.release()
			var err error
			if at, err = reserve(); err != nil {
				return false
			}
		}
		var err error
		listener, err = net.Listen("tcp", address(at.number))
		return err == nil
	})
	if err != nil {
		return fmt.Errorf("redistest: proxy of %s at %s: %w", p.target, address(at.number), err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.port.number == 0 {
		p.port = at
	}
	p.listener = listener
	p.pumps.Go(func() { p.accept(listener) })
	return nil
}

func (p *FaultProxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		p.pumps.Go(func() { p.connect(listener, client.(*net.TCPConn)) })
	}
}

// connect serves one client until its connection ends.
func (p *FaultProxy) connect(listener net.Listener, client *net.TCPConn) {
	server, err := net.DialTimeout("tcp", p.target, opTimeout)
	if err != nil {
		_ = client.SetLinger(0)
		_ = client.Close()
		return
	}
	l := newLink(p, client, server.(*net.TCPConn))
	p.mu.Lock()
	refused := p.closed || p.listener != listener // while it was connecting
	if !refused {
		p.links[l] = struct{}{}
	}
	p.mu.Unlock()
	if refused {
		l.reset()
		return
	}
	l.run()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

func (p *FaultProxy) close() {
	p.refusing.Lock()
	p.mu.Lock()
	p.closed = true
	listener := p.listener
	p.mu.Unlock()
	p.refusing.Unlock() // an observer may call Refuse
	if listener != nil {
		_ = listener.Close()
	}
	p.Cut()
	p.pumps.Wait()
	p.port.release()
}
