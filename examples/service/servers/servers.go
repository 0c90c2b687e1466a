// Package servers starts PostgreSQL and Redis as child processes, on free ports. On Linux they end when this process
// does, however it ends.
package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A Server is a process that listens on one port. It can be killed and started again.
type Server struct {
	URL string

	program string
	command func(port string) *exec.Cmd
	ready   func(ctx context.Context) error // returns nil once the server answers
	dir     string                          // removed at the end
	port    int
	release func()

	run *run // nil while it does not run
}

// A run is one process of a server.
type run struct {
	process *os.Process
	ended   chan struct{}
	err     error // why it ended
	said    output
}

// output is the output of a process.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// open reserves a port and a directory.
func open(program string) (*Server, error) {
	port, release, err := redistest.ReservePort()
	if err != nil {
		return nil, fmt.Errorf("servers: %s: %w", program, err)
	}
	dir, err := os.MkdirTemp("", "lockgen-"+program+"-")
	if err != nil {
		release()
		return nil, fmt.Errorf("servers: %s: %w", program, err)
	}
	return &Server{program: program, dir: dir, port: port, release: release}, nil
}

func (s *Server) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Start starts the process and returns when it answers. It fails if the process or ctx ends before that.
func (s *Server) Start(ctx context.Context) error {
	if s.run != nil {
		return fmt.Errorf("servers: start %s: it runs already", s.program)
	}
	r := &run{ended: make(chan struct{})}
	cmd := s.command(strconv.Itoa(s.port))
	cmd.Stdout, cmd.Stderr = &r.said, &r.said
	if err := redistest.Start(cmd); err != nil {
		return fmt.Errorf("servers: start %s: %w", s.program, err)
	}
	r.process, s.run = cmd.Process, r
	go func() {
		defer close(r.ended)
		r.err = cmd.Wait()
	}()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		err := s.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-r.ended:
			s.run = nil
			return fmt.Errorf("servers: start %s: %w\n%s", s.program, errors.Join(errors.New("it has ended"), r.err), r.said.String())
		case <-ctx.Done():
			return fmt.Errorf("servers: start %s: %w, last: %w\n%s", s.program, context.Cause(ctx), err, r.said.String())
		}
	}
}

// Kill ends the process as a crash does, and returns when it is gone. A second call does nothing.
func (s *Server) Kill() {
	if s.run == nil {
		return
	}
	_ = s.run.process.Kill() // an error means that it has ended already
	<-s.run.ended
	s.run = nil
}

// Close kills the process and removes its files.
func (s *Server) Close() error {
	s.Kill()
	s.release()
	return os.RemoveAll(s.dir)
}
