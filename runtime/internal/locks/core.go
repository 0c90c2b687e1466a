package locks

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/connect"
	"github.com/lockgen/lockgen/runtime/internal/fleet"
	"github.com/lockgen/lockgen/runtime/internal/hooks"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/runtime/observe"
)

// A clientCore is the part of a client that leases, too, need: the settings, the connections, the watchdog, the counts, the goroutines, and what
// Close waits for. Packages above add their parts to it.
type clientCore struct {
	rc   rueidis.Client
	conn connect.Connection // by rc
	opts Settings

	wire     protocol.Process     // the common part of its requests
	net      *transport.Transport // the connections to the servers
	watchdog *watchdog.Watchdog
	fleet    *fleet.Member // its part that talks to other processes
	above    Above         // the rest of it
	face     any           // the client as its user knows it

	counts   counts
	pace     pace             // of the server
	reports  hooks.Queue      // of what must not wait for a hook
	observed bool             // there are hooks for calls or leases
	traced   trace.Func       // for tests that replay the steps of mutexes; else nil
	wholes   trace.WholeFunc  // for tests that replay the calls of MultiLocks; else nil
	atEnd    func(key string) // for tests that delay the end of a lease; else nil

	tasks        chan func()   // to an idle goroutine
	waiting      atomic.Int32  // idle goroutines
	disconnected atomic.Bool   // Close has closed the client of rueidis, which Open made
	closing      chan struct{} // closed by Close and Shutdown: the client grants nothing any more
	stopped      chan struct{} // closed by Close: background work gives up

	mu      sync.Mutex // guards the rest
	state   clientState
	holds   int    // keys that this process holds in Redis
	running int    // started goroutines, and calls that acquire
	drained signal // after Shutdown: the process holds nothing
	idle    signal // after Close: nothing runs any more
}

// Above is the part of a client above this package.
type Above interface {
	transport.User

	// Renewed is called with the outcome of each renewal.
	Renewed(l *watchdog.Lease, err error)
	// OwnHolder returns the call of this client that holds a lock, or nil. For a call that reads, that is one that writes.
	OwnHolder(kind, key string) *observe.Holder
	// Refuse ends the parked calls of a client that grants nothing any more.
	Refuse()
	// EndLingers releases all grants that linger.
	EndLingers()
	// CloseAll ends all leases, because the client is closed.
	CloseAll()
}

// initialize has c send its commands through conn.
func (c *clientCore) initialize(conn connect.Connection, opts Settings, above Above) {
	c.rc, c.conn, c.opts, c.above = conn.Redis, conn, opts, above
	c.tasks, c.closing, c.stopped = make(chan func()), make(chan struct{}), make(chan struct{})
	c.opts.Hooks = hooks.Guard(opts.Hooks, opts.Logger)
	c.observed = hooks.Observing(&opts.Hooks)
	c.wire = protocol.NewProcess(conn.UUID, conn.Publish(), max(0, opts.TokenTTL), opts.Watchdog)
	c.net = transport.New(transport.Config{
		Client: c.rc, UUID: conn.UUID, Channels: conn.Channels, Tracking: opts.Tracks, Replicas: opts.Replicas,
		OpTimeout: opts.OpTimeout, Logger: opts.Logger, Closing: c.closing, Stopped: c.stopped, User: above,
	})
	if conn.Owned {
		c.net.Bound(conn.Dials)
	}
	c.reports.Spawn = c.spawn
	c.watchdog = watchdog.New(c.renew, c.net.RenewBatch, above.Renewed)
	if c.traced = trace.Present(); c.traced != nil {
		c.watchdog.Trace(c.tracesRenewal)
	}
	c.wholes = trace.PresentWholes()
	if c.net.Tracks() {
		c.watchdog.First(transport.FirstLook)
	}
	if c.net.Clustered() {
		c.watchdog.Group(func(l *watchdog.Lease) uint16 { return c.net.Server(l.Key()) })
	}
}

// site returns a name for the servers of c that is the same in all processes.
func (c *clientCore) site() string {
	if c == nil {
		return ""
	}
	return c.conn.Site(c.net.Addrs())
}

// A pace is the recent response time of a server, or how long it has not answered; 0 before its first answer.
type pace struct{ recent atomic.Int64 }

// answered records a response time of the server.
func (p *pace) answered(took time.Duration) {
	p.recent.Store(max(int64(took), p.recent.Load()/2))
}
