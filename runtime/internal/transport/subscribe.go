package transport

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// newHub returns the hub of all subscriptions.
//
// A connection is a dedicated one, not the shared one of Client.Receive: its loss is reported, where Receive subscribes again
// without a word and so hides that messages were missed, and servers that refuse other commands on a subscribed connection
// do not matter.
func (t *tracker) newHub() *hub.Hub {
	cfg := t.link.hubConfig()
	cfg.Dial, cfg.Resting = t.subscriber, t.link.cfg.User.Resting
	return hub.New(cfg)
}

// newHub returns the hub of all subscriptions. Its connections do not rest: their end shows which servers have failed.
func (cl *cluster) newHub() *hub.Hub {
	cfg := cl.link.hubConfig()
	cfg.Dial, cfg.Lane, cfg.Moved = cl.subscriber, cl.nodeOf, cl.ask
	return hub.New(cfg)
}

func (l *link) hubConfig() hub.Config {
	return hub.Config{
		Linger:  time.Second,
		Backoff: []time.Duration{10 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond},
		OnError: func(err error) {
			l.cfg.Logger.Warn("lockgen: subscribing failed; waiters ask by timer until it works", "error", err)
		},
		OnWorks: func() { l.cfg.Logger.Info("lockgen: subscribing works again") },
		OnBroken: func(err error) {
			l.cfg.Logger.Info("lockgen: subscription connection broke; connecting again", "error", err)
		},
	}
}

func (t *tracker) subscriber(_ string, sink hub.Sink) (hub.Conn, <-chan error, error) {
	servers := t.link.servers() // before the connection: so a change meanwhile is noticed
	conn := dedicateUntil(t.link.cfg.Stopped, nil, t.link.rc)
	if conn == nil {
		return nil, nil, rueidis.ErrClosing // the client has stopped
	}
	broken := conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { sink.Message(m.Channel, m.Message) },
	})
	select {
	case err := <-broken: // without RESP3, the next use would make another connection, which has no hooks
		conn.Close()
		return nil, nil, err
	default:
	}
	tracked, alsoBroken := t.adopt(conn, servers)
	if tracked != nil {
		broken = alsoBroken
	}
	return subscriber{conn, whole{context.Background(), broken}, tracked}, broken, nil
}

// whole is the context of requests over a connection that subscribes. It is over when the connection has broken, whose channel then has the error.
// Without RESP3 subscriptions have a connection of their own, and rueidis would repeat a request over a broken one for as long as the connection for the
// other commands is well.
type whole struct {
	context.Context

	broken <-chan error
}

// Err implements [context.Context].
func (w whole) Err() error {
	if len(w.broken) > 0 {
		return errBroke
	}
	return nil
}

// subscriber is a connection that subscribes, and on which the server reports changes unless that is off.
type subscriber struct {
	conn    rueidis.DedicatedClient
	whole   whole
	tracked *tracked // nil if it is off
}

// Subscribe returns [hub.ErrRefused] if a permission or the command is missing, or if the server is busy: another connection would do no better.
// A server that withholds one channel refuses the command for all of them. Then each has a command of its own.
func (s subscriber) Subscribe(channels []string) (refused []string, err error) {
	err = s.conn.Do(s.whole, s.conn.B().Subscribe().Channel(channels...).Build()).Error()
	switch {
	case err == nil || !answersNo(err):
		return nil, err
	case withheld(err) && len(channels) > 1:
		return s.each(channels)
	}
	return nil, fmt.Errorf("%w: %w", hub.ErrRefused, err)
}

// each subscribes to each channel by itself. It returns those that are refused, unless all are.
func (s subscriber) each(channels []string) (refused []string, err error) {
	commands := make(rueidis.Commands, len(channels))
	for i, name := range channels {
		commands[i] = s.conn.B().Subscribe().Channel(name).Build()
	}
	for i, reply := range s.conn.DoMulti(s.whole, commands...) {
		switch failed := reply.Error(); {
		case failed == nil:
		case answersNo(failed):
			refused, err = append(refused, channels[i]), fmt.Errorf("%w: %w", hub.ErrRefused, failed)
		default:
			return nil, failed
		}
	}
	if len(refused) == len(channels) {
		return nil, err
	}
	return refused, err
}

// answersNo reports whether a server has answered that it does not subscribe: a permission or the command is missing, or it is busy.
func answersNo(err error) bool {
	_, answered := rueidis.IsRedisErr(err)
	return answered && (withheld(err) || Passing(err))
}

// withheld reports whether a server replied that a permission or the command is missing.
func withheld(err error) bool { return Denied(err) || unheardOf(err) }

// endPatience is how long the end of a subscription may take. To close a mute connection takes another second.
const endPatience = time.Second

// Unsubscribe ends subscriptions. rueidis sends a PING behind UNSUBSCRIBE or SUNSUBSCRIBE. A server that is busy with a script refuses both: that is one
// refusal more than rueidis expects, and it ends the program. So Unsubscribe first subscribes again to what it is to end, which such a server refuses, too, and
// rueidis stands. It does not ask by a PING: if the user may not send that, the server says so, and not that it is busy.
//
// A script can still begin between the answer and UNSUBSCRIBE, and rueidis has no way out: it takes the first refusal for the answer to its PING, whatever is
// sent before or behind. But such a server is mute until it refuses anything, for five seconds unless busy-reply-threshold is less. So Unsubscribe closes
// a connection over which there is no answer for [endPatience].
func (s subscriber) Unsubscribe(channels []string) error {
	refused, err := s.Subscribe(channels)
	switch {
	case err == nil || len(refused) > 0 && withheld(err):
		defer time.AfterFunc(endPatience, s.Close).Stop()
		return s.conn.Do(s.whole, s.conn.B().Unsubscribe().Channel(channels...).Build()).Error()
	case withheld(err): // it has subscribed none of them
		return nil
	}
	return err
}

// Close ends the connection. One that is mute takes a second to close, and is not the tracker's meanwhile.
func (s subscriber) Close() {
	if s.tracked != nil {
		s.tracked.leave()
	}
	s.conn.Close()
}

// subscriber connects to the server at addr.
func (cl *cluster) subscriber(addr string, sink hub.Sink) (hub.Conn, <-chan error, error) {
	if addr == "" {
		return nowhere{}, nil, nil
	}
	node := cl.link.rc.Nodes()[addr]
	if node == nil {
		return nil, nil, fmt.Errorf("the server %s is not known yet", addr)
	}
	conn := dedicateUntil(cl.link.cfg.Stopped, nil, node)
	if conn == nil {
		return nil, nil, rueidis.ErrClosing
	}
	broken := conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { sink.Message(m.Channel, m.Message) },
		OnSubscription: func(s rueidis.PubSubSubscription) {
			if s.Kind == "sunsubscribe" {
				sink.Dropped(s.Channel)
			}
		},
	})
	return clusterSubscriber{cl, conn, whole{context.Background(), broken}}, broken, nil
}

// nowhere takes the place of a connection while no server is known to have a channel.
type nowhere struct{}

func (nowhere) Subscribe(channels []string) (elsewhere []string, err error) { return channels, nil }
func (nowhere) Unsubscribe([]string) error                                  { return nil }
func (nowhere) Close()                                                      {}

// clusterSubscriber is a connection to one server of a cluster that only subscribes.
type clusterSubscriber struct {
	cl    *cluster
	conn  rueidis.DedicatedClient
	whole whole
}

// Subscribe sends one command for each sharded channel: they may be in different slots, and rueidis miscounts what is
// confirmed if the server ends another subscription meanwhile. And it asks for a key in the same slot after each: a replica
// would say no to that, but subscribes to what it hears and the master does not count. A channel for which a permission or the command is missing does not keep
// the others from being subscribed. While some channels are elsewhere, Subscribe returns those that are refused with them, without an error.
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
			// The key itself, unless that has a hash tag: it may be asked for. Rueidis would repeat a PTTL that it refuses itself, see send.
			add(name, true, s.conn.B().Arbitrary("PTTL").Keys(protocol.HashTag(name)).Build())
		}
	}
	var refused []string
	for i, reply := range s.send(commands, asks) {
		failed := reply.Error()
		if failed == nil {
			continue
		}
		said, ok := rueidis.IsRedisErr(failed)
		addr, moved := "", false
		if ok {
			addr, moved = said.IsMoved()
		}
		switch {
		case moved:
			s.cl.note(protocol.Slot(names[i]), addr)
			elsewhere = append(elsewhere, names[i])
		case ok && Passing(failed):
			elsewhere = append(elsewhere, names[i])
		case ok && asks[i]: // it may not be asked for, or is on its way to another server
		case withheld(failed):
			refused = append(refused, names[i])
			err = fmt.Errorf("%w: %w", hub.ErrRefused, failed)
		default:
			return nil, failed
		}
	}
	if len(elsewhere) > 0 {
		return append(elsewhere, refused...), nil
	}
	return refused, err
}

// send sends subscriptions and questions in one round trip, or in two where rueidis has a connection for each of both, since the connections do not speak
// RESP3.
func (s clusterSubscriber) send(commands []rueidis.Completed, asks []bool) []rueidis.RedisResult {
	replies := s.conn.DoMulti(s.whole, commands...)
	if !errors.Is(replies[0].Error(), rueidis.ErrRESP2PubSubMixed) {
		return replies
	}
	for _, ask := range []bool{false, true} {
		var some []rueidis.Completed
		var places []int
		for i, command := range commands {
			if asks[i] == ask {
				some, places = append(some, command), append(places, i)
			}
		}
		for i, reply := range s.conn.DoMulti(s.whole, some...) {
			replies[places[i]] = reply
		}
	}
	return replies
}

// Unsubscribe ends the subscriptions that the server still confirms, see [subscriber.Unsubscribe]. It has ended those to channels whose slot it does not
// have any more, and has none where a permission or the command is missing: of two kinds of channels, a client can perhaps use only one.
func (s clusterSubscriber) Unsubscribe(channels []string) error {
	var again, ends, left []rueidis.Completed
	for _, name := range channels {
		plain, sharded := s.cl.kinds(name)
		if plain {
			again = append(again, s.conn.B().Subscribe().Channel(name).Build())
			ends = append(ends, s.conn.B().Unsubscribe().Channel(name).Build())
		}
		if sharded {
			again = append(again, s.conn.B().Ssubscribe().Channel(name).Build())
			ends = append(ends, s.conn.B().Sunsubscribe().Channel(name).Build())
		}
	}
	for i, reply := range s.conn.DoMulti(s.whole, again...) {
		switch err := reply.Error(); {
		case err == nil:
			left = append(left, ends[i])
		case !slotless(err) && !withheld(err):
			return err
		}
	}
	defer time.AfterFunc(endPatience, s.Close).Stop()
	for _, reply := range s.conn.DoMulti(s.whole, left...) {
		if err := reply.Error(); err != nil && !slotless(err) {
			return err
		}
	}
	return nil
}

// slotless reports whether a server replied that it does not have the slot.
func slotless(err error) bool {
	said, ok := rueidis.IsRedisErr(err)
	if !ok {
		return false
	}
	_, moved := said.IsMoved()
	return moved || said.IsClusterDown()
}

func (s clusterSubscriber) Close() { s.conn.Close() }
