// Package transport carries the commands of package protocol to Redis and brings back replies and messages, and notices that a
// server was replaced. It is the only package, beside the ones that connect, that talks to rueidis.
//
// Commands. [Transport.Run] sends one command and blocks for its reply; a [Batcher] sends the requests of many callers in one
// command. Scripts are loaded before the first call, and again when a server has forgotten them. A single server has a
// second connection for one command at a time, see [Transport.Idle]. In a cluster, commands go to the server that has the slot.
//
// Messages. [Transport.Listen] subscribes to a channel, on the server that has it. On the same connection a single server
// reports changes to keys that were renewed over it.
//
// Failover. While the process holds something or waits, the transport looks whether another server has become the master, by
// the word of the sentinels or of the cluster, and has the leases on it checked.
//
// Errors. [Passing], [Unknown] and [Begun] say what an error means for a request.
//
// The files stand in layers. A file needs files above it in this list, and few others: request.go and window.go have the limits of batches, window.go the
// type Transport, and the four of requests need each other.
//
//	what goes in and out  config.go, request.go, reply.go, errors.go
//	figures               pace.go (response times, load), window.go (scripts under way at once), turn.go (whose turn it is to send),
//	                      pending.go (requests without an answer), strays.go (those whose calls have returned), deadline.go
//	one server            link.go (the client of rueidis), script.go (runs a script, and loads it)
//	a cluster             slots.go (asks for the owners of slots), cluster.go (knows them), channels.go, guards.go (notices failures),
//	                      route.go (redirects commands after a failover)
//	Sentinel              watch.go (notices another master)
//	connections           direct.go (for one command at a time), spare.go (beside a mute one), tracking.go (reports changes of keys),
//	                      subscribe.go (messages)
//	requests              transport.go, send.go (chooses the connection), replicas.go (waits for replicas), resend.go (sends again what is late)
//	many requests         queues.go (what waits), senders.go (which requests go together, and which goroutine sends them), batch.go (makes
//	                      batchers), renew.go (renewals)
//	for other packages    bounded.go (ends a call with its context), others.go (plain commands that ask, and find other clients)
//
// A batch is built in [call.command]. A message arrives in [tracker.subscriber], or in [cluster.subscriber] of a cluster, and package hub
// passes it to the function that was given to Listen. A reply that is late or lost has the command sent again by [Transport.sendLate]; the error
// of a request that stays without a reply is one of which [Unknown] is true.
package transport

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// mostConfirming is the largest number of scripts that wait for replicas at a time. Each has a connection of its own,
// since no other request is answered over it meanwhile.
const mostConfirming = 32

// A Transport connects one client to its servers. Its methods may be called from any goroutine.
type Transport struct {
	link

	cluster    *cluster // nil unless the servers are one
	guards     *guards  // of the cluster
	hub        *hub.Hub
	watcher    topologyWatcher
	direct     directs
	spares     spares
	tracker    tracker
	renewals   pendings      // that have no answer over the shared connections
	confirming chan struct{} // as many tokens as requests that wait for replicas
	crowd      crowd
	lateness   lateness
	brief      bool        // a request is answered, or has failed, within OpTimeout
	pipelined  atomic.Bool // there were two commands at once: from then on rueidis has goroutines that write and read
}

// New returns a transport. It sends nothing.
func New(cfg Config) *Transport {
	t := &Transport{link: link{rc: cfg.Client, cfg: cfg}}
	l := &t.link
	t.confirming = make(chan struct{}, mostConfirming)
	t.direct.init(l)
	t.tracker.link, t.spares.link, t.watcher.link = l, l, l
	t.spares.to = map[string]*spare{}
	t.Rest(directRest, spareRest)
	switch l.rc.Mode() {
	case rueidis.ClientModeSentinel:
		t.watcher.look, t.watcher.master = t.watcher.lookForMaster, l.servers()
	case rueidis.ClientModeCluster:
		t.cluster = newCluster(l)
		t.spares.cluster, l.askAll = t.cluster, t.cluster.ask
		t.guards = &guards{cluster: t.cluster, of: map[string]guard{}}
		t.watcher.look, t.watcher.rest = t.lookAtCluster, t.guards.rest
	}
	if !t.Tracks() {
		t.tracker.stage = trackingOff
	}
	if t.cluster != nil {
		t.hub = t.cluster.newHub()
		t.cluster.hub = t.hub
	} else {
		t.hub = t.tracker.newHub()
	}
	t.tracker.hub, t.watcher.hub = t.hub, t.hub
	return t
}

// lookAtCluster notices that slots have other owners, and that servers have failed.
func (t *Transport) lookAtCluster() {
	t.cluster.glance()
	t.guards.look()
}

// Rest sets for how long the direct connections and the spare ones are kept without a use. Call it before the first request.
func (t *Transport) Rest(direct, spare time.Duration) { t.direct.rest, t.spares.rest = direct, spare }

// Bound promises that rueidis answers a request, or fails, within within, if it has to connect first. Then a single
// server has direct connections. Call it before the first request.
func (t *Transport) Bound(within time.Duration) {
	t.brief = t.cluster == nil && within <= t.cfg.OpTimeout
	t.direct.on = t.brief && t.rc.Mode() == rueidis.ClientModeStandalone
}

// Quit ends the connections that only this transport uses, but those that subscribe, which [Transport.Unlisten] ends. The
// client has stopped.
func (t *Transport) Quit() {
	var closing sync.WaitGroup // closing a mute connection takes a second
	closing.Go(t.direct.drop)
	closing.Go(t.spares.close)
	closing.Go(t.tracker.close)
	closing.Wait()
}

// Over records that the client of rueidis is closed for good, or about to be: a request that fails for that reason fails no longer because of a
// failover.
func (t *Transport) Over() { t.over.Store(true) }

// Unlisten ends all subscriptions.
func (t *Transport) Unlisten() { t.hub.Close() }

// closingMute is how long rueidis takes to close a connection that is mute, and a bit more.
const closingMute = 1200 * time.Millisecond

// longestStray is how long a client that is closed waits for a command without an answer: it has to end within OpTimeout.
func (t *Transport) longestStray() time.Duration {
	return max(0, min(t.cfg.OpTimeout/2, t.cfg.OpTimeout-closingMute))
}

// Settled returns a channel. It is closed when no stray command may lock a key any more, or when the time of longestStray is over since the first
// call of Settled.
func (t *Transport) Settled() <-chan struct{} { return t.lateness.strays.settle(t.longestStray()) }

// Watch starts to look whether keys are on other servers than before, until the client holds nothing and waits for nothing. It does not
// block.
func (t *Transport) Watch() { t.watcher.start() }

// Clustered reports whether the servers are a cluster.
func (t *Transport) Clustered() bool { return t.cluster != nil }

// Tracks reports whether servers may be asked to report changes.
func (t *Transport) Tracks() bool { return t.cfg.Tracking && t.cluster == nil }

// TracksChanges reports whether the server reports changes, and makes it begin to if it does not: a flushed server loses
// its wait queues, and only tracking shows that.
func (t *Transport) TracksChanges() bool { return t.tracker.tells() }

// Sharded reports whether the client listens on sharded channels.
func (t *Transport) Sharded() bool { return t.cluster != nil && t.cfg.Channels != PlainChannels }

// ClockUnknown reports whether it is not known which server sent a message, and so whose clock it names.
func (t *Transport) ClockUnknown() bool { return t.cluster != nil && !t.Sharded() }

// Holds records that the client holds a key, so that a failover of its server is noticed.
func (t *Transport) Holds(key string) {
	if t.cluster != nil {
		t.guards.holds(key)
	}
}

// Server returns a number for the server that has a key of a cluster, as far as is known; 0 for all keys of a single server.
func (t *Transport) Server(key string) uint16 {
	if t.cluster == nil {
		return 0
	}
	return t.cluster.numberOf(key)
}

// SameServer returns whether a key is on the server that has the slot of name.
func (t *Transport) SameServer(name string) func(key string) bool {
	addr := t.cluster.nodeOf(name)
	return func(key string) bool { return t.cluster.nodeOf(key) == addr }
}

// markShared notes that the client of rueidis is used by others than the transport, so that its connection may be pipelined from
// now on.
func (t *Transport) markShared() { t.pipelined.Store(true) }

// Listen calls event for each message on a channel, until the listener is closed. event does not block. Each channel is
// subscribed once, however many listeners it has.
func (t *Transport) Listen(channel string, event func(hub.Event)) *hub.Listener {
	return t.hub.Listen(channel, event)
}

// Heard returns how many messages have come on a channel of Redisson since it was subscribed, and how many of the subscriptions
// that the server counts are the client's own.
func (t *Transport) Heard(channel string) (messages uint64, own int64) {
	messages, subscribed := t.hub.Heard(channel)
	if !subscribed {
		return messages, 0
	}
	if t.cluster != nil && t.cfg.Channels == BothChannels {
		return messages, 2
	}
	return messages, 1
}

// ResponseTime returns how long the servers take for an answer, smoothed.
func (t *Transport) ResponseTime() time.Duration { return t.pace.typical() }

// Resent returns how many requests were sent again so far because the connection broke and the slot had another server. A request
// during which the number changed may have been one of them.
func (t *Transport) Resent() uint64 {
	if t.cluster == nil {
		return 0
	}
	return t.cluster.resends.Load()
}

// SentAgain returns how many commands were sent again so far, without a pause: those of [Transport.Resent], and those whose answer did not come in
// time, or whose connection broke.
func (t *Transport) SentAgain() uint64 { return t.Resent() + t.lateness.again.Load() }

// Redirects returns to how many servers of a cluster commands are redirected.
func (t *Transport) Redirects() int {
	if t.cluster == nil {
		return 0
	}
	return int(t.cluster.redirects.Load())
}

// server returns the name of the server that a command goes to, as far as is known: none, if there is one server.
func (t *Transport) server(cmd protocol.Command) string { return t.cluster.nodeOf(cmd.Keys[0]) }
