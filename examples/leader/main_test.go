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
			for _, line := range []string{
				`(?m)^ +\d\.\d{3}s  A         leads$`,
				`operator  asks A to resign`,
				`A         has resigned`,
				`B         leads`,
				`operator  kills B`,
				`[AC]         leads`,
				`operator  takes the lock from [AC] by force`,
				`[AC]         has lost the lead: .*lease lost`,
			} {
				require.Regexp(t, line, out.String())
			}
			if server != nil {
				left, err := server.Do("DBSIZE").AsInt64()
				require.NoError(t, err)
				require.Zero(t, left, "keys left behind")
			}
		})
	}
}
