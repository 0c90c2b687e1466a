package tracetest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/runtime/internal/trace"
)

type state string

func (s state) String() string { return string(s) }

type tests func() int

func (run tests) Run() int { return run() }

// A move that a page does not draw makes the tests fail that made it.
func TestRun(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(page, []byte("| a | b | c |\n|---|---|---|\n| no | x | move |\n\n| door | means | goes to |\n|---|---|---|\n| open | | shut |\n| shut | | open, locked |\n| broken | | |\n\n| no | x | move |\n"), 0o600))
	drawn, err := Drawn(page)
	require.NoError(t, err)
	require.Equal(t, Moves{{"door", "open", "shut"}: true, {"door", "shut", "open"}: true, {"door", "shut", "locked"}: true}, drawn)
	for i, c := range []struct {
		from, to state
		fails    int
		want     int
	}{
		{"open", "shut", 0, 0},
		{"open", "shut", 3, 3},
		{"open", "locked", 0, 1},
		{"broken", "shut", 0, 1},
	} {
		r := Record()
		require.Empty(t, r.Seen())
		require.Equal(t, c.want, r.Run(tests(func() int {
			trace.Moves("door", c.from, c.to)
			return c.fails
		}), page), i)
		require.Equal(t, Moves{{"door", string(c.from), string(c.to)}: true}, r.Seen())
		require.Equal(t, c.fails, r.Run(tests(func() int { return c.fails }), filepath.Join(t.TempDir(), "none")))
	}
}
