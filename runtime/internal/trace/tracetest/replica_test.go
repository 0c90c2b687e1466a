package tracetest

import (
	"bufio"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/trace"
	"github.com/lockgen/lockgen/scripts"
)

// Two owners of a process each.
const (
	first  = "aaaaaaaa-0d1f-8a55-8f0e-3c2b1a0d9e8f:1"
	second = "bbbbbbbb-0d1f-8a55-8f0e-3c2b1a0d9e8f:1"
)

// fairCommand returns a request for the fair lock key, at so many ms, with what the script called.
func fairCommand(at int64, owner string, calls ...[]string) *Command {
	clock := strconv.FormatInt(at, 10)
	keys := []string{"key", "redisson_lock_queue:{key}", "redisson_lock_timeout:{key}", "lockgen_fair:{key}", "redisson_lock__channel:{key}", "redisson_lock_token:{key}"}
	words := append([]string{"evalsha", scripts.FairAcquire.SHA1(), "6"}, keys...)
	return &Command{At: time.UnixMilli(at), Words: append(words, "10000", owner, "1", "5000", clock, "publish", "5000 2000 0 0", "0", "0", "5000"), Calls: calls}
}

// TestReplay_Fair has a replica repeat what scripts wrote, and rejects what they do not write.
func TestReplay_Fair(t *testing.T) {
	t.Parallel()
	const at = 1_700_000_000_000
	granted := fairCommand(at, first, []string{"pttl", "key"}, []string{"hset", "key", first, "1"}, []string{"pexpire", "key", "10000"})
	waits := func(until int64) *Command {
		return fairCommand(at+1000, second, []string{"rpush", "redisson_lock_queue:{key}", second},
			[]string{"zadd", "redisson_lock_timeout:{key}", strconv.FormatInt(at+until, 10), second},
			[]string{"hset", "lockgen_fair:{key}", second, "5000 2000 0 0"}, []string{"pexpire", "lockgen_fair:{key}", "74000"})
	}
	run := Run{Kind: "fair", Commands: []*Command{granted, waits(15_000)}}
	actions, err := run.Replay()
	require.NoError(t, err)
	require.Equal(t, map[string]int{"Ask": 2}, actions)
	run.Until = time.UnixMilli(at)
	actions, err = run.Replay()
	require.NoError(t, err)
	require.Equal(t, map[string]int{"Ask": 1}, actions, "what came later is left out")

	for name, commands := range map[string][]*Command{
		"a place that lasts too long": {granted, waits(20_000)},
		"taken from another":          {granted, fairCommand(at+1000, second, []string{"del", "key"}, []string{"hset", "key", second, "1"}, []string{"pexpire", "key", "10000"})},
	} {
		_, err = Run{Kind: "fair", Commands: commands}.Replay()
		require.ErrorContains(t, err, "leaves the protocol", name)
	}
	_, err = Run{Kind: "fair"}.Replay()
	require.ErrorContains(t, err, "no script")
	_, err = Run{Kind: "dance", Commands: run.Commands}.Replay()
	require.ErrorContains(t, err, "no traces")
}

// TestReplay_ServerStandsStill has a server be stopped inside of a script that takes a lock, until the client has sent the request once more. The
// server runs it in the same millisecond in which it sets when the lock expires, so the second script has nothing to prolong.
func TestReplay_ServerStandsStill(t *testing.T) {
	t.Parallel()
	began := time.UnixMilli(1_700_000_000_000)
	take := func(at, took time.Duration, calls ...[]string) *Command {
		return &Command{At: began.Add(at), Took: took, Words: []string{"evalsha", scripts.Take.SHA1(), "1", "key", first, "30000"}, Calls: calls}
	}
	const stood, renewal = 500 * time.Millisecond, 10 * time.Second
	replay := func(took time.Duration, then ...*Command) error {
		steps := []trace.Step{
			{At: began, Action: trace.Asks, Key: "key", Owner: first},
			{At: began, Action: trace.Sent, Key: "key", Owner: first},
			{At: began.Add(stood / 2), Action: trace.SentAgain, Key: "key", Owner: first},
			{At: began.Add(2 * stood), Action: trace.Granted, Key: "key", Owner: first, Trust: 29 * time.Second},
			{At: began.Add(renewal), Action: trace.Renews, Key: "key", Owner: first},
		}
		commands := []*Command{
			take(0, took, []string{"exists", "key"}, []string{"hset", "key", first, "1"}, []string{"pexpire", "key", "30000"}),
			take(stood, 0, []string{"exists", "key"}, []string{"hexists", "key", first}, []string{"pttl", "key"}),
		}
		_, err := Run{Kind: "mutex", Processes: 1, Steps: steps, Commands: append(commands, then...)}.Replay()
		return err
	}
	const wrong = "it may have it for 30s"
	require.NoError(t, replay(stood))
	require.ErrorContains(t, replay(0), wrong, "the server did not stand still")

	renewed := func(ttl string) *Command {
		return &Command{
			At: began.Add(renewal), Words: []string{"evalsha", scripts.Renew.SHA1(), "1", "key", first, "30000"},
			Calls: [][]string{{"hexists", "key", first}, {"pexpire", "key", ttl, "gt"}},
		}
	}
	require.NoError(t, replay(stood, renewed("30000")))
	require.ErrorContains(t, replay(stood, renewed("29000")), wrong, "when the lock expires is known again")
}

// TestMonitor_Took has MONITOR say when a script called what.
func TestMonitor_Took(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	defer theirs.Close() //nolint:errcheck // nothing is written
	m := &Monitor{conn: ours, most: 10, done: make(chan struct{})}
	m.read(bufio.NewReader(strings.NewReader(`+1795700604.990108 [0 127.0.0.1:1] "evalsha" "x" "1" "k"` + "\r\n" +
		`+1795700604.990186 [0 lua] "exists" "k"` + "\r\n" +
		`+1795700605.110047 [0 lua] "pexpire" "k" "30000"` + "\r\n" +
		`+1795700605.110073 [0 127.0.0.1:2] "evalsha" "x" "1" "k"` + "\r\n")))
	require.Len(t, m.all, 2)
	require.Equal(t, 119_939*time.Microsecond, m.all[0].Took)
	require.Len(t, m.all[0].Calls, 2)
	require.Zero(t, m.all[1].Took)
}
