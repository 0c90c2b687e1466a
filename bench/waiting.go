package main

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// waitingFloor is the experiment of S7.
const waitingFloor = "floor that waits"

// A waiter asks again after lookAgain, in case a message was lost. One script has as many requests as one of lockgen.
const (
	lookAgain      = 30 * time.Second
	reviewedAtOnce = 512
)

// The scripts of a lock whose waiters have a place of their own in the wait queue, which names the process and a number.
var (
	waitingTake = rueidis.NewLuaScript(`local has, n = {}, #KEYS / 2
for i = 1, n do local lock, line, owner = KEYS[i], KEYS[n + i], ARGV[i + 1] local holder = redis.call('hkeys', lock)[1]
if not holder then redis.call('hset', lock, owner, '1') redis.call('pexpire', lock, ARGV[1]) has[i] = 1
elseif holder == owner then has[i] = 1
else has[i] = 0 if not redis.call('lpos', line, owner) then redis.call('rpush', line, owner) end end end return has`)
	waitingDrop = rueidis.NewLuaScript(`if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then return redis.error_reply('not held') end
local next = redis.call('lpop', KEYS[2]) if next then local channel, n = string.match(next, '^(.*):(%d+)$')
redis.call('hset', KEYS[1], next, '1') redis.call('pexpire', KEYS[1], ARGV[2])
redis.call('publish', channel, 'granted ' .. n .. ' of lock ' .. KEYS[1]) end return 1`)
)

// openWaiting is a lock for many goroutines that wait. Of each the process knows its key, the number of its place in the queue, by which
// a message finds it, when it asks again, and the channel on which the goroutine waits. It has a lease once it is served: with the context of
// its caller and a place for its own, which a lost lease would end. There is nothing else: no renewal, no time limit and no cancelled calls.
func openWaiting(addr string, lease time.Duration) (*client, error) {
	rc, err := rueidisClient(addr)
	if err != nil {
		return nil, err
	}
	p := &waitingClient{
		rc: rc, channel: "lockgen_process:" + rand.Text() + rand.Text()[:10], lease: lease, ms: strconv.FormatInt(lease.Milliseconds(), 10),
		began: time.Now(), waiters: map[uint64]*waitingOne{}, held: map[uint64]*waitingHeld{},
	}
	if err := listen(rc, p.channel, p.hear); err != nil {
		return nil, err
	}
	go func() {
		for range time.Tick(lookAgain / 10) {
			p.look()
		}
	}()
	return &client{lock: p.lock}, nil
}

// A waitingClient is a process of such a lock.
type waitingClient struct {
	rc      rueidis.Client
	channel string // of the process, with which its owners begin
	lease   time.Duration
	ms      string
	began   time.Time

	mu      sync.Mutex // guards the rest
	number  uint64     // of the last owner
	waiters map[uint64]*waitingOne
	held    map[uint64]*waitingHeld
	looks   []*waitingOne // those that ask again, in the order of the times; some are served meanwhile
	asks    []*waitingOne // those whose requests are to be sent
	asking  bool
}

// A waitingOne is a goroutine that waits.
type waitingOne struct {
	key    string
	number uint64
	again  time.Duration // when it asks again
	served chan struct{}
}

// A waitingHeld is a lease.
type waitingHeld struct {
	p      *waitingClient
	key    string
	number uint64
	under  context.Context // of the caller
	until  time.Duration   // when the trust in it ends
}

func (p *waitingClient) owner(number uint64) string {
	return p.channel + ":" + strconv.FormatUint(number, 10)
}

func (p *waitingClient) lock(key string) (held, error) {
	w := &waitingOne{key: key, served: make(chan struct{}, 1)}
	p.mu.Lock()
	p.number++
	w.number = p.number
	p.waiters[w.number] = w
	p.ask(w)
	p.mu.Unlock()
	<-w.served
	h := &waitingHeld{p: p, key: key, number: w.number, under: context.Background(), until: time.Since(p.began) + p.lease}
	p.mu.Lock()
	p.held[h.number] = h
	p.mu.Unlock()
	return h, nil
}

// ask has the request of w sent, together with others. The caller holds p.mu.
func (p *waitingClient) ask(w *waitingOne) {
	p.asks = append(p.asks, w)
	if !p.asking {
		p.asking = true
		go p.send()
	}
}

// send sends requests until there are no more.
func (p *waitingClient) send() {
	for {
		p.mu.Lock()
		batch := append([]*waitingOne(nil), p.asks[:min(len(p.asks), reviewedAtOnce)]...)
		if p.asks = p.asks[len(batch):]; len(batch) == 0 {
			p.asking, p.asks = false, nil
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		keys, args := make([]string, 2*len(batch)), make([]string, 1, 1+len(batch))
		args[0] = p.ms
		for i, w := range batch {
			keys[i], keys[len(batch)+i], args = w.key, waitingLine(w.key), append(args, p.owner(w.number))
		}
		has, err := waitingTake.Exec(context.Background(), p.rc, keys, args).AsIntSlice()
		p.mu.Lock()
		for i, w := range batch {
			if err == nil && has[i] == 1 {
				p.serve(w.number)
				continue
			}
			w.again = time.Since(p.began) + lookAgain
			p.looks = append(p.looks, w)
		}
		p.mu.Unlock()
	}
}

func waitingLine(key string) string { return "lockgen_waiting:{" + key + "}" }

// look has the waiters ask again whose time has come.
func (p *waitingClient) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, n := time.Since(p.began), 0
	for ; n < len(p.looks) && p.looks[n].again <= now; n++ {
		if w := p.looks[n]; p.waiters[w.number] == w {
			p.ask(w)
		}
	}
	p.looks = append(p.looks[:0], p.looks[n:]...)
}

// serve ends the wait of the goroutine with a number. The caller holds p.mu.
func (p *waitingClient) serve(number uint64) {
	if w := p.waiters[number]; w != nil {
		delete(p.waiters, number)
		w.served <- struct{}{}
	}
}

// hear handles a message on the goroutine that reads it.
func (p *waitingClient) hear(m rueidis.PubSubMessage) {
	text, _ := strings.CutPrefix(m.Message, "granted ")
	text, _, _ = strings.Cut(text, " ")
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serve(number)
}

func (h *waitingHeld) unlock() error {
	p := h.p
	p.mu.Lock()
	delete(p.held, h.number)
	p.mu.Unlock()
	return waitingDrop.Exec(context.Background(), p.rc, []string{h.key, waitingLine(h.key)}, []string{p.owner(h.number), p.ms}).Error()
}

func (h *waitingHeld) trusted() bool { return time.Since(h.p.began) < h.until }
