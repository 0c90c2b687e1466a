package ctl

import (
	"os"
	"os/exec"
	"syscall"
)

var passedOn = []os.Signal{os.Interrupt, syscall.SIGTERM}

func alone(*exec.Cmd) {}

// pass ends the command: Windows has no signals to pass on but Ctrl-C, which the console sends to
// all processes.
func pass(cmd *exec.Cmd, s os.Signal) {
	if s != os.Interrupt {
		_ = cmd.Process.Kill()
	}
}

func status(state *os.ProcessState) int { return state.ExitCode() }

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
