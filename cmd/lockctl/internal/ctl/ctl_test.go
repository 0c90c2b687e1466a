package ctl

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/internal/survey"
	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

var update = flag.Bool("update", false, "write the golden files again")

// patience is the time limit of a test for each event.
const patience = 60 * time.Second

// TestMain also runs the programs that the tests start: lockctl, and one that holds a lock and waits for another.
func TestMain(m *testing.M) {
	switch os.Getenv("CTL_TEST_ROLE") {
	case "lockctl":
		os.Exit(Run(context.Background(), Env{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv}))
	case "holder":
		hold()
	default:
		os.Exit(m.Run())
	}
}

// hold locks the first of its arguments, prints that, and then waits for the second under its lease, if there is one.
func hold() {
	opts := lockrt.Options{Name: os.Getenv("SERVICE"), Watchdog: 6 * time.Second}
	c, err := lockrt.Open(context.Background(), os.Getenv("REDIS_URL"), opts)
	for tries := 0; err != nil && tries < 3; tries++ { // the machine may stand still for longer than Open waits
		c, err = lockrt.Open(context.Background(), os.Getenv("REDIS_URL"), opts)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	l, err := c.Mutex(os.Args[1]).Lock(context.Background(), lockrt.WithName("orders.Service.Pay"))
	fmt.Println("held", err)
	if len(os.Args) > 2 {
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		_, err = c.Mutex(os.Args[2]).Lock(l.Context(), lockrt.WithName("orders.Service.Refund"))
		fmt.Println("got", err)
	}
	<-l.Context().Done()
	fmt.Println("ended", context.Cause(l.Context()))
	os.Exit(0)
}

// A program is a program that a test started.
type program struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan string
}

func start(t *testing.T, role, url, service string, args ...string) *program {
	t.Helper()
	return startWith(t, os.Stderr, role, url, service, args...)
}

func startWith(t *testing.T, stderr io.Writer, role, url, service string, args ...string) *program {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "CTL_TEST_ROLE="+role, "REDIS_URL="+url, "SERVICE="+service, "LOCKCTL="+os.Args[0])
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = stderr
	require.NoError(t, redistest.Start(cmd))
	p := &program{cmd, stdin, make(chan string, 100)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.lines <- lines.Text()
		}
		close(p.lines)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	})
	return p
}

// says waits for a line that contains text.
func (p *program) says(t *testing.T, text string) string {
	t.Helper()
	over := time.After(patience)
	for {
		select {
		case line, ok := <-p.lines:
			require.True(t, ok, "it ended before it said %q", text)
			if strings.Contains(line, text) {
				return line
			}
		case <-over:
			require.Fail(t, "it did not say "+text)
		}
	}
}

// holder starts a program that holds a key, and later waits for another one.
func holder(t *testing.T, url, service, key string, then ...string) *program {
	t.Helper()
	p := start(t, "holder", url, service, append([]string{key}, then...)...)
	p.says(t, "held <nil>")
	until(t, "it listens", func() bool { // which starts while the lock is acquired
		l := listed(t, url, key)
		return l != nil && len(l.Holders) > 0 && l.Holders[0].PID == p.cmd.Process.Pid
	})
	return p
}

// A said is the output of lockctl.
type said struct {
	code     int
	out, err string
}

func ctl(t *testing.T, url string, args ...string) said {
	t.Helper()
	var out, errs bytes.Buffer
	env := Env{Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Getenv: func(name string) string {
		return map[string]string{"REDIS_URL": url}[name]
	}}
	code := Run(t.Context(), env)
	return said{code, out.String(), errs.String()}
}

// all runs ctl until Redis and every process has answered in time: each process does so 10 times a second at most.
func all(t *testing.T, url string, args ...string) (s said) {
	t.Helper()
	until(t, "all have answered", func() bool {
		s = ctl(t, url, args...)
		return s.code != exitNoRedis && !strings.Contains(s.err, "did not answer") && !strings.Contains(s.out, `"silent"`) && !strings.Contains(s.out, `"mute"`)
	})
	return s
}

// listed returns the lock of a key as list has it.
func listed(t *testing.T, url, key string) *Lock {
	t.Helper()
	s := all(t, url, "list", "-json", key)
	require.Zero(t, s.code, s.err)
	var l Listing
	require.NoError(t, json.Unmarshal([]byte(s.out), &l))
	require.Equal(t, JSONVersion, l.Version)
	if len(l.Locks) == 0 {
		return nil
	}
	return l.Locks[0]
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	over := time.After(patience)
	for !holds() {
		select {
		case <-over:
			require.Fail(t, "waited too long until "+what)
		case <-time.After(150 * time.Millisecond): // a process answers 10 times a second
		}
	}
}

var changing = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`pid"?:? \d+`), "pid N"},
	{regexp.MustCompile(`\d+m\d\ds|\b\d+(\.\d+)?(ms|µs|s)\b`), "TIME"},
	{regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]*"`), `"DATE"`},
	{regexp.MustCompile(`left_ms": \d+`), `left_ms": N`},
	{regexp.MustCompile(`ttl_ms": \d+`), `ttl_ms": N`},
	{regexp.MustCompile(`UUID:\d+(:[^ \]",]*)?`), "UUID:N"},
	{regexp.MustCompile(`(\S) {2,}`), "$1  "},
	{regexp.MustCompile(`UUID:N = \d+`), "UUID:N = 1"},
	{regexp.MustCompile(`\b127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`\b(Redis|Valkey) \d+\.\d+\.\d+`), "Redis VERSION"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), "CLOCK"},
	{regexp.MustCompile(`\b\d+% of maxmemory`), "N% of maxmemory"},
	// A machine that stands still for a moment gets another finding.
	{regexp.MustCompile(`(?m)^(  (ok|note)  latency  ).*\n(  +-> .*\n)?`), "  ok  latency  PING takes TIME\n"},
	{regexp.MustCompile(`(?m)^(  (ok|note)  clock  ).*\n(  +-> .*\n)?`), "  ok  clock  within TIME of this machine\n"},
}

// golden compares text with a file, apart from the parts that differ in each run.
func golden(t *testing.T, name, text string) {
	t.Helper()
	host, err := os.Hostname()
	require.NoError(t, err)
	text = strings.NewReplacer(" on "+host+" ", " on HOST ", `"`+host+`"`, `"HOST"`).Replace(text)
	for _, c := range changing {
		text = c.what.ReplaceAllString(text, c.with)
	}
	path := filepath.Join("testdata", name+".txt")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), text)
}

// TestGolden shows the output of every verb that looks at three processes that wait for each other.
func TestGolden(t *testing.T) {
	t.Parallel()
	url := redistest.Server(t).URL()
	services := []string{"orders", "stock", "wallets"}
	keys := []string{"order:7", "stock:1", "wallet:3"}
	var programs []*program
	for i, s := range services {
		programs = append(programs, holder(t, url, s, keys[i], keys[(i+1)%3]))
	}
	golden(t, "list_held", all(t, url, "list").out)
	golden(t, "why_nobody_waits", all(t, url, "why", "order:7").out)
	none := all(t, url, "deadlocks")
	require.Zero(t, none.code, none.err)
	golden(t, "deadlocks_none", none.out)
	for i, p := range programs {
		_, err := io.WriteString(p.stdin, "\n")
		require.NoError(t, err)
		until(t, "it waits", func() bool {
			l := listed(t, url, keys[(i+1)%3])
			return l != nil && len(l.Waiters) == 1
		})
	}
	golden(t, "list", all(t, url, "list").out)
	golden(t, "list_pattern", all(t, url, "list", "stock:*").out)
	golden(t, "list_nothing", all(t, url, "list", "nothing:*").out)
	golden(t, "show", all(t, url, "show", "order:7").out)
	golden(t, "why", all(t, url, "why", "order:7").out)
	found := all(t, url, "deadlocks")
	require.Equal(t, exitFound, found.code)
	golden(t, "deadlocks", found.out)
	golden(t, "list_json", all(t, url, "list", "-json").out)
	golden(t, "show_json", all(t, url, "show", "-json", "order:7").out)
	golden(t, "deadlocks_json", all(t, url, "deadlocks", "-json").out)
	golden(t, "why_json", all(t, url, "why", "-json", "order:7").out)

	forced := all(t, url, "force", "-yes", "stock:1")
	require.Zero(t, forced.code, forced.err)
	golden(t, "force", forced.out+forced.err)
	programs[1].says(t, "ended")
	programs[0].says(t, "got <nil>")
}

// TestText shows that the lines of a table have at most 100 characters, whatever is in it, and that control characters
// do not reach the terminal.
func TestText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain key:1": "plain key:1", "\x1b[31mred": `\x1b[31mred`, "a\nb": `a\nb`, "\u202eevil": `\u202eevil`, "\xff\xfe": `\xff\xfe`, "größe 鎖": "größe 鎖",
	} {
		require.Equal(t, want, clean(text))
	}
	var out bytes.Buffer
	table(&out, false, [][]string{{"KEY", "HOLDER"}, {strings.Repeat("k\x00", 500), strings.Repeat("鎖", 500)}})
	for line := range strings.Lines(out.String()) {
		require.LessOrEqual(t, len([]rune(strings.TrimSuffix(line, "\n"))), width)
	}
	for d, want := range map[time.Duration]string{
		-1: "0s", 1500 * time.Microsecond: "2ms", 61 * time.Second: "1m01s", 3*time.Hour + 5*time.Minute: "3h05m", 49 * time.Hour: "2d01h",
	} {
		require.Equal(t, want, short(d))
	}
}

// TestText_Lingers shows that a key that lingers is held by a process and by none of its calls.
func TestText_Lingers(t *testing.T) {
	t.Parallel()
	w, now := survey.New(), time.Now()
	w.Add(lockrt.Snapshot{
		Process: lockrt.Process{ID: "one", Name: "orders", Host: "vm", PID: 7},
		Held:    []lockrt.HeldLock{{Key: "k", Kind: lockrt.KindMutex, Owner: "one:1", Since: now, Lingers: true}},
	})
	require.Equal(t, "orders on vm pid 7, where no call has it: it lingers", hasIt(w.Locks["k"].Holders[0], now))
	var out bytes.Buffer
	o := &options{}
	o.Stdout = &out
	o.show(&Listing{Locks: w.Sorted("")})
	require.Regexp(t, `k +mutex +lingers +0s +orders on vm pid 7`, out.String())
}

// TestText_Holds shows that the holds of permits and of readers are no entries, and that a lease or a key without an end does not end.
func TestText_Holds(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for kind, want := range map[lockrt.Kind]string{
		lockrt.KindMutex: "owner one:1, entered 2 times, lease ends in 1m00s", lockrt.KindWrite: "owner one:1, entered 2 times, lease ends in 1m00s",
		lockrt.KindRead: "owner one:1, 2 readers, lease ends in 1m00s", lockrt.KindPermit: "owner one:1, 2 permits, lease ends in 1m00s",
	} {
		w := survey.New()
		w.Add(lockrt.Snapshot{
			Process: lockrt.Process{ID: "one"},
			Held:    []lockrt.HeldLock{{Key: "k", Kind: kind, Owner: "one:1", Since: now, Holds: 2, Left: time.Minute}},
		})
		var out bytes.Buffer
		o := &options{}
		o.Stdout = &out
		o.detail(Detail{Lock: w.Locks["k"], Redis: []Entry{{Name: "k", Type: "string", TTLMS: -1}}})
		require.Contains(t, out.String(), "    "+want+"\n")
		require.Contains(t, out.String(), "    k (string, does not end)\n")
	}
	require.Equal(t, "process one, gone; the lease does not end", hasIt(Holder{Who: survey.Who{Process: "one"}, LeftMS: -1, Gone: true}, now))
}

// TestBadInput shows that an impossible command prints one sentence, returns the right exit code,
// and ends in time.
func TestBadInput(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	url := server.URL()
	server.Do("SET", "text", "1")
	locked := redistest.Server(t, redistest.WithPassword("secret"))
	for _, test := range []struct {
		url  string
		args []string
		code int
		says string
	}{
		{url, nil, exitUsage, "Usage:"},
		{url, []string{"frobnicate\x1b"}, exitUsage, `there is no verb frobnicate\x1b`},
		{url, []string{"list", "-frobnicate"}, exitUsage, "flag provided but not defined"},
		{url, []string{"list", "a", "b"}, exitUsage, "it takes [pattern]"},
		{url, []string{"show"}, exitUsage, "it takes key"},
		{url, []string{"list", "-timeout", "-1s"}, exitUsage, "is no time"},
		{url, []string{"list", "-scan", "-rate", "0"}, exitUsage, "-rate 0"},
		{"http://x", []string{"list"}, exitUsage, "-url"},
		{"redis://:s3cret@x:port", []string{"list"}, exitUsage, "-url"},
		{"redis://:s3cret%@x", []string{"list"}, exitUsage, "-url"},
		{"redis://x:1/s3cret@x", []string{"list"}, exitUsage, "-url"},
		{"redis://x:1#s3cret@x", []string{"list"}, exitUsage, "percent-encoded"},
		{"redis://u:a@b/s3cret#c@x", []string{"list"}, exitUsage, "percent-encoded"},
		{"redis:/s3cret@x", []string{"list"}, exitUsage, "percent-encoded"},
		{"redis://u:1/s3cret?c@x", []string{"list"}, exitUsage, "percent-encoded"},
		{"redis://x:1/two", []string{"list"}, exitUsage, `invalid database number: "two"`},
		{"redis://x:1?addr=y", []string{"list"}, exitUsage, "addr=y is not host:port"},
		{"redis://127.0.0.1:1", []string{"list", "-timeout", "2s"}, exitNoRedis, "refused"},
		{"redis://" + locked.Addr(), []string{"list"}, exitNoRedis, "NOAUTH"},
		{url, []string{"show", "nothing"}, exitFound, "nobody holds nothing"},
		{url, []string{"show", "text"}, exitFound, "is a string, and no lock"},
		{url, []string{"why", "nothing"}, exitFound, "nobody holds nothing"},
		{url, []string{"force", "nothing"}, exitUsage, "-yes"},
		{url, []string{"force", "-yes", "nothing"}, exitFound, "nobody holds nothing"},
		{url, []string{"list", "-url", ""}, exitUsage, "-url is empty"},
		{url, []string{"show", ""}, exitFound, `nobody holds "" or waits for it`},
		{url, []string{"run", "-permits", "0", "k", "--", "true"}, exitUsage, "flag -permits: it is less than 1"},
		{url, []string{"run", "-permits", "-1", "k", "--", "true"}, exitUsage, "flag -permits: it is less than 1"},
		{url, []string{"run", "-permits", "n", "k", "--", "true"}, exitUsage, "flag -permits"},
		{url, []string{"run", "k"}, exitUsage, "it takes key"},
		{url, []string{"run", "k", "--"}, exitUsage, "no command"},
		{url, []string{"run", "-read", "-fair", "k", "--", "true"}, exitUsage, "exclude each other"},
		{url, []string{"run", "k", "--", "/nothing/there"}, exitNotFound, "no such file"},
		{url, []string{"run", "k", "--", "/"}, exitCannotRun, ""},
		{url, []string{"run", "-watchdog", "1ms", "k", "--", "true"}, exitUsage, "shorter than"},
		{url, []string{"run", "{k", "--", "true"}, exitUsage, "hash tag"},
	} {
		s := ctl(t, test.url, test.args...)
		require.Equal(t, test.code, s.code, "%v: %s", test.args, s.err)
		require.Contains(t, s.err, test.says, "%v", test.args)
		require.NotContains(t, s.err, "goroutine ")
		require.NotContains(t, s.err, "s3cret")
		if test.args != nil {
			require.Equal(t, 1, strings.Count(s.err, "\n"), s.err)
		}
	}
	require.NotContains(t, ctl(t, "redis://:s3cret@x", "list", "-h").out, "s3cret")
	help := ctl(t, url, "help")
	require.Zero(t, help.code)
	for _, v := range verbs {
		s := ctl(t, url, v.name, "-h")
		require.Zero(t, s.code)
		help.out += "\n$ lockctl " + v.name + " -h\n" + s.out
	}
	golden(t, "help", help.out)
}

// TestList_KilledHolder shows that a killed holder is listed until its lock expires.
func TestList_KilledHolder(t *testing.T) {
	t.Parallel()
	url := redistest.Server(t).URL()
	p := holder(t, url, "orders", "k")
	key := "lockgen_process:" + listed(t, url, "k").Holders[0].Process
	waiter := holder(t, url, "stock", "other", "k")
	_, err := io.WriteString(waiter.stdin, "\n")
	require.NoError(t, err)
	c, err := lockrt.Open(t.Context(), url, lockrt.Options{OpTimeout: patience})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	until(t, "it has said who it is, and is waited for", func() bool {
		_, known, err := c.ProcessOf(t.Context(), strings.TrimPrefix(key, "lockgen_process:"))
		require.NoError(t, err)
		l := listed(t, url, "k")
		return known && len(l.Waiters) == 1
	})
	require.NoError(t, p.cmd.Process.Kill())
	host, err := os.Hostname()
	require.NoError(t, err)
	until(t, "it is shown as gone", func() bool {
		l := listed(t, url, "k")
		require.NotNil(t, l)
		if len(l.Holders) == 0 || l.Holders[0].PID != p.cmd.Process.Pid {
			return false
		}
		require.Equal(t, host, l.Holders[0].Host)
		require.Equal(t, "orders", l.Holders[0].Service)
		return l.Holders[0].Gone
	})
	waiter.says(t, "got <nil>")
}

// TestList_Scan shows that a sweep finds locks that no process reports: a Java program's lock, and
// one whose holder is gone.
func TestList_Scan(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	server.Do("HSET", "java", "11111111-1111-4111-9111-111111111111:42", "1")
	const century = 100 * 365 * 24 * time.Hour
	server.Do("PEXPIRE", "java", fmt.Sprint(3*century.Milliseconds())) // more than a Duration has
	server.Do("HSET", "hash", "field", "1")
	for i := range 70 {
		server.Do("HSET", "big", fmt.Sprintf("11111111-1111-4111-9111-111111111111:%d", i), "1")
	}
	s := all(t, server.URL(), "list")
	require.Zero(t, s.code)
	require.NotContains(t, s.out, "java")
	s = all(t, server.URL(), "list", "-scan")
	require.Zero(t, s.code)
	require.Regexp(t, `java .* 106751d\d\dh .*Java 11111111-1111-4111-9111-111111111111`, s.out)
	require.NotContains(t, s.out, "hash")
	require.NotContains(t, s.out, "big")
	require.NotContains(t, server.CommandStats(), "keys")
}

// TestList_ScanCountsKeys shows that a sweep counts the keys that it has read: not those for which its commands asked.
func TestList_ScanCountsKeys(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	for _, keys := range []int{1, 300} { // less than one command asks for, and more
		for i := range keys {
			server.Do("SET", fmt.Sprint(i), "1")
		}
		s := ctl(t, server.URL(), "list", "-scan", "-json")
		require.Zero(t, s.code, s)
		var l Listing
		require.NoError(t, json.Unmarshal([]byte(s.out), &l))
		require.Equal(t, keys, l.Swept)
		require.False(t, l.Partial)
	}
}

// TestList_WaitersInJava shows that list finds the locks of Java programs that Java programs wait for, whatever is in their keys.
func TestList_WaitersInJava(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	for key, channel := range map[string]string{
		"order:1": "redisson_lock__channel:{order:1}", "order:{2}": "redisson_lock__channel:order:{2}", "{order:3}": "redisson_lock__channel:{order:3}",
	} {
		server.Do("HSET", key, "11111111-1111-4111-9111-111111111111:42", "1")
		rc := server.NewClient()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = rc.Receive(ctx, rc.B().Subscribe().Channel(channel).Build(), func(rueidis.PubSubMessage) {})
		}()
		t.Cleanup(func() { cancel(); <-ended })
		until(t, key+" is listed", func() bool { return listed(t, server.URL(), key) != nil })
	}
}

// TestList_ScanWithoutServer shows that a sweep ends when the server stops to answer in the middle of it.
func TestList_ScanWithoutServer(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	server.Do("HSET", "java", "11111111-1111-4111-9111-111111111111:42", "1")
	proxy := redistest.Proxy(t, server.Addr())
	proxy.OnRequest(func(cmd []string) {
		if strings.EqualFold(cmd[0], "SCAN") {
			proxy.Blackhole(redistest.Both)
		}
	})
	ended := make(chan said, 1)
	go func() { ended <- ctl(t, proxy.URL(), "list", "-scan", "-timeout", "2s") }()
	select {
	case s := <-ended:
		require.Equal(t, exitNoRedis, s.code, s.out)
	case <-time.After(patience):
		require.Fail(t, "it does not end")
	}
}

// TestList_ScanWithoutSome shows that a sweep lists what it has found while one server of a cluster does not answer, and names that server.
func TestList_ScanWithoutSome(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	rc := cluster.NewClient()
	require.NoError(t, rc.Do(t.Context(), rc.B().Hset().Key("java").FieldValue().FieldValue("11111111-1111-4111-9111-111111111111:42", "1").Build()).Error())
	mute := cluster.Master("java")
	for i := 0; mute.Addr() == cluster.Master("java").Addr(); i++ {
		mute = cluster.Master(fmt.Sprint(i))
	}
	for _, node := range cluster.Nodes() {
		require.NoError(t, node.Do("CONFIG", "SET", "cluster-replica-no-failover", "yes").Error())
	}
	mute.Stop()
	defer mute.Cont()
	s := ctl(t, cluster.URL(), "list", "-scan", "-timeout", "5s", "-json")
	require.Zero(t, s.code, s.err)
	var l Listing
	require.NoError(t, json.Unmarshal([]byte(s.out), &l))
	require.Len(t, l.Locks, 1)
	require.True(t, l.Partial, s.out)
	require.Contains(t, l.Mute, mute.Addr())
}

// TestList_ScanWithoutSurvey shows that a sweep lists what it has found when the server does not answer after it.
func TestList_ScanWithoutSurvey(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	server.Do("HSET", "k", "11111111-1111-8111-9111-111111111111:42", "1")
	proxy := redistest.Proxy(t, server.Addr())
	var swept atomic.Bool
	proxy.OnRequest(func(cmd []string) {
		switch {
		case strings.EqualFold(cmd[0], "SCAN"):
			swept.Store(true)
		case strings.EqualFold(cmd[0], "PUBSUB") && swept.Load():
			proxy.Blackhole(redistest.Both)
		}
	})
	s := ctl(t, proxy.URL(), "list", "-scan", "-timeout", "2s")
	require.Zero(t, s.code, s.err)
	require.Contains(t, s.out, "process 11111111-1111-8111-9111-111111111111")
	require.NotContains(t, s.out, "gone")
	require.Contains(t, s.err, "1 server did not answer")
}

// ignoreExit returns no error of a program that has ended with another exit code than 0.
func ignoreExit(err error) error {
	if errors.As(err, new(*exec.ExitError)) {
		return nil
	}
	return err
}

// TestDeployments shows that the verbs work on sentinels and on a cluster, too.
func TestDeployments(t *testing.T) {
	t.Parallel()
	for where, url := range map[string]string{"sentinels": redistest.Sentinel(t).URL(), "cluster": redistest.SharedCluster(t).URL()} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			key := redistest.Key(t, "k")
			p := holder(t, url, "orders", key)
			until(t, "it is listed", func() bool { l := listed(t, url, key); return l != nil && len(l.Holders) == 1 })
			require.Equal(t, p.cmd.Process.Pid, listed(t, url, key).Holders[0].PID)
			s := all(t, url, "show", key)
			require.Zero(t, s.code, s.err)
			require.Contains(t, s.out, "orders.Service.Pay of orders on ")
			other := redistest.Key(t, "other")
			waiter := holder(t, url, "stock", other, key)
			_, err := io.WriteString(waiter.stdin, "\n")
			require.NoError(t, err)
			until(t, "it waits", func() bool { return len(listed(t, url, key).Waiters) == 1 })
			s = all(t, url, "why", key)
			require.Zero(t, s.code, s.err)
			require.Contains(t, s.out, "orders.Service.Refund of stock on ")
			require.Contains(t, s.out, "held by orders.Service.Pay of orders on ")
			require.Zero(t, all(t, url, "deadlocks").code)
			s = all(t, url, "list", "-scan", key)
			require.Zero(t, s.code, s.err)
			require.Contains(t, s.out, fmt.Sprint(" pid ", p.cmd.Process.Pid))

			s = ctl(t, url, "force", "-yes", key)
			require.Zero(t, s.code, s.err)
			p.says(t, "ended")
			waiter.says(t, "got <nil>")

			command := start(t, "lockctl", url, "", "run", "-fence", redistest.Key(t, "run"), "--", "sh", "-c", `test "$LOCKGEN_TOKEN" -gt 0 && echo up; exit 3`)
			command.says(t, "up")
			require.NoError(t, ignoreExit(command.cmd.Wait()))
			require.Equal(t, 3, command.cmd.ProcessState.ExitCode())
			s = all(t, url, "doctor")
			require.Contains(t, s.out, "replication", s.err)
			require.Contains(t, s.out, "all servers")
		})
	}
}

// TestForce_OnlyFromTheOwnerThatWasSeen shows that force takes a lock of any kind from the owner
// that it showed, and from no other.
func TestForce_OnlyFromTheOwnerThatWasSeen(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c, err := lockrt.Open(t.Context(), server.URL(), lockrt.Options{OpTimeout: patience})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	for name, l := range map[string]lockrt.Locker{
		"mutex": c.Mutex("mutex"), "fair": c.FairMutex("fair"), "write": c.RWMutex("write"), "read": c.RWMutex("read").RLocker(),
	} {
		held, err := l.Lock(t.Context())
		require.NoError(t, err)
		o := &options{timeout: patience, url: server.URL()}
		require.NoError(t, o.open(t.Context(), lockrt.Options{}))
		fields, err := server.Do("HKEYS", name).AsStrSlice()
		require.NoError(t, err)
		seen := slices.DeleteFunc(fields, func(f string) bool { return f == "mode" })
		taken, err := o.c.ForceUnlock(t.Context(), name, "11111111-1111-8111-9111-111111111111:1")
		require.NoError(t, err, name)
		require.False(t, taken, name)
		require.NoError(t, held.Err(), name)
		taken, err = o.c.ForceUnlock(t.Context(), name, seen...)
		require.NoError(t, err, name)
		require.True(t, taken, name)
		until(t, "the holder was told", func() bool { return held.Err() != nil })
		require.ErrorIs(t, held.Unlock(t.Context()), lockrt.ErrLost, name)
		require.NoError(t, o.c.Close())
	}
}

// TestForce_FromSeveral takes a lock from all its readers, also from one that no process reports, and permits from their holder.
func TestForce_FromSeveral(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c, err := lockrt.Open(t.Context(), server.URL(), lockrt.Options{Watchdog: 12 * time.Second, OpTimeout: patience})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	read, err := c.RWMutex("page").RLock(t.Context())
	require.NoError(t, err)
	server.Do("HSET", "page", "11111111-1111-4111-9111-111111111111:42", "1")
	permit, err := c.PermitSemaphore("jobs", 5).Acquire(t.Context())
	require.NoError(t, err)
	_, err = c.PermitSemaphore("jobs", 5).AcquireN(t.Context(), 3)
	require.NoError(t, err)
	until(t, "it listens", func() bool { return listed(t, server.URL(), "jobs") != nil })

	s := all(t, server.URL(), "show", "page")
	require.Zero(t, s.code, s.err)
	require.Contains(t, s.out, "held by thread 42 of Java 11111111-1111-4111-9111-111111111111")
	require.Contains(t, s.out, fmt.Sprint(" pid ", os.Getpid(), ", for "))
	s = all(t, server.URL(), "force", "-yes", "page")
	require.Zero(t, s.code, s.err)
	require.Contains(t, s.out, "Java 11111111-1111-4111-9111-111111111111 was told nothing")
	until(t, "the reader was told", func() bool { return read.Err() != nil })

	s = all(t, server.URL(), "force", "-yes", "-json", "jobs")
	require.Zero(t, s.code, s.err)
	var forced Forced
	require.NoError(t, json.Unmarshal([]byte(s.out), &forced))
	require.True(t, forced.Taken)
	require.Len(t, forced.From, 2)
	n, err := c.PermitSemaphore("jobs", 0).Available(t.Context())
	require.NoError(t, err)
	require.Equal(t, 5, n)

	_, err = c.PermitSemaphore("fixed", 1).Acquire(t.Context(), lockrt.WithLease(time.Hour))
	require.NoError(t, err)
	s = all(t, server.URL(), "force", "-yes", "fixed")
	require.Zero(t, s.code, s.err)
	require.Contains(t, s.out, "learns it when it renews the permit or releases it.", "nothing renews a lease of a fixed length")
	until(t, "the holder of the permit has renewed", func() bool { return permit.Err() != nil })
}

// TestDeadlocks_PermitOfJava shows that calls that wait for permits are in no deadlock while a Java program has one, which it may release.
func TestDeadlocks_PermitOfJava(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c, err := lockrt.Open(t.Context(), server.URL(), lockrt.Options{Watchdog: 12 * time.Second, OpTimeout: patience})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	jobs := c.PermitSemaphore("jobs", 2)
	own, err := jobs.Acquire(t.Context())
	require.NoError(t, err)
	const java = "of a Java thread"
	server.Do("DECR", "jobs")
	server.Do("ZADD", "{jobs}:timeout", fmt.Sprint(time.Now().Add(time.Hour).UnixMilli()), java)
	got := make(chan error, 1)
	go func() {
		_, err := jobs.Acquire(own.Context())
		got <- err
	}()
	until(t, "it waits", func() bool { l := listed(t, server.URL(), "jobs"); return l != nil && len(l.Waiters) == 1 })
	s := all(t, server.URL(), "deadlocks")
	require.Zero(t, s.code, s.out)

	server.Do("ZREM", "{jobs}:timeout", java) // nobody has it: the semaphore has shrunk
	s = all(t, server.URL(), "deadlocks")
	require.Equal(t, exitFound, s.code, s.out)
	require.NoError(t, own.Release(t.Context()))
	require.Error(t, <-got)
}

// TestWatch shows that watch continues until the user types q.
func TestWatch(t *testing.T) {
	t.Parallel()
	url := redistest.Server(t).URL()
	holder(t, url, "orders", "k")
	in, typed := io.Pipe()
	out := &synced{}
	done := make(chan int)
	go func() {
		done <- Run(t.Context(), Env{
			Args: []string{"watch"}, Stdin: in, Stdout: out, Stderr: io.Discard, Getenv: func(string) string { return url }, Colour: true,
		})
	}()
	until(t, "it was drawn twice", func() bool { return strings.Count(out.String(), "orders.Service.Pay") >= 2 })
	frames := strings.SplitAfter(out.String(), "\x1b[H\x1b[2J")
	i := slices.IndexFunc(frames, func(f string) bool { return strings.Contains(f, "orders.Service.Pay") })
	golden(t, "watch", strings.ReplaceAll(frames[i], "\x1b", "ESC"))
	_, err := io.WriteString(typed, "q\n")
	require.NoError(t, err)
	require.Zero(t, <-done)
}

type synced struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *synced) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *synced) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// TestDoctor shows that doctor reports a server that evicts keys, or does not suit locks; it exits
// with 0 for a right one.
func TestDoctor(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	s := all(t, server.URL(), "doctor")
	require.Zero(t, s.code, s.out)
	golden(t, "doctor", s.out)
	for _, about := range []string{"version", "eviction", "persistence", "replication", "pub/sub", "clock", "latency", "Lua", "rights", "orphans", "timeouts"} {
		require.Contains(t, s.out, about)
	}
	server.Do("CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru")
	server.Do("RPUSH", "lockgen_waiting:{k}", "11111111-1111-8111-9111-111111111111:1")
	s = all(t, server.URL(), "doctor", "-json")
	require.Equal(t, exitFound, s.code)
	var d Diagnosis
	require.NoError(t, json.Unmarshal([]byte(s.out), &d))
	states := map[string]string{}
	for _, f := range d.Findings {
		states[f.About] = f.State
	}
	require.Equal(t, stateWrong, states["eviction"])
	require.Equal(t, stateNote, states["orphans"])
	golden(t, "doctor_wrong", all(t, server.URL(), "doctor").out)
	d.Findings = slices.DeleteFunc(d.Findings, func(f Finding) bool { return f.About == "latency" || f.About == "clock" }) // as the machine is
	text, err := json.MarshalIndent(d, "", "  ")
	require.NoError(t, err)
	golden(t, "doctor_json", string(text)+"\n")
}

// TestDoctor_StoppedReplica shows that doctor does not take a replica that has just stopped for one that confirms.
func TestDoctor_StoppedReplica(t *testing.T) {
	t.Parallel()
	server, replica := redistest.Server(t), redistest.Server(t)
	url := server.URL()
	host, port, err := net.SplitHostPort(server.Addr())
	require.NoError(t, err)
	require.NoError(t, replica.Do("REPLICAOF", host, port).Error())
	until(t, "it confirms", func() bool { return strings.Contains(all(t, url, "doctor").out, "1 replica, all confirmed") })
	until(t, "it has confirmed all", func() bool {
		info, err := server.Do("INFO", "replication").ToString()
		require.NoError(t, err)
		of := regexp.MustCompile(`slave0:.*,offset=(\d+),.*\r\n(?s:.*)master_repl_offset:(\d+)`).FindStringSubmatch(info)
		return of != nil && of[1] == of[2]
	})
	replica.Stop()
	defer replica.Cont()
	s := all(t, url, "doctor")
	require.Equal(t, exitFound, s.code, s.out)
	require.Contains(t, s.out, "replicas confirm within 500ms")
}

// TestDoctor_StoppedReplicaOfACluster shows that doctor notices a replica that has stopped where replicas have nothing new to confirm.
func TestDoctor_StoppedReplicaOfACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	master := cluster.Master("k")
	master.Do("CONFIG", "SET", "repl-ping-replica-period", "3600")
	replica := cluster.Replica(master)
	replica.Stop()
	defer replica.Cont()
	until(t, "it finds one that is silent", func() bool { return strings.Contains(all(t, cluster.URL(), "doctor").out, "0 of 1 replicas confirm") })
}

// TestDoctor_WithoutServer shows that doctor does not take a server that stops to answer for one that permits nothing.
func TestDoctor_WithoutServer(t *testing.T) {
	t.Parallel()
	proxy := redistest.Proxy(t, redistest.Server(t).Addr())
	proxy.OnRequest(func(cmd []string) {
		if strings.EqualFold(cmd[0], "TIME") {
			proxy.Blackhole(redistest.Both)
		}
	})
	s := ctl(t, proxy.URL(), "doctor", "-json", "-timeout", "2s")
	var d Diagnosis
	require.NoError(t, json.Unmarshal([]byte(s.out), &d), s.err)
	unknown := 0
	for _, f := range d.Findings {
		if f.State == stateUnknown {
			unknown++
			require.Empty(t, f.Todo, f.Text)
		}
	}
	require.NotZero(t, unknown, s.out)
}

// TestShow_Elections shows that show has the record of the leader, and that of a schedule.
func TestShow_Elections(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c, err := lockrt.Open(t.Context(), server.URL(), lockrt.Options{OpTimeout: 15 * time.Second})
	require.NoError(t, err)
	defer c.Close()
	leadership, err := c.Election("reports").Campaign(t.Context(), "10.0.0.7:8080")
	require.NoError(t, err)
	s := all(t, server.URL(), "show", "reports")
	require.Zero(t, s.code, s.err)
	require.Regexp(t, `(?m)^    lockgen_leader:\{reports\} \(string, ends in .*\)\n      [0-9]+ `+c.ID()+`:[0-9]+ 10\.0\.0\.7:8080$`, s.out)
	require.NoError(t, leadership.Resign(t.Context()))

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var shown said
	err = c.Every("tidy", time.Hour, func(context.Context, lockrt.Tick) error {
		shown = all(t, server.URL(), "show", "tidy")
		cancel()
		return nil
	}).Run(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, shown.code, shown.err)
	require.Regexp(t, `(?m)^    lockgen_every:\{tidy\} \(hash, ends in .*\)\n      begun = [0-9]+$`, shown.out)
}

// TestShow_KeysThatGo shows that show leaves out keys that expire while it reads them.
func TestShow_KeysThatGo(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"PTTL", "GET"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t)
			proxy := redistest.Proxy(t, server.Addr())
			const token = "redisson_lock_token:{k}"
			server.Do("HSET", "k", "11111111-1111-4111-9111-111111111111:1", "1")
			server.Do("SET", token, "7")
			proxy.OnRequest(func(cmd []string) {
				if len(cmd) > 1 && strings.EqualFold(cmd[0], at) && cmd[1] == token {
					server.Do("DEL", token)
				}
			})
			s := ctl(t, proxy.URL(), "show", "k")
			require.Zero(t, s.code, s.err)
			require.Contains(t, s.out, "held by thread 1 of Java")
			require.NotContains(t, s.out, token)
		})
	}
}

// TestDoctor_SeveralServers shows that doctor examines all servers at once.
func TestDoctor_SeveralServers(t *testing.T) {
	t.Parallel()
	nodes := map[string]rueidis.Client{}
	o := &options{}
	const servers = 3
	var asked atomic.Int32
	all := make(chan struct{})
	for range servers {
		proxy := redistest.Proxy(t, redistest.Server(t).Addr())
		proxy.OnRequest(func(cmd []string) {
			if strings.EqualFold(cmd[0], "TIME") { // once by each examination
				if asked.Add(1) == servers {
					close(all)
				}
				select {
				case <-all:
				case <-t.Context().Done():
				}
			}
		})
		rc, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{proxy.Addr()}, DisableCache: true, ForceSingleClient: true})
		require.NoError(t, err)
		t.Cleanup(rc.Close)
		nodes[proxy.Addr()] = rc
		o.rc = rc
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	found := o.examine(ctx, nodes)
	require.True(t, slices.IsSortedFunc(found, func(a, b Finding) int { return strings.Compare(a.Server, b.Server) }), found)
	clocks := 0
	for _, f := range found {
		require.NotEqual(t, "server", f.About, f)
		if f.About == "clock" && f.State != stateUnknown {
			clocks++
		}
	}
	require.Equal(t, servers, clocks, found)
}
