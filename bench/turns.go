package main

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// takingTurns is the experiment of S4: processes take turns with one key, and the goroutines of the process whose turn it is pass the key on.
const takingTurns = "floor that takes turns"

// turnLength is after how many acquisitions a process gives the key to the next one: as many as one of lockgen, by its default.
const turnLength = 128

// The answers of the script that ends a turn.
const (
	turnOver = iota // another process has the key, or nobody
	turnNext        // another process has the key, and this one stands in the wait queue again
	turnKept        // no other process wants it
)

func openTurns(addr string, lease time.Duration) (*client, error) {
	p, err := newTurns(addr, lease)
	if err != nil {
		return nil, err
	}
	return &client{lock: p.lock}, nil
}

// A turnsClient is a process of a lock of one key that many goroutines of several processes want without a pause. It has the two commands that take
// and hand over such a key, and the message of the hand-over: a script to lock, which stands in the wait queue if the key is not free, and one that
// ends the turn of a process, which gives the key to the first of the queue, sends the process of the first a message, and stands in the queue
// again for the goroutines that wait here. They pass the key on among themselves, first come, first served.
//
// It promises that one goroutine has the key at a time, and that goroutines and processes have the key in the order in which they came. It
// promises nothing else: no renewal, no lease for a goroutine, no context that ends, no tokens, no waiters of Redisson, and nothing is ever lost.
type turnsClient struct {
	rc         rueidis.Client
	args       [2]string // the channel of the process, which is its owner as well, and the lease
	take, pass *rueidis.Lua
	callers    atomic.Int64  // that have the key or wait for it
	granted    chan struct{} // gets a value when another process has handed the key over

	turn   chan struct{} // of the goroutines; guards the rest
	keys   []string      // the key and its wait queue
	left   int           // how many acquisitions the turn of the process has left; 0 without the key
	queued bool          // the process stands in the wait queue
}

func newTurns(addr string, lease time.Duration) (*turnsClient, error) {
	rc, err := rueidisClient(addr)
	if err != nil {
		return nil, err
	}
	p := &turnsClient{
		rc: rc, args: [2]string{"lockgen_process:" + rand.Text() + rand.Text()[:10], strconv.FormatInt(lease.Milliseconds(), 10)},
		turn: make(chan struct{}, 1), granted: make(chan struct{}, 1),
		take: rueidis.NewLuaScript(`if redis.call('exists', KEYS[1]) == 0 then
redis.call('hset', KEYS[1], ARGV[1], '1') redis.call('pexpire', KEYS[1], ARGV[2]) return 1 end
redis.call('rpush', KEYS[2], ARGV[1]) return 0`),
		pass: rueidis.NewLuaScript(`if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return redis.error_reply('not held') end
local next = redis.call('lpop', KEYS[2])
if not next and ARGV[3] == '1' then redis.call('pexpire', KEYS[1], ARGV[2]) return 2 end
redis.call('del', KEYS[1]) if not next then return 0 end
redis.call('hset', KEYS[1], next, '1') redis.call('pexpire', KEYS[1], ARGV[2]) redis.call('publish', next, '')
if ARGV[3] == '0' then return 0 end redis.call('rpush', KEYS[2], ARGV[1]) return 1`),
	}
	p.turn <- struct{}{}
	if err := listen(rc, p.args[0], func(rueidis.PubSubMessage) { p.granted <- struct{}{} }); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *turnsClient) lock(key string) (held, error) {
	p.callers.Add(1)
	<-p.turn
	if p.left > 0 {
		return p, nil
	}
	if len(p.keys) == 0 || p.keys[0] != key {
		p.keys = []string{key, key + ":waiting"}
	}
	if !p.queued {
		free, err := p.take.Exec(context.Background(), p.rc, p.keys, p.args[:]).AsInt64()
		if err != nil {
			p.callers.Add(-1)
			p.turn <- struct{}{}
			return nil, err
		}
		p.queued = free == 0
	}
	if p.queued {
		<-p.granted
		p.queued = false
	}
	p.left = turnLength
	return p, nil
}

func (p *turnsClient) unlock() (err error) {
	again := "0"
	if p.callers.Add(-1) > 0 {
		again = "1"
	}
	if p.left--; p.left == 0 || again == "0" {
		err = p.endTurn(again)
	}
	p.turn <- struct{}{}
	return err
}

// endTurn ends the turn of the process, which has another one after those of the others if again is 1.
func (p *turnsClient) endTurn(again string) error {
	p.left = 0
	answer, err := p.pass.Exec(context.Background(), p.rc, p.keys, []string{p.args[0], p.args[1], again}).AsInt64()
	switch {
	case err != nil:
		return err
	case answer == turnOver:
	case answer == turnNext:
		p.queued = true
	case answer == turnKept:
		p.left = turnLength
	default:
		return errors.New("no such answer")
	}
	return nil
}

func (p *turnsClient) trusted() bool { return true }
