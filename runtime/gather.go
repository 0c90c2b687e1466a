package lockrt

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A request is one of many that one run of a script deals with, each independently of the others.
type request interface {
	// about is the key that it is about.
	about() string
	// words appends the keys and the arguments of the request to those before it.
	words(keys, args []string) (allKeys, allArgs []string)
	// answered is told what the script replied, or why there is no reply. It was sent after the time
	// sent. It does not block.
	answered(sent time.Time, reply protocol.Answer, err error)
}

// mostGathered is how many requests one script deals with at most: enough to make the round trip
// cheap, few enough that the server is not kept from others for longer than a fraction of a millisecond.
const mostGathered = 128

// A gatherer sends requests for one script. While a script is under way, those that come meanwhile gather
// and go together. So one who is alone does not wait for company, and a crowd shares the cost of the trip,
// of the command and of the call into Lua, which are most of what locking a free key costs.
//
// In a cluster those gather whose keys are in one slot, since no script may have others, and nobody waits for
// another slot, whose server may be ill.
type gatherer struct {
	c      *Client
	batch  protocol.Batch
	grants bool // what it is answered may have to be confirmed

	mu    sync.Mutex       // guards the rest, and the lanes
	one   lane             // of all requests, unless there is one for each slot
	lanes map[uint16]*lane // of slots with something to send; nil unless the server is a cluster
}

// A lane is where those gather that can go together.
type lane struct {
	g       *gatherer
	slot    uint16
	flush   func() // send, as a value
	queue   []request
	added   int // how many submitAll adds to the queue
	sending int // scripts under way, or about to be
}

// There is a second script under way when a few requests have gathered, so that the server does not wait for the
// client, nor the client for the server; and more when as many have gathered as one can take: then they are not
// to wait for the answer to others.
const (
	few         = 4
	mostSending = 8
)

func newGatherer(c *Client, batch protocol.Batch) *gatherer {
	g := &gatherer{c: c, batch: batch}
	g.one.g = g
	g.one.flush = g.one.send
	if c.cluster != nil {
		g.lanes = make(map[uint16]*lane)
	}
	return g
}

// lane returns where r gathers.
func (g *gatherer) lane(r request) *lane {
	if g.lanes == nil {
		return &g.one
	}
	n := protocol.Slot(r.about())
	l := g.lanes[n]
	if l == nil {
		l = &lane{g: g, slot: n}
		l.flush = l.send
		g.lanes[n] = l
	}
	return l
}

// submit sends r, soon. here says that the caller may be kept until it was answered, if it is sent at
// once and alone: that spares the change to another goroutine and back.
func (g *gatherer) submit(r request, here bool) {
	g.mu.Lock()
	l := g.lane(r)
	l.queue = append(l.queue, r)
	start, alone := l.begin(1)
	g.mu.Unlock()
	l.start(start, here && alone)
}

// submitAll sends all of rs, soon, in one script unless they are very many, or in different slots: none of them is sent
// before all have gathered. here is as with submit, if there is one slot.
func (g *gatherer) submitAll(rs []request, here bool) {
	if len(rs) == 0 {
		return
	}
	var room [1]*lane
	to := room[:0]
	g.mu.Lock()
	for _, r := range rs {
		l := g.lane(r)
		l.queue = append(l.queue, r)
		if l.added++; l.added == 1 {
			to = append(to, l)
		}
	}
	here = here && len(to) == 1
	to = slices.DeleteFunc(to, func(l *lane) bool {
		start, alone := l.begin(l.added)
		l.added, here = 0, here && alone
		return !start
	})
	g.mu.Unlock()
	for _, l := range to {
		l.start(true, here)
	}
}

// begin reports whether what is in the queue is to be sent now, and not by somebody who does so already, and
// whether that is no more than the n requests of the caller.
func (l *lane) begin(n int) (start, alone bool) {
	if alone = l.sending == 0 && len(l.queue) == n; !alone {
		l.g.c.direct.meet()
	}
	start = l.sending == 0 || l.sending == 1 && len(l.queue) >= few || l.sending < mostSending && len(l.queue) >= mostGathered
	if start {
		l.sending++
	}
	return start, alone
}

// start sends what is in the queue, if that is to be, here or elsewhere.
func (l *lane) start(start, here bool) {
	if !start {
		return
	}
	if here && (!l.g.grants || l.g.c.opts.Replicas == 0) { // else it may take longer
		if own, ok := l.g.c.alone(); ok {
			if l.once(own) {
				l.g.c.spawn(l.flush)
			}
			return
		}
	}
	l.g.c.spawn(l.flush)
}

// send sends until nothing is left to send.
func (l *lane) send() {
	for l.once(nil) {
	}
}

// A batch is what one run of a script needs, kept to be used again.
type batch struct {
	some       [mostGathered]request
	keys, args []string
}

var batches = sync.Pool{New: func() any { return new(batch) }}

// once sends what has gathered, as much as one script takes, over a connection that the caller has to itself if own is not nil,
// and reports whether there is more to send. If not, the caller is not sending any more.
func (l *lane) once(own *privateLine) (more bool) {
	g := l.g
	b := batches.Get().(*batch)
	g.mu.Lock()
	n := copy(b.some[:], l.queue)
	left := copy(l.queue, l.queue[n:])
	clear(l.queue[left:])
	l.queue = l.queue[:left]
	g.mu.Unlock()
	if n > 0 {
		g.run(b, b.some[:n], own)
	} else if own != nil {
		g.c.direct.give(own)
	}
	clear(b.some[:n])
	clear(b.keys)
	clear(b.args)
	batches.Put(b)
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(l.queue) > 0 {
		return true
	}
	if l.sending--; l.sending == 0 {
		delete(g.lanes, l.slot)
	}
	return false
}

// run sends some requests in one script. An error that the server answers with may be about the key of
// one of them, and must not harm the others: then each is sent alone.
func (g *gatherer) run(b *batch, some []request, own *privateLine) {
	b.keys, b.args = b.keys[:0], append(b.args[:0], g.batch.Common...)
	for _, r := range some {
		b.keys, b.args = r.words(b.keys, b.args)
	}
	cmd := protocol.Command{Script: g.batch.Script, Keys: b.keys, Args: b.args}
	sent := now()
	var result rueidis.RedisResult
	var short error
	if own != nil {
		result = g.c.direct.run(own, cmd)
	} else if g.grants {
		result, short = g.c.acquire(cmd)
	} else {
		result = g.c.run(cmd)
	}
	reply, err := result.ToMessage()
	if _, said := rueidis.IsRedisErr(err); said && len(some) > 1 {
		for i := range some {
			g.run(b, some[i:i+1], nil)
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
		r.answered(sent, said, err)
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
