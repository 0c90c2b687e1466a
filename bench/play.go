package main

import (
	"cmp"
	"context"
	"math/rand/v2"
	"strconv"
	"time"
)

// A player is a process that locks and unlocks, perhaps with others.
type party struct {
	goroutines int
	shared     bool
	many       int // keys that it locks together
	clients    int // that its goroutines use in turn; 0 as 1
	pause      time.Duration
	busy       int // goroutines that compute meanwhile
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
	for i, x := range parties {
		p, err := startWorker(ctx, order{Library: lib.name, Addr: cmp.Or(e.servers, e.addr), Lease: kLease, Profile: e.profile, Clients: x.clients})
		if err != nil {
			return nil, err
		}
		defer p.end()
		ps[i] = p
	}
	if e.ready != nil {
		e.ready()
	}
	return playOn(e, lib, ps, parties)
}

// playOn is play for processes that have begun.
func playOn(e *env, lib library, ps []*process, parties []party) (*match, error) {
	warm := min(300*time.Millisecond, e.length/2) + 20*time.Millisecond
	begin, keys := time.Now().Add(warm), fresh()
	orders := make([]order, len(parties))
	for i, x := range parties {
		orders[i] = order{Op: "cycle", Goroutines: x.goroutines, Shared: x.shared, Many: x.many, Pause: x.pause, Busy: x.busy, Keys: keys, Begin: begin, Length: e.length, Patience: grace}
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
	m.sent, m.called = m.after.since(m.before, lib)
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

// handOver passes a key between two processes, and measures how long a PING takes meanwhile.
func handOver(ctx context.Context, e *env, lib library) (metrics, error) {
	one, other, end, err := twoWorkers(ctx, order{Library: lib.name, Addr: e.addr, Lease: kLease})
	if err != nil {
		return nil, err
	}
	defer end()
	ps := [2]*process{one, other}
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

// reentering locks a key that is held under the context of its lease.
func reentering(ctx context.Context, e *env, lib library) (metrics, error) {
	return repeating(ctx, e, lib, order{Op: "reenter"})
}

// repeating has one process repeat a cycle, and counts the commands of all cycles.
func repeating(ctx context.Context, e *env, lib library, o order) (metrics, error) {
	p, err := startWorker(ctx, order{Library: lib.name, Addr: e.addr, Lease: kLease, Profile: e.profile})
	if err != nil {
		return nil, err
	}
	defer p.end()
	before, err := e.probe()
	if err != nil {
		return nil, err
	}
	o.Length = e.length
	a, err := p.do(o)
	if err != nil {
		return nil, err
	}
	after, err := e.probe()
	if err != nil {
		return nil, err
	}
	sent, _ := after.since(before, lib)
	n := float64(a.Number)
	return metrics{
		"each": float64(a.Took) / n, "rate": n / a.Took.Seconds(), "allocs": a.Used.Mallocs / n, "bytes": a.Used.Bytes / n,
		"sent": sent / n,
	}, nil
}
