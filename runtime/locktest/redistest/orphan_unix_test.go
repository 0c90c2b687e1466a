//go:build unix

package redistest_test

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestServer_DiesWithTestBinary runs this binary again, as a process that starts a
// server and is then killed.
func TestServer_DiesWithTestBinary(t *testing.T) {
	t.Parallel()
	const variable = "REDISTEST_ORPHAN"
	if os.Getenv(variable) != "" {
		s := redistest.Server(t)
		_, _ = os.Stdout.WriteString("pid " + strconv.Itoa(s.PID()) + "\n")
		<-t.Context().Done() // killed long before
		return
	}
	redistest.Shared(t) // skips where there is no server
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestServer_DiesWithTestBinary$", "-test.v")
	cmd.Env = append(os.Environ(), variable+"=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	pid := 0
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		if _, number, ok := strings.Cut(lines.Text(), "pid "); ok {
			pid, err = strconv.Atoi(number)
			require.NoError(t, err)
		}
	}
	require.NotZero(t, pid)
	require.NoError(t, syscall.Kill(pid, 0))
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.Eventually(t, func() bool { return gone(pid) }, opTimeout, pollEvery)
}

// gone reports that the process does not run any more; it may still wait for its
// adoptive parent to take notice.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	state, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(state), ") Z ")
}
