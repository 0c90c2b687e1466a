package interop

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

var (
	version = flag.String("redisson", "", "the version of Redisson; that of java/pom.xml if empty")
	contend = flag.Duration("contend", 8*time.Second, "for how long mutexes are contended for; other locks for a quarter of it")
)

// A row of the matrix is one test with its result.
type row struct{ primitive, what, site, version, result, seen, test string }

var (
	matrixMu sync.Mutex
	matrix   []row // all results
)

// cell runs one test and records it. fn returns its observations for the table.
func (f *fleet) cell(t *testing.T, primitive, what string, fn func(t *testing.T) string) {
	t.Helper()
	r := row{primitive: primitive, what: what, site: f.name, version: f.version, result: "FAILED"}
	t.Run(primitive+"/"+what, func(t *testing.T) {
		r.test = t.Name()
		r.seen = fn(t)
	})
	if r.seen != "" { // else it did not finish
		r.result = "ok"
	}
	if r.test != "" { // else it was not tried
		matrixMu.Lock()
		defer matrixMu.Unlock()
		matrix = append(matrix, r)
	}
}

func TestMain(m *testing.M) {
	if orders := os.Getenv(workerVariable); orders != "" {
		work(orders)
		return
	}
	code, failures := listenTo(m.Run)
	os.Exit(max(code, report(os.Stdout, matrix, failures)))
}

// report writes the matrix, failed rows first, and then all failures with their reasons. It returns the exit code.
func report(to io.Writer, rows []row, failures []failure) int {
	out := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(out, "\nPRIMITIVE\tDIRECTION\tTOPOLOGY\tREDISSON\tRESULT\tSEEN")
	var failed []row
	for _, fails := range []bool{true, false} {
		for _, r := range rows {
			if (r.result != "ok") != fails {
				continue
			}
			_, _ = fmt.Fprintln(out, strings.Join([]string{r.primitive, r.what, r.site, r.version, r.result, r.seen}, "\t"))
			if fails {
				failed = append(failed, r)
			}
		}
	}
	_ = out.Flush()
	reasons, rest := map[string]string{}, 0
	for _, f := range failures {
		reasons[f.test] = f.reason
	}
	for _, r := range failed {
		_, _ = fmt.Fprintf(to, "\nFAILED %s, %s, %s, Redisson %s:\n%s", r.primitive, r.what, r.site, r.version, reasons[r.test])
		delete(reasons, r.test)
	}
	for _, f := range failures {
		reason, outside := reasons[f.test]
		within := func(other failure) bool { return strings.HasPrefix(other.test, f.test+"/") }
		if outside && (reason != "" || !slices.ContainsFunc(failures, within)) {
			_, _ = fmt.Fprintf(to, "\nFAILED outside the table, %s:\n%s", f.test, reason)
			rest++
		}
	}
	_, _ = fmt.Fprintf(to, "\n%d tried, %d failed", len(rows), len(failed))
	if rest > 0 {
		_, _ = fmt.Fprintf(to, ", and %d outside the table", rest)
	}
	_, _ = fmt.Fprintln(to)
	return min(len(failed)+rest, 1)
}
