package locks

import (
	"context"
	"sync"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/connect"
	"github.com/lockgen/lockgen/runtime/internal/core"
	"github.com/lockgen/lockgen/runtime/internal/counting"
	"github.com/lockgen/lockgen/runtime/internal/leases"
	"github.com/lockgen/lockgen/runtime/internal/policy"
	"github.com/lockgen/lockgen/runtime/internal/resource"
	"github.com/lockgen/lockgen/runtime/observe"
)

// A Client has the resources of each kind of lock: lockrt.Client.
type Client struct {
	base resource.Client

	mutexes                      *resource.Registry[*policy.Mutex]
	rws                          *resource.Registry[*policy.RW]
	fairs                        *resource.Registry[*policy.Fair]
	semaphores, permits, latches *resource.Registry[*counter]
	counting                     counting.Client
	entered                      sync.Map // by the names of schedules: the leases of these names below which a Run is
}

// New returns a client that sends its commands through conn.
func New(conn connect.Connection, opts core.Settings) *Client {
	c := &Client{}
	c.base.Face = c
	c.base.Init(conn, opts)
	c.mutexes, c.rws, c.fairs = resource.NewRegistry(c.Base(), policy.NewMutex), resource.NewRegistry(c.Base(), policy.NewRW), resource.NewRegistry(c.Base(), policy.NewFair)
	counters := func(kind string) *resource.Registry[*counter] {
		return resource.NewRegistry(c.Base(), func(_ *resource.Client, key string) *counter { return newCounter(c, kind, key) })
	}
	c.semaphores, c.permits, c.latches = counters(core.KindSemaphore), counters(core.KindPermit), counters(core.KindLatch)
	c.counting = counting.Client{Host: countingHost{resource.Host{Of: c.Base()}, c}, Wire: c.base.Wire, Net: c.base.Net, Watchdog: c.base.Watchdog, Logger: opts.Logger, OpTimeout: opts.OpTimeout}
	return c
}

// Made returns c, or nil if [New] did not make it.
func (c *Client) Made() *Client {
	if c == nil || c.base.RC == nil {
		return nil
	}
	return c
}

// ID returns the id of c, which begins its owners.
func (c *Client) ID() string {
	if c.Made() == nil {
		return ""
	}
	return c.base.Wire.UUID
}

// Core returns the part of c that leases need, or nil.
func (c *Client) Core() *core.Client { return c.Base().Core() }

// Base returns the part of c that resources need, or nil.
func (c *Client) Base() *resource.Client {
	if c == nil {
		return nil
	}
	return &c.base
}

// Stats returns the counts since c was made.
func (c *Client) Stats() observe.Stats { return c.Core().Stats() }

// Close ends all leases, and waits for the background work.
func (c *Client) Close() error { return c.Core().Close() }

// Shutdown grants nothing any more, waits until each lease is unlocked or lost, and closes.
func (c *Client) Shutdown(ctx context.Context) error { return c.Core().Shutdown(ctx) }

// Redis returns the client of rueidis that sends the commands of c.
func (c *Client) Redis() rueidis.Client {
	if c == nil {
		return nil
	}
	return c.base.RC
}

// ClientOf returns the client that granted l, or its first part.
func ClientOf(l *leases.Lease) *Client {
	if l == nil || l.Core().Client() == nil {
		return nil
	}
	return l.Core().Client().Face.(*Client) //nolint:forcetypeassert // New makes each
}
