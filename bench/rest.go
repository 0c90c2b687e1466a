package main

import (
	"cmp"
	"context"
	"math"
	"time"
)

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
	sent, called := after.since(before, lib)
	return metrics{
		"commands": sent / took.Seconds(), "reads": (after.reads - before.reads) / took.Seconds(), "calledRest": called / took.Seconds(),
		"client%": 100 * now.Used.since(used.Used).CPU.Seconds() / took.Seconds(),
		"server%": 100 * (after.cpu - before.cpu).Seconds() / took.Seconds(),
	}, nil
}

// brief is how long a library is observed whose requests at rest take no longer to see.
const brief = 3 * time.Second

// restOf returns how long a library is observed that holds locks: one that does not renew them sends nothing.
func (e *env) restOf(lib library) time.Duration {
	if !lib.renews {
		return min(brief, e.rest)
	}
	return e.rest
}

// waitOf returns how long a library is observed whose calls wait: one that asks at intervals does so all the time, the others at least once in 30 s.
func (e *env) waitOf(lib library) time.Duration {
	if lib.asks > 0 {
		return min(brief, 3*e.rest)
	}
	return 3 * e.rest
}

// holding makes one process hold many locks: many times the number of the environment.
func holding(many int) func(ctx context.Context, e *env, lib library) (metrics, error) {
	return func(ctx context.Context, e *env, lib library) (metrics, error) {
		return hold(ctx, e, lib, many*e.held, order{Lease: renew})
	}
}

// holdingInCluster makes one process hold many locks in a cluster of three. It counts the commands of the first server.
func holdingInCluster(ctx context.Context, e *env, lib library) (metrics, error) {
	nodes, err := startCluster(ctx, 3)
	for _, s := range nodes {
		defer s.close()
	}
	if err != nil {
		return nil, err
	}
	own := *e
	own.server, own.servers = nodes[0], nodes[0].addr+"?cluster=true"
	return hold(ctx, &own, lib, e.held, order{Lease: renew / 2, Hands: 64})
}

func hold(ctx context.Context, e *env, lib library, number int, first order) (metrics, error) {
	first.Library, first.Addr, first.Profile = lib.name, cmp.Or(e.servers, e.addr), e.profile
	p, err := startWorker(ctx, first)
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
	// A library may look at its last locks now, and then the memory of that request would count as that of locks.
	if err := pause(ctx, 500*time.Millisecond); err != nil {
		return nil, err
	}
	after, err := p.do(order{Op: "usage", Collect: true})
	if err != nil {
		return nil, err
	}
	m, err := idle(ctx, e, lib, p, e.restOf(lib))
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
	m, err := idle(ctx, e, lib, waiter, e.waitOf(lib))
	if err != nil {
		return nil, err
	}
	at, err := e.probe()
	if err != nil {
		return nil, err
	}
	connections, err := waiter.connections()
	if err != nil {
		return nil, err
	}
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
	m["connections"], m["channels"] = float64(connections), at.channels
	m["forgotten"], m["failed"] = n-float64(served.Number), float64(served.Failed)
	if served.Number == e.held {
		m["served"] = float64(served.At.Sub(released.At))
		m["servedAfter"] = float64(max(0, served.At.Sub(released.At.Add(released.Took))))
	}
	return m, nil
}
