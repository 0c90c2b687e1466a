package lockrt_test

import (
	"bufio"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// A monitor shows what clients send to a server, as redis-cli MONITOR does.
type monitor struct {
	t     *testing.T
	lines *bufio.Scanner
}

func newMonitor(t *testing.T, server *redistest.RedisServer) *monitor {
	t.Helper()
	conn, err := net.Dial("tcp", server.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	_, err = io.WriteString(conn, "MONITOR\r\n")
	require.NoError(t, err)
	m := &monitor{t: t, lines: bufio.NewScanner(conn)}
	require.True(t, m.lines.Scan())
	require.Equal(t, "+OK", m.lines.Text())
	return m
}

// monitored is a line of MONITOR: a time, where the command came from, and the command.
var monitored = regexp.MustCompile(`^\+[0-9.]+ \[\d+ ([^\]]+)\] "([^"]*)"(.*)$`)

// until returns what clients sent before the mark was echoed.
func (m *monitor) until(mark string) (commands []string) {
	m.t.Helper()
	for m.lines.Scan() {
		words := monitored.FindStringSubmatch(m.lines.Text())
		require.NotNil(m.t, words, m.lines.Text())
		if words[2] == "ECHO" && strings.Contains(words[3], mark) {
			return commands
		}
		if words[1] != "lua" {
			commands = append(commands, strings.ToUpper(words[2]))
		}
	}
	require.Fail(m.t, "the connection ended", m.lines.Err())
	return nil
}

// TestMonitor looks at a run of three processes from outside: after the start, in which each loads the scripts, begins
// to listen and starts tracking, the processes send nothing but the hashes of scripts, and by each the greeting of one
// more connection at most.
func TestMonitor(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	m := newMonitor(t, server)
	clients := make([]*lockrt.Client, 3)
	for i := range clients {
		clients[i] = clientOf(t, server.URL(), lockrt.Options{Cohort: 1})
	}
	contend := func(rounds int) *sync.WaitGroup {
		var wg sync.WaitGroup
		for _, c := range clients {
			wg.Go(func() {
				for range rounds {
					lease, err := c.Mutex("k").Lock(patient(t))
					if err != nil {
						t.Error(err)
						return
					}
					if err := lease.Unlock(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		return &wg
	}

	var held []*lockrt.Lease
	for i, c := range clients { // so that each has its tracked connection
		held = append(held, ok(t)(c.Mutex(strconv.Itoa(i)).Lock(patient(t), unrenewed)))
		watches(t, server, i+1)
	}
	unharmed(t, held...) // not before: the server may go on watching a key that is asked for once more after its release
	first, err := clients[0].Mutex("k").Lock(patient(t))
	require.NoError(t, err)
	starting := contend(1)
	until(t, "all listen", func() bool {
		channels, err := server.Do("PUBSUB", "CHANNELS", "lockgen_process:*").AsStrSlice()
		require.NoError(t, err)
		return len(channels) == len(clients)
	})
	require.NoError(t, first.Unlock(t.Context()))
	starting.Wait()
	server.Do("ECHO", "started")
	start := m.until("started")
	require.Contains(t, start, "SCRIPT")
	require.Contains(t, start, "EVALSHA")
	require.NotContains(t, start, "EVAL")

	atBest(t, "was nothing sent but scripts", func() bool { // for requests that are answered late, each has one more connection made
		server.Do("CONFIG", "RESETSTAT")
		server.Do("ECHO", "reset")
		m.until("reset")
		contend(100).Wait()
		server.Do("ECHO", "over")
		sent := make(map[string]int)
		for _, command := range m.until("over") {
			sent[command]++
		}
		require.NotZero(t, sent["EVALSHA"])
		delete(sent, "EVALSHA")
		delete(sent, "PING")                 // of a connection that had nothing to say for a while
		few := sent["HELLO"] <= len(clients) // each has a connection made when it is alone after a crowd
		delete(sent, "HELLO")
		return few && len(sent) == 0
	})
	stats := server.CommandStats()
	require.NotZero(t, stats["evalsha"])
	for _, command := range []string{"eval", "script|load", "subscribe"} {
		require.NotContains(t, stats, command)
	}
}

// TestMonitor_HeldLock shows what redis-cli HGETALL and PTTL show of a lock that is held.
func TestMonitor_HeldLock(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	lease, err := clientOf(t, server.URL(), lockrt.Options{}).Mutex("order:42").Lock(patient(t))
	require.NoError(t, err)
	hash, err := server.Do("HGETALL", "order:42").AsStrMap()
	require.NoError(t, err)
	require.Len(t, hash, 1)
	for owner, holds := range hash {
		require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}:\d+$`, owner,
			"a UUID of Java's form and a thread's number")
		require.Equal(t, "1", holds)
	}
	ttl := number(t, server, "PTTL", "order:42")
	require.Greater(t, ttl, int64(0))
	require.LessOrEqual(t, ttl, lockrt.DefaultWatchdog.Milliseconds())
	require.Equal(t, 1, keysOn(t, server), "and nothing else")
	require.NoError(t, lease.Unlock(t.Context()))
	emptied(t, server)
}
