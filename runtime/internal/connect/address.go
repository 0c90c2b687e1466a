package connect

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/failure"
)

// An address is the servers of a url, with the options to connect to them.
type address struct{ option rueidis.ClientOption }

// The size of a connection's buffer for reading and of that for writing, in bytes, and of its ring of requests, as a power of two.
const (
	bufferSize = 16 << 10
	ringScale  = 7
)

// Redis returns the options for a client of rueidis to connect to a url, as Open does.
func (o Options) Redis(url string) (rueidis.ClientOption, error) {
	at, err := o.address(url)
	return at.option, err
}

// address reads the url text.
func (o Options) address(text string) (address, error) {
	option, u, said, err := parse(text)
	if err != nil {
		return address{}, err
	}
	clustered, err := SaysCluster(said)
	if err != nil {
		return address{}, err
	}
	// One connection for all commands: they are answered in order and share their packets.
	option.PipelineMultiplex = -1
	option.DisableCache, option.DisableRetry = true, false
	// By default a connection has 1 MiB of buffers, and room for 1,024 requests. A client has two to four connections, seldom up to 19, and few requests
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
	if err := o.secure(u.Scheme, &option); err != nil {
		return address{}, err
	}
	option.Sentinel.Dialer, option.Sentinel.TLSConfig = option.Dialer, option.TLSConfig
	option.Sentinel.Username, option.Sentinel.Password = said.Get("sentinel_username"), said.Get("sentinel_password")
	option.Sentinel.TopologyRefreshInterval = time.Second // the sentinel that leads a failover announces it late, and the message may be lost
	return address{pausing(option)}, nil
}

// parameters are what a URL may have behind its question mark: what the client reads, then what rueidis reads besides. An unknown one may be a
// misspelt cluster or master_set, without which the client would take one server for all of them.
var parameters = []string{
	"addr", "cluster", "db", "master_set", "sentinel_username", "sentinel_password", "skip_verify", "protocol",
	"client_cache", "client_name", "dial_timeout", "max_retries", "write_timeout",
}

// errNoURL is the error of a text that is no URL. The text may have a password, so the error does not say more.
var errNoURL = fmt.Errorf("%w: the text is no URL; a password has to be percent-encoded", failure.ErrBadOption)

// parse reads a url and its parameters. It refuses what rueidis would leave out, or take for something else, and so connect to another server.
func parse(text string) (option rueidis.ClientOption, u *url.URL, said url.Values, err error) {
	u, err = url.Parse(text)
	if err != nil || misplaced(u) {
		return option, nil, nil, errNoURL
	}
	if said, err = url.ParseQuery(u.RawQuery); err != nil || u.Opaque != "" {
		return option, nil, nil, errNoURL
	}
	if u.Path == "/" && u.Scheme != "unix" { // rueidis would miss the number of a database
		bare := *u
		bare.Path = ""
		text = bare.String()
	}
	if option, err = rueidis.ParseURL(text); err != nil {
		return option, nil, nil, fmt.Errorf("%w: %w", failure.ErrBadOption, err)
	}
	if u.Scheme == "unix" && u.Host != "" {
		if strings.Contains(u.Path, "@") { // the host may be the beginning of a password
			return option, nil, nil, errNoURL
		}
		return option, nil, nil, fmt.Errorf("%w: unix://%s%s names the host %s; the URL of the socket with the path /%s%s is unix:///%s%s",
			failure.ErrBadOption, u.Host, u.Path, u.Host, u.Host, u.Path, u.Host, u.Path)
	}
	if strings.Count(u.Host, ":") > 1 && !strings.HasPrefix(u.Host, "[") { // rueidis would take another port
		return option, nil, nil, fmt.Errorf("%w: the host of the URL has several colons; an IPv6 address has brackets, as in redis://[::1]:6379, and "+
			"further servers are addr=host:port", failure.ErrBadOption)
	}
	for name, values := range said {
		if !slices.Contains(parameters, name) {
			return option, nil, nil, fmt.Errorf("%w: the URL has an unknown parameter %q; known ones are %s", failure.ErrBadOption, name,
				strings.Join(parameters, ", "))
		}
		if len(values) > 1 && name != "addr" {
			return option, nil, nil, fmt.Errorf("%w: the URL has %s twice", failure.ErrBadOption, name)
		}
	}
	if number := strings.TrimPrefix(u.Path, "/"); said.Has("db") && u.Scheme != "unix" && number != "" && number != said.Get("db") {
		return option, nil, nil, fmt.Errorf("%w: the URL has two databases, /%s and db=%s", failure.ErrBadOption, number, said.Get("db"))
	}
	for _, addr := range said["addr"] {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return option, nil, nil, fmt.Errorf("%w: addr=%s is not host:port", failure.ErrBadOption, addr)
		}
	}
	if said.Has("master_set") && option.Sentinel.MasterSet == "" {
		return option, nil, nil, fmt.Errorf("%w: master_set is empty", failure.ErrBadOption)
	}
	return option, u, said, nil
}

// texts are the parameters whose values can have any characters.
var texts = []string{"client_name", "master_set", "sentinel_username", "sentinel_password"}

// misplaced reports whether a part of u may be the end of a password: a slash, a question mark or a number sign in it, which is not
// percent-encoded, ends the host.
func misplaced(u *url.URL) bool {
	for name, values := range u.Query() {
		if strings.Contains(name, "@") || !slices.Contains(texts, name) && strings.Contains(strings.Join(values, ""), "@") {
			return true
		}
	}
	return u.Fragment != "" || u.Scheme != "unix" && strings.Contains(u.Path, "@")
}

// secure configures TLS for the connections.
func (o Options) secure(scheme string, option *rueidis.ClientOption) error {
	if o.TLS == nil {
		return nil
	}
	if option.TLSConfig == nil {
		return fmt.Errorf("lockgen: Options.TLS: %w: the url begins with %s://, not with rediss://", failure.ErrBadOption, scheme)
	}
	said := option.TLSConfig
	option.TLSConfig = o.TLS.Clone()
	if option.TLSConfig.ServerName == "" {
		option.TLSConfig.ServerName = said.ServerName
	}
	if said.InsecureSkipVerify { // skip_verify of the url
		option.TLSConfig.InsecureSkipVerify = true
	}
	return nil
}

// SaysCluster reports whether a url with these parameters marks its server as one of a cluster.
func SaysCluster(said url.Values) (bool, error) {
	if !said.Has("cluster") {
		return false, nil
	}
	is, err := strconv.ParseBool(said.Get("cluster"))
	switch {
	case err != nil:
		return false, fmt.Errorf("%w: cluster=%q is neither true nor false", failure.ErrBadOption, said.Get("cluster"))
	case is && said.Has("master_set"):
		return false, fmt.Errorf("%w: a URL has cluster=true or master_set, not both", failure.ErrBadOption)
	case !is && said.Has("addr") && !said.Has("master_set"):
		return false, fmt.Errorf("%w: cluster=false, but addr names further servers of a cluster", failure.ErrBadOption)
	}
	return is, nil
}

// mode returns what kind of servers there are.
func (at address) mode() rueidis.ClientMode {
	switch {
	case at.option.Sentinel.MasterSet != "":
		return rueidis.ClientModeSentinel
	case at.option.ForceSingleClient:
		return rueidis.ClientModeStandalone
	}
	return rueidis.ClientModeCluster
}

// masters returns an address of the sentinels, the same for all programs, and the name of their masters; "" without sentinels.
func (at address) masters() string {
	if at.option.Sentinel.MasterSet == "" {
		return ""
	}
	return slices.Min(at.option.InitAddress) + "/" + at.option.Sentinel.MasterSet
}
