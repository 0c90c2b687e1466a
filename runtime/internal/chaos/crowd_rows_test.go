//go:build linux

package chaos

import (
	"math/rand/v2"
	"strconv"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// Parts of the table besides those of the topologies.
const (
	manyWaiters = "many waiters"
	manyClients = "30 clients"
	longLeases  = "a lease of 30 s"
	allServers  = "what happens to all of them"
)

// The number of waiters per process, for so many waiters for the long key in all, besides those
// that each row has.
const (
	nine    = 9 / processes
	hundred = 100 / processes
)

// shortLease is that of a failover that nobody has to outlive: what lasts for a lease shows.
const shortLease = 2 * time.Second

// crowdRows walk a line of many waiters, on one server.
var crowdRows = []row{
	older(nine), older(hundred),
	silent(nine), silent(hundred),
	{
		name: "subscriber connections killed every 100 ms, 99 waiters", must: "no waiter waits > 200 ms beyond the release",
		hold: again, once: true, rare: true, crowd: hundred,
		rules:  promises{keeps: true, limits: map[figure]limit{unheld: within(200 * ms)}},
		inject: repeat(100*ms, "CLIENT", "KILL", "TYPE", "pubsub"),
	},
	{
		name: "FLUSHALL, 99 waiters", must: "told <= 10 ms; double hold <= 5 ms; served <= 500 ms after",
		rare: true, crowd: hundred,
		rules: promises{loses: true, limits: map[figure]limit{telling: within(10 * ms), double: within(5 * ms), service: within(500 * ms)}},
		inject: func(a *arena) {
			a.broken(nil, "")
			a.forgets("", func() { a.server.Do("FLUSHALL") })
			a.mended(nil)
		},
	},
}

// waiters names a number of waiters for each process.
func waiters(each int) string { return strconv.Itoa(each*processes) + " waiters" }

// older is a server that comes back from a file which lists owners that are over.
func older(each int) row {
	return row{
		name: "server back from an older file, " + waiters(each), must: "served <= 500 ms after, however many waited by then; double hold <= 500 ms; tokens rise",
		hold: 0.25, rare: each == hundred, crowd: each, reverts: true,
		rules: promises{limits: map[figure]limit{service: within(500 * ms), double: within(500 * ms)}},
		inject: func(a *arena) {
			a.server.Do("SAVE")
			a.pass(a.lease / 2) // each waiter has had its turn
			a.broken(nil, "")
			a.forgets("", func() {
				a.server.Kill()
				a.server.Restart()
			})
			a.mended(nil)
		},
	}
}

// silent is a process of many waiters that does not go on, and has the key handed over to it.
func silent(each int) row {
	return row{
		name: "one of the processes stopped (SIGSTOP) for 3 L, " + waiters(each), must: "costs those of the others 2 s once, and not for each that waits; nobody else harmed",
		hold: 0.25, rare: each == hundred, crowd: each,
		rules: promises{stops: true, spares: true, limits: map[figure]limit{unheld: within(2500 * ms)}},
		inject: func(a *arena) {
			p := a.holder()
			a.broken(p, "")
			require.NoError(a.t, p.process.Signal(syscall.SIGSTOP))
			a.pass(3 * a.lease)
			a.mended(p)
			require.NoError(a.t, p.process.Signal(syscall.SIGCONT))
		},
	}
}

// crowdFailovers make the new master hand keys over to many owners that are over.
var crowdFailovers = []row{
	failover(nine), failover(hundred), promotion(nine), promotion(hundred),
}

func failover(each int) row {
	return row{
		name: "planned failover (SENTINEL FAILOVER), L = 2 s, " + waiters(each), must: "double hold <= 500 ms; served <= 300 ms after, however many wait",
		hold: 0.25, rare: true, crowd: each, lease: shortLease,
		rules: promises{forgets: true, limits: map[figure]limit{double: within(500 * ms), service: within(300 * ms)}},
		inject: func(a *arena) {
			a.broken(nil, "")
			a.forgets("", func() {
				a.server = a.group.Failover()
				a.back(func() {})
			})
		},
	}
}

func promotion(each int) row {
	return row{
		name: "master stopped, another promoted, L = 2 s, " + waiters(each), must: "double hold <= 2 s; served <= 500 ms after the promotion, however many wait",
		hold: 0.25, rare: true, crowd: each, lease: shortLease,
		rules: promises{forgets: true, limits: map[figure]limit{double: within(2 * time.Second), service: within(500 * ms)}},
		inject: func(a *arena) {
			a.broken(nil, "")
			old := a.server
			a.forgets("", func() {
				old.Stop()
				a.succeed(old)
				a.back(old.Cont)
			})
		},
	}
}

// clientRows have many processes contend for the same keys.
var clientRows = []row{
	{
		name: "nothing breaks", must: "each process is served; no key held by nobody > 300 ms",
		hold: 0.25, once: true, rare: true, clients: 30,
		rules:  promises{keeps: true, limits: map[figure]limit{unheld: within(300 * ms)}},
		inject: goOn,
	},
	{
		name: "holder killed", must: "key free after L; the next waiter has it <= 100 ms later",
		once: true, rare: true, clients: 30,
		rules: promises{keeps: true, dies: true, limits: map[figure]limit{service: within(100 * ms)}},
		inject: func(a *arena) {
			p := a.holder()
			a.broken(p, "")
			a.kill(p)
			before := time.Now()
			left := a.of.expiry(a, longKey)
			at := instant(before.Add(left))
			a.pass(left)
			a.mended(p)
			a.history.add(event{At: at, What: expired, Key: longKey})
			a.replace()
		},
	},
	{
		name: "server killed, back from its AOF", must: "nobody loses anything; served <= 500 ms after",
		server: []redistest.Option{redistest.WithConfig("appendonly", "yes"), redistest.WithConfig("appendfsync", "always")},
		once:   true, rare: true, clients: 30,
		rules: promises{keeps: true, away: true, limits: map[figure]limit{service: within(500 * ms)}},
		inject: func(a *arena) {
			a.broken(nil, "")
			a.server.Kill()
			a.pass(a.lease / 10)
			a.server.Restart()
			a.mended(nil)
		},
	},
}

// defaultLease is the lease time of a client whose options have none.
const defaultLease = 30 * time.Second

// longRows are faults of what retries and renews, within the default lease. They last as long at any length.
var longRows = []row{
	{
		name: "replies to every tenth renewal lost, connection mute, for 15 s", must: "nobody loses anything",
		once: true, rare: true, proxied: true, lease: defaultLease, wire: loseRenewals,
		rules: promises{keeps: true, mutes: true},
		inject: func(a *arena) {
			a.broken(nil, "")
			a.pass(15 * time.Second)
			a.mended(nil)
		},
	},
	{
		name: "replies to every tenth renewal lost, connection mute, for 12 s, keys handed over all the time", must: "nobody loses anything",
		hold: 0.01, once: true, rare: true, proxied: true, lease: defaultLease, wire: loseRenewals,
		rules: promises{keeps: true, mutes: true},
		inject: func(a *arena) {
			a.broken(nil, "")
			a.pass(12 * time.Second)
			a.mended(nil)
		},
	},
	{
		name: "2% of the replies lost, connection mute, for 12 s", must: "nobody loses anything; no key held by nobody > 10 s: with such a lease a connection is found to be mute after 2 s and more",
		hold: 0.05, once: true, rare: true, proxied: true, lease: defaultLease, wire: loseReplies(0.02, redistest.Mute),
		rules: promises{keeps: true, mutes: true, limits: map[figure]limit{unheld: within(10 * time.Second)}},
		inject: func(a *arena) {
			a.broken(nil, "")
			a.pass(12 * time.Second)
			a.mended(nil)
		},
	},
	{
		name: "FLUSHALL", must: "told <= 10 ms; double hold <= 5 ms; no key held by nobody > 1 s", stale: "told at the next renewal",
		once: true, lease: defaultLease,
		rules: promises{loses: true, limits: map[figure]limit{telling: within(10 * ms), double: within(5 * ms), unheld: within(time.Second)}},
		inject: func(a *arena) {
			a.broken(nil, "")
			a.forgets("", func() { a.server.Do("FLUSHALL") })
			a.mended(nil)
		},
	},
	{
		name: "network refused for 15 s", must: "holds kept; Unlock says that it does not know; served <= 500 ms after",
		once: true, rare: true, proxied: true, lease: defaultLease,
		rules: promises{keeps: true, away: true, limits: map[figure]limit{service: within(500 * ms)}},
		inject: func(a *arena) {
			a.broken(nil, "")
			a.everywhere(func(p *redistest.FaultProxy) { p.Refuse(true); p.Cut() })
			a.pass(15 * time.Second)
			a.everywhere(func(p *redistest.FaultProxy) { p.Refuse(false) })
			a.mended(nil)
		},
	},
}

// loseRenewals loses the replies to some of what renews.
func loseRenewals(a *arena, p *redistest.FaultProxy) {
	renews := redistest.EvalSHA(scripts.Renew.SHA1(), scripts.RWReadRenew.SHA1(), scripts.PermitRenew.SHA1())
	p.DropReply(func(cmd []string) bool { return renews(cmd) && !a.stopped.Load() && rand.N(10) == 0 }, 0, redistest.Mute)
}

// redNetworkRows are faults of all five servers at once, and of the way to them.
var redNetworkRows = []row{
	{
		name: "subscriber connections killed every 100 ms", must: "no waiter waits > 500 ms beyond the release",
		hold: again, once: true, rare: true,
		rules:  promises{keeps: true, limits: map[figure]limit{unheld: within(500 * ms)}},
		inject: repeatAll(100*ms, "CLIENT", "KILL", "TYPE", "pubsub"),
	},
	{
		name: "command connections killed every 100 ms", must: "no hold lost, none doubled, none leaked",
		hold: again, once: true, rare: true,
		rules:  promises{keeps: true},
		inject: repeatAll(100*ms, "CLIENT", "KILL", "TYPE", "normal"),
	},
	{
		name: "20% of the replies lost, connection closed", must: "no hold counted twice; no key held by nobody > 1 s",
		hold: again, once: true, rare: true, wire: loseReplies(0.20, redistest.Close),
		rules:  promises{keeps: true, limits: map[figure]limit{unheld: within(time.Second)}},
		inject: goOn,
	},
	{
		name: "2% of the replies lost, connection mute", must: "no hold counted twice; no key held by nobody > 3 s",
		hold: again, once: true, rare: true, wire: loseReplies(0.02, redistest.Mute),
		rules:  promises{keeps: true, mutes: true, limits: map[figure]limit{unheld: within(3 * time.Second)}},
		inject: goOn,
	},
	{
		name: "60 ms one way", must: "works; no key held by nobody > 2 s, as each round of asking takes 120 ms",
		hold: 0.25, once: true, rare: true,
		wire:   func(_ *arena, p *redistest.FaultProxy) { p.Delay(60 * ms) },
		rules:  promises{keeps: true, limits: map[figure]limit{unheld: within(2 * time.Second)}},
		inject: goOn,
	},
	{
		name: "cancel storm", must: "no leak, no lost wake-up, no key held by nobody > 500 ms",
		hold: again, once: true, rare: true, storm: true,
		rules:  promises{keeps: true, limits: map[figure]limit{unheld: within(500 * ms)}},
		inject: goOn,
	},
	{
		name: "FLUSHALL on all", must: "told <= 100 ms; double hold <= 100 ms; tokens rise",
		rare:  true,
		rules: promises{loses: true, limits: map[figure]limit{telling: within(100 * ms), double: within(100 * ms)}},
		inject: func(a *arena) {
			a.broken(nil, "")
			a.forgets("", func() {
				for _, m := range a.several {
					m.server.Do("FLUSHALL")
				}
			})
			a.mended(nil)
		},
	},
	{
		name: "key deleted by an admin on all", must: "told <= 100 ms; double hold <= 100 ms",
		rare:  true,
		rules: promises{loses: true, limits: map[figure]limit{telling: within(100 * ms), double: within(100 * ms)}},
		inject: func(a *arena) {
			a.broken(nil, longKey)
			a.forgets(longKey, func() {
				for _, m := range a.several {
					m.server.Do("DEL", longKey)
				}
			})
			a.mended(nil)
		},
	},
}

// repeatAll sends a command to all servers again and again.
func repeatAll(pause time.Duration, cmd ...string) func(a *arena) {
	return func(a *arena) {
		a.broken(nil, "")
		a.every(pause, 3*a.lease, func() {
			for _, m := range a.several {
				m.server.Do(cmd...)
			}
		})
		a.mended(nil)
	}
}
