package main

import (
	"context"
	"crypto/rand"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// The scripts of a lock that keeps the promises of this layout: a lock is taken if it is free, by an owner of its own, and given up by
// that owner if no process waits in its queue, which is published on the channel of Redisson's waiters.
var (
	promisedTake = rueidis.NewLuaScript(`if redis.call('exists', unpack(KEYS)) > 0 then return redis.error_reply('not free') end
for i, key in ipairs(KEYS) do redis.call('hset', key, ARGV[i + 1], '1') redis.call('pexpire', key, ARGV[1]) end return 1`)
	promisedDrop = rueidis.NewLuaScript(`local n = #KEYS / 3
if redis.call('exists', unpack(KEYS, n + 1, 2 * n)) > 0 then return redis.error_reply('a process waits') end
for i = 1, n do if redis.call('hdel', KEYS[i], ARGV[i + 1]) == 1 then redis.call('publish', KEYS[2 * n + i], ARGV[1]) end end return 1`)
)

// mostPromised is how many requests one script of such a lock handles at most, so that the server is not kept from others.
const mostPromised = 128

// Up to fewPromised callers, each has a script of its own. More callers have partsPromised scripts under way, each for a part of them, or more where
// each is full. Before a script is sent, other goroutines run up to yieldsPromised times, until a part of the callers waits.
const (
	fewPromised    = 8
	leastPromised  = 4
	partsPromised  = 4
	fullPromised   = 8
	yieldsPromised = 4
)

// openPromising is the floor with the promises of this layout, and nothing else: its scripts are those above, and the process
// knows what it holds and since when, so that it could renew that. A caller that is alone sends on its own goroutine. Callers share scripts, and their
// senders take turns to answer, to gather and to send, as in lockgen.
func openPromising(addr string, lease time.Duration) (*client, error) {
	p, err := newPromising(addr, lease)
	if err != nil {
		return nil, err
	}
	return &client{lock: p.lock, lockAll: p.lockAll}, nil
}

func newPromising(addr string, lease time.Duration) (*promisingClient, error) {
	rc, err := rueidisClient(addr)
	if err != nil {
		return nil, err
	}
	p := &promisingClient{id: rand.Text() + rand.Text()[:10] + ":", holds: map[string]*promisedHeld{}}
	p.take = &promisingQueue{p: p, rc: rc, script: promisedTake, first: strconv.FormatInt(lease.Milliseconds(), 10)}
	p.drop = &promisingQueue{p: p, rc: rc, script: promisedDrop, first: "0", drops: true}
	return p, nil
}

// A promisingClient is a process of such a lock.
type promisingClient struct {
	id         string        // of the process, with which its owners begin
	straight   bool          // callers share no scripts
	interrupts time.Duration // after this time a script without an answer is interrupted; 0 for never
	take, drop *promisingQueue
	turn       sync.Mutex // of the senders

	mu      sync.Mutex
	owners  uint64
	callers int  // that wait for an answer
	sending int  // senders
	drops   bool // the next script gives locks up
	holds   map[string]*promisedHeld
}

func (p *promisingClient) lock(key string) (held, error) {
	h := p.promise(key)
	h.done = outcomes.Get().(chan error)
	sent := time.Now()
	if err := p.take.run(h); err != nil {
		return nil, err
	}
	p.note(sent, h)
	return h, nil
}

// promise returns what is to be held of a key, with an owner of its own.
func (p *promisingClient) promise(key string) *promisedHeld {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := &promisedHeld{p: p, key: key}
	p.name(h)
	return h
}

// name gives h an owner of its own. The caller holds p.mu.
func (p *promisingClient) name(h *promisedHeld) {
	p.owners++
	h.owner = p.id + strconv.FormatUint(p.owners, 10)
}

// note notes what was granted no earlier than at sent.
func (p *promisingClient) note(sent time.Time, all ...*promisedHeld) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range all {
		h.since = sent
		p.holds[h.owner] = h
	}
}

// lockAll locks several keys with one script, on the goroutine of the caller.
func (p *promisingClient) lockAll(keys []string) (held, error) {
	all := make(promisedAll, len(keys))
	for i, key := range keys {
		all[i] = p.promise(key)
	}
	sent := time.Now()
	if err := p.take.exec(context.Background(), all); err != nil {
		return nil, err
	}
	p.note(sent, all...)
	return &all, nil
}

// promisedAll are locks that were taken by one script.
type promisedAll []*promisedHeld

func (all *promisedAll) unlock() error {
	p := (*all)[0].p
	p.mu.Lock()
	for _, h := range *all {
		delete(p.holds, h.owner)
	}
	p.mu.Unlock()
	return p.drop.exec(context.Background(), *all)
}

func (all *promisedAll) trusted() bool { return true }

// A promisedHeld is one lock that a process holds, or asks for.
type promisedHeld struct {
	p          *promisingClient
	key, owner string
	since      time.Time
	done       chan error
}

func (h *promisedHeld) unlock() error {
	h.p.mu.Lock()
	delete(h.p.holds, h.owner)
	h.p.mu.Unlock()
	err := h.p.drop.run(h)
	outcomes.Put(h.done)
	return err
}

func (h *promisedHeld) trusted() bool { return true }

// A promisingQueue sends the requests for one script. The mutex of its client guards it.
type promisingQueue struct {
	p      *promisingClient
	rc     rueidis.Client
	script *rueidis.Lua
	first  string // argument
	drops  bool

	queue []*promisedHeld
}

// run has the script run for h.
func (q *promisingQueue) run(h *promisedHeld) error {
	p := q.p
	if p.straight {
		return q.runStraight(h)
	}
	p.mu.Lock()
	p.callers++
	if p.callers == 1 && p.sending == 0 {
		p.mu.Unlock()
		err := q.execInTime([]*promisedHeld{h})
		p.mu.Lock()
		p.callers--
		p.mu.Unlock()
		return err
	}
	q.queue = append(q.queue, h)
	if p.another() {
		p.sending++
		go p.send()
	}
	p.mu.Unlock()
	return <-h.done
}

// another reports whether one more sender begins. The caller holds p.mu.
func (p *promisingClient) another() bool {
	waiting := p.waiting()
	switch {
	case p.sending == 0 || p.sending < fullPromised && waiting >= mostPromised:
		return true
	case p.callers <= fewPromised:
		return p.sending < fewPromised
	}
	return p.sending < partsPromised && waiting >= p.part()
}

// waiting returns how many requests wait. The caller holds p.mu.
func (p *promisingClient) waiting() int { return len(p.take.queue) + len(p.drop.queue) }

// part returns for how many of the callers one script is sent. The caller holds p.mu.
func (p *promisingClient) part() int {
	return min(max(leastPromised, p.callers/partsPromised), mostPromised)
}

// send runs scripts until no request is left.
func (p *promisingClient) send() {
	p.turn.Lock()
	defer p.turn.Unlock()
	for {
		q, batch := p.gather()
		if len(batch) == 0 {
			return
		}
		p.turn.Unlock()
		err := q.execInTime(batch)
		p.turn.Lock()
		p.mu.Lock()
		p.callers -= len(batch)
		p.mu.Unlock()
		for _, h := range batch {
			h.done <- err
		}
	}
}

// gather returns the requests for the next script. If there are none, the sender ends.
func (p *promisingClient) gather() (*promisingQueue, []*promisedHeld) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range yieldsPromised {
		if p.callers <= fewPromised || p.waiting() >= p.part() {
			break
		}
		p.mu.Unlock()
		runtime.Gosched()
		p.mu.Lock()
	}
	q, other := p.take, p.drop
	if p.drops {
		q, other = other, q
	}
	if len(q.queue) == 0 {
		q = other
	}
	p.drops = !q.drops
	n := min(len(q.queue), p.part())
	if n == 0 {
		p.sending--
	}
	batch := append(make([]*promisedHeld, 0, n), q.queue[:n]...)
	q.queue = append(q.queue[:0], q.queue[n:]...)
	return q, batch
}

// execInTime sends the script for a batch, which can be interrupted if the client wants that.
func (q *promisingQueue) execInTime(batch []*promisedHeld) error {
	ctx := context.Background()
	if after := q.p.interrupts; after > 0 {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, after)
		defer cancel()
	}
	return q.exec(ctx, batch)
}

// exec sends the script for a batch.
func (q *promisingQueue) exec(ctx context.Context, batch []*promisedHeld) error {
	keys, args := make([]string, 0, 3*len(batch)), make([]string, 1, 1+len(batch))
	args[0] = q.first
	for _, h := range batch {
		keys, args = append(keys, h.key), append(args, h.owner)
	}
	if q.drops {
		for _, h := range batch {
			keys = append(keys, "lockgen_waiting:{"+h.key+"}")
		}
		for _, h := range batch {
			keys = append(keys, channelOf(h.key))
		}
	}
	return q.script.Exec(ctx, q.rc, keys, args).Error()
}
