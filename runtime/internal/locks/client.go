package locks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/connect"
	"github.com/lockgen/lockgen/runtime/internal/counting"
	"github.com/lockgen/lockgen/runtime/internal/engine"
	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/fleet"
	"github.com/lockgen/lockgen/runtime/internal/hooks"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/runtime/internal/transport"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
	"github.com/lockgen/lockgen/runtime/internal/withdrawal"
)

// A Client has what its locks share: the connections, the batches of requests, the watchdog, the inbox, the resources of each kind of
// lock, and what Close waits for. lockrt.Client.
type Client struct {
	rc   rueidis.Client
	conn connect.Connection // by rc
	opts Settings

	wire protocol.Process     // the common part of its requests
	net  *transport.Transport // the connections to the servers

	ticketNumbers atomic.Uint64 // a number for each ticket to a key, the second half of its owner
	watchdog      *watchdog.Watchdog
	inbox
	takes, frees                 *transport.Batcher // of locks without waiters
	acquires, releases           *transport.Batcher
	reviews                      *transport.Batcher // acquires of waiters that were refused long ago
	contended                    engine.Contended
	starts                       engine.Starts
	quorums                      quorumQueues
	withdrawals                  withdrawal.Client
	fleet                        *fleet.Member // its part that talks to other processes
	suspects                     engine.Suspects[wish]
	alarms                       engine.Alarms[wish]
	counts                       counts
	reports                      hooks.Queue // of what must not wait for a hook
	resources                    registry[*resource]
	rws                          registry[*rwResource]
	fairs                        registry[*fairResource]
	semaphores, permits, latches registry[*counter]
	counting                     counting.Client
	traced                       trace.Func       // for tests that replay the steps of mutexes; else nil
	wholes                       trace.WholeFunc  // for tests that replay the calls of MultiLocks; else nil
	atEnd                        func(key string) // for tests that delay the end of a lease; else nil
	observed                     bool             // there are hooks for calls or leases
	tasks                        chan func()      // to an idle goroutine
	waiting                      atomic.Int32     // idle goroutines
	disconnected                 atomic.Bool      // Close has closed the client of rueidis, which Open made
	spread                       time.Duration    // how long a client at rest may take to subscribe again
	closing                      chan struct{}    // closed by Close and Shutdown: the client grants nothing any more
	stopped                      chan struct{}    // closed by Close: background work gives up

	mu      sync.Mutex // guards the rest
	state   clientState
	forget  []func(key string) // for each registry: makes it forget its entry of key
	holds   int                // keys that this process holds in Redis
	running int                // started goroutines, and calls that acquire
	drained signal             // after Shutdown: the process holds nothing
	idle    signal             // after Close: nothing runs any more
}

// A signal is nil until a goroutine waits for it, and closed once.
type signal chan struct{}

func (s signal) set() {
	if s == nil {
		return
	}
	select {
	case <-s:
	default:
		close(s)
	}
}

type clientState int

const (
	open clientState = iota
	shuttingDown
	closed
)

// New returns a client that sends its commands through conn.
func New(conn connect.Connection, opts Settings) *Client {
	c := &Client{
		rc:      conn.Redis,
		conn:    conn,
		opts:    opts,
		tasks:   make(chan func()),
		closing: make(chan struct{}),
		spread:  spread,
		stopped: make(chan struct{}),
	}
	c.opts.Hooks = hooks.Guard(opts.Hooks, opts.Logger)
	c.resources, c.rws, c.fairs = newRegistry(c, newResource), newRegistry(c, newRWResource), newRegistry(c, newFairResource)
	for _, kind := range counted {
		*c.countersOf(kind) = newRegistry(c, func(c *Client, key string) *counter { return newCounter(c, kind, key) })
	}
	c.wire = protocol.NewProcess(conn.UUID, conn.Publish(), max(0, opts.TokenTTL), opts.Watchdog)
	c.net = transport.New(transport.Config{
		Client: c.rc, UUID: conn.UUID, Channels: conn.Channels, Tracking: opts.Tracks, Replicas: opts.Replicas,
		OpTimeout: opts.OpTimeout, Logger: opts.Logger, Closing: c.closing, Stopped: c.stopped, User: user{c},
	})
	if conn.Owned {
		c.net.Bound(conn.Dials)
	}
	c.takes, c.acquires = c.net.Batcher(c.wire.Takes(), true), c.net.Batcher(c.wire.Acquires(), true)
	c.reviews = c.net.Reviewer(c.wire.Acquires())
	c.frees, c.releases = c.net.Batcher(c.wire.Frees(), false), c.net.Batcher(c.wire.Releases(), false)
	c.withdrawals.Init(withdrawal.Config{Host: host{c}, Wire: c.wire, Net: c.net, Logger: opts.Logger, FairWait: opts.FairWait}, c.stopped)
	c.reports.Spawn = c.spawn
	c.observed = hooks.Observing(&opts.Hooks)
	c.watchdog = watchdog.New(c.renew, c.net.RenewBatch, c.renewed)
	c.fleet = newMember(c)
	if c.traced = trace.Present(); c.traced != nil {
		c.watchdog.Trace(c.tracesRenewal)
	}
	c.wholes = trace.PresentWholes()
	c.counting = counting.Client{Host: host{c}, Wire: c.wire, Net: c.net, Watchdog: c.watchdog, Logger: opts.Logger, OpTimeout: opts.OpTimeout}
	if c.net.Tracks() {
		c.watchdog.First(transport.FirstLook)
	}
	if c.net.Clustered() {
		c.watchdog.Group(func(l *watchdog.Lease) uint16 { return c.net.Server(l.Key()) })
	}
	return c
}

func (c *Client) Redis() rueidis.Client {
	if c == nil {
		return nil
	}
	return c.rc
}

func (c *Client) Mutex(key string, opts ...LockOption) *Mutex {
	return &Mutex{c: c.made(), key: key, opts: opts}
}

// Shutdown grants nothing any more, waits until each lease is unlocked or lost, and closes.
func (c *Client) Shutdown(ctx context.Context) error {
	if c.made() == nil {
		return fmt.Errorf("lockgen: shutdown: %w", errNoClient)
	}
	if ctx == nil {
		return fmt.Errorf("lockgen: shutdown: %w", errNoContext)
	}
	c.mu.Lock()
	if c.state == open {
		c.state = shuttingDown
		c.endGranting()
	}
	if c.drained == nil {
		c.drained = make(signal)
		if c.holds == 0 || c.state == closed {
			c.drained.set()
		}
	}
	drained := c.drained
	c.mu.Unlock()
	c.endLingers()

	select {
	case <-drained:
		return c.Close()
	default:
	}
	select {
	case <-drained:
		return c.Close()
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("lockgen: shutdown: %w", ended(ctx)), c.Close())
	}
}

// Close ends all leases, and waits for the background work. It deletes no keys: their holders may be at work.
func (c *Client) Close() error {
	if c.made() == nil {
		return fmt.Errorf("lockgen: close: %w", errNoClient)
	}
	c.mu.Lock()
	if c.state == closed {
		c.mu.Unlock()
		return nil
	}
	if c.state == open {
		c.endGranting()
	}
	c.state = closed
	close(c.stopped)
	c.drained.set()
	c.idle = make(signal)
	c.running++ // for Close itself
	c.mu.Unlock()

	c.fleet.Leave()
	c.resources.close()
	c.rws.close()
	c.fairs.close()
	for _, kind := range counted {
		c.countersOf(kind).close()
	}
	c.finished()

	renewed, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(renewed)
		c.watchdog.Close()
		if c.disconnected.Load() {
			c.rc.Close() // as in returned
		}
	}()
	go func() {
		defer close(done)
		var closing sync.WaitGroup // closing a mute connection takes a second
		closing.Go(c.net.Quit)
		closing.Go(c.net.Unlisten)
		closing.Wait()
		<-c.idle
		select {
		case <-renewed:
		case <-time.After(c.net.Patience()): // nobody needs the answers to renewals, which may not come over a mute connection
		}
		if c.conn.Owned {
			c.disconnected.Store(true)
			c.rc.Close()
		}
	}()
	timer := time.NewTimer(c.opts.OpTimeout)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return fmt.Errorf("lockgen: close: requests are still unanswered after %v", c.opts.OpTimeout)
	}
}

// site returns a name for the servers of c that is the same in all processes.
func (c *Client) site() string {
	if c == nil {
		return ""
	}
	return c.conn.Site(c.net.Addrs())
}

// endGranting ends the waiting calls, also those that are parked. The caller holds c.mu, and calls it once.
func (c *Client) endGranting() {
	close(c.closing)
	c.alarms.Wake()
}

// granting reports whether the client may still grant leases.
func (c *Client) granting() bool { return c.refusal() == nil }

// refusal returns why the client grants nothing any more, or nil.
func (c *Client) refusal() error {
	select {
	case <-c.closing:
		return failure.ErrClosed
	default:
		return nil
	}
}

// held counts the keys that this process holds in Redis.
func (c *Client) held(change int) {
	defer c.net.Watch()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holds += change
	if c.holds == 0 {
		c.drained.set()
	}
}

// spawn runs f on a goroutine that Close waits for, if it was started before Close or by such a
// goroutine. It reuses goroutines: growing their stacks is most of the cost of one.
func (c *Client) spawn(f func()) {
	c.started()
	c.start(f)
}

// aside runs f on a goroutine that Close does not wait for.
func (c *Client) aside(f func()) {
	c.start(func() {
		f()
		c.returned()
	})
}

// returned is called at the end of a function on a goroutine that Close did not wait for.
func (c *Client) returned() {
	if c.disconnected.Load() {
		c.rc.Close() // rueidis keeps a connection that it was establishing when it was closed
	}
	c.started() // it was not counted, and ends now
}

// start runs f, and then records its end.
func (c *Client) start(f func()) {
	select {
	case c.tasks <- f:
	default:
		go c.work(f)
	}
}

func (c *Client) started() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running++
}

// idleWorkers is the largest number of idle goroutines.
const idleWorkers = 64

func (c *Client) work(f func()) {
	for {
		f()
		c.finished()
		if c.waiting.Add(1) > idleWorkers {
			c.waiting.Add(-1)
			return
		}
		select {
		case f = <-c.tasks:
			c.waiting.Add(-1)
		case <-c.stopped:
			return
		}
	}
}

func (c *Client) finished() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	if c.running == 0 {
		c.idle.set()
	}
}
