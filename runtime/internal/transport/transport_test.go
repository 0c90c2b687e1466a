package transport

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/failure"
	"github.com/lockgen/lockgen/runtime/internal/hub"
	"github.com/lockgen/lockgen/runtime/internal/protocol"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A fake is the user of a transport in tests. Its calls go to channels that have room.
type fake struct {
	wg       sync.WaitGroup
	changes  chan []string
	rechecks chan func(string) bool // nil for all keys
}

func (f *fake) Go(g func())                    { f.wg.Go(g) }
func (f *fake) Detach(g func())                { f.wg.Go(g) }
func (*fake) Leave()                           {}
func (*fake) Return()                          {}
func (*fake) Busy() bool                       { return true }
func (*fake) Resting(string) time.Duration     { return 0 }
func (f *fake) Recheck(some func(string) bool) { f.rechecks <- some }
func (*fake) EachKey(func(string))             {}
func (*fake) ListenTo(string) (leave func())   { return func() {} }
func (f *fake) Changed(keys []string)          { f.changes <- keys }
func (*fake) LookFirst(time.Duration)          {}

// start returns a transport to a server of its own or, for nil, to one that tests share, and what its scripts are told.
func start(t *testing.T, server *redistest.RedisServer, cfg Config) (*Transport, *protocol.Process, *fake) {
	t.Helper()
	if server == nil {
		server = redistest.Shared(t)
	}
	option, err := rueidis.ParseURL(server.URL())
	require.NoError(t, err)
	option.ForceSingleClient, option.DisableCache = true, true
	rc, err := rueidis.NewClient(option)
	require.NoError(t, err)
	process := protocol.NewProcess(protocol.NewUUID(protocol.ListensPlain), protocol.PublishPlain, time.Minute, 30*time.Second)
	cfg.Client, cfg.UUID = rc, process.UUID
	t.Cleanup(rc.Close)
	net, u := over(t, cfg)
	return net, &process, u
}

// over returns the transport of a client and an id, and its user. It ends with the test.
func over(t *testing.T, cfg Config) (*Transport, *fake) {
	t.Helper()
	stopped := make(chan struct{})
	u := &fake{changes: make(chan []string, 100), rechecks: make(chan func(string) bool, 100)}
	cfg.User, cfg.Stopped = u, stopped
	cfg.OpTimeout, cfg.Logger = 10*time.Second, slog.New(slog.NewTextHandler(io.Discard, nil))
	net := New(cfg)
	t.Cleanup(func() {
		close(stopped)
		net.Quit()
		net.Unlisten()
		u.wg.Wait()
	})
	return net, u
}

// A taking is a request for a lock.
type taking struct {
	p      *protocol.Process
	key    string
	number uint64
	done   func(reply protocol.Answer, again bool, err error)
}

func (r taking) Key() string                       { return r.key }
func (r taking) Append(to *protocol.Texts, _ bool) { r.p.Take(to, r.key, r.number, time.Minute) }
func (r taking) Answered(_ time.Time, reply protocol.Answer, again bool, err error) {
	r.done(reply, again, err)
}

// Every request of a crowd is answered once. A key of another type fails the request that is about it, and no other.
func TestBatcher(t *testing.T) {
	t.Parallel()
	const crowd = 500
	net, p, _ := start(t, nil, Config{})
	prefix := redistest.Key(t, "k")
	redistest.Shared(t).Do("SET", prefix+"13", "a text")
	b := net.Outbox().Batcher(p.Takes(), true)
	answers := make(chan int, crowd)
	var mu sync.Mutex
	errs := map[int]error{}
	requests := make([]Request, crowd)
	for i := range requests {
		requests[i] = taking{p, prefix + strconv.Itoa(i), uint64(i + 1), func(reply protocol.Answer, _ bool, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err == nil && !protocol.ReadAcquire(reply).Granted() {
				err = fmt.Errorf("refused: %v", reply)
			}
			errs[i] = err
			answers <- i
		}}
	}
	b.SubmitAll(requests[:crowd/2], true)
	for _, r := range requests[crowd/2:] {
		b.Submit(r, true)
	}
	var answered []int
	for range crowd {
		answered = append(answered, <-answers)
	}
	slices.Sort(answered)
	require.Equal(t, crowd, len(slices.Compact(answered)))
	mu.Lock()
	defer mu.Unlock()
	for i, err := range errs {
		if i == 13 {
			require.ErrorContains(t, err, "WRONGTYPE")
		} else {
			require.NoError(t, err, i)
		}
	}
	b.SubmitAll(nil, true) // which is nothing to wait for
}

// A server that has forgotten the scripts is given them again.
func TestRun_LoadsScripts(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	net, p, _ := start(t, server, Config{})
	for range 3 {
		reply, err := net.Run(p.Inspect("k")).Any()
		require.NoError(t, err)
		in, err := protocol.ReadInspection(reply)
		require.NoError(t, err)
		require.Empty(t, in.Fields)
		require.NoError(t, server.Do("SCRIPT", "FLUSH").Error())
	}
	require.Equal(t, []string{server.Addr()}, net.Addrs())
	require.NotContains(t, server.CommandStats(), "eval")
}

func TestRunBatch(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	net, p, _ := start(t, server, Config{})
	key := redistest.Key(t, "k")
	release := func(keys ...string) protocol.Command {
		batch := p.Releases()
		texts := protocol.Texts{Args: slices.Clone(batch.Common)}
		for _, key := range keys {
			p.Release(&texts, key, protocol.Release{Of: protocol.Ticket{Number: 1}})
		}
		return protocol.Command{Script: batch.Script, Keys: texts.Keys, Args: texts.Args}
	}
	require.NoError(t, net.RunBatch(release(key, key+"2")))
	require.NoError(t, net.RunBatch(release()))
	frees := p.Frees()
	texts := protocol.Texts{Args: slices.Clone(frees.Common)}
	p.Free(&texts, key, 1)
	frees.End(&texts, 1)
	free := protocol.Command{Script: frees.Script, Keys: texts.Keys, Args: texts.Args}
	require.NoError(t, server.Do("HSET", key, p.Owner(1), "1").Error())
	require.NoError(t, net.RunBatch(free), "which is answered by one number")
	n, err := server.Do("EXISTS", key).AsInt64()
	require.NoError(t, err)
	require.Zero(t, n)
	require.Error(t, net.RunBatch(p.Inspect(key)), "which is no batch")
}

// errorsOf returns the errors of renewals.
func errorsOf(outcomes []Outcome) (errs []error) {
	for _, o := range outcomes {
		errs = append(errs, o.Err)
	}
	return errs
}

func TestRenew(t *testing.T) {
	t.Parallel()
	for name, tracking := range map[string]bool{"tracked": true, "not tracked": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			net, p, u := start(t, server, Config{Tracking: tracking})
			require.Equal(t, tracking, net.Tracks())
			require.NoError(t, server.Do("HSET", "ours", p.Owner(1), "1").Error())
			require.NoError(t, server.Do("HSET", "theirs", p.Owner(2), "1").Error())
			require.NoError(t, server.Do("SET", "text", "1").Error())
			renew := func() []error {
				return errorsOf(net.Renew(protocol.RenewLock, p.Renewals(protocol.RenewLock), []Renewal{
					{"ours", p.Owner(1), time.Minute}, {"theirs", p.Owner(3), time.Minute}, {"text", p.Owner(4), time.Minute},
				}, time.Second))
			}
			require.Equal(t, []error{nil, ErrRefused, ErrRefused}, renew())
			ttl, ours, err := net.TTL("ours", p.Owner(1))
			require.NoError(t, err)
			require.True(t, ours)
			require.Greater(t, ttl, 30*time.Second)
			_, ours, err = net.TTL("theirs", p.Owner(1))
			require.NoError(t, err)
			require.False(t, ours)
			text, exists, err := net.Get("text")
			require.NoError(t, err)
			require.True(t, exists)
			require.Equal(t, "1", text)
			_, exists, err = net.Get("nothing")
			require.NoError(t, err)
			require.False(t, exists)
			if !tracking {
				require.False(t, net.TracksChanges())
				return
			}
			require.False(t, net.TracksChanges(), "there is no connection that subscribes")
			net.Listen("a channel", func(hub.Event) {})
			<-u.rechecks // the server reports changes from now on, for read keys
			require.True(t, net.TracksChanges())
			require.Equal(t, readsOnly(t, server), net.RenewBatch() == plainBatch)
			require.NoError(t, renew()[0])
			require.NoError(t, server.Do("DEL", "ours").Error())
			for keys := range u.changes {
				if slices.Contains(keys, "ours") {
					break
				}
			}
			require.NoError(t, server.Do("FLUSHALL").Error())
			for keys := range u.changes {
				if keys == nil {
					break
				}
			}
		})
	}
}

// Many leases are renewed at once over the connection on which the server reports changes, and it does so for all of them. Without a
// permission that this needs on some servers, batches stay small.
func TestRenew_Many(t *testing.T) {
	t.Parallel()
	for name, permitted := range map[string]bool{"permitted": true, "not permitted": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const leases = 2 * trackedBatch
			server := redistest.Server(t)
			perKey := readsOnly(t, server)
			if !permitted {
				require.NoError(t, server.Do("ACL", "SETUSER", "default", "-client", "+client|tracking").Error())
			}
			net, p, u := start(t, server, Config{Tracking: true})
			net.Listen("a channel", func(hub.Event) {})
			var rs []Renewal
			for i := range leases {
				rs = append(rs, Renewal{strconv.Itoa(i), p.Owner(1), time.Minute})
				require.NoError(t, server.Do("HSET", rs[i].Key, p.Owner(1), "1").Error())
			}
			renew := func(first, last error) {
				outcomes := errorsOf(net.Renew(protocol.RenewLock, p.Renewals(protocol.RenewLock), rs, 10*time.Second))
				require.Equal(t, []error{first, last}, []error{outcomes[0], outcomes[leases-1]})
				require.NotContains(t, outcomes[1:leases-1], ErrRefused)
			}
			renew(nil, nil)
			<-u.rechecks // the server reports changes from now on, for read keys
			require.Contains(t, []int{trackedBatch, plainBatch}, net.RenewBatch())
			renew(nil, nil)
			switch {
			case perKey:
				require.Equal(t, plainBatch, net.RenewBatch())
			case permitted:
				require.Equal(t, bulkBatch, net.RenewBatch())
			default:
				require.Equal(t, trackedBatch, net.RenewBatch())
			}
			for _, i := range []int{0, leases / 2, leases - 1} {
				require.NoError(t, server.Do("DEL", rs[i].Key).Error())
				for keys := range u.changes {
					if slices.Contains(keys, rs[i].Key) {
						break
					}
				}
			}
			rs[leases/2].Key = "1"
			renew(ErrRefused, ErrRefused)
			require.NoError(t, server.Do("SCRIPT", "FLUSH").Error())
			renew(ErrRefused, ErrRefused)
			require.NoError(t, server.Do("DEL", rs[2].Key).Error())
			for keys := range u.changes {
				if slices.Contains(keys, rs[2].Key) {
					break
				}
			}
		})
	}
}

// readsOnly reports whether a server remembers of a script the keys that it reads, and no others.
func readsOnly(t *testing.T, server *redistest.RedisServer) bool {
	t.Helper()
	rc, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, ForceSingleClient: true, DisableCache: true})
	require.NoError(t, err)
	defer rc.Close()
	conn, release := rc.Dedicate()
	defer release()
	conn.SetOnInvalidations(func([]rueidis.RedisMessage) {})
	for _, reply := range conn.DoMulti(t.Context(), conn.B().ClientTracking().On().Build(),
		conn.B().Eval().Script("return redis.call('exists', KEYS[1])").Numkeys(2).Key("reads", "does not read").Build()) {
		require.NoError(t, reply.Error())
	}
	stats, err := server.Do("INFO", "stats").ToString()
	require.NoError(t, err)
	if strings.Contains(stats, "tracking_total_keys:1\r\n") {
		return true
	}
	require.Contains(t, stats, "tracking_total_keys:2\r\n")
	return false
}

func TestRemembersReads(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		server, version string
		want            bool
	}{
		"Redis 6":         {"redis", "6.2.5", false},
		"Redis 7.0":       {"redis", "7.0.15", false},
		"Redis 7.2":       {"redis", "7.2.0", true},
		"Redis 8":         {"redis", "8.2.3", true},
		"Redis 10":        {"redis", "10.0.0", true},
		"Valkey":          {"valkey", "9.1.2", true},
		"another program": {"x", "unstable", false},
		"no answer":       {"", "", false},
	} {
		require.Equal(t, test.want, remembersReads(test.server, test.version), name)
	}
}

// A grant that too few replicas have confirmed is an error, and a refusal is not.
func TestRunGrant(t *testing.T) {
	t.Parallel()
	net, p, _ := start(t, nil, Config{Replicas: 1})
	lock := p.RW(redistest.Key(t, "rw"))
	grants := func(first int64) bool { return first == protocol.Granted }
	read := func(n uint64) protocol.Command {
		return lock.Read(lock.Field(n, false), "", protocol.Stay{}, time.Minute)
	}
	write := func(n uint64) protocol.Command {
		return lock.Write(lock.Field(n, true), protocol.Stay{}, 0, time.Minute)
	}
	_, err := net.RunGrant(read(1), grants).Int()
	require.ErrorIs(t, err, failure.ErrReplicas)
	require.False(t, Unknown(err), "it was granted")
	refused, err := net.RunGrant(write(2), grants).Ints()
	require.NoError(t, err)
	require.NotEqual(t, int64(protocol.Granted), refused[0])
	got, err := net.RunGrant(read(1), nil).Int()
	require.NoError(t, err, "nothing is to be granted any more")
	require.EqualValues(t, protocol.Granted, got)
}

func TestListen(t *testing.T) {
	t.Parallel()
	net, p, _ := start(t, nil, Config{})
	channel := protocol.ProcessChannel(p.UUID)
	heard := make(chan hub.Event, 10)
	l := net.Listen(channel, func(e hub.Event) { heard <- e })
	defer l.Close()
	require.True(t, (<-heard).Subscribed)
	require.NoError(t, redistest.Shared(t).Do("PUBLISH", channel, "look 1").Error())
	require.Equal(t, hub.Event{Payload: "look 1"}, <-heard)
	require.False(t, net.Sharded())
	require.False(t, net.Clustered())
	require.False(t, net.ClockUnknown())
	require.Zero(t, net.Server("k"))
	require.Zero(t, net.Redirects())
	require.True(t, net.SameServer("k")("other"))
	net.Holds("k") // of which a single server needs to know nothing
	net.Watch()
}
