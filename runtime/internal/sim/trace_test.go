package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/spec"
)

// A tracer replays what clients and a server do about mutexes against the specification, while it happens.
type tracer struct {
	began time.Time
	procs int
	slack time.Duration // of the times of the server
	late  time.Duration // of the clients, which ask for whole milliseconds

	mu     sync.Mutex
	known  map[string]int // processes, by the first halves of their owners
	checks map[string]*spec.Check
	events int
	bad    []string // the events that left the protocol
	kept   func(key string, e spec.Said)
}

func newTracer(procs int, slack, late time.Duration) *tracer {
	return &tracer{began: time.Now(), procs: procs, slack: slack, late: late, known: map[string]int{}, checks: map[string]*spec.Check{}}
}

// owner returns an owner as the specification has it.
func (x *tracer) owner(field string) spec.Owner {
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

// step gets each step of a client.
func (x *tracer) step(s trace.Step) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.say(s.Key, spec.Said{At: s.At.Sub(x.began), Action: string(s.Action), Who: x.owner(s.Owner), Line: s.Line, Trust: s.Trust, Token: s.Token})
}

// say replays an event. The caller holds x.mu.
func (x *tracer) say(key string, e spec.Said) {
	x.events++
	if x.kept != nil {
		x.kept(key, e)
		return
	}
	c, known := x.checks[key]
	if !known {
		c = spec.NewCheck(x.procs, protocol.HandOverLease, x.slack, x.late)
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

// A request is one that a script has dealt with, for one lock.
type request struct {
	key    string
	action string // of the specification; none if it changed nothing, and Fault if nobody knows what it did
	owner  string
	ttl    string
	line   int // how it asked; -1 if that is not known
	drawn  []draw
}

// A draw is of so many fencing tokens for an owner, of which the last is known.
type draw struct {
	owner string
	many  int
	last  int64
}

// drawn returns which fencing tokens of a lock a script has drawn, by what it called: those that it sends to who is handed the lock, and
// those of who asked for it.
func drawn(calls [][]string, key, asker string, many int) (all []draw) {
	for _, call := range calls {
		switch {
		case strings.EqualFold(call[0], "set") && call[1] == "redisson_lock_token:{"+key+"}":
			last, _ := strconv.ParseInt(call[2], 10, 64)
			all = append(all, draw{asker, many, last})
		case strings.EqualFold(call[0], "publish") && strings.HasPrefix(call[2], "granted ") && strings.HasSuffix(call[2], " of lock "+key) && len(all) > 0:
			words := strings.Fields(call[2])
			if token, _ := strconv.ParseInt(words[4], 10, 64); token > 0 {
				d := &all[len(all)-1]
				d.owner, d.many = strings.TrimPrefix(call[1], "lockgen_process:")+":"+words[1], int(d.last-token+1)
			}
		}
	}
	return all
}

// said returns what a reply says of the lock i, of which it has so many values: the first of them.
func said(reply string) func(i, each int) string {
	values := strings.Split(reply, "\r\n")
	return func(i, each int) string {
		if strings.HasPrefix(reply, "*") && 1+i*each < len(values) {
			return values[1+i*each]
		}
		return values[0]
	}
}

// requestsOf returns what a script has done for which locks, in order, by what it has said of each.
func requestsOf(script string, keys, args []string, at func(i, each int) string, calls [][]string) (all []request) {
	add := func(value, key, action, owner, ttl string, line int) {
		if strings.HasPrefix(value, "-") {
			action = "Fault"
		}
		all = append(all, request{key, action, owner, ttl, line, nil})
	}
	draws := func(key, place string, many string) {
		n, _ := strconv.Atoi(many)
		owner, _, _ := strings.Cut(place, "+")
		all[len(all)-1].drawn = drawn(calls, key, owner, n)
	}
	askers := map[string]string{} // of locks: the place of who wants it again
	switch script {
	case "take":
		for i, key := range keys {
			add(at(i, 4), key, "RunAcquire", args[2*i], args[2*i+1], 0)
		}
	case "acquire":
		for i := 0; 3*i < len(keys); i++ {
			add(at(i, 4), keys[3*i], "RunAcquire", args[5*i+1], args[5*i], int(args[5*i+2][0]-'0'))
			draws(keys[3*i], args[5*i+1], args[5*i+3])
		}
	case "renew":
		for i, key := range keys {
			add(at(i, 1), key, "RunRenew", args[2*i], args[2*i+1], 0)
		}
	case "free":
		for i := 0; 3*i < len(keys); i++ {
			if value := at(i, 4); value != ":3" { // else somebody is in the wait queue, and nothing was done
				add(value, keys[3*i], "RunRelease", args[2+i], "", 0)
			}
		}
	case "release":
		for i := 0; 4*i < len(keys); i++ {
			own, again, ttl := args[3+4*i], args[4+4*i], args[5+4*i]
			value := at(i, 4)
			add(value, keys[4*i], "RunRelease", own, "", 0)
			if again != "" {
				askers[keys[4*i]] = again
			}
			if !slices.Contains(keys[4*i+1:], keys[4*i]) { // else what was drawn of it, by whichever release, is said of the last
				_, many, _ := strings.Cut(askers[keys[4*i]], "+")
				many, _, _ = strings.Cut(many, ",")
				draws(keys[4*i], askers[keys[4*i]], many)
			}
			if again != "" && value != ":-1" {
				add(value, keys[4*i], "RunAcquire", again, ttl, -1)
			}
		}
	case "force_unlock":
		add("", keys[0], "Fault", "", "", 0)
	}
	return all
}

// served replays what a server did. see looks at a lock; deaf returns which of our clients do not listen, and java whether
// somebody listens to the channel of a lock; all of them are nil if nobody knows.
func (x *tracer) served(at time.Duration, requests []request, see func(key string) *spec.Seen, deaf func(uuid string) bool, java func(key string) bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ran(at, requests, see, deaf, java)
}

// ran is served for a caller who holds x.mu.
func (x *tracer) ran(at time.Duration, requests []request, see func(key string) *spec.Seen, deaf func(uuid string) bool, java func(key string) bool) {
	for i, r := range requests {
		e := spec.Said{At: at, Action: r.action, Java: java == nil || java(r.key), Heed: deaf != nil}
		for uuid, p := range x.known {
			if deaf != nil && deaf(uuid) {
				e.Deaf = append(e.Deaf, p)
			}
		}
		slices.Sort(e.Deaf)
		for _, d := range r.drawn {
			e.Drawn = append(e.Drawn, spec.Draw{Who: x.owner(d.owner), First: d.last - int64(d.many) + 1, Last: d.last})
		}
		if r.action != "Fault" {
			e.Who, e.Line = x.owner(r.owner), r.line
			ms, _ := strconv.Atoi(r.ttl)
			e.TTL = time.Duration(ms) * time.Millisecond
		}
		last := !slices.ContainsFunc(requests[i+1:], func(later request) bool { return later.key == r.key })
		if see != nil && (last || r.action == "Fault") {
			e.Srv = see(r.key)
		}
		x.say(r.key, e)
	}
}

// failed returns what left the protocol since it was called last.
func (x *tracer) failed() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	bad := x.bad
	x.bad = nil
	return bad
}

// A traced world replays the traces of its mutexes.
type traced struct {
	*tracer
	w      *world
	offset time.Duration // of the clock of the server
}

// trace has the world replay the traces of its locks from now on, if there is a relation of their kind, until the function that it returns
// is called.
func (w *world) trace() (stop func()) {
	switch w.plan.kind.name {
	case "mutex", "besides", "multi":
		x := &traced{tracer: newTracer(w.plan.processes, 2*time.Millisecond, time.Millisecond+2*time.Microsecond), w: w}
		w.observes = append(w.observes, x.observe)
		w.faulted = append(w.faulted, x.disturbed)
		return trace.To(x.step)
	case "rw":
		w.traceRW()
	}
	return func() {}
}

// replays counts an event that is replayed.
func (w *world) replays() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count("events replayed", 1)
}

// tellFault tells those who replay traces that something may have been done to a server. The caller holds w.mu.
func (w *world) tellFault() {
	for _, f := range w.faulted {
		f()
	}
}

// observe replays an event of the server.
func (x *traced) observe(s *server, e *event) {
	if e == nil {
		return
	}
	requests := []request{}
	if e.script != "" {
		requests = requestsOf(e.script, e.keys(), e.cmd[3+len(e.keys()):], said(e.reply), e.effects)
	} else if e.process == 0 && writes[strings.ToUpper(e.cmd[0])] {
		for _, key := range x.w.locks() {
			requests = append(requests, request{key: key, action: "Fault"})
		}
	}
	if len(requests) > 0 {
		x.w.replays()
		x.served(time.Since(x.began), requests, func(key string) *spec.Seen { return x.see(s, key) },
			func(uuid string) bool { return !s.listens(protocol.ProcessChannel(uuid)) },
			func(key string) bool { return s.listens(protocol.LockChannel(key)) })
	}
	if key, did := javaDid(e); key != "" {
		did.At = time.Since(x.began)
		x.mu.Lock()
		did.Srv = x.see(s, key)
		x.say(key, did)
		x.mu.Unlock()
	}
	for _, bad := range x.failed() {
		x.w.fail("%s", bad)
	}
}

// keys returns the keys of the script of an event.
func (e *event) keys() []string {
	n := 0
	_, _ = fmt.Sscan(e.cmd[2], &n)
	return e.cmd[3 : 3+n]
}

// listens reports whether anybody listens to a channel.
func (s *server) listens(channel string) bool { return s.listeners(channel) > 0 }

// listeners returns how many listen to a channel.
func (s *server) listeners(channel string) int {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return len(s.heard[channel])
}

// locks returns the keys of the world.
func (w *world) locks() (all []string) {
	for i := range w.plan.keys {
		all = append(all, fmt.Sprintf("key%d", i))
	}
	return all
}

// see returns a lock as the server has it. The caller holds x.mu.
func (x *traced) see(s *server, key string) *spec.Seen {
	s.m.SetTime(s.clock())
	seen := &spec.Seen{Owner: spec.None, Left: s.m.TTL(key)}
	if owners, _ := s.m.HKeys(key); len(owners) > 0 {
		seen.Owner = x.owner(owners[0])
	}
	line, _ := s.m.List("lockgen_waiting:{" + key + "}")
	for _, place := range line {
		seen.Line = append(seen.Line, x.owner(place))
	}
	return seen
}

// disturbed replays that something may have been done to the server. The caller holds w.mu.
func (x *traced) disturbed() {
	s := x.w.servers[0]
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, key := range x.w.locks() {
		x.say(key, spec.Said{At: time.Since(x.began), Action: "Fault", Srv: x.see(s, key), Jump: s.offset - x.offset})
	}
	x.offset = s.offset
}
