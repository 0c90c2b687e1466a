package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"
)

// metrics are the figures of one library in one round of one scenario. Times are nanoseconds.
type metrics map[string]float64

// An env has the settings of a round.
type env struct {
	*server
	length  time.Duration // of the counted time
	rest    time.Duration // of the observed idle time
	held    int           // locks of S6 and S7
	profile string        // a folder, or empty

	servers string // several, with commas between; empty for the server
	ready   func() // called when all clients have connected; or nil
}

// A scenario is one situation with the goals for it.
type scenario struct {
	id    string // as in "S1"
	point string // of a plot or a table with several: "16"
	title string
	how   string // in the report: how it is done and measured
	fit   func(lib library) bool
	of    string // the primitive that it measures, if that is not the Mutex
	plain bool   // locks that are no libraries are compared as well
	run   func(ctx context.Context, e *env, lib library) (metrics, error)

	columns  []column
	headline headline
	goals    []goal
}

func (s *scenario) name() string {
	if s.point == "" {
		return s.id
	}
	return s.id + ", " + s.point
}

// us is the primitive that the scenario measures.
func (s *scenario) us() string { return cmp.Or(s.of, lockgen) }

// A headline is the one figure that stands for a scenario.
type headline struct {
	metric string
	format format
	unit   string
	lowest bool   // less is better
	needs  string // only libraries that have this metric as well are compared
}

// A goal is a figure that lockgen must reach.
type goal struct {
	text    string // the goal with its figure
	measure func(t *table) spread
	limit   float64
	atLeast bool // else at most
	format  format
}

func (g goal) met(t *table) bool {
	got := g.measure(t).median
	if g.atLeast {
		return got >= g.limit
	}
	return got <= g.limit // false if it was not measured
}

// Measures of goals.

func value(metric string) func(t *table) spread {
	return func(t *table) spread { return of(t.values(t.scenario.us(), metric)) }
}

// valueOf is the metric of another primitive than that of the scenario.
func valueOf(name, metric string) func(t *table) spread {
	return func(t *table) spread { return of(t.values(name, metric)) }
}

func ofFloor(metric string) func(t *table) spread {
	return func(t *table) spread { return t.ratio(t.scenario.us(), floor, metric) }
}

func ofBest(metric string) func(t *table) spread {
	return func(t *table) spread { return t.ratio(t.scenario.us(), t.best(headline{metric: metric}), metric) }
}

// cpu is the CPU time of client and server together for one cycle, as a share of the floor's.
func cpu(t *table) spread { return t.ratio(lockgen, floor, "cpu") }

// beyond is the number of allocations beyond the floor's.
func beyond(t *table) spread {
	ours, theirs := t.values(lockgen, "allocs"), of(t.values(floor, "allocs")).median
	for i := range ours {
		ours[i] -= theirs
	}
	return of(ours)
}

func anybody(lib library) bool  { return !lib.family && !lib.redisson }
func whoLocks(lib library) bool { return !lib.floor && !lib.family && !lib.plain }

const (
	kLease = 30 * time.Second // so that nothing expires or is renewed in a run
	hardly = 10 * time.Minute // the same for runs that take long
	renew  = 10 * time.Second // S6
)

// grace is how long goroutines that still wait at the end of a run may continue. A goroutine that gets the lock within
// grace was late; the others are stuck.
const grace = 2 * time.Second

var runs atomic.Int64

// fresh returns a prefix of keys that were never used.
func fresh() string { return fmt.Sprintf("bench:%x:%d", time.Now().UnixNano(), runs.Add(1)) }

// A party is a process that locks and unlocks, perhaps with others.
type party struct {
	goroutines int
	shared     bool
	many       int // keys that it locks together
	pause      time.Duration
}

// A match is several processes with their results.
type match struct {
	answers       []answer
	before, after probe
	sent, called  float64
	length        time.Duration
}

// play makes all processes lock and unlock at the same time.
func play(ctx context.Context, e *env, lib library, parties []party) (*match, error) {
	ps := make([]*process, len(parties))
	for i := range parties {
		p, err := startWorker(ctx, order{Library: lib.name, Addr: cmp.Or(e.servers, e.addr), Lease: kLease, Profile: e.profile})
		if err != nil {
			return nil, err
		}
		defer p.end()
		ps[i] = p
	}
	if e.ready != nil {
		e.ready()
	}
	warm := min(300*time.Millisecond, e.length/2) + 20*time.Millisecond
	begin, keys := time.Now().Add(warm), fresh()
	orders := make([]order, len(parties))
	for i, x := range parties {
		orders[i] = order{Op: "cycle", Goroutines: x.goroutines, Shared: x.shared, Many: x.many, Pause: x.pause, Keys: keys, Begin: begin, Length: e.length, Patience: grace}
		if !x.shared {
			orders[i].Keys += ":" + strconv.Itoa(i)
		}
	}
	m := &match{length: e.length}
	probed := make(chan error, 1)
	go func() {
		var err error
		<-time.After(time.Until(begin))
		if m.before, err = e.probe(); err == nil {
			<-time.After(time.Until(begin.Add(e.length)))
			m.after, err = e.probe()
		}
		probed <- err
	}()
	var err error
	m.answers, err = doAll(ps, orders)
	if probing := <-probed; err == nil {
		err = probing
	}
	m.sent, m.called = m.after.since(m.before, lib.direct)
	return m, err
}

// metrics sums up all processes.
func (m *match) metrics() metrics {
	var waits histogram
	var counts, sums []float64
	var total, longest, stuck, failed, never float64
	var cpu, mallocs, bytes float64 // per second, since the processes are not measured at the same moments
	for _, a := range m.answers {
		var sum float64
		for _, n := range a.Counts {
			sum += n
			if n == 0 {
				never++
			}
		}
		total += sum
		counts, sums = append(counts, a.Counts...), append(sums, sum)
		waits.merge((*histogram)(a.Waits))
		longest = max(longest, float64(a.Longest))
		stuck += float64(a.Stuck)
		failed += float64(a.Failed)
		took := a.Took.Seconds()
		cpu += float64(a.Used.CPU) / took
		mallocs += a.Used.Mallocs / took
		bytes += a.Used.Bytes / took
	}
	rate := total / m.length.Seconds()
	probed := m.after.at.Sub(m.before.at).Seconds()
	server := float64(m.after.cpu-m.before.cpu) / probed
	return metrics{
		"rate": rate, "jain": jain(counts), "processes": jain(sums),
		"p50": waits.quantile(0.5), "p99": waits.quantile(0.99), "longest": longest,
		"sent": m.sent / probed / rate, "called": m.called / probed / rate,
		"allocs": mallocs / rate, "bytes": bytes / rate,
		"client": cpu / rate, "server": server / rate, "cpu": (cpu + server) / rate,
		"never": never, "stuck": stuck, "failed": failed,
	}
}

func cycles(parties ...party) func(ctx context.Context, e *env, lib library) (metrics, error) {
	return func(ctx context.Context, e *env, lib library) (metrics, error) {
		m, err := play(ctx, e, lib, parties)
		if err != nil {
			return nil, err
		}
		return m.metrics(), nil
	}
}

// neighbours runs a busy process and one whose only goroutine pauses between turns.
func neighbours(ctx context.Context, e *env, lib library) (metrics, error) {
	m, err := play(ctx, e, lib, []party{{goroutines: 100, shared: true}, {goroutines: 1, shared: true, pause: 10 * time.Millisecond}})
	if err != nil {
		return nil, err
	}
	both := m.metrics()
	busy, lone := *m, *m
	busy.answers, lone.answers = m.answers[:1], m.answers[1:]
	b, l := busy.metrics(), lone.metrics()
	return metrics{
		"rate": b["rate"], "jain": b["jain"], "lone": l["rate"], "p50": l["p50"], "p99": l["p99"], "longest": l["longest"],
		"sent": both["sent"], "stuck": both["stuck"], "failed": both["failed"],
	}, nil
}

// handOver passes a key between two processes, and measures how long a PING takes meanwhile.
func handOver(ctx context.Context, e *env, lib library) (metrics, error) {
	var ps [2]*process
	for i := range ps {
		p, err := startWorker(ctx, order{Library: lib.name, Addr: e.addr, Lease: kLease})
		if err != nil {
			return nil, err
		}
		defer p.end()
		ps[i] = p
	}
	key := fresh()
	var passed, ping, again []float64
	for start := time.Now(); time.Since(start) < e.length || len(passed) < 10; {
		holder, waiter := ps[len(passed)%2], ps[(len(passed)+1)%2]
		if err := pause(ctx, 2*time.Millisecond); err != nil {
			return nil, err
		}
		for _, to := range []*[]float64{&ping, &again} {
			a, err := holder.do(order{Op: "ping"})
			if err != nil {
				return nil, err
			}
			*to = append(*to, float64(a.Elapsed))
		}
		if _, err := holder.do(order{Op: "lock", Keys: key}); err != nil {
			return nil, err
		}
		if err := waiter.send(order{Op: "lock", Keys: key}); err != nil {
			return nil, err
		}
		// The process waits then, in no rhythm.
		if err := pause(ctx, 2*time.Millisecond+rand.N(max(3*time.Millisecond, lib.asks))); err != nil {
			return nil, err
		}
		gave, err := holder.do(order{Op: "unlock"})
		if err != nil {
			return nil, err
		}
		got, err := waiter.receive(answerWithin)
		if err != nil {
			return nil, err
		}
		passed = append(passed, float64(got.At.Sub(gave.At)))
		if _, err := waiter.do(order{Op: "unlock"}); err != nil {
			return nil, err
		}
	}
	p := quantile(ping, 0.5)
	return metrics{
		"p50": quantile(passed, 0.5), "p99": quantile(passed, 0.99), "ping": p, "again": quantile(again, 0.5),
		"pings": quantile(passed, 0.5) / p, "pings99": quantile(passed, 0.99) / p, "pingsAgain": quantile(passed, 0.5) / quantile(again, 0.5),
	}, nil
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// idle observes a process and the server for a while in which nothing happens.
func idle(ctx context.Context, e *env, lib library, p *process, length time.Duration) (metrics, error) {
	before, err := e.probe()
	if err != nil {
		return nil, err
	}
	used, err := p.do(order{Op: "usage"})
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, length); err != nil {
		return nil, err
	}
	after, err := e.probe()
	if err != nil {
		return nil, err
	}
	now, err := p.do(order{Op: "usage"})
	if err != nil {
		return nil, err
	}
	took := after.at.Sub(before.at)
	sent, called := after.since(before, lib.direct)
	return metrics{
		"commands": sent / took.Seconds(), "calledRest": called / took.Seconds(),
		"client%": 100 * now.Used.since(used.Used).CPU.Seconds() / took.Seconds(),
		"server%": 100 * (after.cpu - before.cpu).Seconds() / took.Seconds(),
	}, nil
}

// holding makes one process hold many locks: many times the number of the environment.
func holding(many int) func(ctx context.Context, e *env, lib library) (metrics, error) {
	return func(ctx context.Context, e *env, lib library) (metrics, error) { return hold(ctx, e, lib, many*e.held) }
}

func hold(ctx context.Context, e *env, lib library, number int) (metrics, error) {
	p, err := startWorker(ctx, order{Library: lib.name, Addr: e.addr, Lease: renew, Profile: e.profile})
	if err != nil {
		return nil, err
	}
	defer p.end()
	if _, err := p.do(order{Op: "prepare", Keys: fresh(), Number: number}); err != nil {
		return nil, err
	}
	before, err := p.do(order{Op: "usage", Collect: true})
	if err != nil {
		return nil, err
	}
	held, err := p.do(order{Op: "hold"})
	if err != nil {
		return nil, err
	}
	after, err := p.do(order{Op: "usage", Collect: true})
	if err != nil {
		return nil, err
	}
	m, err := idle(ctx, e, lib, p, e.rest)
	if err != nil {
		return nil, err
	}
	trusted, err := p.do(order{Op: "trusted"})
	if err != nil {
		return nil, err
	}
	per := after.Used.since(before.Used)
	n := float64(number)
	m["heap"], m["stack"], m["goroutines"] = per.Heap/n, per.Stack/n, math.Max(0, per.Goroutines)/n
	m["memory"] = m["heap"] + m["stack"]
	m["acquire"] = float64(held.Took)
	if lib.renews {
		m["lost"] = n - float64(trusted.Number)
	}
	return m, nil
}

// waiting makes one process wait for many locks that another one holds and then releases.
func waiting(ctx context.Context, e *env, lib library) (metrics, error) {
	keys := fresh()
	var ps [2]*process
	var connections [2]float64
	for i := range ps {
		p, err := startWorker(ctx, order{Library: lib.name, Addr: e.addr, Lease: hardly, Profile: e.profile})
		if err != nil {
			return nil, err
		}
		defer p.end()
		if _, err := p.do(order{Op: "prepare", Keys: keys, Number: e.held}); err != nil {
			return nil, err
		}
		ps[i] = p
		if i == 0 {
			if _, err := p.do(order{Op: "hold"}); err != nil {
				return nil, err
			}
			at, err := e.probe()
			if err != nil {
				return nil, err
			}
			connections[0] = at.connections
		}
	}
	holder, waiter := ps[0], ps[1]
	before, err := waiter.do(order{Op: "usage", Collect: true})
	if err != nil {
		return nil, err
	}
	if _, err := waiter.do(order{Op: "wait"}); err != nil {
		return nil, err
	}
	if err := pause(ctx, max(500*time.Millisecond, e.rest/4)); err != nil { // until all wait; few libraries report that
		return nil, err
	}
	after, err := waiter.do(order{Op: "usage", Collect: true})
	if err != nil {
		return nil, err
	}
	m, err := idle(ctx, e, lib, waiter, 3*e.rest)
	if err != nil {
		return nil, err
	}
	at, err := e.probe()
	if err != nil {
		return nil, err
	}
	connections[1] = at.connections
	released, err := holder.do(order{Op: "release"})
	if err != nil {
		return nil, err
	}
	served, err := waiter.do(order{Op: "served", Patience: 10 * time.Second})
	if err != nil {
		return nil, err
	}
	per := after.Used.since(before.Used)
	n := float64(e.held)
	m["heap"], m["stack"] = per.Heap/n, per.Stack/n
	m["connections"], m["channels"] = connections[1]-connections[0], at.channels
	m["forgotten"], m["failed"] = n-float64(served.Number), float64(served.Failed)
	if served.Number == e.held {
		m["served"] = float64(served.At.Sub(released.At))
		m["servedAfter"] = float64(max(0, served.At.Sub(released.At.Add(released.Took))))
	}
	return m, nil
}

// reentering locks a key that is held under the context of its lease.
func reentering(ctx context.Context, e *env, lib library) (metrics, error) {
	p, err := startWorker(ctx, order{Library: lib.name, Addr: e.addr, Lease: kLease, Profile: e.profile})
	if err != nil {
		return nil, err
	}
	defer p.end()
	before, err := e.probe()
	if err != nil {
		return nil, err
	}
	a, err := p.do(order{Op: "reenter", Length: e.length})
	if err != nil {
		return nil, err
	}
	after, err := e.probe()
	if err != nil {
		return nil, err
	}
	sent, _ := after.since(before, lib.direct)
	n := float64(a.Number)
	return metrics{
		"each": float64(a.Took) / n, "rate": n / a.Took.Seconds(), "allocs": a.Used.Mallocs / n, "bytes": a.Used.Bytes / n,
		"sent": sent / n,
	}, nil
}

// The columns that several tables have.
var (
	colRate    = column{"per second", "rate", count}
	colFloor   = column{"of the floor", "", hundredth} // a ratio of rates
	colP50     = column{"p50", "p50", duration}
	colP99     = column{"p99", "p99", duration}
	colLongest = column{"longest", "longest", duration}
	colSent    = column{"commands", "sent", small}
	colCalled  = column{"called by scripts", "called", small}
	colAllocs  = column{"allocs", "allocs", tenth}
	colBytes   = column{"bytes", "bytes", count}
	colClient  = column{"client CPU", "client", duration}
	colServer  = column{"Redis CPU", "server", duration}
	colJain    = column{"Jain", "jain", hundredth}
	colNever   = column{"never got it", "never", count}
	colStuck   = column{"stuck", "stuck", count}
)

var (
	aloneColumns  = []column{colRate, colFloor, colP50, colP99, colLongest, colSent, colCalled, colAllocs, colBytes, colClient, colServer, colStuck}
	sharedColumns = []column{colRate, colJain, colP50, colP99, colLongest, colSent, colAllocs, colBytes, colClient, colServer, colNever, colStuck}
)

const howAlone = "Every goroutine takes 16 keys in turn that nobody else wants. All columns but the first two are for one cycle: a lock and an unlock."

const howHeld = "One process takes {held} locks with a lease of 10 s, then looks on for {rest}. Memory and goroutines are for each lock. redislock and redsync do not renew, so theirs expire, which they do not notice; they are not compared."

var heldColumns = []column{{"heap", "heap", count}, {"stack", "stack", count}, {"goroutines", "goroutines", hundredth}, {"commands/s", "commands", tenth},
	{"called by scripts/s", "calledRest", count}, {"client CPU %", "client%", hundredth}, {"Redis CPU %", "server%", hundredth}, {"all taken after", "acquire", duration}, {"lost", "lost", count}}

func allScenarios() []*scenario {
	all := []*scenario{{
		id: "S1", title: "One goroutine, keys that nobody else wants", how: howAlone, fit: anybody,
		run: cycles(party{goroutines: 1}), columns: aloneColumns, headline: headline{metric: "rate", format: count, unit: "/s"},
		goals: []goal{
			{"at least 1.0 of the floor's cycles", ofFloor("rate"), 1, true, hundredth},
			{"ahead of every other library", ofBest("rate"), 1, true, times},
			{"p99 no worse than that of the best of them", func(t *table) spread {
				return t.ratio(lockgen, t.best(headline{metric: "p99", lowest: true}), "p99")
			}, 1, false, times},
			{"at most 6 allocations beyond the floor's", beyond, 6, false, tenth},
		},
	}}
	for _, g := range []int{16, 64, 256, 1024, 4096} {
		all = append(all, &scenario{
			id: "S2", point: strconv.Itoa(g), title: fmt.Sprintf("%d goroutines, keys that nobody else wants", g), how: howAlone, fit: anybody,
			run: cycles(party{goroutines: g}), columns: aloneColumns, headline: headline{metric: "rate", format: count, unit: "/s"},
			goals: []goal{
				{"at least 1.0 of the floor's cycles", ofFloor("rate"), 1, true, hundredth},
				{"ahead of every other library", ofBest("rate"), 1, true, times},
				{"client and server together use at most 1.1 of the floor's CPU for a cycle", cpu, 1.1, false, hundredth},
				{"nobody hangs", value("stuck"), 0, false, count},
			},
		})
	}
	for _, g := range []int{16, 100, 1000} {
		s := &scenario{
			id: "S3", point: strconv.Itoa(g), title: fmt.Sprintf("%d goroutines of one process, one key", g), fit: whoLocks,
			how: "They do nothing while they hold it. Figures are for one acquisition; the waits include those that were still on at the end.",
			run: cycles(party{goroutines: g, shared: true}), columns: sharedColumns, headline: headline{metric: "rate", format: count, unit: "/s"},
			goals: []goal{
				{"at least 25x the acquisitions of the best other library", ofBest("rate"), 25, true, times},
				{"Jain's index of the goroutines at least 0.99", value("jain"), 0.99, true, thousandth},
				{"nobody starves", value("never"), 0, false, count},
				{"at most 0.05 commands for an acquisition", value("sent"), 0.05, false, small},
			},
		}
		if g == 1000 {
			s.goals = append(s.goals, goal{"nobody waits longer than 50 ms", value("longest"), 50e6, false, duration})
		}
		all = append(all, s)
	}
	four := make([]party, 4)
	for i := range four {
		four[i] = party{goroutines: 8, shared: true}
	}
	both := append([]column{colRate, {"Jain of processes", "processes", hundredth}}, sharedColumns[1:]...)
	all = append(all,
		&scenario{
			id: "S4", title: "4 processes of 8 goroutines, one key", fit: whoLocks,
			how: "As S3.",
			run: cycles(four...), columns: both, headline: headline{metric: "rate", format: count, unit: "/s"},
			goals: []goal{
				{"at least 20x the acquisitions of the best other library", ofBest("rate"), 20, true, times},
				{"Jain's index of the goroutines at least 0.99", value("jain"), 0.99, true, thousandth},
				{"Jain's index of the processes at least 0.99", value("processes"), 0.99, true, thousandth},
				{"nobody waits longer than 25 ms", value("longest"), 25e6, false, duration},
			},
		},
		&scenario{
			id: "S4b", title: "The polite neighbour: a busy process of 100 goroutines, and one goroutine in another that pauses", fit: whoLocks,
			how: "It pauses for 10 ms after each turn, so it can have 100 a second at most. The waits are its own.",
			run: neighbours, headline: headline{metric: "lone", format: tenth, unit: "/s"},
			columns: []column{{"its turns per second", "lone", tenth}, colP50, colP99, colLongest, {"the busy one's", "rate", count}, colSent, colStuck},
			goals: []goal{
				{"at least 93 turns a second", value("lone"), 93, true, tenth},
				{"p99 at most 2.5 ms", value("p99"), 2.5e6, false, duration},
				{"the busy side has at least 20x the acquisitions of the best other library's", ofBest("rate"), 20, true, times},
			},
		},
		&scenario{
			id: "S5", title: "From one process to another: unlocked there, held here", fit: whoLocks,
			how: "As a multiple of a PING round trip in the same run: of one that is sent after a pause, as the unlock is, and of one right after it.",
			run: handOver, headline: headline{metric: "pings", format: tenth, unit: " PINGs", lowest: true},
			columns: []column{{"median, PINGs", "pings", hundredth}, {"p99, PINGs", "pings99", hundredth}, {"median, PINGs right after another", "pingsAgain", hundredth},
				colP50, colP99, {"PING", "ping", duration}, {"PING right after another", "again", duration}},
			goals: []goal{
				{"median at most 2.5 PINGs", value("pings"), 2.5, false, hundredth},
				{"p99 at most 8 PINGs", value("pings99"), 8, false, hundredth},
			},
		},
		&scenario{
			id: "S6", title: "Many locks, held and renewed", fit: whoLocks, how: howHeld,
			run: holding(1), headline: headline{metric: "memory", format: count, unit: " bytes", lowest: true, needs: "lost"}, columns: heldColumns,
			goals: []goal{
				{"no goroutine for a lock", value("goroutines"), 0.01, false, hundredth},
				{"at most 400 bytes for a lock", value("memory"), 400, false, count},
				{"at most 20 commands a second", value("commands"), 20, false, tenth},
				{"at most 1 % of a core in the client", value("client%"), 1, false, hundredth},
				{"at most 1.2 % of a core in Redis", value("server%"), 1.2, false, hundredth},
				{"all of them taken within 0.15 s", value("acquire"), 150e6, false, duration},
				{"none lost", value("lost"), 0, false, count},
			},
		},
		&scenario{
			id: "S6", point: "tenfold", title: "Ten times as many locks", fit: func(lib library) bool { return lib.name == lockgen }, how: howHeld,
			run: holding(10), headline: headline{metric: "memory", format: count, unit: " bytes", lowest: true, needs: "lost"}, columns: heldColumns,
			goals: []goal{
				{"no goroutine for a lock", value("goroutines"), 0.01, false, hundredth},
				{"at most 400 bytes for a lock", value("memory"), 400, false, count},
				{"at most 200 commands a second", value("commands"), 200, false, tenth},
				{"at most 10 % of a core in the client", value("client%"), 10, false, hundredth},
				{"at most 12 % of a core in Redis", value("server%"), 12, false, hundredth},
				{"all of them taken within 1.5 s", value("acquire"), 1500e6, false, duration},
				{"none lost", value("lost"), 0, false, count},
			},
		},
		&scenario{
			id: "S7", title: "Many goroutines that wait, each for a lock of its own", fit: whoLocks,
			how: "{held} goroutines of one process wait for as many locks that another process holds. Nothing happens for {waits}, then all are released. Memory is for each waiter, with its goroutine. All are served counts from the first release, and from when the last unlock had returned.",
			run: waiting, headline: headline{metric: "served", format: duration, lowest: true},
			columns: []column{{"commands/s at rest", "commands", tenth}, {"client CPU %", "client%", hundredth}, {"Redis CPU %", "server%", hundredth}, {"heap", "heap", count}, {"stack", "stack", count},
				{"its connections", "connections", count}, {"channels of both", "channels", count}, {"all served after", "served", duration}, {"after the last release", "servedAfter", duration}, {"not served", "forgotten", count}},
			goals: []goal{
				{"one connection for commands and one for messages", value("connections"), 2, false, count},
				{"one channel for each process", value("channels"), 2, false, count},
				{"at most 1 KiB of heap for a waiter", value("heap"), 1024, false, count},
				{"at most 5 commands a second at rest", value("commands"), 5, false, tenth},
				{"all served within 0.2 s of the first release", value("served"), 200e6, false, duration},
				{"nobody forgotten", value("forgotten"), 0, false, count},
			},
		},
	)
	all = append(all, severalScenarios()...)
	all = append(all,
		&scenario{
			id: "S9", title: "Locking again what one holds", fit: func(lib library) bool { return lib.reenters },
			how: "One goroutine, under the context of its lease; the others cannot. Those who read do nothing meanwhile.",
			run: reentering, headline: headline{metric: "each", format: duration, lowest: true},
			columns: []column{{"each", "each", duration}, colAllocs, colBytes, {"commands", "sent", small}},
			goals: []goal{
				{"at most 150 ns", value("each"), 150, false, duration},
				{"at most 1 allocation", value("allocs"), 1.01, false, hundredth},
				{"no command", value("sent"), 0.001, false, small},
			},
		})
	return append(all, familyScenarios()...)
}
