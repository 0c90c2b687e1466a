package main

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// openHolding holds locks that nobody else wants, and renews them. Of each lock the process knows what it needs to renew it, to find it by
// its key and by the number of its owner in a message, and to end the context of its holder: an object, an entry in each of two maps, and
// one in a queue by the time of the next renewal. A holder learns of a deleted key at once: the server reports changes of keys that were
// read over one connection, and each renewal reads them after it has written them, since before Redis 7.2 the server remembers all keys
// of a script at each read of one of them. There is nothing else: no waiters, and no messages.
func openHolding(addr string, lease time.Duration) (*client, error) {
	rc, err := rueidisClient(addr)
	if err != nil {
		return nil, err
	}
	args, _ := floorArguments(lease)
	conn, _ := rc.Dedicate()
	p := &holdingClient{
		rc: rc, conn: conn, soon: make(chan struct{}, 1), lease: lease, args: args, take: newGatherer(rc, floorTakeAll, args), began: time.Now(),
		byKey: map[string]*heldOne{}, byNumber: map[uint64]*heldOne{},
	}
	conn.SetOnInvalidations(p.changed)
	if err := conn.Do(context.Background(), conn.B().ClientTracking().On().Optout().Noloop().Build()).Error(); err != nil {
		return nil, err
	}
	go func() {
		for ticks := time.Tick(lease / 60); ; {
			select {
			case <-ticks:
			case <-p.soon:
			}
			for batch := p.due(); len(batch) > 0; batch = p.due() {
				p.renewed(batch)
			}
		}
	}()
	return &client{lock: p.lock}, nil
}

const holdingRenew = `local held = {} for i, key in ipairs(KEYS) do
if redis.call('hexists', key, ARGV[1]) == 1 then held[i] = redis.call('pexpire', key, ARGV[2]) else held[i] = 0 end end return held`

const (
	// renewedAtOnce is how many locks one script renews: as many as one of lockgen.
	renewedAtOnce = 768
	// firstRead is after which time a lock is renewed first, so that the server reports its changes: when lockgen looks at it first.
	firstRead = 8 * time.Millisecond
)

type holdingClient struct {
	rc    rueidis.Client
	conn  rueidis.DedicatedClient // on which the server reports changes
	soon  chan struct{}           // a lock is due before the next tick
	lease time.Duration
	args  []string
	take  *gatherer
	began time.Time

	mu       sync.Mutex // guards the rest
	number   uint64     // of the last owner
	byKey    map[string]*heldOne
	byNumber map[uint64]*heldOne
	queue    renewals
}

// A heldOne is one lock.
type heldOne struct {
	p      *holdingClient
	key    string
	number uint64                        // of its owner
	under  context.Context               // of the caller
	done   atomic.Pointer[chan struct{}] // of its own context, made when the holder asks for that
	cause  atomic.Pointer[error]         // why it is lost, or nil
	until  atomic.Int64                  // when the trust in it ends
	next   time.Duration                 // when it is renewed; 0 for now
	at     int32                         // its index in the queue
}

func (p *holdingClient) lock(key string) (held, error) {
	sent := time.Since(p.began)
	if err := p.take.do(key); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.number++
	h := &heldOne{p: p, key: key, number: p.number, under: context.Background(), next: sent + firstRead}
	h.until.Store(int64(sent + p.lease*9/10))
	p.byKey[key], p.byNumber[h.number] = h, h
	heap.Push(&p.queue, h)
	return h, nil
}

// due returns the locks that one script renews now, and has them due again when an answer is late.
func (p *holdingClient) due() (batch []*heldOne) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Since(p.began)
	for len(batch) < renewedAtOnce && len(p.queue) > 0 && p.queue[0].next <= now+p.lease/24 {
		h := p.queue[0]
		h.next = now + p.lease/12
		heap.Fix(&p.queue, 0)
		batch = append(batch, h)
	}
	return batch
}

// renewed renews locks, and trusts those that the server has.
func (p *holdingClient) renewed(batch []*heldOne) {
	sent := time.Since(p.began)
	keys := make([]string, len(batch))
	for i, h := range batch {
		keys[i] = h.key
	}
	has, err := p.send(keys)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, h := range batch {
		switch {
		case p.byNumber[h.number] == nil: // it is unlocked
			continue
		case has[i] == 0:
			h.lose(errLost)
			continue
		}
		h.until.Store(int64(sent + p.lease*9/10))
		if h.next != 0 { // else it has changed since the answer
			h.next = sent + p.lease/3
			heap.Fix(&p.queue, int(h.at))
		}
	}
}

// send renews keys by the script, and reads them.
func (p *holdingClient) send(keys []string) ([]int64, error) {
	build := p.conn.B
	replies := p.conn.DoMulti(context.Background(), build().ClientCaching().No().Build(),
		build().Eval().Script(holdingRenew).Numkeys(int64(len(keys))).Key(keys...).Arg(p.args...).Build(), build().Exists().Key(keys...).Build())
	for _, i := range []int{0, 2} {
		if err := replies[i].Error(); err != nil {
			return nil, err
		}
	}
	return replies[1].AsIntSlice()
}

// changed has locks renewed now, of which the server says that somebody else has changed them; all of them without keys.
func (p *holdingClient) changed(keys []rueidis.RedisMessage) {
	p.mu.Lock()
	for i := range keys {
		key, _ := keys[i].ToString()
		if h := p.byKey[key]; h != nil {
			h.next = 0
			heap.Fix(&p.queue, int(h.at))
		}
	}
	if keys == nil {
		for _, h := range p.queue {
			h.next = 0
		}
	}
	p.mu.Unlock()
	select {
	case p.soon <- struct{}{}:
	default:
	}
}

var errLost = errors.New("the server does not have it")

// lose ends the lock, and the context of its holder, if that has asked for it. The caller holds p.mu.
func (h *heldOne) lose(cause error) {
	if h.cause.CompareAndSwap(nil, &cause) {
		if done := h.done.Load(); done != nil {
			close(*done)
		}
	}
}

func (h *heldOne) trusted() bool {
	return h.cause.Load() == nil && int64(time.Since(h.p.began)) < h.until.Load()
}

func (h *heldOne) unlock() error {
	h.p.mu.Lock()
	delete(h.p.byKey, h.key)
	delete(h.p.byNumber, h.number)
	heap.Remove(&h.p.queue, int(h.at))
	h.p.mu.Unlock()
	return floorDrop.Exec(context.Background(), h.p.rc, []string{h.key}, h.p.args[:1]).Error()
}

// renewals is a heap of locks by the time of their next renewal.
type renewals []*heldOne

func (q renewals) Len() int           { return len(q) }
func (q renewals) Less(i, j int) bool { return q[i].next < q[j].next }

func (q renewals) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].at, q[j].at = int32(i), int32(j)
}

func (q *renewals) Push(x any) {
	h := x.(*heldOne) //nolint:forcetypeassert // nothing else is pushed
	h.at = int32(len(*q))
	*q = append(*q, h)
}

func (q *renewals) Pop() any {
	old := *q
	h := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return h
}
