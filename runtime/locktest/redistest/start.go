package redistest

import (
	"os/exec"
	"runtime"
)

// Start starts cmd, of any program. On Linux it ends when this process does, however that ends: also when a test binary runs out of
// time, and cleans up nothing. Wait for it as for any other.
func Start(cmd *exec.Cmd) error {
	dieWithParent(cmd)
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the kernel takes the end of this thread for that of the process
		err := cmd.Start()
		started <- err
		if err == nil {
			awaitEnd(cmd.Process.Pid)
		}
	}()
	return <-started
}
