package hub

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

// A lane is a connection and the channels that it is to carry.
type lane struct {
	h       *Hub
	name    string
	poke    chan struct{} // one token: the wanted channels may have changed
	replace chan struct{} // one token: the connection is to be replaced

	// Guarded by Hub.mu.
	channels map[string]*channel
	leaving  []string // channels that another lane carries now
	moved    bool     // some channels may be another lane's
	conn     Conn

	// Only loop uses these.
	failing  bool // OnError was called, as subscribing fails
	failures int  // connections in a row that failed, or did not last
}

// lasting is how long a connection that breaks has to have worked before the next ones are made without a pause again: a server may end each one as
// soon as that subscribes.
const lasting = time.Second

func (l *lane) wake() {
	select {
	case l.poke <- struct{}{}:
	default:
	}
}

// loop connects, keeps the subscriptions as wanted, and starts over when the connection breaks.
func (l *lane) loop() {
	h := l.h
	for l.await() {
		select {
		case <-l.replace: // it will be a new one
		default:
		}
		heard := &sink{lane: l}
		conn, broken, err := h.cfg.Dial(l.name, heard)
		if err == nil {
			l.setConn(conn)
			if l.serve(conn, broken) {
				l.failures = 0
			}
			heard.over.Store(true)
			l.setConn(nil)
			h.closers.Go(conn.Close)
		} else {
			l.failed(err)
		}
		l.unsubscribed()
		switch spread := l.resting(); {
		case spread > 0:
			// A server that fails ends the connections of all clients at the same moment, and without a pause they would all come back
			// at the same moment.
			if !l.sleep(rand.N(spread), l.poke) { //nolint:gosec // it spreads load
				return
			}
		case l.failures > 0 && !l.sleep(h.backoff(l.failures), l.replace):
			return
		}
		l.failures++
		select {
		case <-h.closing:
			return
		default:
		}
		l.reassign()
	}
}

// setConn records the connection of the lane; nil for none.
func (l *lane) setConn(conn Conn) {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	l.conn = conn
}

// unsubscribed records that the lane has no connection, and so no channel is subscribed any more.
func (l *lane) unsubscribed() {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	l.leaving = nil
	for _, ch := range l.channels {
		ch.to(off)
		ch.again, ch.partly, ch.early = true, false, nil
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
	h.assignAll(l.channels)
}

// await blocks until a channel is wanted, and reports false when the hub is closed. A lane that is one of several does not wait: without
// channels it leaves the hub, and await reports false, since the servers of a cluster come and go.
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
		over := !wanted && h.cfg.Lane != nil
		if over {
			delete(h.lanes, l.name)
		}
		h.mu.Unlock()
		if wanted || over {
			return wanted
		}
		select {
		case <-h.closing:
			return false
		case <-l.poke:
		}
	}
}

// resting returns for how long at most nobody needs the messages of the lane.
func (l *lane) resting() time.Duration {
	h := l.h
	if h.cfg.Resting == nil {
		return 0
	}
	h.mu.Lock()
	several, only := len(l.channels) > 1, ""
	for name := range l.channels {
		only = name
	}
	h.mu.Unlock()
	if several {
		return 0
	}
	return h.cfg.Resting(only)
}

// sleep waits for d, or until there is a token in wake, and reports false when the hub is closed.
func (l *lane) sleep(d time.Duration, wake <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-l.h.closing:
		return false
	case <-wake:
	case <-timer.C:
	}
	return true
}

// serve keeps the subscriptions of one connection as wanted until it breaks or the hub is closed. It reports whether the next one may be made
// without a pause: this one was replaced, or a subscription succeeded and it lasted.
func (l *lane) serve(conn Conn, broken <-chan error) (well bool) {
	h := l.h
	s := session{lane: l, conn: conn, begun: time.Now()}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		h.mu.Lock()
		moved := l.moved
		h.mu.Unlock()
		if moved {
			l.reassign()
		}
		add, drop, recheck := l.difference()
		refused, err := s.subscribe(add)
		if err == nil && len(drop) > 0 {
			err = conn.Unsubscribe(drop)
		}
		if err != nil {
			l.failed(err)
			return s.lasted()
		}
		if len(add) > 0 && s.refusals > 0 { // at once for the first time, as they may have just moved
			recheck = min(recheck, h.backoff(s.refusals))
		}
		poke := l.poke
		if refused { // other channels wait as long
			recheck, poke = h.backoff(s.refusals), nil
		}
		timer.Reset(recheck)
		select {
		case <-h.closing:
			return s.lasted()
		case err := <-broken:
			select {
			case <-l.replace: // the hub has closed it
				return true
			default:
			}
			if h.cfg.OnBroken != nil && (s.lasted() || l.failures < len(h.cfg.Backoff)) {
				h.cfg.OnBroken(err)
			}
			return s.lasted()
		case <-l.replace:
			return true
		case <-poke:
		case <-timer.C:
		}
	}
}

// failed reports the first failure of an outage.
func (l *lane) failed(err error) {
	select {
	case <-l.h.closing: // the hub itself caused the failure
	default:
		if !l.failing && l.h.cfg.OnError != nil {
			l.h.cfg.OnError(err)
		}
		l.failing = true
	}
}

// works reports the end of an outage, if there was one.
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
			if !ch.subscribed() {
				ch.to(asked)
				add = append(add, name)
			}
		case ch.subscribed() && time.Since(ch.idle) < h.cfg.Linger:
			recheck = min(recheck, h.cfg.Linger-time.Since(ch.idle))
		default: // from here on a new listener subscribes anew; the commands are sent in order
			if ch.subscribed() || ch.partly {
				ch.to(off)
				drop = append(drop, name)
			}
			delete(h.channels, name)
			delete(l.channels, name)
		}
	}
	return add, drop, recheck
}

// subscribed records that the server confirmed names, except those that are elsewhere, and notifies the listeners. moved says that another server may
// have those; else this one refuses them.
func (l *lane) subscribed(names, elsewhere []string, moved bool) {
	type event struct {
		to   *Listener
		what Event
	}
	var calls []event
	h := l.h
	h.mu.Lock()
	for _, name := range names {
		ch := l.channels[name]
		if ch == nil || ch.now() == off { // another lane had it meanwhile, so it is subscribed anew
			continue
		}
		if ch.now() == ended || slices.Contains(elsewhere, name) {
			l.moved = l.moved || moved // or the server has ended it, which has set this already
			ch.to(ended)
			ch.again, ch.partly = true, true
			continue
		}
		ch.to(telling)
		ch.partly = false
		for to := range ch.listeners {
			select {
			case <-to.ready:
			default:
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

// catchUp delivers the messages that arrived on a channel while it was being subscribed, or while its listeners were
// called for that.
func (l *lane) catchUp(name string) {
	h := l.h
	for {
		h.mu.Lock()
		ch := l.channels[name]
		if ch == nil {
			h.mu.Unlock()
			return
		}
		if len(ch.early) == 0 {
			if ch.subscribed() {
				ch.to(live)
			} else {
				ch.to(off)
			}
			h.mu.Unlock()
			return
		}
		payload := ch.early[0]
		ch.early = ch.early[1:]
		h.deliver(ch, payload)
	}
}

// A sink passes on the messages of one connection of a lane, as long as it is the lane's.
type sink struct {
	*lane

	over atomic.Bool
}

// Message implements Sink.
func (s *sink) Message(name, payload string) {
	if s.over.Load() {
		return
	}
	s.h.mu.Lock()
	ch := s.h.channels[name]
	if ch == nil {
		s.h.mu.Unlock()
		return
	}
	ch.messages++
	switch ch.now() {
	case asked, ended, telling:
		ch.early = append(ch.early, payload)
		s.h.mu.Unlock()
	default:
		s.h.deliver(ch, payload)
	}
}

// deliver passes a message to the listeners. The caller holds h.mu, which deliver unlocks before.
func (h *Hub) deliver(ch *channel, payload string) {
	listeners := make([]*Listener, 0, len(ch.listeners))
	for l := range ch.listeners {
		listeners = append(listeners, l)
	}
	ch.missed = len(listeners) == 0
	h.mu.Unlock()
	for _, l := range listeners {
		l.event(Event{Payload: payload})
	}
}

// Dropped implements Sink. The server also reports the end of a subscription that the hub has ended. Then the channel is not the lane's any more, or is off, since a
// listener has come meanwhile: the lane subscribes it after that.
func (s *sink) Dropped(name string) {
	if s.over.Load() {
		return
	}
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	ch := s.channels[name]
	if ch == nil || ch.now() == off {
		return
	}
	if ch.now() == live {
		ch.to(off)
	} else {
		ch.to(ended)
	}
	ch.again, ch.partly, s.moved = true, true, true
	s.wake()
}
