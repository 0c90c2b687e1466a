//go:build linux

package ctl

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// Lengths of stalls. The short one is a quarter of the lease, as in the table of faults. The long one is longer than the lease: what the
// server does when the command is dead anyway makes no difference to it.
const (
	shortStall = runLease / 4
	longStall  = runLease + time.Second
)

var (
	persistent = []redistest.Option{redistest.WithConfig("appendonly", "yes"), redistest.WithConfig("appendfsync", "always")}
	sleeps     = []redistest.Option{redistest.WithConfig("enable-debug-command", "yes")}
	busy       = []redistest.Option{redistest.WithConfig("lua-time-limit", "100")}
)

// serverFaults are those of one server, of the way to it, and of lockctl. A fault that cannot be waited out lasts until the command is
// dead: more of it the command cannot see.
var serverFaults = []fault{
	{
		name: "server killed", options: persistent, must: runsOut, code: exitLost,
		happens: func(_ *testing.T, r *ran) { r.server.Kill() },
		after:   func(_ *testing.T, r *ran) { r.server.Restart() },
	},
	{
		name: "server killed, back empty", of: []string{"One server: server killed, back empty after 300 ms"}, must: isForgotten, code: exitLost,
		happens: func(_ *testing.T, r *ran) {
			r.server.Kill()
			<-time.After(300 * time.Millisecond)
			r.server.Restart()
		},
	},
	{
		name: "server killed, back from its AOF", of: []string{"One server: server killed, back from its AOF", "One server, 30 clients: server killed, back from its AOF"},
		options: persistent,
		happens: func(_ *testing.T, r *ran) { r.server.Kill(); r.server.Restart() },
	},
	{
		name: "server back from an older file", of: []string{
			"One server, many waiters: server back from an older file, 9 waiters", "One server, many waiters: server back from an older file, 99 waiters",
		},
		must: isForgotten, code: exitLost,
		before: func(_ *testing.T, r *ran) {
			r.server.Do("HSET", "k", "11111111-1111-8111-9111-111111111111:1", "1")
			r.server.Do("PEXPIRE", "k", strconv.FormatInt((10*patience).Milliseconds(), 10)) // the others may be slow to start
			r.server.Do("SAVE")
			r.server.Do("DEL", "k")
		},
		happens: func(t *testing.T, r *ran) {
			t.Helper()
			r.server.Kill()
			r.server.Restart()
			has, err := r.server.Do("HEXISTS", "k", "11111111-1111-8111-9111-111111111111:1").AsInt64()
			require.NoError(t, err)
			require.EqualValues(t, 1, has, "the file is read")
		},
	},
	{
		name: "server stopped", of: []string{"One server: server stopped (SIGSTOP) for 1.5 L"}, must: runsOut, code: exitLost,
		happens: func(_ *testing.T, r *ran) { r.server.Stop() },
		after:   func(_ *testing.T, r *ran) { r.server.Cont() },
	},
	shortly("CLIENT PAUSE", nil, clientPause), forLong("CLIENT PAUSE", nil, clientPause),
	shortly("DEBUG SLEEP", sleeps, debugSleep), forLong("DEBUG SLEEP", sleeps, debugSleep),
	shortly("a BUSY script", busy, busyScript), forLong("a BUSY script", busy, busyScript),
	{
		name: "lockctl stopped", of: []string{
			"One server: holder's process stopped (SIGSTOP) for 1.5 L",
			"One server, many waiters: one of the processes stopped (SIGSTOP) for 3 L, 9 waiters",
			"One server, many waiters: one of the processes stopped (SIGSTOP) for 3 L, 99 waiters",
		},
		must: runsOut, code: exitLost,
		happens: func(t *testing.T, r *ran) {
			t.Helper()
			r.fresh(t) // else the answer to a renewal may be under way, and prolong the lock when lockctl goes on
			signalled(syscall.SIGSTOP)(t, r)
		},
		after: signalled(syscall.SIGCONT),
	},
	{
		name: "lockctl stopped just after a renewal, which its guard may not know of", must: runsOut, code: exitLost,
		happens: func(t *testing.T, r *ran) {
			t.Helper()
			until(t, "it was renewed just now", func() bool {
				ends, known := r.expiry()
				return known && ends > 4*r.lease/3 && ends-time.Since(r.began) > r.lease-r.lease/30
			})
			signalled(syscall.SIGSTOP)(t, r)
		},
		after: signalled(syscall.SIGCONT),
	},
	{
		name: "lockctl killed", of: []string{"One server: holder killed", "One server, 30 clients: holder killed"}, must: runsOut, code: -1,
		happens: signalled(syscall.SIGKILL),
	},
	{
		name: "subscriber connections killed", of: []string{
			"One server: subscriber connections killed every 100 ms", "One server, many waiters: subscriber connections killed every 100 ms, 99 waiters",
		},
		happens: again(1, "CLIENT", "KILL", "TYPE", "pubsub"),
	},
	{
		name: "command connections killed", of: []string{"One server: command connections killed every 100 ms"},
		happens: again(1, "CLIENT", "KILL", "TYPE", "normal"),
	},
	{
		name: "all connections killed", happens: func(t *testing.T, r *ran) { t.Helper(); r.renewed(t, r.proxy.Cut) },
	},
	{
		name: "SCRIPT FLUSH", of: []string{"One server: SCRIPT FLUSH every 10 ms"},
		happens: again(15, "SCRIPT", "FLUSH"),
	},
	{
		name: "replies lost, connection closed", of: []string{"One server: 20% of the replies lost, connection closed"},
		happens: lost(5, nil, redistest.Close),
	},
	{
		name: "replies to renewals lost, connection mute", of: []string{
			"One server: 2% of the replies lost, connection mute", "One server, a lease of 30 s: 2% of the replies lost, connection mute, for 12 s",
			"One server, a lease of 30 s: replies to every tenth renewal lost, connection mute, for 15 s",
		},
		happens: lost(10, redistest.EvalSHA(scripts.Renew.SHA1()), redistest.Mute),
	},
	{
		name: "network cut", must: runsOut, code: exitLost,
		happens: func(_ *testing.T, r *ran) { r.proxy.Refuse(true) },
	},
	{
		name: "network cut, fair", flags: []string{"-fair"}, must: runsOut, code: exitLost,
		happens: func(_ *testing.T, r *ran) { r.proxy.Refuse(true) },
	},
	{
		name: "network cut, read", flags: []string{"-read"}, must: runsOut, code: exitLost,
		happens: func(_ *testing.T, r *ran) { r.proxy.Refuse(true) },
	},
	{
		name: "network cut, permit", flags: []string{"-permits", "1"}, must: runsOut, code: exitLost,
		happens: func(_ *testing.T, r *ran) { r.proxy.Refuse(true) },
	},
	{
		name: "connection mute, then all delivered late", of: []string{"One server: holder cut off for 2 L, then all delivered late"}, must: runsOut, code: exitLost,
		happens: func(_ *testing.T, r *ran) { r.proxy.Blackhole(redistest.Both) },
		after:   func(_ *testing.T, r *ran) { r.proxy.Deliver() },
	},
	{
		name: "requests arrive, replies do not", of: []string{"One server: requests arrive, replies do not, for 2 L"}, must: runsOut, code: exitLost,
		happens: func(_ *testing.T, r *ran) { r.proxy.Blackhole(redistest.Replies) },
		after:   func(_ *testing.T, r *ran) { r.proxy.Deliver() },
	},
	{
		name: "replies arrive, requests do not", must: runsOut, code: exitLost,
		happens: func(_ *testing.T, r *ran) { r.proxy.Blackhole(redistest.Requests) },
		after:   func(_ *testing.T, r *ran) { r.proxy.Deliver() },
	},
	{
		name: "network refused for half of the lease", of: []string{
			"One server: network refused for 0.5 L", "One server, a lease of 30 s: network refused for 15 s",
		},
		happens: func(t *testing.T, r *ran) {
			t.Helper()
			r.fresh(t)
			r.proxy.Refuse(true)
			<-time.After(r.lease / 2)
			r.proxy.Refuse(false)
		},
	},
	{
		name: "60 ms one way", of: []string{"One server: 60 ms one way"},
		before:  func(_ *testing.T, r *ran) { r.proxy.Delay(60 * time.Millisecond) },
		happens: func(t *testing.T, r *ran) { t.Helper(); r.renewed(t, nil) },
	},
	{
		name: "key deleted", of: []string{"One server: key deleted by an admin"}, must: isForgotten, code: exitLost,
		happens: func(_ *testing.T, r *ran) { r.server.Do("DEL", "k") },
	},
	{
		name: "key taken by force", must: isForgotten, code: exitLost,
		happens: func(t *testing.T, r *ran) {
			t.Helper()
			until(t, "it listens", func() bool { return listed(t, r.server.URL(), "k") != nil })
			s := all(t, r.server.URL(), "force", "-yes", "k")
			require.Zero(t, s.code, s.err)
		},
	},
	{
		name: "FLUSHALL", of: []string{"One server: FLUSHALL", "One server, many waiters: FLUSHALL, 99 waiters", "One server, a lease of 30 s: FLUSHALL"},
		must: isForgotten, code: exitLost,
		happens: func(_ *testing.T, r *ran) { r.server.Do("FLUSHALL") },
	},
	{
		name: "key replaced by a list", of: []string{"One server: key replaced by a list"}, must: isForgotten, code: exitLost,
		happens: func(_ *testing.T, r *ran) {
			r.server.Do("EVAL", "redis.call('del', KEYS[1]) redis.call('rpush', KEYS[1], 'x', 'y')", "1", "k")
		},
		after: func(t *testing.T, r *ran) {
			t.Helper()
			items, err := r.server.Do("LRANGE", "k", "0", "-1").AsStrSlice()
			require.NoError(t, err)
			require.Equal(t, []string{"x", "y"}, items, "overwritten")
		},
	},
	{
		name: "out of memory", of: []string{"One server: out of memory for 1 L"},
		happens: func(t *testing.T, r *ran) {
			t.Helper()
			r.server.Do("CONFIG", "SET", "maxmemory", "1")
			r.renewed(t, nil)
		}, // for good: it is given back all the same
		after: func(_ *testing.T, r *ran) { r.server.Do("CONFIG", "SET", "maxmemory", "0") }, // for the successor
	},
	{
		name: "read-only", of: []string{"One server: read-only for 1.5 L"}, must: runsOut, code: exitLost,
		happens: func(_ *testing.T, r *ran) { r.server.Do("REPLICAOF", "127.0.0.1", "1") },
		after:   func(_ *testing.T, r *ran) { r.server.Do("REPLICAOF", "NO", "ONE") },
	},
	{
		name: "no permission for scripts", of: []string{"One server: no permission for scripts for 1.5 L"}, must: runsOut, code: exitLost,
		happens: func(_ *testing.T, r *ran) { r.server.Do("ACL", "SETUSER", "default", "-evalsha") },
		after:   func(_ *testing.T, r *ran) { r.server.Do("ACL", "SETUSER", "default", "+evalsha") },
	},
	{
		name: "server's clock jumps ahead", of: []string{"One server: server's clock jumps ahead by 10 L"}, clocked: true, must: isForgotten, code: exitLost,
		happens: func(t *testing.T, r *ran) { t.Helper(); r.clock.Jump(t, 10*r.lease) },
	},
	{
		name: "server's clock jumps back", of: []string{"One server: server's clock jumps back by 10 L"}, clocked: true, unseen: true,
		happens: func(t *testing.T, r *ran) {
			t.Helper()
			r.clock.Jump(t, -10*r.lease)
			<-time.After(r.lease) // which is longer than the trust without a renewal
		},
	},
}

// shortly is a server that answers nobody when the lock is due to be renewed, for less than the trust that is left then.
func shortly(how string, options []redistest.Option, stall func(t *testing.T, r *ran, d time.Duration)) fault {
	return fault{
		name: how + " for a quarter of the lease", of: []string{"One server: " + how + " for 0.25 L"}, options: options,
		happens: func(t *testing.T, r *ran) {
			t.Helper()
			until(t, "it is soon renewed", func() bool {
				ends, known := r.expiry()
				return known && ends-time.Since(r.began) < r.lease-r.lease/6
			})
			stall(t, r, shortStall)
			until(t, "it answers again", r.answers)
		},
	}
}

// forLong is a server that answers nobody for longer than the lease.
func forLong(how string, options []redistest.Option, stall func(t *testing.T, r *ran, d time.Duration)) fault {
	return fault{
		name: how + " for longer than the lease", of: []string{"One server: " + how + " for 1.5 L"}, options: options, must: runsOut, code: exitLost,
		happens: func(t *testing.T, r *ran) { t.Helper(); stall(t, r, longStall) },
		after:   func(t *testing.T, r *ran) { t.Helper(); until(t, "it answers again", r.answers) },
	}
}

// answers reports whether the server does.
func (r *ran) answers() bool {
	_, err := r.server.Try("PING")
	return err == nil
}

func clientPause(_ *testing.T, r *ran, d time.Duration) {
	r.server.Do("CLIENT", "PAUSE", strconv.FormatInt(d.Milliseconds(), 10), "ALL")
}

func debugSleep(t *testing.T, r *ran, d time.Duration) {
	t.Helper()
	r.send(t, "DEBUG", "SLEEP", strconv.FormatFloat(d.Seconds(), 'f', 3, 64))
}

func busyScript(t *testing.T, r *ran, d time.Duration) {
	t.Helper()
	require.NoError(t, syscall.Setpriority(syscall.PRIO_PROCESS, r.server.PID(), 19)) // not at the cost of other tests
	r.send(t, "EVAL", strings.Join([]string{
		"local function now() local t = redis.call('time') return t[1] * 1000000 + t[2] end",
		"local over = now() + ARGV[1]",
		"while now() < over do end",
	}, "\n"), "0", strconv.FormatInt(d.Microseconds(), 10))
}

// send sends a command that the server does not answer for long.
func (r *ran) send(t *testing.T, cmd ...string) {
	t.Helper()
	var sent sync.WaitGroup
	sent.Go(func() { _, _ = r.server.Try(cmd...) }) // it gives up before the server answers
	t.Cleanup(sent.Wait)
}

// signalled sends a signal to lockctl.
func signalled(s syscall.Signal) func(t *testing.T, r *ran) {
	return func(t *testing.T, r *ran) {
		t.Helper()
		require.NoError(t, r.run.cmd.Process.Signal(s))
	}
}

// again sends a command again and again, each time so many of it, until the lock is renewed.
func again(times int, cmd ...string) func(t *testing.T, r *ran) {
	return func(t *testing.T, r *ran) {
		t.Helper()
		r.renewed(t, func() {
			for range times {
				r.server.Do(cmd...)
			}
		})
	}
}

// lost loses one of so many replies to the requests that match, the first one among them, until the lock is renewed and one is lost.
func lost(of int, match func(cmd []string) bool, mode redistest.Mode) func(t *testing.T, r *ran) {
	return func(t *testing.T, r *ran) {
		t.Helper()
		var mu sync.Mutex
		n := 0
		drop := r.proxy.DropReply(func(cmd []string) bool {
			if match != nil && !match(cmd) {
				return false
			}
			mu.Lock()
			defer mu.Unlock()
			n++
			return n%of == 1
		}, 0, mode)
		defer drop.Stop()
		until(t, "a reply is lost", func() bool { return drop.Lost() > 0 })
		r.renewed(t, nil)
	}
}

// elsewhere are the faults of the table that one lockctl run cannot meet, by how they begin.
var elsewhere = []struct{ begins, since string }{
	{"One server: cancel storm", "a run makes one call: TestRun_SignalWhileItWaits cancels it"},
	{"One server: key of one member deleted by an admin", "a run takes no MultiLock"},
	{"One server, 30 clients: nothing breaks", "nothing happens"},
	{"One server, a lease of 30 s: replies to every tenth renewal lost, connection mute, for 12 s, keys handed over all the time", "a run hands its lock over once, at its end"},
	{"Five servers: ", "a run takes no RedLock"},
	{"Five servers, what happens to all of them: ", "a run takes no RedLock"},
	{"Sentinel, a master and two replicas: planned failover, with Options.Replicas = 2", "a run leaves Options.Replicas as it is"},
	{"Sentinel, a master and two replicas: master killed, with Options.Replicas = 1", "a run leaves Options.Replicas as it is"},
	{"Sentinel, a master and two replicas: a replica stopped for 1.5 L, with Options.Replicas = 2", "a run leaves Options.Replicas as it is"},
}

// TestRun_Faults has a fault happen to each of many commands that ignore SIGTERM and run under locks on a server of their own, at the
// same time.
func TestRun_Faults(t *testing.T) {
	t.Parallel()
	strike(t, serverFaults, 3, oneServer)
}

// TestRun_FaultsAreThoseOfTheTable shows that each fault of the table of faults, in runtime/CHAOS.md, happens to a lockctl run in a test,
// or is named as one that cannot.
func TestRun_FaultsAreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "runtime", "internal", "chaos", "testdata", "faults.txt"))
	require.NoError(t, err)
	here := map[string]string{}
	for _, f := range slices.Concat(serverFaults, sentinelFaults, clusterFaults) {
		for _, name := range f.of {
			require.Empty(t, here[name], "%s: twice", name)
			here[name] = f.name
		}
	}
	used := make([]bool, len(elsewhere))
	for line := range strings.Lines(string(text)) {
		name := strings.TrimSuffix(line, "\n")
		i := slices.IndexFunc(elsewhere, func(e struct{ begins, since string }) bool { return strings.HasPrefix(name, e.begins) })
		if i >= 0 {
			used[i] = true
			require.Empty(t, here[name], "%s: it happens, though it cannot", name)
			continue
		}
		require.NotEmpty(t, here[name], "%s: it happens to no lockctl run", name)
		delete(here, name)
	}
	require.Empty(t, here, "there are no such faults")
	require.NotContains(t, used, false, "there are no such faults")
}
