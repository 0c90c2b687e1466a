// Package connect connects a client to its servers: it reads the url, and chooses the options of the connections, their name, and the
// channels of a cluster. The client of rueidis that it returns may connect later, see [late].
package connect

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/late"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/transport"
)

// Options are the options of a client that its connections depend on.
type Options struct {
	TLS       *tls.Config
	Channels  *transport.Channels // of a cluster, or nil: the cluster is asked
	Watchdog  time.Duration       // the shortest time in which a broken connection has to be noticed, times three
	OpTimeout time.Duration
	Retry     func(failures int) time.Duration // the pause after so many failures in a row
	Host      string                           // of the process, for the names of connections
	Anonymous bool                             // those names have neither host nor process
	Late      bool                             // the server may be away
	Logger    *slog.Logger
}

// A Connection is the way of one client to its servers.
type Connection struct {
	Redis    rueidis.Client
	Owned    bool               // nobody else uses Redis, which is closed with the client
	UUID     string             // of the client; it has the kind of the channels that the client listens to
	Channels transport.Channels // of a cluster
	Masters  string             // an address of the sentinels, and the name of their masters; or ""
	Database string             // the part for the database in the name of the servers, if they were opened
	Dials    time.Duration      // how long a request takes at most that needs a new connection, if it is owned
}

// Over returns the connection of a client that uses rc, which belongs to the caller. It asks a cluster for its channels.
func Over(rc rueidis.Client, o Options) (Connection, error) {
	channels, err := o.channels(rc)
	return Connection{Redis: rc, UUID: protocol.NewUUID(listens(rc.Mode(), channels)), Channels: channels}, err
}

// Open connects to the servers of a url, until ctx ends.
func Open(ctx context.Context, url string, o Options) (Connection, error) {
	at, err := o.address(url)
	if err != nil {
		return Connection{}, fmt.Errorf("lockgen: open: %w", err)
	}
	if o.Late {
		return at.later(o)
	}
	return at.connect(ctx, o)
}

// later connects in the background.
func (at address) later(o Options) (Connection, error) {
	channels := transport.PlainChannels
	if o.Channels != nil {
		channels = *o.Channels
	} else if at.mode() == rueidis.ClientModeCluster {
		return Connection{}, fmt.Errorf("lockgen: open: %w: Options.StartWithoutServer with a cluster needs Options.PubSub, "+
			"such as PubSubSharded from Redis 7 on: a cluster that is not there cannot be asked", failure.ErrBadOption)
	}
	uuid := protocol.NewUUID(listens(at.mode(), channels))
	rc, err := late.New(late.Config{
		Option:   at.option,
		Mode:     at.mode(),
		Connect:  func(ctx context.Context) (rueidis.Client, error) { return dial(ctx, at.named(uuid, o)) },
		Pause:    o.Retry,
		Patience: o.OpTimeout,
		Report: func(err error) {
			if err == nil {
				o.Logger.Info("lockgen: the server has been reached")
			} else {
				o.Logger.Warn("lockgen: the server could not be reached; connecting goes on in the background", "error", err)
			}
		},
	})
	if err != nil {
		return Connection{}, fmt.Errorf("lockgen: open: %w", err)
	}
	return at.over(rc, uuid, channels), nil
}

// connect connects with connections that have the name of the client. The channels of a cluster are part of that name,
// and connect may have to ask the cluster for them first. Most clusters have sharded channels, and connect
// connects a second time only to those that do not.
func (at address) connect(ctx context.Context, o Options) (Connection, error) {
	guess := transport.ShardedChannels
	if o.Channels != nil {
		guess = *o.Channels
	}
	for hears := listens(at.mode(), guess); ; {
		uuid := protocol.NewUUID(hears)
		rc, err := dial(ctx, at.named(uuid, o))
		if err != nil {
			return Connection{}, fmt.Errorf("lockgen: open: %w", err)
		}
		channels, err := o.channels(rc)
		if err != nil {
			rc.Close()
			return Connection{}, err
		}
		is := listens(rc.Mode(), channels)
		if is == hears {
			return at.over(rc, uuid, channels), nil
		}
		rc.Close()
		hears = is
	}
}

// over returns the connection to at by rc.
func (at address) over(rc rueidis.Client, uuid string, channels transport.Channels) Connection {
	return Connection{
		Redis: rc, Owned: true, UUID: uuid, Channels: channels, Masters: at.masters(), Database: fmt.Sprintf("/%d", at.option.SelectDB),
		Dials: at.option.Dialer.Timeout + at.option.ConnWriteTimeout,
	}
}

// channels returns the channels on which the programs in a cluster announce releases. Servers outside of a cluster are not asked.
func (o Options) channels(rc rueidis.Client) (transport.Channels, error) {
	switch {
	case o.Channels != nil:
		return *o.Channels, nil
	case rc.Mode() != rueidis.ClientModeCluster:
		return transport.PlainChannels, nil
	}
	has, err := transport.HasShardedChannels(rc, o.OpTimeout, o.Retry)
	switch {
	case err != nil:
		return 0, fmt.Errorf("lockgen: ask the cluster whether it has sharded channels, which Options.PubSub could say: %w", transport.Refused(err))
	case has:
		return transport.ShardedChannels, nil
	}
	return transport.PlainChannels, nil
}

// listens returns the channels on which a client gets messages.
func listens(mode rueidis.ClientMode, channels transport.Channels) protocol.Listens {
	switch {
	case mode != rueidis.ClientModeCluster:
		return protocol.ListensPlain
	case channels == transport.PlainChannels:
		return protocol.ListensCluster
	}
	return protocol.ListensSharded
}

// Publish returns how the scripts publish Redisson's announcements.
func (c Connection) Publish() protocol.Publish {
	switch {
	case c.Redis.Mode() != rueidis.ClientModeCluster:
	case c.Channels == transport.ShardedChannels:
		return protocol.PublishSharded
	case c.Channels == transport.BothChannels:
		return protocol.PublishBoth
	}
	return protocol.PublishPlain
}

// Site returns a name for the servers that is the same in all processes: the first of their addresses, which a failover
// does not change if they were opened, and the database.
func (c Connection) Site(addrs []string) string {
	if c.Masters != "" {
		return c.Masters + c.Database
	}
	return slices.Min(append(addrs, "~")) + c.Database
}

// named returns the options of the connections of the client uuid, which have its name, with host and process.
func (at address) named(uuid string, o Options) rueidis.ClientOption {
	option := at.option
	option.ClientName = "lockgen:" + uuid
	if !o.Anonymous {
		host := strings.Map(func(r rune) rune {
			if r <= ' ' || r > '~' || r == ':' { // the server refuses spaces and characters that are not ASCII
				return '-'
			}
			return r
		}, cmp.Or(o.Host, "unknown"))
		option.ClientName += fmt.Sprintf(":%s:%d", host, os.Getpid())
	}
	option.Sentinel.ClientName = option.ClientName
	return option
}

// dial is rueidis.NewClient until ctx ends, also for a server that does not permit names of connections. A reply of one that is busy says
// nothing about names.
func dial(ctx context.Context, option rueidis.ClientOption) (rueidis.Client, error) {
	rc, err := dialOnce(ctx, option)
	if said, ok := transport.Replied(err); ok && option.ClientName != "" && !strings.HasPrefix(said.Error(), "WRONGPASS") && !transport.Passing(err) {
		option.ClientName, option.Sentinel.ClientName = "", ""
		return dialOnce(ctx, option)
	}
	return rc, err
}

func dialOnce(ctx context.Context, option rueidis.ClientOption) (rueidis.Client, error) {
	type outcome struct {
		rc  rueidis.Client
		err error
	}
	if ctx.Err() != nil {
		return nil, failure.Ended(ctx)
	}
	got := make(chan outcome, 1)
	go func() {
		rc, err := rueidis.NewClient(option)
		if rc != nil && (err != nil || ctx.Err() != nil) { // rueidis returns a client of a single server with its error, too
			rc.Close()
			if err == nil {
				err = failure.Ended(ctx)
			}
			rc = nil
		}
		got <- outcome{rc, err}
	}()
	select {
	case o := <-got:
		return o.rc, o.err
	case <-ctx.Done():
		go func() { // it may have connected at this very moment
			if o := <-got; o.err == nil {
				o.rc.Close()
			}
		}()
		return nil, failure.Ended(ctx)
	}
}
