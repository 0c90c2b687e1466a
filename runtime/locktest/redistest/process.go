package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// readyLine is what every Redis and Valkey logs once it accepts connections.
const readyLine = "Ready to accept connections"

// A process is one server that may die and come back on its port.
type process struct {
	binary string
	dir    string
	config []string
	env    []string
	port   int
	kept   []port // its own ones: to be released with it

	cluster  bool     // it is a node of one
	bus      int      // the port by which it talks to the others
	watches  *process // of a sentinel: its master
	tls      *tlsFiles
	tlsPort  int
	password string

	mu    sync.Mutex
	run   *run
	admin rueidis.Client // of the current run, made when first needed
}

// A run is one life of a server process.
type run struct {
	process *os.Process
	ready   chan struct{}
	exited  chan struct{} // closed when the process is gone and waited for
	stopped bool          // guarded by the mutex of the process

	mu  sync.Mutex
	log []string // the last lines it printed
}

func newProcess(dir string) *process { return &process{dir: dir} }

// binary finds the server program or ends the test.
func binary(tb testing.TB) string {
	tb.Helper()
	path, err := findBinary()
	switch {
	case err == nil:
		return path
	case os.Getenv("CI") != "":
		tb.Fatalf("redistest: %v", err)
	default:
		tb.Skipf("redistest: %v", err)
	}
	return ""
}

// Installed reports whether there is a server to start.
func Installed() bool {
	_, err := findBinary()
	return err == nil
}

func findBinary() (string, error) {
	name := os.Getenv("LOCKGEN_REDIS_SERVER")
	if name == "" {
		name = "redis-server"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w; install it (apt-get install redis-server, brew install redis) or name one in $LOCKGEN_REDIS_SERVER", err)
	}
	return path, nil
}

func (p *process) addr() string { return address(p.port) }

func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return 0
	}
	return p.run.process.Pid
}

// start runs the server and returns when it accepts connections. The first start
// chooses the port.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.port != 0 {
		var err error
		for over := time.Now().Add(opTimeout); ; {
			if err = p.launch(); !errors.Is(err, errNoPort) || time.Now().After(over) {
				return err
			}
		}
	}
	for range 50 {
		if err := p.choose(); err != nil {
			return err
		}
		err := p.launch()
		if !errors.Is(err, errNoPort) {
			return err
		}
	}
	return fmt.Errorf("redistest: no free port from %d to %d", firstPort, lastPort)
}

// choose gives the server other ports.
func (p *process) choose() error {
	p.release()
	wanted := []*int{&p.port}
	if p.cluster {
		wanted = append(wanted, &p.bus)
	}
	if p.tls != nil {
		wanted = append(wanted, &p.tlsPort)
	}
	for _, number := range wanted {
		port, err := reserve()
		if err != nil {
			return err
		}
		p.kept = append(p.kept, port)
		*number = port.number
	}
	return nil
}

func (p *process) release() {
	for _, port := range p.kept {
		port.release()
	}
	p.kept = nil
}

func (p *process) launch() error {
	r := &run{ready: make(chan struct{}), exited: make(chan struct{})}
	cmd := exec.Command(p.binary, p.args()...)
	cmd.Env = append(os.Environ(), p.env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	cmd.Stderr = cmd.Stdout
	started := make(chan error)
	go r.live(cmd, out, started)
	if err := <-started; err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	select {
	case <-r.ready:
		p.run = r
		return nil
	case <-r.exited:
		if r.printed("Address already in use") {
			return errNoPort
		}
		return fmt.Errorf("redistest: %s ended while starting:\n%s", p.binary, r.output())
	case <-time.After(opTimeout):
		_ = r.process.Kill()
		<-r.exited
		return fmt.Errorf("redistest: %s not ready after %v:\n%s", p.binary, opTimeout, r.output())
	}
}

func (p *process) args() []string {
	if p.watches != nil {
		return p.sentinelArgs()
	}
	var others []string // ports
	if p.cluster {
		others = append(others, "--cluster-port", strconv.Itoa(p.bus))
	}
	for _, directive := range p.secured() {
		others = append(others, "--"+directive[0], directive[1])
	}
	args := []string{
		"--port", strconv.Itoa(p.port),
		"--bind", "127.0.0.1",
		"--protected-mode", "no",
		"--daemonize", "no",
		"--save", "",
		"--appendonly", "no",
		"--dir", p.dir,
		"--dbfilename", fmt.Sprintf("lockgen-%d-%d.rdb", os.Getpid(), p.port),
		"--logfile", "",
	}
	return slices.Concat(args, others, p.config)
}

// peerPort is where other servers reach this one.
func (p *process) peerPort() int {
	if p.tls != nil {
		return p.tlsPort
	}
	return p.port
}

func (p *process) peerAddr() string { return address(p.peerPort()) }

// live starts the process and stays with it until it ends. It keeps its thread,
// because Linux kills the process when the thread that started it is gone, which
// must not be sooner than the test binary.
func (r *run) live(cmd *exec.Cmd, out io.Reader, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	r.process = cmd.Process
	release := reap(cmd.Process.Pid)
	started <- nil

	lines := bufio.NewScanner(out)
	ready := false
	for lines.Scan() {
		r.note(lines.Text())
		if !ready && (strings.Contains(lines.Text(), readyLine) || strings.Contains(lines.Text(), sentinelReady)) {
			ready = true
			close(r.ready)
		}
	}
	if err := cmd.Wait(); err != nil {
		r.note(err.Error()) // it was killed, or this comes after its last words
	}
	release()
	close(r.exited)
}

func (r *run) note(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	const keep = 40
	if len(r.log) == keep {
		r.log = r.log[1:]
	}
	r.log = append(r.log, line)
}

func (r *run) output() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.log, "\n")
}

func (r *run) printed(text string) bool { return strings.Contains(r.output(), text) }

// kill ends the current run, if there is one.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.admin != nil {
		p.admin.Close()
		p.admin = nil
	}
	if p.run == nil {
		return
	}
	_ = p.run.process.Kill() // an error means that it is gone, which exited tells
	<-p.run.exited
	p.run = nil
}

// close kills the server for good and removes what persistence may have left
// where the test framework would not.
func (p *process) close() {
	p.kill()
	p.release()
	left, _ := filepath.Glob(filepath.Join(p.dir, fmt.Sprintf("lockgen-%d-%d.rdb", os.Getpid(), p.port)))
	for _, name := range left {
		_ = os.Remove(name)
	}
}

// suspend stops the process and returns when it has stopped.
func (p *process) suspend() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return fmt.Errorf("redistest: stop %s: it is not running", p.addr())
	}
	if p.run.stopped {
		return nil
	}
	if err := stopProcess(p.run.process); err != nil {
		return fmt.Errorf("redistest: stop %s: %w", p.addr(), err)
	}
	p.run.stopped = true
	return nil
}

// resume undoes suspend.
func (p *process) resume() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return fmt.Errorf("redistest: continue %s: it is not running", p.addr())
	}
	if err := continueProcess(p.run.process); err != nil {
		return fmt.Errorf("redistest: continue %s: %w", p.addr(), err)
	}
	p.run.stopped = false
	return nil
}

func (p *process) adminClient() (rueidis.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return nil, fmt.Errorf("redistest: %s is not running", p.addr())
	}
	if p.admin == nil {
		c, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{p.addr()}, Password: p.password, ForceSingleClient: true, DisableCache: true,
			AlwaysPipelining: true, PipelineMultiplex: -1, // one connection, whatever runs beside
		})
		if err != nil {
			return nil, fmt.Errorf("redistest: connect to %s: %w", p.addr(), err)
		}
		p.admin = c
	}
	return p.admin, nil
}
