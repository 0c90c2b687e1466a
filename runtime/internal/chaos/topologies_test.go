//go:build linux

package chaos

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// The topologies besides one server.
const (
	sentinels   topology = "Sentinel, a master and two replicas"
	fiveServers topology = "Five servers"
	shards      topology = "Cluster, three masters with a replica each"
)

// A lease is longer than a failover takes, of which most is until the servers agree that one has failed: so a hold that was
// renewed a third of it before can outlive it.
const (
	failoverLease = 5 * time.Second
	clusterLease  = 10 * time.Second
)

// A member is one of several servers, and the proxy that all processes reach it by.
type member struct {
	server *redistest.RedisServer
	proxy  *redistest.FaultProxy
}

// raise starts the servers.
func (a *arena) raise(options []redistest.Option) {
	a.t.Helper()
	switch a.on {
	case sentinels:
		a.group = redistest.Sentinel(a.t, options...)
		a.server = a.group.Master()
	case fiveServers:
		for range 5 {
			s := redistest.Server(a.t, options...)
			proxy := redistest.Proxy(a.t, s.Addr())
			if a.row.wire != nil {
				a.row.wire(a, proxy)
			}
			a.several = append(a.several, member{s, proxy})
		}
	case shards:
		if a.exact { // masters vote for replicas of one of them once in two of these; shortened, the machine is too busy for it
			options = append(options, redistest.WithConfig("cluster-node-timeout", "1000"))
		}
		a.cluster = redistest.Cluster(a.t, options...)
	default:
		a.server = redistest.Server(a.t, options...)
	}
}

// urls are where the processes find the servers.
func (a *arena) urls() []string {
	if a.group != nil {
		return []string{a.group.URL()}
	}
	if a.cluster != nil {
		return []string{a.cluster.URL()}
	}
	if a.several == nil {
		return []string{a.server.URL()}
	}
	var urls []string
	for _, m := range a.several {
		urls = append(urls, m.proxy.URL())
	}
	return urls
}

// servers are those that processes use, when nothing is broken.
func (a *arena) servers() []*redistest.RedisServer {
	if a.several == nil && a.cluster == nil {
		return []*redistest.RedisServer{a.server}
	}
	var servers []*redistest.RedisServer
	if a.cluster != nil {
		for _, s := range a.cluster.Nodes() {
			if role, err := s.Do("ROLE").ToArray(); err == nil && len(role) == 3 { // of a replica it is five
				servers = append(servers, s)
			}
		}
	}
	for _, m := range a.several {
		servers = append(servers, m.server)
	}
	return servers
}

// crowded are topologies of many servers, of which there are not many at a time.
var crowded = make(chan struct{}, 2)

// outlived reports whether a key may be left on a master that did not learn of its end: it expires, or
// the next user of the lock takes it away.
func (a *arena) outlived(server *redistest.RedisServer, name string) bool {
	for _, prefix := range []string{"redisson_lock_queue:", "redisson_lock_timeout:"} {
		if strings.HasPrefix(name, prefix) {
			return a.group != nil || a.cluster != nil
		}
	}
	if a.group == nil && a.cluster == nil {
		return false
	}
	left, err := server.Try("PTTL", name)
	if err != nil {
		return false
	}
	n, err := left.AsInt64()
	return err == nil && n > 0
}

// succeed waits until another server is the master.
func (a *arena) succeed(old *redistest.RedisServer) {
	a.t.Helper()
	a.server = a.group.AwaitMaster(old)
}

// back makes the old master come back and become a replica. Until then it is a master for clients that do not know the
// other one, so one that comes back empty stays away for a while, as the documentation demands.
func (a *arena) back(how func()) {
	a.t.Helper()
	a.mended(nil)
	a.pass(a.lease / 5)
	how()
	a.group.AwaitReplicas(2)
}

// sentinelRows are the faults of a master that sentinels watch. A release that was lost with the master leaves a key locked
// until its lease is over, so that is part of the bounds.
var sentinelRows = []row{
	{
		name: "master killed, another promoted", must: "what the replicas know goes on; the rest is told: double hold <= 500 ms; served <= 500 ms after the promotion, or after the lease of a caller that gave back to the dead master",
		rules: promises{holds: true, forgets: true, limits: map[figure]limit{double: within(500 * ms), service: within(500 * ms)}},
		inject: func(a *arena) {
			a.broken(nil, "")
			old := a.server
			a.forgets("", func() {
				old.Kill()
				a.succeed(old)
				a.back(old.Restart)
			})
		},
	},
	{
		name: "master stopped, another promoted, the old one back as a replica", must: "as above, <= 2 s instead of 500 ms; the old one grants nothing when it is back",
		rules: promises{holds: true, forgets: true, limits: map[figure]limit{double: within(2 * time.Second), service: within(2 * time.Second)}},
		inject: func(a *arena) {
			a.broken(nil, "")
			old := a.server
			a.forgets("", func() {
				old.Stop()
				a.succeed(old)
				a.back(old.Cont)
			})
		},
	},
	{
		name: "master killed, with 1.5 L of writes that no replica has", must: "a caller that is granted what another holds has the larger token; the other is told: double hold <= 500 ms",
		hold:  again,
		rules: promises{forgets: true, limits: map[figure]limit{double: within(500 * ms), service: within(500 * ms)}},
		inject: func(a *arena) {
			old, replicas := a.server, a.group.Replicas()
			for _, r := range replicas {
				r.Stop()
			}
			old.Do("CLIENT", "KILL", "TYPE", "replica") // the replicas get nothing beyond what it has sent them
			a.pass(a.lease * 3 / 2)
			a.broken(nil, "")
			a.forgets("", func() {
				old.Kill()
				for _, r := range replicas {
					r.Cont()
				}
				a.succeed(old)
				a.back(old.Restart)
			})
		},
	},
	{
		name: "planned failover (SENTINEL FAILOVER)", must: "what the new master knows goes on; the rest is told: double hold <= 500 ms; served <= 300 ms after, or after the lease of a caller that gave back to the old master",
		rare:  true,
		rules: promises{holds: true, forgets: true, limits: map[figure]limit{double: within(500 * ms), service: within(300 * ms)}},
		inject: func(a *arena) {
			a.broken(nil, "")
			a.forgets("", func() {
				a.server = a.group.Failover()
				a.back(func() {})
			})
		},
	},
	{
		name: "planned failover, with Options.Replicas = 2", must: "no double hold; nothing is granted until two replicas follow the new master, then served <= 1.5 s after",
		replicas: 2,
		rules:    promises{holds: true, forgets: true, limits: map[figure]limit{service: within(1500 * ms)}},
		inject: func(a *arena) {
			a.broken(nil, "")
			a.server = a.group.Failover()
			a.group.AwaitReplicas(2)
			a.mended(nil)
		},
	},
	{
		name: "master killed, with Options.Replicas = 1", must: "no double hold: the promoted server knows what was granted",
		replicas: 1,
		rare:     true,
		rules:    promises{holds: true, forgets: true, limits: map[figure]limit{service: within(1500 * ms)}},
		inject: func(a *arena) {
			a.broken(nil, "")
			old := a.server
			old.Kill()
			a.succeed(old)
			a.back(old.Restart)
		},
	},
	{
		name: "a replica stopped for 1.5 L, with Options.Replicas = 2", must: "holds go on; nothing is granted meanwhile; served <= 1.5 s after",
		replicas: 2,
		rare:     true,
		rules:    promises{keeps: true, limits: map[figure]limit{service: within(1500 * ms)}},
		inject: func(a *arena) {
			a.broken(nil, "")
			r := a.group.Replicas()[rand.N(2)]
			r.Stop()
			a.pass(a.lease * 3 / 2)
			a.mended(nil)
			r.Cont()
			a.group.AwaitReplicas(2)
		},
	},
}

// shardRows are the faults of a cluster.
var shardRows = []row{
	{
		name: "master of the long key killed, its replica promoted", must: "what the replica knows goes on; the rest is told: double hold <= 500 ms; served <= 500 ms after the promotion, or after the lease of a caller that gave back to the dead master",
		once:  true,
		rules: promises{holds: true, forgets: true, limits: map[figure]limit{double: within(500 * ms), service: within(500 * ms)}},
		inject: func(a *arena) {
			a.broken(nil, "")
			old := a.cluster.Master(longKey)
			next := a.cluster.Replica(old)
			a.forgets("", func() {
				old.Kill()
				a.cluster.AwaitMaster(next)
				a.mended(nil)
				old.Restart()
			})
		},
	},
	{
		name: "planned failover (CLUSTER FAILOVER)", must: "nobody loses anything; served <= 1 s after",
		rare:  true,
		rules: promises{keeps: true, limits: map[figure]limit{service: within(time.Second)}},
		inject: func(a *arena) {
			a.broken(nil, "")
			a.cluster.Failover(a.cluster.Master(longKey))
			a.mended(nil)
		},
	},
	{
		name: "slots of all keys moved to another master, key by key", must: "nobody loses anything; no error; no key held by nobody > 500 ms",
		hold:  again,
		rules: promises{keeps: true, limits: map[figure]limit{unheld: within(500 * ms)}},
		inject: func(a *arena) {
			a.broken(nil, "")
			for _, key := range append([]string{longKey}, briefKeys...) {
				slot, from := a.cluster.Slot(key), a.cluster.Master(key)
				for _, to := range a.servers() {
					if to == from {
						continue
					}
					move := a.cluster.Move(slot, to)
					a.pass(100 * ms)
					move.Keys()
					a.pass(100 * ms)
					move.End()
					break
				}
			}
			a.mended(nil)
		},
	},
}

// redRows are the faults of five servers of which three are a majority.
var redRows = []row{
	{
		name: "up to two of five killed, stopped, cut off or slow by 200 ms, in any combination, for 60 s", must: "no double hold; no key held by nobody > 1 s; a killed one comes back empty after L",
		hold: again, once: true,
		rules: promises{limits: map[figure]limit{unheld: within(time.Second)}},
		inject: func(a *arena) {
			length := 4 * a.lease
			if a.exact {
				length = time.Minute
			}
			a.broken(nil, "")
			a.every(ms, length, func() {
				chosen := rand.Perm(len(a.several))[:1+rand.N(2)]
				var mend []func()
				for _, i := range chosen {
					mend = append(mend, a.several[i].harm(rand.N(4)))
				}
				a.pass(a.lease * 5 / 4)
				for _, f := range mend {
					f()
				}
				a.pass(rand.N(a.lease / 2))
			})
			a.mended(nil)
		},
	},
	{
		name: "two of five killed, back empty after 1.25 L", must: "holds go on, on all servers again before the next two; no key held by nobody > 500 ms",
		rare:   true,
		rules:  promises{holds: true, limits: map[figure]limit{unheld: within(500 * ms)}},
		inject: func(a *arena) { a.minority(0) },
	},
	{
		name: "two of five stopped for 1.25 L", must: "holds go on, on all servers again before the next two; no key held by nobody > 500 ms",
		rare:   true,
		rules:  promises{holds: true, limits: map[figure]limit{unheld: within(500 * ms)}},
		inject: func(a *arena) { a.minority(1) },
	},
	{
		name: "two of five half open for 1.25 L", must: "holds go on, on all servers again before the next two; no key held by nobody > 500 ms",
		rare:   true,
		rules:  promises{holds: true, limits: map[figure]limit{unheld: within(500 * ms)}},
		inject: func(a *arena) { a.minority(2) },
	},
	{
		name: "two of five slow by 200 ms for 1.25 L", must: "holds go on, on all servers again before the next two; no key held by nobody > 1 s",
		rare:   true,
		rules:  promises{holds: true, limits: map[figure]limit{unheld: within(time.Second)}},
		inject: func(a *arena) { a.minority(3) },
	},
	{
		name: "three of five stopped for 1.5 L", must: "told before L; served <= 1 s after",
		rules: promises{loses: true, limits: map[figure]limit{telling: leases(1), service: within(time.Second)}},
		inject: func(a *arena) {
			a.broken(nil, "")
			for _, m := range a.several[:3] {
				m.server.Stop()
			}
			a.pass(a.lease * 3 / 2)
			a.mended(nil)
			for _, m := range a.several[:3] {
				m.server.Cont()
			}
		},
	},
	{
		name: "three of five restarted empty", must: "what others are granted before the holder is there again is told to it: double hold <= 500 ms; tokens rise",
		rules: promises{limits: map[figure]limit{double: within(500 * ms)}},
		inject: func(a *arena) {
			a.broken(nil, "")
			a.forgets("", func() {
				for _, m := range a.several[2:] {
					m.server.Kill() // one after the other would learn of the lease again
				}
				for _, m := range a.several[2:] {
					m.server.Restart()
				}
			})
			a.mended(nil)
		},
	},
}

// minority harms two of five servers.
func (a *arena) minority(how int) {
	a.broken(nil, "")
	two := rand.Perm(len(a.several))[:2]
	var mend []func()
	for _, i := range two {
		mend = append(mend, a.several[i].harm(how))
	}
	a.pass(a.lease * 5 / 4)
	for _, f := range mend {
		f()
	}
	a.mended(nil)
}

// harm does one of several things to a server, and returns what undoes it.
func (m member) harm(how int) (mend func()) {
	switch how {
	case 0:
		m.server.Kill()
		return m.server.Restart
	case 1:
		m.server.Stop()
		return m.server.Cont
	case 2:
		m.proxy.Blackhole(redistest.Both)
		return m.proxy.Deliver
	default:
		m.proxy.Delay(100 * ms) // there, and back
		return func() { m.proxy.Delay(0) }
	}
}
