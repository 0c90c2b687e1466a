// Package survey collects the state of all locks at about one moment: what processes report about themselves, and what
// Redis has of the locks of the other processes. It knows which waiter waits for which holder, and finds deadlocks.
package survey

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// A Lock is one key that has a holder or a waiter, as -json shows it.
type Lock struct {
	Key     string   `json:"key"`
	Kind    string   `json:"kind"` // of lockgen's locks; "lock" where no process of lockgen reports the kind
	Holders []Holder `json:"holders,omitempty"`
	Many    int      `json:"many,omitempty"`    // how many holders Redis has, if they are more than MostHolders: Holders lacks those that no process reports
	Waiters []Waiter `json:"waiters,omitempty"` // the longest waiting first
	Site    string   `json:"-"`                 // of its server, where a World has those of several; see AddOf
	Others

	unnamed   int  // permits that no process names, also those whose time is over: a call that waits may get these
	uncounted bool // its server does not say how many these are
}

// A Holder is the holder of a lock.
type Holder struct {
	Who
	Owner  string     `json:"owner"` // as in Redis
	Name   string     `json:"name,omitempty"`
	Since  *time.Time `json:"since,omitempty"`
	LeftMS int64      `json:"left_ms"` // of the lease; -1 for ever
	Holds  int        `json:"holds,omitempty"`
	Token  int64      `json:"token,omitempty"`
	Gone   bool       `json:"gone,omitempty"` // the process does not listen any more: it was killed, paused, or is cut off
	Trace  string     `json:"trace,omitempty"`

	Lingers bool `json:"lingers,omitempty"` // no call of the process has it: it is about to be given back, see lockrt.WithLinger

	kind string // of its hold; "" if nothing tells it
}

// The kinds of the two sides of a read-write lock.
const kindRead, kindWrite = string(lockrt.KindRead), string(lockrt.KindWrite)

// A Who is a process.
type Who struct {
	Process string `json:"process"` // its id
	Service string `json:"service,omitempty"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Program string `json:"program,omitempty"`
	Java    bool   `json:"java,omitempty"`
}

// A Waiter is one waiting call.
type Waiter struct {
	Who
	Name     string            `json:"name,omitempty"`
	Kind     string            `json:"kind"`
	Since    *time.Time        `json:"since,omitempty"`
	Deadline *time.Time        `json:"deadline,omitempty"`
	Under    []lockrt.LeaseRef `json:"under,omitempty"`
	Trace    string            `json:"trace,omitempty"`
}

// String describes the process for people.
func (w Who) String() string {
	if w.Java {
		return "Java " + w.Process
	}
	name := cmp.Or(w.Service, w.Program)
	switch {
	case w.Host != "":
		return strings.TrimSpace(name+" on "+w.Host) + " pid " + strconv.Itoa(w.PID)
	case name != "":
		return name
	}
	return "process " + w.Process
}

// A World is the known state of all locks at about one moment.
type World struct {
	At      time.Time
	Locks   map[string]*Lock // by their keys; those of AddOf by their keys and sites
	Silent  []string         // ids of processes that did not answer
	Mute    []string         // addresses of servers that did not answer: locks and processes there may be missing
	Omitted int              // locks and calls that processes did not name

	spoken map[string]bool // ids of processes that did answer
}

// New returns an empty World.
func New() *World {
	return &World{At: time.Now(), Locks: map[string]*Lock{}, spoken: map[string]bool{}}
}

// Lock returns the lock of a key. It adds the lock if it is not there yet.
func (w *World) Lock(key, kind string) *Lock { return w.lockOf("", key, kind) }

// lockOf is Lock of a site, which is "" if the World has one server.
func (w *World) lockOf(site, key, kind string) *Lock {
	place := key
	if site != "" {
		place += "\x00" + site
	}
	l := w.Locks[place]
	if l == nil {
		l = &Lock{Key: key, Kind: kind, Site: site}
		w.Locks[place] = l
	}
	if l.Kind == "lock" {
		l.Kind = kind
	}
	return l
}

// Meet has no holder of w be gone whose process later, a survey after w, does not find gone.
func (w *World) Meet(later *World) {
	for _, l := range w.Locks {
		for i, h := range l.Holders {
			l.Holders[i].Gone = h.Gone && later.gone(h.Process)
		}
	}
}

// Replace has the lock of key be as later, a survey of this key alone, has it. It changes nothing if a process answered w but not later.
func (w *World) Replace(key string, later *World) {
	if l := later.Locks[key]; l != nil && !slices.ContainsFunc(later.Silent, func(id string) bool { return w.spoken[id] }) {
		w.Locks[key] = l
	}
}

// gone reports whether a process listens on no server. A process may listen on a server that does not answer.
func (w *World) gone(process string) bool {
	return !w.spoken[process] && !slices.Contains(w.Silent, process) && len(w.Mute) == 0
}

// Sorted returns the locks whose keys match a pattern: those held longest first, those without a known holder last.
func (w *World) Sorted(pattern string) []*Lock {
	var all []*Lock
	for _, l := range w.Locks {
		if Matches(pattern, l.Key) {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b *Lock) int {
		return cmp.Or(older(a.since(), b.since()), strings.Compare(a.Key, b.Key), strings.Compare(a.Site, b.Site))
	})
	return all
}

func (l *Lock) since() *time.Time {
	if len(l.Holders) > 0 {
		return l.Holders[0].Since
	}
	return nil
}

// older orders times ascending, and unknown ones last.
func older(a, b *time.Time) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return a.Compare(*b)
}

func whoOf(p lockrt.Process) Who {
	return Who{Process: p.ID, Service: p.Name, Host: p.Host, PID: p.PID, Program: p.Program}
}

// Take asks all processes about all locks, or about one key, for as long as asking. It reads from Redis what no process
// reports: the holders of locks that processes wait for. A server that does not answer takes a third of asking more.
func Take(ctx context.Context, c *lockrt.Client, asking time.Duration, key string) (*World, error) {
	bounded, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	fleet, err := c.Fleet(bounded, key)
	if err != nil {
		return nil, err
	}
	w := New()
	for _, id := range fleet.Silent {
		if id != c.ID() {
			w.Silent = append(w.Silent, id)
		}
	}
	for _, s := range fleet.Processes {
		w.Add(s)
	}
	var unheld []string
	for _, l := range w.Locks {
		if len(l.Holders) == 0 {
			unheld = append(unheld, l.Key)
		}
	}
	javas, mute, err := javaChannels(ctx, c.Redis(), asking/6)
	if err != nil {
		return nil, err
	}
	w.Mute = mute
	for _, k := range javas {
		if (key == "" || k == key) && w.Locks[k] == nil {
			unheld = append(unheld, k)
		}
	}
	if key != "" {
		unheld = append(unheld, key) // others may read what some do, and Redis knows the present holder
	}
	slices.Sort(unheld)
	countOthers(ctx, c.Redis(), w.semaphores(func(l *Lock) bool { return len(l.Waiters) > 0 || l.Key == key }), asking/6)
	patience := time.Duration(0)
	if key == "" && len(mute) > 0 { // of one key, the caller wants to know that its server does not answer
		patience = asking / 8
	}
	if err := w.read(ctx, c, slices.Compact(unheld), patience, false, true); err != nil || key == "" || w.Locks[key] != nil {
		return w, err
	}
	return w, w.readSemaphore(ctx, c.Redis(), key, asking/6)
}

// Add adds the report of one process.
func (w *World) Add(s lockrt.Snapshot) { w.AddOf(func(string) string { return "" }, s) }

// AddOf is Add for a World of several servers. Locks of one key are different locks if site returns different texts for their key.
func (w *World) AddOf(site func(key string) string, s lockrt.Snapshot) {
	who := whoOf(s.Process)
	w.spoken[who.Process] = true
	w.Omitted += s.Omitted
	held, waited := map[*Lock]bool{}, map[*Lock]bool{}
	for _, h := range s.Held {
		l := w.lockOf(site(h.Key), h.Key, string(h.Kind))
		began := h.Since
		l.Holders = append(l.Holders, Holder{
			Who: who, Owner: h.Owner, Name: h.Name, Since: &began, LeftMS: h.Left.Milliseconds(), Holds: h.Holds, Token: h.Token, Trace: h.Trace,
			Lingers: h.Lingers, kind: string(h.Kind),
		})
		held[l] = true
	}
	for _, c := range s.Waiting {
		l := w.lockOf(site(c.Key), c.Key, string(c.Kind))
		began := c.Since
		l.Waiters = append(l.Waiters, Waiter{Who: who, Name: c.Name, Kind: string(c.Kind), Since: &began, Deadline: c.Deadline, Under: c.Under, Trace: c.Trace})
		waited[l] = true
	}
	for l := range held {
		slices.SortStableFunc(l.Holders, func(a, b Holder) int { return cmp.Or(older(a.Since, b.Since), strings.Compare(a.Owner, b.Owner)) })
		l.Kind = l.Holders[0].kind // and not that of a waiter
	}
	for l := range waited {
		slices.SortStableFunc(l.Waiters, func(a, b Waiter) int { return older(a.Since, b.Since) })
	}
}
