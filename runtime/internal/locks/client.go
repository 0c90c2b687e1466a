package locks

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/connect"
	"github.com/lockgen/lockgen/runtime/internal/counting"
)

// A Client has the resources of each kind of lock: lockrt.Client.
type Client struct {
	clientLine

	resources                    *registry[*resource]
	rws                          *registry[*rwResource]
	fairs                        *registry[*fairResource]
	semaphores, permits, latches *registry[*counter]
	counting                     counting.Client
	queues                       Queues // of locks that consist of others; guarded by mu
}

// New returns a client that sends its commands through conn.
func New(conn connect.Connection, opts Settings) *Client {
	c := &Client{}
	c.face = c
	c.initialize(conn, opts)
	c.resources, c.rws, c.fairs = newRegistry(c.line(), newResource), newRegistry(c.line(), newRWResource), newRegistry(c.line(), newFairResource)
	counters := func(kind string) *registry[*counter] {
		return newRegistry(c.line(), func(_ *clientLine, key string) *counter { return newCounter(c, kind, key) })
	}
	c.semaphores, c.permits, c.latches = counters(kindSemaphore), counters(kindPermit), counters(kindLatch)
	c.fleet = newMember(c)
	c.counting = counting.Client{Host: countingHost{host{c.line()}, c}, Wire: c.wire, Net: c.net, Watchdog: c.watchdog, Logger: opts.Logger, OpTimeout: opts.OpTimeout}
	return c
}

// made returns c, or nil if [New] did not make it.
func (c *Client) made() *Client {
	if c == nil || c.rc == nil {
		return nil
	}
	return c
}

// core returns the part of c that leases need, or nil.
func (c *Client) core() *clientCore { return c.line().core() }

// line returns the part of c that resources need, or nil.
func (c *Client) line() *clientLine {
	if c == nil {
		return nil
	}
	return &c.clientLine
}

// ClientOf returns the client that granted l, or its first part.
func ClientOf(l *Lease) *Client {
	if l == nil || l.client == nil {
		return nil
	}
	return l.client.face.(*Client) //nolint:forcetypeassert // New makes each
}

// Close ends all leases, and waits for the background work.
func (c *Client) Close() error { return c.core().Close() }

// Shutdown grants nothing any more, waits until each lease is unlocked or lost, and closes.
func (c *Client) Shutdown(ctx context.Context) error { return c.core().Shutdown(ctx) }

func (c *Client) Redis() rueidis.Client {
	if c == nil {
		return nil
	}
	return c.rc
}

func (c *Client) Mutex(key string, opts ...LockOption) *Mutex {
	return &Mutex{c: c.made(), key: key, opts: opts}
}

// Queues are the wait queues of the locks that consist of others, which another package has.
type Queues interface {
	// EachWaiting calls f for the calls that wait for the lock of key, or for all if key is empty.
	EachWaiting(key string, f func(w *waiter, kind, key string))
}

// QueuesOf returns the queues of c, which create makes first.
func QueuesOf[Q Queues](c *Client, create func() Q) Q {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queues == nil {
		c.queues = create()
	}
	return c.queues.(Q) //nolint:forcetypeassert // one package makes them
}

// queuesIfAny returns the queues of c, or nil.
func (c *Client) queuesIfAny() Queues {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queues
}
