package counting

import (
	"context"
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

// latchGrace is how long the client delays its judgement about a latch that is gone without a message: the message with the
// reason may be on its way, on another connection than the answer. latchGraceDeleted is the longer time for a latch
// whose last message is one that also announces a deletion: a busy program gets its messages late, and a wrong error
// would be worse than a late one.
const (
	latchGrace        = 100 * time.Millisecond
	latchGraceDeleted = time.Second
)

// latch is the kind of a CountDownLatch. The counter's lock guards its fields.
type latch[T Wanting] struct {
	*Count

	lastMessage string    // the last message
	heard       int       // number of messages
	missing     time.Time // since when the latch is gone without a message that it was opened
	heardThen   int       // number of messages by then
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
	}
}

// Send lets all of b go on if the latch is gone. That happens at zero and when it is deleted. In the second case this
// library leaves a mark. Redisson leaves none, but publishes another message.
func (s *latch[T]) Send(b *engine.CountBatch[T], _, _ uint64, _ bool) engine.CountAnswer {
	s.mu.Lock()
	heard := s.heard
	s.mu.Unlock()
	commands := s.c.Wire.Latch(s.Name)
	reply, _ := s.c.Net.RunInTime(nil, commands.Count())
	left, err := reply.Int()
	if err != nil {
		return engine.CountAnswer{Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := engine.CountAnswer{Granted: len(b.Parts)}
	switch {
	case left > 0:
		s.missing = time.Time{}
		if s.heard == heard {
			s.lastMessage = "" // earlier messages do not tell how this latch ends
		}
		return engine.CountAnswer{TTL: poll}
	case left < 0:
		all.Deleted = failure.ErrDeleted
		return all
	case protocol.OpensLatch(s.lastMessage) || !b.Parts[0].Waiter.For.Demand().Seen:
		return all
	}
	wait := latchGrace
	if protocol.ClosesLatch(s.lastMessage) {
		wait, all.Deleted = latchGraceDeleted, failure.ErrDeleted
	}
	if s.missing.IsZero() || s.heardThen != s.heard { // later messages may be about another latch
		s.missing, s.heardThen = time.Now(), s.heard
	}
	if time.Since(s.missing) < wait {
		return engine.CountAnswer{TTL: wait}
	}
	return all
}

func (*latch[T]) Undo(*engine.Waiter[T], engine.Demand) {}

func (*latch[T]) Grant(*engine.Waiter[T], time.Time) bool { return true }
