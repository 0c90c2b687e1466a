package locktest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"runtime/pprof"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A Lack is a promise that a kind of lock does not make.
type Lack int

// NoReentry: locking under the context of a lease of the same lock is refused, as to any other caller.
const NoReentry Lack = 1

// NoListening: the lock subscribes to nothing, as with [lockrt.WithBackoff].
const NoListening Lack = 2

// MajorityOfKeys: the lock has several keys, and survives faults of less than half of them.
const MajorityOfKeys Lack = 3

// TestLocker checks that locks keep what a [lockrt.Locker] promises, each promise in a subtest: to exclude, to hand
// over, to give up in time, to report every loss, to leave nothing behind, and all of that while replies get lost and
// servers stop.
//
// make returns the lock named key of c. It is called once for each of the clients that a check plays
// the processes with; the keys that the lock has in Redis must contain its name, and it is one of them. lacks are the promises
// that the lock does not make.
//
// The checks run in parallel, on the test's [Server]. Those of faults start servers of their own, and are
// skipped where no redis-server is installed, or failed if $CI is set. They take some seconds. On a cluster, or a master
// under sentinels, which $REDIS_URL names, those are left out that look at messages or lose them.
func TestLocker(t *testing.T, make func(c *lockrt.Client, key string) lockrt.Locker, lacks ...Lack) {
	t.Helper()
	of := subject{
		make:     func(c *lockrt.Client, key string) locker { return whole{make(c, key)} },
		lacks:    lacks,
		url:      Server(t),
		patience: patience,
	}
	all := slices.Concat(checks, faultChecks)
	if u, err := url.Parse(of.url); err == nil && several(u.Query()) {
		all = slices.DeleteFunc(slices.Clone(checks), func(ch check) bool { return ch.name == "BadKeys" })
	}
	for _, ch := range all {
		t.Run(ch.name, func(t *testing.T) {
			t.Parallel()
			ch.run(t, of)
		})
	}
}

// A subject is a kind of lock under test, with its server.
type subject struct {
	make     func(c *lockrt.Client, key string) locker
	lacks    []Lack
	url      string
	patience time.Duration
}

// A locker is the part of [lockrt.Locker] that the checks use.
type locker interface {
	Lock(ctx context.Context, opts ...lockrt.LockOption) (lease, error)
	TryLock(ctx context.Context, opts ...lockrt.LockOption) (lease, error)
	Key() string
}

// A lease is the part of [lockrt.Lease] that the checks use.
type lease interface {
	Key() string
	Context() context.Context
	Err() error
	Until() time.Time
	TTL(ctx context.Context) (time.Duration, error)
	Extend(ctx context.Context, d time.Duration) error
	Unlock(ctx context.Context) error
}

// whole is a locker that is what it says.
type whole struct{ lockrt.Locker }

func (w whole) Lock(ctx context.Context, opts ...lockrt.LockOption) (lease, error) {
	return orNil(w.Locker.Lock(ctx, opts...))
}

func (w whole) TryLock(ctx context.Context, opts ...lockrt.LockOption) (lease, error) {
	return orNil(w.Locker.TryLock(ctx, opts...))
}

func orNil(l *lockrt.Lease, err error) (lease, error) {
	if l == nil {
		return nil, err
	}
	return l, err
}

// A check is one subtest of TestLocker.
type check struct {
	name string
	do   func(s *suite)
}

// run runs the check, and requires that nothing is left in Redis.
func (ch check) run(tb testing.TB, of subject) {
	tb.Helper()
	s := &suite{subject: of, tb: tb}
	s.key = redistest.Key(tb, "k")
	s.redis = s.connect(s.url)
	ch.do(s)
	s.until("nothing of the lock is left in Redis", func() bool { return len(s.keys()) == 0 })
}

// A suite has the resources of one check. Its methods fail the test unless they succeed, so they are for the goroutine
// of the check.
type suite struct {
	subject

	tb    testing.TB
	key   string
	redis rueidis.Client // of the server at url
}

func (s *suite) connect(url string) rueidis.Client {
	rc, err := connect(url, nil)
	s.ok(err, "connect to the server")
	s.tb.Cleanup(rc.Close)
	return rc
}

// ownServer gives the check a server that it may break.
func (s *suite) ownServer() *redistest.RedisServer {
	server := redistest.Server(s.tb)
	s.url = server.URL()
	s.redis = s.connect(s.url)
	return server
}

// cmd sends a command about a key to the server.
func (s *suite) cmd(name, key string, args ...string) rueidis.RedisResult {
	args = append([]string{name, key}, args...)
	r := s.redis.Do(s.ctx(), s.redis.B().Arbitrary(name).Keys(key).Args(args[2:]...).Build())
	if err := r.Error(); !rueidis.IsRedisNil(err) {
		s.ok(err, strings.Join(args, " "))
	}
	return r
}

// keys returns what Redis has that belongs to the check's lock. Counters of fencing tokens are
// to outlive it.
func (s *suite) keys() []string {
	name, _, _ := strings.Cut(s.key, ":")
	number := name[strings.LastIndexByte(name[:strings.LastIndexByte(name, '.')], '.'):] // alone, for the rest may have a meaning
	var found []string
	for _, node := range s.redis.Nodes() {
		for cursor := uint64(0); ; {
			page, err := node.Do(s.ctx(), node.B().Scan().Cursor(cursor).Match("*"+number+":*").Count(1000).Build()).AsScanEntry()
			s.ok(err, "look for keys")
			for _, key := range page.Elements {
				if !strings.HasPrefix(key, "redisson_lock_token") && !slices.Contains(found, key) {
					found = append(found, key)
				}
			}
			if cursor = page.Cursor; cursor == 0 {
				break
			}
		}
	}
	return found
}

// channels returns how many channels with part in their name have subscribers.
func (s *suite) channels(part string) (n int) {
	kinds := []string{"CHANNELS"}
	if s.redis.Mode() == rueidis.ClientModeCluster {
		kinds = append(kinds, "SHARDCHANNELS")
	}
	for _, node := range s.redis.Nodes() {
		for _, kind := range kinds {
			names, err := node.Do(s.ctx(), node.B().Arbitrary("PUBSUB", kind).Build()).AsStrSlice()
			s.ok(err, "look for channels")
			n += len(slices.DeleteFunc(names, func(name string) bool { return !strings.Contains(name, part) }))
		}
	}
	return n
}

// ctx returns a context that lives as long as the check is patient.
func (s *suite) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), s.patience)
	s.tb.Cleanup(cancel)
	return ctx
}

func (s *suite) ok(err error, what string) {
	s.tb.Helper()
	if err != nil {
		s.tb.Fatalf("%s: %v", what, err)
	}
}

// is fails the test unless err matches all targets.
func (s *suite) is(err error, what string, targets ...error) {
	s.tb.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			s.tb.Fatalf("%s: the error is %v, and does not match: %v", what, err, target)
		}
	}
}

func (s *suite) that(holds bool, format string, args ...any) {
	s.tb.Helper()
	if !holds {
		s.tb.Fatalf(format, args...)
	}
}

// until returns once a condition holds that has no event.
func (s *suite) until(what string, holds func() bool) {
	s.tb.Helper()
	s.untilNone(what, func() string {
		if holds() {
			return ""
		}
		return "it does not hold"
	})
}

// untilNone returns once nothing is left, and otherwise says what is.
func (s *suite) untilNone(what string, left func() string) {
	s.tb.Helper()
	over := time.After(s.patience)
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for rest := left(); rest != ""; rest = left() {
		select {
		case <-poll.C:
		case <-over:
			s.tb.Fatalf("waited too long until %s: %s", what, rest)
		}
	}
}

// receive returns what comes from ch, or its zero value when it is closed.
func receive[T any](s *suite, ch <-chan T, what string) T {
	s.tb.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(s.patience):
		s.tb.Fatalf("waited too long for %s", what)
		panic("unreachable")
	}
}

// A process is one of those that share a lock: a client with its own lock.
type process struct {
	s       *suite
	client  *lockrt.Client
	lock    locker
	waiting chan struct{} // has a value for every call that begins to wait
}

// process starts a process that must leave nothing behind.
func (s *suite) process() *process {
	return s.processAt(s.url, lockrt.Options{})
}

func (s *suite) processAt(url string, opts lockrt.Options) *process {
	s.tb.Helper()
	return s.newProcess(opts, func(opts lockrt.Options) *lockrt.Client { return client(s.tb, s.url, url, opts) })
}

// mortal starts a process that the check closes itself, with leases held.
func (s *suite) mortal() *process {
	s.tb.Helper()
	return s.newProcess(lockrt.Options{}, func(opts lockrt.Options) *lockrt.Client {
		c, err := open(s.url, opts)
		s.ok(err, "open a client")
		s.tb.Cleanup(func() { _ = c.Close() })
		return c
	})
}

func (s *suite) newProcess(opts lockrt.Options, open func(lockrt.Options) *lockrt.Client) *process {
	p := &process{s: s, waiting: make(chan struct{}, 10000)}
	opts.Hooks.Waiting = func(context.Context, lockrt.AcquireEvent) { p.waiting <- struct{}{} }
	opts.OpTimeout = cmp.Or(opts.OpTimeout, s.patience/2) // a busy machine may answer late
	p.client = open(opts)
	p.lock = s.make(p.client, s.key)
	return p
}

// hold locks.
func (p *process) hold(opts ...lockrt.LockOption) lease {
	p.s.tb.Helper()
	l, err := p.lock.Lock(p.s.ctx(), opts...)
	p.s.ok(err, "lock")
	return l
}

// refused requires that the process cannot have the lock.
func (p *process) refused(what string) {
	p.s.tb.Helper()
	_, err := p.lock.TryLock(p.s.ctx())
	p.s.is(err, what, lockrt.ErrNotAcquired)
}

// pass locks and unlocks.
func (p *process) pass() {
	p.s.tb.Helper()
	p.s.ok(p.hold(unexpiring).Unlock(p.s.ctx()), "unlock")
}

// An outcome is the outcome of one call of Lock.
type outcome struct {
	lease lease
	err   error
}

// later locks in another goroutine and returns where the outcome comes, once it waits.
func (p *process) later(ctx context.Context, opts ...lockrt.LockOption) <-chan outcome {
	p.s.tb.Helper()
	got := p.soon(ctx, opts...)
	receive(p.s, p.waiting, "the call to wait")
	return got
}

// soon locks in another goroutine and returns where the outcome comes.
func (p *process) soon(ctx context.Context, opts ...lockrt.LockOption) <-chan outcome {
	got := make(chan outcome, 1)
	go func() {
		l, err := p.lock.Lock(ctx, opts...)
		got <- outcome{l, err}
	}()
	return got
}

// granted returns the lease of a call that was made before.
func (s *suite) granted(got <-chan outcome, what string) lease {
	s.tb.Helper()
	o := receive(s, got, what)
	s.ok(o.err, what)
	return o.lease
}

// ends requires that the context of a lease ends, with this cause.
func (s *suite) ends(l lease, cause error, what string) {
	s.tb.Helper()
	receive(s, l.Context().Done(), what)
	s.is(context.Cause(l.Context()), what, cause)
	s.is(l.Err(), what, cause)
}

var labels atomic.Int64

// A mark is a label of goroutines, so that it does not matter what else runs.
type mark string

func newMark() mark { return mark(fmt.Sprintf("check-%d", labels.Add(1))) }

// run runs f. The goroutines that f and its callees start have the mark.
func (m mark) run(f func()) {
	pprof.Do(context.Background(), pprof.Labels("locktest", string(m)), func(context.Context) { f() })
}

// left returns the stacks of the goroutines with the mark that still run: "" if there are none.
func (m mark) left() string {
	var profile bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&profile, 1) // a buffer takes it all
	var stacks []string
	for stack := range strings.SplitSeq(profile.String(), "\n\n") {
		if strings.Contains(stack, `"locktest":"`+string(m)+`"`) {
			stacks = append(stacks, stack)
		}
	}
	return strings.Join(stacks, "\n\n")
}
