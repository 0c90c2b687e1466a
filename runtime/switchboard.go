package runtime

import (
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/hub"
)

// A party is whom something is told about the claim n that it has, or waits with.
type party interface {
	resubscribed(n uint64)
	wanted(n uint64)
	taken(n uint64)
}

// An heir stands in line, and may be handed what it waits for.
type heir interface {
	handed(n uint64, at time.Time, others bool, token int64)
	look(n uint64)
	soon(n uint64, d time.Duration)
}

// A switchboard connects what a client is told on its channel with the party that it concerns. A
// client has one channel for all its keys, and listens from its first lock on: for those who wait, to
// be handed a key; for those who hold, to hear at once that it was taken, or that the connection was
// lost and with it perhaps what the server knew.
type switchboard struct {
	lines    sync.Mutex // guards the rest
	parties  map[uint64]party
	listener *hub.Listener
}

// connect has what is told of the claim n go to p.
func (s *switchboard) connect(n uint64, p party) {
	s.lines.Lock()
	defer s.lines.Unlock()
	if s.parties == nil {
		s.parties = map[uint64]party{}
	}
	s.parties[n] = p
}

// disconnect ends connect.
func (s *switchboard) disconnect(n uint64) {
	s.lines.Lock()
	defer s.lines.Unlock()
	delete(s.parties, n)
}

// hear begins to listen to the client's channel, once, and reports whether it is heard now.
func (c *Client) hear() bool {
	c.lookOut()
	c.lines.Lock()
	if c.listener == nil {
		c.listener = c.hub.Listen(processChannel(c.uuid), c.told)
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

// told is called for each message. It does not block.
func (c *Client) told(e hub.Event) {
	if e.Subscribed {
		// What was said before was perhaps not heard.
		c.lines.Lock()
		all := maps.Clone(c.parties)
		c.lines.Unlock()
		for n, p := range all {
			p.resubscribed(n)
		}
		if e.Again {
			c.watchdog.Recheck() // the server may have lost what it knew, with the connection
		}
		return
	}
	words := strings.Fields(e.Payload)
	if len(words) < 2 {
		return
	}
	n, err := strconv.ParseUint(words[1], 10, 64)
	if err != nil {
		return
	}
	number := func(i int) (int64, bool) {
		if i >= len(words) {
			return 0, false
		}
		v, err := strconv.ParseInt(words[i], 10, 64)
		return v, err == nil
	}
	c.lines.Lock()
	p := c.parties[n]
	c.lines.Unlock()
	if p == nil {
		return // it was given up; what it was granted is given back by what gave it up
	}
	switch words[0] {
	case "wanted":
		p.wanted(n)
		return
	case "taken":
		p.taken(n)
		return
	}
	h, ok := p.(heir)
	if !ok {
		return
	}
	switch words[0] {
	case "granted":
		if at, ok := number(2); ok {
			others, _ := number(3)
			token, _ := number(4)
			h.handed(n, time.UnixMicro(at), others > 0, token)
		}
	case "look":
		h.look(n)
	case "soon":
		if ms, ok := number(2); ok {
			h.soon(n, time.Duration(ms)*time.Millisecond)
		}
	}
}
