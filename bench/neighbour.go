package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// The experiments of S4b: one key, which processes hand over, and which the goroutines of a process pass on.
const (
	sharing = "floor that shares"
	looking = "floor that looks" // after lookAfter it looks whether the key is its own still
)

// lookAfter is when a process looks whether it still has the key that another one has handed over, as a lease of lockgen is checked once when it
// is 8 ms old: from then on the server reports that somebody has deleted the key.
const lookAfter = 8 * time.Millisecond

// neighbourly is how many times as long as others a run with a neighbour takes: its few turns are counted one by one.
const neighbourly = 4

// neighbours runs a busy process and one whose only goroutine pauses between turns.
func neighbours(ctx context.Context, e *env, lib library) (metrics, error) {
	own := *e
	own.length = neighbourly * e.length
	m, err := play(ctx, &own, lib, []party{{goroutines: 100, shared: true}, {goroutines: 1, shared: true, pause: 10 * time.Millisecond}})
	if err != nil {
		return nil, err
	}
	both := m.metrics()
	busy, lone := *m, *m
	busy.answers, lone.answers = m.answers[:1], m.answers[1:]
	b, l := busy.metrics(), lone.metrics()
	return metrics{
		"rate": b["rate"], "jain": b["jain"], "lone": l["rate"], "p50": l["p50"], "p99": l["p99"], "longest": l["longest"],
		"sent": both["sent"], "stuck": both["stuck"], "failed": both["failed"],
	}, nil
}

// askEach is how often a process asks whether another one waits: Go reads the message late where goroutines pass on a key without a pause.
const askEach = 500 * time.Microsecond

// passOnIfWanted passes the key on if another process waits for it.
var passOnIfWanted = rueidis.NewLuaScript("if redis.call('exists', KEYS[2]) == 0 then return 0 end " + passOn)

// openSharing is the lock of openPassing, which the goroutines of a process also pass on among themselves, first come, first served. The
// process gives it to another one when it learns that this one waits, or when none of its own does.
func openSharing(looks bool) func(addr string, lease time.Duration) (*client, error) {
	return func(addr string, lease time.Duration) (*client, error) {
		between, err := openPassing(false)(addr, lease)
		if err != nil {
			return nil, err
		}
		s := &sharingClient{between: between.lock, looks: looks, turn: make(chan struct{}, 1)}
		s.turn <- struct{}{}
		return &client{lock: s.lock}, nil
	}
}

// A sharingClient is a process of such a lock. All its goroutines lock one key.
type sharingClient struct {
	between func(key string) (held, error)
	callers atomic.Int64

	looks bool
	about atomic.Bool               // to look
	since atomic.Pointer[time.Time] // when it got the key; nil without it
	lost  atomic.Bool

	turn  chan struct{} // guards the rest
	held  *passingHeld  // by this process, or nil
	asked time.Time     // when it asked last whether another process waits, or had the key
}

func (s *sharingClient) lock(key string) (held, error) {
	s.callers.Add(1)
	<-s.turn
	if s.held != nil {
		return s, nil
	}
	h, err := s.between(key)
	if err != nil {
		s.callers.Add(-1)
		s.turn <- struct{}{}
		return nil, err
	}
	now := time.Now()
	s.held, s.asked = h.(*passingHeld), now //nolint:forcetypeassert // as openPassing makes it
	if s.looks {
		s.since.Store(&now)
		s.lookIn(lookAfter, s.held)
	}
	return s, nil
}

func (s *sharingClient) unlock() (err error) {
	p, passed := s.held.p, int64(0)
	switch {
	case s.callers.Add(-1) == 0:
		passed, err = 1, s.held.unlock()
	case p.wanted.Swap(false) || time.Since(s.asked) >= askEach:
		passed, err = passOnIfWanted.Exec(context.Background(), p.rc, s.held.keys, []string{p.channel, p.ms}).AsInt64()
		s.asked = time.Now()
	}
	if passed == 1 {
		s.held = nil
		s.since.Store(nil)
	}
	s.turn <- struct{}{}
	return err
}

func (s *sharingClient) trusted() bool { return !s.lost.Load() }

// lookIn looks in d, unless it is about to look. One timer serves all grants: it is not stopped with the unlock, for to set it anew at each lock
// would cost more.
func (s *sharingClient) lookIn(d time.Duration, h *passingHeld) {
	if s.about.CompareAndSwap(false, true) {
		time.AfterFunc(d, func() { s.look(h) })
	}
}

// look looks whether the key is still its own, if it has had it for long enough.
func (s *sharingClient) look(h *passingHeld) {
	s.about.Store(false)
	since := s.since.Load()
	if since == nil {
		return
	}
	if left := lookAfter - time.Since(*since); left > 0 {
		s.lookIn(left, h)
		return
	}
	p := h.p
	ours, err := p.rc.Do(context.Background(), p.rc.B().Hexists().Key(h.keys[0]).Field(p.channel).Build()).AsBool()
	if err == nil && !ours && s.since.Load() == since {
		s.lost.Store(true)
	}
}
