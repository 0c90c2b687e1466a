package runtime

import (
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/hub"
)

// A switchboard connects what a client is told on its channel with the home that it concerns. A
// client has one channel for all its keys, and listens from its first lock on: for those who wait, to
// be handed a key; for those who hold, to hear at once that it was taken, or that the connection was
// lost and with it perhaps what the server knew.
type switchboard struct {
	lines    sync.Mutex // guards the rest
	homes    map[uint64]*home
	listener *hub.Listener
}

// connect has what is told of the claim n go to h.
func (s *switchboard) connect(n uint64, h *home) {
	s.lines.Lock()
	defer s.lines.Unlock()
	if s.homes == nil {
		s.homes = map[uint64]*home{}
	}
	s.homes[n] = h
}

// disconnect ends connect.
func (s *switchboard) disconnect(n uint64) {
	s.lines.Lock()
	defer s.lines.Unlock()
	delete(s.homes, n)
}

// hear begins to listen to the client's channel, once, and reports whether it is heard now.
func (c *Client) hear() bool {
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
		all := maps.Clone(c.switchboard.homes)
		c.lines.Unlock()
		for n, h := range all {
			h.resubscribed(n)
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
	h := c.switchboard.homes[n]
	c.lines.Unlock()
	if h == nil {
		return // it was given up; what it was granted is given back by what gave it up
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
	case "wanted":
		h.wanted(n)
	case "taken":
		h.taken(n)
	}
}
