package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	lockrt "github.com/lockgen/lockgen/runtime"
)

// A fleet is many clients of one server. Each holds some locks, which are renewed, and waits for a lock of the next client.
type fleet struct {
	clients int
	held    int           // locks for each client
	lease   time.Duration // Options.Watchdog
}

// rest is how long a fleet is watched at rest: three renewals of each lock.
func (f fleet) rest() time.Duration { return f.lease }

// A fleetRun is what a fleet cost. Times and bytes are of the server, unless their names say otherwise.
type fleetRun struct {
	fleet
	connections float64       // at rest
	opening     time.Duration // CPU for connecting all clients
	locking     time.Duration // CPU for taking all locks, and for all that wait
	memory      float64       // bytes beyond those of a server without clients
	clientHeap  float64       // bytes of one client
	commands    float64       // a second, at rest
	pings       float64       // of these, by which connections are checked
	cpu         float64       // cores, at rest
	clientCPU   float64       // cores of all clients together, at rest
	storm       time.Duration // CPU from the end of all connections until all are there again
	stormTook   time.Duration
	longestPing time.Duration // meanwhile
	lost        uint64        // leases, in all
	handing     time.Duration // CPU for handing over one lock of each client
}

// measure runs the fleet on a server of its own.
func (f fleet) measure(ctx context.Context) (run fleetRun, err error) {
	run.fleet = f
	s := &server{stop: func() {}}
	if err := s.start(ctx, "--maxclients", "20000"); err != nil {
		return run, err
	}
	defer func() { s.stop() }()
	if s.rc, err = rueidisClient(s.addr); err != nil {
		return run, err
	}
	defer s.rc.Close()
	empty, err := s.probe()
	if err != nil {
		return run, err
	}
	heap := use(true).Heap

	members := make([]*member, f.clients)
	defer func() { err = errors.Join(err, each(members, (*member).close)) }()
	for i := range members {
		members[i] = &member{fleet: f, addr: s.addr, at: i}
	}
	if err := each(members, (*member).open); err != nil {
		return run, err
	}
	opened, err := s.probe()
	if err != nil {
		return run, err
	}
	if err := each(members, (*member).hold); err != nil {
		return run, err
	}
	if err := each(members, (*member).wait); err != nil {
		return run, err
	}
	if err := s.until(ctx, func(p probe) bool { return int(p.channels) >= f.clients }); err != nil {
		return run, fmt.Errorf("subscribing: %w", err)
	}
	if err := sleep(ctx, 2*time.Second); err != nil { // the part that a client does once, when it begins to wait
		return run, err
	}
	before, mine := s.mustProbe(), use(true)
	if err := sleep(ctx, f.rest()); err != nil {
		return run, err
	}
	after, late := s.mustProbe(), use(false)
	seconds := after.at.Sub(before.at).Seconds()
	run.connections = after.connections - empty.connections
	run.opening, run.locking = opened.cpu-empty.cpu, before.cpu-opened.cpu
	run.memory = after.memory - empty.memory
	run.clientHeap = (mine.Heap - heap) / float64(f.clients)
	sent, _ := after.since(before, library{reads: true})
	run.commands = sent / seconds
	run.pings = (after.commands["ping"] - before.commands["ping"]) / seconds
	run.cpu = (after.cpu - before.cpu).Seconds() / seconds
	run.clientCPU = (late.CPU - mine.CPU).Seconds() / seconds

	if err := s.storm(ctx, &run); err != nil {
		return run, err
	}
	for _, m := range members {
		run.lost += m.c.Stats().Losses
	}
	before = s.mustProbe()
	if err := each(members, (*member).handOver); err != nil {
		return run, err
	}
	run.handing = s.mustProbe().cpu - before.cpu
	fmt.Fprintf(os.Stderr, "%d clients of %d locks: %.0f connections, %d leases lost\n", f.clients, f.held, run.connections, run.lost)
	return run, nil
}

// storm ends all connections of the fleet at once, as a failover does.
func (s *server) storm(ctx context.Context, run *fleetRun) error {
	pinged := make(chan time.Duration)
	done := make(chan struct{})
	before := s.mustProbe()
	for _, kind := range []string{"normal", "pubsub"} {
		kill := s.rc.B().Arbitrary("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes").Build()
		if err := s.rc.Do(ctx, kill).Error(); err != nil {
			return err
		}
	}
	go func() {
		var longest time.Duration
		for {
			select {
			case <-done:
				pinged <- longest
				return
			default:
			}
			start := time.Now()
			_ = s.rc.Do(ctx, s.rc.B().Ping().Build()).Error()
			longest = max(longest, time.Since(start))
		}
	}()
	err := s.until(ctx, func(p probe) bool { return int(p.channels) >= run.clients })
	close(done)
	run.longestPing = <-pinged
	if err != nil {
		return fmt.Errorf("subscribing again: %w", err)
	}
	after := s.mustProbe()
	run.stormTook = after.at.Sub(before.at)
	// The other connections follow when a lock is renewed the next time.
	if err := sleep(ctx, run.lease/3); err != nil {
		return err
	}
	last := s.mustProbe()
	run.storm = last.cpu - before.cpu - time.Duration(run.cpu*float64(last.at.Sub(before.at)))
	return nil
}

// until looks at the server until it is as is wanted, for a minute.
func (s *server) until(ctx context.Context, wanted func(probe) bool) error {
	for range 1200 {
		p, err := s.probe()
		if err == nil && wanted(p) {
			return nil
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return errors.New("not within a minute")
}

// mustProbe looks at a server that is known to answer. If it does not, the figures are of no use.
func (s *server) mustProbe() probe {
	p, err := s.probe()
	if err != nil {
		panic(fmt.Sprintf("the server that was started here does not answer: %v", err))
	}
	return p
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// each calls f for all members, 64 at a time, and returns the first error.
func each(members []*member, f func(*member) error) error {
	var wg sync.WaitGroup
	var once sync.Once
	var first error
	turns := make(chan struct{}, 64)
	for _, m := range members {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			if err := f(m); err != nil {
				once.Do(func() { first = fmt.Errorf("client %d: %w", m.at, err) })
			}
		})
	}
	wg.Wait()
	return first
}

// A member is one client of a fleet.
type member struct {
	fleet
	addr   string
	at     int
	c      *lockrt.Client
	leases []*lockrt.Lease
	cancel context.CancelFunc
	served chan error // the result of waiting
}

func (m *member) open() (err error) {
	m.c, err = lockrt.Open(context.Background(), "redis://"+m.addr, lockrt.Options{Watchdog: m.lease})
	return err
}

func (m *member) key(of, number int) string { return fmt.Sprintf("fleet:%d:%d", of%m.clients, number) }

func (m *member) hold() error {
	for i := range m.held {
		l, err := m.c.Mutex(m.key(m.at, i)).Lock(context.Background())
		if err != nil {
			return err
		}
		m.leases = append(m.leases, l)
	}
	return nil
}

// wait has a goroutine wait for the first lock of the next member.
func (m *member) wait() error {
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel, m.served = cancel, make(chan error, 1)
	go func() {
		_, err := m.c.Mutex(m.key(m.at+1, 0)).Lock(ctx)
		m.served <- err
	}()
	return nil
}

// handOver gives the first lock to the member before this one.
func (m *member) handOver() error {
	err := m.leases[0].Unlock(context.Background())
	if errors.Is(err, lockrt.ErrLost) {
		return nil // it is counted
	}
	return err
}

func (m *member) close() error {
	if m.c == nil {
		return nil
	}
	if m.cancel != nil {
		m.cancel()
	}
	return m.c.Close()
}
