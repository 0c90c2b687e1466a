package tracetest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/spec"
)

// A Tracer replays what clients and a server do about mutexes against the specification, while it happens.
type Tracer struct {
	Began   time.Time // the times of all events count from here
	Resends bool      // the servers are a cluster, see spec.Check
	Part    bool      // the server has parts of RedLocks, see spec.Check

	procs int
	slack time.Duration // of the times of the server
	late  time.Duration // of the clients, which ask for whole milliseconds

	mu     sync.Mutex
	known  map[string]int // processes, by the first halves of their owners
	checks map[string]*spec.Check
	bad    []string // the events that left the protocol

	said func(key string, e spec.Said) // gets each event, if it is not nil
}

// NewTracer returns a tracer of so many processes. slack is how exact the times of the server are, and late for how much longer than the
// specification says a client may trust in its lease.
func NewTracer(procs int, slack, late time.Duration) *Tracer {
	return &Tracer{Began: time.Now(), procs: procs, slack: slack, late: late, known: map[string]int{}, checks: map[string]*spec.Check{}}
}

// Say replays an event of a key, which is made under the lock of x.
func (x *Tracer) Say(key string, made func() spec.Said) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.say(key, made())
}

// See returns a mutex as a server has it. A function that x calls may call it.
func (x *Tracer) See(m *miniredis.Miniredis, key string) *spec.Seen {
	seen := &spec.Seen{Owner: spec.None, Left: m.TTL(key)}
	if owners, _ := m.HKeys(key); len(owners) > 0 {
		seen.Owner = x.owner(owners[0])
	}
	line, _ := m.List(waiting(key))
	for _, place := range line {
		seen.Line = append(seen.Line, x.owner(place))
	}
	return seen
}

// owner returns an owner as the specification has it. The caller holds x.mu.
func (x *Tracer) owner(field string) spec.Owner {
	field, _, _ = strings.Cut(field, "+") // as it stands in a line
	uuid, number, _ := strings.Cut(field, ":")
	p, known := x.known[uuid]
	if _, ours := protocol.ClientOf(field); !ours {
		return spec.Redisson
	}
	if !known {
		p = len(x.known)
		x.known[uuid] = p
	}
	n, err := strconv.Atoi(number)
	if err != nil {
		panic("not an owner: " + field)
	}
	return spec.Owner{P: p, N: n}
}

// Step gets each step of a client.
func (x *Tracer) Step(s trace.Step) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.say(s.Key, spec.Said{At: s.At.Sub(x.Began), Action: string(s.Action), Who: x.owner(s.Owner), Line: s.Line, Trust: s.Trust, Token: s.Token})
}

// say replays an event. The caller holds x.mu.
func (x *Tracer) say(key string, e spec.Said) {
	if x.said != nil {
		x.said(key, e)
	}
	c, known := x.checks[key]
	if !known {
		c = spec.NewCheck(x.procs, protocol.HandOverLease, x.slack, x.late)
		c.Resends, c.Part = x.Resends, x.Part
		x.checks[key] = c
	}
	if c == nil {
		return // it has left the protocol before
	}
	if err := c.Say(e); err != nil {
		x.bad = append(x.bad, fmt.Sprintf("the trace of %q: %v", key, err))
		x.checks[key] = nil
	}
}

// A Looker looks at a server when a script has run.
type Looker struct {
	See  func(key string) *spec.Seen   // which it may have changed; nil if nobody knows
	Deaf func(key, uuid string) bool   // whether one of our clients does not listen; nil if nobody knows
	Java func(key string) (heard bool) // whether somebody listens to the channel of a lock; nil if nobody knows
}

// Served replays what a server did.
func (x *Tracer) Served(at time.Duration, requests []Request, look Looker) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, r := range requests {
		e := spec.Said{At: at, Action: r.action, Java: look.Java == nil || look.Java(r.key), Heed: look.Deaf != nil}
		for uuid, p := range x.known {
			if look.Deaf != nil && look.Deaf(r.key, uuid) {
				e.Deaf = append(e.Deaf, p)
			}
		}
		slices.Sort(e.Deaf)
		for _, d := range r.drawn {
			e.Drawn = append(e.Drawn, spec.Draw{Who: x.owner(d.owner), First: d.last - int64(d.many) + 1, Last: d.last})
		}
		if r.action != fault {
			e.Who, e.Line = x.owner(r.owner), r.line
			e.TTL = millis(r.ttl)
		}
		last := !slices.ContainsFunc(requests[i+1:], func(later Request) bool { return later.key == r.key })
		if look.See != nil && (last || r.action == fault) {
			e.Srv = look.See(r.key)
		}
		x.say(r.key, e)
	}
}

// Failed returns what left the protocol since it was called last.
func (x *Tracer) Failed() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	bad := x.bad
	x.bad = nil
	return bad
}
