package lockrt

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/internal/watchdog"
)

// PubSub says by which channels the programs that share locks tell each other of releases, in a cluster.
// There are two kinds, which do not hear each other: plain channels, whose messages every server of the cluster
// is sent, and sharded ones, which Redis and Valkey have from 7.0 on, whose messages stay with the servers of one
// slot. It has to be the same in all programs, and in Java's: Redisson's shardedSubscriptionMode. Who listens on the
// wrong kind still gets every lock, but only when its timer ends.
type PubSub int

const (
	// PubSubAuto is what Redisson does by default from 3.28.0 on: sharded channels if the servers have
	// them. [New] asks, and fails if no server says so or the contrary within [Options.OpTimeout].
	PubSubAuto PubSub = iota

	// PubSubSharded has all messages sent and heard on sharded channels. Redisson's ON.
	PubSubSharded

	// PubSubPlain has all messages sent and heard on plain channels. Redisson's OFF, and what it did
	// before 3.22.0.
	PubSubPlain

	// PubSubBoth sends and hears each message on both kinds: for as long as not all programs do
	// the same.
	PubSubBoth
)

// A cluster is what a client knows of the servers that it talks to, if they are a cluster. It sends its commands
// where rueidis thinks that they belong; what it knows itself of who has which slot serves for subscriptions, which
// rueidis does not move.
type cluster struct {
	c    *Client
	mode PubSub // not auto
	takeovers

	mu     sync.Mutex        // guards the rest
	owing  map[string]*owing // renewals sent to a server
	owners *owners
	asking chan struct{} // closed when the question under way is answered; nil if there is none
	asked  time.Time     // when the last one was
	pause  time.Duration // after it
	silent bool          // the log was told that it may not be asked
}

// channels returns by which channels the programs in a cluster tell each other of releases, never PubSubAuto. What are no
// servers of a cluster are not asked.
func channels(rc rueidis.Client, opts Options) (PubSub, error) {
	if rc.Mode() != rueidis.ClientModeCluster || opts.PubSub != PubSubAuto {
		return opts.PubSub, nil
	}
	has, err := shardedChannels(rc, opts)
	if err != nil {
		return opts.PubSub, fmt.Errorf("lockgen: ask the cluster whether it has sharded channels, which Options.PubSub could say: %w", refused(err))
	}
	if has {
		return PubSubSharded, nil
	}
	return PubSubPlain, nil
}

// listens returns on which channels a client of rc is sent messages.
func listens(rc rueidis.Client, mode PubSub) protocol.Listens {
	switch {
	case rc.Mode() != rueidis.ClientModeCluster:
		return protocol.ListensPlain
	case mode == PubSubPlain:
		return protocol.ListensCluster
	}
	return protocol.ListensSharded
}

// publish returns how the scripts announce what Redisson announces, in a cluster.
func (mode PubSub) publish() protocol.Publish {
	switch mode {
	case PubSubSharded:
		return protocol.PublishSharded
	case PubSubBoth:
		return protocol.PublishBoth
	}
	return protocol.PublishPlain
}

// joinCluster has c be a client of a cluster.
func (c *Client) joinCluster(mode PubSub) {
	c.cluster = &cluster{c: c, mode: mode, owners: &owners{addrs: []string{""}}}
}

// saysCluster reports whether a URL says that the server it names is one of a cluster.
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

// shardedChannels reports whether the servers have them, as Redisson asks it: by a command that only such servers know. All are
// asked at once, and the first one that knows is believed. Who says that it cannot be asked now is asked again, since the answer
// holds for the life of the client: without sharded channels it would not hear those who use them.
func shardedChannels(rc rueidis.Client, opts Options) (has bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), opts.OpTimeout)
	defer cancel()
	nodes := rc.Nodes()
	answers := make(chan error)
	asked := func(node rueidis.Client) (again bool) {
		err := node.Do(context.Background(), node.B().Arbitrary("PUBSUB", "SHARDNUMSUB", "0").Build()).Error()
		select {
		case answers <- err:
		case <-ctx.Done():
		}
		return err != nil && passing(err)
	}
	for _, node := range nodes {
		go func() {
			for refused := 1; asked(node); refused++ {
				select {
				case <-time.After(opts.Retry.pause(refused)):
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	err = fmt.Errorf("none of %d answers within %v", len(nodes), opts.OpTimeout)
	for left := len(nodes); left > 0; {
		select {
		case said := <-answers:
			switch {
			case said == nil:
				return true, nil
			case unheardOf(said):
				return false, nil
			case !passing(said):
				left--
			}
			err = said
		case <-ctx.Done():
			return false, err
		}
	}
	return false, err
}

// unheardOf reports whether a server does not know a command, or not that of several of one name.
func unheardOf(err error) bool {
	said, ok := replied(err)
	if !ok {
		return false
	}
	text := strings.ToLower(said.Error()) // before Redis 7 it begins with a capital
	return strings.Contains(text, "unknown command") || strings.Contains(text, "unknown subcommand")
}

// shards reports whether the client listens on sharded channels.
func (c *Client) shards() bool { return c.cluster != nil && c.cluster.mode != PubSubPlain }

// kinds says on which kinds of channels a client subscribes to the name of one.
func (cl *cluster) kinds(name string) (plain, sharded bool) {
	switch own := protocol.ProcessChannel(cl.c.wire.UUID); {
	case name == own:
		return true, false
	case strings.HasPrefix(name, own):
		return cl.mode == PubSubPlain, cl.mode != PubSubPlain
	}
	return cl.mode != PubSubSharded, cl.mode != PubSubPlain
}

// nodeOf returns the address of the server that has the slot of a key or a channel, as far as is known.
func (cl *cluster) nodeOf(name string) string {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.addrOf(name)
}

// addrOf is nodeOf for a caller who holds cl.mu.
func (cl *cluster) addrOf(name string) string {
	return cl.owners.addrs[cl.owners.of[protocol.Slot(name)]]
}

// serverOf tells leases of different servers apart.
func (cl *cluster) serverOf(l *watchdog.Lease) uint16 {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.owners.of[protocol.Slot(l.Key())]
}

// note has addr be the owner of a slot.
func (cl *cluster) note(slot uint16, addr string) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.owners.of[slot] = cl.owners.place(addr)
}

// owner returns a client of the server that has a slot, which follows no redirection: what is sent together stays
// together.
func (cl *cluster) owner(slot uint16) (rueidis.Client, error) {
	for range 2 {
		cl.mu.Lock()
		addr := cl.owners.addrs[cl.owners.of[slot]]
		cl.mu.Unlock()
		if node := cl.c.rc.Nodes()[addr]; node != nil {
			return node, nil
		}
		cl.ask()
	}
	return nil, fmt.Errorf("it is not known yet which server has slot %d", slot)
}

// heed has the next request for a slot go where a server has sent the last one, and reports whether one has.
func (cl *cluster) heed(slot uint16, err error) bool {
	said, ok := rueidis.IsRedisErr(err)
	if !ok {
		if err != nil {
			cl.c.spawn(cl.ask)
		}
		return false
	}
	addr, moved := said.IsMoved()
	if moved {
		cl.note(slot, addr)
	}
	return moved
}

const (
	// askPause is how long an answer to the question who has which slot is good enough. It is twice as long for each
	// further one that is the same, up to askRarely.
	askPause  = 20 * time.Millisecond
	askRarely = 100 * time.Millisecond
	// askGrace is how long after the first server the others have for their answers.
	askGrace = 50 * time.Millisecond
	// askPatience is how long the first one has.
	askPatience = time.Second
)

// ask asks the servers who has which slot, and returns when that is known, or nobody says so in time.
func (cl *cluster) ask() {
	cl.mu.Lock()
	if done := cl.asking; done != nil {
		cl.mu.Unlock()
		<-done
		return
	}
	done := make(chan struct{})
	cl.asking = done
	pause := max(cl.pause, askPause) - time.Since(cl.asked)
	cl.mu.Unlock()
	if pause > 0 {
		cl.c.pause(pause)
	}
	voted, err := cl.vote()
	var moved *[protocol.Slots]bool
	defer func() {
		close(done)
		if moved != nil {
			cl.tookOver(moved)
		}
	}()
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.asking, cl.asked = nil, time.Now()
	cl.pause = min(2*max(cl.pause, askPause/2), askRarely)
	if voted != nil {
		cl.silent = false
		if moved = cl.learn(voted); moved != nil {
			cl.pause = askPause
		}
	} else if err != nil && !cl.silent {
		cl.silent = true
		cl.c.opts.Logger.Warn("lockgen: the cluster does not say which server has what; waiters ask by timer until it does", "error", err)
	}
}

// owners are who has which slot.
type owners struct {
	addrs []string               // of servers; the first one for none
	of    [protocol.Slots]uint16 // their places in addrs
}

// place returns the place of an address.
func (o *owners) place(addr string) uint16 {
	i := slices.Index(o.addrs, addr)
	if i < 0 {
		i = len(o.addrs)
		o.addrs = append(o.addrs, addr)
	}
	return uint16(i)
}

// vote returns the owners that most servers name, of those that answer about as soon as the first one. If none does it returns
// nil, and an error if one may not be asked.
func (cl *cluster) vote() (*owners, error) {
	type answer struct {
		said []span
		err  error
	}
	nodes := cl.c.rc.Nodes()
	answers := make(chan answer, len(nodes))
	for addr, node := range nodes {
		cl.c.spawn(func() {
			said, err := spans(addr, node)
			answers <- answer{said, err}
		})
	}
	var failure error
	timer := time.NewTimer(askPatience)
	defer timer.Stop()
	o := &owners{addrs: []string{""}}
	votes := map[string]*[protocol.Slots]uint8{}
	most := new([protocol.Slots]uint8)
	for missing := len(nodes); missing > 0; missing-- {
		select {
		case a := <-answers:
			if said, ok := rueidis.IsRedisErr(a.err); ok && denied(said.Error()) {
				failure = refused(a.err)
			}
			if a.said != nil && len(votes) == 0 {
				timer.Reset(askGrace)
			}
			for _, sp := range a.said {
				tally := votes[sp.addr]
				if tally == nil {
					tally = new([protocol.Slots]uint8)
					votes[sp.addr] = tally
				}
				place := o.place(sp.addr)
				for i := sp.first; i <= sp.last; i++ {
					if tally[i]++; tally[i] > most[i] {
						most[i], o.of[i] = tally[i], place
					}
				}
			}
			continue
		case <-timer.C:
		case <-cl.c.stopped:
		}
		break
	}
	if len(votes) == 0 {
		return nil, failure
	}
	return o, nil
}

// A span is some slots that one server has.
type span struct {
	first, last int64
	addr        string
}

// spans asks a server, which has the address addr, who has which slots.
func spans(addr string, node rueidis.Client) (all []span, err error) {
	reply, err := node.Do(context.Background(), node.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil, err
	}
	for i := range reply {
		words, err := reply[i].ToArray()
		if err != nil || len(words) < 3 {
			continue
		}
		first, err1 := words[0].AsInt64()
		last, err2 := words[1].AsInt64()
		master, err3 := words[2].ToArray()
		if err1 != nil || err2 != nil || err3 != nil || first < 0 || last >= protocol.Slots || len(master) < 2 {
			continue
		}
		host, _ := master[0].ToString() // none if it is the same as that of who says so
		port, err := master[1].AsInt64()
		if host == "" {
			host, _, _ = net.SplitHostPort(addr)
		}
		if err == nil && host != "?" {
			all = append(all, span{first, last, net.JoinHostPort(host, strconv.FormatInt(port, 10))})
		}
	}
	return all, nil
}

// subscriber connects to the server at addr.
func (cl *cluster) subscriber(addr string, sink hub.Sink) (hub.Conn, <-chan error, error) {
	if addr == "" {
		return nowhere{}, nil, nil
	}
	node := cl.c.rc.Nodes()[addr]
	if node == nil {
		return nil, nil, fmt.Errorf("the server %s is not known yet", addr)
	}
	conn, _ := node.Dedicate()
	broken := conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { sink.Message(m.Channel, m.Message) },
		OnSubscription: func(s rueidis.PubSubSubscription) {
			if s.Kind == "sunsubscribe" {
				sink.Dropped(s.Channel)
			}
		},
	})
	return clusterSubscriber{cl, conn}, broken, nil
}

// nowhere takes the place of a connection while it is not known which server has what.
type nowhere struct{}

func (nowhere) Subscribe(channels []string) (elsewhere []string, err error) { return channels, nil }
func (nowhere) Unsubscribe([]string) error                                  { return nil }
func (nowhere) Close()                                                      {}

// clusterSubscriber is a connection to one server of a cluster that only subscribes.
type clusterSubscriber struct {
	cl   *cluster
	conn rueidis.DedicatedClient
}

// Subscribe sends one command for each sharded channel: they may be in different slots, and rueidis miscounts what is
// confirmed if the server ends another subscription meanwhile. And it asks for a key in the same slot after each: a replica
// would say no to that, but subscribes to what it hears and the master does not count.
func (s clusterSubscriber) Subscribe(channels []string) (elsewhere []string, err error) {
	var commands []rueidis.Completed
	var names []string
	var asks []bool // it is no subscription, but the question
	add := func(name string, ask bool, command rueidis.Completed) {
		commands, names, asks = append(commands, command), append(names, name), append(asks, ask)
	}
	for _, name := range channels {
		plain, sharded := s.cl.kinds(name)
		if plain {
			add(name, false, s.conn.B().Subscribe().Channel(name).Build())
		}
		if sharded {
			add(name, false, s.conn.B().Ssubscribe().Channel(name).Build())
			// The key itself, unless that has a hash tag: it may be asked for.
			add(name, true, s.conn.B().Pttl().Key(protocol.HashTag(name)).Build())
		}
	}
	for i, reply := range s.conn.DoMulti(context.Background(), commands...) {
		err := reply.Error()
		if err == nil {
			continue
		}
		said, ok := rueidis.IsRedisErr(err)
		addr, moved := "", false
		if ok {
			addr, moved = said.IsMoved()
		}
		switch {
		case moved:
			s.cl.note(protocol.Slot(names[i]), addr)
			elsewhere = append(elsewhere, names[i])
		case ok && passing(err):
			elsewhere = append(elsewhere, names[i])
		case ok && asks[i]: // it may not be asked for, or is on its way to another server
		default:
			return nil, err
		}
	}
	return elsewhere, nil
}

func (s clusterSubscriber) Unsubscribe(channels []string) error {
	var commands []rueidis.Completed
	for _, name := range channels {
		plain, sharded := s.cl.kinds(name)
		if plain {
			commands = append(commands, s.conn.B().Unsubscribe().Channel(name).Build())
		}
		if sharded {
			commands = append(commands, s.conn.B().Sunsubscribe().Channel(name).Build())
		}
	}
	for _, reply := range s.conn.DoMulti(context.Background(), commands...) {
		if err := reply.Error(); err != nil {
			return err
		}
	}
	return nil
}

func (s clusterSubscriber) Close() { s.conn.Close() }

// checkKey returns why key cannot be a lock's name.
func (c *Client) checkKey(key string) *KeyError {
	if c.made() == nil {
		return &KeyError{Reason: "cannot be used: there is no client", Err: ErrBadOption}
	}
	reason := protocol.CheckKey(key)
	if reason == "" && c.cluster != nil {
		reason = protocol.CheckClusterKey(key)
	}
	if reason != "" {
		return &KeyError{Reason: reason}
	}
	return nil
}

// checkCounted is checkKey for what counts, by its kind.
func (c *Client) checkCounted(kind, key string) *KeyError {
	if err := c.checkKey(key); err != nil {
		return err
	}
	if c.cluster != nil && kind == kindLatch {
		if reason := protocol.CheckClusterLatch(key); reason != "" {
			return &KeyError{Reason: reason}
		}
	}
	return nil
}

// usable is checkKey as an error.
func (c *Client) usable(key string) error {
	if err := c.checkKey(key); err != nil {
		return err
	}
	return nil
}
