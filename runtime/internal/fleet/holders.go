package fleet

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/deadlock"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/observe"
)

const (
	// blockedAfter is how long a call waits before its process looks for the traces of the holders.
	blockedAfter = time.Second

	// mostTraces is the largest number of holders of a lock whose traces a process looks for.
	mostTraces = 8
)

// found is what the process has learned of the holders of a key.
type found struct {
	traces []string
	holder *observe.Holder // one of them, of another process; nil if none is known
	reads  bool            // it holds the key for reading
}

// blocking returns the holder that keeps a call of that kind from getting the lock, or nil. A reader is kept from it by a
// waiting writer, not by other readers.
func (f *found) blocking(kind observe.Kind) *observe.Holder {
	if f == nil || f.holder == nil || f.reads && kind == observe.KindRead {
		return nil
	}
	h := *f.holder
	return &h
}

// A Blockage collects what is known of the holders that a call waits for. A nil Blockage collects nothing.
type Blockage struct {
	alarm *time.Timer
	kind  observe.Kind // of the lock that it waits for
	known atomic.Pointer[inquiry]
}

// Traces returns the traces of the holders. Later ones are not needed.
func (b *Blockage) Traces() []string {
	if b == nil {
		return nil
	}
	b.alarm.Stop()
	if of := b.known.Load(); of != nil {
		return of.traces
	}
	return nil
}

// Holder returns the holder of the lock with a key that the call has learned of, or nil. The call wants that kind of lock, or for ""
// the kind that it waited for last.
func (b *Blockage) Holder(kind observe.Kind, key string) *observe.Holder {
	if b == nil {
		return nil
	}
	if kind == "" {
		kind = b.kind
	}
	if of := b.known.Load(); of != nil && of.key == key {
		return of.blocking(kind)
	}
	return nil
}

// holders asks for the traces of the holders of locks for which calls of the process wait. All calls that wait for a key share one
// inquiry, which runs on a goroutine of its own.
type holders struct {
	cfg     *Config
	asker   *asker
	asks    pace      // inquiries of this process
	answers pace      // answers to others
	denied  sync.Once // logs that the process may not look

	mu   sync.Mutex // guards the rest
	keys map[string]*inquiry
}

// An inquiry asks for the holders of a key. Its answer does not change once a Blockage has it.
type inquiry struct {
	found

	key      string
	answered monotonic.Time // 0 while the inquiry is under way
	waiting  []*Blockage    // that get the answer
}

// old reports whether the answer is too old to describe the present.
func (of *inquiry) old() bool {
	return !of.answered.IsZero() && monotonic.Since(of.answered) >= pacePeriod
}

// Watch makes b learn the holders of a key, once the call has waited for it for a while. Processes without traces look
// for none; permits, counts and a RedLock have no one holder.
func (s *holders) Watch(b *Blockage, kind observe.Kind, key string) *Blockage {
	if s.cfg.Hooks.TraceParent == nil || s.cfg.Hooks.AcquireEnd == nil || !HasHolder(kind) {
		return b
	}
	if b == nil {
		b = &Blockage{}
	} else {
		b.alarm.Stop() // it waited for another part
	}
	b.kind = kind
	b.alarm = time.AfterFunc(blockedAfter, func() { s.learn(key, b) })
	return b
}

// HasHolder reports whether a lock of a kind has one holder, or readers.
func HasHolder(kind observe.Kind) bool {
	return kind == observe.KindMutex || kind == observe.KindFair || kind == observe.KindWrite || kind == observe.KindRead
}

// learn gives b the traces of the holders of key when they are known. It does not block.
func (s *holders) learn(key string, b *Blockage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch of := s.keys[key]; {
	case of != nil && of.answered.IsZero():
		of.waiting = append(of.waiting, b)
	case of != nil && !of.old():
		b.known.Store(of)
	case s.cfg.open() && s.asks.take(monotonic.Now()) <= mostAnswers:
		if s.keys == nil {
			s.keys = map[string]*inquiry{}
		}
		maps.DeleteFunc(s.keys, func(_ string, of *inquiry) bool { return of.old() })
		s.keys[key] = &inquiry{key: key, waiting: []*Blockage{b}}
		s.cfg.Spawn(func() { s.learned(key, s.ask(key)) })
	}
}

// learned gives the answer to the calls that wait for it, and to those that come within a second.
func (s *holders) learned(key string, f found) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.keys[key]
	of.answered, of.found = monotonic.Now(), f
	for _, b := range of.waiting {
		b.known.Store(of)
	}
	of.waiting = nil
}

// Inquiries returns how many keys the process has asked for lately, of that one or of all for "", and how many are answered.
func (s *holders) Inquiries(key string) (asked, answered int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.keys {
		if key == "" || key == of.key {
			asked++
			if !of.answered.IsZero() {
				answered++
			}
		}
	}
	return asked, answered
}

// ask returns the traces of the holders of key, those that this process knows and those of other processes that answer
// in time, and one of the other processes.
func (s *holders) ask(key string) (f found) {
	own := s.cfg.heldLocks(key)
	f.traces = tracesIn(nil, key, own)
	if len(own) > 0 && own[0].Kind != observe.KindRead { // there is no other holder
		return f
	}
	others, reads := s.others(key)
	f.holder, f.reads = s.cfg.holderAmong(others, nil), reads
	var ids []string
	for _, h := range others {
		if h.Process != "" && !slices.Contains(ids, h.Process) && len(ids) < mostTraces {
			ids = append(ids, h.Process)
		}
	}
	if len(ids) == 0 {
		return f
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.OpTimeout)
	defer cancel()
	answers, asked := s.asker.ask(ctx, ids, traceWord, key)
	if !asked {
		return f
	}
	f.holder = nil
	answered := map[string]bool{}
	for _, p := range answers.Processes {
		f.traces = tracesIn(f.traces, key, p.Held)
		answered[p.Process.ID] = true
		for _, h := range p.Held {
			if h.Key == key && f.holder == nil {
				f.holder = &observe.Holder{Process: p.Process, Owner: h.Owner, Since: h.Since, Seen: time.Now()}
			}
		}
	}
	if f.holder == nil { // those that have answered have released it meanwhile
		f.holder = s.cfg.holderAmong(others, answered)
	}
	return f
}

// tracesIn adds the traces of the holders of key.
func tracesIn(traces []string, key string, held []observe.HeldLock) []string {
	for _, h := range held {
		if h.Key == key && h.Trace != "" && len(traces) < mostTraces && !slices.Contains(traces, h.Trace) {
			traces = append(traces, h.Trace)
		}
	}
	return traces
}

// heldLocks returns the holds of this process of a key as a lock.
func (cfg *Config) heldLocks(key string) []observe.HeldLock {
	held, _ := cfg.held(key, mostTraces)
	return slices.DeleteFunc(held, func(h observe.HeldLock) bool { return h.Kind == observe.KindPermit })
}

// holderAmong returns a holder of another process among those of a key in Redis, or nil, and leaves out processes that are gone.
func (cfg *Config) holderAmong(all []deadlock.Holder, gone map[string]bool) *observe.Holder {
	for _, h := range all {
		if h.Process != cfg.UUID && !gone[h.Process] {
			owner, _ := protocol.WriterOf(h.Owner)
			return &observe.Holder{Process: observe.Process{ID: h.Process}, Owner: owner, Seen: time.Now()}
		}
	}
	return nil
}

// others returns the holders of key in other processes, by the owners in Redis, and whether they read. Java programs
// have no ids.
func (s *holders) others(key string) (all []deadlock.Holder, reads bool) {
	fields, err := s.cfg.Net.Owners([]protocol.Owners{{Key: key}}, mostTraces)
	if why := s.cfg.Net.Refusal(err); why != nil {
		s.denied.Do(func() {
			s.cfg.Logger.Warn("lockgen: calls that wait are not linked to the traces of holders in other processes", "error", why)
		})
	}
	all, reads = holdersIn(fields[0])
	return slices.DeleteFunc(all, func(h deadlock.Holder) bool { return h.Process == s.cfg.UUID }), reads
}

// holdersIn returns the holders of a lock, by its fields, and whether they read.
func holdersIn(fields []string) (all []deadlock.Holder, reads bool) {
	owners, reads := protocol.ReadOwners(fields)
	for _, owner := range owners {
		h := deadlock.Holder{Owner: owner}
		if uuid, ours := protocol.ClientOf(owner); ours {
			h.Process = uuid
		}
		all = append(all, h)
	}
	return all, reads
}

// asked handles a request for the traces of the holders of a key. It does not block. Such requests have a pace
// of their own: an operator that asks for the holds of the process does not compete with calls that wait.
func (s *holders) asked(request string) {
	id, channel, key, ok := readRequest(request)
	if !ok || key == "" || s.answers.take(monotonic.Now()) > mostAnswers {
		return
	}
	s.cfg.Spawn(func() {
		said := observe.Snapshot{Version: observe.SnapshotVersion, At: time.Now(), Process: s.cfg.Process(), Held: s.cfg.heldLocks(key)}
		s.asker.say(channel, partsOf(said, id))
	})
}
