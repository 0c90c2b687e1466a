package fleet

import (
	"encoding/json"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/observe"
)

// The limits of answers.
const (
	pacePeriod   = time.Second
	mostAnswers  = 10               // in a period, and as many refusals
	mostReported = 400              // locks and calls in an answer, half of each: so that a report takes less than 1ms
	mostPart     = 32 << 10         // bytes of a part
	mostHeard    = 64 * mostPart    // bytes that one process may send
	refusedText  = "too many asked" // the text of a refusal
)

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

// A part is one message of an answer, JSON: a part of a Snapshot, with its number.
type part struct {
	observe.Snapshot

	ID      string `json:"id"`                // of the request
	Part    int    `json:"part"`              // from 0 on
	Parts   int    `json:"parts"`             // how many there are
	Refused string `json:"refused,omitempty"` // why
}

// A message is a part as a process reads it. JSON has only UTF-8: a key with other bytes has its bytes beside it.
type message struct {
	part

	Held    []heldLock    `json:"held"`
	Waiting []waitingCall `json:"waiting"`
}

type heldLock struct {
	observe.HeldLock

	Bytes []byte `json:"key_bytes,omitempty"`
}

type waitingCall struct {
	observe.WaitingCall

	Bytes []byte     `json:"key_bytes,omitempty"`
	Under []leaseRef `json:"under,omitempty"`
}

type leaseRef struct {
	observe.LeaseRef

	Bytes []byte `json:"key_bytes,omitempty"`
}

// bytesOf returns the bytes of a key that is not UTF-8.
func bytesOf(key string) []byte {
	if utf8.ValidString(key) {
		return nil
	}
	return []byte(key)
}

// restore has a key be its bytes, if JSON has lost them.
func restore(key *string, bytes []byte) {
	if len(bytes) > 0 {
		*key = string(bytes)
	}
}

func messageOf(w observe.WaitingCall) waitingCall {
	call := waitingCall{WaitingCall: w, Bytes: bytesOf(w.Key)}
	for _, u := range w.Under {
		call.Under = append(call.Under, leaseRef{u, bytesOf(u.Key)})
	}
	return call
}

// read returns the part, with the keys as they are.
func (m message) read() part {
	p := m.part
	for _, h := range m.Held {
		restore(&h.Key, h.Bytes)
		p.Held = append(p.Held, h.HeldLock)
	}
	for _, w := range m.Waiting {
		restore(&w.Key, w.Bytes)
		for _, u := range w.Under {
			restore(&u.Key, u.Bytes)
			w.WaitingCall.Under = append(w.WaitingCall.Under, u.LeaseRef)
		}
		p.Waiting = append(p.Waiting, w.WaitingCall)
	}
	return p
}

// partsOf returns s as JSON, in parts each of which can be read by itself.
func partsOf(s observe.Snapshot, id string) []string {
	base := part{Snapshot: s, ID: id}
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
		text := encoded(heldLock{h, bytesOf(h.Key)})
		l := last(text)
		l.held = append(l.held, text)
	}
	for _, w := range s.Waiting {
		text := encoded(messageOf(w))
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

// The first words of requests to a process.
const (
	askWord   = "ask "   // for its holds: "ask <id> <channel of the reply>", and a key if it is about that alone
	traceWord = "trace " // for the traces of the holders of a key: "trace <id> <channel of the reply> <key>"
)

// readRequest returns the parts of a request of another process, and whether it is one. Answers go to channels of this library alone:
// Redisson's channels may only have integers.
func readRequest(request string) (id, channel, key string, ok bool) {
	id, rest, _ := strings.Cut(request, " ")
	channel, key, _ = strings.Cut(rest, " ")
	ok = id != "" && len(id) <= 64 && len(channel) <= 256 && strings.HasPrefix(channel, protocol.ProcessChannel(""))
	return id, channel, key, ok
}
