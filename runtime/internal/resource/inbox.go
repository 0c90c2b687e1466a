package resource

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
	Subscribers engine.Inbox[*Ticket] // the tickets that get messages, by their numbers

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
func (c *Client) hearFor(key string) {
	c.Net.Holds(key)
	c.Hear()
}

// Hear begins to listen to the client's channel, once, and reports whether the subscription is active.
func (c *Client) Hear() bool {
	c.Net.Watch()
	c.Fleet.Present()
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
func (c *Client) listens() *hub.Listener {
	c.inboxMu.Lock()
	defer c.inboxMu.Unlock()
	l := c.listener.Load()
	if l == nil {
		l = c.Net.Listen(protocol.ProcessChannel(c.Wire.UUID), c.receive)
		c.listener.Store(l)
	}
	return l
}

// Heard reports whether the subscription to the client's channel is active.
func (c *Client) Heard() bool {
	l := c.listener.Load()
	return l != nil && l.Live()
}

// attend begins to listen for messages to the waiters for key, until the caller calls leave.
func (c *Client) attend(key string) (leave func()) {
	if !c.Net.Sharded() {
		return func() {}
	}
	return c.Listen(protocol.HashTag(key))
}

// Listen begins to listen on the client's channel in the slot of a hash tag, until the caller calls leave.
func (c *Client) Listen(tag string) (leave func()) {
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
		e = &tagSubscription{listener: c.Net.Listen(protocol.TagChannel(c.Wire.UUID, tag), func(e hub.Event) { c.receiveOf(tag, e) })}
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

// Attends reports whether the client hears messages to the waiters for key.
func (c *Client) Attends(key string) bool {
	if !c.Net.Sharded() {
		return c.Heard()
	}
	c.inboxMu.Lock()
	e := c.tagSubscriptions[protocol.HashTag(key)]
	c.inboxMu.Unlock()
	return e != nil && e.listener.Live()
}

// receive handles each message. It does not block.
func (c *Client) receive(e hub.Event) { c.receiveOf("", e) }

// receiveOf is receive for the keys with the hash tag tag, or for all keys if tag is empty.
func (c *Client) receiveOf(tag string, e hub.Event) {
	if e.Subscribed {
		// Earlier messages may be lost.
		for _, tk := range c.Subscribers.All() {
			if tag == "" || protocol.HashTag(tk.Resource.Key) == tag {
				tk.resubscribed()
			}
		}
		if e.Again {
			c.Withdrawals.Again(tag)
		}
		switch { // the server may have lost its data, with the connection
		case !e.Again:
		case tag != "":
			c.Watchdog.RecheckOf(c.Net.SameServer(tag))
		default:
			c.Watchdog.Recheck()
		}
		return
	}
	if c.Fleet.Receive(e.Payload) {
		return
	}
	m, ok := protocol.ParseMessage(e.Payload)
	if !ok {
		return
	}
	n := m.Number
	tk, known, lasts := c.Subscribers.Find(n)
	if !known {
		if m.Lock != "" && !(lasts && m.Kind == protocol.MessageWanted) {
			c.Withdrawals.Ghosts(m.Lock, m.Key, append([]uint64{n}, m.Behind...))
		}
		return // it was given up; the call that gave it up releases its grant
	}
	switch m.Kind {
	case protocol.MessageWanted:
		tk.Wanted()
	case protocol.MessageTaken:
		tk.Taken()
	case protocol.MessageGranted:
		if !m.Granted.IsZero() {
			tk.Handed(m)
		}
	case protocol.MessageLook:
		tk.look()
	case protocol.MessageSoon:
		if m.Timed {
			tk.Soon(m.After)
		}
	}
}
