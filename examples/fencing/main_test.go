//go:build unix

package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/examples/internal/replicas"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

func TestMain(m *testing.M) {
	if replicas.Name() != "" {
		main() // as the replicas of the test
		return
	}
	os.Exit(m.Run())
}

func TestShow(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"embedded", "redis"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var url string
			var server *redistest.RedisServer
			if name == "redis" {
				server = redistest.Server(t)
				url = server.URL()
			}
			var out bytes.Buffer
			require.NoError(t, show(t.Context(), url, &out), out.String())
			require.Regexp(t, `^ +\d\.\d{3}s +slow      holds the lock, is about to write, and stops
 +\d+\.\d{3}s  quick     has shipped the order by truck
 +\d+\.\d{3}s  slow      runs on, [^\n]*
 +\d+\.\d{3}s  slow      was refused: stale token; lockgen: unlock "example-fencing:order:42": lease lost: [^\n]*
 +\d+\.\d{3}s  database  says that order 42 was shipped by truck
$`, out.String())
			if server != nil {
				left, err := server.Do("KEYS", "*").AsStrSlice()
				require.NoError(t, err)
				require.Equal(t, []string{"redisson_lock_token:{example-fencing:order:42}"}, left, "the counter expires")
			}
		})
	}
}
