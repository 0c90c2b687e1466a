package ctl

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/internal/survey"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// readLock makes a read lock of n threads of a Java program.
func readLock(server *redistest.RedisServer, key string, n int) {
	server.Do("EVAL", `redis.call('hset', KEYS[1], 'mode', 'read')
	for i = 1, ARGV[1] do
		local owner = '11111111-1111-4111-9111-111111111111:' .. i
		redis.call('hset', KEYS[1], owner, '1')
		redis.call('set', '{' .. KEYS[1] .. '}:' .. owner .. ':rwlock_timeout:1', '1', 'px', 3600000)
	end
	redis.call('pexpire', KEYS[1], 3600000)`, "1", key, fmt.Sprint(n))
}

// TestReaders_Many shows that show and why have all readers of a lock that no process reports, and that force takes it from them. Of more readers than
// lockctl reads, they say how many there are.
func TestReaders_Many(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	for _, n := range []int{survey.MostFields + 1, survey.MostHolders - 1} {
		key := fmt.Sprint("jr", n)
		readLock(server, key, n)
		s := ctl(t, server.URL(), "show", "-json", key)
		require.Zero(t, s.code, s.err)
		var d Detail
		require.NoError(t, json.Unmarshal([]byte(s.out), &d))
		require.Len(t, d.Lock.Holders, n)
		s = ctl(t, server.URL(), "why", key)
		require.Zero(t, s.code, s.err)
		require.Contains(t, s.out, "held by thread 1 of Java")
		s = ctl(t, server.URL(), "force", "-yes", key)
		require.Zero(t, s.code, s.err)
		gone, err := server.Do("EXISTS", key).AsInt64()
		require.NoError(t, err)
		require.Zero(t, gone)
	}

	const many = survey.MostHolders
	readLock(server, "jr", many)
	told := fmt.Sprintf("  held by %d owners, too many to show\n", many)
	for _, verb := range []string{"show", "why"} {
		s := ctl(t, server.URL(), verb, "jr")
		require.Zero(t, s.code, s.err)
		require.Contains(t, s.out, told)
		s = ctl(t, server.URL(), verb, "-json", "jr")
		require.Zero(t, s.code, s.err)
		require.Contains(t, s.out, fmt.Sprintf(`"many": %d`, many))
	}
	s := ctl(t, server.URL(), "force", "-yes", "jr")
	require.Equal(t, exitFound, s.code)
	require.Equal(t, fmt.Sprintf("lockctl force: jr has %d owners, too many to take it from them\n", many), s.err)

	for i := range survey.MostFields + 1 {
		server.Do("HSET", "hash", fmt.Sprint(i), "1")
	}
	s = ctl(t, server.URL(), "show", "hash")
	require.Equal(t, exitFound, s.code)
	require.Contains(t, s.err, "hash is a hash, and no lock that somebody has")
}
