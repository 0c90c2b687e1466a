package main

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// announcing is the experiment for many clients that want one RWMutex: see openAnnouncing.
const announcing = "floor announced"

// turns are the turns of all clients of this process for each key.
var turns sync.Map // of channels with room for one

// openAnnouncing is the floor, but each unlock is published on the channel of the key, to which every client listens: that is how a
// program of Redisson and a waiter learn of it. This process decides which client is next, without a request: a client that has its
// turn calls the two scripts once.
func openAnnouncing(addr string, lease time.Duration) (*client, error) {
	rc, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true, PipelineMultiplex: -1,
		ReadBufferEachConn: 32 << 10, WriteBufferEachConn: 32 << 10, RingScaleEachConn: 8, // there are hundreds of clients
	})
	if err != nil {
		return nil, err
	}
	takes, drops := floorArguments(lease)
	conn, _ := rc.Dedicate()
	conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}})
	var mu sync.Mutex
	listens := map[string]bool{}
	listen := func(key string) error {
		mu.Lock()
		defer mu.Unlock()
		if listens[key] {
			return nil
		}
		err := conn.Do(context.Background(), conn.B().Subscribe().Channel(channelOf(key)).Build()).Error()
		listens[key] = err == nil
		return err
	}
	return &client{lock: func(key string) (held, error) {
		if err := listen(key); err != nil {
			return nil, err
		}
		first := make(chan struct{}, 1)
		first <- struct{}{}
		turn, _ := turns.LoadOrStore(key, first)
		next := turn.(chan struct{})
		<-next
		if err := floorTake.Exec(context.Background(), rc, []string{key}, takes).Error(); err != nil {
			next <- struct{}{}
			return nil, err
		}
		return &announcedHeld{next, func() error {
			return dropAndSay.Exec(context.Background(), rc, []string{key, channelOf(key)}, drops).Error()
		}}, nil
	}}, nil
}

var dropAndSay = rueidis.NewLuaScript(`redis.call('hdel', KEYS[1], ARGV[1]) redis.call('publish', KEYS[2], '0') return 1`)

type announcedHeld struct {
	next chan struct{}
	drop func() error
}

func (h *announcedHeld) unlock() error {
	err := h.drop()
	h.next <- struct{}{}
	return err
}

func (h *announcedHeld) trusted() bool { return true }
