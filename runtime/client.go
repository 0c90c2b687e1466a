package lockrt

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/connect"
	"github.com/lockgen/lockgen/runtime/internal/locks"
)

// A Client grants leases on one Redis deployment, renews them from one goroutine and listens on one connection. Have
// one per process. For Redis all goroutines of a Client are one owner: they queue in the order of their calls and hand
// a key to each other without a round trip.
type Client locks.Client

// New returns a Client that sends its commands through rc. The caller closes rc, after the Client. New checks opts and
// contacts Redis only to ask a cluster, see [PubSubAuto]. ConnWriteTimeout of rc, 10s by default, is the time until the
// Client notices a broken connection: set it to a third of the shortest watchdog or lease time at most, as [Open] does.
func New(rc rueidis.Client, opts Options) (*Client, error) {
	if rc == nil {
		return nil, fmt.Errorf("lockgen: new client: %w: there is no connection", ErrBadOption)
	}
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	conn, err := connect.Over(rc, opts.ofConnections())
	if err != nil {
		return nil, err
	}
	return (*Client)(locks.New(conn, opts.settings())), nil
}

// Redis returns the client that sends the commands. [Client.Close] closes it after [Open].
func (c *Client) Redis() rueidis.Client { return (*locks.Client)(c).Redis() }

// Shutdown stops granting, fails waiting calls with [ErrClosed], waits until every lease is unlocked or lost, and then does what
// [Client.Close] does. If ctx ends first, it closes at once and returns the error of ctx.
func (c *Client) Shutdown(ctx context.Context) error { return (*locks.Client)(c).Shutdown(ctx) }

// Close stops granting, fails waiting calls with [ErrClosed], ends each lease with ErrClosed and waits for its background
// work, without renewals, for [Options.OpTimeout] at most. The keys of those leases expire; Close does not
// delete them, since their holders may still be at work. Unlock works after Close, unless [Open] made the Client. The
// second Close does nothing.
func (c *Client) Close() error { return (*locks.Client)(c).Close() }

// ID returns the UUID of the Client, which begins [Standing].Owner of every key that it holds. No two Clients have the
// same. Redisson's getId.
func (c *Client) ID() string { return (*locks.Client)(c).ID() }
