package sim

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

// A world is one run: processes, servers, the network, and what was seen.
type world struct {
	t       *testing.T
	seed    uint64
	plan    *plan
	net     *network
	began   time.Time
	watch   *watch                // checks, and keeps the history
	faulted []func()              // called when something may have been done to a server, while w.mu is held
	elected func(c *call, l held) // called when a call has what it wants; or nil
	clients sync.Map              // of RedLocks: a client, by the first half of its owners

	servers   []*server
	cluster   *cluster // nil if they are none
	processes []*process
	links     []*link
	admin     []*conn // one to each server, which nothing happens to
	latches   [20]latched

	mu       sync.Mutex // guards the rest, and what links and connections say of it
	changed  chan struct{}
	chances  chances
	done     map[string]int // faults and commands, by name
	log      []string
	events   int
	away     map[[2]string]bool          // the key and the owner of each thread of Redisson that does not wait any more, and may be in the queue
	served   map[[2]string]time.Duration // when each thread of Redisson that does not wait any more got the lock, by the same
	scripts  map[[2]int][]time.Duration  // when a process had a server run some, of late
	observes []observer
	failures []string
	stop     context.CancelFunc // ends the work of all, after a failure
}

// chances are the probabilities with which single requests suffer.
type chances struct {
	lostClosed, lostMute, dropped, late float64
	only                                int // the process that suffers, or 0 for all
}

// outcome is what a run came to.
type outcome struct {
	seed     uint64
	kind     string
	lingers  bool
	failures []string
	log      []string
	done     map[string]int
	virtual  time.Duration
}

// run runs the world of a seed.
func run(t *testing.T, seed uint64, only string) (o outcome) {
	o.seed = seed
	defer func() {
		if p := recover(); p != nil {
			o.failures = append(o.failures, fmt.Sprintf("the world did not end: %v", p))
		}
	}()
	alive := time.AfterFunc(wallLimit, func() {
		buf := make([]byte, 1<<20)
		panic(fmt.Sprintf("seed %d: no end after %v\n%s", seed, wallLimit, buf[:runtime.Stack(buf, true)]))
	})
	defer alive.Stop()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed, only)
		o.kind, o.lingers = w.plan.kind.name, w.plan.options.Linger > 0
		defer func() { o.failures, o.log, o.done, o.virtual = w.failures, w.log, w.done, time.Since(w.began) }()
		w.live()
	})
	// The content of pools, such as timers, belongs to the bubble that made it.
	runtime.GC()
	runtime.GC()
	return o
}

// wallLimit is how long a world may take. It takes a tenth of a second where nothing else runs.
const wallLimit = 5 * time.Minute

func newWorld(t *testing.T, seed uint64, only string) *world {
	w := &world{t: t, seed: seed, began: time.Now(), changed: make(chan struct{}), done: map[string]int{}, away: map[[2]string]bool{}, served: map[[2]string]time.Duration{}, scripts: map[[2]int][]time.Duration{}, net: newNetwork()}
	w.plan = newPlan(w.random("plan"), w.random("redisson"), w.random("linger"), w.random("cluster"), w.random("singly"), only)
	w.watch = newWatch(w)
	for i := range w.latches {
		w.latches[i].ready = make(chan struct{})
	}
	w.observes = append(w.observes, w.watch.observe)
	for i := range w.plan.servers {
		s := newServer(w, i)
		w.servers = append(w.servers, s)
		w.admin = append(w.admin, w.join(&process{w: w}, s).open())
	}
	if w.plan.kind.lock != "" {
		w.cluster = newCluster(w, w.random("slots"))
	}
	return w
}

// join makes the link of a process to a server.
func (w *world) join(p *process, s *server) *link {
	l := &link{w: w, p: p, to: s}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.links = append(w.links, l)
	return l
}

// random returns what a part of the world is drawn from, which depends on the seed and the name of the part alone.
func (w *world) random(part ...any) *rand.Rand {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, part...)
	return rand.New(rand.NewPCG(w.seed, h.Sum64()))
}

// live has everything happen, and looks at what is left.
func (w *world) live() {
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	w.stop = cancel
	defer w.trace()()
	var workers sync.WaitGroup
	for range w.plan.processes {
		w.start(ctx, &workers) // before anything is broken: that a first connection fails is the caller's to see
	}
	if w.plan.javas > 0 {
		w.startJava(ctx, &workers)
	}
	for _, s := range w.plan.steps {
		w.act(s.at, s.do)
	}
	select {
	case <-time.After(w.plan.horizon + 2*w.plan.watchdog):
	case <-ctx.Done():
	}
	w.act(w.watch.now(), (*world).heal)
	finished := make(chan struct{})
	go func() { workers.Wait(); close(finished) }()
	select {
	case <-finished:
	case <-ctx.Done():
	case <-time.After(w.plan.patience()):
		w.fail("not all are served %v after the last fault: %s", w.plan.patience(), w.watch.waiting())
	}
	cancel()
	<-finished
	w.end()
}

// act has something done to the world at a time, if it is not over by then.
func (w *world) act(at time.Duration, do func(w *world)) {
	w.net.at(w.began.Add(at), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		do(w)
		w.signal()
	})
}

// dialing is longer than a connection takes, or its failure.
const dialing = 10 * time.Second

// end closes everything and looks at what is left behind.
func (w *world) end() {
	for _, p := range w.processes {
		p.shutdown()
	}
	synctest.Wait()
	w.watch.afterwards()
	w.watch.tally()
	// A connection that was about to be made returns to rueidis. If that came while rueidis closes the others, its goroutine would wait for a
	// mutex, and the time of the bubble would stand still.
	time.Sleep(dialing)
	for _, p := range w.processes {
		p.disconnect()
	}
	time.Sleep(w.plan.memory()) // for the goroutines of connections, and for what Redis keeps for a while
	w.watch.left()
	for _, s := range w.servers {
		s.m.Close()
	}
	w.net.close()
}

// fail notes what is wrong and ends the run.
func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, w.stamp()+fmt.Sprintf(format, args...))
	w.log = append(w.log, w.stamp()+"FAILED: "+fmt.Sprintf(format, args...))
	if w.stop != nil {
		w.stop()
	}
}

// note writes a line into the log.
func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, w.stamp()+fmt.Sprintf(format, args...))
}

func (w *world) stamp() string { return fmt.Sprintf("%12.6f ", time.Since(w.began).Seconds()) }

// count counts what was done. The caller holds w.mu.
func (w *world) count(what string, n int) { w.done[what] += n }

// happened tells the observers of an event.
func (w *world) happened(s *server, e *event) {
	w.mu.Lock()
	w.events++
	e.n, e.at = w.events, time.Since(w.began)
	w.log = append(w.log, printable(fmt.Sprintf("%s#%d s%d p%d/%d %s -> %s", w.stamp(), e.n, e.server, e.process, e.conn, e.text(), short(e.reply))))
	storm := e.script != "" && w.storms(e)
	w.mu.Unlock()
	for _, o := range w.observes {
		o(s, e)
	}
	if storm {
		w.fail("process %d has sent %d scripts to one server within %v: it asks without end", e.process, mostScripts, stormTime)
	}
}

// More scripts than any process has reason to send to one server within a while.
const (
	mostScripts = 400
	stormTime   = 3 * time.Second
)

// storms reports whether a process sends scripts without end. The caller holds w.mu.
func (w *world) storms(e *event) bool {
	from := [2]int{e.process, e.server}
	sent := append(w.scripts[from], e.at)
	for e.at-sent[0] > stormTime {
		sent = sent[1:]
	}
	w.scripts[from] = sent
	return len(sent) == mostScripts
}

func (e *event) text() string {
	var b strings.Builder
	if e.script != "" {
		fmt.Fprintf(&b, "%s %s", e.script, strings.Join(e.cmd[3:], " "))
		for _, f := range e.effects {
			if writes[strings.ToUpper(f[0])] || f[0] == "publish" {
				fmt.Fprintf(&b, " {%s}", strings.Join(f, " "))
			}
		}
	} else if name := names[hashes[e.cmd[len(e.cmd)-1]]]; name != "" {
		fmt.Fprintf(&b, "SCRIPT LOAD %s", name)
	} else {
		b.WriteString(short(strings.Join(e.cmd, " ")))
	}
	return b.String()
}

// printable returns s with dots for what cannot be read, as the ids of permits.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) || r == utf8.RuneError {
			return '.'
		}
		return r
	}, s)
}

func short(s string) string {
	s = strings.ReplaceAll(s, "\r\n", " ")
	if len(s) > 120 {
		return s[:120] + "..."
	}
	return s
}

// latency returns how long something takes one way. The caller holds w.mu.
func (w *world) latency(c *conn, dir int) time.Duration {
	if c.l.p.id == 0 {
		return 0
	}
	d := w.plan.latency/2 + time.Duration(c.rng[dir].Int64N(int64(w.plan.latency)))
	if c.rng[dir].IntN(50) == 0 {
		d *= 10
	}
	return d + c.l.slow
}

// loses decides what becomes of the reply to a command, and reports whether it is lost.
func (w *world) loses(c *conn, e *event) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.script == "" || w.chances.only != 0 && w.chances.only != c.l.p.id {
		return false
	}
	switch x := c.rng[down].Float64(); {
	case x < w.chances.lostClosed:
		w.injected("reply lost, connection closed", c.l.p)
		c.cut()
		return true
	case x < w.chances.lostClosed+w.chances.lostMute:
		w.injected("reply lost, connection mute", c.l.p)
		c.mute[down] = true
		c.mute[up] = c.rng[down].IntN(2) == 0
		return true
	}
	return false
}

// harms decides what becomes of a command on its way, and reports whether it goes another one. The caller holds w.mu.
func (w *world) harms(c *conn, args []string) bool {
	if !strings.EqualFold(args[0], "evalsha") || w.chances.only != 0 && w.chances.only != c.l.p.id || c.broken {
		return false
	}
	switch x := c.rng[up].Float64(); {
	case x < w.chances.dropped:
		w.injected("request lost, connection closed", c.l.p)
		c.cut()
		return true
	case x < w.chances.dropped+w.chances.late:
		w.injected("request late, connection closed", c.l.p)
		c.in.end(errReset)
		c.mute[up], c.mute[down] = true, true
		after := time.Duration(c.rng[up].Int64N(int64(w.plan.watchdog) * 9 / 10))
		w.net.at(time.Now().Add(after), func() {
			c.l.to.receive(c, args)
			w.mu.Lock()
			defer w.mu.Unlock()
			c.cut()
		})
		return true
	}
	return false
}

// injected notes a fault; of whom, or of all if p is nil. The caller holds w.mu.
func (w *world) injected(name string, p *process) {
	w.done["fault: "+name]++
	whose := "of all"
	if p != nil {
		whose = fmt.Sprintf("of process %d", p.id)
	}
	w.log = append(w.log, w.stamp()+"FAULT "+name+", "+whose)
	w.watch.disturbed()
}

// signal tells the goroutines that wait for the network to change. The caller holds w.mu.
func (w *world) signal() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// heal ends all faults. The caller holds w.mu.
func (w *world) heal() {
	w.watch.active = 0
	w.chances = chances{}
	for _, s := range w.servers {
		clear(s.refusals)
		s.down = false
	}
	for _, l := range w.links {
		l.refuses, l.slow = false, 0
		if !l.p.dead {
			l.release(up)
			l.release(down)
		}
	}
	if w.plan.disturbs {
		w.watch.disturbed()
	}
}

// over reports whether the run has failed already.
func (w *world) over() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.failures) > 0
}

// open makes a connection at once.
func (l *link) open() *conn {
	c, err := l.dial(context.Background(), l.to.addr())
	if err != nil {
		l.w.t.Fatal(err)
	}
	return c.(*conn)
}

// order has a server do a command of nobody.
func (w *world) order(s *server, cmd ...string) string {
	return s.do(w.admin[s.id], cmd).reply
}
