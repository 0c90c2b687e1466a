//go:build linux

package ctl

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/internal/serverclock"
	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// stubborn is a command that ignores SIGTERM, with a child process of its own, and ends with SIGUSR1.
const stubborn = `trap '' TERM; trap 'exit 0' USR1; sleep 600 >/dev/null & echo up $$; while :; do wait; done`

// runLease is the lease of a lock under which a command runs while something happens: the default. lockctl has 1.5 s from the kill of
// the command to the end of such a lease.
const runLease = lockrt.DefaultWatchdog

// An outcome is what must become of a command that runs under a lock.
type outcome int

const (
	// The lock is renewed again, and the command goes on to its end. Nobody else has the lock before.
	goesOn outcome = iota
	// Nothing renews the lock. The command is dead before the lease ends, and before anybody else has the lock.
	runsOut
	// The server has forgotten the lock, or given it away. The command is dead long before the lease would have ended.
	isForgotten
)

// A fault is something that happens to a command that runs under a lock.
type fault struct {
	name    string
	of      []string // faults of the table of faults that this one stands for
	flags   []string // of lockctl run
	lease   time.Duration
	options []redistest.Option
	clocked bool                       // the server has a clock that can be set
	before  func(t *testing.T, r *ran) // before lockctl starts
	happens func(t *testing.T, r *ran) // with goesOn: the whole of it
	after   func(t *testing.T, r *ran) // ends what happens
	unseen  bool                       // renewals do not make the lease longer
	must    outcome
	code    int
}

// A ran is a lockctl run with what it runs on.
type ran struct {
	server  *redistest.RedisServer // that has the lock
	group   *redistest.SentinelGroup
	cluster *redistest.RedisCluster
	clock   *serverclock.Clock
	proxy   *redistest.FaultProxy // between lockctl and the one server
	lease   time.Duration
	began   time.Time
	run     *program
	pid     int // of the command
	next    chan *successor
}

// A successor is the holder after the command.
type successor struct {
	beside bool // the command ran when the lock was granted
	lost   func() error
	free   func(context.Context) error
}

// where returns the URL for others than lockctl.
func (r *ran) where() string {
	switch {
	case r.group != nil:
		return r.group.URL()
	case r.cluster != nil:
		return r.cluster.URL()
	}
	return r.server.URL()
}

// oneServer starts one server, and a proxy before it.
func oneServer(t *testing.T, f *fault) *ran {
	t.Helper()
	r, options := &ran{}, f.options
	if f.clocked {
		r.clock = serverclock.New(t)
		options = append(slices.Clip(options), redistest.WithEnv(r.clock.Env()...))
	}
	r.server = redistest.Server(t, options...)
	r.proxy = redistest.Proxy(t, r.server.Addr())
	return r
}

// strike has all faults happen at the same time, each to a command of its own, once all of the commands run. At most so many start at
// a time.
func strike(t *testing.T, faults []fault, atOnce int, on func(t *testing.T, f *fault) *ran) {
	t.Helper()
	starting := make(chan struct{}, atOnce)
	var up, over sync.WaitGroup
	up.Add(len(faults))
	for _, f := range faults {
		over.Go(func() {
			starting <- struct{}{}
			started := sync.OnceFunc(func() { up.Done(); <-starting })
			defer started()                    // without it, a fault that cannot begin, or is not chosen, would hold up the others
			t.Run(f.name, func(t *testing.T) { // all at once: they wait, and do little
				r := on(t, &f)
				r.start(t, &f)
				started()
				up.Wait()
				r.meet(t, &f)
			})
		})
	}
	over.Wait()
}

// start has lockctl run the command, and another client wait for the lock.
func (r *ran) start(t *testing.T, f *fault) {
	t.Helper()
	r.began, r.lease = time.Now(), f.lease
	if r.lease == 0 {
		r.lease = runLease
	}
	if f.before != nil {
		f.before(t, r)
	}
	url := r.where()
	if r.proxy != nil {
		url = r.proxy.URL()
	}
	args := slices.Concat([]string{"run", "-watchdog", r.lease.String()}, f.flags, []string{"k", "--", "sh", "-c", stubborn})
	r.run, r.pid = underway(t, func(stderr io.Writer) *program { return startWith(t, stderr, "lockctl", url, "", args...) })
	t.Cleanup(func() { killGroup(r.pid) })
	if f.must != isForgotten {
		r.wait(t, strings.Join(f.flags, " "))
	}
}

// underway returns a lockctl run whose command runs, and the process of the command. On a busy machine lockctl may not connect within its
// timeout. Then underway starts it again: the timeout is also that of requests during the fault, and so no longer than a user's.
func underway(t *testing.T, start func(stderr io.Writer) *program) (*program, int) {
	t.Helper()
	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr")) // a file, since what the command started may outlive it
	require.NoError(t, err)
	t.Cleanup(func() {
		text, err := os.ReadFile(stderr.Name())
		require.NoError(t, errors.Join(err, stderr.Close()))
		if t.Failed() {
			t.Logf("lockctl said: %s", text)
		}
	})
	for range 10 {
		p := start(stderr)
		select {
		case line, runs := <-p.lines:
			if runs {
				_, text, _ := strings.Cut(line, "up ")
				pid, err := strconv.Atoi(text)
				require.NoError(t, err)
				return p, pid
			}
		case <-time.After(patience):
			require.Fail(t, "lockctl neither ran the command nor ended")
		}
		require.Equal(t, exitNoRedis, p.ended(t), "it ended before the command ran")
	}
	require.Fail(t, "lockctl does not connect")
	panic("unreachable")
}

// TestUnderway shows that a lockctl that did not connect in time is started again.
func TestUnderway(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	silent := redistest.Proxy(t, server.Addr())
	silent.Blackhole(redistest.Both)
	starts := 0
	p, pid := underway(t, func(stderr io.Writer) *program {
		starts++
		url, timeout := silent.URL(), "10ms"
		if starts > 2 {
			url, timeout = server.URL(), "5s"
		}
		return startWith(t, stderr, "lockctl", url, "", "run", "-timeout", timeout, redistest.Key(t, "k"), "--", "sh", "-c", stubborn)
	})
	t.Cleanup(func() { killGroup(pid) })
	require.GreaterOrEqual(t, starts, 3)
	require.True(t, running(pid))
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGUSR1))
	require.Zero(t, p.ended(t))
}

// meet has the fault happen, and shows that what must happen does.
func (r *ran) meet(t *testing.T, f *fault) {
	t.Helper()
	switch f.must {
	case goesOn:
		f.happens(t, r)
		if !f.unseen {
			r.renewed(t, nil)
		}
		require.True(t, running(r.pid))
		require.NoError(t, r.run.cmd.Process.Signal(syscall.SIGUSR1))
	case runsOut:
		f.happens(t, r)
		ends := time.Now().Add(r.lease) // or before: no renewal comes any more
		until(t, "the command is dead, or the lease is over", func() bool { return !running(r.pid) || time.Now().After(ends) })
	case isForgotten:
		ends, known := r.expiry()
		require.True(t, known)
		f.happens(t, r)
		until(t, "the command is dead", func() bool { return !running(r.pid) })
		require.Less(t, time.Since(r.began), ends)
	}
	if f.after != nil {
		f.after(t, r)
	}
	if r.next != nil {
		select {
		case s := <-r.next:
			require.False(t, s.beside, "the command ran when somebody else had the lock")
			defer func() { // nothing that lockctl does late harms it
				require.NoError(t, s.lost())
				require.NoError(t, s.free(t.Context()))
			}()
		case <-time.After(patience):
			require.Fail(t, "nobody else gets the lock")
		}
	}
	require.Equal(t, f.code, r.run.ended(t))
}

// expiry returns when the lease ends by the server's clock, as the time since the beginning, if the server knows it.
func (r *ran) expiry() (ends time.Duration, known bool) {
	reply, err := r.server.Try("PTTL", "k")
	if err != nil {
		return 0, false
	}
	left, err := reply.AsInt64()
	return time.Since(r.began) + time.Duration(left)*time.Millisecond, err == nil && left > 0
}

// fresh waits until the lock was renewed a moment ago: no renewal is under way, and most of the trust is left.
func (r *ran) fresh(t *testing.T) {
	t.Helper()
	until(t, "it was renewed a moment ago", func() bool {
		ends, known := r.expiry()
		left := ends - time.Since(r.began)
		return known && left > r.lease*9/10 && left < r.lease-r.lease/30
	})
}

// renewed waits until lockctl renews the lock. Until then it calls meanwhile, if that is not nil, every now and then.
func (r *ran) renewed(t *testing.T, meanwhile func()) {
	t.Helper()
	var first time.Duration
	known := false
	until(t, "there is a lease", func() bool { first, known = r.expiry(); return known })
	until(t, "it renews the lock", func() bool {
		if meanwhile != nil {
			meanwhile()
		}
		now, known := r.expiry()
		return known && (now-first).Abs() > 2*time.Second
	})
}

// wait has a client of its own wait for what lockctl with these flags has.
func (r *ran) wait(t *testing.T, flags string) {
	t.Helper()
	c, err := lockrt.Open(t.Context(), r.where(), lockrt.Options{OpTimeout: patience})
	require.NoError(t, err)
	r.next = make(chan *successor, 1)
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	t.Cleanup(func() { cancel(); <-over; _ = c.Close() })
	lock := func() (*successor, error) {
		var of lockrt.Locker = c.Mutex("k")
		switch flags {
		case "-fair":
			of = c.FairMutex("k")
		case "-read":
			of = c.RWMutex("k")
		case "-permits 1":
			p, err := c.PermitSemaphore("k", 1).Acquire(ctx)
			if err != nil {
				return nil, err
			}
			return &successor{running(r.pid), p.Err, p.Release}, nil
		}
		l, err := of.Lock(ctx)
		if err != nil {
			return nil, err
		}
		return &successor{running(r.pid), l.Err, l.Unlock}, nil
	}
	go func() {
		defer close(over)
		for {
			s, err := lock()
			if err == nil {
				r.next <- s
				return
			}
			select { // it did not survive the fault, and asks again
			case <-ctx.Done():
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
}
