package runtime_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// An aclUser is a user of the server as the README makes one.
type aclUser struct {
	name, password string
	rules          []string
}

// readmeUser reads the commands of the README that make a user whose locks begin with order:.
func readmeUser(t *testing.T) (u aclUser) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "README.md"))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "> ACL SETUSER ")
		if !ok {
			continue
		}
		words := strings.Fields(command)
		u.name = words[0]
		for _, rule := range words[1:] {
			if password, ok := strings.CutPrefix(rule, ">"); ok {
				u.password = password
			}
			u.rules = append(u.rules, rule)
		}
	}
	require.NotEmpty(t, u.rules, "the README makes no user")
	return u
}

// server starts a server that has this user.
func (u aclUser) server(t *testing.T) (server *redistest.RedisServer, url string) {
	t.Helper()
	server = redistest.Server(t)
	server.Do(append([]string{"ACL", "SETUSER", u.name}, u.rules...)...)
	return server, "redis://" + u.name + ":" + u.password + "@" + server.Addr()
}

// A record is what callers and the log were told.
type record struct {
	enough func() // called when something was denied

	mu   sync.Mutex
	text bytes.Buffer
}

// Write takes what the log is told.
func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, err := r.text.Write(p)
	if denied(r.text.String()) {
		r.enough()
	}
	return n, err
}

// add notes an error.
func (r *record) add(step string, err error) {
	if err != nil {
		fmt.Fprintf(r, "%s: %v\n", step, err)
	}
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// denied reports whether it says that the server refused something for want of a permission. A
// server before 7.2 words it differently if it is a script that wanted it.
func denied(text string) bool {
	return strings.Contains(text, "NOPERM") || strings.Contains(text, "can't run this command")
}

// everyStep does whatever a client asks of a server, until something is denied, and returns what was said.
func everyStep(t *testing.T, server *redistest.RedisServer, open func(lockrt.Options) *lockrt.Client) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r := &record{enough: cancel}
	renewed := make(chan lockrt.RenewEvent, 1000)
	opts := lockrt.Options{
		Logger: slog.New(slog.NewTextHandler(r, nil)),
		Hooks:  lockrt.Hooks{Renewed: func(e lockrt.RenewEvent) { renewed <- e }},
	}
	one, two := open(opts), open(opts)
	const key, short = "order:1", 300 * time.Millisecond
	unlock := func(step string, got locked) {
		r.add(step, got.err)
		if got.err == nil {
			r.add("unlock after "+step, got.lease.Unlock(ctx))
		}
	}
	hold := func(opts ...lockrt.LockOption) *lockrt.Lease {
		lease, err := one.Mutex(key, opts...).Lock(ctx)
		r.add("lock", err)
		return lease
	}

	if lease := hold(); lease != nil {
		unlock("lock", locked{lease, nil})
	}
	if lease := hold(lockrt.WithFencing()); lease != nil {
		unlock("lock with a token", locked{lease, nil})
	}
	if lease := hold(lockrt.WithWatchdog(3 * time.Second)); lease != nil { // it is looked at for the first time soon
		r.add("renew", receive(t, renewed, "the renewal").Err)
		_, err := lease.TTL(ctx)
		r.add("ttl", err)
		_, err = two.Mutex(key).Inspect(ctx)
		r.add("inspect", err)
		next := lockLater(ctx, two.Mutex(key))
		for len(next) == 0 && ctx.Err() == nil && number(t, server, "LLEN", "lockgen_waiting:{"+key+"}") == 0 {
			<-time.After(time.Millisecond)
		}
		r.add("hand over", lease.Unlock(ctx))
		unlock("wait", <-next)
	}
	// What expires is for those to take who stand in line.
	if lease := hold(lockrt.WithLease(short)); lease != nil {
		unlock("wait for the end", <-lockLater(ctx, two.Mutex(key)))
	}
	if lease := hold(); lease != nil {
		_, err := two.Mutex(key).ForceUnlock(ctx)
		r.add("force unlock", err)
	}
	// What happens to the key is told long before it would be renewed.
	if lease := hold(); lease != nil {
		server.Do("DEL", key)
		select {
		case <-lease.Context().Done():
		case <-ctx.Done():
			r.add("be told", ctx.Err())
		}
	}
	// One waits for Redisson on the channel of the lock, and goes on listening for a moment.
	server.Do("DEL", key)
	server.Do("HSET", key, "346e9d1f-5700-4e29-a992-43bf29f83528:1", "1")
	_, err := two.Mutex(key).Lock(ctx, lockrt.WithWait(50*time.Millisecond))
	r.add("wait for Redisson", err)
	for ctx.Err() == nil {
		channels, err := server.Do("PUBSUB", "CHANNELS", "redisson_lock__channel:*").AsStrSlice()
		require.NoError(t, err)
		if len(channels) == 0 {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	server.Do("DEL", key)
	countingSteps(ctx, t, server, r, one, two)
	rwSteps(ctx, server, r, one, two)
	fairSteps(ctx, t, server, r, one, two)
	return r.String()
}

// fairSteps does whatever a fair lock asks of a server.
func fairSteps(ctx context.Context, t *testing.T, server *redistest.RedisServer, r *record, one, two *lockrt.Client) {
	t.Helper()
	const key = "order:fair"
	m, other := one.FairMutex(key), two.FairMutex(key)
	waits := func(n int64) {
		for ctx.Err() == nil && number(t, server, "LLEN", "redisson_lock_queue:{"+key+"}") != n {
			<-time.After(time.Millisecond)
		}
	}
	try := func(step string, err error) {
		if ctx.Err() == nil {
			r.add(step, err)
		}
	}
	lease, err := m.Lock(ctx)
	try("fair lock", err)
	if err != nil {
		return
	}
	impatient, cancel := context.WithCancel(ctx)
	gaveUp := lockLater(impatient, other)
	waits(1)
	got := lockLater(ctx, other)
	waits(2)
	second := lockLater(ctx, m)
	waits(3)
	cancel()
	<-gaveUp
	waits(2)
	for _, next := range []<-chan locked{got, second} {
		try("fair unlock", lease.Unlock(ctx))
		l := <-next
		try("fair wait", l.err)
		if lease = l.lease; lease == nil {
			return
		}
	}
	_, err = m.Inspect(ctx)
	try("fair inspect", err)
	_, err = m.ForceUnlock(ctx)
	try("fair force unlock", err)
	server.Do("DEL", key)
}

// rwSteps does whatever a read-write lock asks of a server.
func rwSteps(ctx context.Context, server *redistest.RedisServer, r *record, one, two *lockrt.Client) {
	const key, short = "order:rw", 300 * time.Millisecond
	m, other := one.RWMutex(key), two.RWMutex(key)
	try := func(step string, err error) {
		if ctx.Err() == nil {
			r.add(step, err)
		}
	}
	try("read and write", m.Do(ctx, func(ctx context.Context, _ *lockrt.Lease) error {
		return m.RDo(ctx, func(ctx context.Context, l *lockrt.Lease) error { return l.Extend(ctx, time.Minute) })
	}, lockrt.WithFencing()))
	_, err := m.RLock(ctx, lockrt.WithLease(short)) // which expires
	try("read", err)
	try("wait to write", other.Do(ctx, func(_ context.Context, l *lockrt.Lease) error { return l.Err() }))
	_, err = m.Inspect(ctx)
	try("inspect", err)
	_, err = other.ForceRUnlock(ctx)
	try("force", err)
	if lease, err := m.Lock(ctx); err == nil {
		_, err = other.RLock(ctx, lockrt.WithWait(50*time.Millisecond))
		if !errors.Is(err, lockrt.ErrNotAcquired) {
			try("wait to read", err)
		}
		try("write", lease.Unlock(ctx))
	}
	server.Do("DEL", key)
}

// countingSteps does whatever semaphores, permits and latches ask of a server.
func countingSteps(ctx context.Context, t *testing.T, server *redistest.RedisServer, r *record, one, two *lockrt.Client) {
	t.Helper()
	step := func(name string, do func() error) {
		if ctx.Err() == nil {
			r.add(name, do())
		}
	}
	// while has something done when another one waits for it and listens.
	while := func(name, channel string, wait, do func() error) {
		got := later(wait)
		for ctx.Err() == nil && subscribers(t, server, channel) == 0 {
			<-time.After(time.Millisecond)
		}
		step(name, do)
		r.add(name, <-got)
	}
	s := one.Semaphore("order:s", 0)
	step("set permits", func() error { _, err := s.TrySetPermits(ctx, 2, time.Minute); return err })
	step("acquire", func() error { return s.Acquire(ctx, 2) })
	while("release", "redisson_sc:{order:s}",
		func() error { return two.Semaphore("order:s", 0).Acquire(ctx, 1) },
		func() error { return s.Release(ctx, 1) })
	step("resize", func() error { _, err := s.Resize(ctx, 1); return err })
	step("available", func() error { _, err := s.Available(ctx); return err })
	step("drain", func() error { _, err := s.Drain(ctx); return err })

	const short = 300 * time.Millisecond
	p := one.PermitSemaphore("order:p", 1)
	var permit *lockrt.Permit
	step("permit", func() (err error) { permit, err = p.Acquire(ctx); return err })
	while("permit release", "redisson_sc:{order:p}",
		func() error {
			permit, err := two.PermitSemaphore("order:p", 1).Acquire(ctx)
			if err != nil {
				return err
			}
			return permit.Release(ctx)
		},
		func() error { return permit.Release(ctx) })
	step("permit that expires", func() error { _, err := p.Acquire(ctx, lockrt.WithLease(short)); return err })
	step("extend", func() (err error) {
		if permit, err = p.Acquire(ctx); err == nil { // when the other is over
			err = permit.Extend(ctx, time.Minute)
		}
		return err
	})
	step("permit ttl", func() error { _, err := p.TTL(ctx, permit.ID()); return err })
	step("total", func() error { _, err := p.Total(ctx); return err })
	step("set total", func() error { return p.SetPermits(ctx, 3) })
	step("release by id", func() error { return p.Release(ctx, permit.ID()) })

	l := one.CountDownLatch("order:l")
	for _, last := range []struct {
		name string
		do   func() error
	}{
		{"count down", func() error { _, err := l.CountDown(ctx); return err }},
		{"delete", func() error { _, err := l.Delete(ctx); return err }},
	} {
		step("set count", func() error { _, err := l.SetCount(ctx, 2); return err })
		step("count down once", func() error { _, err := l.CountDown(ctx); return err })
		while(last.name, "redisson_countdownlatch__channel__{order:l}",
			func() error {
				if err := two.CountDownLatch("order:l").Wait(ctx); !errors.Is(err, lockrt.ErrDeleted) {
					return err
				}
				return nil
			}, last.do)
		for ctx.Err() == nil && subscribers(t, server, "redisson_countdownlatch__channel__{order:l}") > 0 {
			<-time.After(10 * time.Millisecond)
		}
	}
	step("count", func() error { _, err := l.Count(ctx); return err })
}

// TestACL shows that the permissions that the README lists are enough.
func TestACL(t *testing.T) {
	t.Parallel()
	server, url := readmeUser(t).server(t)
	require.Regexp(t, served, everyStep(t, server, func(opts lockrt.Options) *lockrt.Client { return clientOf(t, url, opts) }))
	log, err := server.Do("ACL", "LOG").ToArray()
	require.NoError(t, err)
	require.Empty(t, log)
	_, err = clientOf(t, url, lockrt.Options{}).Mutex("invoice:1").Lock(patient(t))
	require.ErrorContains(t, err, `lockgen: lock "invoice:1": a permission is missing, which ACL LOG on the server names: NOPERM`, "other keys are not the user's")
}

// TestACL_ScriptsOfOthers shows that one who may not load scripts uses what others have loaded, and is told at once
// if nobody has.
func TestACL_ScriptsOfOthers(t *testing.T) {
	t.Parallel()
	u := readmeUser(t)
	u.rules = append(u.rules, "-script|load")
	server, url := u.server(t)
	var log bytes.Buffer
	c := clientOf(t, url, lockrt.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	_, err := c.Mutex("order:1").Lock(patient(t))
	require.ErrorContains(t, err, `lockgen: lock "order:1": a permission is missing, which ACL LOG on the server names: NOPERM`)
	require.ErrorContains(t, err, "script|load")
	require.Contains(t, log.String(), "scripts could not be loaded")

	other, err := clientOf(t, server.URL(), lockrt.Options{}).Mutex("order:2").Lock(patient(t))
	require.NoError(t, err)
	require.NoError(t, other.Unlock(patient(t)))
	server.Do("ACL", "LOG", "RESET")
	for range 3 {
		lease, err := c.Mutex("order:1").Lock(patient(t))
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(patient(t)))
	}
	denied, err := server.Do("ACL", "LOG").ToArray()
	require.NoError(t, err)
	require.Empty(t, denied, "it does not try again and again")
}

// quiet are the permissions whose want is not told to any caller, and what comes of it.
var quiet = map[string]string{
	"+ping":   "idle connections are not looked after",
	"+lpop":   "a release tells those in line to ask, in place of handing over",
	"+lindex": "nobody looks after the one that was handed a lock",
}

// TestACL_WithoutOne shows that each of them is needed, and that one who lacks it is told, as a
// caller or in the log.
func TestACL_WithoutOne(t *testing.T) {
	t.Parallel()
	all := readmeUser(t)
	for i, rule := range all.rules {
		if !strings.ContainsRune("~&+", rune(rule[0])) {
			continue // on, and the password
		}
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			u := all
			u.rules = slices.Concat(all.rules[:i], all.rules[i+1:])
			server, url := u.server(t)
			said := everyStep(t, server, func(opts lockrt.Options) *lockrt.Client { return clientOf(t, url, opts) })
			if _, ok := quiet[rule]; !ok {
				require.True(t, denied(said), said)
			}
			if rule != "+ping" { // is not sent before a connection was idle for a while
				log, err := server.Do("ACL", "LOG").ToArray()
				require.NoError(t, err)
				require.NotEmpty(t, log, "the server's own log")
			}
		})
	}
}
