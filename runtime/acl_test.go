package lockrt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

// An aclUser is a user of the server as docs/production.md makes one.
type aclUser struct {
	name, password string
	rules          []string
}

// usersIn reads the commands of a document that make a user whose locks begin with order:, by the heading above them.
func usersIn(t *testing.T, document string) (users map[string]aclUser) {
	t.Helper()
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	users = map[string]aclUser{}
	under := ""
	for line := range strings.Lines(string(text)) {
		if heading, ok := strings.CutPrefix(line, "#"); ok {
			under = strings.TrimSpace(strings.TrimLeft(heading, "#"))
		}
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "> ACL SETUSER ")
		if !ok {
			continue
		}
		u := users[under]
		words := strings.Fields(command)
		u.name = words[0]
		for _, rule := range words[1:] {
			if password, ok := strings.CutPrefix(rule, ">"); ok {
				u.password = password
			}
			u.rules = append(u.rules, rule)
		}
		users[under] = u
	}
	return users
}

// userOf returns the user that ACL.md makes for one kind of lock.
func userOf(t *testing.T, kind string) aclUser {
	t.Helper()
	u := usersIn(t, "ACL.md")[kind]
	require.NotEmpty(t, u.rules, "no user for a %s", kind)
	return u
}

// server starts a server that has this user.
func (u aclUser) server(t *testing.T) (server *redistest.RedisServer, url string) {
	t.Helper()
	server = redistest.Server(t)
	u.join(server)
	return server, u.login(t, server.URL())
}

// serversOf starts as many as a kind of lock is on.
func serversOf(t *testing.T, kind string) []*redistest.RedisServer {
	t.Helper()
	servers := []*redistest.RedisServer{redistest.Server(t)}
	for kind == redKind && len(servers) < 3 {
		servers = append(servers, redistest.Server(t))
	}
	return servers
}

// on makes the user on servers, and returns how clients of them are opened for him.
func (u aclUser) on(t *testing.T, servers []*redistest.RedisServer) (g ground, open func(lockrt.Options) *lockrt.Client) {
	t.Helper()
	u.join(servers...)
	g = single(servers[0])
	g.nodes = servers
	open = func(opts lockrt.Options) *lockrt.Client { return clientOf(t, u.login(t, servers[0].URL()), opts) }
	if len(servers) > 1 {
		g.beside = func(opts lockrt.Options) (clients []*lockrt.Client) {
			for _, s := range servers[1:] {
				clients = append(clients, clientOf(t, u.login(t, s.URL()), opts))
			}
			return clients
		}
	}
	return g, open
}

// join makes the user, or makes him anew.
func (u aclUser) join(servers ...*redistest.RedisServer) {
	for _, s := range servers {
		// Without channels, as it is from Redis 7 on.
		s.Do(append([]string{"ACL", "SETUSER", u.name, "reset", "resetchannels"}, u.rules...)...)
	}
}

// without is the user without the rule number i.
func (u aclUser) without(i int) aclUser {
	u.rules = slices.Concat(u.rules[:i], u.rules[i+1:])
	return u
}

// login returns a URL with the name and the password of the user.
func (u aclUser) login(t *testing.T, text string) string {
	t.Helper()
	at, err := url.Parse(text)
	require.NoError(t, err)
	at.User = url.UserPassword(u.name, u.password)
	return at.String()
}

// unsaid is the log line of a client that may not describe its process: nothing else depends on that, see
// TestPresence_WithoutThePermission.
const unsaid = "the name of this process cannot be written"

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
	if bytes.Contains(p, []byte(unsaid)) || bytes.Contains(p, []byte("level=INFO")) && !denied(string(p)) { // or of a connection that is slow
		return len(p), nil
	}
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
	return strings.Contains(text, "NOPERM") || strings.Contains(text, "a permission is missing") ||
		strings.Contains(text, "The user executing the script can't ")
}

// A ground is where locks are, and where they are looked at.
type ground struct {
	nodes   []*redistest.RedisServer
	at      func(key string) *redistest.RedisServer // the one that has a key or a channel
	sharded bool                                    // Redisson uses sharded channels
	beside  func(lockrt.Options) []*lockrt.Client   // opens one of each of the other servers that a RedLock is on
}

// single is the ground of one server.
func single(server *redistest.RedisServer) ground {
	return ground{nodes: []*redistest.RedisServer{server}, at: func(string) *redistest.RedisServer { return server }}
}

// listening returns how many have subscribed to a channel of Redisson.
func (g ground) listening(t *testing.T, channel string) int64 {
	t.Helper()
	if !g.sharded {
		return subscribers(t, g.at(channel), channel)
	}
	reply, err := g.at(channel).Do("PUBSUB", "SHARDNUMSUB", channel).ToArray()
	require.NoError(t, err)
	n, err := reply[1].AsInt64()
	require.NoError(t, err)
	return n
}

// silent reports whether nobody listens for what Redisson says of a key.
func (g ground) silent(t *testing.T, key string) bool {
	t.Helper()
	command := "CHANNELS"
	if g.sharded {
		command = "SHARDCHANNELS"
	}
	for _, s := range g.nodes {
		channels, err := s.Do("PUBSUB", command, "redisson_*{"+key+"}*").AsStrSlice()
		require.NoError(t, err)
		if len(channels) > 0 {
			return false
		}
	}
	return true
}

// A walk does whatever one kind of lock asks of a server, with two clients.
type walk struct {
	ground

	ctx        context.Context // ends when something was denied
	t          *testing.T
	r          *record
	one, two   *lockrt.Client
	ones, twos []*lockrt.Client // theirs for each server of a RedLock
	renewed    chan lockrt.RenewEvent
}

// A walkOf is how one kind of lock is walked.
type walkOf struct {
	kind, key string
	steps     func(walk)
}

// user returns the user that ACL.md makes for it: a MultiLock is of mutexes.
func (w walkOf) user(t *testing.T) aclUser {
	t.Helper()
	if w.kind == multiKind {
		return userOf(t, "Mutex")
	}
	return userOf(t, w.kind)
}

var walks = []walkOf{
	{"Mutex", "order:1", walk.mutex}, {"Semaphore", "order:s", walk.semaphore}, {"PermitSemaphore", "order:p", walk.permits},
	{"CountDownLatch", "order:l", walk.latch}, {"RWMutex", "order:rw", walk.rw}, {"FairMutex", "order:fair", walk.fair},
}

// The kinds that are made of others. A RedLock takes several servers.
const (
	redKind   = "RedLock"
	multiKind = "MultiLock"
)

var allWalks = append(slices.Clip(walks), walkOf{multiKind, "order:m", walk.multi}, walkOf{redKind, "order:red", walk.red})

// everyStep does whatever clients ask of a server, for those kinds or all that take one, until something is denied, and returns
// what was said.
func everyStep(t *testing.T, g ground, open func(lockrt.Options) *lockrt.Client, kinds ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	w := walk{ground: g, ctx: ctx, t: t, r: &record{enough: cancel}, renewed: make(chan lockrt.RenewEvent, 1000)}
	opts := lockrt.Options{
		DeadlockAfter: -1, // it has permissions of its own
		Logger:        slog.New(slog.NewTextHandler(w.r, nil)),
		Hooks: lockrt.Hooks{Renewed: func(_ context.Context, e lockrt.RenewEvent) {
			if e.Err == nil || denied(e.Err.Error()) { // else of what was released meanwhile
				w.renewed <- e
			}
		}},
	}
	w.one, w.two = open(opts), open(opts)
	if g.beside != nil {
		w.ones, w.twos = append(g.beside(opts), w.one), append(g.beside(opts), w.two)
	}
	for _, each := range allWalks {
		if slices.Contains(kinds, each.kind) || len(kinds) == 0 && each.kind != redKind {
			each.steps(w)
		}
	}
	return w.r.String()
}

// try notes an error, unless that is because something was denied before.
func (w walk) try(step string, err error) {
	if w.ctx.Err() == nil {
		w.r.add(step, err)
	}
}

// step does something and notes its error.
func (w walk) step(name string, do func() error) {
	if w.ctx.Err() == nil {
		w.r.add(name, do())
	}
}

// while has something done when another one waits for it and listens.
func (w walk) while(name, channel string, wait, do func() error) {
	got := later(wait)
	for w.ctx.Err() == nil && len(got) == 0 && w.listening(w.t, channel) == 0 {
		<-time.After(time.Millisecond)
	}
	w.step(name, do)
	w.r.add(name, <-got)
}

// soonRenewed has a lease renewed after two seconds.
var soonRenewed = lockrt.WithWatchdog(6 * time.Second)

// renewal waits for a renewal of key, and returns its error.
func (w walk) renewal(key string) error {
	w.t.Helper()
	for {
		if e := receive(w.t, w.renewed, "the renewal"); e.Key == key {
			return e.Err
		}
	}
}

// waitsForRedisson has one wait for a lock until it has listened for what Redisson says of it, which it does not have the time for on
// a busy machine, and returns the last error.
func (w walk) waitsForRedisson(key string, lock lockrt.Locker) error {
	for {
		_, err := lock.Lock(w.ctx, lockrt.WithWait(50*time.Millisecond))
		switch {
		case err == nil, w.ctx.Err() != nil, denied(err.Error()):
			return err
		case errors.Is(err, lockrt.ErrNotAcquired) && !w.silent(w.t, key): // it goes on listening for a moment
			return err
		}
	}
}

// deletes deletes a key on servers until the holder of lease learns of that, or something was denied: a request that was answered late, and was sent once
// more, locks the key again.
func (w walk) deletes(lease *lockrt.Lease, key string, servers ...*redistest.RedisServer) error {
	for lease.Err() == nil && w.ctx.Err() == nil {
		for _, s := range servers {
			s.Do("DEL", key)
		}
		<-time.After(5 * time.Millisecond)
	}
	if lease.Err() == nil {
		return w.ctx.Err()
	}
	return nil
}

// lull returns when nobody listens for what Redisson says of a key any more.
func (w walk) lull(key string) {
	for w.ctx.Err() == nil && !w.silent(w.t, key) {
		<-time.After(10 * time.Millisecond)
	}
}

func (w walk) mutex() {
	ctx, t, r, one, two, renewed := w.ctx, w.t, w.r, w.one, w.two, w.renewed
	const key, short = "order:1", 300 * time.Millisecond
	server := w.at(key)
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
	// The waiters in the queue acquire an expired lock.
	if lease := hold(lockrt.WithLease(short)); lease != nil {
		unlock("wait for the end", <-lockLater(ctx, two.Mutex(key)))
	}
	if lease := hold(); lease != nil {
		_, err := two.Mutex(key).ForceUnlock(ctx)
		r.add("force unlock", err)
	}
	// The client learns of a change of the key long before the renewal.
	if lease := hold(); lease != nil {
		r.add("be told", w.deletes(lease, key, server))
	}
	// One waits for Redisson on the channel of the lock, and goes on listening for a moment.
	server.Do("DEL", key)
	server.Do("HSET", key, "346e9d1f-5700-4e29-a992-43bf29f83528:1", "1")
	r.add("wait for Redisson", w.waitsForRedisson(key, two.Mutex(key)))
	w.lull(key)
	server.Do("DEL", key)
}

func (w walk) fair() {
	ctx, one, two := w.ctx, w.one, w.two
	const key = "order:fair"
	m, other := one.FairMutex(key), two.FairMutex(key)
	waits := func(n int64, who <-chan locked) {
		for ctx.Err() == nil && len(who) == 0 && number(w.t, w.at(key), "LLEN", "redisson_lock_queue:{"+key+"}") != n {
			<-time.After(time.Millisecond)
		}
	}
	lease, err := m.Lock(ctx, lockrt.WithFencing(), soonRenewed)
	w.try("fair lock", err)
	if err != nil {
		return
	}
	w.try("fair renew", w.renewal(key))
	impatient, cancel := context.WithCancel(ctx)
	got := lockLater(ctx, other)
	waits(1, got)
	for ctx.Err() == nil && len(got) == 0 && w.silent(w.t, key) { // one that is refused once more listens for what Redisson says
		<-time.After(time.Millisecond)
	}
	gaveUp := lockLater(impatient, other) // from between others
	waits(2, gaveUp)
	second := lockLater(ctx, m)
	waits(3, second)
	cancel()
	if l := <-gaveUp; !errors.Is(l.err, context.Canceled) {
		w.try("fair wait", l.err)
		return
	}
	waits(2, got)
	for _, next := range []<-chan locked{got, second} {
		w.try("fair unlock", lease.Unlock(ctx))
		l := <-next
		w.try("fair wait", l.err)
		if lease = l.lease; lease == nil {
			return
		}
	}
	_, err = m.Inspect(ctx)
	w.try("fair inspect", err)
	_, err = m.ForceUnlock(ctx)
	w.try("fair force unlock", err)
	w.lull(key)
	w.at(key).Do("DEL", key)
}

func (w walk) rw() {
	const key, short = "order:rw", 300 * time.Millisecond
	ctx := w.ctx
	m, other := w.one.RWMutex(key), w.two.RWMutex(key)
	w.try("read and write", m.Do(ctx, func(ctx context.Context, _ *lockrt.Lease) error {
		return m.RDo(ctx, func(ctx context.Context, l *lockrt.Lease) error { return l.Extend(ctx, time.Minute) })
	}, lockrt.WithFencing()))
	w.try("read for long", m.RDo(ctx, func(context.Context, *lockrt.Lease) error { return w.renewal(key) }, soonRenewed))
	_, err := m.RLock(ctx, lockrt.WithLease(short)) // which expires
	w.try("read", err)
	w.try("wait to write", other.Do(ctx, func(_ context.Context, l *lockrt.Lease) error { return l.Err() }))
	_, err = m.Inspect(ctx)
	w.try("inspect", err)
	_, err = other.ForceRUnlock(ctx)
	w.try("force", err)
	if lease, err := m.Lock(ctx); err == nil {
		if err := w.waitsForRedisson(key, other.RLocker()); !errors.Is(err, lockrt.ErrNotAcquired) {
			w.try("wait to read", err)
		}
		w.try("write", lease.Unlock(ctx))
	}
	w.lull(key)
	w.at(key).Do("DEL", key)
}

func (w walk) semaphore() {
	ctx := w.ctx
	s := w.one.Semaphore("order:s", 0)
	w.step("set permits", func() error { _, err := s.TrySetPermits(ctx, 2, time.Minute); return err })
	w.step("acquire", func() error { return s.Acquire(ctx, 2) })
	w.while("release", "redisson_sc:{order:s}",
		func() error { return w.two.Semaphore("order:s", 0).Acquire(ctx, 1) },
		func() error { return s.Release(ctx, 1) })
	w.step("resize", func() error { _, err := s.Resize(ctx, 1); return err })
	w.step("available", func() error { _, err := s.Available(ctx); return err })
	w.step("drain", func() error { _, err := s.Drain(ctx); return err })
	w.lull("order:s")
}

func (w walk) permits() {
	ctx := w.ctx
	const short = 300 * time.Millisecond
	p := w.one.PermitSemaphore("order:p", 1)
	var permit *lockrt.Permit
	w.step("permit", func() (err error) { permit, err = p.Acquire(ctx); return err })
	w.while("permit release", "redisson_sc:{order:p}",
		func() error {
			permit, err := w.two.PermitSemaphore("order:p", 1).Acquire(ctx)
			if err != nil {
				return err
			}
			return permit.Release(ctx)
		},
		func() error { return permit.Release(ctx) })
	w.step("permit that expires", func() error { _, err := p.Acquire(ctx, lockrt.WithLease(short)); return err })
	w.step("extend", func() (err error) {
		if permit, err = p.Acquire(ctx); err == nil { // when the other is over
			err = permit.Extend(ctx, time.Minute)
		}
		return err
	})
	w.step("permit ttl", func() error { _, err := p.TTL(ctx, permit.PermitID()); return err })
	w.step("total", func() error { _, err := p.Total(ctx); return err })
	w.step("set total", func() error { return p.SetPermits(ctx, 3) })
	w.step("release by id", func() error { return p.Release(ctx, permit.PermitID()) })
	w.lull("order:p")
}

func (w walk) latch() {
	ctx := w.ctx
	const channel = "redisson_countdownlatch__channel__{order:l}"
	l := w.one.CountDownLatch("order:l")
	for _, last := range []struct {
		name string
		do   func() error
	}{
		{"count down", func() error { _, err := l.CountDown(ctx); return err }},
		{"delete", func() error { _, err := l.Delete(ctx); return err }},
	} {
		w.step("set count", func() error { _, err := l.SetCount(ctx, 2); return err })
		w.step("count down once", func() error { _, err := l.CountDown(ctx); return err })
		w.while(last.name, channel,
			func() error {
				if err := w.two.CountDownLatch("order:l").Wait(ctx); !errors.Is(err, lockrt.ErrDeleted) {
					return err
				}
				return nil
			}, last.do)
		w.lull("order:l")
	}
	w.step("count", func() error { _, err := l.Count(ctx); return err })
}

func (w walk) multi() {
	const first, last, short = "order:m1", "order:m2", 300 * time.Millisecond
	ctx := w.ctx
	m := lockrt.NewMultiLock(w.one.Mutex(first), w.one.Mutex(last))
	other := lockrt.NewMultiLock(w.two.Mutex(first), w.two.Mutex(last))
	stands := func(key string, who <-chan locked) {
		for ctx.Err() == nil && len(who) == 0 && number(w.t, w.at(key), "LLEN", "lockgen_waiting:{"+key+"}") == 0 {
			<-time.After(time.Millisecond)
		}
	}
	gets := func(step string, who <-chan locked) (ok bool) {
		got := <-who
		w.try(step, got.err)
		if got.err == nil {
			w.try(step+": unlock", got.lease.Unlock(ctx))
		}
		return got.err == nil
	}
	for range 2 {
		lease, err := m.Lock(ctx, lockrt.WithFencing(), lockrt.WithWatchdog(3*time.Second))
		w.try("multi lock", err)
		if err != nil {
			return
		}
		for range lease.Parts() {
			w.try("multi renew", receive(w.t, w.renewed, "the renewal").Err)
		}
		_, err = lease.TTL(ctx)
		w.try("multi ttl", err)
		next := lockLater(ctx, other, lockrt.WithFencing())
		stands(first, next)
		w.try("multi unlock", lease.Unlock(ctx))
		if !gets("multi wait", next) {
			return
		}
	}
	// The holder of the first lock waits for the last, and then holds the first for that long.
	held, err := w.one.Mutex(last).Lock(ctx)
	w.try("multi lock", err)
	if err != nil {
		return
	}
	next := lockLater(ctx, other, lockrt.WithLease(time.Minute))
	stands(last, next)
	w.try("multi unlock", held.Unlock(ctx))
	if !gets("multi wait for the last", next) {
		return
	}
	_, err = m.Lock(ctx, lockrt.WithLease(short)) // which expires
	w.try("multi lock", err)
	lease, err := other.Lock(ctx)
	w.try("multi wait for the end", err)
	if err != nil {
		return
	}
	// The client learns of a change of one of the keys long before the renewal.
	w.try("multi loss", w.deletes(lease, last, w.at(last)))
	w.try("multi unlock what is left", lease.Parts()[0].Unlock(ctx))
	w.at(last).Do("HSET", last, "346e9d1f-5700-4e29-a992-43bf29f83528:1", "1") // of Redisson
	if err := w.waitsForRedisson(last, m); !errors.Is(err, lockrt.ErrNotAcquired) {
		w.try("multi wait for Redisson", err)
	}
	w.lull(first)
	w.lull(last)
	w.at(last).Do("DEL", last)
}

func (w walk) red() {
	const key, short = "order:red", 300 * time.Millisecond
	ctx := w.ctx
	m, other := lockrt.NewRedLock(key, w.ones), lockrt.NewRedLock(key, w.twos)
	for round := range 2 { // the second time the servers have counted differently
		lease, err := m.Lock(ctx, lockrt.WithFencing())
		w.try("red lock", err)
		if err != nil {
			return
		}
		for range len(w.nodes) * (1 - round) { // as long as they have not begun to report changes
			w.try("red renew", receive(w.t, w.renewed, "the renewal").Err)
		}
		_, err = lease.TTL(ctx)
		w.try("red ttl", err)
		next := lockLater(ctx, other, lockrt.WithFencing())
		for _, s := range w.nodes {
			for ctx.Err() == nil && len(next) == 0 && subscribers(w.t, s, "redisson_lock__channel:{"+key+"}") == 0 {
				<-time.After(time.Millisecond)
			}
		}
		w.try("red unlock", lease.Unlock(ctx))
		got := <-next
		w.try("red wait", got.err)
		if got.err != nil {
			return
		}
		require.Greater(w.t, got.lease.Token(), lease.Token())
		w.try("red unlock", got.lease.Unlock(ctx))
		w.nodes[0].Do("INCRBY", "redisson_lock_token:{"+key+"}", "1000000000")
	}
	_, err := m.Lock(ctx, lockrt.WithLease(short)) // which expires
	w.try("red lock", err)
	lease, err := other.Lock(ctx)
	w.try("red wait for the end", err)
	if err != nil {
		return
	}
	w.try("red extend", lease.Extend(ctx, time.Minute))
	w.try("red loss", w.deletes(lease, key, w.nodes...))
	w.lull(key)
}

// Parts of ACL.md about what no lock needs.
const (
	whoHolds    = "Who holds what"
	electing    = "Elections and schedules"
	circling    = "Deadlocks"
	byOperators = "lockctl"
)

// TestACL shows for each kind of lock that the permissions which ACL.md lists for it are enough.
func TestACL(t *testing.T) {
	t.Parallel()
	kinds := slices.Collect(maps.Keys(usersIn(t, "ACL.md")))
	kinds = slices.DeleteFunc(kinds, func(kind string) bool {
		return slices.Contains([]string{inClusters, underSentinels, ofSentinels, whoHolds, electing, circling, byOperators}, kind)
	})
	require.Len(t, kinds, len(allWalks)-1, "all but %s", multiKind)
	for _, each := range allWalks {
		t.Run(each.kind, func(t *testing.T) {
			t.Parallel()
			u := each.user(t)
			g, open := u.on(t, serversOf(t, each.kind))
			said := everyStep(t, g, open, each.kind)
			if each.kind == "Mutex" {
				require.Regexp(t, served, said)
			} else {
				require.Empty(t, said)
			}
			require.Empty(t, u.deniedOn(t, g.nodes...))
			_, err := open(lockrt.Options{}).Mutex("invoice:1").Lock(patient(t))
			require.ErrorContains(t, err, `lockgen: lock "invoice:1": a permission is missing, which ACL LOG on the server names: NOPERM`,
				"other keys are not the user's")
		})
	}
}

// TestACL_Production shows that the user of docs/production.md is that of a Mutex.
func TestACL_Production(t *testing.T) {
	t.Parallel()
	require.Equal(t, map[string]aclUser{"Permissions": userOf(t, "Mutex")}, usersIn(t, filepath.Join("..", "docs", "production.md")))
}

// deniedOn returns what servers say that they have denied the user.
func (u aclUser) deniedOn(t *testing.T, servers ...*redistest.RedisServer) (what []string) {
	t.Helper()
	for _, s := range servers {
		log, err := s.Do("ACL", "LOG").ToArray()
		require.NoError(t, err)
		for _, entry := range log {
			fields, err := entry.AsMap()
			require.NoError(t, err)
			object, user := fields["object"], fields["username"]
			text, err := object.ToString()
			require.NoError(t, err)
			name, err := user.ToString()
			require.NoError(t, err)
			reason := fields["reason"]
			why, err := reason.ToString()
			require.NoError(t, err)
			if name == u.name && text != "client|setinfo" && // which rueidis does without
				(why != "key" || !strings.HasPrefix(text, "lockgen_process:")) { // see unsaid
				what = append(what, text)
			}
		}
	}
	return what
}

// TestACL_ScriptsOfOthers shows that a user that may not load scripts uses those that others have loaded, and is told at once
// if nobody has.
func TestACL_ScriptsOfOthers(t *testing.T) {
	t.Parallel()
	u := userOf(t, "Mutex")
	u.rules = append(u.rules, "-script|load")
	server, url := u.server(t)
	var log journal
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

// TestACL_LateAnswer shows that a client that counts does not ask for what only holders of locks need when the server is slow to answer, and
// a request is sent once more.
func TestACL_LateAnswer(t *testing.T) {
	t.Parallel()
	u := userOf(t, "Semaphore")
	server, _ := u.server(t)
	proxy := redistest.Proxy(t, server.Addr())
	c := clientOf(t, u.login(t, proxy.URL()), lockrt.Options{DeadlockAfter: -1})
	s := c.Semaphore("order:s", 0)
	got := later(func() error { return s.Acquire(patient(t), 1) })
	until(t, "it listens", func() bool { return subscribers(t, server, "redisson_sc:{order:s}") == 1 })
	lost := proxy.DropReply(redistest.EvalSHA(scripts.SemaphoreRelease.SHA1()), 1, redistest.Mute)
	require.NoError(t, s.Release(t.Context(), 1))
	receive(t, lost.Done(), "the loss of the answer")
	require.NoError(t, receive(t, got, "the permit"))
	require.NoError(t, c.Close())
	require.Empty(t, u.deniedOn(t, server))
}

// A journal is a log that may be read while it is written.
type journal struct {
	mu  sync.Mutex
	log bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.log.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.log.String()
}

// quiet are the permissions whose absence no caller notices. ACL.md has the consequences.
var quiet = []string{
	"+script|exists", "+ping", "+publish", "Mutex +lpop", "Mutex +lindex", "MultiLock +lpop", "MultiLock +pubsub|numsub", "FairMutex +hget",
	"RedLock +lindex", "RedLock +lpop", "RedLock +lrem", "RedLock +pubsub|numsub",
	"RWMutex +lindex", "RWMutex +lrange", "RWMutex +lrem", "RWMutex +lset",
}

// seldom are those that are not asked for on every walk: when a connection was idle for a while, or when others are
// known to want what is released, or it is not certain what that is.
var seldom = []string{"+ping", "MultiLock +pubsub|numsub", "RWMutex +lindex", "RWMutex +lset", "RedLock +lindex", "RedLock +lpop", "RedLock +lrem", "RedLock +pubsub|numsub"}

// apart are those of a Mutex that only its ForceUnlock and its Inspect need, which a MultiLock does not have, and the one without
// which it is waited for by timer, as a Mutex shows.
var apart = []string{"+del", "+hgetall", "+hlen", "+llen", "+lindex"}

// TestACL_WithoutOne shows that each of them is needed, and that a user without it is told, as a
// caller or in the log. ACL LOG names it.
func TestACL_WithoutOne(t *testing.T) {
	t.Parallel()
	for _, each := range allWalks {
		t.Run(each.kind, func(t *testing.T) {
			t.Parallel()
			all := each.user(t)
			servers := serversOf(t, each.kind)
			for i, rule := range all.rules {
				if !strings.ContainsRune("~&+", rune(rule[0])) || each.kind == multiKind && slices.Contains(apart, rule) {
					continue // on, and the password
				}
				t.Run(rule, func(t *testing.T) {
					for _, s := range servers {
						s.Do("FLUSHALL")
						s.Do("SCRIPT", "FLUSH")
					}
					u := all.without(i)
					u.name += strconv.Itoa(i) // the denial may come late
					g, open := u.on(t, servers)
					said, named := everyStep(t, g, open, each.kind), u.deniedOn(t, servers...)
					if !slices.Contains(quiet, rule) && !slices.Contains(quiet, each.kind+" "+rule) {
						require.True(t, denied(said), "%s\n%s", said, named)
					}
					if !slices.Contains(seldom, rule) && !slices.Contains(seldom, each.kind+" "+rule) {
						require.NotEmpty(t, named)
					}
					for _, what := range named {
						require.True(t, permits(rule, what), "%s is denied: %s", what, said)
					}
					for _, words := range strings.Split(said, " to run the '")[1:] { // a command that no script runs
						require.True(t, strings.HasPrefix(words, rule[1:]+"' command"), said)
					}
				})
			}
		})
	}
}

// permits reports whether a rule is about what a server says that it has denied: a command, a key or a channel.
func permits(rule, what string) bool {
	pattern, rest := strings.CutSuffix(rule[1:], "*")
	return what == pattern || rest && strings.HasPrefix(what, pattern)
}
