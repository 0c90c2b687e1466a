package locktest

import (
	"net/url"
	"testing"
	"time"

	lockrt "github.com/lockgen/lockgen/runtime"
	connects "github.com/lockgen/lockgen/runtime/internal/connect"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A Network stands between clients and the test's [Server], and fails on demand. A fault affects
// all clients of one Network; give each a Network of its own to break only one. Its methods may be
// called from any goroutine.
//
// For other faults, such as requests that arrive while replies do not, see [redistest.FaultProxy].
type Network struct {
	tb    testing.TB
	proxy *redistest.FaultProxy
	url   string
}

// NewNetwork returns a Network that works. It ends with the test. It stands in front of one server, and cannot see into connections that use TLS: it fails
// the test if $REDIS_URL demands them, or names a cluster or sentinels.
func NewNetwork(tb testing.TB) *Network {
	tb.Helper()
	proxy, by, ok := inFront(tb, Server(tb))
	if !ok {
		tb.Fatalf("locktest: a network needs one server at redis://host:port, not %q", Server(tb))
	}
	return &Network{tb: tb, proxy: proxy, url: by}
}

// inFront starts a proxy in front of the server that a URL names, and returns the URL by which clients reach the server through it. It reports false
// for a server whose connections a proxy cannot see into, with TLS or at a socket, and for several servers, to which a client finds the way itself.
func inFront(tb testing.TB, server string) (proxy *redistest.FaultProxy, by string, ok bool) {
	tb.Helper()
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "redis" || several(u.Query()) {
		return nil, "", false
	}
	if u.Port() == "" {
		u.Host += ":6379"
	}
	proxy = redistest.Proxy(tb, u.Host)
	u.Host = proxy.Addr()
	return proxy, u.String(), true
}

// several reports whether a URL with these parameters names a cluster or sentinels.
func several(said url.Values) bool {
	cluster, err := connects.SaysCluster(said)
	return err != nil || cluster || said.Has("addr") || said.Has("master_set")
}

// URL returns the address at which clients reach the server through the network.
func (n *Network) URL() string { return n.url }

// Client is [Client] with connections through the network. When the test ends the network is healed
// before the client is closed.
func (n *Network) Client(opts lockrt.Options) *lockrt.Client {
	n.tb.Helper()
	c := client(n.tb, Server(n.tb), n.url, opts)
	n.tb.Cleanup(n.Heal)
	return c
}

// DropReply loses the reply to the next script, and the connection with it: Redis has locked, unlocked or renewed, and
// the client does not know. The returned channel is closed when that has happened. The script may be one by which the client looks after its lease: it
// does so some milliseconds after its first grant, which [lockrt.TrackingOff] prevents, and then at each renewal.
func (n *Network) DropReply() <-chan struct{} {
	return n.proxy.DropReply(redistest.Command("EVALSHA"), 1, redistest.Close).Done()
}

// DropRequest loses the next script on its way to Redis, which does nothing, and the connection with
// it. The client cannot tell this from DropReply. The channel is closed when that has happened.
func (n *Network) DropRequest() <-chan struct{} {
	return n.proxy.DropRequest(redistest.Command("EVALSHA"), 1, redistest.Close).Done()
}

// Delay makes every message take d longer, each way, until Delay(0) or [Network.Heal].
func (n *Network) Delay(d time.Duration) { n.proxy.Delay(d) }

// HalfOpen blocks all traffic, while connections stay open and new ones are accepted. Data sent meanwhile arrive late,
// with [Network.Heal], even if the sender has given up.
func (n *Network) HalfOpen() { n.proxy.Blackhole(redistest.Both) }

// Reset breaks all connections. New ones work.
func (n *Network) Reset() { n.proxy.Cut() }

// Refuse breaks all connections and refuses new ones, until [Network.Heal].
func (n *Network) Refuse() { n.proxy.Refuse(true) }

// Heal ends Delay, HalfOpen and Refuse.
func (n *Network) Heal() {
	n.proxy.Delay(0)
	n.proxy.Deliver()
	n.proxy.Refuse(false)
}
