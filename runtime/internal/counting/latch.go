package counting

import (
	"context"
	"slices"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// Start starts a latch at n. It returns 1, or 0 if the latch is running already.
func (k *Count) Start(ctx context.Context, n int) (int64, error) {
	commands := k.c.Wire.Latch(k.Name)
	return k.Change(ctx, false, func(r protocol.Request) protocol.Command { return commands.Start(r, n) })
}

// CountDown lowers the count of a latch by one and returns the new count.
func (k *Count) CountDown(ctx context.Context) (int64, error) {
	commands := k.c.Wire.Latch(k.Name)
	return k.Change(ctx, true, commands.CountDown)
}

// Delete removes a latch. It returns 1 if there was one.
func (k *Count) Delete(ctx context.Context) (int64, error) {
	commands := k.c.Wire.Latch(k.Name)
	return k.Change(ctx, false, commands.Delete)
}

// latchGrace is how long an answer waits for the message with the reason why a latch is gone: the message may be on its way, on another
// connection than the reply. latchGraceDeleted is the longer time for a latch whose last message is one that also announces a deletion: a busy
// program gets its messages late, and a wrong error would be worse than a late one.
const (
	latchGrace        = 100 * time.Millisecond
	latchGraceDeleted = time.Second
)

// latch is the kind of a CountDownLatch. The counter's lock guards its fields.
type latch[T Wanting] struct {
	*Count

	lastMessage string        // the last message
	heard       int           // number of messages
	next        chan struct{} // closed at the next message, or nil
}

func (s *latch[T]) Channel() string { return protocol.LatchChannel(s.Name) }

// hear records the last message. An empty one means that messages may have been missed; the message
// that a latch was opened remains true.
func (s *latch[T]) Hear(payload string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if payload != "" || !protocol.OpensLatch(s.lastMessage) {
		s.lastMessage = payload
		s.heard++
		if s.next != nil {
			close(s.next)
			s.next = nil
		}
	}
}

// Send lets all of b go on if the latch is gone. That happens at zero and when it is deleted. In the second case this
// library leaves a mark. Redisson leaves none, but publishes another message. Until that can have come, the answer waits: a latch that
// is gone refuses nobody.
func (s *latch[T]) Send(b *engine.CountBatch[T], _, _ uint64, _ bool) engine.CountAnswer {
	commands := s.c.Wire.Latch(s.Name)
	for {
		s.mu.Lock()
		heard := s.heard
		s.mu.Unlock()
		reply, _ := s.c.Net.RunInTime(nil, commands.Count())
		left, err := reply.Int()
		if err != nil {
			return engine.CountAnswer{Err: err}
		}
		answer, grace, next := s.judge(b, left, heard)
		if grace == 0 {
			return answer
		}
		timer := time.NewTimer(grace)
		select {
		case <-next: // it may be about a later latch of this name
			timer.Stop()
		case <-timer.C:
			return answer
		case <-s.c.Closing():
			timer.Stop()
			return answer
		}
	}
}

// judge returns the answer to b when left is the reply of Redis, and heard the number of messages before the request. If grace is not 0,
// the answer holds if no message comes for so long; next is closed at the next one.
func (s *latch[T]) judge(b *engine.CountBatch[T], left int64, heard int) (all engine.CountAnswer, grace time.Duration, next <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all.Granted = len(b.Parts)
	switch {
	case left > 0:
		if s.heard == heard {
			s.lastMessage = "" // earlier messages do not tell how this latch ends
		}
		return engine.CountAnswer{TTL: poll}, 0, nil
	case left < 0:
		all.Deleted = failure.ErrDeleted
		return all, 0, nil
	case protocol.OpensLatch(s.lastMessage), !b.Parts[0].Waiter.For.Demand().Seen, !slices.ContainsFunc(b.Parts, listens[T]):
		return all, 0, nil
	case protocol.ClosesLatch(s.lastMessage):
		grace, all.Deleted = latchGraceDeleted, failure.ErrDeleted
	default:
		grace = latchGrace
	}
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return all, grace, s.next
}

// listens reports whether a message can reach the waiter.
func listens[T Wanting](p engine.CountPart[T]) bool { return !p.Waiter.Terms.Polling }

func (*latch[T]) Undo(*engine.Waiter[T], engine.Demand) {}

func (*latch[T]) Grant(_ *engine.Waiter[T], _, _ time.Time) bool { return true }
