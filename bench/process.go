package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// asWorker is set in the environment of the processes that are workers.
const asWorker = "LOCKGEN_BENCH_WORKER"

// A process is a worker as its parent sees it.
type process struct {
	library string
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers chan answer // closed when it ends
	failed  error       // after that: the reason
}

// startWorker starts this program once more, as a client of a library. It ends when ctx does.
func startWorker(ctx context.Context, first order) (*process, error) {
	program, there, err := programOf(ctx, first.Library)
	if err != nil {
		return nil, err
	}
	p := &process{library: first.Library, cmd: exec.CommandContext(ctx, program), answers: make(chan answer, 1)}
	p.cmd.Env = append(os.Environ(), asWorker+"=1")
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.answers)
		for answers := json.NewDecoder(out); ; {
			var a answer
			if p.failed = answers.Decode(&a); p.failed != nil {
				return
			}
			p.answers <- a
		}
	}()
	first.Op, first.Library = "open", there
	if _, err := p.do(first); err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// twoWorkers starts two workers of a library. end ends both.
func twoWorkers(ctx context.Context, first order) (a, b *process, end func(), err error) {
	if a, err = startWorker(ctx, first); err != nil {
		return nil, nil, nil, err
	}
	if b, err = startWorker(ctx, first); err != nil {
		a.end()
		return nil, nil, nil, err
	}
	return a, b, func() { b.end(); a.end() }, nil
}

// end ends the process, even if it is busy.
func (p *process) end() {
	_ = p.in.Close()
	_ = p.cmd.Process.Kill()
	for range p.answers { // until all its answers are read
	}
	_ = p.cmd.Wait()
}

// connections returns how many sockets the process has open. It works on Linux.
func (p *process) connections() (n int, err error) {
	dir := fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid)
	files, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		if to, err := os.Readlink(filepath.Join(dir, file.Name())); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n, nil
}

func (p *process) send(o order) error { return json.NewEncoder(p.in).Encode(o) }

// answerWithin is the time limit of a worker for everything except the waits of its order.
const answerWithin = 30 * time.Second

// errHung means that a library does not return.
var errHung = errors.New("no answer")

// receive waits for the answer to an order.
func (p *process) receive(d time.Duration) (answer, error) {
	select {
	case a, ok := <-p.answers:
		if !ok {
			return a, fmt.Errorf("%s: the worker ended: %w", p.library, p.failed)
		}
		if a.Err != "" {
			return a, fmt.Errorf("%s: %s", p.library, a.Err)
		}
		return a, nil
	case <-time.After(d):
		return answer{}, fmt.Errorf("%s: %w within %v", p.library, errHung, d)
	}
}

func (p *process) do(o order) (answer, error) {
	if err := p.send(o); err != nil {
		return answer{}, err
	}
	return p.receive(answerWithin + o.Length + o.Patience)
}

// doAll gives each process its order and waits for all answers.
func doAll(ps []*process, orders []order) ([]answer, error) {
	for i, p := range ps {
		if err := p.send(orders[i]); err != nil {
			return nil, err
		}
	}
	answers := make([]answer, len(ps))
	for i, p := range ps {
		var err error
		if answers[i], err = p.receive(answerWithin + orders[i].Length + orders[i].Patience); err != nil {
			return nil, err
		}
	}
	return answers, nil
}
