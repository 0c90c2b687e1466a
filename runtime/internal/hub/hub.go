// Package hub shares one subscription connection among all who wait.
//
// Listeners name a channel and are called for its messages. A message is a hint: it may
// be lost with the connection that carried it. So a listener is also called each time its
// channel was subscribed, the first time and after every reconnection, because whatever was
// said before then may have gone unheard.
//
// One goroutine owns the connection. It compares the channels that are wanted with those
// that are subscribed and sends the difference, however many changes have piled up, in one
// command. A channel that nobody listens to any more stays subscribed for a short while: under
// contention the next listener is not far.
package hub

import (
	"sync"
	"sync/atomic"
	"time"
)

// A Conn is a connection that can subscribe. Subscribe and Unsubscribe return when the
// server has confirmed. Close makes both return.
type Conn interface {
	Subscribe(channels []string) error
	Unsubscribe(channels []string) error
	Close()
}

// Dial opens a connection whose messages are given to message, which does not block. The
// channel that it returns is readable once the connection is broken.
type Dial func(message func(channel, payload string)) (conn Conn, broken <-chan error, err error)

// An Event is what a listener is told.
type Event struct {
	Payload    string
	Subscribed bool // the channel was subscribed just now; there is no payload
	Again      bool // with Subscribed: it took more than one connection, so the server may be another by now
}

// Config is what a hub needs to know.
type Config struct {
	Dial     Dial
	Linger   time.Duration   // how long a channel without listeners stays subscribed
	Backoff  []time.Duration // waits between tries to connect; the last one repeats
	OnError  func(err error) // told of each failure to connect or subscribe; may be nil
	OnBroken func(err error) // told when a connection breaks; may be nil
}

// A Hub is a set of listeners and the connection they share. Its methods may be called
// from any goroutine.
type Hub struct {
	cfg     Config
	poke    chan struct{} // one token: the wanted channels may have changed
	renew   chan struct{} // one token: the connection is to be replaced
	closers sync.WaitGroup
	closing chan struct{}
	done    chan struct{} // closed when the goroutine has ended

	mu       sync.Mutex
	channels map[string]*channel
	conn     Conn
	started  bool
	again    bool // a connection was lost, or could not be had
	closed   bool
}

type channel struct {
	listeners  map[*Listener]struct{}
	subscribed bool
	idle       time.Time // when the last listener left
}

// A Listener is called for what happens on its channel until it is closed.
type Listener struct {
	hub   *Hub
	name  string
	event func(Event)
	ready chan struct{}
	heard bool // guarded by hub.mu: ready is closed
}

// New returns a hub that connects when the first listener comes.
func New(cfg Config) *Hub {
	return &Hub{
		cfg:      cfg,
		poke:     make(chan struct{}, 1),
		renew:    make(chan struct{}, 1),
		closing:  make(chan struct{}),
		done:     make(chan struct{}),
		channels: map[string]*channel{},
	}
}

// Listen calls event for what happens on the channel named name, from a goroutine that
// must not be kept: event does not block and does not call the hub.
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
	}
	ch.listeners[l] = struct{}{}
	if ch.subscribed {
		l.heard = true
		close(l.ready)
		return l
	}
	if !h.started {
		h.started = true
		go h.loop()
	}
	h.wake()
	return l
}

// Ready returns a channel that is closed once messages are heard: what is published from
// then on reaches the listener, or the connection breaks.
func (l *Listener) Ready() <-chan struct{} { return l.ready }

// Live reports whether messages are heard now: Ready, and the connection not known to be broken.
func (l *Listener) Live() bool {
	return l.hub.Subscribed(l.name)
}

// Subscribed reports whether the channel named name is subscribed now, with or without a listener.
func (h *Hub) Subscribed(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	ch := h.channels[name]
	return ch != nil && ch.subscribed
}

// Close ends the listener. Its event function may still be running, but is not called again.
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
		h.wake()
	}
}

// Close ends the hub, its goroutine and its connection, and waits for them.
func (h *Hub) Close() {
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		close(h.closing)
		h.channels = map[string]*channel{}
		if !h.started {
			close(h.done)
		}
	}
	conn := h.conn
	h.mu.Unlock()
	if conn != nil {
		conn.Close() // a call under way returns
	}
	<-h.done
	h.closers.Wait()
}

// Reconnect replaces the connection, for a caller who knows that it leads to the wrong server. Listeners are told as
// they are after one that broke.
func (h *Hub) Reconnect() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	select {
	case h.renew <- struct{}{}:
	default:
	}
	if h.conn != nil {
		h.closers.Go(h.conn.Close) // a call under way returns
	}
}

func (h *Hub) wake() {
	select {
	case h.poke <- struct{}{}:
	default:
	}
}

// loop connects, keeps the subscriptions as wanted, and starts over when the connection
// breaks.
func (h *Hub) loop() {
	defer close(h.done)
	for failures := 0; ; {
		if !h.await() {
			return
		}
		select {
		case <-h.renew: // it will be a new one
		default:
		}
		var over atomic.Bool
		conn, broken, err := h.cfg.Dial(func(channel, payload string) {
			if !over.Load() {
				h.message(channel, payload)
			}
		})
		if err == nil {
			h.mu.Lock()
			h.conn = conn
			h.mu.Unlock()
			if h.serve(conn, broken) {
				failures = 0
			}
			over.Store(true)
			h.mu.Lock()
			h.conn, h.again = nil, true
			for _, ch := range h.channels {
				ch.subscribed = false
			}
			h.mu.Unlock()
			h.closers.Go(conn.Close) // which may wait for a server that does not answer
		} else {
			h.mu.Lock()
			h.again = true
			h.mu.Unlock()
			if h.cfg.OnError != nil {
				h.cfg.OnError(err)
			}
		}
		if failures > 0 && !h.pause(h.cfg.Backoff[min(failures, len(h.cfg.Backoff))-1]) {
			return
		}
		failures++
		select {
		case <-h.closing:
			return
		default:
		}
	}
}

// await blocks until some channel is wanted and reports false when the hub is closed.
func (h *Hub) await() bool {
	for {
		h.mu.Lock()
		wanted := false
		for name, ch := range h.channels {
			if len(ch.listeners) > 0 {
				wanted = true
			} else {
				delete(h.channels, name) // not subscribed, not wanted
			}
		}
		h.mu.Unlock()
		if wanted {
			return true
		}
		select {
		case <-h.closing:
			return false
		case <-h.poke:
		}
	}
}

func (h *Hub) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-h.closing:
		return false
	case <-h.renew:
		return true
	case <-timer.C:
		return true
	}
}

// serve keeps the subscriptions of one connection as wanted until it breaks or the hub is
// closed. It reports whether anything could be subscribed.
func (h *Hub) serve(conn Conn, broken <-chan error) (worked bool) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		add, drop, recheck := h.difference()
		if len(add) > 0 {
			if err := conn.Subscribe(add); err != nil {
				h.failed(err)
				return worked
			}
			worked = true
			h.subscribed(add)
		}
		if len(drop) > 0 {
			if err := conn.Unsubscribe(drop); err != nil {
				h.failed(err)
				return worked
			}
		}
		timer.Reset(recheck)
		select {
		case <-h.closing:
			return worked
		case err := <-broken:
			if h.cfg.OnBroken != nil {
				h.cfg.OnBroken(err)
			}
			return worked
		case <-h.renew:
			return true
		case <-h.poke:
		case <-timer.C:
		}
	}
}

func (h *Hub) failed(err error) {
	select {
	case <-h.closing: // the failure is our own doing
	default:
		if h.cfg.OnError != nil {
			h.cfg.OnError(err)
		}
	}
}

// difference returns what to subscribe and unsubscribe, and when to look again.
func (h *Hub) difference() (add, drop []string, recheck time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	recheck = time.Hour
	for name, ch := range h.channels {
		switch {
		case len(ch.listeners) > 0:
			if !ch.subscribed {
				add = append(add, name)
			}
		case !ch.subscribed:
			delete(h.channels, name)
		default:
			left := h.cfg.Linger - time.Since(ch.idle)
			if left > 0 {
				recheck = min(recheck, left)
				continue
			}
			// From here on a new listener subscribes anew; the commands are sent in order.
			delete(h.channels, name)
			drop = append(drop, name)
		}
	}
	return add, drop, recheck
}

// subscribed records that the server confirmed and tells the listeners.
func (h *Hub) subscribed(names []string) {
	var told []*Listener
	h.mu.Lock()
	for _, name := range names {
		ch := h.channels[name]
		if ch == nil {
			continue
		}
		ch.subscribed = true
		for l := range ch.listeners {
			if !l.heard {
				l.heard = true
				close(l.ready)
			}
			told = append(told, l)
		}
	}
	again := h.again
	h.mu.Unlock()
	for _, l := range told {
		l.event(Event{Subscribed: true, Again: again})
	}
}

// message is what the connection calls for each message.
func (h *Hub) message(name, payload string) {
	h.mu.Lock()
	ch := h.channels[name]
	var told []*Listener
	if ch != nil {
		told = make([]*Listener, 0, len(ch.listeners))
		for l := range ch.listeners {
			told = append(told, l)
		}
	}
	h.mu.Unlock()
	for _, l := range told {
		l.event(Event{Payload: payload})
	}
}
