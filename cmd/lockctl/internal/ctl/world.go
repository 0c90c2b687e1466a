package ctl

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// A Lock is one key that somebody has or waits for, as -json shows it.
type Lock struct {
	Key     string   `json:"key"`
	Kind    string   `json:"kind"` // of lockgen's locks; "lock" where no process of it says which
	Holders []Holder `json:"holders,omitempty"`
	Waiters []Waiter `json:"waiters,omitempty"` // the longest waiting first
}

// A Holder is who has a lock.
type Holder struct {
	Who
	Owner  string     `json:"owner"` // as in Redis
	Name   string     `json:"name,omitempty"`
	Since  *time.Time `json:"since,omitempty"`
	LeftMS int64      `json:"left_ms"` // of the lease; -1 for ever
	Holds  int        `json:"holds,omitempty"`
	Token  int64      `json:"token,omitempty"`
	Gone   bool       `json:"gone,omitempty"` // the process does not listen any more: it was killed, or stopped, or is elsewhere
	Trace  string     `json:"trace,omitempty"`
}

// A Who is a process.
type Who struct {
	Process string `json:"process"` // its id
	Service string `json:"service,omitempty"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Program string `json:"program,omitempty"`
	Java    bool   `json:"java,omitempty"`
}

// A Waiter is one call that waits.
type Waiter struct {
	Who
	Name     string     `json:"name,omitempty"`
	Kind     string     `json:"kind"`
	Since    *time.Time `json:"since,omitempty"`
	Deadline *time.Time `json:"deadline,omitempty"`
	Under    []ref      `json:"under,omitempty"`
	Trace    string     `json:"trace,omitempty"`
}

// String says who it is, for people.
func (w Who) String() string {
	if w.Java {
		return "Java " + w.Process
	}
	name := cmp.Or(w.Service, w.Program)
	switch {
	case w.Host != "":
		return strings.TrimSpace(name+" on "+w.Host) + " pid " + itoa(w.PID)
	case name != "":
		return name
	}
	return "process " + w.Process
}

// A world is what is known of all locks at about one moment.
type world struct {
	at     time.Time
	locks  map[string]*Lock
	silent []string
	more   int // locks and calls that processes did not name
}

func (w *world) lock(key, kind string) *Lock {
	l := w.locks[key]
	if l == nil {
		l = &Lock{Key: key, Kind: kind}
		w.locks[key] = l
	}
	if l.Kind == "lock" {
		l.Kind = kind
	}
	return l
}

// sorted returns the locks whose keys a pattern matches: the longest held first, then those that nobody is known to hold.
func (w *world) sorted(pattern string) []*Lock {
	var all []*Lock
	for _, l := range w.locks {
		if matches(pattern, l.Key) {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b *Lock) int {
		return cmp.Or(older(a.since(), b.since()), strings.Compare(a.Key, b.Key))
	})
	return all
}

func (l *Lock) since() *time.Time {
	if len(l.Holders) > 0 {
		return l.Holders[0].Since
	}
	return nil
}

// older puts what began earlier first, and what is not known last.
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

// matches is a pattern in which * stands for any text and ? for one character.
func matches(pattern, key string) bool {
	if pattern == "" {
		return true
	}
	p, k := []rune(pattern), []rune(key)
	star, mark := -1, 0
	i, j := 0, 0
	for j < len(k) {
		switch {
		case i < len(p) && p[i] == '*':
			star, mark = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == k[j]):
			i, j = i+1, j+1
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}

func whoOf(p lockrt.Process) Who {
	return Who{Process: p.ID, Service: p.Name, Host: p.Host, PID: p.PID, Program: p.Program}
}

// survey asks all processes, or what they know of one key, and reads from Redis what they do not know: who has what they wait for.
func (o *options) survey(ctx context.Context, key string) (*world, error) {
	// What is left of the time is for the questions after this one.
	asking, cancel := context.WithTimeout(ctx, o.timeout*3/5)
	defer cancel()
	fleet, err := o.c.Fleet(asking, key)
	if err != nil {
		return nil, err
	}
	w := &world{at: time.Now(), locks: map[string]*Lock{}}
	for _, id := range fleet.Silent {
		if id != o.c.ID() {
			w.silent = append(w.silent, id)
		}
	}
	for _, s := range fleet.Processes {
		w.add(s)
	}
	var unheld []string
	for _, l := range w.locks {
		if len(l.Holders) == 0 {
			unheld = append(unheld, l.Key)
		}
	}
	javas, err := o.javaChannels(ctx)
	if err != nil {
		return nil, err
	}
	for _, k := range append(javas, key) {
		if k != "" && (key == "" || k == key) && w.locks[k] == nil {
			unheld = append(unheld, k)
		}
	}
	slices.Sort(unheld)
	return w, o.read(ctx, w, slices.Compact(unheld))
}

// add adds what one process says.
func (w *world) add(s lockrt.Snapshot) {
	who := whoOf(s.Process)
	w.more += s.Omitted
	for _, h := range s.Held {
		l := w.lock(h.Key, h.Kind)
		began := h.Since
		l.Holders = append(l.Holders, Holder{
			Who: who, Owner: h.Owner, Name: h.Name, Since: &began, LeftMS: h.Left.Milliseconds(), Holds: h.Holds, Token: h.Token, Trace: h.Trace,
		})
		slices.SortStableFunc(l.Holders, func(a, b Holder) int { return cmp.Or(older(a.Since, b.Since), strings.Compare(a.Owner, b.Owner)) })
	}
	for _, c := range s.Waiting {
		l := w.lock(c.Key, c.Kind)
		began := c.Since
		l.Waiters = append(l.Waiters, Waiter{Who: who, Name: c.Name, Kind: c.Kind, Since: &began, Deadline: c.Deadline, Under: c.Under, Trace: c.Trace})
		slices.SortStableFunc(l.Waiters, func(a, b Waiter) int { return older(a.Since, b.Since) })
	}
}

// javaChannels returns the keys on whose channels programs listen as Redisson does, those of this library among them.
func (o *options) javaChannels(ctx context.Context) (keys []string, err error) {
	answered := false
	for _, node := range o.rc.Nodes() {
		for _, command := range []rueidis.Completed{
			node.B().PubsubChannels().Pattern("redisson_*").Build(), node.B().Arbitrary("PUBSUB", "SHARDCHANNELS", "redisson_*").Build(),
		} {
			names, failed := node.Do(ctx, command).AsStrSlice()
			if failed != nil {
				err = failed // an older server has no such channels
				continue
			}
			answered = true
			for _, name := range names {
				if key, ok := keyOfChannel(name); ok {
					keys = append(keys, key)
				}
			}
		}
	}
	if answered {
		err = nil
	}
	return keys, err
}

// keyOfChannel returns the key of which a channel of Redisson tells.
func keyOfChannel(name string) (key string, ok bool) {
	for _, prefix := range []string{"redisson_lock__channel:", "redisson_rwlock:"} {
		rest, found := strings.CutPrefix(name, prefix)
		if !found {
			continue
		}
		if inner, braced := strings.CutPrefix(rest, "{"); braced && strings.HasSuffix(inner, "}") && strings.Count(inner, "}") == 1 {
			return inner[:len(inner)-1], true
		}
		return rest, strings.Contains(rest, "{")
	}
	return "", false
}

// mostFields is of how many fields a hash may be that is read as a whole.
const mostFields = 64

// read adds who has the keys, as Redis says.
func (o *options) read(ctx context.Context, w *world, keys []string) error {
	known := map[string]Who{}
	for some := range slices.Chunk(keys, 500) {
		var sizes rueidis.Commands
		for _, key := range some {
			sizes = append(sizes, o.rc.B().Hlen().Key(key).Build(), o.rc.B().Pttl().Key(key).Build())
		}
		replies := o.rc.DoMulti(ctx, sizes...)
		for i, key := range some {
			n, err := replies[2*i].AsInt64()
			if said, ok := rueidis.IsRedisErr(err); ok && strings.HasPrefix(said.Error(), "WRONGTYPE") {
				continue // it counts, and has no owner
			}
			if err != nil {
				return err
			}
			if n == 0 || n > mostFields {
				continue
			}
			left, err := replies[2*i+1].AsInt64()
			if err != nil {
				return err
			}
			fields, err := o.rc.Do(ctx, o.rc.B().Hgetall().Key(key).Build()).AsStrMap()
			if err != nil {
				return err
			}
			for _, field := range sortedKeys(fields) {
				h, ok := holderOf(field, fields[field], left)
				if !ok {
					continue
				}
				if !h.Java {
					if h.Who, err = o.whoWas(ctx, known, h.Process); err != nil {
						return err
					}
					h.Gone = !slices.Contains(w.silent, h.Process)
				}
				l := w.lock(key, "lock")
				l.Holders = append(l.Holders, h)
			}
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
	h := Holder{Owner: field, LeftMS: left, Holds: atoi(value)}
	h.Process = uuid
	if uuid[14] != '8' {
		h.Who = Who{Process: uuid, Java: true}
		h.Name = "thread " + thread
	}
	return h, true
}

// whoWas returns what Redis knows of a process.
func (o *options) whoWas(ctx context.Context, known map[string]Who, id string) (Who, error) {
	if who, ok := known[id]; ok {
		return who, nil
	}
	p, _, err := o.c.ProcessOf(ctx, id)
	if err != nil && codeOf(err) == exitNoRedis && ctx.Err() != nil {
		return Who{}, err
	}
	p.ID = id // it may not be permitted to read more
	known[id] = whoOf(p)
	return known[id], nil
}

type ref = lockrt.LeaseRef
