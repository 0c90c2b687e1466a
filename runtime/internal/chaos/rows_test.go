//go:build linux

package chaos

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// unlockBound is by when Unlock returns.
const unlockBound = lockrt.DefaultOpTimeout

// A topology is what a row runs against.
type topology string

// oneServer is a server alone.
const oneServer topology = "One server"

// A row is one fault, and what must happen when it does.
type row struct {
	name     string
	must     string
	unleased string // the expectation for holds without leases; empty if there is none
	stale    string // the expectation for keys whose changes the server does not report; empty for the same
	rules    promises
	replicas int     // that have to confirm a grant
	hold     float64 // for how many leases the long keys are held; 0: to the end of the run
	once     bool    // the fault goes on for a while: one round is enough
	rare     bool    // others show as much in less time
	server   []redistest.Option
	proxied  bool                                    // each process has a proxy before it
	wire     func(a *arena, p *redistest.FaultProxy) // prepares the proxy from the beginning
	storm    bool
	crowd    int           // besides, so many waiters for the long key in each process
	clients  int           // that contend; 0: as many processes as in other rows
	lease    time.Duration // of the row; 0: that of its topology
	slow     bool          // each message takes long
	clocked  bool
	reverts  bool // the server comes back with older data: it has places of owners that are over, some for longer than their processes run
	inject   func(a *arena)
}

// many reports whether there are so many calls at once that the model may not come to an end of the orders in which the server
// can have served them.
func (r *row) many() bool { return r.crowd > nine || r.clients > 0 }

// Promises are the rules of a row. Limits may depend on the lease.
type promises struct {
	limits                                                         map[figure]limit
	keeps, holds, loses, spares, stops, dies, mutes, away, forgets bool
	allowed                                                        []string
}

// A run is a row for a primitive.
type run struct {
	row
	topology topology
	of       *primitive
	part     string // of the table, besides that of the topology; empty for none
}

// in has the rows of some runs stand in a part of the table of their own.
func in(part string, of []run) []run {
	for i := range of {
		of[i].part = part
	}
	return of
}

// on has the primitives contend on t while what the rows say happens.
func on(t topology, of []*primitive, rows []row) []run {
	var all []run
	for _, p := range of {
		for _, r := range rows {
			if !p.leased {
				if r.unleased == "" {
					continue
				}
				r.must, r.rules.loses = r.unleased, false
				r.rules.limits = maps.Clone(r.rules.limits)
				delete(r.rules.limits, telling)
			}
			if !p.tracked && p.leased && r.stale != "" {
				r.must, r.rules.limits = r.stale, maps.Clone(r.rules.limits)
				for g := range r.rules.limits {
					r.rules.limits[g] = leases(0.5)
				}
			}
			if d, bounded := r.rules.limits[unheld]; bounded && p.members > 0 {
				r.must, r.rules.limits = fmt.Sprintf("%s; waits up to %d times as long, since the members are locked in turn", r.must, p.members), maps.Clone(r.rules.limits)
				r.rules.limits[unheld] = func(lease time.Duration) time.Duration { return time.Duration(p.members) * d(lease) }
			}
			if _, bounded := r.rules.limits[typical]; bounded && p.members > 0 {
				r.must, r.rules.limits = "works; the members are handed over in turn, and each may go to a call that has given up before", maps.Clone(r.rules.limits)
				r.rules.limits[typical] = within(900 * ms)
			}
			if _, bounded := r.rules.limits[typical]; bounded && p.asks {
				r.must, r.rules.limits = "works; a client that is told of something to have asks for it", maps.Clone(r.rules.limits)
				r.rules.limits[typical] = within(300 * ms)
			}
			if _, bounded := r.rules.limits[unheld]; bounded && r.rules.mutes && p.asks && r.lease == 0 {
				r.must, r.rules.limits = "nothing counted twice; no key without a holder > 3 s: a client that is told asks, so two may be lost", maps.Clone(r.rules.limits)
				r.rules.limits[unheld] = within(3 * time.Second)
			}
			if r.rules.dies && p.dead > 0 {
				r.must += fmt.Sprintf(", or %v later than that if the dead one was next", p.dead)
			}
			all = append(all, run{row: r, topology: t, of: p})
		}
	}
	return all
}

// runs are all that there is to run.
var runs = slices.Concat(on(oneServer, family, rows),
	on(oneServer, []*primitive{multi}, multiRows),
	on(sentinels, []*primitive{mutex, fair, rw}, sentinelRows),
	on(fiveServers, []*primitive{red}, redRows),
	on(shards, []*primitive{mutex, fair, rw}, shardRows),
	on(sentinels, []*primitive{multi}, sentinelRows),
	on(shards, []*primitive{multi}, shardRows),
	in(manyWaiters, on(oneServer, []*primitive{mutex, fair, rw}, crowdRows)),
	in(manyWaiters, on(sentinels, []*primitive{mutex, fair, rw}, crowdFailovers)),
	in(manyClients, on(oneServer, []*primitive{mutex, fair, rw}, clientRows)),
	in(longLeases, on(oneServer, []*primitive{mutex, fair, rw, permits}, longRows)),
	in(allServers, on(fiveServers, []*primitive{red}, redNetworkRows)),
	on(oneServer, []*primitive{lingers}, rows))

// A limit is the bound of a figure.
type limit func(lease time.Duration) time.Duration

func within(d time.Duration) limit { return func(time.Duration) time.Duration { return d } }

func leases(n float64) limit {
	return func(lease time.Duration) time.Duration { return time.Duration(n * float64(lease)) }
}

const ms = time.Millisecond

// again has the long key held for so long that it is renewed twice, and then again.
const again = 0.75

// rows are the faults of one server.
var rows = []row{
	{
		name: "server killed, back empty after 300 ms", must: "told when it is back; usable <= 500 ms after; tokens rise",
		rules: promises{loses: true, limits: map[figure]limit{service: within(500 * ms), double: within(500 * ms), telling: within(800 * ms)}},
		inject: func(a *arena) {
			a.broken(nil, "")
			a.forgets("", a.server.Kill)
			a.pass(300 * ms)
			a.server.Restart()
			a.mended(nil)
		},
	},
	{
		name: "server killed, back from its AOF", must: "nobody loses anything; served <= 500 ms after",
		unleased: "nobody loses anything; served <= 500 ms after",
		server:   []redistest.Option{redistest.WithConfig("appendonly", "yes"), redistest.WithConfig("appendfsync", "always")},
		rules:    promises{keeps: true, away: true, limits: map[figure]limit{service: within(500 * ms)}},
		inject: func(a *arena) {
			a.broken(nil, "")
			a.server.Kill()
			a.pass(a.lease / 10)
			a.server.Restart()
			a.mended(nil)
		},
	},
	{
		name: "server stopped (SIGSTOP) for 1.5 L", must: "told before L; served <= 300 ms after",
		unleased: "costs nothing but time; served <= 300 ms after",
		rules:    promises{loses: true, limits: map[figure]limit{telling: leases(1), service: within(300 * ms)}},
		inject: func(a *arena) {
			a.broken(nil, "")
			a.server.Stop()
			a.pass(a.lease * 3 / 2)
			a.mended(nil) // before, since they are served at once
			a.server.Cont()
		},
	},
	stall("CLIENT PAUSE", 1.5, func(a *arena, d time.Duration) {
		a.server.Do("CLIENT", "PAUSE", strconv.FormatInt(d.Milliseconds(), 10), "ALL")
		a.pass(d)
	}),
	stall("DEBUG SLEEP", 1.5, debugSleep, redistest.WithConfig("enable-debug-command", "yes")),
	stall("a BUSY script", 1.5, busyScript, redistest.WithConfig("lua-time-limit", "100")),
	stall("CLIENT PAUSE", 0.25, func(a *arena, d time.Duration) {
		a.server.Do("CLIENT", "PAUSE", strconv.FormatInt(d.Milliseconds(), 10), "ALL")
		a.pass(d)
	}),
	stall("DEBUG SLEEP", 0.25, debugSleep, redistest.WithConfig("enable-debug-command", "yes")),
	stall("a BUSY script", 0.25, busyScript, redistest.WithConfig("lua-time-limit", "100")),
	{
		name: "holder's process stopped (SIGSTOP) for 1.5 L", must: "on waking Err is not nil; its token is smaller than the next; nobody else harmed",
		rules: promises{loses: true, stops: true, spares: true},
		inject: func(a *arena) {
			p := a.holder()
			a.broken(p, "")
			require.NoError(a.t, p.process.Signal(syscall.SIGSTOP))
			a.pass(a.lease * 3 / 2)
			a.mended(p)
			require.NoError(a.t, p.process.Signal(syscall.SIGCONT))
		},
	},
	{
		name: "holder killed", must: "key free after L; the next waiter has it <= 100 ms later",
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
		name: "subscriber connections killed every 100 ms", must: "no waiter waits > 200 ms beyond the release",
		unleased: "no waiter waits > 200 ms beyond the release",
		hold:     again, once: true,
		rules:  promises{keeps: true, limits: map[figure]limit{unheld: within(200 * ms)}},
		inject: repeat(100*ms, "CLIENT", "KILL", "TYPE", "pubsub"),
	},
	{
		name: "command connections killed every 100 ms", must: "no hold lost, none doubled, none leaked",
		unleased: "none doubled, none leaked",
		hold:     again, once: true,
		rules:  promises{keeps: true},
		inject: repeat(100*ms, "CLIENT", "KILL", "TYPE", "normal"),
	},
	{
		name: "SCRIPT FLUSH every 10 ms", must: "nobody notices",
		unleased: "nobody notices",
		hold:     again, once: true,
		rules:  promises{keeps: true},
		inject: repeat(10*ms, "SCRIPT", "FLUSH"),
	},
	{
		name: "20% of the replies lost, connection closed", must: "no hold counted twice; no key held by nobody > 300 ms",
		unleased: "nothing counted twice; no key held by nobody > 300 ms",
		hold:     again, once: true, proxied: true, wire: loseReplies(0.20, redistest.Close),
		rules:  promises{keeps: true, limits: map[figure]limit{unheld: within(300 * ms)}},
		inject: goOn,
	},
	{
		name: "2% of the replies lost, connection mute", must: "no hold counted twice; no key held by nobody > 1.5 s",
		unleased: "nothing counted twice; no key held by nobody > 1.5 s",
		hold:     again, once: true, proxied: true, wire: loseReplies(0.02, redistest.Mute),
		rules:  promises{keeps: true, mutes: true, limits: map[figure]limit{unheld: within(1500 * ms)}},
		inject: goOn,
	},
	{
		name: "holder cut off for 2 L, then all delivered late", must: "told before L; its late commands change nothing",
		proxied: true,
		rules:   promises{loses: true, spares: true, limits: map[figure]limit{telling: leases(1)}},
		inject: func(a *arena) {
			p := a.holder()
			a.broken(p, "")
			p.proxy.Blackhole(redistest.Both)
			a.pass(2 * a.lease)
			p.proxy.Deliver()
			a.mended(p)
		},
	},
	{
		name: "requests arrive, replies do not, for 2 L", must: "told before L; nothing trusted that was not confirmed",
		proxied: true,
		rules:   promises{loses: true, spares: true, limits: map[figure]limit{telling: leases(1)}},
		inject: func(a *arena) {
			p := a.holder()
			a.broken(p, "")
			p.proxy.Blackhole(redistest.Replies)
			a.pass(2 * a.lease)
			p.proxy.Deliver()
			a.mended(p)
		},
	},
	{
		name: "network refused for 0.5 L", must: "holds kept, no error to the holder",
		unleased: "no error to the holder",
		proxied:  true,
		rules:    promises{keeps: true, away: true},
		inject: func(a *arena) {
			a.broken(nil, "")
			a.everywhere(func(p *redistest.FaultProxy) { p.Refuse(true) })
			a.pass(a.lease / 2)
			a.everywhere(func(p *redistest.FaultProxy) { p.Refuse(false) })
			a.mended(nil)
		},
	},
	{
		name: "60 ms one way", must: "works; a hand-over costs the one round trip that it costs on loopback",
		unleased: "works; a hand-over costs the one round trip that it costs on loopback",
		hold:     0.25, once: true, proxied: true, slow: true,
		wire:   func(_ *arena, p *redistest.FaultProxy) { p.Delay(60 * ms) },
		rules:  promises{keeps: true, limits: map[figure]limit{typical: within(180 * ms)}},
		inject: goOn,
	},
	{
		name: "key deleted by an admin", must: "told <= 10 ms; double hold <= 5 ms", stale: "told at the next renewal",
		rules: promises{loses: true, limits: map[figure]limit{telling: within(10 * ms), double: within(5 * ms)}},
		inject: func(a *arena) {
			a.broken(nil, longKey)
			a.forgets(longKey, func() { a.server.Do(append([]string{"DEL"}, a.of.truth(longKey)...)...) })
			a.mended(nil)
		},
	},
	{
		name: "FLUSHALL", must: "told <= 10 ms; double hold <= 5 ms", stale: "told at the next renewal",
		rules: promises{loses: true, limits: map[figure]limit{telling: within(10 * ms), double: within(5 * ms)}},
		inject: func(a *arena) {
			a.broken(nil, "")
			a.forgets("", func() { a.server.Do("FLUSHALL") })
			a.mended(nil)
		},
	},
	{
		name: "key replaced by a list", must: "ErrWrongType to callers, ErrLost to the holder, nothing overwritten",
		rules: promises{loses: true, allowed: []string{classType}, limits: map[figure]limit{telling: leases(1)}},
		inject: func(a *arena) {
			a.broken(nil, longKey)
			keys := a.of.truth(longKey)
			a.forgets(longKey, func() {
				a.server.Do(append([]string{
					"EVAL", "for _, k in ipairs(KEYS) do redis.call('del', k) redis.call('rpush', k, 'x', 'y') end", strconv.Itoa(len(keys)),
				}, keys...)...)
			})
			a.pass(a.lease)
			for _, key := range keys {
				items, err := a.server.Do("LRANGE", key, "0", "-1").AsStrSlice()
				require.NoError(a.t, err)
				require.Equal(a.t, []string{"x", "y"}, items, "overwritten")
			}
			a.server.Do(append([]string{"DEL"}, keys...)...)
			a.mended(nil)
		},
	},
	{
		name: "out of memory for 1 L", must: "holds renewed and released all the same; served <= 300 ms after",
		unleased: "released all the same; served <= 300 ms after",
		rules:    promises{keeps: true, limits: map[figure]limit{service: within(300 * ms)}},
		inject: func(a *arena) {
			a.broken(nil, "")
			a.server.Do("CONFIG", "SET", "maxmemory", "1")
			a.pass(a.lease)
			a.server.Do("CONFIG", "SET", "maxmemory", "0")
			a.mended(nil)
		},
	},
	{
		name: "read-only for 1.5 L", must: "waited out, as it is known to pass; holder told before L",
		unleased: "waited out, as it is known to pass",
		rules:    promises{loses: true, limits: map[figure]limit{telling: leases(1)}},
		inject: func(a *arena) {
			a.broken(nil, "")
			a.server.Do("REPLICAOF", "127.0.0.1", "1")
			a.pass(a.lease * 3 / 2)
			a.server.Do("REPLICAOF", "NO", "ONE")
			a.mended(nil)
		},
	},
	{
		name: "no permission for scripts for 1.5 L", must: "the server's error reaches callers at once; holder told before L",
		unleased: "the server's error reaches callers at once",
		rules:    promises{loses: true, allowed: []string{"NOPERM"}, limits: map[figure]limit{telling: leases(1), refusal: within(50 * ms)}},
		inject: func(a *arena) {
			a.broken(nil, "")
			a.server.Do("ACL", "SETUSER", "default", "-evalsha")
			a.pass(a.lease * 3 / 2)
			a.server.Do("ACL", "SETUSER", "default", "+evalsha")
			a.mended(nil)
		},
	},
	{
		name: "cancel storm", must: "no leak, no lost wake-up, no key held by nobody",
		unleased: "no leak, no lost wake-up, no key held by nobody",
		hold:     again, once: true, storm: true,
		rules:  promises{keeps: true, limits: map[figure]limit{unheld: within(300 * ms)}},
		inject: goOn,
	},
	{
		name: "server's clock jumps ahead by 10 L", must: "double hold <= 100 ms; afterwards normal", stale: "told at the next renewal; afterwards normal",
		clocked: true,
		rules:   promises{loses: true, limits: map[figure]limit{double: within(100 * ms)}},
		inject: func(a *arena) {
			a.broken(nil, "")
			a.forgets("", func() { a.clock.Jump(a.t, 10*a.lease) })
			a.mended(nil)
		},
	},
	{
		name: "server's clock jumps back by 10 L", must: "locks live longer, nothing else",
		unleased: "nothing",
		clocked:  true,
		rules:    promises{keeps: true},
		inject: func(a *arena) {
			a.broken(nil, "")
			a.clock.Jump(a.t, -10*a.lease)
			a.pass(a.lease * 3 / 2)
			a.mended(nil)
		},
	},
}

// multiRows are the faults of one member of several.
var multiRows = []row{
	{
		name: "key of one member deleted by an admin", must: "told <= 10 ms, and the others are given back; no double hold",
		rules: promises{loses: true, limits: map[figure]limit{telling: within(10 * ms)}},
		inject: func(a *arena) {
			a.broken(nil, longKey)
			a.forgets(longKey, func() { a.server.Do("DEL", memberName(longKey, rand.N(a.of.members))) })
			a.mended(nil)
		},
	},
}

// stall is a server that answers nobody for some leases.
func stall(how string, length float64, f func(a *arena, d time.Duration), options ...redistest.Option) row {
	r := row{
		name: how + " for " + strconv.FormatFloat(length, 'f', -1, 64) + " L", server: options,
		must: "told before L; served <= 300 ms after", unleased: "costs nothing but time; served <= 300 ms after",
		rules: promises{loses: true, limits: map[figure]limit{telling: leases(1), service: within(300 * ms)}},
		inject: func(a *arena) {
			a.broken(nil, "")
			f(a, time.Duration(length*float64(a.lease)))
			a.mended(nil)
		},
	}
	if length < 0.5 {
		r.must = "shorter than the remaining trust: costs nothing; served <= 300 ms after"
		r.rules.loses, r.rules.keeps = false, true
		delete(r.rules.limits, telling)
	}
	return r
}

func debugSleep(a *arena, d time.Duration) {
	a.server.Do("DEBUG", "SLEEP", strconv.FormatFloat(d.Seconds(), 'f', 3, 64))
}

func busyScript(a *arena, d time.Duration) {
	a.server.Do("EVAL", strings.Join([]string{
		"local function now() local t = redis.call('time') return t[1] * 1000000 + t[2] end",
		"local over = now() + ARGV[1]",
		"while now() < over do end",
	}, "\n"), "0", strconv.FormatInt(d.Microseconds(), 10))
}

// goOn is a fault that is there from the beginning.
func goOn(a *arena) {
	a.broken(nil, "")
	a.pass(3 * a.lease)
	a.mended(nil)
}

// repeat sends a command again and again.
func repeat(pause time.Duration, cmd ...string) func(a *arena) {
	return func(a *arena) {
		a.broken(nil, "")
		a.every(pause, 3*a.lease, func() { a.server.Do(cmd...) })
		a.mended(nil)
	}
}

// loseReplies loses some of the replies to scripts, all of which write.
func loseReplies(share float64, mode redistest.Mode) func(a *arena, p *redistest.FaultProxy) {
	scripts := redistest.Command("EVALSHA")
	return func(a *arena, p *redistest.FaultProxy) {
		p.DropReply(func(cmd []string) bool { return scripts(cmd) && !a.stopped.Load() && rand.Float64() < share }, 0, mode)
	}
}
