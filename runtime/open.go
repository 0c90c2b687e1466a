package lockrt

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/late"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
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
	option, err := opts.dialing(url)
	if err != nil {
		return nil, fmt.Errorf("lockgen: open: %w", err)
	}
	if opts.StartWithoutServer {
		return openLate(option, opts)
	}
	rc, mode, uuid, err := connectAs(ctx, option, opts)
	if err != nil {
		return nil, err
	}
	return opened(rc, option, opts, mode, uuid), nil
}

// openLate is Open for a server that may be away.
func openLate(option rueidis.ClientOption, opts Options) (*Client, error) {
	hears := protocol.ListensPlain
	if modeOf(option) == rueidis.ClientModeCluster {
		switch opts.PubSub {
		case PubSubAuto:
			return nil, fmt.Errorf("lockgen: open: %w: Options.StartWithoutServer with a cluster needs Options.PubSub, "+
				"such as PubSubSharded from Redis 7 on: a cluster that is not there cannot be asked", ErrBadOption)
		case PubSubPlain:
			hears = protocol.ListensCluster
		default:
			hears = protocol.ListensSharded
		}
	}
	uuid := protocol.NewUUID(hears)
	rc, err := late.New(late.Config{
		Option:   option,
		Mode:     modeOf(option),
		Connect:  func(ctx context.Context) (rueidis.Client, error) { return connect(ctx, named(option, opts, uuid)) },
		Pause:    opts.Retry.pause,
		Patience: opts.OpTimeout,
		Report: func(err error) {
			if err == nil {
				opts.Logger.Info("lockgen: the server has been reached")
			} else {
				opts.Logger.Warn("lockgen: the server could not be reached; connecting goes on in the background", "error", err)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("lockgen: open: %w", err)
	}
	return opened(rc, option, opts, opts.PubSub, uuid), nil
}

// opened returns the Client named uuid that owns rc.
func opened(rc rueidis.Client, option rueidis.ClientOption, opts Options, mode PubSub, uuid string) *Client {
	c := newClient(rc, opts, mode, uuid)
	c.owned = true
	c.database = "/" + strconv.Itoa(option.SelectDB)
	if set := option.Sentinel.MasterSet; set != "" {
		c.watched = slices.Min(option.InitAddress) + "/" + set
	}
	c.net.Bound(option.Dialer.Timeout + option.ConnWriteTimeout)
	return c
}

// dialing returns the options to connect to the server of url.
func (o Options) dialing(url string) (rueidis.ClientOption, error) {
	option, err := rueidis.ParseURL(url)
	if err != nil {
		return option, err
	}
	clustered, err := saysCluster(url)
	if err != nil {
		return option, err
	}
	// One connection for all commands: they are answered in order and share their packets.
	option.PipelineMultiplex = -1
	option.DisableCache = true
	// By default a connection has 1 MiB of buffers, and room for 1,024 requests. A client has two to four connections, and few requests
	// are under way at once, since a batch is one.
	option.ReadBufferEachConn, option.WriteBufferEachConn, option.RingScaleEachConn = bufferSize, bufferSize, ringScale
	// A request that needs a new connection is answered, or has failed, within OpTimeout.
	option.ConnWriteTimeout = min(o.Watchdog/3, 5*time.Second, max(2*o.OpTimeout/3, 500*time.Millisecond))
	option.Dialer.Timeout = min(option.ConnWriteTimeout, max(o.OpTimeout/3, 250*time.Millisecond))
	option.Dialer.KeepAlive = option.ConnWriteTimeout / 2
	// Without it rueidis asks for cluster slots, and treats any server that answers as a cluster.
	option.ForceSingleClient = !clustered && len(option.InitAddress) == 1 && option.Sentinel.MasterSet == ""
	if !option.ForceSingleClient && option.TLSConfig != nil {
		option.TLSConfig.ServerName = "" // each server has its own
	}
	if err := o.secure(url, &option); err != nil {
		return option, err
	}
	option.Sentinel.Dialer, option.Sentinel.TLSConfig = option.Dialer, option.TLSConfig
	option.Sentinel.Username, option.Sentinel.Password = sentinelUser(url)
	option.Sentinel.TopologyRefreshInterval = time.Second // the sentinel that leads a failover announces it late, and the message may be lost
	return option, nil
}

// The size of a connection's buffer for reading and of that for writing, in bytes, and of its ring of requests, as a power of two.
const (
	bufferSize = 32 << 10
	ringScale  = 8
)

// connectAs connects with connections that have the name of the client. The channels of a cluster are part of that
// name, and connectAs may have to ask the cluster for them first. Most clusters have sharded channels, and connectAs
// connects a second time only to those that do not.
func connectAs(ctx context.Context, option rueidis.ClientOption, opts Options) (rueidis.Client, PubSub, string, error) {
	hears := protocol.ListensPlain
	if modeOf(option) == rueidis.ClientModeCluster && opts.PubSub != PubSubPlain {
		hears = protocol.ListensSharded
	}
	for {
		uuid := protocol.NewUUID(hears)
		rc, err := connect(ctx, named(option, opts, uuid))
		if err != nil {
			return nil, 0, "", fmt.Errorf("lockgen: open: %w", err)
		}
		mode, err := channels(rc, opts)
		if err != nil {
			rc.Close()
			return nil, 0, "", err
		}
		is := listens(rc, mode)
		if is == hears {
			return rc, mode, uuid, nil
		}
		rc.Close()
		hears = is
	}
}

// modeOf returns what option connects to.
func modeOf(option rueidis.ClientOption) rueidis.ClientMode {
	switch {
	case option.Sentinel.MasterSet != "":
		return rueidis.ClientModeSentinel
	case option.ForceSingleClient:
		return rueidis.ClientModeStandalone
	}
	return rueidis.ClientModeCluster
}

// named gives the connections of the client uuid its name, with host and process.
func named(option rueidis.ClientOption, opts Options, uuid string) rueidis.ClientOption {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	host = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == ':' { // the server refuses spaces and characters that are not ASCII
			return '-'
		}
		return r
	}, host)
	option.ClientName = fmt.Sprintf("lockgen:%s:%s:%d", uuid, host, os.Getpid())
	if opts.Anonymous {
		option.ClientName = "lockgen:" + uuid
	}
	option.Sentinel.ClientName = option.ClientName
	return option
}

// connect is rueidis.NewClient until ctx ends, also for a server that does not permit names of connections.
func connect(ctx context.Context, option rueidis.ClientOption) (rueidis.Client, error) {
	rc, err := connectOnce(ctx, option)
	if said, ok := transport.Replied(err); ok && option.ClientName != "" && !strings.HasPrefix(said.Error(), "WRONGPASS") {
		option.ClientName, option.Sentinel.ClientName = "", ""
		return connectOnce(ctx, option)
	}
	return rc, err
}

func connectOnce(ctx context.Context, option rueidis.ClientOption) (rueidis.Client, error) {
	type outcome struct {
		rc  rueidis.Client
		err error
	}
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	got := make(chan outcome, 1)
	go func() {
		rc, err := rueidis.NewClient(option)
		if rc != nil && (err != nil || ctx.Err() != nil) { // rueidis returns a client of a single server with its error, too
			rc.Close()
			err = cmpOr(err, ended(ctx))
		}
		got <- outcome{rc, err}
	}()
	select {
	case o := <-got:
		if o.err != nil {
			return nil, o.err
		}
		return o.rc, nil
	case <-ctx.Done():
		go func() { // it may have connected at this very moment
			if o := <-got; o.err == nil {
				o.rc.Close()
			}
		}()
		return nil, ended(ctx)
	}
}

// saysCluster reports whether a URL marks its server as one of a cluster.
func saysCluster(text string) (bool, error) {
	u, err := url.Parse(text)
	if err != nil || !u.Query().Has("cluster") {
		return false, err
	}
	said, err := strconv.ParseBool(u.Query().Get("cluster"))
	if err != nil {
		return false, fmt.Errorf("cluster=%q is neither true nor false", u.Query().Get("cluster"))
	}
	return said, nil
}

// sentinelUser returns the user and the password for sentinels in a URL.
func sentinelUser(text string) (name, password string) {
	u, err := url.Parse(text)
	if err != nil {
		return "", "" // rueidis has returned that error
	}
	return u.Query().Get("sentinel_username"), u.Query().Get("sentinel_password")
}
