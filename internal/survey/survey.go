// Package survey collects the state of all locks at about one moment: what processes report about themselves, and what
// Redis has of the locks of the other processes. It knows which waiter waits for which holder, and finds deadlocks.
package survey

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// A Lock is one key that has a holder or a waiter, as -json shows it.
type Lock struct {
	Key     string   `json:"key"`
	Kind    string   `json:"kind"` // of lockgen's locks; "lock" where no process of lockgen reports the kind
	Holders []Holder `json:"holders,omitempty"`
	Waiters []Waiter `json:"waiters,omitempty"` // the longest waiting first
	Site    string   `json:"-"`                 // of its server, where a World has those of several; see AddOf

	others int // permits that no process names: of Java programs, and of those that do not answer
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
	w.CountPermits(ctx, c.Redis(), "", asking/6)
	patience := time.Duration(0)
	if key == "" && len(mute) > 0 { // of one key, the caller wants to know that its server does not answer
		patience = asking / 8
	}
	return w, w.read(ctx, c, slices.Compact(unheld), patience, false)
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

// MostFields is the largest number of fields of a hash that is read as a whole.
const MostFields = 64

// Read adds the holders of the keys, as Redis has them. They replace those that processes named a moment before. Of a hash without an owner, it
// reads the names of the fields alone: the values of a hash that is no lock may be large.
func (w *World) Read(ctx context.Context, c *lockrt.Client, keys []string) error {
	return w.read(ctx, c, keys, 0, true)
}

// read is Read. With a patience, it leaves out the keys of which no server says anything for so long. If the keys are not those of strangers, they
// are of locks.
func (w *World) read(ctx context.Context, c *lockrt.Client, keys []string, patience time.Duration, strangers bool) error {
	rc := c.Redis()
	within := func() (context.Context, context.CancelFunc) {
		if patience > 0 {
			return context.WithTimeout(ctx, patience)
		}
		return context.WithCancel(ctx)
	}
	mute := func(err error) bool {
		_, said := rueidis.IsRedisErr(err)
		return err != nil && !said && patience > 0 && ctx.Err() == nil
	}
	var sizes, contents rueidis.Commands
	for _, key := range keys {
		sizes = append(sizes, rc.B().Hlen().Key(key).Build(), rc.B().Pttl().Key(key).Build())
	}
	var locks []entry // of which contents asks for the fields
	bounded, done := within()
	replies := ask(bounded, rc, sizes)
	done()
	for i, key := range keys {
		n, err := replies[2*i].AsInt64()
		if said, ok := rueidis.IsRedisErr(err); ok && strings.HasPrefix(said.Error(), "WRONGTYPE") {
			continue // a counter has no owner
		}
		if mute(err) {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 || n > MostFields {
			continue
		}
		left, err := replies[2*i+1].AsInt64()
		if mute(err) {
			continue
		}
		if err != nil {
			return err
		}
		locks = append(locks, entry{key, left})
	}
	if strangers {
		locks = slices.DeleteFunc(locks, stranger(ctx, rc, locks))
	}
	for _, l := range locks {
		contents = append(contents, rc.B().Hgetall().Key(l.key).Build())
	}
	bounded, done = within()
	filled := ask(bounded, rc, contents)
	done()
	bounded, done = within() // for the names of all their holders
	defer done()
	known := map[string]Who{}
	for i, reply := range filled {
		fields, err := reply.AsStrMap()
		if mute(err) {
			continue
		}
		if err == nil {
			err = w.hold(ctx, bounded, c, known, locks[i].key, fields, locks[i].left)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// An entry is a hash that may be a lock.
type entry struct {
	key  string
	left int64 // of its time, in milliseconds
}

// stranger returns a function that reports of each of the hashes whether it certainly is no lock: no field has the name of an owner. A user
// who may not call HKEYS has no strangers.
func stranger(ctx context.Context, rc rueidis.Client, hashes []entry) func(entry) bool {
	var names rueidis.Commands
	for _, h := range hashes {
		names = append(names, rc.B().Hkeys().Key(h.key).Build())
	}
	none := map[string]bool{}
	for i, reply := range ask(ctx, rc, names) {
		fields, err := reply.AsStrSlice()
		none[hashes[i].key] = err == nil && !slices.ContainsFunc(fields, func(field string) bool {
			_, is := holderOf(field, "", 0)
			return is
		})
	}
	return func(h entry) bool { return none[h.key] }
}

// ask sends commands in batches, all at once: however many there are, a server that does not answer is waited for once.
func ask(ctx context.Context, rc rueidis.Client, commands rueidis.Commands) []rueidis.RedisResult {
	const batch = 1000
	replies := make([]rueidis.RedisResult, len(commands))
	var all sync.WaitGroup
	for from := 0; from < len(commands); from += batch {
		to := min(from+batch, len(commands))
		all.Go(func() { copy(replies[from:to], rc.DoMulti(ctx, commands[from:to]...)) })
	}
	all.Wait()
	return replies
}

// hold has the fields of a key in Redis be its holders. The report of a process about its own hold
// stays. naming bounds the time for the names of processes.
func (w *World) hold(ctx, naming context.Context, c *lockrt.Client, known map[string]Who, key string, fields map[string]string, left int64) error {
	var named, holders []Holder
	if l := w.Locks[key]; l != nil {
		named = l.Holders
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		h, ok := holderOf(field, fields[field], left)
		if !ok {
			continue
		}
		switch {
		case strings.HasSuffix(field, ":write"):
			h.kind = kindWrite
		case fields["mode"] != "":
			h.kind = kindRead
		}
		if i := slices.IndexFunc(named, func(n Holder) bool { return n.Owner == h.Owner }); i >= 0 {
			holders = append(holders, named[i])
			continue
		}
		if !h.Java {
			var err error
			if h.Who, err = whoWas(naming, c, known, h.Process); err != nil && ctx.Err() != nil {
				return err
			}
			h.Gone = w.gone(h.Process)
		}
		holders = append(holders, h)
	}
	if len(holders) > 0 {
		slices.SortStableFunc(holders, func(a, b Holder) int { return older(a.Since, b.Since) })
		l := w.Lock(key, "lock")
		if l.Holders = holders; l.Kind == kindRead || l.Kind == kindWrite {
			l.Kind = cmp.Or(holders[0].kind, l.Kind)
		}
	}
	return nil
}

// holderOf reads a field of a lock.
func holderOf(field, value string, left int64) (Holder, bool) {
	owner := strings.TrimSuffix(field, ":write")
	uuid, thread, ok := strings.Cut(owner, ":")
	if !ok || len(uuid) != 36 || strings.Count(uuid, "-") != 4 || thread == "" {
		return Holder{}, false
	}
	holds, err := strconv.Atoi(value)
	if err != nil {
		holds = 0 // the hold count is not in the value
	}
	h := Holder{Owner: field, LeftMS: left, Holds: holds}
	h.Process = uuid
	if uuid[14] != '8' {
		h.Who = Who{Process: uuid, Java: true}
		h.Name = "thread " + thread
	}
	return h, true
}

// whoWas returns what Redis knows about a process.
func whoWas(ctx context.Context, c *lockrt.Client, known map[string]Who, id string) (Who, error) {
	if who, ok := known[id]; ok {
		return who, nil
	}
	p, _, err := c.ProcessOf(ctx, id)
	p.ID = id // reading more may not be permitted
	known[id] = whoOf(p)
	return known[id], err
}
