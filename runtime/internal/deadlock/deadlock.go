// Package deadlock finds circles of calls that wait for each other in several processes, by messages between them, and decides
// which of the calls is to be ended. It knows neither Redis nor locks: a [World] names the waiting calls and the holders of
// the locks that they wait for, and the caller carries messages and the time.
//
// It is edge chasing after Chandy, Misra and Haas ("Distributed deadlock detection", 1983). A call that has waited for an
// interval under a lease, and again after each interval, sends a probe to the holders of what it waits for. A process that gets
// one passes it on for each of its calls that wait under that lease. A probe carries its path. One that comes to a call that is
// on the path already has found a circle, and the path is sent to the call where it began, its origin.
//
// Four rules keep the number of messages small, and the findings true:
//
//   - A call under no lease is in no circle and sends nothing. A process sends one message to another for all probes that
//     wait to be sent to it, and no more messages than [Rate] and [Burst] say.
//   - A call that sends probes itself passes on no probe of an origin that has waited for less: it will find what the other
//     would. So the call of a circle that has waited for longest finds it.
//   - A call passes on one probe of each round of an origin. Another one that has come by another way is sent to the origin,
//     which puts together what comes back.
//   - The origin asks the processes of a circle whether each of its calls has waited all the time, under the same lease. If
//     so all edges were there at once, when the last one was found. Otherwise nothing is reported.
//
// The next round makes up for a lost message. A circle is known to all its calls two intervals after the last of them began to
// wait, if the messages of one of the two rounds arrive. Where the calls of a process have more to say than [Rate] and [Burst] permit, some
// probes are not sent, and it may take more rounds. A circle that is broken is not found by the next round, so its processes hear of it once
// more after that. Such a message only informs calls that wait no more: it ends none.
package deadlock

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"
)

// An ID names a call that waits, in all processes in the same way.
type ID struct {
	Process string `json:"p"`
	Number  uint64 `json:"n"`
}

// A Call is a call that waits, as others know it.
type Call struct {
	ID

	Key     Key    `json:"k"` // the key that it waits for
	Kind    string `json:"t,omitempty"`
	Name    string `json:"m,omitempty"`
	Since   int64  `json:"s"` // when it began to wait, in microseconds since 1970
	Service string `json:"v,omitempty"`
	Host    string `json:"h,omitempty"`
	PID     int    `json:"i,omitempty"`
	Program string `json:"g,omitempty"`
}

// compare orders calls by how long they have waited, the longest first. All processes order them in the same way, whatever
// their clocks say, since a call carries its time.
func (c *Call) compare(d *Call) int {
	return cmp.Or(cmp.Compare(c.Since, d.Since), cmp.Compare(c.Process, d.Process), cmp.Compare(c.Number, d.Number))
}

// A Lease is a key that somebody has. Its owner tells the leases of a key apart.
type Lease struct {
	Key   Key    `json:"k"`
	Owner string `json:"o"`
}

// A Holder holds a key. Process is empty if its process cannot be asked.
type Holder struct {
	Owner   string
	Process string
}

// A Wait is a call of this process that waits.
type Wait struct {
	Call

	Under []Lease // under whose contexts it waits
	Long  bool    // it has waited for an interval
	// Any says that the call goes on as soon as one of its holders releases: it waits for ever only if all of them do.
	// Other calls wait for ever if one holder does.
	Any bool
}

// A World is what a process knows of itself and of its locks.
type World interface {
	// Waits returns the calls of this process that wait now.
	Waits() []Wait
	// Holders returns, for each of the calls, the holders of the lock that it waits for. None means that no holder is known; of a
	// call with Any it means that not all of them are known.
	Holders(of []*Wait) [][]Holder
	// Keep says that Found may name a call of this process for the duration [Memory], whether it still waits or not.
	Keep(number uint64)
	// Found reports, for a call of this process, a circle in which it is, or was before another of its calls was ended. It may be
	// reported again. A call that still waits was in the circle less than an interval ago.
	Found(number uint64, c Circle)
}

// A Circle is a deadlock: calls of which each waits for what another one has.
type Circle struct {
	Calls []Call `json:"c"` // the one that has waited for longest first, then the one whose lease that waits for, and so on
}

// Victim returns the call that is to be ended: the one that has waited for the shortest time.
func (c Circle) Victim() ID {
	last := slices.MaxFunc(c.Calls, func(a, b Call) int { return a.compare(&b) })
	return last.ID
}

// key names the circle.
func (c Circle) key() string {
	ids := make([]ID, len(c.Calls))
	for i := range c.Calls {
		ids[i] = c.Calls[i].ID
	}
	slices.SortFunc(ids, func(a, b ID) int {
		return cmp.Or(cmp.Compare(a.Process, b.Process), cmp.Compare(a.Number, b.Number))
	})
	text, _ := json.Marshal(ids) //nolint:errchkjson // strings and numbers
	return string(text)
}

// A step is a call on the path of a probe, and the holder to which the probe went on.
type step struct {
	Call

	Any []string `json:"a,omitempty"` // all of its holders, if the call waits for any of them
	Via string   `json:"o"`
}

// A probe is on its way to a lease: that of the key of the last step, and of the owner Via.
type probe struct {
	Round uint64 `json:"r"` // of the origin, which is the first call of the path
	Path  []step `json:"p"`
	// To is the call at which the path ended that goes back to the origin: one that is on the path, or was on another one.
	To *Call `json:"t,omitempty"`
}

func (p *probe) origin() *Call { return &p.Path[0].Call }
func (p *probe) last() *step   { return &p.Path[len(p.Path)-1] }

// picky reports whether a call on the path waits for any of its holders.
func (p *probe) picky() bool {
	return slices.ContainsFunc(p.Path, func(s step) bool { return s.Any != nil })
}

// has reports whether a call is on the path.
func (p *probe) has(id ID) bool {
	return slices.ContainsFunc(p.Path, func(s step) bool { return s.ID == id })
}

// A check asks a process whether calls of it still wait.
type check struct {
	From   string    `json:"f"`
	Number uint64    `json:"n"`
	Calls  []checked `json:"c"`
}

// A checked call is to wait for a key still, under leases, and for all the holders that it had if it waits for any of them.
type checked struct {
	Number uint64   `json:"n"`
	Key    Key      `json:"k"`
	Under  []Lease  `json:"u"`
	Any    []string `json:"a,omitempty"`
}

// A verdict answers a check.
type verdict struct {
	From   string `json:"f"`
	Number uint64 `json:"n"`
	Ok     bool   `json:"ok"`
}

// An item is one thing that a process says to another.
type item struct {
	Probe   *probe   `json:"probe,omitempty"`
	Back    *probe   `json:"back,omitempty"`
	Check   *check   `json:"check,omitempty"`
	Verdict *verdict `json:"verdict,omitempty"`
	Found   *Circle  `json:"found,omitempty"`
}

// A message is what is sent at once.
type message struct {
	Version int               `json:"v"`
	Items   []json.RawMessage `json:"i"`
}

// Version is that of the messages. Those of another one are not read.
const Version = 1

const (
	// mostPath is the largest number of calls of a path. Longer paths are not followed.
	mostPath = 64

	// mostMessage is how many bytes of items a message has at most, if there is more than one.
	mostMessage = 32 << 10

	// mostRead is how many bytes a message has at most that is read.
	mostRead = 256 << 10
)

// A Detector is the part of one process. It is for one goroutine at a time.
type Detector struct {
	self     string
	interval time.Duration
	world    World
	out      outbox

	rounds    uint64
	checks    uint64
	begun     map[uint64]*round         // by the numbers of the calls where they began
	asked     map[uint64]*question      // by the numbers of checks
	announced map[uint64]map[string]int // by the numbers of calls: how often this process announced circles
	sure      map[uint64]time.Duration  // by the numbers of calls: when it was said to others that they still wait
	repeats   []repeat                  // circles to announce again, the next one first
	seen      [2]map[visit]struct{}     // the probes that were passed on: recently, and before
	turned    time.Duration             // when that became before
}

// A visit is a call that passed on a probe.
type visit struct {
	origin ID
	round  uint64
	number uint64
}

// A round is what is known of the latest probes of one call.
type round struct {
	number uint64
	began  time.Duration
	plain  bool // it has found a circle in which no call waits for any of its holders
	graph  graph
	tried  map[string]bool // the circles of which others were asked, by their keys
	open   []*probe        // those that came back, and of which no circle is known
}

// A question is a check that is not answered by all.
type question struct {
	circle Circle
	began  time.Duration
	open   map[string]bool // processes that have not answered
}

// A repeat is a circle that is announced to the other processes once more, unless a round finds it again before.
type repeat struct {
	at     time.Duration
	key    string
	circle Circle
}

// Memory returns for how long a message about a circle can come after a process has confirmed that a call of it is in the circle. The
// second message is sent up to three intervals later, and each may be late by lateness.
func Memory(interval time.Duration) time.Duration { return 3*interval + lateness }

// lateness is how long a message is under way at most between two processes of busy machines.
const lateness = 10 * time.Second

// New returns the Detector of the process self.
func New(self string, interval time.Duration, world World) *Detector {
	return &Detector{
		self: self, interval: interval, world: world, out: outbox{interval: interval, tokens: Burst},
		begun: map[uint64]*round{}, asked: map[uint64]*question{}, announced: map[uint64]map[string]int{},
		sure: map[uint64]time.Duration{},
		seen: [2]map[visit]struct{}{{}, {}},
	}
}

// An index is the calls of a process that wait, at one moment.
type index struct {
	all    []Wait
	number map[uint64]*Wait
	under  map[Lease][]*Wait
}

func (d *Detector) look() *index {
	x := &index{all: d.world.Waits(), number: map[uint64]*Wait{}, under: map[Lease][]*Wait{}}
	for i := range x.all {
		w := &x.all[i]
		x.number[w.Number] = w
		for _, l := range w.Under {
			x.under[l] = append(x.under[l], w)
		}
	}
	return x
}

// Tick begins the rounds that are due at a time, and announces again what is due. It returns in how long there is more to do, and
// whether there is.
func (d *Detector) Tick(now time.Duration) (next time.Duration, more bool) {
	x := d.look()
	d.forget(now, x)
	var starts []arrival
	next = d.interval
	for i := range x.all {
		w := &x.all[i]
		if !w.Long || len(w.Under) == 0 {
			continue
		}
		more = true
		r := d.begun[w.Number]
		if r != nil && now-r.began < d.interval*3/4 { // those that are nearly due begin with the others
			next = min(next, r.began+d.interval-now)
			continue
		}
		d.rounds++
		d.begun[w.Number] = &round{number: d.rounds, began: now, tried: map[string]bool{}}
		starts = append(starts, arrival{&probe{Round: d.rounds}, w})
	}
	d.explore(now, x, starts)
	for ; len(d.repeats) > 0 && d.repeats[0].at <= now; d.repeats = d.repeats[1:] {
		d.tell(d.repeats[0].circle, func(process string, it item) { d.out.repeat(now, process, it) })
	}
	if !more && len(d.repeats) > 0 {
		return d.repeats[0].at - now, true
	}
	return next, more
}

// forget drops what concerns calls that do not wait any more, and rounds that are over.
func (d *Detector) forget(now time.Duration, x *index) {
	for n := range d.begun {
		if x.number[n] == nil {
			delete(d.begun, n)
		}
	}
	for n := range d.announced {
		if x.number[n] == nil {
			delete(d.announced, n)
		}
	}
	d.turn(now)
}

// turn forgets what was passed on or asked more than an interval ago, and what was said more than Memory ago.
func (d *Detector) turn(now time.Duration) {
	for n, q := range d.asked {
		if now-q.began > d.interval {
			delete(d.asked, n)
		}
	}
	for n, at := range d.sure {
		if now-at > Memory(d.interval) {
			delete(d.sure, n)
		}
	}
	if now-d.turned > d.interval {
		d.seen[0], d.seen[1] = map[visit]struct{}{}, d.seen[0]
		d.turned = now
	}
}

// Receive reads messages of other processes, in their order. One that cannot be read is left out.
func (d *Detector) Receive(now time.Duration, texts []string) {
	d.turn(now)
	x := d.look()
	var starts []arrival
	for _, text := range texts {
		var m message
		if len(text) > mostRead || json.Unmarshal([]byte(text), &m) != nil || m.Version != Version {
			continue
		}
		for _, raw := range m.Items {
			var it item
			if json.Unmarshal(raw, &it) != nil {
				continue
			}
			switch {
			case it.Probe != nil && len(it.Probe.Path) > 0 && len(it.Probe.Path) <= mostPath:
				last := it.Probe.last()
				for _, w := range x.under[Lease{last.Key, last.Via}] {
					starts = append(starts, arrival{it.Probe, w})
				}
			case it.Back != nil && len(it.Back.Path) > 0 && it.Back.To != nil:
				d.back(now, x, it.Back)
			case it.Check != nil:
				d.out.add(now, it.Check.From, item{Verdict: &verdict{d.self, it.Check.Number, d.holds(now, x, it.Check)}})
			case it.Verdict != nil:
				d.answered(now, x, it.Verdict)
			case it.Found != nil && len(it.Found.Calls) > 0:
				d.deliver(now, x, *it.Found)
			}
		}
	}
	d.explore(now, x, starts)
}

// Send returns the messages that may be sent now, by their receivers, and in how long there are more, if there are.
func (d *Detector) Send(now time.Duration) (messages []Message, next time.Duration, more bool) {
	return d.out.take(now)
}
