package locks

import (
	"sync"
	"sync/atomic"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// An inbox passes each message on the client's channel to the ticket that it concerns. A client has one channel for
// all its keys, and listens from its first lock on. Waiters listen for a hand-over. Holders listen to learn at once
// that their key was taken, or that the connection was lost and with it perhaps the server's data.
//
// In a cluster with sharded channels, messages to waiters come on another channel, in the slot of the key: only there
// the server knows whether a client listens.
type inbox struct {
	subscribers engine.Inbox[*ticket] // of the messages about their numbers

	inboxMu          sync.Mutex                   // guards the rest
	listener         atomic.Pointer[hub.Listener] // changed with inboxMu; read without
	tagSubscriptions map[string]*tagSubscription  // in a cluster, by the hash tags of keys: of the waiters, if there are sharded channels, and guards
}

// A tagSubscription listens on the channel of the waiters for keys of one hash tag.
type tagSubscription struct {
	listener *hub.Listener
	users    int
}

// hearFor begins to listen for the holders of key.
func (c *clientLine) hearFor(key string) {
	c.net.Holds(key)
	c.hear()
}

// hear begins to listen to the client's channel, once, and reports whether the subscription is
// active.
func (c *clientLine) hear() bool {
	c.net.Watch()
	c.fleet.Present()
	l := c.listener.Load()
	if l == nil {
		l = c.listens()
	}
	if l.Live() {
		return true
	}
	l.Hurry()
	return false
}

// listens begins to listen to the client's channel, unless it does.
func (c *clientLine) listens() *hub.Listener {
	c.inboxMu.Lock()
	defer c.inboxMu.Unlock()
	l := c.listener.Load()
	if l == nil {
		l = c.net.Listen(protocol.ProcessChannel(c.wire.UUID), c.receive)
		c.listener.Store(l)
	}
	return l
}

// heard reports whether the subscription to the client's channel is active.
func (c *clientLine) heard() bool {
	l := c.listener.Load()
	return l != nil && l.Live()
}

// attend begins to listen for messages to the waiters for key, until the caller calls leave.
func (c *clientLine) attend(key string) (leave func()) {
	if !c.net.Sharded() {
		return func() {}
	}
	return c.listen(protocol.HashTag(key))
}

// listen begins to listen on the client's channel in the slot of a hash tag, until the caller calls leave.
func (c *clientLine) listen(tag string) (leave func()) {
	missed := false
	c.inboxMu.Lock()
	defer func() {
		c.inboxMu.Unlock()
		if missed { // perhaps to a ticket that asked before it listened
			c.receiveOf(tag, hub.Event{Subscribed: true})
		}
	}()
	e := c.tagSubscriptions[tag]
	if e == nil {
		e = &tagSubscription{listener: c.net.Listen(protocol.TagChannel(c.wire.UUID, tag), func(e hub.Event) { c.receiveOf(tag, e) })}
		if c.tagSubscriptions == nil {
			c.tagSubscriptions = map[string]*tagSubscription{}
		}
		c.tagSubscriptions[tag] = e
		missed = e.listener.Missed()
	}
	e.users++
	return func() {
		c.inboxMu.Lock()
		defer c.inboxMu.Unlock()
		if e.users--; e.users == 0 {
			delete(c.tagSubscriptions, tag)
			e.listener.Close()
		}
	}
}

// attends reports whether the client hears messages to the waiters for key.
func (c *clientLine) attends(key string) bool {
	if !c.net.Sharded() {
		return c.heard()
	}
	c.inboxMu.Lock()
	e := c.tagSubscriptions[protocol.HashTag(key)]
	c.inboxMu.Unlock()
	return e != nil && e.listener.Live()
}

// receive handles each message. It does not block.
func (c *clientLine) receive(e hub.Event) { c.receiveOf("", e) }

// receiveOf is receive for the keys of one hash tag, or for all without a tag.
func (c *clientLine) receiveOf(tag string, e hub.Event) {
	if e.Subscribed {
		// Earlier messages may be lost.
		for _, tk := range c.subscribers.All() {
			if tag == "" || protocol.HashTag(tk.r.key) == tag {
				tk.resubscribed()
			}
		}
		if e.Again {
			c.withdrawals.Again(tag)
		}
		switch { // the server may have lost its data, with the connection
		case !e.Again:
		case tag != "":
			c.watchdog.RecheckOf(c.net.SameServer(tag))
		default:
			c.watchdog.Recheck()
		}
		return
	}
	if c.fleet.Receive(e.Payload) {
		return
	}
	m, ok := protocol.ParseMessage(e.Payload)
	if !ok {
		return
	}
	n := m.Number
	tk, known, lasts := c.subscribers.Find(n)
	if !known {
		if m.Lock != "" && !(lasts && m.Kind == protocol.MessageWanted) {
			c.withdrawals.Ghosts(m.Lock, m.Key, append([]uint64{n}, m.Behind...))
		}
		return // it was given up; the call that gave it up releases its grant
	}
	switch m.Kind {
	case protocol.MessageWanted:
		tk.wanted()
	case protocol.MessageTaken:
		tk.taken()
	case protocol.MessageGranted:
		if !m.Granted.IsZero() {
			tk.handed(m)
		}
	case protocol.MessageLook:
		tk.look()
	case protocol.MessageSoon:
		if m.Timed {
			tk.soon(m.After)
		}
	}
}
