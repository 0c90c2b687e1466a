package main

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// The clients of this file are experiments, and no locks that a program could use: each does what a goal needs, and nothing else. Where
// one of them misses a goal, no lock of this layout can reach it here.

const (
	cancellable    = "floor cancellable"
	gathering      = "floor gathered"
	promising      = "floor promised"
	publishing     = "floor that publishes"
	undisturbed    = "floor undisturbed"
	passing        = "floor handed over"
	passingLingers = "floor that lingers"
	holdingFloor   = "floor that holds"
)

// floors are the experiments.
var floors = []library{
	{name: cancellable, plain: true, bare: true, open: openCancellable},
	{name: gathering, plain: true, bare: true, open: openGathering},
	{name: promising, plain: true, bare: true, open: openPromising},
	{name: inFull, plain: true, bare: true, open: openInFull},
	{name: straight, plain: true, bare: true, open: openStraight},
	{name: publishing, plain: true, bare: true, open: openPublishing},
	{name: announcing, plain: true, bare: true, open: openAnnouncing},
	{name: undisturbed, plain: true, bare: true, open: openUndisturbed},
	{name: passing, plain: true, bare: true, open: openPassing(false)},
	{name: sharing, plain: true, bare: true, open: openSharing(false)},
	{name: looking, plain: true, bare: true, open: openSharing(true)},
	{name: waitingFloor, plain: true, bare: true, open: openWaiting},
	{name: passingLingers, plain: true, bare: true, lingers: true, open: openPassing(true)},
	{name: holdingFloor, plain: true, bare: true, renews: true, reads: true, open: openHolding},
	{name: recording, plain: true, bare: true, open: openRecording},
	{name: counted, plain: true, bare: true, open: openCounting},
	{name: takingTurns, plain: true, bare: true, open: openTurns},
}

// openCancellable is the floor, but each call has a context that can end, as a call has whose request is sent again over another
// connection when its answer is late.
func openCancellable(addr string, lease time.Duration) (*client, error) {
	rc, err := rueidisClient(addr)
	if err != nil {
		return nil, err
	}
	takes, drops := floorArguments(lease)
	exec := func(script *rueidis.Lua, keys, args []string) error {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		return script.Exec(ctx, rc, keys, args).Error()
	}
	unlock := func(keys []string) error { return exec(floorDrop, keys, drops) }
	return &client{lock: func(key string) (held, error) {
		keys := []string{key}
		if err := exec(floorTake, keys, takes); err != nil {
			return nil, err
		}
		return &floorHeld{unlock, keys}, nil
	}}, nil
}

// openGathering is the floor, but what callers ask for while a script is under way goes together in the next one. One goroutine sends
// all that locks, and one all that unlocks.
func openGathering(addr string, lease time.Duration) (*client, error) {
	rc, err := rueidisClient(addr)
	if err != nil {
		return nil, err
	}
	takes, drops := floorArguments(lease)
	take, drop := newGatherer(rc, floorTakeAll, takes), newGatherer(rc, floorDropAll, drops)
	unlock := func(keys []string) error { return drop.do(keys[0]) }
	return &client{lock: func(key string) (held, error) {
		if err := take.do(key); err != nil {
			return nil, err
		}
		return &floorHeld{unlock, []string{key}}, nil
	}}, nil
}

// A gatherer runs one script for the keys of many callers.
type gatherer struct {
	rc     rueidis.Client
	script *rueidis.Lua
	args   []string

	mu      sync.Mutex
	queue   []gathered
	sending bool
}

// A gathered key is one of those that a script handles, with the place for its outcome.
type gathered struct {
	key  string
	done chan error
}

var outcomes = sync.Pool{New: func() any { return make(chan error, 1) }}

func newGatherer(rc rueidis.Client, script *rueidis.Lua, args []string) *gatherer {
	return &gatherer{rc: rc, script: script, args: args}
}

// do has the script run for a key.
func (g *gatherer) do(key string) error {
	done := outcomes.Get().(chan error)
	g.mu.Lock()
	g.queue = append(g.queue, gathered{key, done})
	first := !g.sending
	g.sending = true
	g.mu.Unlock()
	if first {
		go g.send()
	}
	err := <-done
	outcomes.Put(done)
	return err
}

// send runs the script until no key is left.
func (g *gatherer) send() {
	var batch []gathered
	var keys []string
	for {
		g.mu.Lock()
		batch, g.queue = g.queue, batch[:0]
		g.sending = len(batch) > 0
		g.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		keys = keys[:0]
		for _, x := range batch {
			keys = append(keys, x.key)
		}
		err := g.script.Exec(context.Background(), g.rc, keys, g.args).Error()
		for _, x := range batch {
			x.done <- err
		}
	}
}

// openPublishing is the floor for several keys, but each unlock is published on a channel of the key: Redisson's waiters learn of it by
// nothing else.
func openPublishing(addr string, lease time.Duration) (*client, error) {
	rc, err := rueidisClient(addr)
	if err != nil {
		return nil, err
	}
	takes, drops := floorArguments(lease)
	drop := rueidis.NewLuaScript(`local n = #KEYS / 2
for i = 1, n do redis.call('hdel', KEYS[i], ARGV[1]) redis.call('publish', KEYS[n + i], '0') end return 1`)
	unlock := func(keys []string) error {
		all := make([]string, 0, 2*len(keys))
		all = append(all, keys...)
		for _, key := range keys {
			all = append(all, channelOf(key))
		}
		return drop.Exec(context.Background(), rc, all, drops).Error()
	}
	lockAll := func(keys []string) (held, error) {
		if err := floorTakeAll.Exec(context.Background(), rc, keys, takes).Error(); err != nil {
			return nil, err
		}
		return &floorHeld{unlock, keys}, nil
	}
	return &client{lockAll: lockAll, lock: func(key string) (held, error) { return lockAll([]string{key}) }}, nil
}

const passOn = `if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then return 0 end local next = redis.call('lpop', KEYS[2])
if next then local now = redis.call('time') redis.call('hset', KEYS[1], next, '1') redis.call('pexpire', KEYS[1], ARGV[2])
redis.call('publish', next, 'granted ' .. now[1] .. now[2] .. ' of lock ' .. KEYS[1]) end return 1`

// openPassing is a lock that one process hands over to the next: a script to lock, which stands in the wait queue if the key is not
// free, and one to unlock, which gives the key to the first of the queue if the caller has it, and sends the process of the first a message
// with the time of the server: a lease that nobody asked for a moment ago is trusted from then on. A lingering one does not
// unlock before another process wants the key. It has no more than two processes need: no renewal, no tokens, and nothing is ever lost.
func openPassing(lingers bool) func(addr string, lease time.Duration) (*client, error) {
	return func(addr string, lease time.Duration) (*client, error) {
		rc, err := rueidisClient(addr)
		if err != nil {
			return nil, err
		}
		p := &passingClient{
			rc: rc, channel: "lockgen_process:" + rand.Text() + rand.Text()[:10], lingers: lingers, waiting: map[string]chan struct{}{}, ms: strconv.FormatInt(lease.Milliseconds(), 10),
			take: rueidis.NewLuaScript(`local holder = redis.call('hkeys', KEYS[1])[1]
if not holder then redis.call('hset', KEYS[1], ARGV[1], '1') redis.call('pexpire', KEYS[1], ARGV[2]) return 1 end
redis.call('rpush', KEYS[2], ARGV[1]) redis.call('publish', holder, 'wanted ' .. KEYS[1]) return 0`),
			drop: rueidis.NewLuaScript(passOn),
		}
		if err := listen(rc, p.channel, p.hear); err != nil {
			return nil, err
		}
		return &client{lock: p.lock}, nil
	}
}

// listen subscribes to a channel over a connection of its own, and calls hear for each message, on the goroutine that reads them.
func listen(rc rueidis.Client, channel string, hear func(rueidis.PubSubMessage)) error {
	conn, _ := rc.Dedicate()
	conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: hear})
	return conn.Do(context.Background(), conn.B().Subscribe().Channel(channel).Build()).Error()
}

// A passingClient is a process of such a lock. One that lingers locks one key at a time.
type passingClient struct {
	rc         rueidis.Client
	channel    string // of this process, which is its owner as well
	ms         string
	lingers    bool
	take, drop *rueidis.Lua

	mu      sync.Mutex
	waiting map[string]chan struct{} // by the keys that the process waits for: gets a value when another process has handed the key over
	resting atomic.Bool              // a key lingers
	wanted  atomic.Bool              // by another process, as long as the key is held here
}

func (p *passingClient) lock(key string) (held, error) {
	h := &passingHeld{p, []string{key, key + ":waiting"}}
	mine := make(chan struct{}, 1)
	p.mu.Lock()
	p.waiting[key] = mine
	p.mu.Unlock()
	free, err := p.take.Exec(context.Background(), p.rc, h.keys, []string{p.channel, p.ms}).AsInt64()
	if err == nil && free == 0 {
		<-mine
	}
	p.mu.Lock()
	delete(p.waiting, key)
	p.mu.Unlock()
	return h, err
}

// hear handles a message on the goroutine that reads it.
func (p *passingClient) hear(m rueidis.PubSubMessage) {
	key, wanted := strings.CutPrefix(m.Message, "wanted ")
	if !wanted {
		_, key, _ = strings.Cut(key, " of lock ")
		p.mu.Lock()
		defer p.mu.Unlock()
		p.waiting[key] <- struct{}{}
		return
	}
	p.wanted.Store(true)
	if p.resting.CompareAndSwap(true, false) {
		_ = p.pass([]string{key, key + ":waiting"}) // the process that waits is the one that notices
	}
}

func (p *passingClient) pass(keys []string) error {
	p.wanted.Store(false)
	return p.drop.Exec(context.Background(), p.rc, keys, []string{p.channel, p.ms}).Error()
}

type passingHeld struct {
	p    *passingClient
	keys []string
}

func (h *passingHeld) unlock() error {
	if h.p.lingers {
		h.p.resting.Store(true)
		if !h.p.wanted.Load() || !h.p.resting.CompareAndSwap(true, false) {
			return nil
		}
	}
	return h.p.pass(h.keys)
}

func (h *passingHeld) trusted() bool { return true }

// openUndisturbed passes on a key among the goroutines of a process, first come, first served, without a word to the server. A goroutine
// that nobody of its process waits behind calls the scripts of the floor, for a key that no other process wants.
func openUndisturbed(addr string, lease time.Duration) (*client, error) {
	alone, err := openFloor(addr, lease)
	if err != nil {
		return nil, err
	}
	token, own := make(chan struct{}, 1), rand.Text()
	token <- struct{}{}
	var callers atomic.Int64
	return &client{lock: func(key string) (held, error) {
		busy := callers.Add(1) > 1
		<-token
		h := &undisturbedHeld{done: func() { callers.Add(-1); token <- struct{}{} }}
		if busy {
			return h, nil
		}
		var err error
		if h.alone, err = alone.lock(key + own); err != nil {
			h.done()
		}
		return h, err
	}}, nil
}

type undisturbedHeld struct {
	alone held // by the server, or nil
	done  func()
}

func (h *undisturbedHeld) unlock() (err error) {
	if h.alone != nil {
		err = h.alone.unlock()
	}
	h.done()
	return err
}

func (h *undisturbedHeld) trusted() bool { return true }
