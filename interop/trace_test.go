package interop

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

var update = flag.Bool("update", false, "write testdata again, from what the newest Redisson and this library do")

const (
	// tracesFile has the commands of Redisson, step by step.
	tracesFile = "testdata/redisson.txt"
	// differencesFile has the differences between this library and Redisson.
	differencesFile = "testdata/differences.txt"
)

// differs has the reasons for differences from Redisson, by scenario and step.
var differs = []struct {
	at  *regexp.Regexp
	why string
}{
	{regexp.MustCompile(`^fenced: `), "its tokens begin with the time of the server, so that they rise also when it has lost its data"},
	{regexp.MustCompile(`: 2 lock again$`), "a process counts itself how often it entered, and is there once"},
	{regexp.MustCompile(`^spin: .*(unlock|force)$`), "every listener gets a message; Redisson's spin lock sends none"},
	{regexp.MustCompile(`^read: 8 force$`), "the keys of the holds are deleted, too, which Redisson leaves to expire"},
	{regexp.MustCompile(`: reads, too$`), "a reader under a write lock is an owner of its own"},
	{regexp.MustCompile(`^downgrade: stops writing$`), "other readers are told, who wait until the lease is over with Redisson"},
	{regexp.MustCompile(`served$`), "the next one of this library is given the lock at once, and told on a channel of its own"},
	{regexp.MustCompile(`^write: 8 force$`), "a thread of Redisson that does not wait yet forgets a 1 and remembers a 0"},
	{regexp.MustCompile(`^semaphore: add -8$`), "a negative count helps nobody, and is an error where Redisson hears it"},
	{regexp.MustCompile(`^permits: acquire two$`), "a permit is renewed while it is held, so that it comes back when its holder has died"},
	{regexp.MustCompile(`^permits: (release two|add 2)$`), "the message says how many there are, as when one is released"},
}

// A step is an operation that a Redisson client and one of this library can do alike.
type step struct {
	name string
	who  int // the thread, or the client in Go
	java []string
	goes func(p *player) error
	// A step that waits ends with a later one that is served.
	waits, served bool
	// renewed is a step without commands until the lock is renewed.
	renewed bool
}

// A scenario is a sequence of steps with one name.
type scenario struct {
	name  string
	steps []step
	brief bool // with a watchdog that renews every second
}

// A player is the Go side of a scenario.
type player struct {
	sides  []side
	key    string
	who    int
	leases [][]*lockrt.Lease
	permit *lockrt.Permit
	ctx    context.Context
}

func (p *player) side() side { return p.sides[p.who] }

// top is the last granted and unreleased lease of the player who acts.
func (p *player) top() *lockrt.Lease { return p.leases[p.who][len(p.leases[p.who])-1] }

// locks are the steps that all kinds of locks share.
func locks(k *kind) []step {
	lock := func(name string, lease time.Duration) step {
		return step{name: name, java: []string{"lock", k.java, "KEY", millis(lease)}, goes: func(p *player) error {
			return p.locks(k, lease)
		}}
	}
	unlock := step{name: "unlock", java: []string{"unlock", k.java, "KEY"}, goes: (*player).unlocks}
	steps := []step{lock("lock", 0), lock("lock again", 0), unlock, unlock}
	if k != multiKind { // Redisson first locks its members for random times
		steps = append(steps, lock("lock for 10s", 10*time.Second), unlock)
	}
	steps = append(steps, lock("lock", 0))
	if k.force != nil {
		steps = append(steps, step{name: "force", java: []string{"forceUnlock", k.java, "KEY"}, goes: func(p *player) error {
			_, err := k.force(p.ctx, p.side(), p.key)
			if err == nil {
				<-p.top().Context().Done()
				p.leases[p.who] = nil
			}
			return err
		}})
	} else {
		steps = append(steps, unlock)
	}
	for i := range steps {
		steps[i].name = fmt.Sprintf("%d %s", i+1, steps[i].name)
	}
	return steps
}

func (p *player) locks(k *kind, lease time.Duration) error {
	ctx := p.ctx
	if n := len(p.leases[p.who]); n > 0 {
		ctx = p.top().Context()
	}
	var opts []lockrt.LockOption
	if lease > 0 {
		opts = append(opts, lockrt.WithLease(lease))
	}
	l, err := k.lock(p.side(), p.key).Lock(ctx, opts...)
	if err == nil {
		p.leases[p.who] = append(p.leases[p.who], l)
	}
	return err
}

func (p *player) unlocks() error {
	l := p.top()
	p.leases[p.who] = p.leases[p.who][:len(p.leases[p.who])-1]
	return l.Unlock(p.ctx)
}

// of returns the step with another actor.
func (s step) of(who int) step {
	s.who = who
	return s
}

func lockStep(name string, k *kind) step {
	return step{name: name, java: []string{"lock", k.java, "KEY", "0"}, goes: func(p *player) error { return p.locks(k, 0) }}
}

func unlockStep(name string, k *kind) step {
	return step{name: name, java: []string{"unlock", k.java, "KEY"}, goes: func(p *player) error {
		// The lease of this kind, which need not be the last one.
		mine := p.leases[p.who]
		if k == writeKind && len(mine) > 1 {
			p.leases[p.who] = mine[1:]
			return mine[0].Unlock(p.ctx)
		}
		return p.unlocks()
	}}
}

func countStep(name string, java []string, goes func(p *player) error) step {
	return step{name: name, java: java, goes: goes}
}

// renewal is a scenario with renewals of a held lock.
func renewal(k *kind) []step {
	return []step{lockStep("lock", k), {name: "is held", renewed: true}, unlockStep("unlock", k)}
}

var scenarios = []scenario{
	{name: "mutex", steps: locks(mutexKind)},
	{name: "fenced", steps: locks(fencedKind)},
	{name: "spin", steps: locks(spinKind)},
	{name: "fair", steps: locks(fairKind)},
	{name: "write", steps: locks(writeKind)},
	{name: "read", steps: locks(readKind)},
	{name: "multi", steps: locks(multiKind)},
	{name: "readers", steps: []step{
		lockStep("one reads", readKind), lockStep("another reads", readKind).of(1),
		unlockStep("one stops", readKind), unlockStep("the other stops", readKind).of(1),
	}},
	{name: "downgrade", steps: []step{
		lockStep("writes", writeKind), lockStep("reads, too", readKind),
		unlockStep("stops writing", writeKind), unlockStep("stops reading", readKind),
	}},
	{name: "reader first", steps: []step{
		lockStep("writes", writeKind), lockStep("reads, too", readKind),
		{name: "stops reading", java: []string{"unlock", "read", "KEY"}, goes: (*player).unlocks},
		unlockStep("stops writing", writeKind),
	}},
	{name: "queue", steps: []step{
		lockStep("one locks", fairKind),
		waits(lockStep("a second one waits", fairKind)).of(1),
		waits(lockStep("a third one waits", fairKind)).of(2),
		unlockStep("the first unlocks, the second is served", fairKind).serving(),
		unlockStep("the second unlocks, the third is served", fairKind).of(1).serving(),
		unlockStep("the third unlocks", fairKind).of(2),
	}},
	{name: "leaving the queue", steps: []step{
		lockStep("one locks", fairKind),
		waits(lockStep("a second one waits", fairKind)).of(1),
		{
			name: "a third one waits for 1s", who: 2, java: []string{"tryLock", "fair", "KEY", "1000", "0"},
			goes: func(p *player) error {
				_, err := p.side().c.FairMutex(p.key).Lock(p.ctx, lockrt.WithWait(time.Second))
				return refused(err)
			},
		},
		unlockStep("the first unlocks, the second is served", fairKind).serving(),
		unlockStep("the second unlocks", fairKind).of(1),
	}},
	{name: "semaphore", steps: []step{
		countStep("set 3", []string{"semaphoreSet", "KEY", "3"}, func(p *player) error {
			_, err := p.side().c.Semaphore(p.key, 0).TrySetPermits(p.ctx, 3, 0)
			return err
		}),
		countStep("set again", []string{"semaphoreSet", "KEY", "5"}, func(p *player) error {
			_, err := p.side().c.Semaphore(p.key, 0).TrySetPermits(p.ctx, 5, 0)
			return err
		}),
		countStep("acquire 2", []string{"semaphoreAcquire", "KEY", "2"}, func(p *player) error {
			return p.side().c.Semaphore(p.key, 0).Acquire(p.ctx, 2)
		}),
		countStep("try 2", []string{"semaphoreTry", "KEY", "2"}, func(p *player) error {
			return refused(p.side().c.Semaphore(p.key, 0).TryAcquire(p.ctx, 2))
		}),
		countStep("release 1", []string{"semaphoreRelease", "KEY", "1"}, func(p *player) error {
			return p.side().c.Semaphore(p.key, 0).Release(p.ctx, 1)
		}),
		countStep("add 4", []string{"semaphoreAdd", "KEY", "4"}, func(p *player) error {
			_, err := p.side().c.Semaphore(p.key, 0).Resize(p.ctx, 4)
			return err
		}),
		countStep("add -8", []string{"semaphoreAdd", "KEY", "-8"}, func(p *player) error {
			_, err := p.side().c.Semaphore(p.key, 0).Resize(p.ctx, -8)
			return err
		}),
		countStep("release 5", []string{"semaphoreRelease", "KEY", "5"}, func(p *player) error {
			return p.side().c.Semaphore(p.key, 0).Release(p.ctx, 5)
		}),
		countStep("drain", []string{"semaphoreDrain", "KEY"}, func(p *player) error {
			_, err := p.side().c.Semaphore(p.key, 0).Drain(p.ctx)
			return err
		}),
	}},
	{name: "permits", steps: []step{
		countStep("set 3", []string{"permitSet", "KEY", "3"}, func(p *player) error {
			_, err := p.side().c.PermitSemaphore(p.key, 0).TrySetPermits(p.ctx, 3, 0)
			return err
		}),
		countStep("acquire for 10s", []string{"permitAcquire", "KEY", "10000"}, func(p *player) (err error) {
			p.permit, err = p.side().c.PermitSemaphore(p.key, 0).Acquire(p.ctx, lockrt.WithLease(10*time.Second))
			return err
		}),
		countStep("update to 60s", []string{"permitUpdate", "KEY", "PERMIT", "60000"}, func(p *player) error {
			_, err := p.side().c.PermitSemaphore(p.key, 0).UpdateLease(p.ctx, p.permit.PermitID(), time.Minute)
			return err
		}),
		countStep("release", []string{"permitRelease", "KEY", "PERMIT"}, func(p *player) error { return p.permit.Release(p.ctx) }),
		countStep("acquire two", []string{"permitAcquireMany", "KEY", "2"}, func(p *player) (err error) {
			p.permit, err = p.side().c.PermitSemaphore(p.key, 0).AcquireN(p.ctx, 2)
			return err
		}),
		countStep("release two", []string{"permitReleaseMany", "KEY", "PERMIT"}, func(p *player) error {
			return p.side().c.PermitSemaphore(p.key, 0).Release(p.ctx, p.permit.PermitIDs()...)
		}),
		countStep("add 2", []string{"permitAdd", "KEY", "2"}, func(p *player) error {
			_, err := p.side().c.PermitSemaphore(p.key, 0).Resize(p.ctx, 2)
			return err
		}),
		countStep("set the total to 4", []string{"permitSetTotal", "KEY", "4"}, func(p *player) error {
			return p.side().c.PermitSemaphore(p.key, 0).SetPermits(p.ctx, 4)
		}),
	}},
	{name: "latch", steps: []step{
		countStep("set 2", []string{"latchSet", "KEY", "2"}, latches(2)),
		countStep("set again", []string{"latchSet", "KEY", "3"}, latches(3)),
		countStep("down", []string{"latchDown", "KEY"}, counts),
		countStep("down to zero", []string{"latchDown", "KEY"}, counts),
		countStep("down below zero", []string{"latchDown", "KEY"}, counts),
		countStep("set 1", []string{"latchSet", "KEY", "1"}, latches(1)),
		countStep("delete", []string{"latchDelete", "KEY"}, func(p *player) error {
			_, err := p.side().c.CountDownLatch(p.key).Delete(p.ctx)
			return err
		}),
	}},
	{name: "mutex renewed", brief: true, steps: renewal(mutexKind)},
	{name: "writer renewed", brief: true, steps: renewal(writeKind)},
	{name: "reader renewed", brief: true, steps: renewal(readKind)},
}

func waits(s step) step {
	s.waits = true
	return s
}

// serving makes a step wait until the first waiter is served.
func (s step) serving() step {
	s.served = true
	return s
}

func latches(n int) func(p *player) error {
	return func(p *player) error {
		_, err := p.side().c.CountDownLatch(p.key).SetCount(p.ctx, n)
		return err
	}
}

func counts(p *player) error {
	_, err := p.side().c.CountDownLatch(p.key).CountDown(p.ctx)
	return err
}

// refused returns nil if err is a refusal.
func refused(err error) error {
	if err == nil {
		return fmt.Errorf("it was granted")
	}
	if !strings.Contains(err.Error(), lockrt.ErrNotAcquired.Error()) {
		return err
	}
	return nil
}

// A trace is the effect of a step.
type trace struct {
	scenario, step string
	does           []string // the commands that change something, subscribe or publish
	leaves         []string // the content of Redis afterwards
	says           []string // the messages on Redisson's channels
}

// TestTraces makes Redisson play every scenario once, and compares its commands with testdata. Then it makes this
// library play the same, and compares its keys in Redis and its messages with Redisson's.
func TestTraces(t *testing.T) {
	version := newest(t)
	f := newFleet(t, standalone(t), version)
	inJava := f.playInJava(t)
	f.cell(t, "all kinds", "Redisson does what is written down", func(t *testing.T) string {
		golden(t, tracesFile, print(version, inJava))
		return fmt.Sprintf("%d steps in %s", len(inJava), tracesFile)
	})
	f.cell(t, "all kinds", "Go leaves and says what Redisson does", func(t *testing.T) string {
		server := redistest.Server(t)
		inGo := play(t, server)
		different, text := compare(t, inJava, inGo)
		golden(t, differencesFile, text)
		return fmt.Sprintf("in %d of %d steps; of the others see %s", len(inGo)-different, len(inGo), differencesFile)
	})
}

// golden compares text with a file, or writes the file.
func golden(t *testing.T, file, text string) {
	t.Helper()
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		return
	}
	there, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(there), text, "if that is right: go test -run TestTraces . -args -update")
}

// print formats traces.
func print(version string, traces []trace) string {
	var b strings.Builder
	fmt.Fprintf(&b, "What Redisson %s does, step by step, as MONITOR shows it: commands that only ask are left out.\n", version)
	b.WriteString("Owners are numbered in the order in which they come, times are rounded up to 5s.\n")
	last := ""
	for _, tr := range traces {
		if tr.scenario != last {
			fmt.Fprintf(&b, "\n== %s\n", tr.scenario)
			last = tr.scenario
		}
		fmt.Fprintf(&b, "-- %s\n", tr.step)
		for _, line := range tr.does {
			fmt.Fprintf(&b, "does    %s\n", line)
		}
		for _, line := range tr.leaves {
			fmt.Fprintf(&b, "leaves  %s\n", line)
		}
	}
	return b.String()
}

// compare returns the number of steps in which the library differs, and a text with the differences.
func compare(t *testing.T, inJava, inGo []trace) (different int, text string) {
	t.Helper()
	require.Len(t, inGo, len(inJava))
	var b strings.Builder
	b.WriteString("Where this library leaves (keys) or says (messages) something else than Redisson: - is Redisson, + is this library.\n")
	b.WriteString("Keys that only one of them has for itself are left out, and so is the 0 that this library says in front of its messages of\n")
	b.WriteString("read-write locks, by which its waiters know them: to Redisson 00 and 01 are the numbers 0 and 1.\n")
	for i, j := range inJava {
		g := inGo[i]
		lines := append(diff("leaves", anew(j.leaves), anew(g.leaves)), diff("says", anew(j.says), anew(asNumbers(g.says)))...)
		if len(lines) == 0 {
			continue
		}
		different++
		at := j.scenario + ": " + j.step
		fmt.Fprintf(&b, "\n== %s\n%s\n", at, strings.Join(lines, "\n"))
		why := ""
		for _, d := range differs {
			if d.at.MatchString(at) {
				why = d.why
			}
		}
		require.NotEmpty(t, why, "a difference without a reason: %s\n%s", at, strings.Join(lines, "\n"))
		fmt.Fprintf(&b, "because %s\n", why)
	}
	return different, b.String()
}

// readWriteMessage is a message of this library about a read-write lock.
var readWriteMessage = regexp.MustCompile(`^(redisson_rwlock:\S+ )0([01])$`)

// asNumbers returns messages as Redisson parses them.
func asNumbers(says []string) (same []string) {
	for _, line := range says {
		same = append(same, readWriteMessage.ReplaceAllString(line, "$1$2"))
	}
	return same
}

// anew renumbers the owners in the lines: the number of an owner is no difference.
func anew(lines []string) []string {
	lines = slices.Clone(lines)
	for i, line := range lines {
		var seen []string
		lines[i] = numbered.ReplaceAllStringFunc(line, func(owner string) string {
			if !slices.Contains(seen, owner) {
				seen = append(seen, owner)
			}
			return fmt.Sprintf("<owner %d>", slices.Index(seen, owner)+1)
		})
	}
	return lines
}

func diff(what string, old, now []string) (lines []string) {
	for _, line := range old {
		if !slices.Contains(now, line) {
			lines = append(lines, fmt.Sprintf("- %-6s %s", what, line))
		}
	}
	for _, line := range now {
		if !slices.Contains(old, line) {
			lines = append(lines, fmt.Sprintf("+ %-6s %s", what, line))
		}
	}
	return lines
}

// playInJava makes Redisson play all scenarios.
func (f *fleet) playInJava(t *testing.T) (traces []trace) {
	server := f.nodes[0]
	m := newMonitor(t, server)
	threads := []thread{f.java.thread("t0"), f.java.thread("t1"), f.java.thread("t2")}
	brief := f.javaSide(t, f.j, "brief", briefly)
	for _, sc := range scenarios {
		server.Do("FLUSHALL")
		n := newNames()
		permit := ""
		var pending []<-chan answer
		for _, st := range sc.steps {
			order := slices.Clone(st.java)
			for i := range order {
				order[i] = strings.NewReplacer("KEY", keyOf(sc), "PERMIT", permit).Replace(order[i])
			}
			th := threads[st.who]
			if sc.brief {
				th = brief
			}
			switch {
			case st.renewed:
				f.renewed(t, keyOf(sc))
			case st.waits:
				before := f.waiting(keyOf(sc))
				pending = append(pending, th.start(order...))
				f.soon(t, func() bool {
					listen := words(server, "PUBSUB", "CHANNELS", "redisson_lock__channel:{"+keyOf(sc)+"}:*")
					return f.waiting(keyOf(sc)) == before+1 && len(listen) == len(pending)
				}, "nobody comes")
				th.parked(t)
			default:
				text := th.do(t, order...)
				if strings.HasPrefix(order[0], "permitAcquire") {
					permit = text
				}
			}
			if st.served {
				a := <-pending[0]
				require.NoError(t, a.err)
				pending = pending[1:]
			}
			// Redisson's record of a request expires.
			f.soon(t, func() bool { return len(words(server, "KEYS", "redisson_unlock_latch:*")) == 0 }, "it is kept")
			traces = append(traces, m.trace(t, server, sc, st, n))
		}
	}
	return traces
}

// keyOf returns the name of a scenario's lock.
func keyOf(sc scenario) string { return strings.ReplaceAll(sc.name, " ", "-") }

// play makes this library play all scenarios.
func play(t *testing.T, server *redistest.RedisServer) (traces []trace) {
	m := newMonitor(t, server)
	at := site{url: server.URL(), nodes: []*redistest.RedisServer{server}}
	g := &fleet{site: at}
	var sides []side
	for range 3 {
		sides = append(sides, g.goSide(t, lockrt.Options{Watchdog: long}))
	}
	brief := []side{g.goSide(t, lockrt.Options{Watchdog: briefly})}
	for _, sc := range scenarios {
		server.Do("FLUSHALL")
		n := newNames()
		its := sides
		if sc.brief {
			its = brief
		}
		p := &player{sides: its, key: keyOf(sc), leases: make([][]*lockrt.Lease, len(its)), ctx: soon(t)}
		var pending []<-chan error
		for _, st := range sc.steps {
			p.who = st.who
			switch {
			case st.renewed:
				g.renewed(t, p.key)
			case st.waits:
				before := g.waiting(p.key)
				its := *p
				done := make(chan error, 1)
				go func() { done <- st.goes(&its) }()
				pending = append(pending, done)
				g.soon(t, func() bool { return g.waiting(p.key) == before+1 }, "nobody comes")
			default:
				require.NoError(t, st.goes(p), "%s: %s", sc.name, st.name)
			}
			if st.served {
				require.NoError(t, <-pending[0])
				pending = pending[1:]
				// A handed-over lock has a short lease until it is renewed.
				g.soon(t, func() bool { return remains(server, p.key) > 5*time.Second }, "it is not renewed")
			}
			if len(pending) > 0 { // a waiter that gives up leaves the queue in the background
				g.soon(t, func() bool { return g.waiting(p.key) == int64(len(pending)) }, "nobody leaves the queue")
			}
			traces = append(traces, m.trace(t, server, sc, st, n))
		}
	}
	return traces
}

// briefly is the time of a watchdog that renews every second.
const briefly = 3 * time.Second

// A monitor shows the commands of clients and scripts on a server.
type monitor struct{ lines *bufio.Scanner }

func newMonitor(t *testing.T, server *redistest.RedisServer) *monitor {
	t.Helper()
	conn, err := net.Dial("tcp", server.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	_, err = io.WriteString(conn, "MONITOR\r\n")
	require.NoError(t, err)
	m := &monitor{lines: bufio.NewScanner(conn)}
	require.True(t, m.lines.Scan())
	require.Equal(t, "+OK", m.lines.Text())
	return m
}

var (
	// monitored is a line of MONITOR: a time, where the command came from, and the command.
	monitored = regexp.MustCompile(`^\+([0-9.]+) \[\d+ ([^\]]+)\] (.*)$`)
	quoted    = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	anOwner   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}:\d+`)
	numbered  = regexp.MustCompile(`<owner \d+>`)
	aRequest  = regexp.MustCompile(`:[0-9a-f]{32}$`)
	aNumber   = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?(e\+[0-9]+)?$`)
)

// asks are commands that change nothing, or nothing relevant.
var asks = strings.Fields(`auth client cluster command config echo eval evalsha exists flushall get hello hexists hget hgetall hkeys hlen hmget hvals
	info keys lindex llen lpos lrange mget monitor ping pttl pubsub role script select time ttl type unsubscribe zcard zcount zrange
	zrangebyscore zscore`)

// trace returns the commands since the last call, and the present keys.
func (m *monitor) trace(t *testing.T, server *redistest.RedisServer, sc scenario, st step, n *names) trace {
	t.Helper()
	tr := trace{scenario: sc.name, step: st.name}
	var after []string
	mark := redistest.Key(t, "mark")
	_, err := server.Try("ECHO", mark)
	require.NoError(t, err)
	for {
		require.True(t, m.lines.Scan(), "the connection ended: %v", m.lines.Err())
		line := monitored.FindStringSubmatch(m.lines.Text())
		require.NotNil(t, line, m.lines.Text())
		seconds, err := strconv.ParseFloat(line[1], 64)
		require.NoError(t, err)
		var args []string
		for _, q := range quoted.FindAllString(line[3], -1) {
			arg, err := strconv.Unquote(q)
			if err != nil {
				arg = strings.Trim(q, `"`)
			}
			args = append(args, arg)
		}
		args[0] = strings.ToLower(args[0])
		if args[0] == "echo" && args[1] == mark {
			break
		}
		if slices.Contains(asks, args[0]) {
			continue
		}
		did := n.command(args, time.UnixMilli(int64(seconds*1000)))
		if did == "" {
			continue
		}
		if args[0] == "del" && strings.HasPrefix(args[1], "redisson_unlock_latch:") {
			after = append(after, did) // nothing waits for it, so its time varies
			continue
		}
		if sc.brief && args[0] == "pexpire" && (slices.Contains(tr.does, did) || !st.renewed && st.name != "lock") {
			continue // the watchdog renewed it once more
		}
		tr.does = append(tr.does, did)
		if args[0] == "publish" && strings.HasPrefix(args[1], "redisson") {
			tr.says = append(tr.says, strings.TrimPrefix(did, "publish "))
		}
	}
	tr.does = append(tr.does, after...)
	tr.leaves = n.state(t, server)
	return tr
}

// names replaces values that differ from run to run by words.
type names struct{ owners []string }

func newNames() *names { return &names{} }

func (n *names) owner(text string) string {
	return anOwner.ReplaceAllStringFunc(text, func(owner string) string {
		i := slices.Index(n.owners, owner)
		if i < 0 {
			i, n.owners = len(n.owners), append(n.owners, owner)
		}
		return fmt.Sprintf("<owner %d>", i+1)
	})
}

// never is the score of a permit that does not expire.
const never = 922337203685477

// word formats one argument.
func (n *names) word(text string, now time.Time) string {
	text = n.owner(text)
	text = aRequest.ReplaceAllString(text, ":<request>")
	if len(text) == 16 && strings.ContainsFunc(text, func(r rune) bool { return r > 126 || r < 32 }) {
		return "<id>"
	}
	if aNumber.MatchString(text) {
		v, _ := strconv.ParseFloat(text, 64)
		switch {
		case v == never:
			return "<never>"
		case v >= 1e15:
			return "<token>"
		case v >= 1e12:
			return "<now+" + up(time.UnixMilli(int64(v)).Sub(now)) + ">"
		}
	}
	if text == "" {
		return `""`
	}
	return text
}

// up rounds a time up to 5s.
func up(d time.Duration) string {
	const unit = 5 * time.Second
	return (time.Duration(math.Ceil(float64(d-10*time.Millisecond)/float64(unit))) * unit).String()
}

// command formats a command, or returns "" for one about a key or channel of this library's own.
func (n *names) command(args []string, now time.Time) string {
	if len(args) > 1 && strings.HasPrefix(args[1], "lockgen_") {
		return ""
	}
	said := []string{args[0]}
	for i, arg := range args[1:] {
		word := n.word(arg, now)
		before := strings.ToLower(args[i])
		switch ms, err := strconv.Atoi(arg); {
		case err != nil || !(args[0] == "pexpire" && i == 1 || before == "px"):
		case strings.HasPrefix(args[1], "redisson_unlock_latch:"):
			word = "<a while>"
		default:
			word = "<" + up(time.Duration(ms)*time.Millisecond) + ">"
		}
		said = append(said, word)
	}
	return strings.Join(said, " ")
}

// state returns the keys on the server, except private ones.
func (n *names) state(t *testing.T, server *redistest.RedisServer) (lines []string) {
	t.Helper()
	now := time.Now()
	for _, key := range words(server, "KEYS", "*") {
		if strings.HasPrefix(key, "lockgen_") {
			continue
		}
		reply, err := server.Try("TYPE", key)
		require.NoError(t, err)
		kind, err := reply.ToString()
		require.NoError(t, err)
		var content []string
		switch kind {
		case "none":
			continue // it expired
		case "hash":
			fields, err := server.Do("HGETALL", key).AsStrMap()
			require.NoError(t, err)
			for field, value := range fields {
				content = append(content, n.word(field, now)+"="+n.word(value, now))
			}
			slices.Sort(content)
		case "list":
			for _, member := range words(server, "LRANGE", key, "0", "-1") {
				content = append(content, n.word(member, now))
			}
		case "zset":
			members, err := server.Do("ZRANGE", key, "0", "-1", "WITHSCORES").AsZScores()
			require.NoError(t, err)
			for _, m := range members {
				content = append(content, n.word(m.Member, now)+"="+n.word(strconv.FormatFloat(m.Score, 'f', 0, 64), now))
			}
			slices.Sort(content)
		case "string":
			text, err := server.Do("GET", key).ToString()
			require.NoError(t, err)
			content = []string{n.word(text, now)}
		}
		ttl := "no end"
		reply, err = server.Try("PTTL", key)
		require.NoError(t, err)
		if ms, err := reply.AsInt64(); err == nil && ms >= 0 {
			ttl = up(time.Duration(ms) * time.Millisecond)
		}
		lines = append(lines, fmt.Sprintf("%s (%s, %s): %s", n.owner(key), kind, ttl, strings.Join(content, " ")))
	}
	slices.Sort(lines)
	return lines
}
