// Package hub shares subscription connections among all waiters: one, or one for each server of several.
//
// Listeners name a channel and are called for its messages. A message is a hint: it may be lost with the connection
// that carried it. So a listener is also called each time its channel was subscribed, the first time and after every
// reconnection, because earlier messages may be lost.
//
// Which server has a channel may change: then the channel is subscribed there.
//
// One goroutine owns a connection. It compares the channels that are wanted with those that are subscribed and sends
// the difference, however many changes have piled up, in one command. A channel without listeners stays subscribed for
// a short while: under contention the next listener comes soon.
package hub

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/trace"
)

// A Conn is a connection that can subscribe. Subscribe and Unsubscribe return when the server has confirmed. Subscribe
// returns the channels that this server does not have, together with those that it refuses. If it refuses all that it returns, the error is
// [ErrRefused]. Close makes both return.
type Conn interface {
	Subscribe(channels []string) (elsewhere []string, err error)
	Unsubscribe(channels []string) error
	Close()
}

// Dial opens the connection of a lane, which passes its messages to sink. The returned channel is readable once the
// connection is broken.
type Dial func(lane string, sink Sink) (conn Conn, broken <-chan error, err error)

// A Sink gets the messages of a connection. It does not block.
type Sink interface {
	// Message is called for each message.
	Message(channel, payload string)
	// Dropped is called when the server has ended a subscription: by itself, since it does not have the channel any more,
	// or before Unsubscribe returns, which has asked it to.
	Dropped(channel string)
}

// ErrRefused is the error of a [Conn] whose server refuses to subscribe some of the channels over a connection that is well, which the Conn
// returns, or all, if it returns none. The hub tries again over the same connection, and does not ask which server has them.
var ErrRefused = errors.New("refused")

// An Event is an event of a listener.
type Event struct {
	Payload    string
	Subscribed bool // the channel was subscribed just now; there is no payload
	Again      bool // with Subscribed: it took more than one try, so the server may be another one by now
}

// Config configures a hub.
type Config struct {
	Dial     Dial
	Linger   time.Duration   // how long a channel without listeners stays subscribed
	Backoff  []time.Duration // waits between tries to connect; the last one repeats
	OnError  func(err error) // called at the first failure to connect or subscribe after it worked; may be nil
	OnWorks  func()          // called when it works again, after OnError; may be nil
	OnBroken func(err error) // called when a connection breaks, but for those that do not last once the pauses are the longest; may be nil

	// Resting returns for how long at most the client needs no messages on its only channel; 0 if it needs them. A lane then connects
	// anew after a random part of that time, or when a listener comes or calls Hurry. Nil if it always needs them. It does not block.
	Resting func(channel string) time.Duration

	// Lane names the server that has a channel, as far as is known, without blocking. Nil if there is one server.
	Lane func(channel string) string
	// Moved finds out anew which server has which channel. It may block. It is called when a server does not have a
	// channel that it was thought to have, or is not there.
	Moved func()
}

// A Hub is a set of listeners and the connections they share. Its methods may be called
// from any goroutine.
type Hub struct {
	cfg     Config
	closing chan struct{}
	loops   sync.WaitGroup // of the lanes
	closers sync.WaitGroup // of connections, which may wait for a server that does not answer

	mu       sync.Mutex
	channels map[string]*channel
	lanes    map[string]*lane
	closed   bool
}

type channel struct {
	lane      *lane
	listeners map[*Listener]struct{}
	state     atomic.Int32 // a state; changed with Hub.mu
	early     []string     // messages that came while the state was one in which they wait
	again     bool         // it was subscribed before, or a try to do so failed
	partly    bool         // it is off, and the server may have it subscribed in one of two ways, over the present connection
	idle      time.Time    // when the last listener left
	missed    bool         // a message came since then
	messages  uint64       // how many came
}

// A state is how far the subscription of a channel has come. docs/architecture.md has the transitions.
type state int32

const (
	off     state = iota // it is not subscribed
	asked                // the server is asked to subscribe it; messages wait
	ended                // likewise, and the server has ended it already; messages wait
	telling              // it is subscribed, and the hub notifies the listeners; messages wait
	live                 // it is subscribed
)

var states = [...]string{"off", "asked", "ended", "telling", "live"}

// String returns the name of the state in docs/architecture.md.
func (s state) String() string { return states[s] }

// now returns the state. It takes no lock.
func (ch *channel) now() state { return state(ch.state.Load()) }

// to moves the channel to a state. The caller holds Hub.mu.
func (ch *channel) to(next state) {
	if from := ch.now(); from != next {
		trace.Moves("channel", from, next)
		ch.state.Store(int32(next))
	}
}

// subscribed reports whether the channel is subscribed, as far as is known. It takes no lock.
func (ch *channel) subscribed() bool { return ch.now() >= telling }

// A Listener is called for the events of its channel until it is closed.
type Listener struct {
	hub   *Hub
	name  string
	ch    *channel // nil if the hub was closed before
	event func(Event)
	ready chan struct{} // closed with hub.mu held

	missed bool
}

// New returns a hub that connects when the first listener comes.
func New(cfg Config) *Hub {
	return &Hub{
		cfg:      cfg,
		closing:  make(chan struct{}),
		channels: map[string]*channel{},
		lanes:    map[string]*lane{},
	}
}

// Listen calls event for each message on the channel named name, from a goroutine that event must
// not delay: event does not block and does not call the hub. The messages of a new subscription
// come after the event that it exists.
func (h *Hub) Listen(name string, event func(Event)) *Listener {
	l := &Listener{hub: h, name: name, event: event, ready: make(chan struct{})}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return l
	}
	ch := h.channels[name]
	if ch == nil {
		ch = &channel{listeners: map[*Listener]struct{}{}}
		h.channels[name] = ch
		h.assign(name, ch)
	}
	l.ch = ch
	l.missed = ch.missed && ch.subscribed()
	ch.missed = false
	ch.listeners[l] = struct{}{}
	if ch.subscribed() {
		close(l.ready)
	} else {
		ch.lane.wake()
	}
	return l
}

// assign makes the lane carry a channel that has it. The caller holds h.mu.
func (h *Hub) assign(name string, ch *channel) {
	to := ""
	if h.cfg.Lane != nil {
		to = h.cfg.Lane(name)
	}
	l := h.lanes[to]
	if l == nil {
		l = &lane{h: h, name: to, poke: make(chan struct{}, 1), replace: make(chan struct{}, 1), channels: map[string]*channel{}}
		h.lanes[to] = l
		h.loops.Go(l.loop)
	}
	if from := ch.lane; from == l {
		return
	} else if from != nil {
		delete(from.channels, name)
		if ch.now() != off || ch.partly { // or it is about to be subscribed there
			from.leaving = append(from.leaving, name)
			from.wake()
		}
		ch.partly = false
		if ch.subscribed() {
			ch.to(off)
		}
		ch.again = true
	}
	ch.lane = l
	l.channels[name] = ch
	l.wake()
}

// Ready returns a channel that is closed once the subscription is active: a message that is
// published from then on reaches the listener, or the connection breaks.
func (l *Listener) Ready() <-chan struct{} { return l.ready }

// Live reports whether the subscription is active: Ready, and the connection not known to be
// broken. It takes no lock.
func (l *Listener) Live() bool { return l.ch != nil && l.ch.subscribed() }

// Hurry makes the hub connect at once if it has put that off, as [Config] says: from now on the messages are needed.
func (l *Listener) Hurry() {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	if l.ch != nil {
		l.ch.lane.wake()
	}
}

// Missed reports whether a message came shortly before the listener, while the channel was subscribed and nobody listened.
func (l *Listener) Missed() bool { return l.missed }

// Subscribed reports whether the channel named name is subscribed now, with or without a listener.
func (h *Hub) Subscribed(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	ch := h.channels[name]
	return ch != nil && ch.subscribed()
}

// Heard returns whether the channel named name is subscribed now, and how many messages have come since it was subscribed,
// with or without a listener. Reconnections do not count.
func (h *Hub) Heard(name string) (messages uint64, subscribed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ch := h.channels[name]; ch != nil {
		return ch.messages, ch.subscribed()
	}
	return 0, false
}

// Close ends the listener. Its event function may still be running, or be called once more for an event that came before.
func (l *Listener) Close() {
	h := l.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	ch := h.channels[l.name]
	if ch == nil {
		return
	}
	if _, ok := ch.listeners[l]; !ok {
		return
	}
	delete(ch.listeners, l)
	if len(ch.listeners) == 0 {
		ch.idle = time.Now()
		ch.lane.wake()
	}
}

// Close ends the hub, its goroutines and its connections, and waits for them.
func (h *Hub) Close() {
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		close(h.closing)
		for _, ch := range h.channels {
			ch.to(off)
		}
		h.channels = map[string]*channel{}
	}
	var conns []Conn
	for _, l := range h.lanes {
		clear(l.channels)
		if l.conn != nil {
			conns = append(conns, l.conn)
		}
	}
	h.mu.Unlock()
	for _, conn := range conns {
		conn.Close() // a call under way returns
	}
	h.loops.Wait()
	h.closers.Wait()
}

// Reconnect replaces the connections, for a caller that knows that they lead to the wrong server. It calls listeners as
// after a broken connection.
func (h *Hub) Reconnect() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	for _, l := range h.lanes {
		select {
		case l.replace <- struct{}{}:
		default:
		}
		if l.conn != nil {
			h.closers.Go(l.conn.Close) // a call under way returns
		}
	}
}

// Reassign gives every channel to the lane that has it now, for a caller that knows that some have moved.
func (h *Hub) Reassign() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.assignAll(h.channels)
}

// assignAll makes the lanes carry some channels that have them, unless the hub is closed. The caller holds h.mu.
func (h *Hub) assignAll(channels map[string]*channel) {
	if h.closed {
		return
	}
	for name, ch := range channels {
		h.assign(name, ch)
	}
}

// backoff returns how long to wait after so many failures.
func (h *Hub) backoff(failures int) time.Duration {
	return h.cfg.Backoff[min(failures, len(h.cfg.Backoff))-1]
}
