package sim

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	mini "github.com/alicebob/miniredis/v2/server"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A cluster makes the embedded servers of a world one. They know nothing of slots. So it decides in front of each which commands the
// server does, and answers the others as Redis 7 does: MOVED, ASK, TRYAGAIN. It is used on the goroutine of the network.
type cluster struct {
	w      *world
	owners [protocol.Slots]int  // the servers that have the slots, by number
	moves  map[uint16]*move     // slots that are being handed away
	moved  map[uint16]time.Time // when slots were last handed away
}

// A move hands a slot from one server to another.
type move struct {
	slot     uint16
	from, to *server
}

// newCluster makes a cluster of the servers of a world. Each has a third of the slots.
func newCluster(w *world, r *rand.Rand) *cluster {
	cl := &cluster{w: w, moves: map[uint16]*move{}, moved: map[uint16]time.Time{}}
	order := r.Perm(len(w.servers))
	for i := range cl.owners {
		cl.owners[i] = order[i*len(order)/protocol.Slots]
	}
	for _, s := range w.servers {
		view := cl.owners
		s.owners = &view
		for _, other := range w.servers {
			s.ports = append(s.ports, other.port)
		}
	}
	return cl
}

// clustered has the kinds of worlds with a cluster, by the kind of lock.
var clustered = func() map[*kind]*kind {
	all := map[*kind]*kind{}
	for _, k := range []*kind{mutex, rw, fair, permits, semaphore, latch, multi} {
		all[k] = inCluster(k)
	}
	return all
}()

// inCluster returns a kind whose server is a cluster.
func inCluster(k *kind) *kind {
	c := *k
	c.name, c.servers, c.lock = "cluster "+k.name, 3, k.name
	c.bears = func(f *fault) bool { return !f.alone && (k.bears == nil || k.bears(f)) }
	return &c
}

// pubSubs are the channels on which the programs of a cluster announce releases.
var pubSubs = []lockrt.PubSub{lockrt.PubSubAuto, lockrt.PubSubSharded, lockrt.PubSubPlain, lockrt.PubSubBoth}

// slotMoved is the fault that a slot is handed away, key by key.
var slotMoved = &fault{name: "slot handed away", keeps: true, make: func(p *plan, r *rand.Rand) (begin, end func(w *world)) {
	slot := protocol.Slot(p.someKey(r))
	by := 1 + r.IntN(p.servers-1)
	steps := make([]time.Duration, r.IntN(4))
	for i := range steps {
		steps[i] = time.Duration(r.Int64N(int64(p.watchdog)))
	}
	late := time.Duration(r.Int64N(int64(50 * time.Millisecond)))
	var m *move
	return func(w *world) {
			if m = w.cluster.open(slot, by); m == nil {
				return
			}
			for _, after := range steps {
				w.net.at(time.Now().Add(after), func() { w.cluster.carry(m, 1) })
			}
		}, func(w *world) {
			if m != nil {
				w.cluster.close(m, late)
			}
		}
}}

// someKey draws a key of the world.
func (p *plan) someKey(r *rand.Rand) string {
	if p.kind.lock == latch.name {
		return fmt.Sprintf("latch%d", 1+r.IntN(p.rounds))
	}
	return fmt.Sprintf("key%d", r.IntN(p.keys))
}

// open begins to hand a slot to the server that is by places behind its owner. It returns nil if the slot is on its way already.
func (cl *cluster) open(slot uint16, by int) *move {
	if cl.moves[slot] != nil {
		return nil
	}
	from := cl.owners[slot]
	m := &move{slot: slot, from: cl.w.servers[from], to: cl.w.servers[(from+by)%len(cl.w.servers)]}
	cl.moves[slot] = m
	return m
}

// carry takes n keys of a slot that is being handed away to the other server, as MIGRATE does, each in an instant.
func (cl *cluster) carry(m *move, n int) {
	if cl.moves[m.slot] != m {
		return
	}
	of := func(key string) bool { return protocol.Slot(key) == m.slot }
	m.from.m.SetTime(m.from.clock())
	for _, key := range m.from.m.Keys() {
		if !of(key) || n == 0 {
			continue
		}
		n--
		one := m.from.copy(func(name string) bool { return name == key })
		m.from.m.Del(key)
		m.to.m.SetTime(m.to.clock())
		m.to.m.Del(key)
		one.put(m.to.m)
	}
}

// close carries what is left of a slot, and makes the other server its owner: that one knows at once, the one that had it after
// late, when it also ends the subscriptions to the channels of the slot, and the others after a second. The caller holds w.mu.
func (cl *cluster) close(m *move, late time.Duration) {
	cl.carry(m, -1)
	cl.owners[m.slot] = m.to.id
	m.to.owners[m.slot] = m.to.id
	cl.w.net.at(time.Now().Add(late), func() {
		cl.w.mu.Lock()
		defer cl.w.mu.Unlock()
		cl.carry(m, -1)
		delete(cl.moves, m.slot)
		cl.moved[m.slot] = time.Now()
		m.from.owners[m.slot] = m.to.id
		m.from.dropShard(m.slot)
		cl.w.watch.disturbed()
	})
	cl.w.net.at(time.Now().Add(late+time.Second), func() {
		for _, s := range cl.w.servers {
			s.owners[m.slot] = cl.owners[m.slot]
			if open := cl.moves[m.slot]; open != nil {
				s.owners[m.slot] = open.from.id
			}
		}
	})
}

// keysIn returns the keys of a command, or its sharded channels.
func keysIn(cmd string, args []string) (keys []string, channels bool) {
	switch {
	case cmd == "EVAL" || cmd == "EVALSHA":
		n := 0
		_, _ = fmt.Sscan(args[1], &n)
		return args[2 : 2+n], false
	case cmd == "SPUBLISH":
		return args[:1], true
	case cmd == "SSUBSCRIBE" || cmd == "SUNSUBSCRIBE":
		return args, true
	case cmd == "DEL" || cmd == "EXISTS" || cmd == "UNLINK":
		return args, false
	case cmd != "FLUSHALL" && (reads[cmd] || writes[cmd]):
		return args[:1], false
	}
	return nil, false
}

// elsewhere returns the error with which a server answers a command about keys that it does not have, or nothing.
func (s *server) elsewhere(p *mini.Peer, cmd string, args []string) string {
	keys, channels := keysIn(cmd, args)
	if len(keys) == 0 {
		return ""
	}
	slot := protocol.Slot(keys[0])
	m := s.w.cluster.moves[slot]
	several, missing, there := false, false, false
	for _, key := range keys {
		if protocol.Slot(key) != slot {
			return "CROSSSLOT Keys in request don't hash to the same slot"
		}
		several = several || key != keys[0]
		if !channels && m != nil {
			has := s.exists(p, key)
			missing, there = missing || !has, there || has
		}
	}
	switch owner := s.owners[slot]; {
	case owner == s.id && (m == nil || m.from != s || !missing):
		return ""
	case owner == s.id && there, owner != s.id && m != nil && m.to == s && s.by.asking && several && missing:
		return "TRYAGAIN Multiple keys request during rehashing of slot"
	case owner == s.id:
		return fmt.Sprintf("ASK %d %s", slot, address(s.ports[m.to.id]))
	case m != nil && m.to == s && s.by.asking:
		return ""
	default:
		return fmt.Sprintf("MOVED %d %s", slot, address(s.ports[owner]))
	}
}

// exists reports whether the server has a key, in the middle of a script, too: p is the process that asks.
func (s *server) exists(p *mini.Peer, key string) bool {
	var out bytes.Buffer
	beside := mini.NewPeer(bufio.NewWriter(&out))
	beside.Ctx = p.Ctx
	s.looks = true
	s.run.Dispatch(beside, []string{"EXISTS", key})
	s.looks = false
	beside.Flush()
	return out.String() != ":0\r\n"
}

// front does what the embedded server does not know of clusters, and reports whether it has done a command.
func (s *server) front(p *mini.Peer, cmd string, args []string, nested bool) bool {
	if s.w.cluster == nil || s.by == nil || s.by.l.p.id == 0 {
		return false
	}
	switch said := s.elsewhere(p, cmd, args); {
	case said != "" && nested:
		p.WriteError("ERR Script attempted to access a non local key in a cluster node")
		return true
	case said != "":
		p.WriteError(said)
		return true
	}
	switch cmd {
	case "ASKING":
		s.by.asking = true
		p.WriteOK()
		return true
	case "CLUSTER":
		s.topology(p, strings.EqualFold(args[0], "shards"))
		return true
	}
	return false
}

// topology answers CLUSTER SHARDS, or CLUSTER SLOTS, with what the server knows.
func (s *server) topology(p *mini.Peer, shards bool) {
	type span struct{ first, last, owner int }
	var spans []span
	for i, owner := range s.owners {
		if n := len(spans); n > 0 && spans[n-1].owner == owner {
			spans[n-1].last = i
		} else {
			spans = append(spans, span{i, i, owner})
		}
	}
	if !shards {
		p.WriteLen(len(spans))
		for _, sp := range spans {
			p.WriteLen(3)
			p.WriteInt(sp.first)
			p.WriteInt(sp.last)
			p.WriteLen(2)
			p.WriteBulk("sim")
			p.WriteInt(s.ports[sp.owner])
		}
		return
	}
	p.WriteLen(len(s.w.servers))
	for id := range s.w.servers {
		own := slices.DeleteFunc(slices.Clone(spans), func(sp span) bool { return sp.owner != id })
		p.WriteMapLen(2)
		p.WriteBulk("slots")
		p.WriteLen(2 * len(own))
		for _, sp := range own {
			p.WriteInt(sp.first)
			p.WriteInt(sp.last)
		}
		p.WriteBulk("nodes")
		p.WriteLen(1)
		p.WriteMapLen(4)
		p.WriteBulk("endpoint")
		p.WriteBulk("sim")
		p.WriteBulk("port")
		p.WriteInt(s.ports[id])
		p.WriteBulk("role")
		p.WriteBulk("master")
		p.WriteBulk("health")
		p.WriteBulk("online")
	}
}

// forward sends a message of PUBLISH to the other servers of the cluster, which pass it on to the listeners there. The caller holds w.mu.
func (cl *cluster) forward(from *server, channel string, push []byte) {
	for _, s := range cl.w.servers {
		if s == from {
			continue
		}
		cl.w.net.at(time.Now().Add(cl.w.plan.latency), func() {
			cl.w.mu.Lock()
			defer cl.w.mu.Unlock()
			if !s.down {
				s.push(channel, push)
			}
		})
	}
}

// shard precedes the names of sharded channels among those that are listened to.
const shard = "sharded "

// dropShard ends the subscriptions to the sharded channels of a slot. The caller holds w.mu.
func (s *server) dropShard(slot uint16) {
	for name, all := range s.heard {
		channel, sharded := strings.CutPrefix(name, shard)
		if !sharded || protocol.Slot(channel) != slot {
			continue
		}
		delete(s.heard, name)
		push := fmt.Appendf(nil, ">3\r\n$12\r\nsunsubscribe\r\n$%d\r\n%s\r\n:0\r\n", len(channel), channel)
		for _, c := range all {
			c.pass(down, func() { c.in.add(push) })
		}
	}
}

// serverOf returns the server that a command about a key is for.
func (w *world) serverOf(key string) *server {
	if w.cluster == nil {
		return w.servers[0]
	}
	return w.servers[w.cluster.owners[protocol.Slot(key)]]
}

// whole returns what has all there is of a key and what belongs to it: the server s, or in a cluster the one that has the slot. While
// the slot is handed away it is a copy of what both servers have.
func (w *world) whole(s *server, key string) *miniredis.Miniredis {
	if w.cluster != nil {
		s = w.serverOf(key)
	}
	s.m.SetTime(s.clock())
	m := w.moving(key)
	if m == nil {
		return s.m
	}
	both := miniredis.NewMiniRedis()
	both.ClockTTL(true)
	both.SetTime(s.clock())
	for _, part := range []*server{m.from, m.to} {
		part.copy(func(name string) bool { return protocol.Slot(name) == m.slot }).put(both)
	}
	return both
}

// moving returns the move of the slot of a key, or nil.
func (w *world) moving(key string) *move {
	if w.cluster == nil {
		return nil
	}
	return w.cluster.moves[protocol.Slot(key)]
}

// single reports whether a key is on one server.
func (p *plan) single() bool { return p.servers == 1 || p.kind.lock != "" }
