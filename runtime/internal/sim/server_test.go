package sim

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	mini "github.com/alicebob/miniredis/v2/server"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/scripts"
)

// A server is an embedded Redis. It serves one command after the other, on the goroutine of the network. This type
// replaces the parts in which the embedded one differs from Redis: messages, which it would send from goroutines of
// their own, scripts, which it would parse again each time, client tracking, refusals, and a clock that can be set.
type server struct {
	w   *world
	id  int
	m   *miniredis.Miniredis
	run *mini.Server

	known  map[string]string    // scripts, by their hashes
	owners *[protocol.Slots]int // of slots of a cluster, as the server knows them
	ports  []int                // of the servers of a cluster, as the server knows them
	offset time.Duration        // of its clock

	// Of the command that it serves.
	by    *conn
	now   *event
	keys  []string // of the script
	wrote bool
	looks bool // for whether there is a key

	refusals map[string]refusal // the commands that it refuses at the moment, by the name of the fault

	// Guarded by w.mu.
	down    bool
	port    int
	heard   map[string][]*conn        // the listeners of a channel, in the order in which they came
	tracked map[string]map[*conn]bool // the readers of a key, which get a message at its next change
}

// A refusal returns the error with which a command is refused, or nothing.
type refusal func(cmd string, nested, wrote bool) string

// An event is one command that a server did, with what its script did.
type event struct {
	n       int           // the number of the event in its world: the order in which everything happened
	at      time.Duration // since the world began
	server  int
	process int // of whom it came; 0 for none of ours
	conn    int
	cmd     []string
	script  string     // the name of the script, if it was one
	effects [][]string // the commands that the script called, but those that were refused
	reply   string
	denied  bool // a command of the script, for want of a permission
}

// An observer gets every event, in order, when it has happened and before the next one. It must not block, nor ask the
// server anything through a network.
type observer func(s *server, e *event)

func newServer(w *world, id int) *server {
	s := &server{w: w, id: id, m: miniredis.NewMiniRedis(), known: map[string]string{}, port: firstPort + id,
		refusals: map[string]refusal{}, heard: map[string][]*conn{}, tracked: map[string]map[*conn]bool{}}
	s.m.ClockTTL(true)
	unused, err := s.m.Dial() // starts it
	if err != nil {
		w.t.Fatal(err)
	}
	_ = unused.Close()
	s.run = s.m.Server()
	s.run.SetPreHook(s.before)
	return s
}

// addr returns where the server is. The caller holds w.mu, or the world has not begun.
func (s *server) addr() string { return address(s.port) }

// firstPort is where the first server of a world is at first.
const firstPort = 6379

func address(port int) string { return fmt.Sprintf("sim:%d", port) }

// clock returns the time that the server has.
func (s *server) clock() time.Time {
	return time.Now().Add(s.offset).Truncate(time.Microsecond)
}

// receive does one command.
func (s *server) receive(c *conn, args []string) {
	w := s.w
	w.mu.Lock()
	gone := c.broken || s.down
	w.mu.Unlock()
	if gone {
		return
	}
	e := s.do(c, args)
	if w.loses(c, e) {
		return
	}
	c.answer([]byte(e.reply))
}

// do does one command for a connection and returns the event.
func (s *server) do(c *conn, args []string) *event {
	s.m.SetTime(s.clock())
	s.by, s.wrote = c, false
	s.now = &event{server: s.id, conn: c.id, process: c.l.p.id, cmd: args}
	c.out.Reset()
	s.run.Dispatch(c.peer, args)
	c.peer.Flush()
	c.asking = c.asking && strings.EqualFold(args[0], "asking")
	e := s.now
	s.by, s.now, s.keys = nil, nil, nil
	e.reply = plainError(c.out.String())
	s.w.happened(s, e)
	return e
}

// wrapped and placed are how the embedded server words the error of a script; Redis begins with the error.
var (
	wrapped = regexp.MustCompile(`^-ERR Error compiling script \(new function\): (.*?)(?: stack traceback:.*)?\r\n$`)
	placed  = regexp.MustCompile(`(?m)^-(?:<string>)?:\d+: `)
)

func plainError(reply string) string {
	if m := wrapped.FindStringSubmatch(reply); m != nil {
		reply = "-" + m[1] + "\r\n"
	}
	return placed.ReplaceAllString(reply, "-")
}

// before is called before each command, also of scripts, and reports whether it has done it.
func (s *server) before(p *mini.Peer, cmd string, args ...string) bool {
	if s.looks {
		return false
	}
	nested := s.by == nil || p != s.by.peer
	for _, name := range slices.Sorted(maps.Keys(s.refusals)) { // a seed has the same answers each time
		if said := s.refusals[name](cmd, nested, s.wrote); said != "" {
			if nested && s.now != nil {
				s.now.denied = s.now.denied || strings.HasPrefix(said, "NOPERM")
			}
			p.WriteError(said)
			return true
		}
	}
	if s.front(p, cmd, args, nested) {
		return true
	}
	if nested && s.now != nil {
		s.now.effects = append(s.now.effects, append([]string{strings.ToLower(cmd)}, args...))
	}
	if nested {
		s.track(cmd, args)
	}
	switch cmd {
	case "SCRIPT":
		if len(args) == 2 && strings.EqualFold(args[0], "load") {
			sha, known := hashes[args[1]]
			if !known {
				panic("a script that is none of ours")
			}
			s.known[sha] = args[1]
			p.WriteBulk(sha)
			return true
		}
	case "EVALSHA":
		source, known := s.known[args[0]]
		if !known {
			p.WriteError("NOSCRIPT No matching script. Please use EVAL.")
			return true
		}
		s.now.script = names[args[0]]
		n := 0
		_, _ = fmt.Sscan(args[1], &n)
		s.keys = args[2 : 2+n]
		s.run.Dispatch(p, append([]string{"EVAL", source}, args[1:]...))
		return true
	case "SUBSCRIBE", "UNSUBSCRIBE", "SSUBSCRIBE", "SUNSUBSCRIBE":
		s.subscribe(p, cmd, args)
		return true
	case "PUBLISH", "SPUBLISH":
		p.WriteInt(s.publish(cmd, args[0], args[1]))
		return true
	case "PUBSUB":
		if len(args) == 2 {
			name := args[1]
			if strings.EqualFold(args[0], "shardnumsub") {
				name = shard + name
			}
			n := s.listeners(name)
			p.WriteLen(2)
			p.WriteBulk(args[1])
			p.WriteInt(n)
			return true
		}
	case "CLIENT":
		switch {
		case strings.EqualFold(args[0], "tracking"):
			s.w.mu.Lock()
			s.by.tracking = strings.EqualFold(args[1], "on")
			s.w.mu.Unlock()
			p.WriteOK()
			return true
		case strings.EqualFold(args[0], "setinfo"):
			p.WriteOK()
			return true
		}
	}
	return false
}

var hashes, names = func() (hashes, names map[string]string) {
	hashes, names = map[string]string{}, map[string]string{}
	for _, s := range scripts.All() {
		hashes[s.Source()], names[s.SHA1()] = s.SHA1(), s.Name
	}
	return hashes, names
}()

// reads and writes are the commands that our scripts call.
var (
	reads  = words("EXISTS HEXISTS HGET HGETALL HKEYS HLEN HVALS GET TYPE TTL PTTL LINDEX LLEN LRANGE LPOS ZSCORE ZRANGE ZRANGEBYSCORE ZCARD ZCOUNT")
	writes = words("SET DEL UNLINK EXPIRE PEXPIRE PERSIST INCR INCRBY DECR DECRBY HSET HDEL HINCRBY LPUSH RPUSH LPOP RPOP LREM LINSERT LSET " +
		"ZADD ZREM ZREMRANGEBYSCORE ZINCRBY FLUSHALL RENAME")
	greedy = words("SET INCR INCRBY HSET HINCRBY LPUSH RPUSH LINSERT LSET ZADD ZINCRBY") // the commands that a server without memory refuses
)

func words(all string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(all) {
		set[w] = true
	}
	return set
}

// track records the keys that a script reads for a tracked connection, and sends others the keys that it changes.
func (s *server) track(cmd string, args []string) {
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case reads[cmd] && s.by != nil && s.by.tracking:
		for _, key := range s.keys {
			if s.tracked[key] == nil {
				s.tracked[key] = map[*conn]bool{}
			}
			s.tracked[key][s.by] = true
		}
	case writes[cmd]:
		s.wrote = true
		s.invalidate(args[0])
	}
}

// invalidate tells the clients that have read a key that it is changed. The caller holds w.mu.
func (s *server) invalidate(key string) {
	told := s.tracked[key]
	delete(s.tracked, key)
	for _, l := range s.w.links { // in an order that is always the same
		for _, c := range l.conns {
			if told[c] && c != s.by {
				push := fmt.Appendf(nil, ">2\r\n$10\r\ninvalidate\r\n*1\r\n$%d\r\n%s\r\n", len(key), key)
				c.pass(down, func() { c.in.add(push) })
			}
		}
	}
}

func (s *server) subscribe(p *mini.Peer, cmd string, channels []string) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	sharded := strings.HasPrefix(cmd, "SS") || strings.HasPrefix(cmd, "SUN")
	for _, channel := range channels {
		name := channel
		if sharded {
			name = shard + channel
		}
		s.heard[name] = slices.DeleteFunc(s.heard[name], func(c *conn) bool { return c == s.by })
		if strings.HasSuffix(cmd, "SSUBSCRIBE") || cmd == "SUBSCRIBE" {
			s.heard[name] = append(s.heard[name], s.by)
		} else if len(s.heard[name]) == 0 {
			delete(s.heard, name)
		}
		n := 0
		for other, all := range s.heard {
			if strings.HasPrefix(other, shard) == sharded && slices.Contains(all, s.by) {
				n++
			}
		}
		p.WritePushLen(3)
		p.WriteBulk(strings.ToLower(cmd))
		p.WriteBulk(channel)
		p.WriteInt(n)
	}
}

func (s *server) publish(cmd, channel, message string) int {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	what, name := "message", channel
	if cmd == "SPUBLISH" {
		what, name = "smessage", shard+channel
	}
	push := fmt.Appendf(nil, ">3\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(what), what, len(channel), channel, len(message), message)
	if s.w.cluster != nil && cmd == "PUBLISH" {
		s.w.cluster.forward(s, channel, push)
	}
	return s.push(name, push)
}

// push sends to the listeners to a channel, and returns how many there are. The caller holds w.mu.
func (s *server) push(name string, push []byte) int {
	for _, c := range s.heard[name] {
		c.pass(down, func() { c.in.add(push) })
	}
	return len(s.heard[name])
}

// forget drops what a connection had. The caller holds w.mu.
func (s *server) forget(c *conn) {
	for name, all := range s.heard {
		if all = slices.DeleteFunc(all, func(x *conn) bool { return x == c }); len(all) > 0 {
			s.heard[name] = all
		} else {
			delete(s.heard, name)
		}
	}
	for _, told := range s.tracked {
		delete(told, c)
	}
}

// empty has the server forget all keys, and tells who tracks. The caller holds w.mu.
func (s *server) empty() {
	s.m.FlushAll()
	for key := range s.tracked {
		s.invalidate(key)
	}
}

// A copy is what a server knew, with the times at which keys expire.
type copied struct {
	at   time.Time
	keys map[string]func(m *miniredis.Miniredis)
	ttls map[string]time.Duration
}

// copy returns what the server knows now; if only is not nil, of the keys that it selects.
func (s *server) copy(only func(key string) bool) *copied {
	s.m.SetTime(s.clock())
	all := &copied{at: time.Now(), keys: map[string]func(*miniredis.Miniredis){}, ttls: map[string]time.Duration{}}
	for _, key := range s.m.Keys() {
		if only != nil && !only(key) {
			continue
		}
		all.ttls[key] = s.m.TTL(key)
		switch s.m.Type(key) {
		case "hash":
			fields, _ := s.m.HKeys(key)
			var words []string
			for _, f := range fields {
				words = append(words, f, s.m.HGet(key, f))
			}
			all.keys[key] = func(m *miniredis.Miniredis) { m.HSet(key, words...) }
		case "list":
			items, _ := s.m.List(key)
			items = slices.Clone(items)
			all.keys[key] = func(m *miniredis.Miniredis) { _, _ = m.Push(key, items...) }
		case "string":
			value, _ := s.m.Get(key)
			all.keys[key] = func(m *miniredis.Miniredis) { _ = m.Set(key, value) }
		case "zset":
			scores, _ := s.m.SortedSet(key)
			scores = maps.Clone(scores)
			all.keys[key] = func(m *miniredis.Miniredis) {
				for member, score := range scores {
					_, _ = m.ZAdd(key, score, member)
				}
			}
		default:
			panic("a key of type " + s.m.Type(key))
		}
	}
	return all
}

// restore makes the server know what it knew then, and nothing since. The caller holds w.mu.
func (s *server) restore(then *copied) {
	s.m.SetTime(s.clock())
	s.empty()
	then.put(s.m)
}

// put writes what was copied.
func (then *copied) put(m *miniredis.Miniredis) {
	for key, put := range then.keys {
		ttl := then.ttls[key] - time.Since(then.at)
		if then.ttls[key] > 0 && ttl <= 0 {
			continue
		}
		put(m)
		if then.ttls[key] > 0 {
			m.SetTTL(key, ttl)
		}
	}
}

// set sets the clock of the server by d. A key with a time to live keeps the instant of its end.
func (s *server) set(d time.Duration) {
	s.m.SetTime(s.clock())
	ttls := map[string]time.Duration{}
	for _, key := range s.m.Keys() {
		if ttl := s.m.TTL(key); ttl > 0 {
			ttls[key] = ttl
		}
	}
	s.offset += d
	s.m.SetTime(s.clock())
	for key, ttl := range ttls {
		if d < 0 && s.m.Exists(key) {
			s.m.SetTTL(key, ttl-d)
		}
	}
}
