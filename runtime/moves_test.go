package lockrt_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lockgen/lockgen/runtime/internal/trace/tracetest"
)

// TestMain has the whole run fail if a ticket or a grant makes a move that docs/architecture.md does not draw.
func TestMain(m *testing.M) {
	os.Exit(tracetest.Record().Run(m, filepath.Join("..", "docs", "architecture.md")))
}
