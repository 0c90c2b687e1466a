//go:build unix

package ctl

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// ended waits for the end of a program and returns its exit code.
func (p *program) ended(t *testing.T) int {
	t.Helper()
	for range p.lines { // until the program and its children close their output
	}
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if err != nil {
		require.ErrorAs(t, err, &exit)
	}
	return p.cmd.ProcessState.ExitCode()
}

// running reports whether a process exists and is no zombie.
func running(pid int) bool {
	if stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil {
		_, after, _ := strings.Cut(string(stat), ") ")
		return !strings.HasPrefix(after, "Z")
	}
	return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

// pidOf waits until the command prints its process id.
func pidOf(t *testing.T, p *program) int {
	t.Helper()
	_, text, _ := strings.Cut(p.says(t, "up "), "up ")
	pid, err := strconv.Atoi(text)
	require.NoError(t, err)
	return pid
}

// TestRun_ExitCodes shows that run returns the exit code of the command, and sets its environment.
func TestRun_ExitCodes(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	url := server.URL()
	c, err := lockrt.Open(t.Context(), url, lockrt.Options{OpTimeout: patience})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	held, err := c.Mutex("taken").Lock(t.Context())
	require.NoError(t, err)
	var whole strings.Builder // the output of all of them, without that of the commands
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"k", "--", "true"}, 0, ""},
		{[]string{"k", "sh", "-c", "exit 3"}, 3, ""},
		{[]string{"k", "--", "sh", "-c", "kill -9 $$"}, 128 + 9, ""},
		{[]string{"k", "--", "sh", "-c", "echo key $LOCKGEN_KEY token $LOCKGEN_TOKEN."}, 0, "key k token ."},
		{[]string{"-fence", "k", "--", "sh", "-c", `test "$LOCKGEN_TOKEN" -gt 0 && echo token`}, 0, "token"},
		{[]string{"-fence", "outer", "--", "sh", "-c", `"$LOCKCTL" run k -- sh -c 'echo key $LOCKGEN_KEY token $LOCKGEN_TOKEN.'`}, 0, "key k token ."},
		{[]string{"-read", "rw", "--", "echo", "read"}, 0, "read"},
		{[]string{"-fair", "f", "--", "echo", "fair"}, 0, "fair"},
		{[]string{"-permits", "2", "p", "--", "echo", "permit"}, 0, "permit"},
		{[]string{"-wait", "0", "taken", "--", "echo", "no"}, exitTaken, ""},
		{[]string{"-wait", "50ms", "taken", "--", "echo", "no"}, exitTaken, ""},
		{[]string{"k", "--", "no-such-program"}, exitNotFound, ""},
		{[]string{"k", "--", "/"}, exitCannotRun, ""},
		{[]string{"-watchdog", "1ms", "k", "--", "true"}, exitUsage, ""},
		{[]string{"-watchdog", "0", "k", "--", "true"}, exitUsage, ""},
		{[]string{"-url", "redis://127.0.0.1:1", "k", "--", "true"}, exitNoRedis, ""},
		{[]string{"k", "--", "sh", "-c", `exec 2>/dev/null; trap '' TERM; until "$LOCKCTL" force -yes k >&2; do :; done; while :; do sleep 0.05; done`}, exitLost, ""},
	} {
		var text bytes.Buffer
		p := startWith(t, &text, "lockctl", url, "", append([]string{"run"}, test.args...)...)
		if test.says != "" {
			p.says(t, test.says)
		}
		require.Equal(t, test.code, p.ended(t), "%v", test.args)
		fmt.Fprintf(&whole, "$ lockctl run %s\n%s(exit code %d)\n", strings.Join(test.args, " "), text.String(), test.code)
	}
	golden(t, "run", whole.String())
	require.NoError(t, held.Unlock(t.Context()))
	for _, key := range []string{"k", "rw", "f", "taken"} {
		until(t, key+" is free", func() bool { // a late request is withdrawn at once
			n, err := server.Do("EXISTS", key).AsInt64()
			require.NoError(t, err)
			return n == 0
		})
	}
}

// TestForce_HolderThatStandsStill shows that force does not say of a process that stands still that it knows of its loss.
func TestForce_HolderThatStandsStill(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	p := holder(t, server.URL(), "orders", "k")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGSTOP))
	s := ctl(t, server.URL(), "force", "-yes", "-timeout", "2s", "k")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
	require.Zero(t, s.code, s.err)
	require.Contains(t, s.out, "does not answer: it learns it when it runs again.")
	require.NotContains(t, s.out, "its context has ended")
	p.says(t, "ended")
}

// TestRun_PassesSignalsOn shows that run passes a signal on to the command and to its child
// processes.
func TestRun_PassesSignalsOn(t *testing.T) {
	t.Parallel()
	p := start(t, "lockctl", redistest.Server(t).URL(), "", "run", "k", "--", "sh", "-c",
		`trap 'echo usr1' USR1; trap 'echo term; exit 5' TERM; echo up $$; while :; do sleep 0.1; done`)
	pidOf(t, p)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGUSR1))
	p.says(t, "usr1")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	p.says(t, "term")
	require.Equal(t, 5, p.ended(t))
}

// TestRun_IgnoredSignals shows that run under nohup, which ignores SIGHUP, does not pass it on, and that the command ignores it, too.
func TestRun_IgnoredSignals(t *testing.T) {
	t.Parallel()
	p := start(t, "lockctl", redistest.Server(t).URL(), "", "run", "outer", "--", "sh", "-c",
		`trap '' HUP; exec "$LOCKCTL" run k -- sh -c 'trap "echo term; exit 5" TERM; echo up $$; kill -HUP $$; echo on; while :; do sleep 0.1; done'`)
	pidOf(t, p)
	p.says(t, "on")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGHUP)) // which the outer one passes on
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	p.says(t, "term")
	require.Equal(t, 5, p.ended(t))
}

// holding returns the lease of "k" that another program holds.
func holding(t *testing.T, url string) *lockrt.Lease {
	t.Helper()
	c, err := lockrt.Open(t.Context(), url, lockrt.Options{OpTimeout: patience})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	held, err := c.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	return held
}

// TestRun_SignalWhileItWaits shows that a signal ends the wait, and that no command starts after
// it.
func TestRun_SignalWhileItWaits(t *testing.T) {
	t.Parallel()
	url := redistest.Server(t).URL()
	held := holding(t, url)
	file := filepath.Join(t.TempDir(), "started")
	p := start(t, "lockctl", url, "", "run", "k", "--", "touch", file)
	until(t, "it waits", func() bool { l := listed(t, url, "k"); return l != nil && len(l.Waiters) == 1 })
	require.Equal(t, "lockctl run touch", listed(t, url, "k").Waiters[0].Name)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, exitSignalBase+15, p.ended(t))
	require.NoError(t, held.Unlock(t.Context()))
	require.NoFileExists(t, file)
}

// TestRun_WaitsOn shows that signals which do not end a program do not end the wait either: those of a window that gets another size,
// and of a program that is stopped and goes on.
func TestRun_WaitsOn(t *testing.T) {
	t.Parallel()
	url := redistest.Server(t).URL()
	held := holding(t, url)
	p := start(t, "lockctl", url, "", "run", "k", "--", "echo", "works")
	until(t, "it waits", func() bool { l := listed(t, url, "k"); return l != nil && len(l.Waiters) == 1 })
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGWINCH))
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTSTP))
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
	require.NotNil(t, listed(t, url, "k"))
	require.NoError(t, held.Unlock(t.Context()))
	p.says(t, "works")
	require.Zero(t, p.ended(t))
}
