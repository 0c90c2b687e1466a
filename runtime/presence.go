package lockrt

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/monotonic"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// A presence writes to Redis which process a client is in, in a hash beside the locks. An operator that finds a lock
// thus learns the host and the process of its holder, even of a killed one, for as long as the lock lasts.
//
// The client writes it with a renewal of a lease that has been held for a third of the watchdog time, and by a timer
// while there is no such renewal: for leases of fixed length, and calls that wait. A client whose locks are all short
// writes nothing.
type presence struct {
	armed atomic.Bool // there is a timer, or the client has no permission

	mu      sync.Mutex // guards the rest
	timer   *time.Timer
	written monotonic.Time // when the last write began
	off     bool           // the client has no permission, or is closed
}

const (
	// introduceEvery is the shortest interval between two writes.
	introduceEvery = 10 * time.Second

	// introduceSpare is how much longer the hash lives than the longest lease: more than the time between two renewals
	// that write it.
	introduceSpare = introduceEvery + 5*time.Second
)

// longHeld is how long a client holds or waits before it describes its process.
func (c *Client) longHeld() time.Duration { return c.opts.Watchdog / 3 }

// present records a lock that is held or waited for.
func (c *Client) present() {
	p := &c.presence
	if p.armed.Load() || !p.armed.CompareAndSwap(false, true) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.off {
		return
	}
	wait := c.longHeld() + c.longHeld()/4 // after the renewal that writes it, if there is one
	if p.timer == nil {
		p.timer = time.AfterFunc(wait, c.introduceLate)
		return
	}
	p.timer.Reset(wait)
}

// introduceWith describes the process beside a renewal that is about to be sent, if it is time.
func (c *Client) introduceWith(leases []*watchdog.Lease) {
	p := &c.presence
	at := monotonic.Now()
	p.mu.Lock()
	due := p.due(at)
	p.mu.Unlock()
	if !due {
		return
	}
	for _, l := range leases {
		if l.Age(at) >= c.longHeld() {
			c.introduceSoon(at)
			return
		}
	}
}

// due reports whether the last write is long enough ago.
func (p *presence) due(at monotonic.Time) bool {
	return !p.off && (p.written.IsZero() || at.Sub(p.written) >= introduceEvery)
}

// introduceLate is the function of the timer. It repeats as long as the client holds or waits for
// anything.
func (c *Client) introduceLate() {
	at := monotonic.Now()
	guards, _ := c.watchdog.Leases(0)
	long := false
	for _, l := range guards {
		long = long || l.Age(at) >= c.longHeld()
	}
	waiting := c.counts.waiting.Load() > 0
	if !long && waiting {
		for _, w := range c.waitingCalls("") {
			long = long || at.Sub(w.Since) >= c.longHeld()
		}
	}
	p := &c.presence
	p.mu.Lock()
	due, off, since := p.due(at), p.off, at.Sub(p.written)
	switch {
	case off:
	case len(guards) == 0 && !waiting:
		p.armed.Store(false)
	case due || p.written.IsZero():
		p.timer.Reset(max(introduceEvery, c.longHeld()))
	default:
		p.timer.Reset(max(introduceEvery-since+c.longHeld()/4, time.Second))
	}
	p.mu.Unlock()
	if long && due {
		c.introduceSoon(at)
	}
}

// introduceSoon describes the process, together with the next requests.
func (c *Client) introduceSoon(at monotonic.Time) {
	p := &c.presence
	p.mu.Lock()
	due := p.due(at)
	if due {
		p.written = at
	}
	p.mu.Unlock()
	if due {
		c.aside(c.introduce) // Close does not wait for an answer that nobody needs
	}
}

func (c *Client) introduce() {
	lasts := c.opts.Watchdog
	all, _ := c.watchdog.Leases(0)
	for _, l := range all {
		lasts = max(lasts, time.Until(l.Ends()))
	}
	who := c.Process()
	fields := []string{"version", strconv.Itoa(SnapshotVersion)}
	for _, f := range [...][2]string{
		{"name", who.Name}, {"host", who.Host}, {"pid", pidText(who.PID)}, {"program", who.Program},
		{"program_version", who.ProgramVersion}, {"library", who.Library}, {"started", who.Started.UTC().Format(time.RFC3339)},
	} {
		if f[1] != "" {
			fields = append(fields, f[0], f[1])
		}
	}
	err := c.net.Run(c.wire.Introduce(min(lasts, forEver)+introduceSpare, fields)).Err()
	if _, spoke := rueidis.IsRedisErr(err); spoke && !passing(err) {
		c.presence.stop()
		c.opts.Logger.Warn("lockgen: the name of this process cannot be written, so observers of its locks see an id alone", "process", c.wire.UUID, "error", err)
	}
}

func pidText(pid int) string {
	if pid == 0 {
		return ""
	}
	return strconv.Itoa(pid)
}

// stop ends it for good.
func (p *presence) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off = true
	p.armed.Store(true)
	if p.timer != nil {
		p.timer.Stop()
	}
}

// processFields are the fields of the hash that the client reads.
var processFields = []string{"name", "host", "pid", "program", "program_version", "library", "started"}

// processFrom reads the fields of introduce.
func processFrom(uuid string, fields map[string]string) Process {
	p := Process{
		ID: uuid, Name: fields["name"], Host: fields["host"], Program: fields["program"],
		ProgramVersion: fields["program_version"], Library: fields["library"],
	}
	p.PID, _ = strconv.Atoi(fields["pid"])
	p.Started, _ = time.Parse(time.RFC3339, fields["started"])
	return p
}

// ProcessOf returns the process of the Client with that id, and false if it is unknown. A Client describes its process
// in Redis once it has held or waited for a lock for a third of its watchdog time; Redis keeps that for as long as the
// Client's locks, also after a crash. One round trip.
func (c *Client) ProcessOf(ctx context.Context, id string) (Process, bool, error) {
	fail := func(err error) (Process, bool, error) {
		return Process{}, false, &Error{Op: "look for a process", Key: id, Err: err}
	}
	if c == nil || c.rc == nil {
		return fail(errNoClient)
	}
	known, err := bounded(ctx, c, func() (map[string]string, error) {
		c.net.MarkShared()
		ctx, cancel := c.briefly()
		defer cancel()
		fields, err := c.rc.Do(ctx, c.rc.B().Hmget().Key(protocol.ProcessKey(id)).Field(processFields...).Build()).AsStrSlice()
		if err != nil {
			return nil, toldWhy(err)
		}
		known := map[string]string{}
		for i, name := range processFields {
			if fields[i] != "" {
				known[name] = fields[i]
			}
		}
		return known, nil
	})
	if err != nil {
		return fail(err)
	}
	return processFrom(id, known), len(known) > 0, nil
}

// toldWhy returns the error of a read-only request: that the server is away, or the server's answer.
func toldWhy(err error) error {
	if err != nil && passing(err) {
		return unavailable("", err)
	}
	return refused(err)
}

// briefly returns a context for a request that rueidis would repeat again and again while the server is away. It has no
// deadline, which would apply to the shared connection.
func (c *Client) briefly() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	timer := time.AfterFunc(c.opts.OpTimeout/2, cancel)
	return ctx, func() {
		timer.Stop()
		cancel()
	}
}
