package sim

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestClusterLikeReal shows that the cluster of the worlds answers as a real one does while a slot is handed away: each server gets
// the same commands at each stage, with and without ASKING. A listener to a sharded channel gets the same messages.
func TestClusterLikeReal(t *testing.T) {
	const tagged = "{k}"
	slot := protocol.Slot(tagged)

	real := redistest.Cluster(t)
	for _, n := range real.Nodes() {
		require.NoError(t, n.Do("CONFIG", "SET", "cluster-node-timeout", "600000").Error()) // a busy machine is no reason to replace a master
	}
	theirs := &clusterSide{t: t, roles: map[string]string{}, dials: map[string]func() (net.Conn, error){}, wires: map[string]*wire{}}
	from := real.Owner(int(slot))
	masters := slices.DeleteFunc(real.Nodes()[:3], func(n *redistest.RedisServer) bool { return n.Addr() == from.Addr() })
	nodes := map[string]*redistest.RedisServer{"from": from, "to": masters[0], "third": masters[1]}
	for role, node := range nodes {
		theirs.join(role, node.Addr(), func() (net.Conn, error) { return net.Dial("tcp", node.Addr()) })
	}

	w := newWorld(t, 1, clustered[mutex].name)
	defer w.net.close()
	w.observes = nil // the servers get keys that no lock makes
	w.plan = &plan{kind: clustered[mutex], servers: 3, processes: 1, keys: 1, watchdog: 30 * time.Second, latency: 20 * time.Microsecond}
	w.plan.options = lockrt.Options{Watchdog: w.plan.watchdog}
	p := w.enlist(t.Context())
	ours := &clusterSide{t: t, roles: map[string]string{}, dials: map[string]func() (net.Conn, error){}, wires: map[string]*wire{}}
	owner := w.cluster.owners[slot]
	for i, role := range []string{"from", "to", "third"} {
		s := w.servers[(owner+i)%3]
		defer s.m.Close()
		l := w.join(p, s)
		ours.join(role, s.addr(), func() (net.Conn, error) { return l.dial(t.Context(), s.addr()) })
	}
	sides := []*clusterSide{theirs, ours}
	kinds := map[string]int{} // of replies
	both := func(stage, role string, asking bool, cmd ...string) {
		want := theirs.does(role, asking, cmd...)
		require.Equal(t, want, ours.does(role, asking, cmd...), "%s: %s gets %q, after ASKING: %v", stage, role, cmd, asking)
		kinds[strings.Fields(want[0])[0]]++
	}
	for _, key := range []string{"a", "b"} {
		both("before", "from", false, "SET", tagged+key, "v")
	}
	for _, side := range sides {
		side.ear = side.open("from")
		side.ear.do("SSUBSCRIBE", tagged+"e")
	}
	play := func(stage string) {
		for _, role := range []string{"from", "to", "third"} {
			for _, cmd := range clusterCommands(tagged) {
				both(stage, role, true, cmd...)
				both(stage, role, false, cmd...)
			}
			require.Equal(t, theirs.owners(role, slot), ours.owners(role, slot), "%s: who has the slot, as %s says", stage, role)
		}
		both(stage, "from", false, "SPUBLISH", tagged+"e", stage)
	}
	play("nothing moves")

	moving := real.Move(int(slot), nodes["to"])
	var m *move
	w.atOnce(func() { m = w.cluster.open(slot, 1) })
	play("the slot begins to move")

	_, port, err := net.SplitHostPort(nodes["to"].Addr())
	require.NoError(t, err)
	require.NoError(t, from.Do("MIGRATE", "127.0.0.1", port, tagged+"a", "0", "60000").Error())
	w.atOnce(func() { w.cluster.carry(m, 1) })
	play("one key of two is on the way")

	moving.Keys()
	w.atOnce(func() { w.cluster.carry(m, -1) })
	play("all keys have moved")

	moving.End()
	w.atOnce(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.cluster.close(m, 0)
	})
	require.Eventually(t, func() (known bool) {
		w.atOnce(func() {
			known = !slices.ContainsFunc(w.servers, func(s *server) bool { return s.owners[slot] != m.to.id })
		})
		return known
	}, time.Minute, 10*time.Millisecond, "all servers know who has the slot")
	play("the slot has moved")
	heard := theirs.hears("sunsubscribe")
	require.Len(t, heard, 5, "a message of each stage before, and that this ends")
	require.Equal(t, heard, ours.hears("sunsubscribe"), "the messages to a listener at the server that had the slot")
	for _, kind := range []string{"-MOVED", "-ASK", "-TRYAGAIN", "-CROSSSLOT", "-NOSCRIPT", "-ERR", ">3"} {
		require.NotZero(t, kinds[kind], kind)
	}
	t.Logf("replies by their first words: %v", kinds)
}

// atOnce does something on the goroutine of the network.
func (w *world) atOnce(do func()) {
	done := make(chan struct{})
	w.net.at(time.Now(), func() { defer close(done); do() })
	<-done
}

// clusterCommands are what each server is asked at each stage. The keys a and b are there at first, c and d never. None of
// the commands makes or removes a key for good, wherever it is done.
func clusterCommands(tag string) [][]string {
	a, b, c, d := tag+"a", tag+"b", tag+"c", tag+"d"
	eval := func(source string, keys ...string) []string {
		return slices.Concat([]string{"EVAL", source, fmt.Sprint(len(keys))}, keys)
	}
	const get, unknown = "return redis.call('get', KEYS[1])", "ffffffffffffffffffffffffffffffffffffffff"
	return [][]string{
		{"GET", a}, {"GET", b}, {"GET", c},
		{"EXISTS", a, b}, {"EXISTS", a, a}, {"EXISTS", a, c}, {"EXISTS", b, c}, {"EXISTS", c, d}, {"EXISTS", c, c},
		{"EXISTS", a, "{other}a"}, {"DEL", c, d}, {"UNLINK", c}, {"PTTL", a}, {"TYPE", b},
		{"HGET", c, "f"}, {"ZSCORE", c, "f"}, {"LLEN", d},
		eval(get, a), eval(get, b), eval(get, c), eval(get, a, b), eval(get, a, c), eval(get, b, c), eval(get, c, d),
		eval(get, a, "{other}a"), eval("return 1"), eval("return 1", c),
		eval("return redis.call('get', '"+a+"')", b), eval("return redis.call('get', '"+b+"')", a), eval("return redis.call('get', '"+c+"')", a),
		{"EVALSHA", unknown, "1", a}, {"EVALSHA", unknown, "1", c}, {"EVALSHA", unknown, "2", a, c}, {"EVALSHA", unknown, "0"},
		{"SSUBSCRIBE", a}, {"SUNSUBSCRIBE", a}, {"SSUBSCRIBE", c, d}, {"SUNSUBSCRIBE", c, d}, {"SSUBSCRIBE", c, "{other}"},
		{"SPUBLISH", c, "hello"}, {"SPUBLISH", a, "hello"}, {"PUBLISH", "nobody listens", "hello"},
	}
}

// A clusterSide is a cluster with a connection to each of its servers, and one that listens.
type clusterSide struct {
	t     *testing.T
	roles map[string]string // of the servers, by their ports
	dials map[string]func() (net.Conn, error)
	wires map[string]*wire
	ear   *wire
}

// join connects to a server.
func (x *clusterSide) join(role, addr string, dial func() (net.Conn, error)) {
	_, port, err := net.SplitHostPort(addr)
	require.NoError(x.t, err)
	x.roles[port], x.dials[role] = role, dial
	x.wires[role] = x.open(role)
}

// open makes one more connection to a server.
func (x *clusterSide) open(role string) *wire {
	c, err := x.dials[role]()
	require.NoError(x.t, err)
	x.t.Cleanup(func() { _ = c.Close() })
	one := &wire{t: x.t, c: c}
	one.do("HELLO", "3")
	return one
}

// does has a server do a command, and returns the replies to it, with the roles of servers instead of their addresses.
func (x *clusterSide) does(role string, asking bool, cmd ...string) (replies []string) {
	one := x.wires[role]
	if asking {
		require.Equal(x.t, "+OK\r\n", one.do("ASKING"))
	}
	one.send(cmd...)
	one.send("ECHO", "done")
	for {
		reply := one.next()
		if reply == "$4\r\ndone\r\n" {
			return replies
		}
		if strings.HasPrefix(reply, "-") {
			reply, _, _ = strings.Cut(reply, " script: ") // which script, and where in it
			reply = strings.TrimRight(reply, ".\r\n")
			if words := strings.Fields(reply); words[0] == "-MOVED" || words[0] == "-ASK" {
				words[2] = x.roles[words[2][strings.LastIndexByte(words[2], ':')+1:]]
				reply = strings.Join(words, " ")
			}
		}
		replies = append(replies, reply)
	}
}

// hears returns what was published to the one that listens, up to a kind of message.
func (x *clusterSide) hears(last string) (all []string) {
	for {
		all = append(all, x.ear.next())
		if strings.Contains(all[len(all)-1], last) {
			return all
		}
	}
}

// owners returns which server has a slot, as a server says in both ways.
func (x *clusterSide) owners(role string, slot uint16) (all []string) {
	has := func(first, last any) bool { return first.(int) <= int(slot) && int(slot) <= last.(int) }
	ranges, _ := parsed(x.wires[role].do("CLUSTER", "SLOTS"))
	for _, r := range ranges.([]any) {
		if one := r.([]any); has(one[0], one[1]) {
			all = append(all, x.roles[fmt.Sprint(one[2].([]any)[1])])
		}
	}
	shards, _ := parsed(x.wires[role].do("CLUSTER", "SHARDS"))
	for _, s := range shards.([]any) {
		slots := fieldOf(s, "slots").([]any)
		for i := 0; i < len(slots); i += 2 {
			if !has(slots[i], slots[i+1]) {
				continue
			}
			for _, node := range fieldOf(s, "nodes").([]any) {
				if fieldOf(node, "role") == "master" {
					all = append(all, x.roles[fmt.Sprint(fieldOf(node, "port"))])
				}
			}
		}
	}
	return all
}

// fieldOf returns the value of a name in a map.
func fieldOf(m any, name string) any {
	all := m.([]any)
	return all[slices.Index(all, any(name))+1]
}

// parsed returns the first value of a reply, a map as its names and values in turn, and what stands behind it.
func parsed(reply string) (value any, rest string) {
	line, rest, _ := strings.Cut(reply, "\r\n")
	n := 0
	_, _ = fmt.Sscan(line[1:], &n)
	switch line[0] {
	case ':':
		return n, rest
	case '$':
		return rest[:n], rest[n+2:]
	case '*', '%':
		if line[0] == '%' {
			n *= 2
		}
		all := make([]any, n)
		for i := range all {
			all[i], rest = parsed(rest)
		}
		return all, rest
	}
	return line[1:], rest
}
