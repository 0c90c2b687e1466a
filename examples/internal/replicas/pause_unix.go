//go:build unix

package replicas

import (
	"os"
	"os/signal"
	"syscall"
)

// Pause pauses this process until [Group.Resume], as happens on a machine that is out of memory or moves to another
// host.
func Pause() error {
	resumed := make(chan os.Signal, 1)
	signal.Notify(resumed, syscall.SIGCONT)
	defer signal.Stop(resumed)
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		return err
	}
	<-resumed
	return nil
}

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
