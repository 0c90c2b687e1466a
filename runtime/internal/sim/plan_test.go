package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// A plan is what a seed says of a world before it begins.
type plan struct {
	kind                                      *kind
	servers, processes, workers, keys, rounds int
	watchdog, latency, horizon                time.Duration
	fenced, fixed                             bool
	singly                                    bool // permits are changed and released one by one, too
	javas                                     int  // threads of a program with Redisson
	javasQueue                                bool // they stand in the queue of a fair lock
	javasLeave, javasInterrupted              bool // they wait for some time only; some are interrupted then
	options                                   lockrt.Options
	steps                                     []step
	forgets                                   bool // a server forgets something
	back                                      bool // a clock is set back
	disturbs                                  bool // something is broken
}

// A step is something that is done to the world, on the goroutine of the network, while w.mu is held.
type step struct {
	at time.Duration
	do func(w *world)
}

func newPlan(r, java, linger, cluster, singly *rand.Rand, only string) *plan {
	p := &plan{kind: kinds[r.IntN(len(kinds))]}
	if only != "" {
		p.kind = kindNamed(only)
	} else if p.kind == mutex && java.IntN(4) == 0 {
		p.kind = besides
	} else if p.kind == fair && java.IntN(4) == 0 {
		p.kind = fairBesides
	}
	if c := clustered[p.kind]; c != nil && only == "" && cluster.IntN(4) == 0 {
		p.kind = c
	}
	if p.kind == besides {
		p.javas = 1 + java.IntN(2)
	}
	p.singly = p.kind == permits && singly.IntN(2) == 0
	p.servers = p.kind.servers
	p.processes = 2 + r.IntN(3)
	p.workers = 1 + r.IntN(3)
	p.keys = 1 + r.IntN(2)
	if p.kind.most > 0 {
		p.keys = p.kind.most
	}
	p.rounds = 4 + r.IntN(4)
	p.watchdog = []time.Duration{2 * time.Second, 2 * time.Second, 5 * time.Second, 30 * time.Second}[r.IntN(4)]
	p.latency = []time.Duration{100 * time.Microsecond, time.Millisecond, 5 * time.Millisecond}[r.IntN(3)]
	p.fenced, p.fixed = r.IntN(2) == 0, r.IntN(3) == 0
	p.horizon = 2*p.watchdog + time.Duration(r.Int64N(int64(8*time.Second)))
	p.options = lockrt.Options{Watchdog: p.watchdog}
	if r.IntN(2) == 0 {
		p.options.Tracking = lockrt.TrackingOff
	}
	if r.IntN(3) == 0 {
		p.options.Cohort = 1 + r.IntN(3)
	}
	if linger.IntN(3) == 0 {
		p.options.Linger = time.Duration(1+linger.IntN(20)) * time.Millisecond
	}
	if p.kind == fairBesides {
		p.planJavas(java.IntN)
	}
	for range []int{0, 1, 1, 2, 3, 4}[r.IntN(6)] {
		p.add(faults[r.IntN(len(faults))], r)
	}
	if p.kind.lock != "" {
		p.options.PubSub = pubSubs[cluster.IntN(len(pubSubs))]
		for range cluster.IntN(4) {
			p.add(slotMoved, cluster)
		}
		if cluster.IntN(3) == 0 {
			p.add(failedOver, cluster)
		}
	}
	slices.SortStableFunc(p.steps, func(a, b step) int { return int(a.at - b.at) })
	return p
}

// add adds a fault at some time.
func (p *plan) add(f *fault, r *rand.Rand) {
	if p.kind.bears != nil && !p.kind.bears(f) {
		return
	}
	p.disturbs = true
	p.forgets, p.back = p.forgets || f.forgets, p.back || f.back
	at := time.Duration(r.Int64N(int64(p.horizon)))
	begin, end := f.make(p, r)
	p.steps = append(p.steps, step{at, func(w *world) {
		w.injected(f.name, nil)
		begin(w)
		if !f.keeps {
			w.tellFault()
		}
		if end != nil {
			w.watch.active++
		}
		if f.forgets {
			w.watch.forgets()
		}
	}})
	if end != nil {
		p.steps = append(p.steps, step{at + time.Millisecond + time.Duration(r.Int64N(int64(p.watchdog)*3/2)), func(w *world) {
			w.log = append(w.log, w.stamp()+"END OF "+f.name)
			end(w)
			if !f.keeps {
				w.tellFault()
			}
			w.watch.active--
			w.watch.disturbed()
			if f.forgets {
				w.watch.forgets()
			}
		}})
	}
}

// patience is how long after the last fault all are served.
func (p *plan) patience() time.Duration {
	return time.Duration(p.processes*p.workers)*2*p.watchdog + 2*time.Minute
}

// memory is for how long Redis keeps something of those that are gone.
func (p *plan) memory() time.Duration { return lockrt.DefaultTokenTTL + 2*p.watchdog + 5*time.Minute }
