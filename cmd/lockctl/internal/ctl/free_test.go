package ctl

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// ofJava has a Java program hold n permits of a new semaphore, each for a time.
func ofJava(server *redistest.RedisServer, key string, n int, d time.Duration) {
	server.Do("SET", key, "0")
	for i := range n {
		server.Do("ZADD", "{"+key+"}:timeout", fmt.Sprint(time.Now().Add(d).UnixMilli()), fmt.Sprintf("java %s %d", d, i))
	}
}

// waiting has a call wait for a permit until the test ends.
func waiting(t *testing.T, url, key string) {
	t.Helper()
	c, err := lockrt.Open(t.Context(), url, lockrt.Options{Name: "orders", OpTimeout: patience})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = c.PermitSemaphore(key, 0).Acquire(ctx) //nolint:errcheck // it ends with ctx
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		require.NoError(t, c.Close())
	})
	until(t, "it waits", func() bool { l := listed(t, url, key); return l != nil && len(l.Waiters) == 1 })
}

// TestJSON_Free shows that -json prints an object for a lock that is free, or whose holder is not known, too. Its lists are no null.
func TestJSON_Free(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	url := server.URL()
	s := all(t, url, "why", "-json", "free")
	require.Equal(t, exitFound, s.code, s.err)
	require.JSONEq(t, `{"version": 1, "key": "free", "holders": [], "waiters": [], "deadlocks": []}`, s.out)
	s = all(t, url, "force", "-yes", "-json", "free\xff")
	require.Equal(t, exitFound, s.code, s.err)
	require.JSONEq(t, `{"version": 1, "key": "\"free\\xff\"", "taken": false, "from": []}`, s.out)

	server.Do("HSET", "held", "11111111-1111-4111-9111-111111111111:42", "1")
	var out bytes.Buffer
	code := Run(t.Context(), Env{
		Args: []string{"force", "-json", "held"}, Stdin: strings.NewReader("no\n"), Stdout: &out, Stderr: &bytes.Buffer{}, Getenv: func(string) string { return url }, Asks: true,
	})
	require.Equal(t, exitFound, code)
	require.JSONEq(t, `{"version": 1, "key": "held", "taken": false, "from": []}`, out.String())

	proxy := redistest.Proxy(t, server.Addr())
	proxy.OnRequest(func(cmd []string) {
		if strings.HasPrefix(strings.ToUpper(cmd[0]), "EVAL") {
			server.Do("DEL", "held")
		}
	})
	s = ctl(t, proxy.URL(), "force", "-yes", "-json", "held")
	require.Equal(t, exitTaken, s.code, s.err)
	require.JSONEq(t, `{"version": 1, "key": "held", "taken": false, "from": []}`, s.out)

	ofJava(server, "jobs", 1, time.Hour)
	waiting(t, url, "jobs")
	s = all(t, url, "why", "-json", "jobs")
	require.Zero(t, s.code, s.err)
	require.Equal(t, 2, strings.Count(s.out, `"holders": []`), s.out)
	require.NotContains(t, s.out, "null")
}
