// Package hub shares subscription connections among all who wait: one, or one for each server of several.
//
// Listeners name a channel and are called for its messages. A message is a hint: it may
// be lost with the connection that carried it. So a listener is also called each time its
// channel was subscribed, the first time and after every reconnection, because whatever was
// said before then may have gone unheard.
//
// Which server has a channel may change: then the channel is subscribed there.
//
// One goroutine owns a connection. It compares the channels that are wanted with those
// that are subscribed and sends the difference, however many changes have piled up, in one
// command. A channel that nobody listens to any more stays subscribed for a short while: under
// contention the next listener is not far.
package hub

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Conn is a connection that can subscribe. Subscribe and Unsubscribe return when the
// server has confirmed. Subscribe returns those channels that this server does not have. Close makes both return.
type Conn interface {
	Subscribe(channels []string) (elsewhere []string, err error)
	Unsubscribe(channels []string) error
	Close()
}

// Dial opens the connection of a lane, which tells what it hears to sink. The channel that it returns is readable
// once the connection is broken.
type Dial func(lane string, sink Sink) (conn Conn, broken <-chan error, err error)

// A Sink gets what a connection hears. It does not block.
type Sink interface {
	// Message is called for each message.
	Message(channel, payload string)
	// Dropped is called when the server has ended a subscription by itself, since it does not have the
	// channel any more.
	Dropped(channel string)
}

// An Event is what a listener gets.
type Event struct {
	Payload    string
	Subscribed bool // the channel was subscribed just now; there is no payload
	Again      bool // with Subscribed: it took more than one try, so the server may be another by now
}

// Config is what a hub needs to know.
type Config struct {
	Dial     Dial
	Linger   time.Duration   // how long a channel without listeners stays subscribed
	Backoff  []time.Duration // waits between tries to connect; the last one repeats
	OnError  func(err error) // called at the first failure to connect or subscribe after it worked; may be nil
	OnWorks  func()          // called when it works again, after OnError; may be nil
	OnBroken func(err error) // called when a connection breaks; may be nil

	// Lane names the server that has a channel, as far as is known, and blocks nobody. Nil if there is one server.
	Lane func(channel string) string
	// Moved finds out anew which server has what. It may block, and is called when a server does not have
	// a channel that it was thought to have, or is not there.
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

// A lane is a connection and the channels that it is to carry.
type lane struct {
	h     *Hub
	name  string
	poke  chan struct{} // one token: the wanted channels may have changed
	renew chan struct{} // one token: the connection is to be replaced

	// Guarded by Hub.mu.
	channels map[string]*channel
	leaving  []string // channels that another lane carries now
	moved    bool     // some channels may be another lane's
	conn     Conn
	failing  bool // OnError was called, as subscribing fails; known to loop alone
}

type channel struct {
	lane       *lane
	listeners  map[*Listener]struct{}
	subscribed bool
	dropped    bool      // by the server, perhaps before it was noted as subscribed
	telling    bool      // the listeners are still to learn that it is subscribed
	early      []string  // what was said meanwhile, for later
	again      bool      // it was subscribed before, or that was tried in vain
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
		closing:  make(chan struct{}),
		channels: map[string]*channel{},
		lanes:    map[string]*lane{},
	}
}

// Listen calls event for what happens on the channel named name, from a goroutine that
// must not be kept: event does not block and does not call the hub. What is said on a channel that was
// subscribed just now comes after the event that it was.
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
	ch.listeners[l] = struct{}{}
	if ch.subscribed {
		l.heard = true
		close(l.ready)
		return l
	}
	ch.lane.wake()
	return l
}

// assign has the lane carry a channel that has it. The caller holds h.mu.
func (h *Hub) assign(name string, ch *channel) {
	to := ""
	if h.cfg.Lane != nil {
		to = h.cfg.Lane(name)
	}
	l := h.lanes[to]
	if l == nil {
		l = &lane{h: h, name: to, poke: make(chan struct{}, 1), renew: make(chan struct{}, 1), channels: map[string]*channel{}}
		h.lanes[to] = l
		h.loops.Go(l.loop)
	}
	if from := ch.lane; from == l {
		return
	} else if from != nil {
		delete(from.channels, name)
		if ch.subscribed {
			from.leaving = append(from.leaving, name)
			from.wake()
		}
		ch.subscribed, ch.again = false, true
	}
	ch.lane = l
	l.channels[name] = ch
	l.wake()
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
		ch.lane.wake()
	}
}

// Close ends the hub, its goroutines and its connections, and waits for them.
func (h *Hub) Close() {
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		close(h.closing)
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

// Reconnect replaces the connections, for a caller who knows that they lead to the wrong server. Listeners are called as
// they are after one that broke.
func (h *Hub) Reconnect() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	for _, l := range h.lanes {
		select {
		case l.renew <- struct{}{}:
		default:
		}
		if l.conn != nil {
			h.closers.Go(l.conn.Close) // a call under way returns
		}
	}
}

// Reassign gives every channel to the lane that has it now, for a caller who knows that some have moved.
func (h *Hub) Reassign() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	for name, ch := range h.channels {
		h.assign(name, ch)
	}
}

func (l *lane) wake() {
	select {
	case l.poke <- struct{}{}:
	default:
	}
}

// loop connects, keeps the subscriptions as wanted, and starts over when the connection
// breaks.
func (l *lane) loop() {
	h := l.h
	for failures := 0; ; {
		if !l.await() {
			return
		}
		select {
		case <-l.renew: // it will be a new one
		default:
		}
		heard := &sink{lane: l}
		conn, broken, err := h.cfg.Dial(l.name, heard)
		if err == nil {
			h.mu.Lock()
			l.conn = conn
			h.mu.Unlock()
			if l.serve(conn, broken) {
				failures = 0
			}
			heard.over.Store(true)
			h.mu.Lock()
			l.conn = nil
			h.mu.Unlock()
			h.closers.Go(conn.Close)
		} else {
			l.failed(err)
		}
		h.mu.Lock()
		l.leaving = nil
		for _, ch := range l.channels {
			ch.subscribed, ch.again = false, true
			ch.telling, ch.early = false, nil
		}
		h.mu.Unlock()
		if failures > 0 && !l.pause(h.cfg.Backoff[min(failures, len(h.cfg.Backoff))-1]) {
			return
		}
		failures++
		select {
		case <-h.closing:
			return
		default:
		}
		l.reassign()
	}
}

// reassign gives the channels of a lane to those that have them.
func (l *lane) reassign() {
	h := l.h
	if h.cfg.Moved == nil {
		return
	}
	h.mu.Lock()
	wanted := len(l.channels) > 0
	l.moved = false // from here on it is known anew
	h.mu.Unlock()
	if !wanted {
		return
	}
	h.cfg.Moved()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	for name, ch := range l.channels {
		h.assign(name, ch)
	}
}

// await blocks until some channel is wanted and reports false when the hub is closed.
func (l *lane) await() bool {
	h := l.h
	for {
		h.mu.Lock()
		wanted := false
		for name, ch := range l.channels {
			if len(ch.listeners) > 0 {
				wanted = true
			} else { // not subscribed, not wanted
				delete(h.channels, name)
				delete(l.channels, name)
			}
		}
		h.mu.Unlock()
		if wanted {
			return true
		}
		select {
		case <-h.closing:
			return false
		case <-l.poke:
		}
	}
}

func (l *lane) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-l.h.closing:
		return false
	case <-l.renew:
		return true
	case <-timer.C:
		return true
	}
}

// serve keeps the subscriptions of one connection as wanted until it breaks or the hub is
// closed. It reports whether anything could be subscribed.
func (l *lane) serve(conn Conn, broken <-chan error) (worked bool) {
	h := l.h
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for refusals := 0; ; {
		h.mu.Lock()
		moved := l.moved
		h.mu.Unlock()
		if moved {
			l.reassign()
		}
		add, drop, recheck := l.difference()
		if len(add) > 0 {
			elsewhere, err := conn.Subscribe(add)
			if err != nil {
				l.failed(err)
				return worked
			}
			worked = true
			l.works()
			l.subscribed(add, elsewhere)
			if refusals++; len(elsewhere) == 0 {
				refusals = 0
			} else { // at once for the first time, as they may have moved this moment
				recheck = min(recheck, h.cfg.Backoff[min(refusals, len(h.cfg.Backoff))-1])
			}
		}
		if len(drop) > 0 {
			if err := conn.Unsubscribe(drop); err != nil {
				l.failed(err)
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
		case <-l.renew:
			return true
		case <-l.poke:
		case <-timer.C:
		}
	}
}

// failed tells of the first failure of an outage.
func (l *lane) failed(err error) {
	select {
	case <-l.h.closing: // the failure is our own doing
	default:
		if !l.failing && l.h.cfg.OnError != nil {
			l.h.cfg.OnError(err)
		}
		l.failing = true
	}
}

// works tells that an outage is over, if there was one.
func (l *lane) works() {
	if l.failing && l.h.cfg.OnWorks != nil {
		l.h.cfg.OnWorks()
	}
	l.failing = false
}

// difference returns what to subscribe and unsubscribe, and when to look again.
func (l *lane) difference() (add, drop []string, recheck time.Duration) {
	h := l.h
	h.mu.Lock()
	defer h.mu.Unlock()
	recheck = time.Hour
	for _, name := range l.leaving {
		if l.channels[name] == nil {
			drop = append(drop, name)
		}
	}
	l.leaving = nil
	for name, ch := range l.channels {
		switch {
		case len(ch.listeners) > 0:
			if !ch.subscribed {
				ch.dropped, ch.telling = false, true
				add = append(add, name)
			}
		case !ch.subscribed:
			delete(h.channels, name)
			delete(l.channels, name)
		default:
			left := h.cfg.Linger - time.Since(ch.idle)
			if left > 0 {
				recheck = min(recheck, left)
				continue
			}
			// From here on a new listener subscribes anew; the commands are sent in order.
			delete(h.channels, name)
			delete(l.channels, name)
			drop = append(drop, name)
		}
	}
	return add, drop, recheck
}

// subscribed records that the server confirmed names, but for those that are elsewhere, and tells the listeners.
func (l *lane) subscribed(names, elsewhere []string) {
	type event struct {
		to   *Listener
		what Event
	}
	var calls []event
	h := l.h
	h.mu.Lock()
	for _, name := range names {
		ch := l.channels[name]
		if ch == nil {
			continue
		}
		if ch.dropped || slices.Contains(elsewhere, name) {
			ch.again, l.moved = true, true
			continue
		}
		ch.subscribed = true
		for to := range ch.listeners {
			if !to.heard {
				to.heard = true
				close(to.ready)
			}
			calls = append(calls, event{to, Event{Subscribed: true, Again: ch.again}})
		}
	}
	h.mu.Unlock()
	for _, e := range calls {
		e.to.event(e.what)
	}
	for _, name := range names {
		l.catchUp(name)
	}
}

// catchUp tells what was said on a channel while it was being subscribed, or its listeners were called for that.
func (l *lane) catchUp(name string) {
	h := l.h
	for {
		h.mu.Lock()
		ch := l.channels[name]
		if ch == nil || len(ch.early) == 0 {
			if ch != nil {
				ch.telling = false
			}
			h.mu.Unlock()
			return
		}
		payload := ch.early[0]
		ch.early = ch.early[1:]
		listeners := slices.Collect(maps.Keys(ch.listeners))
		h.mu.Unlock()
		for _, to := range listeners {
			to.event(Event{Payload: payload})
		}
	}
}

// A sink is what one connection of a lane tells what it hears, as long as it is the lane's.
type sink struct {
	*lane

	over atomic.Bool
}

// Message is what a connection calls for each message.
func (s *sink) Message(name, payload string) {
	if s.over.Load() {
		return
	}
	s.h.mu.Lock()
	ch := s.h.channels[name]
	if ch != nil && ch.telling {
		ch.early = append(ch.early, payload)
		s.h.mu.Unlock()
		return
	}
	var listeners []*Listener
	if ch != nil {
		listeners = make([]*Listener, 0, len(ch.listeners))
		for l := range ch.listeners {
			listeners = append(listeners, l)
		}
	}
	s.h.mu.Unlock()
	for _, l := range listeners {
		l.event(Event{Payload: payload})
	}
}

// Dropped is what a connection calls when the server has ended a subscription.
func (s *sink) Dropped(name string) {
	if s.over.Load() {
		return
	}
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	if ch := s.channels[name]; ch != nil { // else it was not wanted here any more
		ch.subscribed, ch.dropped, ch.again = false, true, true
		s.moved = true
		s.wake()
	}
}
