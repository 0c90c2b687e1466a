// Package late has a rueidis client that exists before it can connect.
//
// Until it has connected for the first time, each request fails like one without a server. From then on it uses the
// connected client, with the reconnection of rueidis.
package late

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// Config configures a [Client].
type Config struct {
	Option rueidis.ClientOption
	// Mode is what Option is known to connect to.
	Mode rueidis.ClientMode
	// Connect connects. It is called until it succeeds.
	Connect func(ctx context.Context) (rueidis.Client, error)
	// Pause returns how long to pause after so many failures in a row.
	Pause func(failures int) time.Duration
	// Patience is how long a request waits for the first call of Connect to end: a caller whose server is there need
	// not notice that the client connects in the background.
	Patience time.Duration
	// Report is called with the first failure, and with nil when it has connected after one, by one goroutine.
	Report func(err error)
}

// A Client is a [rueidis.Client]. It is safe for concurrent use.
type Client struct {
	cfg    Config
	nobody rueidis.Client // for each request while there is no other
	there  atomic.Pointer[rueidis.Client]
	last   atomic.Pointer[error] // why it has not connected

	tried  chan struct{} // closed when Connect has ended once
	cancel context.CancelFunc
	done   chan struct{} // closed when the client does not connect any more
}

var _ rueidis.Client = (*Client)(nil)

// errEarly is the error of a request before Connect has ended once.
var errEarly = errors.New("connecting has not ended yet")

// New returns a client that connects in the background.
func New(cfg Config) (*Client, error) {
	c := &Client{cfg: cfg, tried: make(chan struct{}), done: make(chan struct{})}
	c.last.Store(&errEarly)
	option := cfg.Option
	option.ForceSingleClient, option.DisableRetry = true, true
	option.Sentinel, option.TLSConfig = rueidis.SentinelOption{}, nil
	option.DialCtxFn = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: fmt.Errorf("the servers have not been reached yet: %w", *c.last.Load())}
	}
	nobody, err := rueidis.NewClient(option) // which of a single server is there in spite of its error
	if nobody == nil {
		return nil, err
	}
	c.nobody = nobody
	var ctx context.Context
	ctx, c.cancel = context.WithCancel(context.Background())
	go c.connect(ctx)
	return c, nil
}

func (c *Client) connect(ctx context.Context) {
	defer close(c.done)
	for failures := 0; ; {
		rc, err := c.cfg.Connect(ctx)
		if err == nil && rc.Mode() != c.cfg.Mode {
			rc.Close()
			err = errors.New("the server is not one of a cluster, as was said")
		}
		if ctx.Err() != nil {
			if err == nil {
				rc.Close()
			}
			return
		}
		if err == nil {
			c.there.Store(&rc)
			if failures == 0 {
				close(c.tried)
			} else {
				c.cfg.Report(nil)
			}
			return
		}
		c.last.Store(&err)
		if failures++; failures == 1 {
			close(c.tried)
			c.cfg.Report(err)
		}
		timer := time.NewTimer(c.cfg.Pause(failures))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// now returns the connected client, or nobody. It waits for the first try.
func (c *Client) now(ctx context.Context) rueidis.Client {
	if rc := c.there.Load(); rc != nil {
		return *rc
	}
	timer := time.NewTimer(c.cfg.Patience)
	defer timer.Stop()
	select {
	case <-c.tried:
	case <-c.done: // closed, or connected
	case <-ctx.Done():
	case <-timer.C:
	}
	if rc := c.there.Load(); rc != nil {
		return *rc
	}
	return c.nobody
}

// noSlot is in the slots of commands that were not built for a cluster: a client of a cluster cannot route them.
const noSlot = 1 << 15

// take is now for commands: those of a cluster that were built before it was reached have missed it.
func (c *Client) take(ctx context.Context, multi ...rueidis.Completed) rueidis.Client {
	rc := c.now(ctx)
	if c.cfg.Mode == rueidis.ClientModeCluster {
		for i := range multi {
			if multi[i].Slot()&noSlot != 0 {
				return c.nobody
			}
		}
	}
	return rc
}

// B returns a builder of commands. For a cluster it waits as a request does, since what is built without one cannot be sent to one.
func (c *Client) B() rueidis.Builder {
	if c.cfg.Mode == rueidis.ClientModeCluster {
		return c.now(context.Background()).B()
	}
	return c.nobody.B()
}

// Do sends a command.
func (c *Client) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	return c.take(ctx, cmd).Do(ctx, cmd)
}

// DoMulti sends commands.
func (c *Client) DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	return c.take(ctx, multi...).DoMulti(ctx, multi...)
}

// Receive subscribes.
func (c *Client) Receive(ctx context.Context, subscribe rueidis.Completed, fn func(rueidis.PubSubMessage)) error {
	return c.take(ctx, subscribe).Receive(ctx, subscribe, fn)
}

// DoCache sends a command whose answer may be cached.
func (c *Client) DoCache(ctx context.Context, cmd rueidis.Cacheable, ttl time.Duration) rueidis.RedisResult {
	return c.now(ctx).DoCache(ctx, cmd, ttl)
}

// DoMultiCache sends commands whose answers may be cached.
func (c *Client) DoMultiCache(ctx context.Context, multi ...rueidis.CacheableTTL) []rueidis.RedisResult {
	return c.now(ctx).DoMultiCache(ctx, multi...)
}

// DoStream sends a command and streams its answer.
func (c *Client) DoStream(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResultStream {
	return c.take(ctx, cmd).DoStream(ctx, cmd)
}

// DoMultiStream sends commands and streams their answers.
func (c *Client) DoMultiStream(ctx context.Context, multi ...rueidis.Completed) rueidis.MultiRedisResultStream {
	return c.take(ctx, multi...).DoMultiStream(ctx, multi...)
}

// Dedicated calls fn with a connection of its own.
func (c *Client) Dedicated(fn func(rueidis.DedicatedClient) error) error {
	return c.now(context.Background()).Dedicated(fn)
}

// Dedicate returns a connection of its own.
func (c *Client) Dedicate() (rueidis.DedicatedClient, func()) {
	return c.now(context.Background()).Dedicate()
}

// Nodes returns a client for each server that is known. One that stands alone is known from the beginning.
func (c *Client) Nodes() map[string]rueidis.Client {
	if rc := c.there.Load(); rc != nil {
		return (*rc).Nodes()
	}
	if c.cfg.Mode == rueidis.ClientModeStandalone {
		return map[string]rueidis.Client{c.cfg.Option.InitAddress[0]: c}
	}
	return map[string]rueidis.Client{}
}

// Mode returns the kind of the servers.
func (c *Client) Mode() rueidis.ClientMode { return c.cfg.Mode }

// Close ends connecting, and closes the connected client.
func (c *Client) Close() {
	c.cancel()
	<-c.done
	if rc := c.there.Load(); rc != nil {
		(*rc).Close()
	}
	c.nobody.Close()
}
