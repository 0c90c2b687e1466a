package interop

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

var (
	version = flag.String("redisson", "", "the version of Redisson; that of java/pom.xml if empty")
	contend = flag.Duration("contend", 8*time.Second, "for how long mutexes are contended for; other locks for a quarter of it")
)

// A row of the matrix is one test with its result.
type row struct{ primitive, what, site, version, result, seen string }

// matrix has all results. Tests of this package run one after the other.
var matrix []row

// cell runs one test and records it. fn returns its observations for the table.
func (f *fleet) cell(t *testing.T, primitive, what string, fn func(t *testing.T) string) {
	t.Helper()
	r := row{primitive: primitive, what: what, site: f.name, version: f.version, result: "FAILED"}
	tried := false
	t.Run(primitive+"/"+what, func(t *testing.T) {
		tried = true
		r.seen = fn(t)
	})
	if r.seen != "" { // else it did not finish
		r.result = "ok"
	}
	if tried {
		matrix = append(matrix, r)
	}
}

func TestMain(m *testing.M) {
	if orders := os.Getenv(workerVariable); orders != "" {
		work(orders)
		return
	}
	code := m.Run()
	failed := 0
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(out, "\nPRIMITIVE\tDIRECTION\tTOPOLOGY\tREDISSON\tRESULT\tSEEN")
	for _, r := range matrix {
		_, _ = fmt.Fprintln(out, strings.Join([]string{r.primitive, r.what, r.site, r.version, r.result, r.seen}, "\t"))
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
