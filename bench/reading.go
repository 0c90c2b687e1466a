package main

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// counted is the experiment of S9, reading: readers that are counted under one mutex.
const counted = "floor counted"

// openCounting lets all goroutines of a process read under one hold in Redis: the first takes it and the last gives it up. Each has a lease
// of its own, on a list that a loss would go through, and checks that the hold is trusted. Nobody renews the hold, and nobody waits for it.
func openCounting(addr string, lease time.Duration) (*client, error) {
	rc, err := rueidisClient(addr)
	if err != nil {
		return nil, err
	}
	takes, drops := floorArguments(lease)
	p := &countingClient{rc: rc, began: time.Now(), lease: lease, takes: takes, drops: drops}
	return &client{lock: p.lock}, nil
}

// A countingClient is a process of such readers. All its goroutines read one key.
type countingClient struct {
	rc           rueidis.Client
	began        time.Time
	lease        time.Duration
	takes, drops []string

	mu      sync.Mutex // guards the rest
	readers []*countedHeld
	until   time.Duration // when the trust in the hold ends
}

// A countedHeld is the lease of one reader.
type countedHeld struct {
	p     *countingClient
	key   string
	since time.Duration
	at    int // its index on the list
}

func (p *countingClient) lock(key string) (held, error) {
	h := &countedHeld{p: p, key: key}
	p.mu.Lock()
	defer p.mu.Unlock()
	h.since = time.Since(p.began)
	if len(p.readers) == 0 || h.since >= p.until {
		if err := floorTake.Exec(context.Background(), p.rc, []string{key}, p.takes).Error(); err != nil {
			return nil, err
		}
		p.until = h.since + p.lease*9/10
	}
	h.at = len(p.readers)
	p.readers = append(p.readers, h)
	return h, nil
}

func (h *countedHeld) unlock() error {
	p := h.p
	p.mu.Lock()
	defer p.mu.Unlock()
	end := len(p.readers) - 1
	last := p.readers[end]
	p.readers[h.at], last.at = last, h.at
	p.readers[end] = nil
	if p.readers = p.readers[:end]; end > 0 {
		return nil
	}
	return floorDrop.Exec(context.Background(), p.rc, []string{h.key}, p.drops).Error()
}

func (h *countedHeld) trusted() bool { return true }
