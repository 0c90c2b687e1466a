package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Scenarios of several keys, and of several servers.

// togetherTurns is how often a process of together changes from one key to several.
const togetherTurns = 5

// together measures how many cycles of one key a cycle of several takes. One process does both in turns: the kernel chooses for each process
// whether it shares a core with the server, and where each has a core of its own a cycle takes twice as long.
func together(many int) func(ctx context.Context, e *env, lib library) (metrics, error) {
	return func(ctx context.Context, e *env, lib library) (metrics, error) {
		p, err := startWorker(ctx, order{Library: lib.name, Addr: e.addr, Lease: kLease, Profile: e.profile})
		if err != nil {
			return nil, err
		}
		defer p.end()
		turn := *e
		turn.length = e.length / (2 * togetherTurns)
		var turns []metrics
		for range togetherTurns {
			one, err := playOn(&turn, lib, []*process{p}, []party{{goroutines: 1}})
			if err != nil {
				return nil, err
			}
			all, err := playOn(&turn, lib, []*process{p}, []party{{goroutines: 1, many: many}})
			if err != nil {
				return nil, err
			}
			m, single := all.metrics(), one.metrics()
			m["single"], m["singles"] = single["rate"], single["rate"]/m["rate"]
			for _, wrong := range shouldBeZero {
				m[wrong] += single[wrong]
			}
			turns = append(turns, m)
		}
		return medians(turns), nil
	}
}

// slowness is how much longer a round trip to a slow server takes.
const slowness = 200 * time.Millisecond

// onFive makes one goroutine lock on a majority of five servers: healthy ones, then with two of them down, then with
// two that do not answer, then with two that are slow. It counts the commands of one of the other servers.
func onFive(ctx context.Context, e *env, lib library) (metrics, error) {
	all := metrics{}
	for state, prefix := range []string{"", "down ", "mute ", "slow "} {
		m, err := onFiveIn(ctx, e, lib, prefix, party{goroutines: 1})
		if err != nil {
			return nil, err
		}
		for _, name := range []string{"p50", "p99", "rate"} {
			all[prefix+name] = m[name]
		}
		all["stuck"] += m["stuck"]
		all["failed"] += m["failed"]
		if state == 0 {
			all["sent"], all["allocs"] = m["sent"], m["allocs"]
		} else {
			all[prefix+"share"] = m["p50"] / all["p50"]
		}
	}
	return all, nil
}

// sharedOnFive makes two processes of 8 goroutines compete for one key on a majority of five
// servers.
func sharedOnFive(ctx context.Context, e *env, lib library) (metrics, error) {
	each := party{goroutines: 8, shared: true}
	return onFiveIn(ctx, e, lib, "", each, each)
}

func onFiveIn(ctx context.Context, e *env, lib library, state string, parties ...party) (metrics, error) {
	var all []*server
	var addrs []string
	for range 5 {
		s, err := anotherServer(ctx)
		if err != nil {
			return nil, err
		}
		defer s.close()
		all, addrs = append(all, s), append(addrs, s.addr)
	}
	own := &env{server: all[4], length: e.length, profile: e.profile}
	if state != "" {
		var harm []func()
		for i, s := range all[:2] {
			way, err := newDelay(s.addr)
			if err != nil {
				return nil, err
			}
			defer way.close()
			if state != "down " { // otherwise no server answers there
				addrs[i] = way.addr()
			}
			harm = append(harm, map[string]func(){
				"down ": s.stop,
				"mute ": func() { way.mute.Store(true) },
				"slow ": func() { way.each.Store(int64(slowness / 2)) },
			}[state])
		}
		own.ready = func() {
			for _, f := range harm {
				f()
			}
		}
	}
	own.servers = strings.Join(addrs, ",")
	m, err := play(ctx, own, lib, parties)
	if err != nil {
		return nil, err
	}
	return m.metrics(), nil
}

// A delay forwards the bytes between clients and a server, late or not at all.
type delay struct {
	listener net.Listener
	to       string
	each     atomic.Int64 // the delay, each way
	mute     atomic.Bool
}

func newDelay(to string) (*delay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &delay{listener: l, to: to}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				_ = client.Close()
				continue
			}
			go d.pass(client, server)
			go d.pass(server, client)
		}
	}()
	return d, nil
}

func (d *delay) addr() string { return d.listener.Addr().String() }

// close ends it; connections end with their clients.
func (d *delay) close() { _ = d.listener.Close() }

func (d *delay) pass(from io.ReadCloser, to io.WriteCloser) {
	type piece struct {
		bytes []byte
		due   time.Time
	}
	pieces := make(chan piece, 1024)
	go func() {
		defer to.Close()
		for p := range pieces {
			<-time.After(time.Until(p.due))
			if _, err := to.Write(p.bytes); err != nil {
				_ = from.Close()
			}
		}
	}()
	defer close(pieces)
	for {
		bytes := make([]byte, 16<<10)
		n, err := from.Read(bytes)
		if err != nil {
			return
		}
		if !d.mute.Load() {
			pieces <- piece{bytes[:n], time.Now().Add(time.Duration(d.each.Load()))}
		}
	}
}

func severalScenarios() []*scenario {
	var all []*scenario
	for _, n := range []int{2, 5, 20} {
		s := &scenario{
			id: "S8", point: strconv.Itoa(n), title: fmt.Sprintf("One goroutine, %d keys at once, that nobody else wants", n), fit: func(lib library) bool { return whoLocks(lib) || lib.floor }, floors: []string{floor, publishing, promising},
			how: "lockgen's MultiLock, and redislock's ObtainMulti; the others lock one key after the other. The floor is two scripts for all keys, of the commands that this layout needs for each: a field and a time to live, and its deletion. " + publishing + ": it publishes each unlock on the channel of the key, too, without which no waiter of Redisson learns of it. " + promising + ": besides, each key has an owner of its own, and the scripts check that all are free, and that no process waits. The cost is in cycles of one key, which the same process makes in turn: the kernel chooses for each process whether it shares a core with the server, and where each has a core of its own a cycle takes twice as long. On five servers: lockgen's RedLock, and redsync with five pools.",
			run: together(n), headline: headline{metric: "singles", format: hundredth, unit: " cycles", lowest: true},
			columns: []column{{"cycles of one key", "singles", hundredth}, colRate, {"per second, one key", "single", count}, colP50, colP99, colSent, colCalled, colAllocs, colBytes},
		}
		if n == 5 {
			s.goals = []goal{{"at most 1.6 cycles of one key", value("singles"), 1.6, false, hundredth}}
		}
		if n == 20 {
			s.goals = []goal{{"ahead of every other library", ofBest("rate"), 1, true, times}}
		}
		s.goals = append(s.goals, goal{"one command to take all and one to give them back", value("sent"), 2.05, false, small})
		all = append(all, s)
	}
	return append(all, &scenario{
		id: "S8", point: "five servers", title: fmt.Sprintf("One goroutine, a lock on five servers: healthy ones, two of them down, two that do not answer, two that are %v slower", slowness),
		fit: func(lib library) bool { return lib.quorum },
		run: onFive, headline: headline{metric: "p50", format: duration, lowest: true},
		columns: []column{{"locking: p50", "p50", duration}, {"p99", "p99", duration}, {"two down: p50", "down p50", duration}, {"p99", "down p99", duration},
			{"two mute: p50", "mute p50", duration}, {"p99", "mute p99", duration}, {"two slow: p50", "slow p50", duration}, {"p99", "slow p99", duration}, {"commands to each server", "sent", small}, colAllocs, colStuck},
		goals: []goal{
			{"with two down it takes at most twice as long", value("down share"), 2, false, hundredth},
			{"with two that do not answer it takes at most twice as long", value("mute share"), 2, false, hundredth},
			{"with two slow it takes at most twice as long", value("slow share"), 2, false, hundredth},
			{"nobody hangs", worst("stuck"), 0, false, count},
		},
	}, &scenario{
		id: "S8", point: "five servers, shared", title: "2 processes of 8 goroutines, one key, a lock on five servers",
		fit: func(lib library) bool { return lib.quorum },
		run: sharedOnFive, headline: headline{metric: "rate", format: count, unit: "/s"},
		columns: []column{colRate, colJain, colP50, colP99, colLongest, {"commands to each server", "sent", small}, colAllocs, colNever, colStuck},
		goals: []goal{
			{"ahead of every other library", ofBest("rate"), 1, true, times},
			{"Jain's index of the goroutines at least 0.99", value("jain"), 0.99, true, thousandth},
			{"nobody hangs", worst("stuck"), 0, false, count},
		},
	})
}

// anotherServer starts a server besides that of all measurements.
func anotherServer(ctx context.Context, options ...string) (*server, error) {
	s := &server{}
	if err := s.start(ctx, options...); err != nil {
		return nil, err
	}
	if err := s.observe(); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// inCluster measures how many locks a second a cluster of three grants, compared with one server.
func inCluster(ctx context.Context, e *env, lib library) (metrics, error) {
	half := *e
	half.length = e.length / 2
	party := []party{{goroutines: 256}}
	one, err := play(ctx, &half, lib, party)
	if err != nil {
		return nil, err
	}
	nodes, err := startCluster(ctx, 3)
	for _, s := range nodes {
		defer s.close()
	}
	if err != nil {
		return nil, err
	}
	three, err := play(ctx, &env{server: nodes[0], servers: nodes[0].addr + "?cluster=true", length: half.length, profile: e.profile}, lib, party)
	if err != nil {
		return nil, err
	}
	m := three.metrics()
	m["one"], m["onep99"] = one.metrics()["rate"], one.metrics()["p99"]
	m["share"] = m["rate"] / m["one"]
	return m, nil
}

// startCluster starts n servers, which share the slots equally. With an error it also returns the servers that it has
// started.
func startCluster(ctx context.Context, n int) ([]*server, error) {
	const slots = 16384
	var nodes []*server
	for i := range n {
		s, err := anotherServer(ctx, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
		if err != nil {
			return nodes, err
		}
		nodes = append(nodes, s)
		first, last := i*slots/n, (i+1)*slots/n-1
		if err := s.tell(ctx, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last)); err != nil {
			return nodes, err
		}
		if err := s.tell(ctx, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return nodes, err
		}
		host, port, _ := net.SplitHostPort(nodes[0].addr)
		if err := s.tell(ctx, "CLUSTER", "MEET", host, port); err != nil {
			return nodes, err
		}
	}
	over := time.After(answerWithin)
	for look := time.NewTicker(10 * time.Millisecond); ; {
		ready := 0
		for _, s := range nodes {
			info, err := s.rc.Do(ctx, s.rc.B().ClusterInfo().Build()).ToString()
			if err != nil {
				return nodes, err
			}
			if strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:"+strconv.Itoa(n)) {
				ready++
			}
		}
		if ready == n {
			look.Stop()
			return nodes, nil
		}
		select {
		case <-look.C:
		case <-over:
			return nodes, errors.New("the servers do not become a cluster")
		}
	}
}

func (s *server) tell(ctx context.Context, command ...string) error {
	return s.rc.Do(ctx, s.rc.B().Arbitrary(command...).Build()).Error()
}

// opening measures the time from opening a latch in one process until all its waiters in another process have returned.
func opening(waiters int) func(ctx context.Context, e *env, lib library) (metrics, error) {
	return func(ctx context.Context, e *env, lib library) (metrics, error) {
		opener, waiter, end, err := twoWorkers(ctx, order{Library: lib.name, Addr: e.addr, Lease: kLease, Profile: e.profile})
		if err != nil {
			return nil, err
		}
		defer end()
		key := fresh()
		var took []float64
		var sent float64
		for start := time.Now(); time.Since(start) < e.length || len(took) < 3; {
			before, err := e.probe()
			if err != nil {
				return nil, err
			}
			if _, err := opener.do(order{Op: "lock", Keys: key}); err != nil {
				return nil, err
			}
			if _, err := waiter.do(order{Op: "listen", Keys: key, Number: waiters}); err != nil {
				return nil, err
			}
			opened, err := opener.do(order{Op: "unlock"})
			if err != nil {
				return nil, err
			}
			heard, err := waiter.do(order{Op: "served", Patience: grace})
			if err != nil {
				return nil, err
			}
			if heard.Number < waiters || heard.Failed > 0 {
				return nil, fmt.Errorf("%d of %d heard of it: %w", heard.Number, waiters, errors.New(cmp.Or(heard.Failure, "the others did not")))
			}
			after, err := e.probe()
			if err != nil {
				return nil, err
			}
			n, _ := after.since(before, lib)
			sent += n
			took = append(took, float64(heard.At.Sub(opened.At)))
		}
		return metrics{
			"p50": quantile(took, 0.5), "longest": quantile(took, 1), "sent": sent / math.Max(1, float64(len(took))) / float64(waiters),
		}, nil
	}
}
