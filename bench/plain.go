package main

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// The locks in this file are no libraries: the lock of many articles, and the way in which Redisson
// locks.

const (
	basic    = "basic"
	redisson = "Redisson's way"
	ports    = "Redisson's way in Go ports"
)

// openBasic is SET NX PX, and compare and delete. It tries once, since such a lock has no wait
// queue.
func openBasic(addr string, lease time.Duration) (*client, error) {
	rc, err := rueidisClient(addr)
	if err != nil {
		return nil, err
	}
	drop := rueidis.NewLuaScript(`if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`)
	return &client{lock: func(key string) (held, error) {
		value := rand.Text()
		if err := rc.Do(context.Background(), rc.B().Set().Key(key).Value(value).Nx().Px(lease).Build()).Error(); err != nil {
			return nil, err
		}
		return &basicHeld{rc, drop, key, value}, nil
	}}, nil
}

type basicHeld struct {
	rc         rueidis.Client
	drop       *rueidis.Lua
	key, value string
}

func (h *basicHeld) unlock() error {
	return h.drop.Exec(context.Background(), h.rc, []string{h.key}, []string{h.value}).Error()
}
func (h *basicHeld) trusted() bool { return true }

// openRedisson is RLock as Redisson implements it. A waiter listens on a channel of the key, to which a process has one
// subscription. A release publishes there, which wakes one waiter in each process, and these race for the key. It
// leaves out everything that would only slow it down here: renewal, and counting of re-entries. Ports of it to Go wake
// all waiters, each by a subscription of its own; here the waiters share one.
func openRedisson(all bool) func(addr string, lease time.Duration) (*client, error) {
	return func(addr string, lease time.Duration) (*client, error) { return newRedisson(addr, lease, all) }
}

func newRedisson(addr string, lease time.Duration, all bool) (*client, error) {
	rc, err := rueidisClient(addr)
	if err != nil {
		return nil, err
	}
	r := &redissonClient{
		rc: rc, all: all, id: rand.Text(), ms: strconv.FormatInt(lease.Milliseconds(), 10), entries: map[string]*redissonEntry{},
		take: rueidis.NewLuaScript(`if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
redis.call('hincrby', KEYS[1], ARGV[2], 1) redis.call('pexpire', KEYS[1], ARGV[1]) return nil end return redis.call('pttl', KEYS[1])`),
		drop: rueidis.NewLuaScript(`if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return nil end
if redis.call('hincrby', KEYS[1], ARGV[2], -1) > 0 then redis.call('pexpire', KEYS[1], ARGV[1]) return 0 end
redis.call('del', KEYS[1]) redis.call('publish', KEYS[2], 0) return 1`),
	}
	return &client{lock: r.lock}, nil
}

type redissonClient struct {
	rc         rueidis.Client
	all        bool // a message wakes all waiters
	id, ms     string
	take, drop *rueidis.Lua
	threads    atomic.Int64

	mu      sync.Mutex
	entries map[string]*redissonEntry
}

// A redissonEntry is the one subscription of a process to the channel of a key.
type redissonEntry struct {
	users int
	wake  chan struct{} // a token for each waiter to wake
	ready chan struct{}
	end   context.CancelFunc
}

func channelOf(key string) string { return "redisson_lock__channel:{" + key + "}" }

func (r *redissonClient) lock(key string) (held, error) {
	owner := r.id + ":" + strconv.FormatInt(r.threads.Add(1), 10)
	got := &redissonHeld{r, key, owner}
	free, _, err := r.try(key, owner)
	if err != nil || free {
		return got, err
	}
	e := r.enter(key)
	defer r.leave(key, e)
	<-e.ready
	for {
		free, ttl, err := r.try(key, owner)
		if err != nil || free {
			return got, err
		}
		over := time.NewTimer(ttl)
		select {
		case <-e.wake:
		case <-over.C:
		}
		over.Stop()
	}
}

func (r *redissonClient) try(key, owner string) (free bool, ttl time.Duration, err error) {
	ms, err := r.take.Exec(context.Background(), r.rc, []string{key}, []string{r.ms, owner}).AsInt64()
	if rueidis.IsRedisNil(err) {
		return true, 0, nil
	}
	return false, time.Duration(ms) * time.Millisecond, err
}

func (r *redissonClient) enter(key string) *redissonEntry {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[key]
	if e == nil {
		ctx, end := context.WithCancel(context.Background())
		e = &redissonEntry{wake: make(chan struct{}, 1<<16), ready: make(chan struct{}), end: end}
		var once sync.Once
		hook := rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) { once.Do(func() { close(e.ready) }) })
		go func() {
			_ = r.rc.Receive(hook, r.rc.B().Subscribe().Channel(channelOf(key)).Build(), func(rueidis.PubSubMessage) {
				n := 1
				if r.all {
					r.mu.Lock()
					n = e.users
					r.mu.Unlock()
				}
				for range n {
					select {
					case e.wake <- struct{}{}:
					default:
					}
				}
			})
		}()
		r.entries[key] = e
	}
	e.users++
	return e
}

func (r *redissonClient) leave(key string, e *redissonEntry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.users--; e.users == 0 {
		delete(r.entries, key)
		e.end()
	}
}

type redissonHeld struct {
	r          *redissonClient
	key, owner string
}

func (h *redissonHeld) unlock() error {
	err := h.r.drop.Exec(context.Background(), h.r.rc, []string{h.key, channelOf(h.key)}, []string{h.r.ms, h.owner}).Error()
	if rueidis.IsRedisNil(err) {
		return errors.New("not the holder")
	}
	return err
}
func (h *redissonHeld) trusted() bool { return true }
