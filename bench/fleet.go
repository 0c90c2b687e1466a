package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
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

// fleetRest is how long a fleet is watched at rest: three renewals of each lock.
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
	sent, _ := after.since(before, nil)
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

// A fleetModel is what one client and one held lock cost.
type fleetModel struct {
	connections, memory, commands, cpu float64 // of one client
	lockMemory, lockCommands, lockCPU  float64 // of one lock
	opening, storm                     time.Duration
	lease                              time.Duration
}

// modelOf returns the model that explains two runs with as many clients, of which the second holds more locks. idle is what a
// server without clients uses.
func modelOf(few, many fleetRun, idle float64) fleetModel {
	clients := float64(few.clients)
	locks := clients * float64(many.held-few.held)
	m := fleetModel{
		lease:        few.lease,
		lockMemory:   (many.memory - few.memory) / locks,
		lockCommands: (many.commands - few.commands) / locks,
		lockCPU:      (many.cpu - few.cpu) / locks,
		opening:      few.opening / time.Duration(few.clients),
		storm:        few.storm / time.Duration(few.clients),
		connections:  few.connections / clients,
	}
	held := float64(few.held)
	m.memory = few.memory/clients - held*m.lockMemory
	m.commands = few.commands/clients - held*m.lockCommands
	m.cpu = (few.cpu-idle)/clients - held*m.lockCPU
	return m
}

// predict says what another fleet costs. Leases that are longer are renewed more rarely; what a client costs besides, which is mostly
// its PINGs, does not depend on them.
func (m fleetModel) predict(f fleet, idle float64) fleetRun {
	clients, locks := float64(f.clients), float64(f.clients*f.held)
	rate := float64(m.lease) / float64(f.lease)
	return fleetRun{
		fleet:       f,
		connections: clients * m.connections,
		memory:      clients*m.memory + locks*m.lockMemory,
		commands:    clients*m.commands + rate*locks*m.lockCommands,
		cpu:         idle + clients*m.cpu + rate*locks*m.lockCPU,
		opening:     time.Duration(f.clients) * m.opening,
		storm:       time.Duration(f.clients) * m.storm,
	}
}

// breaksFirst names what a server with the default settings has too little of, of one kind of resource each, worst first.
func (r fleetRun) breaksFirst() string {
	type bound struct {
		share float64
		text  string
	}
	bounds := []bound{
		{r.connections / maxClients, fmt.Sprintf("maxclients (%d by default)", maxClients)},
		{r.cpu, "the one core of a server"},
		{r.storm.Seconds() / stormBound.Seconds(), fmt.Sprintf("reconnecting within %v", stormBound)},
	}
	worst := slices.MaxFunc(bounds, func(a, b bound) int { return cmp.Compare(a.share, b.share) })
	if worst.share < 1 {
		return fmt.Sprintf("nothing; %s is used to %.0f %%", worst.text, 100*worst.share)
	}
	return fmt.Sprintf("%s, at %.0f clients", worst.text, float64(r.clients)/worst.share)
}

const (
	maxClients = 10_000           // Redis' default
	stormBound = 10 * time.Second // a third of the default watchdog time: after that, leases are at risk
)

// within reports whether the model's figure is at most a quarter off the measured one.
func within(predicted, measured float64) bool {
	return predicted >= 0.75*measured && predicted <= 1.25*measured
}

// measureFleets writes FLEET.md into a folder, or prints it.
func measureFleets(ctx context.Context, folder string) error {
	s, err := openServer(ctx)
	if err != nil {
		return err
	}
	machine, err := s.machine(runtime.NumCPU(), runtime.Version())
	s.close()
	if err != nil {
		return err
	}
	text, err := fleetReport(ctx, machine, []int{1_000, 5_000, 9_000})
	if err != nil {
		return err
	}
	if folder == "" {
		_, err := fmt.Print(text)
		return err
	}
	return os.WriteFile(filepath.Join(folder, "FLEET.md"), []byte(text), 0o644)
}

// fleetReport measures the fleets and returns the page about them.
func fleetReport(ctx context.Context, machine string, sizes []int) (string, error) {
	const lease = 10 * time.Second
	idle, err := idleCPU(ctx, lease)
	if err != nil {
		return "", err
	}
	few, err := fleet{clients: 600, held: 10, lease: lease}.measure(ctx)
	if err != nil {
		return "", err
	}
	many, err := fleet{clients: 600, held: 50, lease: lease}.measure(ctx)
	if err != nil {
		return "", err
	}
	m := modelOf(few, many, idle)
	var runs []fleetRun
	for _, connections := range sizes {
		run, err := fleet{clients: int(float64(connections) / m.connections), held: 20, lease: lease}.measure(ctx)
		if err != nil {
			return "", fmt.Errorf("%d connections: %w", connections, err)
		}
		runs = append(runs, run)
	}
	return m.markdown(machine, idle, few, runs), nil
}

// idleCPU returns what a server without clients uses, in cores.
func idleCPU(ctx context.Context, d time.Duration) (float64, error) {
	s := &server{stop: func() {}}
	if err := s.start(ctx); err != nil {
		return 0, err
	}
	defer func() { s.stop() }()
	var err error
	if s.rc, err = rueidisClient(s.addr); err != nil {
		return 0, err
	}
	defer s.rc.Close()
	before := s.mustProbe()
	if err := sleep(ctx, d); err != nil {
		return 0, err
	}
	after := s.mustProbe()
	return (after.cpu - before.cpu).Seconds() / after.at.Sub(before.at).Seconds(), nil
}

// markdown writes the page.
func (m fleetModel) markdown(machine string, idle float64, few fleetRun, runs []fleetRun) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Fleets

%s. Written by `+"`make fleet`"+`. Each client holds locks that are renewed, with a watchdog time of %v, and has one goroutine that waits for a lock of
another client. All clients are in one program; the server is another. Time and memory are the server's, unless a row says otherwise.

## What one client and one lock cost

The constants of the model, from two fleets of %d clients with %d and 50 locks each.

`, machine, m.lease, few.clients, few.held)
	row(&b, "", "a client", "a lock")
	rule(&b, 3)
	row(&b, "connections", fmt.Sprintf("%.2f", m.connections), "0")
	row(&b, "memory", bytesOf(m.memory), bytesOf(m.lockMemory))
	row(&b, "commands a second at rest", fmt.Sprintf("%.3f", m.commands), fmt.Sprintf("%.4f", m.lockCommands))
	row(&b, "CPU a second at rest", microseconds(m.cpu*1e6), microseconds(m.lockCPU*1e6))
	row(&b, "CPU for connecting", microseconds(float64(m.opening)/1e3), "0")
	row(&b, "CPU for connecting and subscribing again after all connections ended", microseconds(float64(m.storm)/1e3), "0")
	row(&b, "heap of the client, with its share of the locks", bytesOf(few.clientHeap), "")

	b.WriteString("\n## The model beside fleets that were measured\n\n")
	b.WriteString("A cell has the model's figure, and the measured one. The model holds where they differ by at most 25 %.\n\n")
	head := []string{""}
	for _, r := range runs {
		head = append(head, fmt.Sprintf("%d clients of %d locks, %.0f connections", r.clients, r.held, r.connections))
	}
	row(&b, append(head, "holds")...)
	rule(&b, len(head)+1)
	compare := func(name string, value func(fleetRun) float64, format func(float64) string) {
		cells, holds := []string{name}, "yes"
		for _, r := range runs {
			predicted, measured := value(m.predict(r.fleet, idle)), value(r)
			cells = append(cells, format(predicted)+" / "+format(measured))
			if !within(predicted, measured) {
				holds = "**no**"
			}
		}
		row(&b, append(cells, holds)...)
	}
	compare("connections", func(r fleetRun) float64 { return r.connections }, func(v float64) string { return fmt.Sprintf("%.0f", v) })
	compare("memory", func(r fleetRun) float64 { return r.memory }, bytesOf)
	compare("commands a second at rest", func(r fleetRun) float64 { return r.commands }, func(v float64) string { return fmt.Sprintf("%.0f", v) })
	compare("cores at rest", func(r fleetRun) float64 { return r.cpu }, func(v float64) string { return fmt.Sprintf("%.3f", v) })
	compare("CPU for connecting", func(r fleetRun) float64 { return r.opening.Seconds() }, func(v float64) string { return fmt.Sprintf("%.2f s", v) })
	compare("CPU for connecting again", func(r fleetRun) float64 { return r.storm.Seconds() }, func(v float64) string { return fmt.Sprintf("%.2f s", v) })

	b.WriteString("\nMeasured only:\n\n")
	row(&b, head...)
	rule(&b, len(head))
	only := func(name string, value func(fleetRun) string) {
		cells := []string{name}
		for _, r := range runs {
			cells = append(cells, value(r))
		}
		row(&b, cells...)
	}
	only("PINGs a second at rest", func(r fleetRun) string { return fmt.Sprintf("%.0f", r.pings) })
	only("all subscribed again after all connections ended", func(r fleetRun) string { return r.stormTook.Round(10 * time.Millisecond).String() })
	only("longest PING meanwhile", func(r fleetRun) string { return r.longestPing.Round(time.Millisecond).String() })
	only("leases lost", func(r fleetRun) string { return fmt.Sprint(r.lost) })
	only("CPU of the server for one hand-over", func(r fleetRun) string { return microseconds(float64(r.handing) / float64(r.clients) / 1e3) })
	only("cores of all clients at rest", func(r fleetRun) string { return fmt.Sprintf("%.3f", r.clientCPU) })
	only("heap of a client", func(r fleetRun) string { return bytesOf(r.clientHeap) })

	b.WriteString("\n## Larger fleets, by the model\n\n")
	fmt.Fprintf(&b, "With the default watchdog time of 30 s, on one server.\n\n")
	row(&b, "clients", "locks of each", "connections", "memory", "commands a second", "cores at rest", "connecting again", "what breaks first")
	rule(&b, 8)
	for _, f := range []fleet{{100, 100, 0}, {1_000, 100, 0}, {1_000, 1_000, 0}, {10_000, 10, 0}, {10_000, 100, 0}} {
		f.lease = 30 * time.Second
		r := m.predict(f, idle)
		row(&b, fmt.Sprint(f.clients), fmt.Sprint(f.held), fmt.Sprintf("%.0f", r.connections), bytesOf(r.memory),
			fmt.Sprintf("%.0f", r.commands), fmt.Sprintf("%.2f", r.cpu), r.storm.Round(100*time.Millisecond).String(), r.breaksFirst())
	}
	return b.String()
}

func bytesOf(v float64) string {
	switch {
	case v >= 1<<30:
		return fmt.Sprintf("%.2f GB", v/(1<<30))
	case v >= 1<<20:
		return fmt.Sprintf("%.1f MB", v/(1<<20))
	case v >= 1<<10:
		return fmt.Sprintf("%.1f KB", v/(1<<10))
	}
	return fmt.Sprintf("%.0f B", v)
}

func microseconds(v float64) string { return fmt.Sprintf("%.2f µs", v) }
