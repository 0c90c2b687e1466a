package sim

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
	"github.com/lockgen/lockgen/scripts"
)

var compared = flag.Int("compared", usuallyCompared, "how many script calls to compare")

// TestEmbeddedLikeReal shows that the embedded server of the worlds, with what the worlds do in its place, does what a
// real one does: the same random calls of the scripts get the same replies from both, and leave the same keys. Values
// that depend on the clock are compared by their kinds alone: times to live, times of the server, and tokens, which are
// times.
func TestEmbeddedLikeReal(t *testing.T) {
	real := redistest.Server(t)
	c, err := net.Dial("tcp", strings.TrimPrefix(real.URL(), "redis://"))
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	theirs := &wire{t: t, c: c}

	w := &world{t: t, began: time.Now(), changed: make(chan struct{}), done: map[string]int{}, scripts: map[[2]int][]time.Duration{}, net: newNetwork()}
	defer w.net.close()
	w.plan = &plan{kind: mutex, latency: time.Millisecond, processes: 1}
	w.watch = newWatch(w)
	s := newServer(w, 0)
	defer s.m.Close()
	w.servers = append(w.servers, s)
	w.admin = append(w.admin, w.join(&process{w: w}, s).open())

	for _, x := range scripts.All() {
		require.Equal(t, theirs.do("SCRIPT", "LOAD", x.Source()), w.order(s, "SCRIPT", "LOAD", x.Source()))
	}
	r := rand.New(rand.NewPCG(1, 2))
	used := map[string]int{}
	for n := range *compared {
		if n%50 == 0 {
			theirs.do("FLUSHALL")
			s.m.FlushAll()
		}
		x, args := randomCall(r)
		if r.IntN(2) == 0 {
			x, args = randomCommand(r)
		}
		cmd := append([]string{"EVALSHA", x.SHA1()}, args...)
		want, got := kindOf(theirs.do(cmd...)), kindOf(w.order(s, cmd...))
		w.log = nil
		require.Equal(t, want, got, "call %d: %s %q", n, x.Name, args)
		used[x.Name]++
		if n%10 == 9 {
			require.Equal(t, keysOf(theirs.do), keysOf(func(cmd ...string) string { return w.order(s, cmd...) }), "after call %d: %s %q", n, x.Name, args)
		}
	}
	t.Logf("%d calls of %d scripts: %v", *compared, len(used), used)
}

// randomCall returns a script and its keys and arguments: few of each, so that they meet.
func randomCall(r *rand.Rand) (*scripts.Script, []string) {
	key := []string{"a", "b"}[r.IntN(2)]
	owner := fmt.Sprintf("00000000-0000-8000-8000-00000000000%d:%d", r.IntN(3), 1+r.IntN(2))
	lease := fmt.Sprint(60_000 + r.IntN(1000))
	waiting, channel, counter := "lockgen_waiting:{"+key+"}", "redisson_lock__channel:{"+key+"}", "redisson_lock_token:{"+key+"}"
	tokens := fmt.Sprint(r.IntN(2))
	number := func(n int) string { return fmt.Sprint(r.IntN(n)) }
	with := func(x *scripts.Script, keys []string, args ...string) (*scripts.Script, []string) {
		return x, slices.Concat([]string{fmt.Sprint(len(keys))}, keys, args)
	}
	requests := "lockgen_requests:{" + key + "}:c:k"
	count, counts := "n"+key, "redisson_sc:{n"+key+"}"
	switch r.IntN(14) {
	case 0:
		return with(scripts.Take, []string{key}, owner, lease)
	case 1:
		args := [][]string{{owner, lease, owner, lease, owner, lease}, {owner, owner, owner, lease}}[r.IntN(2)]
		return with(scripts.Take, []string{"a", "b", "c"}, args...)
	case 2:
		return with(scripts.Acquire, []string{key, waiting, counter}, lease, owner, number(3), tokens, "600000")
	case 3:
		return with(scripts.Free, []string{key, waiting, channel}, "0", "publish", owner)
	case 4:
		again := []string{"", owner}[r.IntN(2)]
		return with(scripts.Release, []string{key, waiting, channel, counter}, "0", "publish", "2000", owner, again, lease, number(2))
	case 5:
		return with(scripts.Renew, []string{"a", "b"}, owner, lease, owner, lease)
	case 6:
		return with(scripts.ForceUnlock, []string{key, waiting, channel, counter}, "0", "publish", "2000")
	case 7:
		return with(scripts.Raise, []string{counter}, fmt.Sprint(1_900_000_000_000_000+r.Int64N(1000)), "600000")
	case 8, 9:
		return with(scripts.SemaphoreAcquire, []string{count, counts, requests}, number(40), number(20), "120000", number(2), "5", "publish", "1", number(3))
	case 10:
		return with(scripts.SemaphoreRelease, []string{count, counts, requests}, number(40), number(20), "120000", number(3), "publish")
	case 11:
		return with(scripts.LatchSet, []string{"l" + key, "redisson_countdownlatch__channel__{l" + key + "}", requests, "d" + key}, number(40), number(20), "120000", "3", "publish", "1")
	case 12:
		return with(scripts.LatchDown, []string{"l" + key, "redisson_countdownlatch__channel__{l" + key + "}", requests}, number(40), number(20), "120000", "0", "publish")
	}
	return with(scripts.LatchCount, []string{"l" + key, "d" + key})
}

var large = regexp.MustCompile(`\d{4,}`)

// kindOf returns a reply without what depends on the clock: large numbers, and the words of errors behind the first.
func kindOf(reply string) string {
	if strings.HasPrefix(reply, "-") {
		word, _, _ := strings.Cut(reply, " ")
		return word
	}
	var lines []string
	for line := range strings.SplitSeq(reply, "\r\n") {
		if strings.HasPrefix(line, "-") && len(line) > 1 && line[1] > '9' {
			line, _, _ = strings.Cut(line, " ")
		}
		lines = append(lines, large.ReplaceAllString(line, "N"))
	}
	return strings.Join(micros(lines), " ")
}

// micros hides what is less than a second of the time of the server, which stands behind its seconds: at the end of four values, or
// before their last.
func micros(lines []string) []string {
	if len(lines) > 5 && lines[0] == "*5" && lines[4] == ":N" {
		lines[5] = ":N"
	}
	for i := 3; i < len(lines); i++ {
		if i%4 != 1 && i%4 != 2 && lines[i-1] == ":N" && strings.HasPrefix(lines[i], ":") {
			lines[i] = ":N"
		}
	}
	return lines
}

// keysOf returns all keys with their types and what they hold.
func keysOf(do func(cmd ...string) string) map[string]string {
	all := map[string]string{}
	for _, key := range strings.Fields(do("KEYS", "*")) {
		if strings.HasPrefix(key, "*") || strings.HasPrefix(key, "$") {
			continue
		}
		kind := strings.TrimSpace(do("TYPE", key))
		value := ""
		switch kind {
		case "+hash":
			value = do("HLEN", key)
		case "+list":
			value = do("LRANGE", key, "0", "-1")
		case "+string":
			value = do("GET", key)
		case "+zset":
			value = do("ZRANGE", key, "0", "-1")
		}
		forever := strings.HasPrefix(do("PTTL", key), ":-1")
		all[key] = fmt.Sprint(kind, " ", large.ReplaceAllString(value, "N"), " for ever: ", forever)
	}
	return all
}

// wire is a connection to a real server, one command at a time.
type wire struct {
	t *testing.T
	c net.Conn
	b []byte
}

func (x *wire) do(cmd ...string) string {
	x.send(cmd...)
	return x.next()
}

func (x *wire) send(cmd ...string) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(cmd))
	for _, word := range cmd {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(word), word)
	}
	_, err := x.c.Write([]byte(b.String()))
	require.NoError(x.t, err)
}

// next returns the next reply or message.
func (x *wire) next() string {
	require.NoError(x.t, x.c.SetReadDeadline(time.Now().Add(time.Minute)))
	for {
		if n := replyLength(string(x.b)); n > 0 {
			reply := string(x.b[:n])
			x.b = x.b[n:]
			return reply
		}
		room := make([]byte, 64<<10)
		n, err := x.c.Read(room)
		require.NoError(x.t, err)
		x.b = append(x.b, room[:n]...)
	}
}

// replyLength returns how long the first reply of s is, or 0 if it is not complete.
func replyLength(s string) int {
	line, _, whole := strings.Cut(s, "\r\n")
	if !whole {
		return 0
	}
	at, n := len(line)+2, 0
	_, _ = fmt.Sscan(line[1:], &n)
	switch line[0] {
	case '$':
		if n < 0 {
			return at
		}
		if len(s) < at+n+2 {
			return 0
		}
		return at + n + 2
	case '*', '>', '%':
		if line[0] == '%' {
			n *= 2
		}
		for range n {
			more := replyLength(s[at:])
			if more == 0 {
				return 0
			}
			at += more
		}
	}
	return at
}
