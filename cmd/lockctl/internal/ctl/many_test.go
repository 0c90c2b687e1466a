package ctl

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// TestList_ManyLocks shows that list ends in its time when there are 100,000 locks, and says what it leaves out; a sweep finds them all.
func TestList_ManyLocks(t *testing.T) {
	t.Parallel()
	const ofJava, here = 100_000, 1_000
	server := redistest.Server(t)
	server.Do("EVAL", `for i = 1, ARGV[1] do
		redis.call('hset', 'java:' .. i, '11111111-1111-4111-9111-111111111111:42', '1')
	end`, "0", fmt.Sprint(ofJava))
	c, err := lockrt.Open(t.Context(), server.URL(), lockrt.Options{OpTimeout: patience})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	for i := range here {
		_, err := c.Mutex(fmt.Sprintf("go:%d", i)).Lock(t.Context())
		require.NoError(t, err)
	}

	s := all(t, server.URL(), "list")
	require.Zero(t, s.code, s.err)
	require.Regexp(t, `^Processes did not name \d+ locks and calls; lockctl list -scan finds the locks\.\n$`, s.err)

	s = ctl(t, server.URL(), "list", "-scan", "-json")
	require.Zero(t, s.code, s.err)
	var l Listing
	require.NoError(t, json.Unmarshal([]byte(s.out), &l))
	found := map[string]bool{}
	for _, lock := range l.Locks {
		found[lock.Key] = true
		require.False(t, lock.Holders[0].Gone, lock.Key)
	}
	require.False(t, l.Partial)
	require.Len(t, found, ofJava+here)
}
