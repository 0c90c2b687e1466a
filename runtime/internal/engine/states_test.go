package engine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lockgen/lockgen/runtime/internal/trace/tracetest"
)

// TestMain has the whole run fail if a machine makes a move that docs/architecture.md does not draw, or if a counter or a withdrawal does not
// make one that the page draws.
func TestMain(m *testing.M) {
	page := filepath.Join("..", "..", "..", "docs", "architecture.md")
	os.Exit(tracetest.Record().RunAll(m, page, "counter", "withdrawal"))
}
