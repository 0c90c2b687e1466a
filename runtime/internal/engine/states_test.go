package engine

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lockgen/lockgen/runtime/internal/trace/tracetest"
)

// machines are those whose moves the tests of this package all make.
var machines = []string{"counter", "withdrawal"}

// TestMain has the whole run fail if a machine makes a move that docs/architecture.md does not draw, or if one of machines does not make one
// that the page draws.
func TestMain(m *testing.M) {
	page := filepath.Join("..", "..", "..", "docs", "architecture.md")
	moves := tracetest.Record()
	code := moves.Run(m, page)
	if code == 0 && flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.list").Value.String() == "" {
		drawn, err := tracetest.Drawn(page)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		seen, looked := moves.Seen(), 0
		for move := range drawn {
			if !slices.Contains(machines, move.Machine) {
				continue
			}
			if looked++; !seen[move] {
				fmt.Fprintf(os.Stderr, "no test has a %s go from %s to %s\n", move.Machine, move.From, move.To)
				code = 1
			}
		}
		if looked < 2*len(machines) {
			fmt.Fprintf(os.Stderr, "%s draws %d moves of %v\n", page, looked, machines)
			code = 1
		}
	}
	os.Exit(code)
}
