package sim

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/lockgen/lockgen/runtime/internal/trace/tracetest"
)

// collected is the percentage of debug.SetGCPercent. Each script runs in a Lua machine of its own, and little else stays in memory, so that
// with the usual 100 a seventh of the CPU goes to the collection of garbage.
const collected = 1200

// TestMain has the whole run fail if in some world a ticket or a grant makes a move that docs/architecture.md does not draw.
func TestMain(m *testing.M) {
	debug.SetGCPercent(collected)
	os.Exit(tracetest.Record().Run(m, filepath.Join("..", "..", "..", "docs", "architecture.md")))
}
