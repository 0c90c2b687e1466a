package main

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	if os.Getenv(asWorker) != "" {
		libraries = append(libraries, greedy)
		in, err := ordersOf(uintptr(syscall.Stdin))
		if err == nil {
			err = work(in, os.Stdout)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestOrdersOf shows that reading orders occupies no thread: the poller of Go reads them, which ends a read at its deadline.
func TestOrdersOf(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer w.Close()
	fd, err := syscall.Dup(int(r.Fd()))
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.NoError(t, syscall.SetNonblock(fd, false)) // as a process that is started gets it
	in, err := ordersOf(uintptr(fd))
	require.NoError(t, err)
	defer in.Close()
	require.NoError(t, in.SetReadDeadline(time.Unix(1, 0)))
	_, err = in.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

// greedy grants a few locks and then none, and its calls never return.
var greedy = library{name: "greedy", open: func(string, time.Duration) (*client, error) {
	var granted atomic.Int64
	return &client{lock: func(string) (held, error) {
		if granted.Add(1) > 4 { // three of them when it is opened
			select {}
		}
		return &floorHeld{drop: func([]string) error { return nil }}, nil
	}}, nil
}}

func startServer(t *testing.T) *server {
	t.Helper()
	s, err := openServer(context.Background())
	require.NoError(t, err)
	t.Cleanup(s.close)
	return s
}

// TestPlay_Hanging shows that a library that never returns does not block a run, and that its
// waiters are counted.
func TestPlay_Hanging(t *testing.T) {
	t.Parallel()
	e := &env{server: startServer(t), length: 4 * time.Second} // its goroutines begin before that is over, on a busy machine as well
	m, err := play(t.Context(), e, greedy, []party{{goroutines: 3, shared: true}})
	require.NoError(t, err)
	got := m.metrics()
	require.Equal(t, 3.0, got["stuck"])
	var granted float64 // unless it was during the warm-up
	for _, n := range m.answers[0].Counts {
		granted += n
	}
	require.Equal(t, 3.0, got["never"]+granted)
	require.Greater(t, got["longest"], float64(grace))
}

// TestScenarios runs each scenario for a moment, with the locks that need no other library.
func TestScenarios(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	e := &env{server: s, length: 250 * time.Millisecond, rest: 50 * time.Millisecond, held: 50, profile: t.TempDir()}
	seen := map[string]bool{}
	for _, sc := range allScenarios() {
		again := seen[sc.id]
		seen[sc.id] = true
		if again && sc.of != "" && sc.id != "S9" {
			continue // the same for all primitives, with more goroutines
		}
		missed := scenarioGoals(t, e, sc, again)
		for long := *e; missed != "" && long.length < time.Minute; missed = scenarioGoals(t, &long, sc, again) {
			long.length *= 8 // on a busy machine a moment may be too short for one cycle
		}
		require.Empty(t, missed, "%s: not measured", sc.name())
	}
	profiles, err := os.ReadDir(e.profile)
	require.NoError(t, err)
	require.NotEmpty(t, profiles)
}

// scenarioGoals runs a scenario, of which another point ran before or not. It returns a goal that was not measured, or "".
func scenarioGoals(t *testing.T, e *env, sc *scenario, again bool) (missed string) {
	t.Helper()
	table := newTable(sc)
	for _, lib := range libraries {
		if !sc.fits(lib) || !lib.us && !lib.floor && !lib.plain || again && lib.plain {
			continue
		}
		m, err := sc.run(t.Context(), e, lib)
		require.NoError(t, err, "%s: %s", sc.name(), lib.name)
		require.Zero(t, m["failed"], "%s: %s", sc.name(), lib.name)
		table.add(lib.name, m)
		for _, c := range sc.columns {
			require.True(t, c.metric == "" || contains(m, c.metric), "%s: %s: %s is not measured", sc.name(), lib.name, c.head)
		}
	}
	for _, g := range sc.goals {
		if !strings.Contains(g.text, "other library") && !strings.Contains(g.text, "best of them") && math.IsNaN(g.measure(table).median) {
			return g.text
		}
	}
	return ""
}

func contains(m metrics, name string) bool {
	_, ok := m[name]
	return ok
}

// TestProbe_Since shows that commands of clients are counted apart from those of their scripts, for every library:
// MONITOR marks each command.
func TestProbe_Since(t *testing.T) {
	t.Parallel()
	for _, lib := range libraries {
		t.Run(lib.name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			conn, err := net.Dial("tcp", s.addr)
			require.NoError(t, err)
			defer conn.Close()
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(2*time.Minute)))
			_, err = conn.Write([]byte("MONITOR\r\n"))
			require.NoError(t, err)
			lines := bufio.NewScanner(conn)
			require.True(t, lines.Scan()) // +OK

			before, err := s.probe()
			require.NoError(t, err)
			lease := kLease
			if lib.reads {
				lease = 3 * time.Second
			}
			c, err := lib.open(s.addr, lease)
			require.NoError(t, err)
			for i := range 100 {
				if !lib.reads {
					break
				}
				_, err := c.lock("held " + strconv.Itoa(i)) // so many that the client reads what it renews
				require.NoError(t, err)
			}
			for i := range 5 {
				h, err := c.lock("key " + strconv.Itoa(i)) // another one each time: some libraries unlock later, and may wait for ever
				require.NoError(t, err)
				require.NoError(t, h.unlock())
			}
			var sentSeen, calledSeen float64
			see := func(until string) {
				for lines.Scan() {
					text := strings.ToLower(lines.Text())
					called := strings.Contains(text, " lua] ")
					switch {
					case strings.Contains(text, until) && !called:
						if until != `"info"` {
							sentSeen++
						}
						return
					case called:
						calledSeen++
					default:
						sentSeen++
					}
				}
				require.NoError(t, lines.Err())
			}
			see(`"info"`)
			sentSeen, calledSeen = 0, 0
			if lib.reads && (!lib.us || before.version < "7.2") { // later servers remember what a script has read
				see(`"exists"`)
			}
			after, err := s.probe()
			require.NoError(t, err)
			sent, called := after.since(before, lib)
			see(`"info"`)
			// MONITOR does not show every command of a connecting client, so more may have been sent than seen.
			require.Equal(t, calledSeen, called)
			require.GreaterOrEqual(t, sent, sentSeen)
			least := 10.0
			if lib.lingers {
				least = 5 // no unlock is sent
			}
			require.GreaterOrEqual(t, sent, least)
		})
	}
}

func TestServer_Machine(t *testing.T) {
	t.Parallel()
	text, err := startServer(t).machine(2, "go1.26")
	require.NoError(t, err)
	require.Regexp(t, `^2 cores \(.+\), Redis \d+\.\d+\.\d+ on loopback, go1\.26; load average when it began: (\d+\.\d+|unknown)$`, text)
}

func TestParseInfo(t *testing.T) {
	t.Parallel()
	p := parseInfo("# Server\r\nredis_version:7.0.15\r\nused_cpu_sys:1.5\r\nused_cpu_user:2.25\r\nused_cpu_sys_children:9\r\nconnected_clients:3\r\npubsub_channels:2\r\ntotal_reads_processed:12\r\n" +
		"cmdstat_evalsha:calls=40,usec=100,usec_per_call=2.5,rejected_calls=0,failed_calls=0\r\ncmdstat_set:calls=7,usec=1\r\ncmdstat_config|get:calls=1,usec=1\r\n")
	require.Equal(t, 3750*time.Millisecond, p.cpu)
	require.Equal(t, 3.0, p.connections)
	require.Equal(t, 2.0, p.channels)
	require.Equal(t, 12.0, p.reads)
	require.Equal(t, "7.0.15", p.version)
	sent, called := p.since(probe{commands: map[string]float64{"evalsha": 30}}, library{})
	require.Equal(t, []float64{10, 7}, []float64{sent, called})
	sent, called = p.since(probe{commands: map[string]float64{"evalsha": 30}}, library{direct: []string{"set"}})
	require.Equal(t, []float64{17, 0}, []float64{sent, called})
}
