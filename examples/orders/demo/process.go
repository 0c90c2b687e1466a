package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// replicaVar holds a replicaConfig in the environment of a replica.
const replicaVar = "LOCKGEN_ORDERS_REPLICA"

// stopping is the time limit for a replica to end when it has to stop.
const stopping = 2 * time.Second

// replicaConfig is the configuration of a replica.
type replicaConfig struct {
	Replica int
	URL     string
	Run     string // names the records
	Orders  int
	Work    time.Duration
	Locked  bool
}

// A process is a replica as its parent sees it. It ends when its standard input ends, so it cannot
// outlive the parent.
type process struct {
	replica int
	cmd     *exec.Cmd
	stdin   io.WriteCloser
}

// start starts this program again, as a replica. It sends the replica's events to events, and
// finally hasEnded.
func start(ctx context.Context, cfg replicaConfig, events chan<- event) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start replica %d: %w", cfg.Replica, err)
	}
	env, err := json.Marshal(cfg)
	if err != nil {
		return nil, fmt.Errorf("start replica %d: %w", cfg.Replica, err)
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), replicaVar+"="+string(env))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start replica %d: %w", cfg.Replica, err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start replica %d: %w", cfg.Replica, err)
	}
	cmd.Cancel = stdin.Close
	cmd.WaitDelay = 2 * stopping
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start replica %d: %w", cfg.Replica, err)
	}
	p := &process{replica: cfg.Replica, cmd: cmd, stdin: stdin}
	go p.listen(stdout, events)
	return p, nil
}

// listen passes on the replica's events until it has ended.
func (p *process) listen(stdout io.Reader, events chan<- event) {
	end := event{Replica: p.replica, Kind: hasEnded}
	told := json.NewDecoder(stdout)
	for {
		var e event
		err := told.Decode(&e)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, os.ErrClosed) {
			break
		}
		if err != nil {
			end.Err = err.Error()
			_, _ = io.Copy(io.Discard, stdout)
			break
		}
		events <- e
	}
	if err := p.cmd.Wait(); err != nil {
		end.Err = err.Error()
	}
	events <- end
}

// begin makes the replica start its work. If it is dead, listen reports so.
func (p *process) begin() { _, _ = io.WriteString(p.stdin, "begin\n") }

// kill ends the replica as a crash does.
func (p *process) kill() { _ = p.cmd.Process.Kill() }
