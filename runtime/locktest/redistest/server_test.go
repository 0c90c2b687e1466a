package redistest_test

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

func TestServer_AnswersAndCounts(t *testing.T) {
	t.Parallel()
	s := redistest.Server(t)
	c := s.Client()
	require.Same(t, c, s.Client())
	require.Equal(t, "redis://"+s.Addr(), s.URL())

	require.NoError(t, c.Do(t.Context(), c.B().Set().Key("a").Value("b").Build()).Error())
	got, err := s.Do("GET", "a").ToString()
	require.NoError(t, err)
	require.Equal(t, "b", got)
	require.True(t, rueidis.IsRedisNil(s.Do("GET", "missing").Error()))
	_, err = s.Try("NOSUCH")
	require.ErrorContains(t, err, "unknown command")

	s.Do("SCRIPT", "LOAD", "return 1")
	stats := s.CommandStats()
	require.Equal(t, int64(1), stats["set"])
	require.Equal(t, int64(1), stats["script|load"])
	require.Zero(t, stats["eval"])
}

func TestServer_KillAndRestart(t *testing.T) {
	t.Parallel()
	s := redistest.Server(t)
	addr, pid := s.Addr(), s.PID()
	s.Do("SET", "a", "b")

	s.Kill()
	require.Zero(t, s.PID())
	_, err := net.Dial("tcp", addr)
	require.Error(t, err)
	_, err = s.Try("PING")
	require.ErrorContains(t, err, "is not running")
	s.Kill()

	s.Restart()
	require.Equal(t, addr, s.Addr())
	require.NotEqual(t, pid, s.PID())
	require.True(t, rueidis.IsRedisNil(s.Do("GET", "a").Error()), "it must come back empty")
}

func TestServer_RestartWithPersistence(t *testing.T) {
	t.Parallel()
	s := redistest.Server(t, redistest.WithConfig("appendonly", "yes"), redistest.WithConfig("appendfsync", "always"))
	s.Do("SET", "a", "b")
	s.Restart()
	got, err := s.Do("GET", "a").ToString()
	require.NoError(t, err)
	require.Equal(t, "b", got)
}

func TestServer_StopHoldsAnswersUntilCont(t *testing.T) {
	t.Parallel()
	s := redistest.Server(t)
	s.Do("PING")
	s.Stop()
	done := make(chan error, 1)
	go func() {
		_, err := s.Try("SET", "a", "b")
		done <- err
	}()
	state, err := os.ReadFile("/proc/" + strconv.Itoa(s.PID()) + "/stat")
	if err == nil { // only Linux has this file
		require.Contains(t, string(state), ") T ")
	}
	s.Stop() // again: it stands still already
	select {
	case err := <-done:
		require.Fail(t, "answered by a stopped server", "%v", err)
	default:
	}
	s.Cont()
	require.NoError(t, <-done)
}

func TestServer_WrongConfigSaysWhy(t *testing.T) {
	t.Parallel()
	tb := &failing{TB: t}
	tb.run(func() { redistest.Server(tb, redistest.WithConfig("no-such-directive", "1")) })
	require.Contains(t, tb.message, "no-such-directive")
}

func TestShared_IsOneServer(t *testing.T) {
	t.Parallel()
	one, two := redistest.Shared(t), redistest.Shared(t)
	require.Equal(t, one.PID(), two.PID())
	require.NotSame(t, one.Client(), two.Client())
	for range 1001 { // some of them have more digits than others
		require.Less(t, redistest.Key(t, "b"), redistest.Key(t, "a"))
	}
	t.Run("a {brace}: d", func(t *testing.T) {
		t.Parallel()
		key := redistest.Key(t, "x")
		require.NotContains(t, key, "{")
		require.True(t, strings.HasSuffix(key, ":x"))
	})
}

func TestNewClient_TakesEdits(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := s.NewClient(func(o *rueidis.ClientOption) { o.ClientName = "edited" })
	name, err := c.Do(t.Context(), c.B().ClientGetname().Build()).ToString()
	require.NoError(t, err)
	require.Equal(t, "edited", name)
}
