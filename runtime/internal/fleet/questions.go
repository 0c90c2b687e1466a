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

	missing int                // number of answers
	answers map[string]*answer // by the processes
	refused []string           // processes to ask again
}

// An answer is that of one process, or none if the process has ended.
type answer struct {
	state answerState
	parts map[int]part
	size  int // of what was received, in bytes
}

type answerState uint8

const (
	answerMissing answerState = iota
	answerWhole
	answerInvalid
)

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
		of: s, id: fmt.Sprint(s.last), done: make(chan struct{}), again: make(chan struct{}, 1), answers: map[string]*answer{},
	}
	for _, id := range ids {
		q.answers[id] = &answer{parts: map[int]part{}}
	}
	if q.missing = len(q.answers); q.missing == 0 {
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
	var m message
	if err := json.Unmarshal([]byte(text), &m); err == nil { // otherwise its question is unknown
		s.heard(m.read(), len(text))
	}
}

// heard records part of the answer of a process. A duplicate, or one without a question, changes
// nothing.
func (s *questions) heard(p part, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.open[p.ID]
	if q == nil || q.answers[p.Process.ID] == nil {
		return
	}
	of := q.answers[p.Process.ID]
	of.size += size
	switch {
	case of.state != answerMissing:
	case p.Refused != "":
		q.refused = append(q.refused, p.Process.ID)
		select {
		case q.again <- struct{}{}:
		default:
		}
	case p.Version != observe.SnapshotVersion, p.Parts < 1, p.Part < 0, p.Part >= p.Parts, of.size > mostHeard:
		q.settle(of, answerInvalid)
	default:
		if of.parts[p.Part] = p; len(of.parts) >= p.Parts {
			q.settle(of, answerWhole)
		}
	}
}

// gone records that a process has ended.
func (q *question) gone(id string) {
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	if of := q.answers[id]; of != nil && of.state == answerMissing {
		of.parts = nil
		q.settle(of, answerWhole)
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

// settle records that an answer does not change any more. The caller holds the lock.
func (q *question) settle(of *answer, state answerState) {
	of.state = state
	if q.missing--; q.missing == 0 {
		close(q.done)
	}
}

// fleet returns the received answers.
func (q *question) fleet() (f observe.Fleet) {
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(q.answers)) {
		of := q.answers[id]
		if of.state != answerWhole {
			f.Silent = append(f.Silent, id)
			continue
		}
		var s observe.Snapshot
		for _, i := range slices.Sorted(maps.Keys(of.parts)) {
			p := of.parts[i]
			if i == 0 {
				s = p.Snapshot
				continue
			}
			s.Held, s.Waiting = append(s.Held, p.Held...), append(s.Waiting, p.Waiting...)
		}
		if len(of.parts) > 0 {
			f.Processes = append(f.Processes, s)
		}
	}
	return f
}
