package lockrt

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/deadlock"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

const (
	// blockedAfter is how long a call waits before its client looks for the traces of the holders.
	blockedAfter = time.Second

	// mostHolderTraces is the largest number of holders of a lock whose traces a client looks for.
	mostHolderTraces = 8

	// traceWord begins a request to a process for the traces of the holders of a key: "trace <id> <channel of the reply> <key>".
	traceWord = "trace "
)

// A blockage collects what is known of the holders that a call waits for. The zero value collects nothing.
type blockage struct {
	alarm *time.Timer
	kind  string // of the lock that it waits for
	known atomic.Pointer[keyTraces]
}

// watches makes b learn the holders of a key, once the call has waited for it for a while. Clients without traces look
// for none; permits, counts and a RedLock have no one holder.
func (c *Client) watches(b *blockage, kind, key string) *blockage {
	hooks := &c.opts.Hooks
	if hooks.TraceParent == nil || hooks.AcquireEnd == nil || !slices.Contains([]string{kindMutex, kindFair, kindWrite, kindRead}, kind) {
		return b
	}
	if b == nil {
		b = &blockage{}
	} else {
		b.alarm.Stop() // it waited for another part
	}
	b.kind = kind
	b.alarm = time.AfterFunc(blockedAfter, func() { c.holderTraces.learn(key, b) })
	return b
}

// end returns the traces. Later ones are not needed.
func (b *blockage) end() []string {
	if b == nil {
		return nil
	}
	b.alarm.Stop()
	if of := b.known.Load(); of != nil {
		return of.traces
	}
	return nil
}

// holderTraces asks for the traces of the holders of locks for which calls of a client wait. All calls that wait for a
// key share one question, which runs on a goroutine of its own.
type holderTraces struct {
	c       *Client
	asks    pace      // questions of this client
	answers pace      // answers to others
	denied  sync.Once // logs that the client may not look

	mu   sync.Mutex // guards the rest
	keys map[string]*keyTraces
}

// A keyTraces is one question. Its answer does not change once a blockage has it.
type keyTraces struct {
	foundHolders

	key      string
	answered monotonic.Time // 0 while the question is under way
	waiting  []*blockage    // that get the answer
}

// old reports whether the answer is too old to describe the present.
func (of *keyTraces) old() bool {
	return !of.answered.IsZero() && monotonic.Since(of.answered) >= pacePeriod
}

// learn gives b the traces of the holders of key when they are known. It does not block.
func (s *holderTraces) learn(key string, b *blockage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch of := s.keys[key]; {
	case of != nil && of.answered.IsZero():
		of.waiting = append(of.waiting, b)
	case of != nil && !of.old():
		b.known.Store(of)
	case s.c.granting() && s.asks.take(monotonic.Now()) <= mostAnswers:
		if s.keys == nil {
			s.keys = map[string]*keyTraces{}
		}
		maps.DeleteFunc(s.keys, func(_ string, of *keyTraces) bool { return of.old() })
		s.keys[key] = &keyTraces{key: key, waiting: []*blockage{b}}
		s.c.spawn(func() { s.answered(key, s.ask(key)) })
	}
}

// answered gives the answer to the calls that wait for it, and to those that come within a second.
func (s *holderTraces) answered(key string, found foundHolders) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.keys[key]
	of.answered, of.foundHolders = monotonic.Now(), found
	for _, b := range of.waiting {
		b.known.Store(of)
	}
	of.waiting = nil
}

// ask returns the traces of the holders of key, those that this process knows and those of other processes that answer
// in time, and one of the other processes.
func (s *holderTraces) ask(key string) (found foundHolders) {
	own := s.c.heldOf(key)
	found.traces = tracesIn(nil, key, own)
	if len(own) > 0 && own[0].Kind != KindRead { // there is no other holder
		return found
	}
	others, reads := s.others(key)
	found.holder, found.reads = s.c.holderAmong(others, func(string) bool { return false }), reads
	var ids []string
	for _, h := range others {
		if h.Process != "" && !slices.Contains(ids, h.Process) && len(ids) < mostHolderTraces {
			ids = append(ids, h.Process)
		}
	}
	if len(ids) == 0 {
		return found
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), s.c.opts.OpTimeout, transport.ErrNoAnswer)
	defer cancel()
	if s.c.hear(); s.c.awaitHearing(ctx) != nil {
		return found
	}
	q := s.c.questions.begin(ids)
	defer s.c.questions.end(q)
	s.c.spawn(func() { s.c.question(q, ids, traceWord, key) })
	select {
	case <-q.done:
	case <-ctx.Done():
	case <-s.c.closing:
	}
	var asked *Holder
	answered := map[string]bool{}
	for _, p := range q.fleet().Processes {
		found.traces = tracesIn(found.traces, key, p.Held)
		answered[p.Process.ID] = true
		for _, h := range p.Held {
			if h.Key == key && asked == nil {
				asked = &Holder{Process: p.Process, Owner: h.Owner, Since: h.Since, Seen: now()}
			}
		}
	}
	if asked == nil { // those that have answered have released it meanwhile
		asked = s.c.holderAmong(others, func(process string) bool { return answered[process] })
	}
	found.holder = asked
	return found
}

// tracesIn adds the traces of the holders of key.
func tracesIn(traces []string, key string, held []HeldLock) []string {
	for _, h := range held {
		if h.Key == key && h.Trace != "" && len(traces) < mostHolderTraces && !slices.Contains(traces, h.Trace) {
			traces = append(traces, h.Trace)
		}
	}
	return traces
}

// heldOf returns the holds of this process of a key as a lock.
func (c *Client) heldOf(key string) (all []HeldLock) {
	guards, _ := c.guards(key, mostHolderTraces)
	for _, guard := range guards {
		if held, ok := c.describe(guard); ok && held.Kind != KindPermit {
			all = append(all, held)
		}
	}
	return all
}

// others returns the holders of key in other processes, by the owners in Redis, and whether they read. Java programs
// have no ids.
func (s *holderTraces) others(key string) (all []deadlock.Holder, reads bool) {
	reply := s.c.deadlocks.ask(rueidis.Commands{s.c.rc.B().Hscan().Key(key).Cursor(0).Count(mostHolderTraces).Build()})[0]
	entry, err := reply.AsScanEntry()
	if why := refused(err); err != nil && why != err { //nolint:errorlint // refused returns its argument, or more
		s.denied.Do(func() {
			s.c.opts.Logger.Warn("lockgen: calls that wait are not linked to the traces of holders in other processes", "error", why)
		})
	}
	all = holdersIn(&deadlock.Wait{}, entry.Elements)
	return slices.DeleteFunc(all, func(h deadlock.Holder) bool { return h.Process == s.c.wire.UUID }), isRead(entry.Elements)
}

// askedForTraces handles a request for the traces of the holders of a key. It does not block. Such requests have a pace
// of their own: an operator that asks for the holds of the process does not compete with calls that wait.
func (c *Client) askedForTraces(request string) {
	id, channel, key, ok := readRequest(request)
	if !ok || key == "" || c.holderTraces.answers.take(monotonic.Now()) > mostAnswers {
		return
	}
	c.spawn(func() {
		c.say(channel, partsOf(Snapshot{Version: SnapshotVersion, At: time.Now(), Process: c.Process(), Held: c.heldOf(key)}, id))
	})
}

// readRequest returns the parts of a request of another process, and whether it is one.
func readRequest(request string) (id, channel, key string, ok bool) {
	id, rest, _ := strings.Cut(request, " ")
	channel, key, _ = strings.Cut(rest, " ")
	ok = id != "" && len(id) <= 64 && len(channel) <= 256 && strings.HasPrefix(channel, protocol.ProcessChannel(""))
	return id, channel, key, ok
}
