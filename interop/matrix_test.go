package interop

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"text/tabwriter"
)

// A row of the matrix is one thing that was tried.
type row struct{ primitive, what, result, seen string }

// matrix is what was tried. Tests of this package run one after the other.
var matrix []row

// cell tries one thing and puts it down. fn returns what is worth telling of how it went.
func cell(t *testing.T, primitive, what string, fn func(t *testing.T) string) {
	t.Helper()
	r := row{primitive: primitive, what: what, result: "FAILED"}
	t.Run(primitive+"/"+what, func(t *testing.T) { r.seen = fn(t) })
	if r.seen != "" { // else it did not come to its end
		r.result = "ok"
	}
	matrix = append(matrix, r)
}

func TestMain(m *testing.M) {
	if orders := os.Getenv(holderVariable); orders != "" {
		beHolder(orders)
		return
	}
	code := m.Run()
	failed := 0
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(out, "\nPRIMITIVE\tWHAT\tRESULT\tSEEN")
	for _, r := range matrix {
		_, _ = fmt.Fprintln(out, strings.Join([]string{r.primitive, r.what, r.result, r.seen}, "\t"))
		if r.result != "ok" {
			failed++
		}
	}
	_ = out.Flush()
	fmt.Printf("\n%d tried, %d failed\n", len(matrix), failed)
	if failed > 0 {
		code = max(code, 1)
	}
	os.Exit(code)
}
