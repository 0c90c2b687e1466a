//go:build versions

package interop

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// older are the tested versions of Redisson besides the newest: the last of 3.5x and 3.2x, and the oldest one that can
// share locks.
var older = []string{"3.52.0", "3.29.0", "3.13.6"}

// TestVersions runs everything with several versions of Redisson, and writes the results into README.md.
func TestVersions(t *testing.T) {
	versions := append([]string{newest(t)}, older...)
	for _, version := range versions {
		t.Run(version, newFleet(t, standalone(t), version).everything)
	}
	const readme = "README.md"
	text, err := os.ReadFile(readme)
	require.NoError(t, err)
	place := regexp.MustCompile(`(?s)(<!-- versions -->\n).*(<!-- /versions -->)`)
	require.True(t, place.Match(text), "a place for the table")
	text = place.ReplaceAll(text, []byte("${1}"+table(versions)+"${2}"))
	require.NoError(t, os.WriteFile(readme, text, 0o644))
}

// table formats how many tests passed, of each primitive with each version.
func table(versions []string) string {
	type at struct{ primitive, version string }
	tried, well := map[at]int{}, map[at]int{}
	var primitives []string
	for _, r := range matrix {
		if !slices.Contains(primitives, r.primitive) {
			primitives = append(primitives, r.primitive)
		}
		tried[at{r.primitive, r.version}]++
		if r.result == "ok" {
			well[at{r.primitive, r.version}]++
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| | %s |\n|---|%s\n", strings.Join(versions, " | "), strings.Repeat("---|", len(versions)))
	for _, p := range primitives {
		fmt.Fprintf(&b, "| %s |", p)
		for _, v := range versions {
			switch n := tried[at{p, v}]; n {
			case 0:
				b.WriteString(" – |")
			case well[at{p, v}]:
				fmt.Fprintf(&b, " %d of %d |", n, n)
			default:
				fmt.Fprintf(&b, " **%d of %d** |", well[at{p, v}], n)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
