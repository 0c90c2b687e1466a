package transport

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// In this file a sender is a goroutine that sends one script after the other while requests wait. window.go says how many there are.

// An Outbox has the requests of some batchers, which the same senders send: a script that locks and one that releases follow each other,
// since the callers that one of them answers are about to ask for the other one.
type Outbox struct {
	net      *Transport
	gathers  bool // its requests are in no hurry: it has one script under way at a time
	confirms bool // replicas have to confirm what its scripts grant, which takes as long as they need
	kinds    []*kind
	turn     *turn // of its senders; nil if its scripts never take turns. Those of a cluster do not use it

	mu    sync.Mutex          // guards the rest, and the senders
	one   *senders            // of all requests, unless there are some for each slot
	slots map[uint16]*senders // of slots with something to send; nil unless the server is a cluster
}

// A Batcher sends requests for one script. While scripts are under way, requests that come meanwhile may wait and go together:
// window.go says when. So few callers wait for nobody, and a crowd shares the cost of the round trip, of the command and of the call
// into Lua, which is most of what locking a free key costs.
//
// In a cluster, requests for keys of one slot go together, since a script may have no others. No request waits for another
// slot, whose server may be ill.
//
// A script whose answer is late is sent again over another connection, and the first answer counts. Where replicas have to confirm a
// grant, which takes as long as they need, it is sent once.
type Batcher struct {
	box  *Outbox
	kind int // its place among the kinds of the outbox
}

// of returns the senders of a key.
func (box *Outbox) of(key string) *senders {
	if box.slots == nil {
		return box.one
	}
	slot := protocol.Slot(key)
	s := box.slots[slot]
	if s == nil {
		s = newSenders(box, slot)
		box.slots[slot] = s
	}
	return s
}

// Submit sends r, soon. inline says that the caller may be blocked until r was answered, if r is sent at once and alone:
// that spares the change to another goroutine and back.
func (b *Batcher) Submit(r Request, inline bool) {
	box := b.box
	box.net.crowd.joins(1)
	box.mu.Lock()
	s := box.of(r.Key())
	s.add(b.kind, r)
	c, own := s.begin(b.kind, 1, inline)
	box.mu.Unlock()
	if c != nil {
		c.runAlone(own)
	}
}

// A senders has the requests that the same senders send: all of an outbox, or those of one slot. The mutex of the outbox guards it.
type senders struct {
	queues

	box     *Outbox
	slot    uint16
	sending int // senders at work, or about to be
	aside   int // scripts under way whose place is aside
}

func newSenders(box *Outbox, slot uint16) *senders {
	return &senders{box: box, slot: slot, queues: queues{of: make([]queue, len(box.kinds))}}
}

// begin lets one more sender begin, if one is needed for n requests that a caller has added. A caller that is alone, and may be blocked, takes its
// place: then begin returns its call, and the connection that it has to itself, or nil for the shared one. It is alone if its queue has no others, one
// script handles its requests, and they have a script of their own: no other one of their kind is under way, or callers are few. The caller holds the
// mutex.
func (s *senders) begin(kind, n int, inline bool) (c *call, own *exclusive) {
	net := s.box.net
	alone := s.added(kind, n) && n <= s.box.kinds[kind].most && (s.of[kind].scripts == 0 || net.few() || s.spreads())
	if !s.begins(kind) {
		return nil, nil
	}
	if inline && alone && !s.box.gathers && !s.box.confirms { // a review gathers first, and a confirmed grant waits for replicas
		if own, ok := net.alone(); ok {
			return s.callAlone(kind), own
		}
	}
	net.cfg.User.Go(s.of[kind].flush)
	return nil, nil
}

// begins reports whether one more sender begins, with the requests of one kind, and counts it. With turns, the scripts and requests of all kinds count.
// Without turns, those of this kind count, so that no request waits for a script of another kind.
func (s *senders) begins(kind int) bool {
	q, net := &s.of[kind], s.box.net
	scripts, waiting := q.scripts, len(q.requests)
	if s.box.turn != nil && net.takesTurns() {
		scripts, waiting = s.sending, s.waiting
	}
	if len(q.requests) == 0 || scripts > 0 && (s.box.gathers || !s.spreads() && !net.another(scripts, waiting)) {
		return false
	}
	if q.flush == nil {
		q.flush = func() { s.send(kind) }
	}
	s.sending++
	q.scripts++
	return true
}

// spreads reports whether the next script has a direct connection to itself, since those over the shared one wait for a processor. Grants that replicas
// confirm have other connections.
func (s *senders) spreads() bool {
	return !s.box.confirms && s.box.net.spread() && s.box.net.direct.idle()
}

// send runs scripts until no request waits, or until an answer is late. The sender answers, gathers requests and makes the next command in its turn. It
// ends the turn before it sends the command.
func (s *senders) send(kind int) {
	net, turns := s.box.net, s.box.turn
	if s.box.gathers {
		net.pause(gatherReviews) // which the end of the client cuts short
	}
	turn := turns.begin(net.takesTurns())
	for {
		if turn != nil {
			turn.gather(net.part(), s.waits)
		} else if s.waits() > 0 && net.yields() { // else the sender ends, and the next caller may be alone
			runtime.Gosched()
		}
		c := s.call(kind, turn)
		if c == nil {
			break
		}
		kind = c.kind.n
		cmd := c.command()
		turn.end()
		reply, short, left := c.run(cmd)
		if left {
			return
		}
		turn = turns.begin(net.takesTurns())
		switch {
		case !c.answer(reply, short):
			c.recycle()
		case !s.splits(c):
			turn.end()
			c.split()
			c.recycle()
			turn = turns.begin(net.takesTurns())
		}
	}
	turn.end()
}

// waits returns how many requests wait.
func (s *senders) waits() int {
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	return s.waiting
}

// call returns the next call of a sender that was at work for a kind, or nil if no request waits: then the sender ends. With a turn, the next queue is
// served. Without one, the same queue is served while it has requests.
func (s *senders) call(kind int, turn *turn) *call {
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	kind, ok := s.pick(kind, turn == nil)
	if !ok {
		s.sending--
		s.rests()
		return nil
	}
	defer s.more()
	return s.take(kind, turn)
}

// callAlone returns a call for a caller that is alone, in place of the sender that was to begin. The caller holds the mutex.
func (s *senders) callAlone(kind int) *call {
	defer s.more()
	s.sending--
	c := s.take(kind, nil)
	c.place = ofCaller
	return c
}

// take returns a call for the first requests of a queue: as many as one script handles. In its turn a sender leaves to the next one what is more
// than a part of the crowd. The caller holds the mutex.
func (s *senders) take(kind int, turn *turn) *call {
	c := calls.Get().(*call)
	c.of, c.kind = s, s.box.kinds[kind]
	part := c.kind.most
	if turn != nil {
		part = min(part, s.box.net.part())
	}
	c.some = s.first(kind, c.kind.most, part, c.some[:0])
	return c
}

// more lets one more sender of each kind begin that is needed now. The caller holds the mutex.
func (s *senders) more() {
	for kind := range s.of {
		if s.begins(kind) {
			s.box.net.cfg.User.Go(s.of[kind].flush)
		}
	}
}

// setAside sets a call aside whose answer takes long. Requests that are in no hurry wait for it all the same.
func (s *senders) setAside(c *call) {
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	if c.place != aside && !s.box.gathers {
		s.leaves(c)
		c.place = aside
		s.aside++
		s.more()
	}
}

// splits starts a goroutine that sends each request of a call alone, which takes long, and reports whether it did. It starts none while mostApart calls
// are aside, or if the outbox gathers. Then the sender itself sends them.
func (s *senders) splits(c *call) bool {
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	if s.box.gathers || s.aside >= mostApart {
		return false
	}
	c.place = aside // the sender goes on
	s.aside++
	s.box.net.cfg.User.Go(c.splitAndEnd)
	return true
}

// ends ends a call that no sender is at work with any more.
func (s *senders) ends(c *call) {
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	s.leaves(c)
	c.recycle()
	s.more()
	s.rests()
}

// leaves counts a call less. The caller holds the mutex.
func (s *senders) leaves(c *call) {
	switch c.place {
	case ofSender:
		s.sending--
		s.of[c.kind.n].scripts--
	case ofCaller:
		s.of[c.kind.n].scripts--
	case aside:
		s.aside--
	}
}

// rests frees what is not needed while nothing waits or is under way. The caller holds the mutex.
func (s *senders) rests() {
	if s.aside == 0 && s.shrink() {
		delete(s.box.slots, s.slot)
	}
}

// A call is one run of a script for some requests, kept to be used again. One goroutine at a time has it.
type call struct {
	of      *senders
	kind    *kind
	some    []Request      // keeps its room
	texts   protocol.Texts // of the last command; keeps its room
	sent    time.Time      // when the script was sent first
	resent  bool           // it was sent again
	resends uint64         // of the transport, when it was sent first
	until   deadline       // of a caller that is alone
	place   place          // guarded by the mutex of the outbox
}

var calls = sync.Pool{New: func() any { return new(call) }}

func (c *call) recycle() {
	if c.until.done != nil {
		return // something may ask its deadline still
	}
	clear(c.some)
	c.texts.Clear()
	*c = call{some: c.some[:0], texts: c.texts}
	calls.Put(c)
}

// command returns the command for the requests, which is sent now.
func (c *call) command() protocol.Command {
	batch := &c.kind.batch
	c.texts.Begin(len(c.some), batch.Common)
	for _, r := range c.some {
		r.Append(&c.texts, c.resent)
	}
	batch.End(&c.texts, len(c.some))
	if c.sent.IsZero() {
		c.sent, c.resends = monotonic.Now().Std(), c.of.box.net.Resent()
	}
	return protocol.Command{Script: batch.Script, Keys: c.texts.Keys, Args: c.texts.Args}
}

// run sends the script, on a goroutine of [User.Go], and returns the reply, and for a grant an error if too few replicas have confirmed it.
// left says that another goroutine goes on with the call, since the answer is late.
func (c *call) run(cmd protocol.Command) (reply Reply, short error, left bool) {
	if c.of.box.confirms {
		reply.result, short = c.of.box.net.acquire(cmd)
		return reply, short, false
	}
	reply, left = c.of.box.net.runOrLeave(cmd, c.kind.grants, c)
	return reply, nil, left
}

// runAlone sends the script for a caller that is alone, see [senders.begin]. If the answer is late, another goroutine goes on with the call. A connection
// that has no answer in time is given up: there is no other way to interrupt the caller.
func (c *call) runAlone(own *exclusive) {
	net, cmd := c.of.box.net, c.command()
	c.until = deadline{at: c.sent.Add(net.Patience())}
	var result rueidis.RedisResult
	if own != nil {
		result = net.direct.run(&c.until, own, cmd)
	} else if result = net.runShared(&c.until, cmd); c.until.stop() && net.direct.on {
		net.pipelined.Store(true) // by rueidis, or it is new: a caller that is alone takes the direct one
	}
	switch {
	case errors.Is(result.NonRedisError(), ErrNoAnswer), errors.Is(result.NonRedisError(), os.ErrDeadlineExceeded):
		net.lateness.again.Add(1)
		if c.resent = true; c.kind.grants {
			net.lateness.strays.giveUp(net.longestStray())
		}
		c.of.setAside(c)
		net.cfg.User.Go(c.goOn)
	case c.answer(Reply{result}, nil):
		c.of.setAside(c)
		net.cfg.User.Go(c.splitAndEnd)
	default:
		c.of.ends(c)
	}
}

// goOn sends the script again.
func (c *call) goOn() {
	if reply, short, left := c.run(c.command()); !left {
		c.finish(reply, short)
	}
}

// again returns the command for another connection. The one before it may still be sent, and so keeps its keys and arguments. From now on no
// sender waits for the answer.
func (c *call) again() protocol.Command {
	c.of.setAside(c)
	c.resent, c.texts = true, protocol.Texts{}
	return c.command()
}

// answered goes on with a call whose answer was late.
func (c *call) answered(reply Reply) {
	c.texts = protocol.Texts{} // as above
	c.finish(reply, nil)
}

// finish ends a call that was set aside.
func (c *call) finish(reply Reply, short error) {
	if c.answer(reply, short) {
		c.split()
	}
	c.of.ends(c)
}

func (c *call) splitAndEnd() {
	c.split()
	c.of.ends(c)
}

// answer passes the reply to the requests, or why there is none. short says that too few replicas have confirmed what is granted. The scripts return an
// error about one key, such as WRONGTYPE, among the values of the reply, and only the request for this key gets it. If the whole reply is an error, such
// as NOPERM, it may be about the key of one request, and must not harm the others. Then answer returns true, none of them is answered, and each is to be
// sent alone.
func (c *call) answer(answer Reply, short error) (apart bool) {
	c.resent = c.resent || c.of.box.net.Resent() != c.resends
	all, err := answersOf(answer, len(c.some))
	if _, said := rueidis.IsRedisErr(err); said && len(c.some) > 1 && !refusesAll(err) {
		return true
	}
	c.of.box.net.crowd.answered(len(c.some)) // first, since each caller may send the next request at once
	for i, r := range c.some {
		said, err := all.of(i, err)
		if short != nil && err == nil && said[0] == protocol.Granted {
			said, err = protocol.Answer{}, short
		}
		r.Answered(c.sent, said, c.resent, err)
	}
	return false
}

// split sends each request alone, in their order, each when the one before it has its answer. A script whose whole reply is an error has released
// nothing. It may have locked keys before the error, which then count as locked by the requests that are sent alone.
func (c *call) split() {
	for _, r := range c.some {
		one := calls.Get().(*call)
		one.of, one.kind, one.resent, one.place = c.of, c.kind, c.resent, aside
		one.some = append(one.some[:0], r)
		one.runAndWait()
		one.recycle()
	}
}

// runAndWait is run for a goroutine that has more to send. The answer may come over another connection.
func (c *call) runAndWait() {
	cmd := c.command()
	if c.of.box.confirms {
		result, short := c.of.box.net.acquire(cmd)
		c.answer(Reply{result}, short)
		return
	}
	x := c.of.box.net.timely(cmd)
	x.by, x.waits, x.takes = c, true, c.kind.grants
	reply, again := x.run()
	if again {
		c.texts = protocol.Texts{} // a command without an answer has its keys and arguments
	}
	c.answer(reply, nil)
}
