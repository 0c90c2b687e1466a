package main

import (
	"context"
	"time"
)

// straight is the experiment of few callers, each with keys that nobody else wants.
const straight = "floor straight"

// openStraight is [openPromising], but callers share no scripts: each sends its own on its own goroutine, with a context that can end, since a
// request whose answer is late is sent again over another connection.
func openStraight(addr string, lease time.Duration) (*client, error) {
	p, err := newPromising(addr, lease)
	if err != nil {
		return nil, err
	}
	p.straight = true
	return &client{lock: p.lock}, nil
}

// runStraight has the script run for h alone.
func (q *promisingQueue) runStraight(h *promisedHeld) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	return q.exec(ctx, []*promisedHeld{h})
}
