//go:build unix

package redistest

import (
	"errors"
	"os"
	"syscall"
)

// stopProcess suspends a child and waits until the system says that it stands
// still, which is a moment after the signal was sent.
func stopProcess(proc *os.Process) error {
	if err := proc.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(proc.Pid, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return os.NewSyscallError("wait4", err)
		case !status.Stopped():
			return os.ErrProcessDone
		default:
			return nil
		}
	}
}

func continueProcess(proc *os.Process) error { return proc.Signal(syscall.SIGCONT) }
