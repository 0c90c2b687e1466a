package lockrt

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

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

// channels returns the channels on which the programs in a cluster announce releases, never PubSubAuto. Servers outside
// of a cluster are not asked.
func channels(rc rueidis.Client, opts Options) (PubSub, error) {
	if rc.Mode() != rueidis.ClientModeCluster || opts.PubSub != PubSubAuto {
		return opts.PubSub, nil
	}
	has, err := transport.HasShardedChannels(rc, opts.OpTimeout, opts.Retry.pause)
	if err != nil {
		return opts.PubSub, fmt.Errorf("lockgen: ask the cluster whether it has sharded channels, which Options.PubSub could say: %w", refused(err))
	}
	if has {
		return PubSubSharded, nil
	}
	return PubSubPlain, nil
}

// listens returns the channels on which a client of rc gets messages.
func listens(rc rueidis.Client, mode PubSub) protocol.Listens {
	switch {
	case rc.Mode() != rueidis.ClientModeCluster:
		return protocol.ListensPlain
	case mode == PubSubPlain:
		return protocol.ListensCluster
	}
	return protocol.ListensSharded
}

// publish returns how the scripts publish Redisson's announcements, in a cluster.
func (mode PubSub) publish() protocol.Publish {
	switch mode {
	case PubSubSharded:
		return protocol.PublishSharded
	case PubSubBoth:
		return protocol.PublishBoth
	}
	return protocol.PublishPlain
}

// channels returns the same for the transport.
func (mode PubSub) channels() transport.Channels {
	switch mode {
	case PubSubSharded:
		return transport.ShardedChannels
	case PubSubBoth:
		return transport.BothChannels
	}
	return transport.PlainChannels
}

// checkKey returns why key cannot be a lock's name, or nil.
func (c *Client) checkKey(key string) error {
	if c.made() == nil {
		return &KeyError{Reason: "cannot be used: there is no client", Err: ErrBadOption}
	}
	reason := protocol.CheckKey(key)
	if reason == "" && c.net.Clustered() {
		reason = protocol.CheckClusterKey(key)
	}
	if reason != "" {
		return &KeyError{Reason: reason}
	}
	return nil
}

// checkCounted is checkKey for a kind with counts.
func (c *Client) checkCounted(kind, key string) error {
	err := c.checkKey(key)
	if err == nil && kind == kindLatch && c.net.Clustered() {
		if reason := protocol.CheckClusterLatch(key); reason != "" {
			err = &KeyError{Reason: reason}
		}
	}
	return err
}

// ready returns why a call whose options gave err cannot begin, or nil.
func (c *Client) ready(ctx context.Context, kind, key string, err error) error {
	if err == nil {
		err = c.checkCounted(kind, key)
	}
	if err == nil && ctx.Err() != nil {
		err = ended(ctx)
	}
	return err
}
