package counting

import (
	"strconv"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// A Counter is this process's side of one key that counts, with the client that sends its requests, see [engine.Counter].
type Counter[T Wanting] struct {
	engine.Counter[T]
	Count

	of kind[T]
}

// Wanting is the constraint of waiters at a counter.
type Wanting interface {
	engine.Demanding
	Permit() *Permit // the permit for the waiter, or nil
	MaxHold() time.Duration
}

// A Demand is the demand of a waiter at a counter.
type Demand struct {
	engine.Demand

	Permit  *Permit       // the permit for the waiter, or nil
	MaxHold time.Duration // WithMaxHold, or 0
}

// A kind is the thing that a counter counts: permits, or the open latch.
type kind[T Wanting] interface {
	engine.Counting[T]
	// Channel is the channel on which Redisson announces a change.
	Channel() string
	// Hear gets the message of the channel.
	Hear(payload string)
}

// poll is the interval in which a waiter asks without any message: some programs release without one.
const poll = 5 * time.Second

// Init prepares the counter of a key of c, under the lock mu of its entry.
func (ct *Counter[T]) Init(c *Client, kind, key string, entry Entry, mu *sync.Mutex) {
	ct.Count = Count{Kind: kind, Name: key, c: c, entry: entry, mu: mu, changes: &ct.Counter.Changes, permits: map[*Permit]struct{}{}}
	switch k := &ct.Count; kind {
	case Semaphore:
		ct.of = semaphores[T]{k, ct.Widen}
	case Permits:
		ct.of, ct.Most = permits[T]{semaphores[T]{k, ct.Widen}}, protocol.MostPermits
	case Latch:
		ct.of, ct.Alike = &latch[T]{Count: k}, true
	}
	ct.Counter.Init(ct.of, &ct.Count, mu)
}

// Channel is the channel on which Redisson announces a change.
func (ct *Counter[T]) Channel() string { return ct.of.Channel() }

// Hear gets the message of the channel. An empty one means that messages may have been missed.
func (ct *Counter[T]) Hear(payload string) { ct.of.Hear(payload) }

// roundOf returns a batch in the form of the scripts that grant.
func roundOf[T Wanting](b *engine.CountBatch[T], number, oldest uint64) protocol.Round {
	return protocol.Round{Request: numbered(number, oldest), Again: b.Again, Create: b.Create}
}

// takesSome recognizes the first value of a reply that grants.
func takesSome(first int64) bool { return first > 0 }

// semaphores is the kind of a Semaphore.
type semaphores[T Wanting] struct {
	*Count
	widen func(n int)
}

func (s semaphores[T]) Channel() string { return protocol.CountChannel(s.Name) }

// Hear has the next request ask for as many waiters as there are permits.
func (s semaphores[T]) Hear(payload string) {
	if n, err := strconv.Atoi(payload); err == nil {
		s.widen(n)
	}
}

func (s semaphores[T]) Send(b *engine.CountBatch[T], number, oldest uint64, wanted bool) engine.CountAnswer {
	var grants func(int64) bool // nil: the permits are released
	var wants []int
	if wanted {
		grants = takesSome
		for _, p := range b.Parts {
			wants = append(wants, p.Demand.N)
		}
	}
	commands := s.semaphore()
	granted, err := inTime(s.c.Net.RunRoundInTime(commands.Acquire(roundOf(b, number, oldest), wants), grants).Int())
	return engine.CountAnswer{Granted: int(granted), TTL: poll, Err: err}
}

func (semaphores[T]) Grant(_ *engine.Waiter[T], _, _ time.Time) bool { return true }

func (s semaphores[T]) Undo(_ *engine.Waiter[T], d engine.Demand) {
	s.putBack(d.N)
}

// permits is the kind of a PermitSemaphore.
type permits[T Wanting] struct{ semaphores[T] }

func (s permits[T]) Send(b *engine.CountBatch[T], number, oldest uint64, wanted bool) engine.CountAnswer {
	var grants func(int64) bool // nil: the permits are released
	var wants []protocol.Permits
	if wanted {
		grants = takesSome
		for _, p := range b.Parts {
			wants = append(wants, protocol.Permits{IDs: p.Demand.IDs, Lease: p.Waiter.Terms.TTL})
		}
	}
	var reply protocol.PermitVerdict
	commands := s.c.Wire.PermitSemaphore(s.Name)
	numbers, err := s.c.Net.RunRoundInTime(commands.AcquirePermits(roundOf(b, number, oldest), wants), grants).Ints()
	if err == nil {
		reply, err = protocol.ReadPermits(numbers)
	}
	if _, err = inTime(reply.Served, err); err != nil {
		return engine.CountAnswer{Err: err}
	}
	next := poll
	if reply.Next >= 0 {
		next = min(next, reply.Next)
	}
	answer := engine.CountAnswer{Granted: int(reply.Served), TTL: next}
	if reply.Lasts >= 0 {
		answer.Ends = b.Sent.Add(reply.Lasts) // the answer came later: it is rather too early
	}
	return answer
}

func (s permits[T]) Grant(w *engine.Waiter[T], sent, ends time.Time) bool {
	d, ttl := w.For.Demand(), w.Terms.TTL
	if !ends.IsZero() {
		ttl = min(ttl, ends.Sub(sent))
	}
	if !time.Now().Before(sent.Add(ttl - watchdog.Margin(ttl))) {
		d.IDs = NewIDs(s.c.Wire.UUID, d.N) // the permits of the old ids are released
		return false
	}
	began := monotonic.Now()
	p := w.For.Permit()
	p.begins(s.Count, d, began, w.Terms)
	if !w.Terms.Polling {
		s.c.Listen(s.Name)
	}
	s.c.Watchdog.Start(&p.guard, sent, ttl)
	if !ends.IsZero() {
		s.c.Watchdog.Bound(&p.guard, sent, ends.Sub(sent))
	}
	if hold := w.For.MaxHold(); hold > 0 {
		s.c.Watchdog.Limit(&p.guard, began.Add(hold).Std())
	}
	return true
}

func (s permits[T]) Undo(w *engine.Waiter[T], d engine.Demand) {
	p := w.For.Permit()
	s.mu.Lock()
	reached := p.Granted() && p.ids == d.IDs // the grant reached the caller
	s.mu.Unlock()
	if reached {
		_ = p.Release()
		return
	}
	_, _, _ = s.giveBack(d.IDs, protocol.MissingOf(d.Create))
}
