package redistest

import (
	"bufio"
	"net"
	"strings"
	"sync"
	"time"
)

// A link is one client's connection and the one to the server that was made for it.
// Each direction has a goroutine that reads, and one that writes what may pass by now.
type link struct {
	proxy          *FaultProxy
	client, server *net.TCPConn
	requests       *queue
	replies        *queue
	ended          chan struct{} // closed when both connections are
	end            sync.Once

	mu         sync.Mutex
	pending    []*request          // passed on and not answered, oldest first
	subscribed map[string]struct{} // kind of subscription and channel
	resp3      bool
}

// A request waits for its reply, or, if it is a subscription, for as many
// confirmations as it has channels.
type request struct {
	cmd  []string
	name string // in lower case
	drop *Drop  // its reply is to be lost
	left int    // confirmations still to come, once the first has come
}

func newLink(p *FaultProxy, client, server *net.TCPConn) *link {
	return &link{
		proxy: p, client: client, server: server,
		requests: newQueue(), replies: newQueue(),
		ended: make(chan struct{}), subscribed: make(map[string]struct{}),
	}
}

// run passes messages until both connections have ended.
func (l *link) run() {
	var wg sync.WaitGroup
	wg.Go(l.readRequests)
	wg.Go(l.readReplies)
	wg.Go(func() { l.write(l.requests, Requests, l.server) })
	l.write(l.replies, Replies, l.client)
	l.close()
	wg.Wait()
}

func (l *link) close() {
	l.end.Do(func() {
		_ = l.client.Close()
		_ = l.server.Close()
		close(l.ended)
	})
}

func (l *link) reset() {
	_ = l.client.SetLinger(0)
	_ = l.server.SetLinger(0)
	l.close()
}

func (l *link) readRequests() {
	r := bufio.NewReader(l.client)
	doomed := false // nothing that follows arrives, so it must not count as lost
	for {
		m, err := readRequest(r)
		if err != nil {
			l.requests.push(&item{last: true})
			return
		}
		it := &item{raw: m.raw, at: time.Now()}
		if len(m.words) > 0 {
			it.request = &request{cmd: m.words, name: m.first()}
			l.proxy.observe(m.words)
			if !doomed {
				it.doom(l.proxy.choose(m.words))
				doomed = it.lost != nil || it.request.drop != nil
			}
		}
		l.requests.push(it)
	}
}

func (l *link) readReplies() {
	r := bufio.NewReader(l.server)
	for {
		m, err := readReply(r)
		if err != nil {
			l.replies.push(&item{last: true})
			return
		}
		l.replies.push(&item{raw: m.raw, at: time.Now(), lost: l.answer(m)})
	}
}

// write passes on what is in the queue, when it is due and not held.
func (l *link) write(q *queue, d Direction, to *net.TCPConn) {
	mute := false
	for {
		it, ok := q.pop(l.ended)
		if !ok || !l.due(it, d) {
			return
		}
		switch {
		case it.last && d == Replies: // the server hung up
			return
		case it.last: // the client did; the server may still have something to say
			_ = to.CloseWrite()
			return
		case mute:
			continue
		case it.lost != nil:
			it.lost.count()
			if it.lost.mode == Close {
				l.close()
				return
			}
			mute = true
			continue
		}
		if it.request != nil {
			l.sent(it.request)
		}
		if _, err := to.Write(it.raw); err != nil {
			// The receiver is gone. The link still reads the data of the other side and drops them,
			// as a network does.
			mute = true
		}
	}
}

// due waits until the item may pass and reports whether there is still a link.
func (l *link) due(it *item, d Direction) bool {
	for {
		held, delay, changed := l.proxy.rules()
		if held&d == 0 {
			wait := time.Duration(0)
			if delay > 0 && !it.last {
				wait = time.Until(it.at.Add(delay))
			}
			if wait <= 0 {
				return true
			}
			select {
			case <-l.ended:
				return false
			case <-changed:
			case <-time.After(wait):
			}
			continue
		}
		select {
		case <-l.ended:
			return false
		case <-changed:
		}
	}
}

func (l *link) sent(r *request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = append(l.pending, r)
}

// answer finds the request that a message from the server belongs to, and returns
// the order by which the message is to be lost.
func (l *link) answer(m message) *Drop {
	l.mu.Lock()
	defer l.mu.Unlock()
	var head *request
	if len(l.pending) > 0 {
		head = l.pending[0]
	}
	switch {
	case l.confirms(m):
		l.note(m)
		if head == nil || head.name != m.first() {
			return nil // the server ended a subscription by itself
		}
		return l.confirmed(head)
	case l.pushed(m), head == nil:
		return nil
	}
	l.pending = l.pending[1:]
	if !m.failed() {
		l.switchProtocol(head)
	}
	return head.drop
}

// confirms tells the answers to subscription commands, of which there is one for each
// channel. The older protocol has them as plain arrays.
func (l *link) confirms(m message) bool {
	if m.kind != '>' && (m.kind != '*' || l.resp3 || len(l.subscribed) == 0 && !l.subscribing()) {
		return false
	}
	return subscription(m.first()) && len(m.words) == 3
}

// pushed tells messages that answer nothing.
func (l *link) pushed(m message) bool {
	if m.kind == '>' {
		return true
	}
	if m.kind != '*' || l.resp3 || len(l.subscribed) == 0 {
		return false
	}
	switch m.first() {
	case "message", "pmessage", "smessage":
		return true
	}
	return false
}

func (l *link) subscribing() bool { return len(l.pending) > 0 && subscription(l.pending[0].name) }

func subscription(name string) bool {
	switch name {
	case "subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe":
		return true
	}
	return false
}

// note keeps account of what the connection is subscribed to, which is how many
// confirmations an UNSUBSCRIBE of everything has.
func (l *link) note(m message) {
	name, channel := m.first(), m.words[1]
	if base, ok := strings.CutSuffix(name, "unsubscribe"); ok {
		delete(l.subscribed, base+"subscribe "+channel)
		return
	}
	l.subscribed[name+" "+channel] = struct{}{}
}

// confirmed counts one confirmation of the request.
func (l *link) confirmed(r *request) *Drop {
	first := r.left == 0
	if first {
		r.left = len(r.cmd) - 1
		if r.left == 0 { // all of its kind; this one is taken off already
			r.left = 1 + l.count(strings.Replace(r.name, "unsubscribe", "subscribe", 1))
		}
	}
	if r.left--; r.left == 0 {
		l.pending = l.pending[1:]
	}
	if first {
		return r.drop
	}
	return nil
}

func (l *link) count(kind string) int {
	n := 0
	for s := range l.subscribed {
		if strings.HasPrefix(s, kind+" ") {
			n++
		}
	}
	return n
}

// switchProtocol follows the commands that change what replies look like.
func (l *link) switchProtocol(r *request) {
	switch {
	case r.name == "hello" && len(r.cmd) > 1:
		l.resp3 = r.cmd[1] == "3"
	case r.name == "reset":
		l.resp3 = false
		clear(l.subscribed)
	}
}

// An item is a message on its way.
type item struct {
	raw     []byte
	at      time.Time // when it was read
	request *request
	lost    *Drop // it is to be lost here
	last    bool  // there are no more: the sender has closed its side
}

// doom puts the message, or the reply to it, under the order, if there is one.
func (it *item) doom(d *Drop) {
	switch {
	case d == nil:
	case d.reply:
		it.request.drop = d
	default:
		it.lost = d
	}
}

// A queue has no limit, so that a sender never feels that the receiver is held.
type queue struct {
	mu    sync.Mutex
	items []*item
	more  chan struct{}
}

func newQueue() *queue { return &queue{more: make(chan struct{}, 1)} }

func (q *queue) push(it *item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.items, it)
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// pop waits for the next item, at most until ended is closed.
func (q *queue) pop(ended <-chan struct{}) (*item, bool) {
	for {
		q.mu.Lock()
		if len(q.items) > 0 {
			it := q.items[0]
			q.items = q.items[1:]
			q.mu.Unlock()
			return it, true
		}
		q.mu.Unlock()
		select {
		case <-q.more:
		case <-ended:
			return nil, false
		}
	}
}
