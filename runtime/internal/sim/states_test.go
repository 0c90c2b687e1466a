package sim

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lockgen/lockgen/runtime/internal/trace/tracetest"
)

// TestMain has the whole run fail if in some world a ticket or a grant makes a move that docs/architecture.md does not draw.
func TestMain(m *testing.M) {
	os.Exit(tracetest.Record().Run(m, filepath.Join("..", "..", "..", "docs", "architecture.md")))
}
