package lockrt

import (
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// latchGrace is how long the client delays its judgement about a latch that is gone without a message: the message with the
// reason may be on its way, on another connection than the answer. latchGraceDeleted is the longer time for a latch
// whose last message is one that also announces a deletion: a busy program gets its messages late, and a wrong error
// would be worse than a late one.
const (
	latchGrace        = 100 * time.Millisecond
	latchGraceDeleted = time.Second
)

// latchCounter is the counting of a CountDownLatch. The counter's lock guards its fields.
type latchCounter struct {
	*counter

	lastMessage string    // the last message
	heard       int       // number of messages
	missing     time.Time // since when the latch is gone without a message that it was opened
	heardThen   int       // number of messages by then
}

func (s *latchCounter) channel() string { return protocol.LatchChannel(s.key) }

// hear records the last message. An empty one means that messages may have been missed; the message
// that a latch was opened remains true.
func (s *latchCounter) hear(payload string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if payload != "" || !protocol.OpensLatch(s.lastMessage) {
		s.lastMessage = payload
		s.heard++
	}
}

// Send lets all of b go on if the latch is gone. That happens at zero and when it is deleted. In the second case this
// library leaves a mark. Redisson leaves none, but publishes another message.
func (s *latchCounter) Send(b *countBatch, _, _ uint64, _ bool) countAnswer {
	s.mu.Lock()
	heard := s.heard
	s.mu.Unlock()
	latch := s.c.wire.Latch(s.key)
	reply, _ := s.c.net.RunInTime(nil, latch.Count())
	left, err := reply.Int()
	if err != nil {
		return countAnswer{Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := countAnswer{Granted: len(b.Parts)}
	switch {
	case left > 0:
		s.missing = time.Time{}
		if s.heard == heard {
			s.lastMessage = "" // earlier messages do not tell how this latch ends
		}
		return countAnswer{TTL: pollCounted}
	case left < 0:
		all.Deleted = ErrDeleted
		return all
	case protocol.OpensLatch(s.lastMessage) || !b.Parts[0].Waiter.For.demand.Seen:
		return all
	}
	wait := latchGrace
	if protocol.ClosesLatch(s.lastMessage) {
		wait, all.Deleted = latchGraceDeleted, ErrDeleted
	}
	if s.missing.IsZero() || s.heardThen != s.heard { // later messages may be about another latch
		s.missing, s.heardThen = time.Now(), s.heard
	}
	if time.Since(s.missing) < wait {
		return countAnswer{TTL: wait}
	}
	return all
}

func (*latchCounter) Undo(*waiter, engine.Demand) {}
