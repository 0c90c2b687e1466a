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
// server and another program, and is then killed, or runs out of time.
func TestServer_DiesWithTestBinary(t *testing.T) {
	t.Parallel()
	const variable = "REDISTEST_ORPHAN"
	if os.Getenv(variable) != "" {
		s := redistest.Server(t)
		other := exec.CommandContext(t.Context(), "sleep", "600")
		require.NoError(t, redistest.Start(other))
		_, _ = os.Stdout.WriteString("pids " + strconv.Itoa(s.PID()) + " " + strconv.Itoa(other.Process.Pid) + "\n")
		<-t.Context().Done() // ended long before
		return
	}
	redistest.Shared(t) // skips where there is no server
	for name, timeout := range map[string]string{"killed": "10m", "out of time": "5s"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestServer_DiesWithTestBinary$", "-test.v", "-test.timeout="+timeout)
			cmd.Env = append(os.Environ(), variable+"=1")
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			var pids []int
			lines := bufio.NewScanner(out)
			for len(pids) == 0 && lines.Scan() {
				if _, numbers, ok := strings.Cut(lines.Text(), "pids "); ok {
					for number := range strings.FieldsSeq(numbers) {
						pid, err := strconv.Atoi(number)
						require.NoError(t, err)
						pids = append(pids, pid)
					}
				}
			}
			require.Len(t, pids, 2)
			for _, pid := range pids {
				require.NoError(t, syscall.Kill(pid, 0))
			}
			if name == "killed" {
				require.NoError(t, cmd.Process.Kill())
			}
			for lines.Scan() { // the output when it is out of time
			}
			_ = cmd.Wait()
			for _, pid := range pids {
				require.Eventually(t, func() bool { return gone(pid) }, opTimeout, pollEvery)
			}
		})
	}
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
