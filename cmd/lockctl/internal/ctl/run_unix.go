//go:build unix

package ctl

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// ending are the signals that end the wait for the lock.
var ending = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM,
}

// passedOn are the signals that lockctl passes on to the command.
var passedOn = append(ending[:len(ending):len(ending)], syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGTSTP)

// alone makes the command run in a process group of its own.
func alone(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	withParent(cmd.SysProcAttr)
}

// pass sends a signal to the command and to its child processes.
func pass(cmd *exec.Cmd, s os.Signal) {
	if n, ok := s.(syscall.Signal); ok {
		_ = syscall.Kill(-cmd.Process.Pid, n) // an error means that the command has ended
	}
}

func number(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return int(n)
	}
	return 0
}

// guardAlone gives a guard a process group of its own, so that no signal to lockctl reaches it.
func guardAlone(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// ignoreSignals makes this process outlive the signals that end others with it.
func ignoreSignals() { signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM) }

// killGroup kills a process and its process group.
func killGroup(pid int) {
	if pid > 1 {
		_ = syscall.Kill(-pid, syscall.SIGKILL) // it may have ended
	}
}
