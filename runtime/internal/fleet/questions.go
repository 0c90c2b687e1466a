package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/lockgen/lockgen/runtime/observe"
)

// questions are the requests of this process without all answers.
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

	missing map[string]struct{}     // processes that have not answered
	parts   map[string]map[int]part // parts of answers
	size    map[string]int          // of the received answers, in bytes
	bad     map[string]bool         // processes with invalid answers
	refused []string                // processes to ask again
}

// Asking returns how many questions are not answered.
func (s *questions) Asking() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

func (s *questions) begin(ids []string) *question {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	q := &question{
		of: s, id: fmt.Sprint(s.last), done: make(chan struct{}), again: make(chan struct{}, 1),
		missing: map[string]struct{}{}, parts: map[string]map[int]part{}, size: map[string]int{}, bad: map[string]bool{},
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
	if s.Asking() == 0 || len(text) > 2*mostPart {
		return
	}
	var p part
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return // its question is unknown
	}
	s.mu.Lock()
	q := s.open[p.ID]
	if q != nil {
		q.size[p.Process.ID] += len(text)
	}
	s.mu.Unlock()
	if q != nil {
		q.heard(p.Process.ID, p)
	}
}

// heard records part of the answer of a process. A duplicate, or one without a question, changes
// nothing.
func (q *question) heard(id string, p part) {
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	if _, ok := q.missing[id]; !ok {
		return
	}
	switch {
	case p.Refused != "":
		q.refused = append(q.refused, id)
		select {
		case q.again <- struct{}{}:
		default:
		}
		return
	case p.Version != observe.SnapshotVersion, p.Parts < 1, p.Part < 0, p.Part >= p.Parts, q.size[id] > mostHeard:
		q.bad[id] = true
	default:
		if q.parts[id] == nil {
			q.parts[id] = map[int]part{}
		}
		q.parts[id][p.Part] = p
		if len(q.parts[id]) < p.Parts {
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
func (q *question) fleet() observe.Fleet {
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	f := observe.Fleet{Silent: slices.Collect(maps.Keys(q.missing))}
	f.Silent = slices.AppendSeq(f.Silent, maps.Keys(q.bad))
	slices.Sort(f.Silent)
	for _, id := range slices.Sorted(maps.Keys(q.parts)) {
		if _, missing := q.missing[id]; missing || q.bad[id] {
			continue
		}
		var s observe.Snapshot
		for _, i := range slices.Sorted(maps.Keys(q.parts[id])) {
			p := q.parts[id][i]
			if i == 0 {
				s = p.Snapshot
				continue
			}
			s.Held, s.Waiting = append(s.Held, p.Held...), append(s.Waiting, p.Waiting...)
		}
		f.Processes = append(f.Processes, s)
	}
	return f
}
