package interop

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

const (
	// long is a lease that outlasts every wait here: a waiter that is served sooner got a message.
	long = 30 * time.Second
	// short is a lease whose end tests wait for.
	short = 2 * time.Second
	// patience is the time limit for an immediate event on a busy machine.
	patience = time.Minute
	// promptly is the largest median time until a message arrives. It is less than the second after which a waiter for
	// an RWMutex asks in any case, and than all other intervals after which a waiter asks.
	promptly = 400 * time.Millisecond
)

// A site is a Redis for both sides.
type site struct {
	name     string                   // in the table
	url      string                   // for Go
	mode     string                   // of Redisson: single, sentinel, cluster
	address  string                   // of Redisson: addresses with commas
	settings []string                 // of Redisson: name=value
	pubsub   lockrt.PubSub            // of Go
	nodes    []*redistest.RedisServer // that may have the keys
}

// standalone is a single server.
func standalone(t *testing.T) site {
	s := redistest.Server(t)
	return site{name: "standalone", url: s.URL(), mode: "single", address: s.URL(), nodes: []*redistest.RedisServer{s}}
}

// A side has everything that a Go program needs for all kinds of locks.
type side struct {
	c    *lockrt.Client
	reds []*lockrt.Client // of independent servers
}

// A fleet is a Redis with a Go and a Java client.
type fleet struct {
	site
	version string // of Redisson
	reds    []*redistest.RedisServer
	side
	j    *jvm
	java thread
	fair time.Duration // fairWait, if it is not the usual one
}

// newFleet starts a Java program with a version of Redisson, and connects both sides to a site. It also starts three
// independent servers, for locks that need a majority.
func newFleet(t *testing.T, at site, version string) *fleet {
	t.Helper()
	f := &fleet{site: at, version: version, j: startJava(t, version)}
	if f.single() {
		for range 3 {
			f.reds = append(f.reds, redistest.Server(t))
		}
	}
	f.side = f.goSide(t, lockrt.Options{Watchdog: long})
	f.java = f.javaSide(t, f.j, "steady", long)
	return f
}

// single reports whether the site is one server, for tests that need only one site.
func (f *fleet) single() bool { return f.mode == "single" }

// options are the options of Go programs that share locks with Java programs. A busy machine gives late answers, which
// fail nothing here.
func options(opts lockrt.Options, fairWait time.Duration, pubsub lockrt.PubSub) lockrt.Options {
	opts.OpTimeout = cmp.Or(opts.OpTimeout, long)
	opts.TokenTTL = lockrt.Forever
	opts.FairWait = fairWait
	opts.PubSub = pubsub
	return opts
}

// fairWait is for how long a dead program delays a fair queue. Both sides must use the same time; older versions of
// Redisson have no setting for it.
func (f *fleet) fairWait() time.Duration {
	if f.version != "" && !f.at("3.46.0") {
		return 5 * time.Minute
	}
	return cmp.Or(f.fair, 4*time.Second)
}

// goSide connects Go clients that are closed when the test ends.
func (f *fleet) goSide(t *testing.T, opts lockrt.Options) side {
	t.Helper()
	opts = options(opts, f.fairWait(), f.pubsub)
	s := side{c: open(t, f.url, opts)}
	for _, server := range f.reds {
		s.reds = append(s.reds, open(t, server.URL(), opts))
	}
	return s
}

func open(t *testing.T, url string, opts lockrt.Options) *lockrt.Client {
	t.Helper()
	c, err := connect(t.Context(), url, opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// connect opens a client. lockrt.Open connects once, and fails if the machine stops for as long as a third of the
// watchdog time.
func connect(ctx context.Context, url string, opts lockrt.Options) (*lockrt.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if c, err := lockrt.Open(ctx, url, opts); err == nil || ctx.Err() != nil {
			return c, err
		}
	}
}

// javaSide connects Redisson clients, and returns the first thread of the main one. They end with the program. The
// clients of independent servers are one set for a program.
func (f *fleet) javaSide(t *testing.T, j *jvm, client string, watchdog time.Duration) thread {
	t.Helper()
	settings := f.settings
	if f.at("3.46.0") { // it has the setting since then
		settings = append(slices.Clone(settings), "fairWait="+millis(f.fairWait()))
	}
	th := thread{j, client, "main"}
	th.do(t, slices.Concat([]string{"open", f.mode, f.address, millis(watchdog)}, settings)...)
	for i, server := range f.reds {
		red := thread{j, "red" + strconv.Itoa(i), "main"}
		red.do(t, "open", "single", server.URL(), millis(watchdog))
	}
	return th
}

// at reports whether the version of Redisson is this one or a later one.
func (f *fleet) at(version string) bool {
	return slices.Compare(numbers(f.version), numbers(version)) >= 0
}

func numbers(version string) (ns []int) {
	for word := range strings.SplitSeq(version, ".") {
		n, _ := strconv.Atoi(word)
		ns = append(ns, n)
	}
	return ns
}

// servers are all servers of the fleet.
func (f *fleet) servers() []*redistest.RedisServer { return slices.Concat(f.nodes, f.reds) }

// redis returns a client of the site for plain commands.
func (f *fleet) redis(t *testing.T) rueidis.Client {
	t.Helper()
	opt, err := rueidis.ParseURL(f.url)
	require.NoError(t, err)
	c, err := rueidis.NewClient(opt)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// aKey returns a key that no other test has. It has the prefix of the documentation of permissions.
func aKey(t *testing.T, suffix string) string {
	t.Helper()
	return "order:" + redistest.Key(t, suffix)
}

// words sends a command to a server that replies with a list.
func words(server *redistest.RedisServer, args ...string) []string {
	reply, err := server.Try(args...)
	if err != nil {
		return nil
	}
	list, _ := reply.AsStrSlice()
	return list
}

// listening returns when a client has subscribed to a channel that matches the pattern.
func (f *fleet) listening(t *testing.T, pattern string) {
	t.Helper()
	f.soon(t, func() bool {
		for _, server := range f.servers() {
			if len(words(server, "PUBSUB", "CHANNELS", pattern)) > 0 || len(words(server, "PUBSUB", "SHARDCHANNELS", pattern)) > 0 {
				return true
			}
		}
		return false
	}, "nobody listens to %s", pattern)
}

// remains returns the time to live of a key.
func remains(server *redistest.RedisServer, key string) time.Duration {
	reply, err := server.Try("PTTL", key)
	if err != nil {
		return 0
	}
	ms, _ := reply.AsInt64()
	return time.Duration(ms) * time.Millisecond
}

// renewed returns when all of these locks were renewed on a master.
func (f *fleet) renewed(t *testing.T, keys ...string) {
	t.Helper()
	type at struct {
		server *redistest.RedisServer
		key    string
	}
	last := map[at]time.Duration{}
	f.soon(t, func() bool {
		for _, server := range f.nodes {
			if !master(server) {
				continue
			}
			keys = slices.DeleteFunc(keys, func(key string) bool {
				left, before := remains(server, key), last[at{server, key}]
				last[at{server, key}] = left
				return before > 0 && left > before
			})
		}
		return len(keys) == 0
	}, "these are not renewed: %s", lazily{&keys})
}

func master(server *redistest.RedisServer) bool {
	reply, err := server.Try("ROLE")
	if err != nil {
		return false
	}
	role, err := reply.ToArray()
	if err != nil || len(role) == 0 {
		return false
	}
	name, _ := role[0].ToString()
	return name == "master"
}

// soon waits until the condition holds.
func (f *fleet) soon(t *testing.T, so func() bool, message string, args ...any) {
	t.Helper()
	require.Eventually(t, so, patience, time.Millisecond, append([]any{message}, args...)...)
}

// asked returns how many scripts clients sent to servers.
func (f *fleet) asked() int64 { return f.commands("evalsha") }

// commands returns how often clients sent a command to servers.
func (f *fleet) commands(name string) (n int64) {
	for _, server := range f.servers() {
		n += server.CommandStats()[name]
	}
	return n
}

// soon returns a context that ends when an immediate event does not happen.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// granted is the result of a wait.
type granted struct {
	release release
	err     error
	at      time.Time
}

func begin(ctx context.Context, a acquire, key string) <-chan granted {
	done := make(chan granted, 1)
	go func() {
		r, err := a(ctx, key)
		done <- granted{r, err, time.Now()}
	}()
	return done
}

// served waits for a grant.
func served(t *testing.T, done <-chan granted) granted {
	t.Helper()
	g := <-done
	require.NoError(t, g.err)
	return g
}

// waiting fails if a wait is over.
func waiting(t *testing.T, done <-chan granted) {
	t.Helper()
	select {
	case g := <-done:
		t.Fatalf("it did not wait: %v", g.err)
	default:
	}
}

// took acquires a free lock.
func took(t *testing.T, a acquire, key string) release {
	t.Helper()
	r, err := a(soon(t), key)
	require.NoError(t, err)
	return r
}

func round(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

func millis(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }
