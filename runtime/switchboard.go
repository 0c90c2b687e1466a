package lockrt

import (
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// A party is whom something is told about the claim n that it has, or waits with.
type party interface {
	resubscribed(n uint64)
	wanted(n uint64)
	taken(n uint64)
}

// An heir stands in line, and may be handed what it waits for.
type heir interface {
	handed(n uint64, o handOver)
	look(n uint64)
	soon(n uint64, d time.Duration)
}

// A handOver says that Redis has a key for a claim since the time at of its clock.
type handOver struct {
	at     time.Time
	others bool     // more processes stand in line
	token  int64    // the first of the fencing tokens that came with it, or 0
	behind []uint64 // claims of this client that have the key after it
}

// A switchboard connects what a client is told on its channel with the party that it concerns. A
// client has one channel for all its keys, and listens from its first lock on: for those who wait, to
// be handed a key; for those who hold, to hear at once that it was taken, or that the connection was
// lost and with it perhaps what the server knew.
//
// In a cluster with sharded channels, who waits is told on another one, in the slot of the key: only there the
// server knows whether anybody listens.
type switchboard struct {
	lines    sync.Mutex // guards the rest
	parties  map[uint64]connection
	lasting  map[uint64]struct{} // claims of lost leases that Redis may have until the time that their holders were promised
	listener *hub.Listener
	echoes   map[string]int  // by hash tags: how often the client heard again, while it asks again because of it
	ears     map[string]*ear // in a cluster, by the hash tags of keys: of those who wait, if there are sharded channels, and guards
}

type connection struct {
	party
	key string
}

// An ear is a channel on which those are told who wait for keys of one hash tag.
type ear struct {
	listener *hub.Listener
	users    int
}

// connect has what is told of the claim n to key go to p.
func (s *switchboard) connect(n uint64, key string, p party) {
	s.lines.Lock()
	defer s.lines.Unlock()
	if s.parties == nil {
		s.parties = map[uint64]connection{}
	}
	s.parties[n] = connection{p, key}
}

// disconnect ends connect.
func (s *switchboard) disconnect(n uint64) {
	s.lines.Lock()
	defer s.lines.Unlock()
	delete(s.parties, n)
}

// depart ends connect for the claim n of a lease that was lost because of cause. What Redis still has of it stays for as long as
// its holder was promised, whoever wants it: the holder may still be ending its work. over is called when that is over.
func (s *switchboard) depart(n uint64, lease *watchdog.Lease, cause error, over func()) {
	left := lease.Ends().Sub(now())
	if left <= 0 || errors.Is(cause, watchdog.ErrRefused) {
		s.disconnect(n)
		over()
		return
	}
	s.lines.Lock()
	defer s.lines.Unlock()
	if s.lasting == nil {
		s.lasting = map[uint64]struct{}{}
	}
	s.lasting[n] = struct{}{}
	delete(s.parties, n)
	time.AfterFunc(left, func() {
		s.lines.Lock()
		delete(s.lasting, n)
		s.lines.Unlock()
		over()
	})
}

// hearFor begins to listen for those who hold key.
func (c *Client) hearFor(key string) {
	c.net.Holds(key)
	c.hear()
}

// hear begins to listen to the client's channel, once, and reports whether it is heard now.
func (c *Client) hear() bool {
	c.net.Watch()
	c.present()
	c.lines.Lock()
	if c.listener == nil {
		c.listener = c.net.Listen(protocol.ProcessChannel(c.wire.UUID), c.told)
	}
	l := c.listener
	c.lines.Unlock()
	return l.Live()
}

// heard reports whether the client hears what it is told.
func (c *Client) heard() bool {
	c.lines.Lock()
	l := c.listener
	c.lines.Unlock()
	return l != nil && l.Live()
}

// attend begins to listen for what is told those who wait for key, until the function that it returns is called.
func (c *Client) attend(key string) (leave func()) {
	if !c.net.Sharded() {
		return func() {}
	}
	return c.listen(protocol.HashTag(key))
}

// listen begins to listen on the client's channel in the slot of a hash tag, until the function that it returns is called.
func (c *Client) listen(tag string) (leave func()) {
	c.lines.Lock()
	defer c.lines.Unlock()
	e := c.ears[tag]
	if e == nil {
		e = &ear{listener: c.net.Listen(protocol.TagChannel(c.wire.UUID, tag), func(e hub.Event) { c.toldOf(tag, e) })}
		if c.ears == nil {
			c.ears = map[string]*ear{}
		}
		c.ears[tag] = e
	}
	e.users++
	return func() {
		c.lines.Lock()
		defer c.lines.Unlock()
		if e.users--; e.users == 0 {
			delete(c.ears, tag)
			e.listener.Close()
		}
	}
}

// attends reports whether the client hears what it is told while it waits for key.
func (c *Client) attends(key string) bool {
	if !c.net.Sharded() {
		return c.heard()
	}
	c.lines.Lock()
	e := c.ears[protocol.HashTag(key)]
	c.lines.Unlock()
	return e != nil && e.listener.Live()
}

// told is called for each message. It does not block.
func (c *Client) told(e hub.Event) { c.toldOf("", e) }

// toldOf is told, for what concerns keys of one hash tag; none for all.
func (c *Client) toldOf(tag string, e hub.Event) {
	if e.Subscribed {
		// What was said before was perhaps not heard.
		c.lines.Lock()
		all := maps.Clone(c.parties)
		c.lines.Unlock()
		for n, p := range all {
			if tag == "" || protocol.HashTag(p.key) == tag {
				p.resubscribed(n)
			}
		}
		if e.Again {
			c.again(tag)
		}
		switch { // the server may have lost what it knew, with the connection
		case !e.Again:
		case tag != "":
			c.watchdog.RecheckOf(c.net.SameServer(tag))
		default:
			c.watchdog.Recheck()
		}
		return
	}
	if request, ok := strings.CutPrefix(e.Payload, askWord); ok {
		c.asked(request)
		return
	}
	if strings.HasPrefix(e.Payload, "{") {
		c.questions.answered(e.Payload)
		return
	}
	m, ok := protocol.ParseMessage(e.Payload)
	if !ok {
		return
	}
	n := m.Number
	c.lines.Lock()
	p := c.parties[n].party
	_, lasts := c.lasting[n]
	c.lines.Unlock()
	if p == nil {
		if m.Lock != "" && !(lasts && m.Kind == protocol.MessageWanted) {
			c.ghosts(m.Lock, m.Key, append([]uint64{n}, m.Behind...))
		}
		return // it was given up; what it was granted is given back by what gave it up
	}
	switch m.Kind {
	case protocol.MessageWanted:
		p.wanted(n)
		return
	case protocol.MessageTaken:
		p.taken(n)
		return
	}
	h, ok := p.(heir)
	if !ok {
		return
	}
	switch m.Kind {
	case protocol.MessageGranted:
		if !m.Granted.IsZero() {
			h.handed(n, handOver{at: m.Granted, others: m.Others, token: m.Token, behind: m.Behind})
		}
	case protocol.MessageLook:
		h.look(n)
	case protocol.MessageSoon:
		if m.Timed {
			h.soon(n, m.After)
		}
	}
}
