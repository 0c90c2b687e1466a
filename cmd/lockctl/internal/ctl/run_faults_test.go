//go:build unix

package ctl

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// stubborn is a command that ignores SIGTERM, with a process of its own, and ends with SIGUSR1.
const stubborn = `trap '' TERM; trap 'exit 0' USR1; echo up $$; while :; do sleep 0.05; done`

// A fault is something that happens to a command that runs under a lock.
type fault struct {
	name    string
	happens func(t *testing.T, r *ran)
	after   func(t *testing.T, r *ran) // once the command is dead
	ordered bool                       // the server is there: nobody else has the lock before the command is dead
	kept    bool                       // the lock survives the fault, and the command with it
	code    int
}

// A ran is a lockctl run with what it runs on.
type ran struct {
	server *redistest.RedisServer
	proxy  *redistest.FaultProxy // between lockctl and the server
	run    *program
	pid    int           // of the command
	next   chan bool     // whether the command ran when somebody else had the lock
	expiry time.Duration // of the lock before the fault, by the time since the test began
}

var faults = []fault{
	{name: "server killed", code: exitLost, happens: func(_ *testing.T, r *ran) { r.server.Kill() }},
	{name: "server stopped", code: exitLost, happens: func(_ *testing.T, r *ran) { r.server.Stop() }, after: func(_ *testing.T, r *ran) { r.server.Cont() }},
	{name: "server killed, back from its AOF", kept: true, happens: func(_ *testing.T, r *ran) { r.server.Kill(); r.server.Restart() }},
	{name: "network cut", code: exitLost, ordered: true, happens: func(_ *testing.T, r *ran) { r.proxy.Refuse(true); r.proxy.Cut() }},
	{name: "connection mute", code: exitLost, ordered: true, happens: func(_ *testing.T, r *ran) { r.proxy.Blackhole(redistest.Both) }},
	{name: "key deleted", code: exitLost, happens: func(_ *testing.T, r *ran) { r.server.Do("DEL", "k") }},
	{name: "key taken by force", code: exitLost, happens: func(t *testing.T, r *ran) {
		t.Helper()
		until(t, "it listens", func() bool { return listed(t, r.server.URL(), "k") != nil })
		s := all(t, r.server.URL(), "force", "-yes", "k")
		require.Zero(t, s.code, s.err)
	}},
	{name: "lockctl stopped", code: exitLost, ordered: true, happens: func(t *testing.T, r *ran) {
		t.Helper()
		require.NoError(t, r.run.cmd.Process.Signal(syscall.SIGSTOP))
	}, after: func(t *testing.T, r *ran) {
		t.Helper()
		require.NoError(t, r.run.cmd.Process.Signal(syscall.SIGCONT))
	}},
	{name: "lockctl killed", code: -1, ordered: true, happens: func(t *testing.T, r *ran) {
		t.Helper()
		require.NoError(t, r.run.cmd.Process.Kill())
	}},
}

// TestRun_Faults has a fault happen to each of several commands that ignore SIGTERM and run under locks, at the same time. The command
// whose lock is lost is dead before another caller has the lock; the others go on.
func TestRun_Faults(t *testing.T) {
	t.Parallel()
	began := time.Now()
	expiry := func(r *ran) time.Duration {
		left, err := r.server.Do("PTTL", "k").AsInt64()
		require.NoError(t, err)
		return time.Since(began) + time.Duration(left)*time.Millisecond
	}
	all := make([]*ran, len(faults))
	for i, f := range faults {
		r := &ran{server: redistest.Server(t, redistest.WithConfig("appendonly", "yes"), redistest.WithConfig("appendfsync", "always"))}
		r.proxy = redistest.Proxy(t, r.server.Addr())
		r.run = start(t, "lockctl", r.proxy.URL(), "", "run", "-watchdog", "30s", "k", "--", "sh", "-c", stubborn)
		r.pid = pidOf(t, r.run)
		t.Cleanup(func() { killGroup(r.pid) })
		if f.ordered {
			r.wait(t)
		}
		all[i] = r
	}
	for i, f := range faults {
		all[i].expiry = expiry(all[i])
		f.happens(t, all[i])
	}
	for i, f := range faults {
		r := all[i]
		if f.kept {
			until(t, f.name+": it renews the lock", func() bool { return expiry(r) > r.expiry+2*time.Second })
			require.True(t, running(r.pid), f.name)
			require.NoError(t, r.run.cmd.Process.Signal(syscall.SIGUSR1))
		} else {
			until(t, f.name+": the command is dead", func() bool { return !running(r.pid) })
		}
		if f.after != nil {
			f.after(t, r)
		}
		if f.ordered {
			select {
			case outlived := <-r.next:
				require.False(t, outlived, "%s: the command ran when somebody else had the lock", f.name)
			case <-time.After(patience):
				require.Fail(t, f.name+": nobody else gets the lock")
			}
		}
		require.Equal(t, f.code, r.run.ended(t), f.name)
	}
}

// wait has a client of its own wait for the lock.
func (r *ran) wait(t *testing.T) {
	t.Helper()
	c, err := lockrt.Open(t.Context(), r.server.URL(), lockrt.Options{})
	require.NoError(t, err)
	r.next = make(chan bool, 1)
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	t.Cleanup(func() { cancel(); <-over; _ = c.Close() })
	go func() {
		defer close(over)
		if l, err := c.Mutex("k").Lock(ctx); err == nil {
			r.next <- running(r.pid)
			_ = l.Unlock(ctx)
		}
	}()
}
