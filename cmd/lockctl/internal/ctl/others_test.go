package ctl

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

const ofTwo = "2 permits belong to processes that do not answer, or to Java programs"

// TestPermits_OfOthers shows that a semaphore whose permits no process names is held, for as long as the time of one of them is not over.
func TestPermits_OfOthers(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	for _, rules := range permissions(t, "lockctl") {
		server.Do(append([]string{"ACL", "SETUSER"}, rules...)...)
	}
	operator := "redis://operator:secret@" + server.Addr()
	ofJava(server, "jobs", 2, time.Hour)
	ofJava(server, "jobs", 3, -time.Hour) // their time is over
	s := all(t, operator, "show", "jobs")
	require.Zero(t, s.code, s.err)
	require.Contains(t, s.out, "jobs (permit)\n  "+ofTwo+"\n")
	require.NotContains(t, s.out, "nobody")
	s = all(t, operator, "show", "-json", "jobs")
	require.Zero(t, s.code, s.err)
	require.Contains(t, s.out, `"others": 2`)
	require.NotContains(t, s.out, "at_most")
	s = all(t, operator, "why", "jobs")
	require.Zero(t, s.code, s.err)
	require.Contains(t, s.out, "  "+ofTwo+"\n")
	require.NotContains(t, s.out, "nobody")
	s = all(t, operator, "force", "-yes", "jobs")
	require.Equal(t, exitFound, s.code, s.out)
	require.Equal(t, "lockctl force: jobs: "+ofTwo+": a permit can be taken only from a process that answers\n", s.err)
	require.Contains(t, all(t, operator, "force", "-yes", "-json", "jobs").out, `"others": 2`)
	denied, err := server.Do("ACL", "LOG").ToArray()
	require.NoError(t, err)
	require.Empty(t, denied)

	ofJava(server, "jobs2", 2, time.Hour)
	waiting(t, server.URL(), "jobs2")
	server.Do("SET", "jobs2", "-5") // the call goes on to wait when it takes this one away
	server.Do("ZADD", "{jobs2}:timeout", "1", "over")
	require.Regexp(t, `(?m)^jobs2 +permit +- +- +\? +1, `, all(t, operator, "list").out)
	require.Contains(t, all(t, operator, "list", "-json").out, `"others": 2`)
	require.Contains(t, all(t, operator, "why", "jobs2").out, "for jobs2\n  "+ofTwo+"\n")

	server.Do("ACL", "SETUSER", "operator", "-zrange")
	for _, verb := range []string{"why", "list"} {
		require.Contains(t, all(t, operator, verb, "-json", "jobs2").out, `"others_at_most": true`)
	}
	require.Regexp(t, "(?m)^  at most [23] permits belong to ", all(t, operator, "why", "jobs2").out)

	server.Do("DEL", "{jobs}:timeout")
	ofJava(server, "jobs", 3, -time.Hour)
	server.Do("ACL", "SETUSER", "operator", "+zrange")
	require.Contains(t, all(t, operator, "show", "jobs").err, "jobs is a string, and no lock that somebody has")
	require.Contains(t, all(t, operator, "force", "-yes", "jobs").err, "nobody holds jobs")
}

// TestPermits_OfOthersToo shows that the permits of others are no permits of the process that answers, and that force leaves them.
func TestPermits_OfOthersToo(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	c, err := lockrt.Open(t.Context(), server.URL(), lockrt.Options{Name: "orders", OpTimeout: patience})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	_, err = c.PermitSemaphore("jobs", 5).AcquireN(t.Context(), 2)
	require.NoError(t, err)
	for i := range 2 {
		server.Do("ZADD", "{jobs}:timeout", fmt.Sprint(time.Now().Add(time.Hour).UnixMilli()), fmt.Sprint("java", i))
	}
	until(t, "it listens", func() bool { return listed(t, server.URL(), "jobs") != nil })
	s := all(t, server.URL(), "show", "jobs")
	require.Contains(t, s.out, "held by orders on ")
	require.Contains(t, s.out, "  "+ofTwo+"\n")
	s = all(t, server.URL(), "why", "jobs")
	require.Contains(t, s.out, "held by orders on ")
	require.Contains(t, s.out, "  "+ofTwo+"\n")
	s = all(t, server.URL(), "force", "-yes", "jobs")
	require.Zero(t, s.code, s.err)
	require.Contains(t, s.out, "Not taken: "+ofTwo+"\n")
	left, err := server.Do("ZCARD", "{jobs}:timeout").AsInt64()
	require.NoError(t, err)
	require.EqualValues(t, 2, left)
}
