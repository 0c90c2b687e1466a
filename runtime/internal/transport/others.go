package transport

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
)

// The plain commands that ask for what Redis has, and with which a client finds other clients, and what they hold. They go over the shared
// connection, and each is given up after half of OpTimeout.

// briefly returns a context for a request that a call repeats while the server is away. It has no deadline, which would apply to the shared
// connection.
func (t *Transport) briefly() (context.Context, context.CancelFunc) {
	t.markShared()
	ctx, cancel := context.WithCancel(context.Background())
	timer := time.AfterFunc(t.cfg.OpTimeout/2, cancel)
	return ctx, func() {
		timer.Stop()
		cancel()
	}
}

// longestRepeat is the longest pause before a plain command is sent again.
const longestRepeat = 100 * time.Millisecond

// repeated returns the replies to commands that change nothing. It sends them again while they are [link.fleeting], until ctx ends, and then
// returns how they failed last before that. The commands are those of [plain]: rueidis would repeat others by itself, and return only that ctx has
// ended.
func (t *Transport) repeated(ctx context.Context, rc sender, commands ...rueidis.Completed) []rueidis.RedisResult {
	var failed []rueidis.RedisResult
	for wait := time.Millisecond; ; wait = min(2*wait, longestRepeat) {
		var replies []rueidis.RedisResult
		if len(commands) == 1 {
			replies = []rueidis.RedisResult{rc.Do(ctx, commands[0])}
		} else {
			replies = rc.DoMulti(ctx, commands...)
		}
		switch {
		case !slices.ContainsFunc(replies, t.fleeting):
			return replies
		case failed == nil || ctx.Err() == nil:
			failed = replies
		}
		if ctx.Err() != nil || !pause(wait, t.cfg.Stopped, ctx.Done()) {
			return failed
		}
	}
}

// fleeting reports whether a reply is the failure of a connection, that of a server that loads its data, or that of a cluster that fails over or
// moves keys.
func (l *link) fleeting(reply rueidis.RedisResult) bool {
	if err := reply.NonRedisError(); err != nil {
		return !errors.Is(err, rueidis.ErrClosing) || l.failedOver(err)
	}
	said, ok := Replied(reply.Error())
	return ok && (said.IsLoading() || said.IsClusterDown() || said.IsTryAgain())
}

// plain returns the command name about a key for [Transport.repeated], which may send it several times.
func (t *Transport) plain(name, key string, args ...string) rueidis.Completed {
	return t.rc.B().Arbitrary(name).Keys(key).Args(args...).Build().Pin()
}

// TTL asks for how long a key lives, and whether it is the owner's.
func (t *Transport) TTL(key, owner string) (ttl time.Duration, ours bool, err error) {
	ctx, cancel := t.briefly()
	defer cancel()
	replies := t.repeated(ctx, t.rc, t.plain("HEXISTS", key, owner), t.plain("PTTL", key))
	if ours, err = t.translate(replies[0]).AsBool(); err != nil {
		return 0, false, err
	}
	ms, err := t.translate(replies[1]).AsInt64()
	return protocol.Milliseconds(ms), ours && ms != -2, err // -2 if the key has ended in between
}

// Get asks for the text of a key, and whether there is one.
func (t *Transport) Get(key string) (text string, exists bool, err error) {
	ctx, cancel := t.briefly()
	defer cancel()
	text, err = t.translate(t.repeated(ctx, t.rc, t.plain("GET", key))[0]).ToString()
	if rueidis.IsRedisNil(err) {
		return "", false, nil
	}
	return text, err == nil, err
}

// Mode asks for the mode of a lock, "" unless it is a read-write lock, and whether one of the marks of a fair lock exists.
func (t *Transport) Mode(key string, marks []string) (mode string, fair bool, err error) {
	ctx, cancel := t.briefly()
	defer cancel()
	replies := t.repeated(ctx, t.rc, t.plain("HGET", key, "mode"), t.rc.B().Arbitrary("EXISTS").Keys(marks...).Build().Pin())
	if mode, err = t.translate(replies[0]).ToString(); err != nil && !rueidis.IsRedisNil(err) {
		return "", false, err
	}
	n, err := t.translate(replies[1]).AsInt64()
	return mode, n > 0, err
}

// Publish publishes each text on the channel in the same place, all at once. It returns the places of those that no client hears, as
// far as the server knows, and the first error.
func (t *Transport) Publish(channels, texts []string) (unheard []int, err error) {
	ctx, cancel := t.briefly()
	defer cancel()
	commands := make(rueidis.Commands, len(channels))
	for i, channel := range channels {
		// The server that has the slot of a channel is the one where the process listens. Another one would pass the message on, but may be dead.
		commands[i] = t.rc.B().Arbitrary("PUBLISH").Keys(channel).Args(texts[i]).Build()
	}
	replies := t.rc.DoMulti(ctx, commands...)
	if len(replies) > 0 && errors.Is(replies[0].Error(), rueidis.ErrNoSlot) { // of one of the channels, for all: any server passes the messages on
		for i, channel := range channels {
			commands[i] = t.rc.B().Publish().Channel(channel).Message(texts[i]).Build()
		}
		replies = t.rc.DoMulti(ctx, commands...)
	}
	for i, reply := range replies {
		switch n, failed := t.translate(reply).AsInt64(); {
		case failed != nil && err == nil:
			err = failed
		case failed == nil && n == 0 && t.cluster == nil: // a server of a cluster counts its own clients
			unheard = append(unheard, i)
		}
	}
	return unheard, err
}

// channelsGrace is how much longer than the first server the others have to name their channels.
const channelsGrace = time.Second

// Channels returns the channels of all servers whose names match a pattern and that have subscribers, in order. It asks all servers at once, and
// has no channels of those that do not answer in time. It fails if no server answers.
func (t *Transport) Channels(pattern string) ([]string, error) {
	ctx, cancel := t.briefly()
	defer cancel()
	found := map[string]struct{}{}
	failed, answered := ErrNoAnswer, false
	channels := func(_ string, node rueidis.Client) ([]string, error) {
		return t.translate(t.repeated(ctx, node, node.B().Arbitrary("PUBSUB", "CHANNELS", pattern).Build().Pin())[0]).AsStrSlice()
	}
	fromAll(&t.link, channelsGrace, channels, func(names []string, err error) {
		if err != nil {
			failed = err
			return
		}
		answered = true
		for _, name := range names {
			found[name] = struct{}{}
		}
	})
	if !answered {
		return nil, failed
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// Fields returns the values of fields of a hash, "" for one that it does not have.
func (t *Transport) Fields(key string, fields []string) ([]string, error) {
	ctx, cancel := t.briefly()
	defer cancel()
	return t.translate(t.repeated(ctx, t.rc, t.plain("HMGET", key, fields...))[0]).AsStrSlice()
}

// Owners returns what [protocol.ReadOwners] reads, or the ids of permits, from each of the places: about most of them, or more than
// most if there are. It also returns the first error; a place that cannot be read has none.
func (t *Transport) Owners(of []protocol.Owners, most int) (all [][]string, err error) {
	ctx, cancel := t.briefly()
	defer cancel()
	commands := make(rueidis.Commands, len(of))
	for i, o := range of {
		if o.Permits {
			commands[i] = t.plain("ZRANGE", protocol.PermitLeases(o.Key), "0", strconv.Itoa(most))
		} else {
			commands[i] = t.plain("HSCAN", o.Key, "0", "COUNT", strconv.Itoa(most))
		}
	}
	all = make([][]string, len(of))
	for i, reply := range t.repeated(ctx, t.rc, commands...) {
		var failed error
		reply = t.translate(reply)
		if of[i].Permits {
			all[i], failed = reply.AsStrSlice()
		} else {
			var entry rueidis.ScanEntry
			entry, failed = reply.AsScanEntry()
			all[i] = entry.Elements
		}
		if err == nil {
			err = failed
		}
	}
	return all, err
}

// Hears waits until the client hears a channel. It reports false if ctx ends before, or stop is closed.
func (t *Transport) Hears(ctx context.Context, channel string, stop <-chan struct{}) bool {
	l := t.Listen(channel, func(hub.Event) {}) // a new one, since the others may have heard before
	defer l.Close()
	select {
	case <-l.Ready():
		return true
	case <-ctx.Done():
	case <-stop:
	}
	return false
}

// Perform sends a command, and returns its error.
func (t *Transport) Perform(cmd protocol.Command) error { return t.Run(cmd).Err() }

// Refusal returns why a server refuses a request for good, or nil if err is no reply, or one that goes away by itself.
func (*Transport) Refusal(err error) error {
	if _, ok := Replied(err); !ok || Passing(err) {
		return nil
	}
	return Refused(err)
}
