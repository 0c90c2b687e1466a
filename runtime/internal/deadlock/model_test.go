package deadlock

import (
	"cmp"
	"container/heap"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	interval = 5 * time.Second // of all processes
	latency  = 20 * time.Millisecond
	settled  = 2 * time.Second // longer than a round and what follows it take
)

// A model is processes whose tasks lock and wait at random, in virtual time.
type model struct {
	t      *testing.T
	random *rand.Rand
	now    time.Duration
	queue  events
	numero uint64

	nodes []*node2
	locks []*lock
	calls map[ID]*task // that wait

	changed  bool          // since the plain search
	searched time.Duration // when that was

	lossy bool // messages of each other interval may be lost
	sent  int
	most  int // messages of one process in an interval

	stuck   []instant                // the recent results of the plain search
	circles map[string]time.Duration // since when they are there
	found   []report
	named   int  // circles that had to be named, and were
	breaks  bool // the call that is chosen is ended
	broken  int
}

// An instant is what was stuck from a time on.
type instant struct {
	at    time.Duration
	stuck map[ID]bool
}

type report struct {
	at      time.Duration
	members map[ID]bool
}

// A node2 is a process.
type node2 struct {
	m        *model
	name     string
	foreign  bool // it cannot be asked
	detector *Detector
	ticks    time.Duration // when the next one is
	sends    time.Duration
	tasks    []*task
	numbers  uint64
	sentAt   []time.Duration
}

// A lock is had by one writer, or by some who share it.
type lock struct {
	key     string
	room    int  // how many permits there are; 1 of a mutex
	rw      bool // it is shared by readers
	holders []*lease
	line    []*task
}

type lease struct {
	Lease

	lock   *lock
	task   *task
	shared bool
}

// A task is a goroutine: it has leases, some of which it was given by the one that started it.
type task struct {
	node     *node2
	above    *task // that started it, and waits for its end
	below    int   // tasks that it has started
	leases   []*lease
	waits    *lock // that it waits for, or nil
	shared   bool
	number   uint64
	since    time.Duration
	patience int // numbers the waits, so that a late event does not end another one
}

type event struct {
	at    time.Duration
	order uint64
	do    func()
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].at, q[j].at), cmp.Compare(q[i].order, q[j].order)) < 0
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(event)) } //nolint:forcetypeassert // of heap
func (q *events) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func (m *model) after(d time.Duration, do func()) {
	m.numero++
	heap.Push(&m.queue, event{m.now + d, m.numero, do})
}

func (m *model) upTo(most time.Duration) time.Duration {
	return time.Duration(m.random.Int64N(int64(most))) + 1
}

func newModel(t *testing.T, seed uint64, processes, tasks, locks int, lossy bool) *model {
	m := &model{t: t, random: rand.New(rand.NewPCG(seed, 1)), calls: map[ID]*task{}, lossy: lossy, circles: map[string]time.Duration{}}
	for i := range locks {
		l := &lock{key: fmt.Sprint("key:", i), room: 1}
		switch m.random.IntN(4) {
		case 0:
			l.rw = true
		case 1:
			l.room = 1 + m.random.IntN(3)
		}
		m.locks = append(m.locks, l)
	}
	for i := range processes {
		n := &node2{m: m, name: fmt.Sprint("p", i), foreign: i > 1 && m.random.IntN(8) == 0}
		n.detector = New(n.name, interval, n)
		m.nodes = append(m.nodes, n)
		for range tasks {
			k := &task{node: n}
			n.tasks = append(n.tasks, k)
			m.after(m.upTo(interval), func() { m.act(k) })
		}
	}
	return m
}

// act has a task do something, if it does not wait.
func (m *model) act(k *task) {
	if k.waits != nil {
		return
	}
	switch {
	case len(k.leases) < 3 && (len(k.leases) == 0 || m.random.IntN(3) > 0):
		m.ask(k, m.locks[m.random.IntN(len(m.locks))])
	case k.below == 0 && m.random.IntN(6) == 0:
		for range 2 {
			child := &task{node: k.node, above: k}
			k.below++
			k.node.tasks = append(k.node.tasks, child)
			m.ask(child, m.locks[m.random.IntN(len(m.locks))])
		}
	case len(k.leases) > 0 && k.below == 0:
		m.release(k)
	}
	if k.waits == nil {
		m.next(k)
	}
}

// next has a task go on soon. One that was started by another one ends.
func (m *model) next(k *task) {
	if k.above == nil {
		m.after(m.upTo(interval/4), func() { m.act(k) })
		return
	}
	m.after(m.upTo(interval), func() {
		for len(k.leases) > 0 {
			m.release(k)
		}
		k.above.below--
		k.node.tasks = slices.DeleteFunc(k.node.tasks, func(x *task) bool { return x == k })
		if k.above.waits == nil {
			m.act(k.above)
		}
	})
}

// has returns the leases under which a task is.
func (k *task) has() []*lease {
	if k.above == nil {
		return k.leases
	}
	return append(slices.Clip(k.above.has()), k.leases...)
}

// ask has a task wait for a lock, or take it.
func (m *model) ask(k *task, l *lock) {
	if slices.ContainsFunc(k.has(), func(h *lease) bool { return h.lock == l }) {
		if k.above != nil {
			m.next(k)
		}
		return // it would enter again
	}
	k.shared = l.rw && m.random.IntN(2) == 0
	k.waits, k.since = l, m.now
	k.node.numbers++
	k.number = k.node.numbers
	m.calls[k.id()] = k
	l.line = append(l.line, k)
	m.grant(l)
	if k.waits == nil {
		return
	}
	if m.random.IntN(3) == 0 { // its wait is bounded
		k.patience++
		n := k.patience
		m.after(m.upTo(6*interval), func() {
			if k.waits == l && k.patience == n {
				m.cancel(k)
			}
		})
	}
	m.after(interval, k.node.tick)
}

func (k *task) id() ID { return ID{k.node.name, k.number} }

// cancel ends the wait of a task, which releases what it has.
func (m *model) cancel(k *task) {
	l := k.waits
	k.waits = nil
	k.patience++
	delete(m.calls, k.id())
	l.line = slices.DeleteFunc(l.line, func(x *task) bool { return x == k })
	m.grant(l)
	if k.above == nil && k.below == 0 {
		for len(k.leases) > 0 {
			m.release(k)
		}
	}
	m.next(k)
}

func (m *model) release(k *task) {
	last := k.leases[len(k.leases)-1]
	k.leases = k.leases[:len(k.leases)-1]
	last.lock.holders = slices.DeleteFunc(last.lock.holders, func(h *lease) bool { return h == last })
	m.grant(last.lock)
}

// grant lets those in that are next.
func (m *model) grant(l *lock) {
	m.changed = true
	for len(l.line) > 0 {
		k := l.line[0]
		fits := len(l.holders) < l.room
		if l.rw {
			fits = len(l.holders) == 0 || k.shared && l.holders[0].shared
		}
		if !fits {
			return
		}
		l.line = l.line[1:]
		delete(m.calls, k.id())
		k.waits = nil
		k.patience++
		m.numero++
		h := &lease{Lease{Key(l.key), fmt.Sprint(k.node.name, ":", m.numero)}, l, k, k.shared}
		l.holders = append(l.holders, h)
		k.leases = append(k.leases, h)
		m.next(k)
	}
}

// Waits implements World.
func (n *node2) Waits() []Wait {
	var all []Wait
	for _, k := range n.tasks {
		if k.waits == nil {
			continue
		}
		w := Wait{
			Call: Call{ID: k.id(), Key: Key(k.waits.key), Since: k.since.Microseconds()},
			Long: n.m.now-k.since >= interval, Any: k.waits.room > 1,
		}
		for _, h := range k.has() {
			w.Under = append(w.Under, h.Lease)
		}
		all = append(all, w)
	}
	return all
}

// Holders implements World.
func (n *node2) Holders(of []*Wait) [][]Holder {
	all := make([][]Holder, len(of))
	for i, w := range of {
		l := n.m.locks[slices.IndexFunc(n.m.locks, func(l *lock) bool { return Key(l.key) == w.Key })]
		for _, h := range l.holders {
			has := Holder{Owner: h.Owner, Process: h.task.node.name}
			if h.task.node.foreign {
				has.Process = ""
			}
			all[i] = append(all[i], has)
		}
	}
	return all
}

// Keep implements World.
func (n *node2) Keep(number uint64) { require.Contains(n.m.t, n.m.calls, ID{n.name, number}) }

// Found implements World.
func (n *node2) Found(number uint64, c Circle) {
	members := map[ID]bool{}
	for _, call := range c.Calls {
		members[call.ID] = true
	}
	require.True(n.m.t, members[ID{n.name, number}])
	was := slices.ContainsFunc(n.m.stuck, func(i instant) bool {
		return !slices.ContainsFunc(c.Calls, func(call Call) bool { return !i.stuck[call.ID] })
	})
	require.True(n.m.t, was, "at %v %s was told of a circle that was none: %+v", n.m.now, n.name, c)
	n.m.found = append(n.m.found, report{n.m.now, members})
	if !n.m.breaks || c.Victim() != (ID{n.name, number}) {
		return
	}
	n.m.after(time.Millisecond, func() {
		if k := n.m.calls[c.Victim()]; k != nil {
			n.m.broken++
			n.m.cancel(k)
		}
	})
}

func (n *node2) tick() {
	if n.foreign {
		return
	}
	next, more := n.detector.Tick(n.m.now)
	n.send()
	if at := n.m.now + next; more && (n.ticks <= n.m.now || at < n.ticks) {
		n.ticks = at
		n.m.after(next, n.tick)
	}
}

// send delivers what the process has to say, late or never.
func (n *node2) send() {
	m := n.m
	messages, next, more := n.detector.Send(m.now)
	for _, msg := range messages {
		m.sent++
		n.sentAt = append(slices.DeleteFunc(n.sentAt, func(at time.Duration) bool { return m.now-at >= interval }), m.now)
		m.most = max(m.most, len(n.sentAt))
		if m.lossy && m.now%(2*interval) < interval-settled && m.random.IntN(3) == 0 {
			continue
		}
		to := m.nodes[slices.IndexFunc(m.nodes, func(x *node2) bool { return x.name == msg.To })]
		m.after(m.upTo(latency), func() {
			to.detector.Receive(m.now, []string{msg.Text})
			to.send()
		})
	}
	if at := m.now + next; more && (n.sends <= m.now || at < n.sends) {
		n.sends = m.now + next
		m.after(next, n.send)
	}
}

// waitsFor is the plain search: the calls for which a call waits, for each of the holders.
func (m *model) waitsFor(k *task) (all [][]ID) {
	for _, h := range k.waits.holders {
		var under []ID
		for id, other := range m.calls {
			if !h.task.node.foreign && slices.Contains(other.has(), h) {
				under = append(under, id)
			}
		}
		all = append(all, under)
	}
	return all
}

// search notes which calls are stuck, and which circles there are.
func (m *model) search() {
	m.searched = m.now
	edges := map[ID][][]ID{}
	stuck := map[ID]bool{}
	for id, k := range m.calls {
		if k.node.foreign {
			continue
		}
		edges[id] = m.waitsFor(k)
		stuck[id] = true
	}
	for changed := true; changed; {
		changed = false
		for id := range stuck {
			blocked := 0
			for _, under := range edges[id] {
				if slices.ContainsFunc(under, func(to ID) bool { return stuck[to] }) {
					blocked++
				}
			}
			if blocked == 0 || m.calls[id].waits.room > 1 && blocked < len(edges[id]) {
				delete(stuck, id)
				changed = true
			}
		}
	}
	m.stuck = slices.DeleteFunc(m.stuck, func(i instant) bool { return m.now-i.at > Memory(interval) })
	m.stuck = append(m.stuck, instant{m.now, stuck})

	reach := map[ID]map[ID]bool{}
	for id := range stuck {
		reach[id] = map[ID]bool{}
		for todo := []ID{id}; len(todo) > 0; todo = todo[1:] {
			for _, under := range edges[todo[0]] {
				for _, to := range under {
					if stuck[to] && !reach[id][to] {
						reach[id][to] = true
						todo = append(todo, to)
					}
				}
			}
		}
	}
	present := map[string]map[ID]bool{}
	for id := range stuck {
		if !reach[id][id] {
			continue
		}
		members := map[ID]bool{}
		var names []string
		for to := range reach[id] {
			if reach[to][id] {
				members[to] = true
				names = append(names, fmt.Sprint(to))
			}
		}
		slices.Sort(names)
		present[strings.Join(names, " ")] = members
	}
	maps.DeleteFunc(m.circles, func(name string, _ time.Duration) bool { return present[name] == nil })
	for _, name := range slices.Sorted(maps.Keys(present)) {
		members := present[name]
		since, ok := m.circles[name]
		if !ok {
			m.circles[name] = m.now
			continue
		}
		if since >= 0 && m.now-since > 2*interval+settled {
			m.mustBeNamed(name, members)
			m.circles[name] = -1
			m.after(1, func() { // so that others come
				for _, id := range slices.SortedFunc(maps.Keys(members), compareIDs) {
					if k := m.calls[id]; k != nil {
						m.cancel(k)
					}
				}
			})
		}
	}
}

func compareIDs(a, b ID) int {
	return cmp.Or(cmp.Compare(a.Process, b.Process), cmp.Compare(a.Number, b.Number))
}

// mustBeNamed requires that all calls of a circle were told; of one with permits, that some were.
func (m *model) mustBeNamed(name string, members map[ID]bool) {
	m.named++
	told := map[ID]bool{}
	for _, r := range m.found {
		if slices.ContainsFunc(slices.Collect(maps.Keys(r.members)), func(id ID) bool { return !members[id] }) {
			continue
		}
		maps.Copy(told, r.members)
	}
	picky := false
	for id := range members {
		picky = picky || m.calls[id].waits.room > 1
	}
	if picky {
		require.NotEmpty(m.t, told, "at %v nobody was told of %s", m.now, name)
		return
	}
	require.Len(m.t, told, len(members), "at %v not all were told of %s", m.now, name)
}

// run lets time pass.
func (m *model) run(until time.Duration) {
	for len(m.queue) > 0 && m.queue[0].at <= until {
		e := heap.Pop(&m.queue).(event) //nolint:forcetypeassert // of heap
		m.now = e.at
		m.changed = false
		e.do()
		if m.changed || m.now-m.searched > interval/4 {
			m.search()
		}
	}
	m.now = until
	m.search()
}

// TestModel compares what processes find by messages with a plain search, while calls begin to wait, are granted, and give up
// at random, and messages are lost.
func TestModel(t *testing.T) {
	t.Parallel()
	for name, lossy := range map[string]bool{"all messages arrive": false, "messages are lost in each other interval": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			named, broken := 0, 0
			for seed := range uint64(40) {
				r := rand.New(rand.NewPCG(seed, 2))
				m := newModel(t, seed, 2+r.IntN(4), 1+r.IntN(4), 3+r.IntN(8), lossy)
				m.breaks = seed%2 == 0
				m.run(100 * interval)
				require.LessOrEqual(t, m.most, 2*Burst+Rate)
				named += m.named
				broken += m.broken
			}
			t.Log(named, "circles were named,", broken, "were broken")
			require.Greater(t, min(named, broken), 50, "too few circles for a test")
		})
	}
}
