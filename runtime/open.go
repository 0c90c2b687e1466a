package lockrt

import (
	"context"
	"fmt"

	"github.com/lockgen/lockgen/runtime/internal/connect"
	"github.com/lockgen/lockgen/runtime/internal/fleet"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// Open returns a Client with connections of its own, which [Client.Close] closes. The url is redis://user:password@host:port/db, rediss://
// for TLS, see [Options.TLS], or unix://user:password@/path/of/socket?db=1; of a cluster redis://host:port?addr=host:port, or one address
// with ?cluster=true; of Sentinels with ?master_set=name, and &sentinel_username=name&sentinel_password=word if they need it. Open uses
// TLS for the Sentinels if it does for the master.
//
// Open connects once, unless [Options.StartWithoutServer] is set. It fails with [ErrBadOption], with the error of ctx, which bounds this
// call only, or with an error of the server or network. CLIENT LIST shows the connections as lockgen:<Client.ID>:<host>:<pid>. Redisson's
// Redisson.create.
func Open(ctx context.Context, url string, opts Options) (*Client, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if ctx == nil {
		return nil, fmt.Errorf("lockgen: open: %w: the context is nil", ErrBadOption)
	}
	conn, err := connect.Open(ctx, url, opts.ofConnections())
	if err != nil {
		return nil, err
	}
	return newClient(conn, opts), nil
}

// PubSub selects the channels on which the programs that share a cluster announce releases: plain ones reach every
// server, sharded ones, of Redis and Valkey from 7.0 on, stay with the servers of one slot. It must be the same in all
// programs, and Java's shardedSubscriptionMode. A program on the wrong kind still gets every lock, but only when its timers end.
type PubSub int

const (
	// PubSubAuto is sharded if the servers have it, as Redisson does by default from 3.28.0 on. [New] asks, within [Options.OpTimeout].
	PubSubAuto PubSub = iota
	// PubSubSharded is Redisson's ON.
	PubSubSharded
	// PubSubPlain is Redisson's OFF, and its behaviour before 3.22.0.
	PubSubPlain
	// PubSubBoth uses both kinds, for as long as not all programs use the same.
	PubSubBoth
)

// ofConnections returns those of the options that connections depend on.
func (o Options) ofConnections() connect.Options {
	channels := map[PubSub]*transport.Channels{
		PubSubSharded: new(transport.ShardedChannels), PubSubPlain: new(transport.PlainChannels), PubSubBoth: new(transport.BothChannels),
	}
	return connect.Options{
		TLS: o.TLS, Channels: channels[o.PubSub], Watchdog: o.Watchdog, OpTimeout: o.OpTimeout, Retry: o.Retry.pause,
		Host: fleet.Host(), Anonymous: o.Anonymous, Late: o.StartWithoutServer, Logger: o.Logger,
	}
}
