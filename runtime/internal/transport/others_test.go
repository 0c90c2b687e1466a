package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"math"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A muted cluster has one server that answers, when the others have been asked, too.
type muted struct {
	rueidis.Client
	asked chan struct{} // has room for all
}

func (m muted) Nodes() map[string]rueidis.Client {
	nodes := m.Client.Nodes()
	for i, addr := range slices.Sorted(maps.Keys(nodes)) {
		if i == 0 {
			nodes[addr] = last{nodes[addr], m.asked, len(nodes) - 1}
		} else {
			nodes[addr] = mute{nodes[addr], m.asked}
		}
	}
	return nodes
}

// A mute server does not answer.
type mute struct {
	rueidis.Client
	asked chan<- struct{}
}

func (m mute) Do(ctx context.Context, _ rueidis.Completed) rueidis.RedisResult {
	m.asked <- struct{}{}
	<-ctx.Done()
	return rueidis.NewErrorResult(ctx.Err())
}

// The last server answers when the others have been asked.
type last struct {
	rueidis.Client
	asked  <-chan struct{}
	others int
}

func (l last) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	for range l.others {
		select {
		case <-l.asked:
		case <-ctx.Done():
			return rueidis.NewErrorResult(ctx.Err())
		}
	}
	return l.Client.Do(context.Background(), cmd)
}

// A server of a cluster that does not answer does not hide what the others say about channels.
func TestChannels_WithoutTheAnswersOfSome(t *testing.T) {
	t.Parallel()
	rc := redistest.SharedCluster(t).NewClient()
	u := &fake{changes: make(chan []string, 100), rechecks: make(chan func(string) bool, 100)}
	uuid, stopped := protocol.NewUUID(protocol.ListensSharded), make(chan struct{})
	net := New(Config{
		Client: muted{rc, make(chan struct{}, 100)}, UUID: uuid, User: u, Channels: ShardedChannels, Stopped: stopped, OpTimeout: 2 * time.Second,
	})
	own := protocol.ProcessChannel(uuid)
	server := rc.Nodes()[slices.Min(slices.Collect(maps.Keys(rc.Nodes())))]
	subscriber, release := server.Dedicate()
	defer release()
	heard := subscriber.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}})
	require.NotNil(t, heard)
	require.NoError(t, subscriber.Do(t.Context(), subscriber.B().Subscribe().Channel(own).Build()).Error())
	names, err := net.Channels(own)
	require.NoError(t, err)
	require.Equal(t, []string{own}, names)
	close(stopped)
	net.Quit()
	net.Unlisten()
	u.wg.Wait()
}

// An unserved cluster knows no server of some slot at first.
type unserved struct {
	rueidis.Client
	asked *atomic.Int64
}

func (s unserved) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	if s.asked.Add(1) > 1 {
		return s.Client.DoMulti(ctx, commands...)
	}
	return slices.Repeat([]rueidis.RedisResult{rueidis.NewErrorResult(rueidis.ErrNoSlot)}, len(commands))
}

// In a cluster, messages go to the servers where the processes listen, or by way of another one if a slot has no server.
func TestPublish_InACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	rc := cluster.NewClient()
	const texts = 50
	var channels []string
	want := map[string]int64{}
	for range texts {
		channel := protocol.ProcessChannel(protocol.NewUUID(protocol.ListensPlain))
		channels = append(channels, channel)
		want[cluster.Master(channel).Addr()]++
	}
	publish := func(rc rueidis.Client) error {
		u := &fake{changes: make(chan []string, 100), rechecks: make(chan func(string) bool, 100)}
		stopped := make(chan struct{})
		net := New(Config{Client: rc, UUID: protocol.NewUUID(protocol.ListensPlain), User: u, Stopped: stopped, OpTimeout: 20 * time.Second})
		unheard, err := net.Publish(channels, channels)
		require.Empty(t, unheard, "a server of a cluster counts its own clients")
		close(stopped)
		net.Quit()
		net.Unlisten()
		u.wg.Wait()
		return err
	}
	require.NoError(t, publish(rc))
	published := map[string]int64{}
	for _, node := range cluster.Nodes() {
		if n := node.CommandStats()["publish"]; n > 0 {
			published[node.Addr()] = n
		}
	}
	require.Equal(t, want, published)
	require.NoError(t, publish(unserved{rc, &atomic.Int64{}}))
}

// A question without an answer says how the server was found away, and is asked again when the server comes back before its time is over.
func TestOthers_SayWhyTheServerIsAway(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	expired := errors.New("the certificate has expired")
	var refusals atomic.Int64 // that are still to come
	rc := server.NewClient(func(o *rueidis.ClientOption) {
		o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if refusals.Add(-1) >= 0 {
				return nil, &tls.CertificateVerificationError{Err: expired}
			}
			return d.DialContext(ctx, "tcp", addr)
		}
	})
	for name, ask := range map[string]func(*Transport) error{
		"TTL":      func(t *Transport) error { _, _, err := t.TTL("k", "owner"); return err },
		"Get":      func(t *Transport) error { _, _, err := t.Get("k"); return err },
		"Mode":     func(t *Transport) error { _, _, err := t.Mode("k", []string{"mark"}); return err },
		"Channels": func(t *Transport) error { _, err := t.Channels("*"); return err },
		"Fields":   func(t *Transport) error { _, err := t.Fields("k", []string{"field"}); return err },
		"Owners": func(t *Transport) error {
			_, err := t.Owners([]protocol.Owners{{Key: "k"}, {Key: "p", Permits: true}}, 10)
			return err
		},
	} {
		ask := func(within time.Duration) error {
			return ask(New(Config{Client: rc, UUID: protocol.NewUUID(protocol.ListensPlain), User: &fake{}, OpTimeout: 2 * within}))
		}
		require.NoError(t, ask(time.Minute), name)
		refusals.Store(math.MaxInt32)
		server.Do("CLIENT", "KILL", "TYPE", "normal")
		err := ask(200 * time.Millisecond)
		for Cut(err) { // it met the end of the old connection, and nothing else in time
			err = ask(200 * time.Millisecond)
		}
		require.ErrorIs(t, err, expired, name)
		refusals.Store(3)
		require.NoError(t, ask(time.Minute), name)
	}
}

// A failing client fails the first command that it sends, or the last one of the first commands.
type failing struct {
	rueidis.Client
	mode rueidis.ClientMode
	with func() rueidis.RedisResult
	sent atomic.Int32
}

func (f *failing) Mode() rueidis.ClientMode { return f.mode }

func (f *failing) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if f.sent.Add(1) == 1 {
		return f.with()
	}
	return f.Client.Do(ctx, cmd)
}

func (f *failing) DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	replies := f.Client.DoMulti(ctx, multi...)
	if f.sent.Add(1) == 1 {
		replies[len(replies)-1] = f.with()
	}
	return replies
}

// A question is asked again while servers fail over or move keys, and not after the client of rueidis was closed.
func TestOthers_AskAgainDuringAFailover(t *testing.T) {
	t.Parallel()
	rc := redistest.Server(t).NewClient()
	replied := func(text string) func() rueidis.RedisResult {
		return func() rueidis.RedisResult {
			return rc.Do(t.Context(), rc.B().Eval().Script("return redis.error_reply(ARGV[1])").Numkeys(0).Arg(text).Build())
		}
	}
	closed := func() rueidis.RedisResult { return rueidis.NewErrorResult(rueidis.ErrClosing) }
	asks := func(mode rueidis.ClientMode, with func() rueidis.RedisResult, over bool) (sent []int, errs []error) {
		for _, ask := range []func(*Transport) error{
			func(t *Transport) error { _, _, err := t.TTL("k", "owner"); return err },
			func(t *Transport) error { _, err := t.Fields("k", []string{"field"}); return err },
		} {
			client := &failing{Client: rc, mode: mode, with: with}
			net := New(Config{Client: rc, UUID: protocol.NewUUID(protocol.ListensPlain), User: &fake{}, OpTimeout: time.Minute})
			net.rc = client
			if over {
				net.Over()
			}
			errs = append(errs, ask(net))
			sent = append(sent, int(client.sent.Load()))
		}
		return sent, errs
	}
	for name, c := range map[string]struct {
		mode rueidis.ClientMode
		with func() rueidis.RedisResult
	}{
		"the cluster has lost a master": {rueidis.ClientModeCluster, replied("CLUSTERDOWN Hash slot not served")},
		"keys move":                     {rueidis.ClientModeCluster, replied("TRYAGAIN Multiple keys request during rehashing of slot")},
		"a server leaves the cluster":   {rueidis.ClientModeCluster, closed},
		"another master":                {rueidis.ClientModeSentinel, closed},
	} {
		sent, errs := asks(c.mode, c.with, false)
		require.Equal(t, []error{nil, nil}, errs, name)
		require.Equal(t, []int{2, 2}, sent, name)
	}
	for _, mode := range []rueidis.ClientMode{rueidis.ClientModeSentinel, rueidis.ClientModeStandalone} {
		sent, errs := asks(mode, closed, mode == rueidis.ClientModeSentinel)
		require.Equal(t, []error{rueidis.ErrClosing, rueidis.ErrClosing}, errs)
		require.Equal(t, []int{1, 1}, sent)
	}
}
