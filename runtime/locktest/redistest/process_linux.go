package redistest

import (
	"os/exec"
	"syscall"
)

// dieWithParent lets the kernel kill the server when the test binary is gone.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

func reap(int) (release func()) { return func() {} }
