// Package transport carries the commands of package protocol to Redis and brings back replies and messages, and notices that a
// server was replaced. It is the only package, beside the ones that connect, that talks to rueidis.
//
// Commands. [Transport.Run] sends one command and blocks for its reply; a [Batcher] sends the requests of many callers in one
// command. Scripts are loaded before the first call, and again when a server has forgotten them. A lone caller has a
// connection to itself, see [Transport.Prompt]. In a cluster, commands go to the server that has the slot.
//
// Messages. [Transport.Listen] subscribes to a channel, on the server that has it. On the same connection a single server
// reports changes to keys that were renewed over it.
//
// Failover. While the process holds something or waits, the transport looks whether another server has become the master, by
// the word of the sentinels or of the cluster, and has the leases on it checked.
//
// Errors. [Passing], [Unknown] and [Begun] say what an error means for a request.
package transport

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// A User is the client that a transport works for. Its methods do not block.
type User interface {
	// Go runs f on a goroutine that ends before the client is closed.
	Go(f func())
	// Aside runs f on a goroutine that may end later: it waits for an answer that nobody needs.
	Aside(f func())
	// Leave makes a goroutine of Go one of Aside, which calls Return when its function ends.
	Leave()
	Return()
	// Busy reports whether the client holds anything or waits for anything.
	Busy() bool
	// Resting returns for how long at most a client that is not Busy can do without messages on its only channel; 0 for one that
	// needs them.
	Resting(channel string) time.Duration
	// Recheck confirms the leases of some keys at once: their server may have lost writes. All leases, if some is nil.
	Recheck(some func(key string) bool)
	// EachKey calls f for the key of each lease.
	EachKey(f func(key string))
	// ListenTo listens on the channel of the client in the slot of a hash tag, until leave is called.
	ListenTo(tag string) (leave func())
	// Changed reports keys that another client changed, or, for nil, that all keys may have
	// changed.
	Changed(keys []string)
	// LookFirst sets how long after its grant a lease is confirmed for the first time; 0 is when it is renewed anyway.
	LookFirst(after time.Duration)
}

// Channels selects the kind of channels on which the programs of a cluster announce releases.
type Channels int

// The kinds of channels.
const (
	PlainChannels Channels = iota
	ShardedChannels
	BothChannels
)

// Config configures a transport.
type Config struct {
	Client    rueidis.Client
	UUID      string   // of the client, which names its channels
	Channels  Channels // of a cluster
	Tracking  bool     // make a single server report changes
	Replicas  int      // number of replicas that must confirm a grant
	OpTimeout time.Duration
	Logger    *slog.Logger
	Stopped   <-chan struct{} // closed when background work must give up
	User      User
}

// A Transport connects one client to its servers. Its methods may be called from any goroutine.
type Transport struct {
	rc      rueidis.Client
	cfg     Config
	cluster *cluster // nil unless the servers are one

	brief     bool          // a request is answered, or has failed, within OpTimeout
	loads     atomic.Uint64 // times that the scripts were loaded
	spoke     atomic.Int64  // when the server answered last, a monotonic.Time
	sending   atomic.Int32  // scripts under way over the shared connection
	stuck     atomic.Int32  // those of them whose answer is late, and for which another goroutine has gone on
	pipelined atomic.Bool   // there were two at once: from then on rueidis has goroutines that write and read

	loading    chan struct{} // has a token while the scripts are loaded; a mutex would stand still in virtual time
	confirming chan struct{} // as many tokens as requests that wait for replicas
	direct     direct
	crowd      crowd
	tracker    tracker
	second     second
	lateness   lateness
	pace       pace
	renewals   pending // over the shared connection, if that is one
	watcher    topologyWatcher
	hub        *hub.Hub
}

// New returns a transport. It sends nothing.
func New(cfg Config) *Transport {
	t := &Transport{rc: cfg.Client, cfg: cfg, loading: make(chan struct{}, 1)}
	t.tracker.net, t.direct.net, t.second.net = t, t, t
	t.Rest(directRest, secondFor)
	t.tracker.closed = !cfg.Tracking
	if cfg.Replicas > 0 {
		t.confirming = make(chan struct{}, mostConfirming)
	}
	switch cfg.Client.Mode() {
	case rueidis.ClientModeSentinel:
		t.watcher.sentinel, t.watcher.look = true, t.lookForMaster
		t.watcher.master = t.servers()
	case rueidis.ClientModeCluster:
		t.cluster = &cluster{net: t, channels: cfg.Channels, owners: &owners{addrs: []string{""}}}
		t.tracker.closed = true
		t.watcher.look, t.watcher.rest = t.cluster.look, t.cluster.rest
	}
	t.hub = t.newHub()
	return t
}

// Rest sets for how long the direct connection and the second ones are kept without a use. Call it before the first request.
func (t *Transport) Rest(direct, second time.Duration) { t.direct.rest, t.second.rest = direct, second }

// Bound promises that rueidis answers a request, or fails, within within, if it has to connect first. Then a single
// server has a direct connection. Call it before the first request.
func (t *Transport) Bound(within time.Duration) {
	t.brief = t.cluster == nil && within <= t.cfg.OpTimeout
	t.direct.on = t.brief && t.rc.Mode() == rueidis.ClientModeStandalone
}

// Quit ends the connections that only this transport uses, but those that subscribe, which [Transport.Unlisten] ends. The
// client has stopped.
func (t *Transport) Quit() {
	var closing sync.WaitGroup // closing a mute connection takes a second
	closing.Go(t.direct.drop)
	closing.Go(t.second.close)
	closing.Go(t.tracker.close)
	closing.Wait()
}

// Unlisten ends all subscriptions.
func (t *Transport) Unlisten() { t.hub.Close() }

// Addrs returns the addresses of the servers, sorted.
func (t *Transport) Addrs() []string { return slices.Sorted(maps.Keys(t.rc.Nodes())) }

// servers returns one name for all servers, which changes with them.
func (t *Transport) servers() string { return strings.Join(t.Addrs(), " ") }

// Clustered reports whether the servers are a cluster.
func (t *Transport) Clustered() bool { return t.cluster != nil }

// Tracks reports whether servers may be asked to report changes.
func (t *Transport) Tracks() bool { return t.cfg.Tracking && t.cluster == nil }

// TracksChanges reports whether the server reports changes, and makes it begin to if it does not: a flushed server loses
// its wait queues, and only tracking shows that.
func (t *Transport) TracksChanges() bool { return t.tracker.tells() }

// Sharded reports whether the client listens on sharded channels.
func (t *Transport) Sharded() bool { return t.cluster != nil && t.cluster.channels != PlainChannels }

// ClockUnknown reports whether it is not known which server sent a message, and so whose clock it names.
func (t *Transport) ClockUnknown() bool { return t.cluster != nil && !t.Sharded() }

// Holds records that the client holds a key, so that a failover of its server is noticed.
func (t *Transport) Holds(key string) {
	if t.cluster != nil {
		t.cluster.holds(key)
	}
}

// Server returns a number for the server that has a key of a cluster, as far as is known; 0 for all keys of a single server.
func (t *Transport) Server(key string) uint16 {
	if t.cluster == nil {
		return 0
	}
	return t.cluster.serverOf(key)
}

// SameServer returns whether a key is on the server that has the slot of name.
func (t *Transport) SameServer(name string) func(key string) bool {
	if t.cluster == nil {
		return func(string) bool { return true }
	}
	addr := t.cluster.nodeOf(name)
	return func(key string) bool { return t.cluster.nodeOf(key) == addr }
}

// TTL asks for how long a key lives, and whether it is the owner's.
func (t *Transport) TTL(key, owner string) (ttl time.Duration, ours bool, err error) {
	t.pipelined.Store(true)
	replies := t.rc.DoMulti(context.Background(), t.rc.B().Hexists().Key(key).Field(owner).Build(), t.rc.B().Pttl().Key(key).Build())
	if ours, err = t.translate(replies[0]).AsBool(); err != nil {
		return 0, false, err
	}
	ms, err := t.translate(replies[1]).AsInt64()
	return time.Duration(ms) * time.Millisecond, ours, err
}

// Get asks for the text of a key, and whether there is one, until ctx ends.
func (t *Transport) Get(ctx context.Context, key string) (text string, exists bool, err error) {
	t.pipelined.Store(true)
	reply := t.rc.Do(ctx, t.rc.B().Get().Key(key).Build())
	if ctx.Err() == nil {
		reply = t.translate(reply)
	}
	text, err = reply.ToString()
	if rueidis.IsRedisNil(err) {
		return "", false, nil
	}
	return text, err == nil, err
}

// MarkShared notes that the client of rueidis is used by others than the transport, so that its connection may be pipelined from
// now on.
func (t *Transport) MarkShared() { t.pipelined.Store(true) }

// pause waits for d, and reports false if the client was stopped meanwhile.
func (t *Transport) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-t.cfg.Stopped:
		return false
	}
}

// A Reply is the reply to a command, or the error instead of it.
type Reply struct{ result rueidis.RedisResult }

// Err returns the error of a request that has no reply, or whose reply is an error.
func (r Reply) Err() error { return r.result.Error() }

// Int returns a reply that is an integer.
func (r Reply) Int() (int64, error) { return r.result.AsInt64() }

// Ints returns a reply that is an array of integers.
func (r Reply) Ints() ([]int64, error) { return r.result.AsIntSlice() }

// Bool returns a reply that is 0 or 1.
func (r Reply) Bool() (bool, error) { return r.result.AsBool() }

// Any returns a reply of integers, strings and arrays of them.
func (r Reply) Any() (any, error) { return r.result.ToAny() }

// Run sends a command and blocks for its reply. It takes no context: rueidis would set a deadline on the connection, which
// other callers share, and a context that can be cancelled costs it a third of its speed. The timeout of the connection
// bounds the call; a caller that has to return earlier waits beside it.
func (t *Transport) Run(cmd protocol.Command) Reply { return Reply{t.run(cmd)} }

// RunBatch sends the command of a batch, again if the answer is late, and returns the error of the command, or the first one of its
// requests.
func (t *Transport) RunBatch(cmd protocol.Command) error {
	answer, _ := t.RunInTime(nil, cmd)
	reply, err := answer.result.ToArray()
	for size := len(protocol.Answer{}); err == nil && len(reply) > 0; reply = reply[size:] {
		if len(reply) < size {
			return errShort
		}
		_, err = answerOf(reply)
	}
	return err
}

var errShort = errors.New("the reply to a batch has too few values")
