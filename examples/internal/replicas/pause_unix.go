//go:build unix

package replicas

import (
	"os"
	"os/signal"
	"syscall"
)

// Pause stops this process, as a machine does that is out of memory or moved to another host, until [Group.Resume].
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
