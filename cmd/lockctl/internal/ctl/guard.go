package ctl

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// guardVerb makes lockctl the guard of a command: a process that kills the command when the lock may end and lockctl run has not done
// so itself, because it was stopped or killed. Nobody but lockctl run calls it.
const guardVerb = "-guard"

// A guard is that process. A nil guard does nothing.
type guard struct {
	cmd *exec.Cmd
	in  *os.File
}

// startGuard starts a guard. left is the time until it kills the command.
func startGuard(left time.Duration) (*guard, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = read.Close() }()
	cmd := exec.Command(path, guardVerb)
	cmd.Stdin = read
	guardAlone(cmd)
	if err := cmd.Start(); err != nil {
		_ = write.Close()
		return nil, err
	}
	g := &guard{cmd, write}
	g.extend(left)
	return g, nil
}

// say sends a line. It does not wait for a guard that does not read.
func (g *guard) say(words ...any) {
	if g != nil {
		_ = g.in.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)) // not on every system
		_, _ = fmt.Fprintln(g.in, words...)
	}
}

// watch names the process of the command, which leads its process group.
func (g *guard) watch(pid int, left time.Duration) { g.say("watch", pid, left.Milliseconds()) }

// extend sets the time until the guard kills the command.
func (g *guard) extend(left time.Duration) { g.say("extend", 0, left.Milliseconds()) }

// dismiss ends the guard. The command has ended.
func (g *guard) dismiss() {
	if g == nil {
		return
	}
	g.say("dismiss")
	_ = g.in.Close()
	go func() { _ = g.cmd.Wait() }() // its exit code means nothing
}

// guardCommand is the guard. It kills the command when its time is over, or when its input ends without a dismissal, and ends.
func guardCommand(in io.Reader) int {
	ignoreSignals()
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(in); s.Scan(); {
			lines <- s.Text()
		}
	}()
	pid := 0
	over := time.NewTimer(time.Hour)
	defer over.Stop()
	for {
		select {
		case line, ok := <-lines:
			words := strings.Fields(line)
			if !ok {
				killGroup(pid)
				return exitOK
			}
			if len(words) != 3 {
				return exitOK
			}
			if words[0] == "watch" {
				pid, _ = strconv.Atoi(words[1])
			}
			ms, _ := strconv.Atoi(words[2])
			over.Reset(time.Duration(ms) * time.Millisecond)
		case <-over.C:
			if pid != 0 {
				killGroup(pid)
				return exitOK
			}
			over.Reset(time.Second) // the command starts
		}
	}
}
