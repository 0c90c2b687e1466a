//go:build linux

package chaos

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/internal/serverclock"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// processes is how many contend, unless a row says something else.
const processes = 3

// watched is when a lease has long been watched for changes by others.
const watched = 30 * time.Millisecond

// opTimeout ends what has already gone wrong.
const opTimeout = 20 * time.Second

// An arena is one run: a server, the processes that use it, and what they said.
type arena struct {
	t       *testing.T
	row     row
	of      *primitive
	lease   time.Duration
	rounds  int
	exact   bool // the bounds are those of the row, else wider where they are a matter of speed
	mutant  string
	on      topology
	server  *redistest.RedisServer   // the one, or the present master
	group   *redistest.SentinelGroup // if there is one
	several []member                 // the servers of a RedLock
	cluster *redistest.RedisCluster  // if it is one
	clock   *serverclock.Clock       // of the server, if the row is about it
	history *history

	over    int64    // when the last fault was
	lasts   int64    // until when a release that was lost may leave a key: the run has to show the next grant after that
	victim  *attempt // its lease was lost by the server, or nil
	stopped atomic.Bool
	mu      sync.Mutex
	procs   map[int]*proc // that run
	last    int           // number of the last that was started
	seat    int           // that is free, if all are taken but one
}

// A proc is one process.
type proc struct {
	number  int
	seat    int
	proxy   *redistest.FaultProxy // before it, if the row wants one
	process *os.Process
	in      io.WriteCloser
	doomed  atomic.Bool // it is about to be killed
	exited  chan struct{}
}

// run runs the fault in rounds and returns what was found.
func (a *arena) run() *findings {
	f := a.strike()
	f.runs = 1
	return f
}

// worst runs a fault several times, each with servers and processes of its own, and returns the worst of all runs.
func worst(t *testing.T, times int, in func(t *testing.T) *arena) *findings {
	t.Helper()
	if times == 1 {
		return in(t).run()
	}
	all := &findings{figures: map[figure]time.Duration{}}
	for n := range times {
		t.Run(fmt.Sprintf("run %d", n+1), func(t *testing.T) { all.add(in(t).run()) })
	}
	return all
}

// strike has the fault strike while processes contend.
func (a *arena) strike() *findings {
	a.t.Helper()
	a.history, a.procs = newHistory(), map[int]*proc{}
	a.history.lingers = a.of.lingers
	options := a.row.server
	if a.row.clocked {
		a.clock = serverclock.New(a.t)
		options = append(options, redistest.WithEnv(a.clock.Env()...))
	}
	a.raise(options)
	for range a.processes() {
		a.seat++
		a.start()
	}
	a.await("the processes to begin", func([]*attempt) bool { return len(a.history.begun) == a.processes() })
	for _, p := range a.procs {
		a.order(p, orderGo)
	}
	ctx, stop := context.WithCancel(context.Background())
	var pulses sync.WaitGroup
	pulses.Go(func() { pulse(ctx, a.history.add) })
	settled := true
	for range a.rounds {
		if settled = a.settle(); !settled {
			break
		}
		a.row.inject(a)
		a.pass(time.Duration(a.lasts - now()))
	}
	if settled {
		a.settle()
	}
	if a.mutant == mutantSlow { // long enough to be found late, however much of the time does not count
		a.history.await(2*time.Second, func([]*attempt) bool { return false })
	}
	a.finish()
	stop()
	pulses.Wait()
	f := a.history.check(a.rules())
	a.left(f, time.After(a.lease+3*time.Second))
	patience := time.Minute
	if a.row.many() {
		patience = 10 * time.Second
	}
	if result, info := a.history.explain(a.of.room, patience); result == porcupine.Illegal || result == porcupine.Unknown && !a.row.many() {
		f.violate("the model does not explain the history: %s", result)
		a.keep(&info)
	} else if len(f.violations) > 0 {
		a.keep(&info)
	}
	return f
}

// processes returns how many contend.
func (a *arena) processes() int {
	if a.row.clients > 0 {
		return a.row.clients
	}
	return processes
}

func (a *arena) rules() rules {
	r := a.row.rules
	limits := map[figure]time.Duration{late: 50 * time.Millisecond, giving: unlockBound + 50*time.Millisecond}
	for g, d := range r.limits {
		limits[g] = d(a.lease)
	}
	for g, d := range limits {
		if !a.exact && d > 0 {
			limits[g] = 2*d + 500*time.Millisecond
		}
	}
	if d := limits[service]; d > 0 && r.dies {
		limits[service] = d + a.of.dead
	}
	return rules{room: a.of.room, lease: a.lease, limits: limits, keeps: r.keeps, holds: r.holds, loses: r.loses, spares: r.spares, stops: r.stops, forgets: r.forgets, away: r.away, mutes: r.mutes, allowed: r.allowed}
}

// start starts one more process. It stays where it is until it is told to go.
func (a *arena) start() *proc {
	a.t.Helper()
	a.last++
	p := &proc{number: a.last, seat: a.seat, exited: make(chan struct{})}
	urls := a.urls()
	if a.row.proxied {
		p.proxy = redistest.Proxy(a.t, a.server.Addr())
		urls = []string{p.proxy.URL()}
		if a.row.wire != nil {
			a.row.wire(a, p.proxy)
		}
	}
	line, err := json.Marshal(orders{
		Proc: p.number, Seat: p.seat, Primitive: a.of.name, URLs: urls, Replicas: a.row.replicas,
		Lease: a.lease, Hold: time.Duration(a.row.hold * float64(a.lease)), Storm: a.row.storm, Crowd: a.row.crowd, Mutant: a.mutant,
	})
	require.NoError(a.t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), ordersVariable+"="+string(line))
	if a.exact {
		cmd.Env = append(cmd.Env, "GOMAXPROCS=1") // or one thread that has to wait would not be noticed
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	p.in, err = cmd.StdinPipe()
	require.NoError(a.t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(a.t, err)
	started := make(chan error)
	go func() {
		defer close(p.exited)
		runtime.LockOSThread() // the process is killed when the thread ends that started it
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		p.process = cmd.Process
		started <- err
		if err != nil {
			return
		}
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 4<<20)
		for lines.Scan() {
			var e event
			if json.Unmarshal(lines.Bytes(), &e) == nil { // the unfinished line of a killed process is no event
				a.history.add(e)
			}
		}
		if err := cmd.Wait(); err != nil && !p.doomed.Load() {
			a.history.add(event{At: now(), What: leaked, Proc: p.number, Err: fmt.Sprintf("%v: %s", err, stderr.String())})
		}
	}()
	require.NoError(a.t, <-started)
	a.t.Cleanup(func() {
		p.doomed.Store(true)
		_ = p.process.Kill()
		<-p.exited
	})
	a.mu.Lock()
	a.procs[p.number] = p
	a.mu.Unlock()
	return p
}

func (a *arena) order(p *proc, order string) {
	_, _ = io.WriteString(p.in, order+"\n") // a process that is gone says so by being gone
}

// await waits until holds does, and ends the test if it takes too long.
func (a *arena) await(what string, holds func(all []*attempt) bool) {
	a.t.Helper()
	if !a.history.await(opTimeout, holds) {
		info := porcupine.LinearizationInfo{}
		a.keep(&info)
		require.Fail(a.t, "waited too long for "+what, "%v", a.history.marks(leaked))
	}
}

// settle waits until all is well: the holder that is to lose the long key has lost it, it is held and
// watched, others wait for it, every process has a part of the shared one, if there is one, and from now on
// every brief one was granted, and one to every process.
func (a *arena) settle() bool {
	since, victim := now(), a.victim
	known := watched
	if a.row.rules.loses && a.of.leased && protocol.HandOverLease > a.lease {
		known = protocol.HandOverLease - a.lease/2 // a key that was handed over lives no longer than its lease from then on
	}
	patience := 5*a.lease + opTimeout/4
	if a.mutant == mutantStuck || a.mutant != "" && a.over != 0 { // all is not well, and that is found after this time as well
		patience = 5 * a.lease
	}
	ok := a.history.await(patience, func(all []*attempt) bool {
		served, keys := map[int]bool{}, map[string]bool{}
		holds, waits, shares := false, false, map[int]bool{}
		for _, x := range all {
			_, to := x.trusted()
			switch {
			case x.key != longKey && x.key != sharedKey:
				if x.granted > since && x.granted != never {
					served[x.proc], keys[x.key] = true, true
				}
			case x.long() && x.granted != never && to == never:
				// A holder that kept the key through the last fault renews it before the next one.
				watches := now()-x.granted > int64(known) && (!a.of.leased || a.renewed(x) > a.over)
				if x.key == longKey {
					holds = watches
				} else {
					shares[x.proc] = watches
				}
			case x.long() && x.key == sharedKey && a.row.hold > 0 && x.granted > since && x.granted != never:
				shares[x.proc] = true // it comes and goes
			case x.key == longKey && x.granted == never && x.failed == never && x.killed == never:
				waits = true
			}
		}
		if victim != nil && min(victim.told, victim.unlock, victim.killed) == never {
			return false
		}
		a.mu.Lock()
		running := len(a.procs)
		a.mu.Unlock()
		return holds && waits && (!a.of.shares() || count(shares) >= running) && len(served) >= running && len(keys) == len(briefKeys)
	})
	if !ok {
		a.history.add(event{At: now(), What: leaked, Err: "something that keeps the processes from being served"})
	}
	return ok
}

// renewed returns when what x was granted was last renewed, or granted; by several servers, when the last of them had it. Those have
// had their part meanwhile that did not belong to the majority. Of several members, when the last of those was that it has.
func (a *arena) renewed(x *attempt) int64 {
	at := func(server, member int) int64 { return a.history.renewals[held{x.proc, x.key, server, member}] }
	first, last := never, int64(0)
	for i := range max(1, len(a.several)) {
		for m := range max(1, a.of.members) {
			first, last = min(first, at(i, m)), max(last, at(i, m))
		}
	}
	switch {
	case a.several != nil:
		return first
	case x.units < a.of.members: // it has one
		return max(x.granted, last)
	}
	return max(x.granted, first)
}

// count returns how many are.
func count(are map[int]bool) int {
	n := 0
	for _, is := range are {
		if is {
			n++
		}
	}
	return n
}

// holding returns the attempt that has the long key.
func (a *arena) holding() *attempt {
	a.t.Helper()
	var holder *attempt
	a.await("a holder", func(all []*attempt) bool {
		for _, x := range all {
			if _, to := x.trusted(); x.key == longKey && x.long() && x.granted != never && to == never {
				holder = x
				return true
			}
		}
		return false
	})
	return holder
}

// holder returns the process that has the long key.
func (a *arena) holder() *proc {
	a.t.Helper()
	number := a.holding().proc
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.procs[number]
}

// finish has all processes release what they have, and waits for their end.
func (a *arena) finish() {
	a.t.Helper()
	since := now()
	for _, p := range a.procs {
		a.order(p, orderRelease)
	}
	ok := a.history.await(3*a.lease+opTimeout/4, func(all []*attempt) bool {
		for _, x := range all {
			if x.key == longKey && x.granted != never && x.called < since && x.granted > since {
				return true
			}
		}
		return false
	})
	if !ok {
		a.history.add(event{At: now(), What: leaked, Err: "waiters that nobody served"})
	}
	a.stopped.Store(true)
	a.history.add(event{At: now(), What: closing})
	for _, p := range a.procs {
		_ = p.in.Close()
	}
	over := time.After(opTimeout)
	for _, p := range a.procs {
		select {
		case <-p.exited:
		case <-over:
			a.history.add(event{At: now(), What: leaked, Proc: p.number, Err: "a process that does not end"})
			_ = p.process.Signal(syscall.SIGABRT)
			<-p.exited
		}
	}
}

// keep writes the history, and what the model made of it, to files that stay.
func (a *arena) keep(info *porcupine.LinearizationInfo) {
	if a.mutant != "" {
		return
	}
	dir, err := os.MkdirTemp("", "lockgen-chaos-")
	if err != nil {
		a.t.Errorf("the history could not be kept: %v", err)
		return
	}
	path := filepath.Join(dir, "history.jsonl")
	if err := a.history.save(path); err != nil {
		a.t.Errorf("the history could not be kept: %v", err)
		return
	}
	a.t.Logf("history: %s", path)
	path = filepath.Join(dir, "model.html")
	if err := porcupine.VisualizePath(modelOf(a.of.room), *info, path); err != nil {
		a.t.Logf("no picture of the model: %v", err)
		return
	}
	a.t.Logf("what the model made of it: %s", path)
}

// broken notes that the fault begins; proc is the process that it is about, or nil, and key the only key that
// it is about, or empty.
func (a *arena) broken(p *proc, key string) {
	a.t.Helper()
	if a.row.rules.loses {
		a.victim = a.holding()
	}
	if a.row.rules.forgets {
		a.lasts = now() + int64(a.lease)
	}
	a.mark(broken, p, key)
}

// mended notes that the fault is over.
func (a *arena) mended(p *proc) {
	a.mark(mended, p, "")
	a.over = now()
}

// forgets has the server forget what it granted for the key, or for all if it is empty.
func (a *arena) forgets(key string, how func()) {
	e := event{At: now(), What: forgotten, Key: key}
	how()
	e.Until = now()
	a.history.add(e)
	a.lasts = e.At + int64(a.lease)
}

func (a *arena) mark(w what, p *proc, key string) {
	e := event{At: now(), What: w, Key: key}
	if p != nil {
		e.Proc = p.number
	}
	a.history.add(e)
}

// pass lets time pass: the length of a fault.
func (a *arena) pass(d time.Duration) { <-time.After(d) }

// every calls f in turns for as long as it takes.
func (a *arena) every(pause, long time.Duration, f func()) {
	over := time.After(long)
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		f()
		select {
		case <-tick.C:
		case <-over:
			return
		}
	}
}

// everywhere calls f with the proxy of each process.
func (a *arena) everywhere(f func(p *redistest.FaultProxy)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.procs {
		f(p.proxy)
	}
}

// kill kills a process and starts another in its place.
func (a *arena) kill(p *proc) {
	a.t.Helper()
	p.doomed.Store(true)
	_ = p.process.Kill()
	a.history.add(event{At: now(), What: killed, Proc: p.number})
	<-p.exited
	a.mu.Lock()
	delete(a.procs, p.number)
	a.seat = p.seat
	a.mu.Unlock()
}

// replace starts a process in the place of one that was killed.
func (a *arena) replace() {
	a.t.Helper()
	p := a.start()
	a.await("the new process to begin", func([]*attempt) bool { return a.history.begun[p.number] })
	a.order(p, orderGo)
}
