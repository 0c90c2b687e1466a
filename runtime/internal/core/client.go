package core

import (
	"context"
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

// A Client is the part of a client that leases, too, need: the settings, the connections, the watchdog, the counts, the goroutines, and how
// the client ends. Packages above add their parts to it.
type Client struct {
	RC       rueidis.Client     // sends the commands; nil before Init
	conn     connect.Connection // has RC, and says how it is connected
	Settings Settings

	Wire     protocol.Process     // the common part of its requests
	Net      *transport.Transport // the connections to the servers
	Watchdog *watchdog.Watchdog
	Fleet    *fleet.Member // its part that talks to other processes
	Above    Above         // the rest of it
	Face     any           // the client as its user knows it

	Counts   counts
	Pace     pace             // of the server: by it a RedLock knows how long to wait for an answer
	Reports  hooks.Queue      // calls of hooks, for which no caller waits
	Observed bool             // there are hooks for calls or leases
	Traced   trace.Func       // for tests that replay the steps of mutexes; else nil
	Wholes   trace.WholeFunc  // for tests that replay the calls of MultiLocks; else nil
	AtEnd    func(key string) // for tests that delay the end of a lease; else nil

	tasks        chan func()   // to an idle goroutine
	idleWorkers  atomic.Int32  // idle goroutines
	disconnected atomic.Bool   // Close has closed the client of rueidis, which Open made
	Closing      chan struct{} // closed by Close and Shutdown: the client grants nothing any more
	Stopped      chan struct{} // closed by Close: background work gives up

	holds   atomic.Int64 // keys that this process holds in Redis
	running atomic.Int64 // started goroutines, and calls that acquire

	Mu      sync.Mutex // guards the rest
	state   clientState
	drained signal // after Shutdown: the process holds nothing
	quiet   signal // after Close: nothing runs any more
}

// Above is the part of a client above this package.
type Above interface {
	transport.User

	// Renewed is called with the outcome of each renewal.
	Renewed(l *watchdog.Lease, err error)
	// OwnHolder returns the call of this client that holds a lock, or nil. For a call that reads, that is one that writes.
	OwnHolder(kind, key string) *observe.Holder
	// Refuse ends the waiting calls of a client that grants nothing any more, unless they wait for Closing themselves.
	Refuse()
	// EndLingers releases all grants that linger.
	EndLingers()
	// CloseAll ends all leases, because the client is closed.
	CloseAll()
}

// Init has c send its commands through conn.
func (c *Client) Init(conn connect.Connection, opts Settings, above Above) {
	c.RC, c.conn, c.Settings, c.Above = conn.Redis, conn, opts, above
	c.MakeChannels()
	c.Settings.Hooks = hooks.Guard(opts.Hooks, opts.Logger)
	c.Observed = hooks.Observing(&opts.Hooks)
	c.Wire = protocol.NewProcess(conn.UUID, conn.Publish(), max(0, opts.TokenTTL), opts.Watchdog)
	c.Net = transport.New(transport.Config{
		Client: c.RC, UUID: conn.UUID, Channels: conn.Channels, Tracking: opts.Tracks, Replicas: opts.Replicas,
		OpTimeout: opts.OpTimeout, Logger: opts.Logger, Closing: c.Closing, Stopped: c.Stopped, User: above,
	})
	if conn.Owned {
		c.Net.Bound(conn.Dials)
	}
	c.Reports.Spawn = c.Spawn
	c.Watchdog = watchdog.New(c.Renew, c.Net.RenewBatch, above.Renewed)
	if c.Traced = trace.Present(); c.Traced != nil {
		c.Watchdog.Trace(c.TracesRenewal)
	}
	c.Wholes = trace.PresentWholes()
	if c.Net.Tracks() {
		c.Watchdog.First(transport.FirstLook)
	}
	if c.Net.Clustered() {
		c.Watchdog.Group(func(l *watchdog.Lease) uint16 { return c.Net.Server(l.Key()) })
	}
}

// Site returns a name for the servers of c that is the same in all processes.
func (c *Client) Site() string {
	if c == nil {
		return ""
	}
	return c.conn.Site(c.Net.Addrs())
}

// MakeChannels makes the channels of c.
func (c *Client) MakeChannels() {
	c.tasks, c.Closing, c.Stopped = make(chan func()), make(chan struct{}), make(chan struct{})
}

// A pace is the recent response time of a server; 0 before its first answer.
type pace struct{ Recent atomic.Int64 }

// Answered records a response time of the server.
func (p *pace) Answered(took time.Duration) {
	p.Recent.Store(max(int64(took), p.Recent.Load()/2))
}

// Unreported calls the hook for err, which a call of the generated method name cannot return.
func (c *Client) Unreported(call context.Context, name, template string, err error) {
	if hook := c.Settings.Hooks.Unreported; hook != nil {
		hook(call, observe.UnreportedEvent{Name: name, Template: template, Err: err})
	}
}
