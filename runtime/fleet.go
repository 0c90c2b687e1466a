package lockrt

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// Fleet asks all processes that share the server for their holds and waiting calls, of one key, or of all for "". It
// returns when all have answered, when ctx ends or after [Options.OpTimeout]; the others are Silent. Java programs do not
// answer. Fleet asks processes that hold a lock or waited lately, and fails if Redis cannot list them. It costs
// one command for each server and at least two messages for each process. A process answers 10 requests a second; Fleet
// asks a process that refuses once more, a second later. An answer names 200 held locks and 200 waiting calls at most;
// see Omitted.
func (c *Client) Fleet(ctx context.Context, key string) (Fleet, error) {
	fail := func(err error) (Fleet, error) { return Fleet{}, &Error{Op: "ask the fleet", Key: key, Err: err} }
	if c == nil || c.rc == nil {
		return fail(errNoClient)
	}
	if len(key) > protocol.MaxKey {
		return fail(c.checkKey(key))
	}
	if !c.granting() {
		return fail(ErrClosed)
	}
	ctx, cancel := context.WithTimeoutCause(present(ctx), c.opts.OpTimeout, transport.ErrNoAnswer)
	defer cancel()
	c.hear()
	ids, err := bounded(ctx, c, func() ([]string, error) {
		ids, err := c.listeners()
		return ids, toldWhy(err)
	})
	if err != nil {
		return fail(err)
	}
	if err := c.awaitHearing(ctx); err != nil {
		return fail(err)
	}
	q := c.questions.begin(ids)
	defer c.questions.end(q)
	others := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == c.wire.UUID })
	if len(others) > 0 {
		c.spawn(func() { c.question(q, others, askWord, key) })
	}
	if slices.Contains(ids, c.wire.UUID) {
		q.heard(c.wire.UUID, reportPart{Snapshot: c.look(key, 0), ID: q.id, Parts: 1})
	}
	for {
		select {
		case <-q.done:
			return q.fleet(), nil
		case <-ctx.Done():
			return q.fleet(), nil
		case <-c.closing:
			return fail(ErrClosed)
		case <-q.again:
			c.askAgain(ctx, q, key)
		}
	}
}

// askAgain asks the processes that refused again, once they answer again.
func (c *Client) askAgain(ctx context.Context, q *question, key string) {
	pause := time.NewTimer(pacePeriod)
	defer pause.Stop()
	select {
	case <-pause.C:
		c.spawn(func() { c.question(q, q.refusers(), askWord, key) })
	case <-ctx.Done():
	case <-c.closing:
	}
}

// awaitHearing returns once the client hears its channels.
func (c *Client) awaitHearing(ctx context.Context) error {
	l := c.net.Listen(protocol.ProcessChannel(c.wire.UUID), func(hub.Event) {}) // a new one, since the others may have heard before
	defer l.Close()
	select {
	case <-l.Ready():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: the client cannot subscribe", ended(ctx))
	case <-c.closing:
		return ErrClosed
	}
}

// listeners returns the ids of the listening processes, each once, in order.
func (c *Client) listeners() ([]string, error) {
	c.net.MarkShared()
	ctx, cancel := c.briefly()
	defer cancel()
	pattern := protocol.ProcessChannel(strings.ReplaceAll("00000000-0000-0000-0000-000000000000", "0", "[0-9a-f]"))
	found := map[string]struct{}{}
	var failed error
	answered := 0
	for _, node := range c.rc.Nodes() {
		names, err := node.Do(ctx, node.B().PubsubChannels().Pattern(pattern).Build()).AsStrSlice()
		if err != nil {
			failed = err
			continue
		}
		answered++
		for _, name := range names {
			found[strings.TrimPrefix(name, protocol.ProcessChannel(""))] = struct{}{}
		}
	}
	if answered == 0 {
		return nil, cmpOr(failed, transport.ErrNoAnswer)
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// question sends a request that begins with word to each of the processes ids.
func (c *Client) question(q *question, ids []string, word, key string) {
	c.net.MarkShared()
	request := word + q.id + " " + protocol.ProcessChannel(c.wire.UUID)
	if key != "" {
		request += " " + key
	}
	for some := range slices.Chunk(ids, 100) {
		commands := make(rueidis.Commands, len(some))
		for i, id := range some {
			commands[i] = c.rc.B().Publish().Channel(protocol.ProcessChannel(id)).Message(request).Build()
		}
		for i, reply := range c.rc.DoMulti(context.Background(), commands...) {
			if n, err := reply.AsInt64(); !c.net.Clustered() && err == nil && n == 0 {
				q.gone(some[i]) // it has ended meanwhile
			}
		}
	}
}

// askWord begins a request to a process: "ask <id> <channel of the reply>", and a key if it is about that alone.
const askWord = "ask "

// The limits of answers.
const (
	pacePeriod   = time.Second
	mostAnswers  = 10               // in a period, and as many refusals
	mostReported = 400              // locks and calls in an answer, half of each: so that a report takes less than 1ms
	mostPart     = 32 << 10         // bytes of a part
	mostHeard    = 64 * mostPart    // bytes that one process may send
	refusedText  = "too many asked" // the text of a refusal
)

// A reportPart is one message of an answer, JSON: a part of a Snapshot, with its number.
type reportPart struct {
	Snapshot

	ID      string `json:"id"`                // of the request
	Part    int    `json:"part"`              // from 0 on
	Parts   int    `json:"parts"`             // how many there are
	Refused string `json:"refused,omitempty"` // why
}

// A pace counts requests.
type pace struct {
	mu    sync.Mutex
	since monotonic.Time
	n     int
}

// take returns the number of requests in this period, with this one.
func (p *pace) take(at monotonic.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() || at.Sub(p.since) >= pacePeriod {
		p.since, p.n = at, 0
	}
	p.n++
	return p.n
}

// asked handles a request for the holds of the process. It does not block. Answers go to channels of this library
// alone: Redisson's channels may only have integers.
func (c *Client) asked(request string) {
	id, channel, key, ok := readRequest(request)
	if !ok {
		return
	}
	switch n := c.asks.take(monotonic.Now()); {
	case n <= mostAnswers:
		c.spawn(func() { c.say(channel, partsOf(c.look(key, mostReported), id)) })
	case n <= 2*mostAnswers:
		c.spawn(func() {
			s := Snapshot{Version: SnapshotVersion, At: time.Now(), Process: c.Process()}
			c.say(channel, []string{encoded(reportPart{Snapshot: s, ID: id, Parts: 1, Refused: refusedText})})
		})
	}
}

// say publishes the parts of an answer.
func (c *Client) say(channel string, parts []string) {
	c.net.MarkShared()
	for _, part := range parts {
		err := c.rc.Do(context.Background(), c.rc.B().Publish().Channel(channel).Message(part).Build()).Error()
		if _, spoke := rueidis.IsRedisErr(err); spoke {
			c.unheard.Do(func() {
				c.opts.Logger.Warn("lockgen: a process that asked what this one holds cannot be answered", "channel", channel, "error", err)
			})
		}
		if err != nil {
			return // the asking process sees that a part is missing
		}
	}
}

// partsOf returns s as JSON, in parts each of which can be read by itself.
func partsOf(s Snapshot, id string) []string {
	base := reportPart{Snapshot: s, ID: id}
	base.Held, base.Waiting = nil, nil
	room := mostPart - len(encoded(base)) - 64 // for the names of the lists, and numbers
	type lists struct{ held, waiting []string }
	all := []lists{{}}
	size := 0
	last := func(text string) *lists {
		if size += len(text) + 1; size > room && size > len(text)+1 {
			all, size = append(all, lists{}), len(text)+1
		}
		return &all[len(all)-1]
	}
	for _, h := range s.Held {
		text := encoded(h)
		l := last(text)
		l.held = append(l.held, text)
	}
	for _, w := range s.Waiting {
		text := encoded(w)
		l := last(text)
		l.waiting = append(l.waiting, text)
	}
	texts := make([]string, len(all))
	for i, l := range all {
		base.Part, base.Parts = i, len(all)
		whole := strings.TrimSuffix(encoded(base), "}")
		for name, list := range map[string][]string{"held": l.held, "waiting": l.waiting} {
			if len(list) > 0 {
				whole += `,"` + name + `":[` + strings.Join(list, ",") + "]"
			}
		}
		texts[i] = whole + "}"
	}
	return texts
}

// encoded returns the JSON of v, which always has one.
func encoded(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "{}"
	}
	return string(text)
}

// questions are the requests of this client without all answers.
type questions struct {
	mu   sync.Mutex // guards the rest, and the answers of each question
	last uint64
	open map[string]*question
}

// A question is one request to several processes.
type question struct {
	of    *questions
	id    string
	done  chan struct{} // closed when all have answered
	again chan struct{} // has a token when a process has refused

	missing map[string]struct{}           // processes that have not answered
	parts   map[string]map[int]reportPart // parts of answers
	size    map[string]int                // of the received answers, in bytes
	bad     map[string]bool               // processes with invalid answers
	refused []string                      // processes to ask again
}

// some reports whether there is a question that is not answered.
func (s *questions) some() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open) > 0
}

func (s *questions) begin(ids []string) *question {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	q := &question{
		of: s, id: fmt.Sprint(s.last), done: make(chan struct{}), again: make(chan struct{}, 1),
		missing: map[string]struct{}{}, parts: map[string]map[int]reportPart{}, size: map[string]int{}, bad: map[string]bool{},
	}
	for _, id := range ids {
		q.missing[id] = struct{}{}
	}
	if len(ids) == 0 {
		close(q.done)
	}
	if s.open == nil {
		s.open = map[string]*question{}
	}
	s.open[q.id] = q
	return q
}

func (s *questions) end(q *question) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, q.id)
}

// answered handles a message that may be part of an answer. It does not block.
func (s *questions) answered(text string) {
	s.mu.Lock()
	none := len(s.open) == 0
	s.mu.Unlock()
	if none || len(text) > 2*mostPart {
		return
	}
	var part reportPart
	if err := json.Unmarshal([]byte(text), &part); err != nil {
		return // its question is unknown
	}
	s.mu.Lock()
	q := s.open[part.ID]
	if q != nil {
		q.size[part.Process.ID] += len(text)
	}
	s.mu.Unlock()
	if q != nil {
		q.heard(part.Process.ID, part)
	}
}

// heard records part of the answer of a process. A duplicate, or one without a question, changes
// nothing.
func (q *question) heard(id string, part reportPart) {
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	if _, ok := q.missing[id]; !ok {
		return
	}
	switch {
	case part.Refused != "":
		q.refused = append(q.refused, id)
		select {
		case q.again <- struct{}{}:
		default:
		}
		return
	case part.Version != SnapshotVersion, part.Parts < 1, part.Part < 0, part.Part >= part.Parts, q.size[id] > mostHeard:
		q.bad[id] = true
	default:
		if q.parts[id] == nil {
			q.parts[id] = map[int]reportPart{}
		}
		q.parts[id][part.Part] = part
		if len(q.parts[id]) < part.Parts {
			return
		}
	}
	q.settle(id)
}

// gone records that a process has ended.
func (q *question) gone(id string) {
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	if _, ok := q.missing[id]; ok {
		delete(q.parts, id)
		q.settle(id)
	}
}

// refusers returns the processes that have refused since the last call.
func (q *question) refusers() []string {
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	ids := q.refused
	q.refused = nil
	return ids
}

// settle records that the answer of a process is complete. The caller holds the lock.
func (q *question) settle(id string) {
	delete(q.missing, id)
	if len(q.missing) == 0 {
		close(q.done)
	}
}

// fleet returns the received answers.
func (q *question) fleet() Fleet {
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	var f Fleet
	for id := range q.missing {
		f.Silent = append(f.Silent, id)
	}
	for id := range q.bad {
		f.Silent = append(f.Silent, id)
	}
	slices.Sort(f.Silent)
	for _, id := range slices.Sorted(maps.Keys(q.parts)) {
		if _, missing := q.missing[id]; missing || q.bad[id] {
			continue
		}
		var s Snapshot
		for _, i := range slices.Sorted(maps.Keys(q.parts[id])) {
			part := q.parts[id][i]
			if i == 0 {
				s = part.Snapshot
				continue
			}
			s.Held, s.Waiting = append(s.Held, part.Held...), append(s.Waiting, part.Waiting...)
		}
		f.Processes = append(f.Processes, s)
	}
	return f
}
