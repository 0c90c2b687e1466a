//go:build !linux

package redistest

import (
	"os/exec"
	"strconv"
)

func dieWithParent(*exec.Cmd) {}

// reap starts a shell that kills the server when its standard input ends, which
// happens at the latest when the test binary does.
func reap(pid int) (release func()) {
	cmd := exec.Command("/bin/sh", "-c", `read -r done || kill -9 "$0"`, strconv.Itoa(pid))
	in, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return func() {}
	}
	return func() {
		_, _ = in.Write([]byte("done\n"))
		_ = in.Close()
		_ = cmd.Wait()
	}
}

func awaitEnd(int) {}
