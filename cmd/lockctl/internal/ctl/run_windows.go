package ctl

import (
	"os"
	"os/exec"
	"syscall"
)

var ending = []os.Signal{os.Interrupt, syscall.SIGTERM}

var passedOn = ending

func alone(*exec.Cmd) {}

// pass ends the command: Windows has no signals to pass on but Ctrl-C, which the console sends to
// all processes.
func pass(cmd *exec.Cmd, s os.Signal) {
	if s != os.Interrupt {
		_ = cmd.Process.Kill()
	}
}

// A job does nothing: Windows has no process groups that a terminal stops.
type job struct{ again chan struct{} }

func newJob(*exec.Cmd, chan<- os.Signal) *job { return &job{} }

func (*job) signal(cmd *exec.Cmd, s os.Signal) { pass(cmd, s) }
func (*job) stopped(syscall.Signal)            {}
func (*job) resume()                           {}
func (*job) end()                              {}

// wait waits for the end of the command and returns its exit code.
func wait(cmd *exec.Cmd, _ chan<- syscall.Signal) int {
	_ = cmd.Wait() // an exit code other than 0 is an error
	return cmd.ProcessState.ExitCode()
}

func number(s os.Signal) int {
	if s == os.Interrupt {
		return 2
	}
	return 15
}

func guardAlone(*exec.Cmd) {}

func ignoreSignals() {}

// killGroup kills a process.
func killGroup(pid int) {
	if p, err := os.FindProcess(pid); err == nil && pid != 0 {
		_ = p.Kill()
	}
}
