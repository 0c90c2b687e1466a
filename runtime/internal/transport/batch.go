package transport

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A Request is one of the many that one script handles, each independently of the others.
type Request interface {
	// Key is the key that the request is about.
	Key() string
	// Append appends the keys and the arguments of the request to those before it. again says that the request was sent before, and
	// may be done once more later.
	Append(to *protocol.Texts, again bool)
	// Answered reports the answer of the script, or why there is none, once. The request was sent after the time sent for the first
	// time. again says that it was sent more than once: each of these requests may have been done before the answer, and may be done
	// after it. Answered does not block.
	Answered(sent time.Time, reply protocol.Answer, again bool, err error)
}

// keptRoom is for how many requests a queue keeps room when none is left. Thousands of calls that begin to wait together need more, once.
const keptRoom = 16 * mostBatched

// mostReviewed is mostBatched for requests that are in no hurry: few scripts for those of 10,000 waiters. Such a script keeps the server from
// others for about 8 ms, so a client has one of them under way at a time. Waiters that are to ask at the same time need a while to do so: the
// first script is sent after gatherReviews, so that it is full, too.
const (
	mostReviewed  = 4 * mostBatched
	gatherReviews = 10 * time.Millisecond
)

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
	net    *Transport
	batch  protocol.Batch
	grants bool // replicas may have to confirm the answer
	most   int  // how many requests one script handles
	single bool // one script is under way at a time

	mu    sync.Mutex            // guards the rest, and the queues
	one   slotQueue             // of all requests, unless there is one for each slot
	slots map[uint16]*slotQueue // of slots with something to send; nil unless the server is a cluster
}

// A slotQueue has the requests that can go together.
type slotQueue struct {
	b       *Batcher
	slot    uint16
	flush   func() // send, as a value
	queue   []Request
	callers int // how many callers have put requests into it since it was empty
	added   int // how many SubmitAll adds to the queue
	sending int // scripts under way, or about to be
}

// Batcher returns a batcher for a script. grants says that its requests lock, so that replicas may have to confirm them.
func (t *Transport) Batcher(batch protocol.Batch, grants bool) *Batcher {
	return t.batcher(&Batcher{batch: batch, grants: grants, most: mostBatched})
}

// Reviewer is Batcher for requests that are in no hurry and lock: those of waiters that ask again after a long time, in case a message
// was lost. They gather before they are sent. One script handles more of them, and the next one waits for its answer.
func (t *Transport) Reviewer(batch protocol.Batch) *Batcher {
	return t.batcher(&Batcher{batch: batch, grants: true, most: mostReviewed, single: true})
}

func (t *Transport) batcher(b *Batcher) *Batcher {
	b.net, b.one.b = t, b
	b.one.flush = b.one.send
	if t.cluster != nil {
		b.slots = make(map[uint16]*slotQueue)
	}
	return b
}

// slotQueue returns the queue of r.
func (b *Batcher) slotQueue(r Request) *slotQueue {
	if b.slots == nil {
		return &b.one
	}
	n := protocol.Slot(r.Key())
	q := b.slots[n]
	if q == nil {
		q = &slotQueue{b: b, slot: n}
		q.flush = q.send
		b.slots[n] = q
	}
	return q
}

// Submit sends r, soon. inline says that the caller may be blocked until r was answered, if r is sent at once and alone:
// that spares the change to another goroutine and back.
func (b *Batcher) Submit(r Request, inline bool) {
	b.net.crowd.joins(1)
	b.mu.Lock()
	q := b.slotQueue(r)
	q.queue = append(q.queue, r)
	start, alone := q.begin(1)
	b.mu.Unlock()
	q.start(start, inline && alone)
}

// SubmitAll sends all of rs, soon, in one script unless they are very many, or in different slots: no request is sent before
// all are queued. inline is as with Submit, if there is one slot.
func (b *Batcher) SubmitAll(rs []Request, inline bool) {
	if len(rs) == 0 {
		return
	}
	b.net.crowd.joins(len(rs))
	var room [1]*slotQueue
	to := room[:0]
	b.mu.Lock()
	for _, r := range rs {
		q := b.slotQueue(r)
		q.queue = append(q.queue, r)
		if q.added++; q.added == 1 {
			to = append(to, q)
		}
	}
	inline = inline && len(to) == 1
	to = slices.DeleteFunc(to, func(q *slotQueue) bool {
		start, alone := q.begin(q.added)
		q.added, inline = 0, inline && alone
		return !start
	})
	b.mu.Unlock()
	for _, q := range to {
		q.start(true, inline)
	}
}

// begin reports whether the queue is to be sent now, and not by a sender that is at work already, and whether it has no more
// than the n requests of the caller.
func (q *slotQueue) begin(n int) (start, alone bool) {
	q.callers++
	if alone = q.sending == 0 && len(q.queue) == n; !alone && len(q.queue) == n {
		q.b.net.direct.meet() // the others that wait behind the same script come after it, and call says so
	}
	if start = q.sending == 0 || !q.b.single && q.b.net.another(q.sending, len(q.queue)); start {
		q.sending++
	}
	return start, alone
}

// start sends the queue, if that is to be, on another goroutine, or for a caller that may be blocked on this one: as much as one
// script handles, over a connection that the caller has to itself, or else the shared one. Another goroutine goes on if an answer is
// late, or if there is more to send.
func (q *slotQueue) start(start, inline bool) {
	if !start {
		return
	}
	net := q.b.net
	if q.b.single {
		net.cfg.User.Go(q.gather)
		return
	}
	if inline && !q.b.confirmed() { // else it may take longer
		if own, ok := net.alone(); ok {
			c := q.call()
			if len(c.some) > 0 && c.runAlone(own) {
				return
			}
			if len(c.some) == 0 && own != nil {
				net.direct.give(own)
			}
			if !q.ends(c) {
				return
			}
		}
	}
	net.cfg.User.Go(q.flush)
}

// confirmed reports whether replicas have to confirm what the script grants.
func (b *Batcher) confirmed() bool { return b.grants && b.net.cfg.Replicas > 0 }

// gather is send after a pause, which the end of the client cuts short.
func (q *slotQueue) gather() {
	q.b.net.pause(gatherReviews)
	q.send()
}

// send sends until the queue is empty, or until another goroutine goes on with that, since an answer is late.
func (q *slotQueue) send() {
	for {
		if q.b.net.yields() {
			runtime.Gosched()
		}
		c := q.call()
		if len(c.some) > 0 && c.run() || !q.ends(c) {
			return
		}
	}
}

// call returns a call for the queue, as much of it as one script handles.
func (q *slotQueue) call() *call {
	c := calls.Get().(*call)
	q.b.mu.Lock()
	defer q.b.mu.Unlock()
	c.q = q
	n := min(len(q.queue), q.b.most)
	if n > 1 && q.callers > 1 { // one caller of many keys is alone
		q.b.net.direct.meet()
	}
	c.some = append(c.some[:0], q.queue[:n]...)
	left := copy(q.queue, q.queue[n:])
	clear(q.queue[left:])
	if left == 0 {
		q.callers = 0
	}
	q.queue = q.queue[:left]
	return c
}

// ends ends a call, and reports whether there is more to send. If not, the caller is not sending any more.
func (q *slotQueue) ends(c *call) (more bool) {
	c.recycle()
	q.b.mu.Lock()
	defer q.b.mu.Unlock()
	if len(q.queue) > 0 {
		return true
	}
	if q.sending--; q.sending == 0 {
		delete(q.b.slots, q.slot)
		q.shrink()
	}
	return false
}

// shrink frees the room of an empty queue that has had very many requests.
func (q *slotQueue) shrink() {
	if cap(q.queue) > keptRoom {
		q.queue = nil
	}
}

// A call is one run of a script for some requests, kept to be used again. One goroutine at a time has it.
type call struct {
	q       *slotQueue
	some    []Request      // keeps its room
	texts   protocol.Texts // of the last command; keeps its room
	sent    time.Time      // when the script was sent first
	resent  bool           // it was sent again
	resends uint64         // of the transport, when it was sent first
	until   deadline       // of a lone caller
}

var calls = sync.Pool{New: func() any { return new(call) }}

func (c *call) recycle() {
	if c.until.done != nil {
		return // something may ask its deadline still
	}
	clear(c.some)
	c.texts.Clear()
	c.q, c.some, c.sent, c.resent, c.until = nil, c.some[:0], time.Time{}, false, deadline{}
	calls.Put(c)
}

// command returns the command for the requests, which is sent now.
func (c *call) command() protocol.Command {
	batch := &c.q.b.batch
	c.texts.Begin(len(c.some), batch.Common)
	for _, r := range c.some {
		r.Append(&c.texts, c.resent)
	}
	batch.Share(&c.texts, len(c.some))
	if c.sent.IsZero() {
		c.sent, c.resends = monotonic.Now().Std(), c.q.b.net.Resent()
	}
	return protocol.Command{Script: batch.Script, Keys: c.texts.Keys, Args: c.texts.Args}
}

// run sends the script, on a goroutine of [User.Go], and reports whether another goroutine goes on with the call, since the answer is
// late.
func (c *call) run() (left bool) {
	b, cmd := c.q.b, c.command()
	var reply Reply
	var short error
	if b.confirmed() {
		reply.result, short = b.net.acquire(cmd)
	} else if reply, left = b.net.runOrLeave(cmd, b.grants, c); left {
		return true
	}
	if c.answer(reply, short) {
		c.split()
	}
	return false
}

// runAlone sends the script for a lone caller, see [slotQueue.start], and reports whether another goroutine goes on with the call.
// A connection that has no answer in time is given up: there is no other way to interrupt the caller.
func (c *call) runAlone(own *exclusive) (left bool) {
	net, cmd := c.q.b.net, c.command()
	c.until = deadline{at: c.sent.Add(net.Patience())}
	var result rueidis.RedisResult
	if own != nil {
		result = net.direct.run(&c.until, own, cmd)
	} else if result = net.runShared(&c.until, cmd); c.until.stop() && net.direct.on {
		net.pipelined.Store(true) // by rueidis, or it is new: lone callers have one of their own
	}
	switch {
	case errors.Is(result.NonRedisError(), ErrNoAnswer), errors.Is(result.NonRedisError(), os.ErrDeadlineExceeded):
		if c.resent = true; c.q.b.grants {
			net.lateness.strays.giveUp(net.longestStray())
		}
		net.cfg.User.Go(c.goOn)
		return true
	case c.answer(Reply{result}, nil):
		net.cfg.User.Go(c.splitAndGoOn)
		return true
	}
	return false
}

// goOn sends the script again, and then what else is in the queue.
func (c *call) goOn() {
	q := c.q
	if !c.run() && q.ends(c) {
		q.send()
	}
}

// again returns the command for another connection. The one before it may still be sent, and so keeps its keys and arguments.
func (c *call) again() protocol.Command {
	c.resent, c.texts = true, protocol.Texts{}
	return c.command()
}

// answered goes on with a call whose answer was late.
func (c *call) answered(reply Reply) {
	c.texts = protocol.Texts{} // as above
	if c.answer(reply, nil) {
		c.split()
	}
	if q := c.q; q.ends(c) {
		q.send()
	}
}

// answer passes the reply to the requests, or why there is none. short says that too few replicas have confirmed what is granted. An
// error that the server replies with may be about the key of one of several requests, and must not harm the others: then none is
// answered, and each is to be sent alone.
func (c *call) answer(answer Reply, short error) (apart bool) {
	c.resent = c.resent || c.q.b.net.Resent() != c.resends
	reply, err := answer.result.ToMessage()
	if _, said := rueidis.IsRedisErr(err); said && len(c.some) > 1 {
		return true
	}
	var all []rueidis.RedisMessage
	if err == nil && !reply.IsInt64() {
		all, err = reply.ToArray()
		if err == nil && len(all) != len(protocol.Answer{})*len(c.some) {
			err = fmt.Errorf("%d values in reply to %d requests", len(all), len(c.some))
		}
	}
	c.q.b.net.crowd.answered(len(c.some)) // first, since each caller may send the next request at once
	for i, r := range c.some {
		said, err := protocol.Answer{}, err
		switch {
		case err != nil:
		case all == nil:
			said[0], err = reply.AsInt64()
		default:
			said, err = answerOf(all[len(protocol.Answer{})*i:])
		}
		if short != nil && err == nil && said[0] == protocol.Granted {
			said, err = protocol.Answer{}, short
		}
		r.Answered(c.sent, said, c.resent, err)
	}
	return false
}

// split sends each request alone, in their order, each when the one before it has its answer.
func (c *call) split() {
	for _, r := range c.some {
		one := calls.Get().(*call)
		one.q, one.some, one.resent = c.q, append(one.some[:0], r), c.resent
		one.runAndWait()
		one.recycle()
	}
}

// runAndWait is run for a goroutine that has more to send. The answer may come over another connection.
func (c *call) runAndWait() {
	b, cmd := c.q.b, c.command()
	if b.confirmed() {
		result, short := b.net.acquire(cmd)
		c.answer(Reply{result}, short)
		return
	}
	x := b.net.timely(cmd)
	x.by, x.waits, x.takes = c, true, b.grants
	reply, again := x.run()
	if again {
		c.texts = protocol.Texts{} // a command without an answer has its keys and arguments
	}
	c.answer(reply, nil)
}

func (c *call) splitAndGoOn() {
	c.split()
	if q := c.q; q.ends(c) {
		q.send()
	}
}

// RunBatch sends the command of a batch, again if the answer is late, and returns the error of the command, or the first one of its
// requests.
func (t *Transport) RunBatch(cmd protocol.Command) error {
	answer, _ := t.RunInTime(nil, cmd)
	all, err := answer.result.ToMessage()
	if err != nil || all.IsInt64() { // one number is the answer to each request
		return err
	}
	reply, err := all.ToArray()
	for size := len(protocol.Answer{}); err == nil && len(reply) > 0; reply = reply[size:] {
		if len(reply) < size {
			return errShort
		}
		_, err = answerOf(reply)
	}
	return err
}

var errShort = errors.New("the reply to a batch has too few values")
