package tracetest

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
	return &Command{At: time.UnixMilli(at), Words: append(words, "10000", owner, "1", "5000", clock, "publish", "5000 2000 0 0", "0", "0"), Calls: calls}
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
