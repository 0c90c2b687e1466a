package ctl

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A terminal is a terminal with a session of programs.
type terminal struct {
	keys *os.File
	cmd  *exec.Cmd
	over chan struct{} // closed when the last program has closed the terminal

	mu     sync.Mutex
	screen bytes.Buffer
}

func (s *terminal) shown() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.screen.String()
}

// shows waits for a text on the screen.
func (s *terminal) shows(t *testing.T, text string) {
	t.Helper()
	until(t, text, func() bool { return strings.Contains(s.shown(), text) })
}

func (s *terminal) types(t *testing.T, text string) {
	t.Helper()
	_, err := io.WriteString(s.keys, text)
	require.NoError(t, err)
}

// ended waits for the end of the session and returns the exit code of its first program.
func (s *terminal) ended() int {
	<-s.over
	_ = s.cmd.Wait() // the code says it
	return s.cmd.ProcessState.ExitCode()
}

// session starts a program with a terminal of its own. $LOCKCTL is lockctl.
func session(t *testing.T, url string, name string, args ...string) *terminal {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = keys.Close() })
	conn, err := keys.SyscallConn()
	require.NoError(t, err)
	number := 0
	require.NoError(t, conn.Control(func(fd uintptr) {
		require.NoError(t, unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0))
		number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		require.NoError(t, err)
	}))
	tty, err := os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	defer func() { _ = tty.Close() }()
	cmd := exec.Command(name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.Env = append(os.Environ(), "CTL_TEST_ROLE=lockctl", "REDIS_URL="+url, "JOBS="+filepath.Join(t.TempDir(), "jobs"), "LOCKCTL="+os.Args[0])
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	// The processes of the session do not ignore what the tests were started to ignore, as by nohup or in the background of a script.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGHUP)
	require.NoError(t, cmd.Start()) // the terminal ends with this process, and they with it
	s := &terminal{keys: keys, cmd: cmd, over: make(chan struct{})}
	go func() {
		defer close(s.over)
		text := make([]byte, 1000)
		for {
			n, err := keys.Read(text)
			s.mu.Lock()
			s.screen.Write(text[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		if t.Failed() {
			t.Log(s.shown())
		}
	})
	return s
}

// The keys of a terminal that send signals.
const ctrlC, ctrlZ = "\x03", "\x1a"

// TestRun_Terminal shows that a command reads from the terminal, and that the keys for signals reach the command, whether it reads or not.
func TestRun_Terminal(t *testing.T) {
	t.Parallel()
	url := redistest.Server(t).URL()
	for _, c := range []struct {
		name, script string
		keys         []string // shown on the screen, then typed, by turns
		code         int
		shows        string
	}{
		{"reads", `"$LOCKCTL" run k -- sh -c 'echo up; read x; echo got $x; exit 3'; read y; echo shell $y; exit 5`, []string{"up", "a\n", "got a", "b\n"}, 5, "shell b"},
		{"child reads", `"$LOCKCTL" run k -- sh -c 'echo up; head -n 1; echo done'`, []string{"up", "line\n"}, 0, "done"},
		{"reads /dev/tty", `echo x | "$LOCKCTL" run k -- sh -c 'echo up; read x </dev/tty; echo got $x'`, []string{"up", "line\n"}, 0, "got line"},
		{"sets the terminal", `"$LOCKCTL" run k -- sh -c 'stty -echo; stty echo; echo set'`, nil, 0, "set"},
		{"Ctrl-C while it reads", `"$LOCKCTL" run k -- sh -c 'read x; echo x=$x; exec cat'; echo code $?; read y; echo shell $y`, []string{"", "a\n", "x=a", ctrlC, "code 130", "b\n"}, 0, "shell b"},
		{"Ctrl-C while it does not read", `trap : INT; "$LOCKCTL" run k -- sh -c 'echo up; exec sleep 600'; echo code $?`, []string{"up", ctrlC}, 0, "code 130"},
		{"Ctrl-Z while it reads", `set -m; "$LOCKCTL" run k -- sh -c 'read x; echo x=$x; read y; echo got $y; exit 3'; echo code $?; read z; echo shell $z; fg; echo then $?`,
			[]string{"", "a\n", "x=a", ctrlZ, "code 149", "b\n", "shell b", "c\n", "got c"}, 0, "then 3"},
		{"Ctrl-Z while it does not read", `set -m; "$LOCKCTL" run k -- sh -c 'echo up; trap "echo on" CONT; while :; do sleep 0.05; done'; echo code $?; fg; echo then $?`,
			[]string{"up", ctrlZ, "code 149", "", "on", ctrlC}, 0, "then 130"},
		{"in the background", `set -m; "$LOCKCTL" run k -- sh -c 'read x; echo got $x; exit 3' & until jobs >"$JOBS"; grep -q Stopped "$JOBS"; do sleep 0.05; done; echo stopped; fg; echo then $?`,
			[]string{"stopped", "a\n", "got a"}, 0, "then 3"},
		{"in the background, without a shell", `set -m; sh -c '"$LOCKCTL" run orphan -- sh -c ": >$JOBS; while [ -e $JOBS ]; do sleep 0.05; done; read x </dev/tty" & until [ -e "$JOBS" ]; do sleep 0.05; done'; rm "$JOBS"; "$LOCKCTL" run orphan -- echo next`,
			nil, 0, "next"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := session(t, url, "sh", "-c", c.script)
			for i, text := range c.keys {
				if i%2 == 0 {
					s.shows(t, text)
				} else {
					s.types(t, text)
				}
			}
			s.shows(t, c.shows)
			require.Equal(t, c.code, s.ended(), s.shown())
		})
	}
	t.Run("without a shell", func(t *testing.T) {
		s := session(t, url, os.Args[0], "run", "k", "--", "sh", "-c", "read x; echo got $x; read y; echo then $y; exit 3")
		s.types(t, "a\n")
		s.shows(t, "got a")
		s.types(t, ctrlZ) // nobody could let it go on
		s.types(t, "b\n")
		s.shows(t, "then b")
		require.Equal(t, 3, s.ended(), s.shown())
	})
}
