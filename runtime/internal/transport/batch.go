package transport

import (
	"fmt"
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
	// Append appends the keys and the arguments of the request to those before it.
	Append(keys, args []string) (allKeys, allArgs []string)
	// Answered reports the answer of the script, or why there is none. The request was sent after the time sent. It
	// does not block.
	Answered(sent time.Time, reply protocol.Answer, err error)
}

// mostBatched is how many requests one script handles at most: enough to make the round trip cheap, few enough that the
// server is not kept from others for longer than a fraction of a millisecond.
const mostBatched = 128

// A Batcher sends requests for one script. While a script is under way, requests that come meanwhile wait and go together. So a
// lone caller waits for nobody, and a crowd shares the cost of the round trip, of the command and of the call into Lua,
// which is most of what locking a free key costs.
//
// In a cluster, requests for keys of one slot go together, since a script may have no others. No request waits for another
// slot, whose server may be ill.
type Batcher struct {
	net    *Transport
	batch  protocol.Batch
	grants bool // replicas may have to confirm the answer

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
	added   int // how many SubmitAll adds to the queue
	sending int // scripts under way, or about to be
}

// A second script is sent when a few requests wait, so that the server does not wait for the client, nor the client for
// the server; and more when as many requests wait as one script handles: they need not wait for the answer to others.
const (
	few         = 4
	mostSending = 8
)

// Batcher returns a batcher for a script. grants says that its requests lock, so that replicas may have to confirm them.
func (t *Transport) Batcher(batch protocol.Batch, grants bool) *Batcher {
	b := &Batcher{net: t, batch: batch, grants: grants}
	b.one.b = b
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
	if alone = q.sending == 0 && len(q.queue) == n; !alone {
		q.b.net.direct.meet()
	}
	start = q.sending == 0 || q.sending == 1 && len(q.queue) >= few || q.sending < mostSending && len(q.queue) >= mostBatched
	if start {
		q.sending++
	}
	return start, alone
}

// start sends the queue, if that is to be, on this goroutine or another one.
func (q *slotQueue) start(start, inline bool) {
	if !start {
		return
	}
	net := q.b.net
	if inline && (!q.b.grants || net.cfg.Replicas == 0) { // else it may take longer
		if own, ok := net.alone(); ok {
			if q.once(own) {
				net.cfg.User.Go(q.flush)
			}
			return
		}
	}
	net.cfg.User.Go(q.flush)
}

// send sends until the queue is empty.
func (q *slotQueue) send() {
	for q.once(nil) {
	}
}

// A call is what one run of a script needs, kept to be used again.
type call struct {
	some       [mostBatched]Request
	keys, args []string
}

var calls = sync.Pool{New: func() any { return new(call) }}

// once sends the queue, as much as one script handles, over a connection that the caller has to itself if own is not nil,
// and reports whether there is more to send. If not, the caller is not sending any more.
func (q *slotQueue) once(own *exclusive) (more bool) {
	b := q.b
	c := calls.Get().(*call)
	b.mu.Lock()
	n := copy(c.some[:], q.queue)
	left := copy(q.queue, q.queue[n:])
	clear(q.queue[left:])
	q.queue = q.queue[:left]
	b.mu.Unlock()
	if n > 0 {
		b.run(c, c.some[:n], own)
	} else if own != nil {
		b.net.direct.give(own)
	}
	clear(c.some[:n])
	clear(c.keys)
	clear(c.args)
	calls.Put(c)
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(q.queue) > 0 {
		return true
	}
	if q.sending--; q.sending == 0 {
		delete(b.slots, q.slot)
	}
	return false
}

// run sends some requests in one script. An error that the server replies with may be about the key of one of them, and must
// not harm the others: then each is sent alone.
func (b *Batcher) run(c *call, some []Request, own *exclusive) {
	c.keys, c.args = c.keys[:0], append(c.args[:0], b.batch.Common...)
	for _, r := range some {
		c.keys, c.args = r.Append(c.keys, c.args)
	}
	cmd := protocol.Command{Script: b.batch.Script, Keys: c.keys, Args: c.args}
	sent := monotonic.Now().Std()
	var result rueidis.RedisResult
	var short error
	if own != nil {
		result = b.net.direct.run(own, cmd)
	} else if b.grants {
		result, short = b.net.acquire(cmd)
	} else {
		result = b.net.run(cmd)
	}
	reply, err := result.ToMessage()
	if _, said := rueidis.IsRedisErr(err); said && len(some) > 1 {
		for i := range some {
			b.run(c, some[i:i+1], nil)
		}
		return
	}
	var all []rueidis.RedisMessage
	if err == nil && !reply.IsInt64() {
		all, err = reply.ToArray()
		if err == nil && len(all) != len(protocol.Answer{})*len(some) {
			err = fmt.Errorf("%d values in reply to %d requests", len(all), len(some))
		}
	}
	for i, r := range some {
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
		r.Answered(sent, said, err)
	}
}

// answerOf reads the next answer of a reply.
func answerOf(reply []rueidis.RedisMessage) (said protocol.Answer, err error) {
	for i := range said {
		if said[i], err = reply[i].AsInt64(); err != nil {
			return protocol.Answer{}, err
		}
	}
	return said, nil
}
