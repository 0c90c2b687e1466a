package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// A server is the Redis of all measurements, with a connection to observe it.
type server struct {
	addr string
	rc   rueidis.Client
	own  bool // started by this program, which may empty it
	stop func()
}

// openServer returns the server of REDIS_URL, or one that it starts.
func openServer(ctx context.Context) (*server, error) {
	s := &server{stop: func() {}}
	if url := os.Getenv("REDIS_URL"); url != "" {
		s.addr = strings.TrimPrefix(url, "redis://")
	} else if err := s.start(ctx); err != nil {
		return nil, err
	}
	if err := s.observe(); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// observe opens the connection to observe the server. It sends no PING at rest, which would count as one of a library.
func (s *server) observe() (err error) {
	option := rueidisOption(s.addr)
	option.Dialer.KeepAlive = 24 * time.Hour
	s.rc, err = rueidis.NewClient(option)
	return err
}

func (s *server) close() {
	s.rc.Close()
	s.stop()
}

// start starts a redis-server on a port that is free, with these options besides.
func (s *server) start(ctx context.Context, options ...string) error {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	port := free.Addr().(*net.TCPAddr).Port
	_ = free.Close()
	dir, err := os.MkdirTemp("", "lockgen-bench")
	if err != nil {
		return err
	}
	options = append([]string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--dir", dir}, options...)
	cmd := exec.CommandContext(ctx, cmp.Or(os.Getenv("LOCKGEN_REDIS_SERVER"), "redis-server"), options...)
	fail := func(err error) error { return errors.Join(err, os.RemoveAll(dir)) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fail(err)
	}
	if err := cmd.Start(); err != nil {
		return fail(fmt.Errorf("set REDIS_URL or install redis-server: %w", err))
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "Ready to accept connections") {
			go func() {
				for lines.Scan() { // so that it never blocks on its log
				}
			}()
			s.addr, s.own = net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), true
			s.stop = func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				_ = os.RemoveAll(dir)
			}
			return nil
		}
	}
	return fail(fmt.Errorf("redis-server ended: %w", cmd.Wait()))
}

// empty deletes all keys of a server that this program started. Elsewhere they expire.
func (s *server) empty() error {
	if !s.own {
		return nil
	}
	return s.rc.Do(context.Background(), s.rc.B().Flushall().Build()).Error()
}

// A probe has the counters of the server.
type probe struct {
	at          time.Time
	commands    map[string]float64 // calls by name, those from scripts too
	cpu         time.Duration
	connections float64
	memory      float64 // bytes that the server uses, the buffers of its clients among them
	channels    float64
	reads       float64 // of the connections of its clients
	version     string
}

func (s *server) probe() (probe, error) {
	text, err := s.rc.Do(context.Background(), s.rc.B().Info().Section("everything").Build()).ToString()
	if err != nil {
		return probe{}, err
	}
	return parseInfo(text), nil
}

func parseInfo(text string) probe {
	p := probe{at: time.Now(), commands: map[string]float64{}}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			continue
		}
		number, _ := strconv.ParseFloat(value, 64)
		switch command, isCommand := strings.CutPrefix(name, "cmdstat_"); {
		case isCommand:
			calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			p.commands[command], _ = strconv.ParseFloat(calls, 64)
		case name == "used_cpu_user", name == "used_cpu_sys":
			p.cpu += time.Duration(number * float64(time.Second))
		case name == "used_memory":
			p.memory = number
		case name == "connected_clients":
			p.connections = number
		case name == "pubsub_channels":
			p.channels = number
		case name == "total_reads_processed":
			p.reads = number
		case name == "redis_version":
			p.version = value
		}
	}
	return p
}

// ours are the commands that observe the server.
var ours = []string{"info", "flushall", "config|get"}

// always are the commands that no script sends here.
var always = []string{"evalsha", "eval", "subscribe", "unsubscribe", "ssubscribe", "sunsubscribe", "psubscribe", "hello", "ping", "auth", "select", "multi", "exec"}

// since returns how many commands clients of lib sent since p, and how many more their scripts called. Redis counts both
// together.
func (q probe) since(p probe, lib library) (sent, called float64) {
	for name, calls := range q.commands {
		n := calls - p.commands[name]
		kind, _, _ := strings.Cut(name, "|")
		switch {
		case slices.Contains(ours, name):
		case slices.Contains(always, name), slices.Contains(lib.direct, name), kind == "client", kind == "script", kind == "command":
			sent += n
		default:
			called += n
		}
	}
	if lib.reads {
		read := q.commands["client|caching"] - p.commands["client|caching"]
		sent, called = sent+read, called-read
	}
	return sent, called
}

// machine describes the machine of the figures, and whether it did anything else.
func (s *server) machine(cpus int, goVersion string) (string, error) {
	p, err := s.probe()
	if err != nil {
		return "", err
	}
	model := "unknown processor"
	if text, err := os.ReadFile(filepath.Join("/proc", "cpuinfo")); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	load := "unknown"
	if text, err := os.ReadFile(filepath.Join("/proc", "loadavg")); err == nil {
		load, _, _ = strings.Cut(string(text), " ")
	}
	return fmt.Sprintf("%d cores (%s), Redis %s on loopback, %s; load average when it began: %s", cpus, model, p.version, goVersion, load), nil
}
