//go:build unix

package ctl

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A job gives the terminal of lockctl to the command, which has a process group of its own, and takes it back. The command gets the
// terminal when it stops because it reads from the terminal; a command that does not read leaves it to the other programs of its
// pipeline. When the command stops for another reason, lockctl stops, too, so that the shell can go on.
type job struct {
	tty     int // the controlling terminal, -1 without one
	own     int // the process group of lockctl
	command int // that of the command
	state   jobState
	asked   int // how often the command has asked for the terminal in vain since lockctl last went on
	signals chan<- os.Signal
	again   chan struct{} // receives when lockctl goes on, or could not stop
}

type jobState int

const (
	without   jobState = iota // the command has not needed the terminal
	wants                     // the command has stopped for want of the terminal, or had it when it stopped
	inControl                 // the command has the terminal
)

// mostAsked is how often the command asks in vain before lockctl takes its own process group for one that no shell stops and no shell lets
// go on.
const mostAsked = 4

// newJob returns the job of a command that has started.
func newJob(cmd *exec.Cmd, signals chan<- os.Signal) *job {
	tty, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		tty = -1
	} else {
		signal.Ignore(syscall.SIGTTOU) // or taking the terminal back would stop lockctl
	}
	own, _ := unix.Getpgid(0) // it cannot fail
	return &job{tty: tty, own: own, command: cmd.Process.Pid, signals: signals, again: make(chan struct{}, 1)}
}

// group returns the process group that has the terminal.
func (j *job) group() int {
	g, err := unix.IoctlGetInt(j.tty, unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return g
}

func (j *job) give(group int) { _ = unix.IoctlSetPointerInt(j.tty, unix.TIOCSPGRP, group) } // an error means that the terminal is gone

// signal passes a signal to lockctl on to the command.
func (j *job) signal(cmd *exec.Cmd, s os.Signal) {
	if s == syscall.SIGCONT {
		j.asked = 0
		j.resume()
		return
	}
	pass(cmd, s)
}

// stopped is called when the command has stopped because of a signal.
func (j *job) stopped(s syscall.Signal) {
	reads := s == syscall.SIGTTIN || s == syscall.SIGTTOU
	switch {
	case j.tty < 0 || s == syscall.SIGSTOP && j.state != inControl:
		return // the program that has stopped it lets it go on
	case reads:
		j.state = wants
		if g := j.group(); g == j.own || g == j.command {
			j.resume()
			return
		}
		if j.asked++; j.asked >= mostAsked {
			j.hangUp()
			return
		}
	}
	signal.Ignore(syscall.SIGTSTP) // until lockctl goes on: the signal to its own group could arrive only then, and be passed on to the command
	if reads {
		_ = syscall.Kill(0, syscall.SIGTTIN) // as if the group of lockctl had read
	} else {
		if j.state == inControl {
			j.state = wants
			j.give(j.own)
			_ = syscall.Kill(0, syscall.SIGTSTP) // as if the group of lockctl had had the terminal
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGTTIN) // SIGTSTP stops no program of Go that has once asked for it
	}
	time.AfterFunc(100*time.Millisecond, func() { // a group without a shell does not stop, and gets no SIGCONT
		select {
		case j.again <- struct{}{}:
		default:
		}
	})
}

// hangUp ends the command as the kernel ends a stopped job whose shell is gone. A command that ignores this stays stopped when it asks for the
// terminal once more.
func (j *job) hangUp() {
	if j.asked == mostAsked {
		_ = syscall.Kill(-j.command, syscall.SIGHUP) // an error means that the command has ended
		_ = syscall.Kill(-j.command, syscall.SIGCONT)
	}
}

// resume lets the command go on. If it wants the terminal and lockctl has it, the command gets it.
func (j *job) resume() {
	if j.tty >= 0 {
		signal.Notify(j.signals, syscall.SIGTSTP)
		g := j.group()
		switch {
		case j.state == without || g == j.command:
		case g == j.own:
			j.give(j.command)
			j.state = inControl
		default:
			j.state = wants
		}
	}
	_ = syscall.Kill(-j.command, syscall.SIGCONT) // an error means that the command has ended
}

// end takes the terminal back from a command that has ended.
func (j *job) end() {
	if j.tty < 0 {
		return
	}
	if j.state == inControl {
		j.give(j.own)
	}
	_ = unix.Close(j.tty)
	signal.Reset(syscall.SIGTTOU)
}

// wait waits for the end of the command and returns its exit code, as a shell does. stops receives the signals that stop the command.
func wait(cmd *exec.Cmd, stops chan<- syscall.Signal) int {
	var w syscall.WaitStatus
	for {
		_, err := syscall.Wait4(cmd.Process.Pid, &w, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err == nil && w.Stopped():
			stops <- w.StopSignal()
			continue
		}
		_ = cmd.Wait() // for its input and output: the process has been waited for
		if w.Signaled() {
			return exitSignalBase + int(w.Signal())
		}
		return w.ExitStatus()
	}
}
