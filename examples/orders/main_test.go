package main

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/examples/orders/demo"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// asProgram makes the test binary behave as the program.
const asProgram = "LOCKGEN_ORDERS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" || demo.IsReplica() {
		main()
	}
	os.Exit(m.Run())
}

// program returns the program, not yet started.
func program(t *testing.T, url string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "REDIS_URL="+url)
	return cmd
}

// stoodStill reports whether the machine stood still during a run: a replica lost a lock that the operator did not take, or the
// replicas of the first act worked one after the other.
func stoodStill(stdout, stderr string) bool {
	return strings.Count(stdout, " LOSES ") > 1 || strings.Contains(stderr, "so nothing was shown")
}

func TestOrders(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		start func(t *testing.T) (*redistest.RedisServer, string)
		says  string
	}{
		{"embedded", func(*testing.T) (*redistest.RedisServer, string) { return nil, "" }, "a server inside this program, since REDIS_URL is not set"},
		{"redis", func(t *testing.T) (*redistest.RedisServer, string) {
			s := redistest.Server(t)
			return s, s.URL()
		}, "the server of REDIS_URL"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var (
				server *redistest.RedisServer
				out    string
			)
			for tries := 5; ; tries-- {
				var url string
				server, url = tt.start(t)
				var stdout, stderr bytes.Buffer
				cmd := program(t, url, "-replicas=3", "-orders=3", "-work=100ms")
				cmd.Stdout, cmd.Stderr = &stdout, &stderr
				err := cmd.Run()
				out = stdout.String()
				if stoodStill(out, stderr.String()) && tries > 0 {
					continue
				}
				require.NoError(t, err, "%s\n%s", out, stderr.String())
				require.Empty(t, stderr.String())
				break
			}
			require.Contains(t, out, tt.says)
			require.NotContains(t, out, "\x1b", "escape codes in a pipe")
			for _, line := range []string{
				`replica \d  PAYS    order A-\d AGAIN, 2 times now`,
				`replica \d  waits   for order:A-\d`,
				`replica \d  renews  order:A-2`,
				`operator   KILLS   replica \d, which holds order:A-2`,
				`operator   TAKES   order:A-3 by force`,
				`replica \d  LOSES   order:A-3: lease lost`,
				`replica \d  ships   order A-1`,
				// orders paid, payments, double payments, oversold, reports
				`without locks +3 +[4-9] +[1-6] +\d+ +\d`,
				`with locks +3 +3 +0 +0 +1 `,
			} {
				require.Regexp(t, regexp.MustCompile(`(?m)`+line), out)
			}
			if server != nil {
				left, err := server.Do("DBSIZE").AsInt64()
				require.NoError(t, err)
				require.Zero(t, left, "keys left behind")
				require.Zero(t, server.CommandStats()["eval"], "scripts sent as text")
			}
		})
	}
}

func TestOrders_SaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		url  string
		args []string
		want string
	}{
		{"replicas", "", []string{"-replicas=2"}, "orders: at least 3 replicas, 3 orders and some time to work are needed\n"},
		{"url", "http://localhost", nil, "orders: connect: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var stderr bytes.Buffer
			cmd := program(t, tt.url, tt.args...)
			cmd.Stderr = &stderr
			require.Error(t, cmd.Run())
			require.Equal(t, 1, cmd.ProcessState.ExitCode())
			require.Contains(t, stderr.String(), tt.want)
		})
	}
}
