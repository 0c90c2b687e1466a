package servers

import (
	"bufio"
	"context"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// needed skips the test where PostgreSQL or Redis is missing. In CI it fails instead.
func needed(t *testing.T) {
	t.Helper()
	if os.Getenv("CI") == "" && (!PostgresInstalled() || !redistest.Installed()) {
		t.Skip("PostgreSQL and redis-server are not installed: make service installs them")
	}
}

// both starts one server of each kind.
func both(t *testing.T) map[string]*Server {
	t.Helper()
	all := map[string]*Server{}
	for name, start := range map[string]func(context.Context) (*Server, error){"redis": Redis, "postgres": Postgres} {
		s, err := start(t.Context())
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		all[name] = s
	}
	return all
}

func TestServer_ComesBackToItsPort(t *testing.T) {
	t.Parallel()
	needed(t)
	for name, s := range both(t) {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, s.Start(t.Context()), "it runs already")
			s.Kill()
			s.Kill()
			_, err := net.Dial("tcp", s.addr())
			require.Error(t, err)
			require.NoError(t, s.Start(t.Context()))
			require.NoError(t, s.ready(t.Context()))
			dir := s.dir
			require.NoError(t, s.Close())
			require.NoDirExists(t, dir)
		})
	}
}

func TestPostgres_IsEmpty(t *testing.T) {
	t.Parallel()
	needed(t)
	conn, err := pgx.Connect(t.Context(), both(t)["postgres"].URL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	var tables int
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_tables WHERE schemaname = 'public'`).Scan(&tables))
	require.Zero(t, tables)
}

// TestServer_SaysWhyItDoesNotStart shows that the error of a server that ends at once has the
// server's output.
func TestServer_SaysWhyItDoesNotStart(t *testing.T) {
	t.Parallel()
	s, err := open("sh")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	s.command = func(string) *exec.Cmd { return exec.Command("/bin/sh", "-c", "echo no such luck; exit 3") }
	s.ready = s.ping
	err = s.Start(t.Context())
	require.ErrorContains(t, err, "servers: start sh: it has ended")
	require.ErrorContains(t, err, "exit status 3")
	require.ErrorContains(t, err, "no such luck")

	s.command = func(string) *exec.Cmd { return exec.Command("/bin/sh", "-c", "exec sleep 600") }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.Start(ctx), context.Canceled)
}

// TestServers_EndWithTheirProgram runs this binary again, as a program that starts both servers and is then killed.
func TestServers_EndWithTheirProgram(t *testing.T) {
	t.Parallel()
	const variable = "SERVERS_ORPHAN"
	needed(t)
	if os.Getenv(variable) != "" {
		for _, s := range both(t) {
			_, _ = os.Stdout.WriteString("directory " + s.dir + "\nlistens on " + s.addr() + "\n")
		}
		<-t.Context().Done() // the test kills it before that
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestServers_EndWithTheirProgram$")
	cmd.Env = append(os.Environ(), variable+"=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var addrs []string
	for lines := bufio.NewScanner(out); len(addrs) < 2 && lines.Scan(); {
		if dir, ok := strings.CutPrefix(lines.Text(), "directory "); ok {
			t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) }) // no other process can
		}
		if addr, ok := strings.CutPrefix(lines.Text(), "listens on "); ok {
			addrs = append(addrs, addr)
		}
	}
	require.Len(t, addrs, 2)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	for _, addr := range addrs {
		require.Eventually(t, func() bool {
			conn, err := net.Dial("tcp", addr)
			if err == nil {
				_ = conn.Close()
			}
			return err != nil
		}, time.Minute, 20*time.Millisecond, "%s still listens", addr)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]int{"/usr/lib/postgresql/9/bin": 9, "/usr/lib/postgresql/15/bin/initdb": 15, "/usr/pgsql-16/bin": 16, "/bin": 0} {
		require.Equal(t, want, version(path), path)
	}
}
