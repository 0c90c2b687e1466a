package redistest

import (
	"os/exec"
	"syscall"
	"unsafe"
)

// dieWithParent lets the kernel kill the server when the test binary is gone.
func dieWithParent(cmd *exec.Cmd) {
	var attributes syscall.SysProcAttr
	if cmd.SysProcAttr != nil {
		attributes = *cmd.SysProcAttr // the caller's, such as the user, which may be those of other commands too
	}
	attributes.Pdeathsig, attributes.Setpgid = syscall.SIGKILL, true
	cmd.SysProcAttr = &attributes
}

func reap(int) (release func()) { return func() {} }

// awaitEnd returns when a child has ended, and leaves it to be waited for.
func awaitEnd(pid int) {
	const byPID = 1
	var info [128]byte // of siginfo_t
	for {
		_, _, err := syscall.Syscall6(syscall.SYS_WAITID, byPID, uintptr(pid), uintptr(unsafe.Pointer(&info)), syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if err != syscall.EINTR {
			return
		}
	}
}
