package deadlock

import (
	"encoding/json"
	"slices"
	"time"
)

// The pace of messages. In the long run a process sends Rate of them in an interval at most; after a quiet time it may send Burst at
// once. Those that end a search count, and Burst of them are sent even if there were too many: then the process sends no probe until that is
// made up for, which is the reason why a circle is found late where very many calls wait. Those that repeat what was said wait for a quiet time.
const (
	Rate  = 10
	Burst = 40
)

// gather is the part of an interval for which messages are held back after others were sent: what is to be sent by then goes with them.
const gather = 200

// A Message is for another process.
type Message struct {
	To   string
	Text string
}

// An outbox holds what is to be sent, until it may be. A probe that has waited there for an interval is of no use any more, and what
// ends a search is not after a fourth of one. A circle that is found is worth sending also late.
type outbox struct {
	interval time.Duration
	tokens   float64       // messages that may be sent
	filled   time.Duration // when they were counted
	sent     time.Duration // when messages were sent last
	to       []letters     // the one that has waited for longest first
}

// letters are for one process.
type letters struct {
	process string
	items   []letter
}

type letter struct {
	until time.Duration
	rank  rank
	text  json.RawMessage
}

// A rank orders what is to be sent to a process.
type rank int

const (
	urgent rank = iota // it ends a search
	search             // a probe
	again              // it repeats what was said
)

// needs returns how many messages there must be that may be sent, before one is sent that begins with a letter of the rank.
func (r rank) needs() float64 {
	switch r {
	case urgent:
		return 1 - Burst
	case again:
		return Burst / 2
	default:
		return 1
	}
}

// add has something sent to a process.
func (o *outbox) add(now time.Duration, process string, it item) {
	l := letter{rank: search, until: now + o.interval}
	if it.Probe == nil {
		l = letter{rank: urgent, until: now + o.interval/4}
	}
	if it.Found != nil {
		l.until = now + lateness
	}
	o.put(process, l, it)
}

// repeat has something sent to a process in a quiet time.
func (o *outbox) repeat(now time.Duration, process string, it item) {
	o.put(process, letter{rank: again, until: now + lateness}, it)
}

// put adds a letter: an urgent one in front of all, another one behind those of its rank.
func (o *outbox) put(process string, l letter, it item) {
	text, err := json.Marshal(it)
	if err != nil {
		return // strings and numbers can be written
	}
	i := slices.IndexFunc(o.to, func(l letters) bool { return l.process == process })
	if i < 0 {
		i = len(o.to)
		o.to = append(o.to, letters{process: process})
	}
	items, at := o.to[i].items, 0
	for at < len(items) && (items[at].rank < l.rank || l.rank != urgent && items[at].rank == l.rank) {
		at++
	}
	l.text = text
	o.to[i].items = slices.Insert(items, at, l)
}

// take returns the messages that may be sent now, and in how long there are more, if there are.
func (o *outbox) take(now time.Duration) (messages []Message, next time.Duration, more bool) {
	each := o.interval / Rate
	o.tokens = min(Burst, o.tokens+float64(now-o.filled)/float64(each))
	o.filled = now
	for i := range o.to {
		o.to[i].items = slices.DeleteFunc(o.to[i].items, func(l letter) bool { return now > l.until })
	}
	o.to = slices.DeleteFunc(o.to, func(l letters) bool { return len(l.items) == 0 })
	if wait := o.sent + o.interval/gather - now; len(o.to) > 0 && o.sent > 0 && wait > 0 {
		return nil, wait, true
	}
	var later []letters
	for len(o.to) > 0 {
		l := o.to[0]
		o.to = o.to[1:]
		if o.tokens < l.items[0].rank.needs() {
			later = append(later, l)
			continue
		}
		o.tokens--
		o.sent = now
		m := message{Version: Version}
		size := 0
		for _, it := range l.items {
			if size += len(it.text); size > mostMessage && len(m.Items) > 0 {
				break
			}
			m.Items = append(m.Items, it.text)
		}
		if l.items = l.items[len(m.Items):]; len(l.items) > 0 {
			o.to = append(o.to, l)
		}
		text, err := json.Marshal(m)
		if err == nil {
			messages = append(messages, Message{l.process, string(text)})
		}
	}
	o.to = later
	if len(o.to) == 0 {
		return messages, 0, false
	}
	needs := float64(Burst)
	for _, l := range o.to {
		needs = min(needs, max(l.items[0].rank.needs(), 1))
	}
	return messages, max(time.Duration((needs-o.tokens)*float64(each)), time.Millisecond), true
}
