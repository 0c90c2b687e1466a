package interop

import (
	"bufio"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A failure is a failed test with the last lines that it printed.
type failure struct{ test, reason string }

// listenTo runs the tests, passes on what package testing prints, and returns the failed tests in order.
func listenTo(run func() int) (code int, failures []failure) {
	stdout := os.Stdout
	r, w, err := os.Pipe()
	if err != nil {
		return run(), nil
	}
	os.Stdout = w
	done := make(chan []failure, 1)
	go func() { done <- failuresOf(io.TeeReader(r, stdout)) }()
	code = run()
	os.Stdout = stdout
	_ = w.Close()
	failures = <-done
	_ = r.Close()
	return code, failures
}

var (
	itsText = regexp.MustCompile(`^\x16?=== (?:RUN|CONT|NAME|PAUSE) +(\S+)`)
	itsEnd  = regexp.MustCompile(`^\x16? *--- (PASS|FAIL|SKIP): (\S+) \(`)
)

// failuresOf reads what package testing prints. Without -v the text of a test follows the line with its result, with
// -v it stands before that.
func failuresOf(printed io.Reader) (failures []failure) {
	const most = 8 << 10 // bytes of a reason: the reason comes last
	texts, test := map[string]string{}, ""
	lines := bufio.NewReader(printed)
	for {
		line, err := lines.ReadString('\n')
		if m := itsText.FindStringSubmatch(line); m != nil {
			test = m[1]
		} else if m := itsEnd.FindStringSubmatch(line); m != nil {
			if test = m[2]; m[1] == "FAIL" {
				failures = append(failures, failure{test: test})
			}
		} else if strings.HasPrefix(line, "    ") && test != "" {
			text := texts[test] + line
			texts[test] = text[max(0, len(text)-most):]
		}
		if err != nil {
			break
		}
	}
	for i, f := range failures {
		failures[i].reason = texts[f.test]
	}
	return failures
}

// TestReport shows that the report begins and ends with the failures.
func TestReport(t *testing.T) {
	const quiet = `--- FAIL: TestInterop (9.00s)
    fleet_test.go:121: it cannot be closed
    --- FAIL: TestInterop/queue (1.00s)
        fleet_test.go:261: nobody comes
        --- FAIL: TestInterop/queue/fair/in_line (0.10s)
            several_test.go:138: 
                	Error:      	Not equal
FAIL
`
	const verbose = `=== RUN   TestInterop
    fleet_test.go:121: it cannot be closed
=== RUN   TestInterop/queue
=== RUN   TestInterop/queue/fair/in_line
    several_test.go:138: 
        	Error:      	Not equal
=== NAME  TestInterop/queue
    fleet_test.go:261: nobody comes
--- FAIL: TestInterop (9.00s)
    --- FAIL: TestInterop/queue (1.00s)
        --- FAIL: TestInterop/queue/fair/in_line (0.10s)
    --- PASS: TestInterop/names (0.10s)
FAIL
`
	rows := []row{
		{"mutex", "is told", "standalone", "4.7.0", "ok", "told after 1ms", "TestInterop/mutex/is_told"},
		{"fair", "in line", "standalone", "4.7.0", "FAILED", "", "TestInterop/queue/fair/in_line"},
	}
	for name, printed := range map[string]string{"quiet": quiet, "verbose": verbose} {
		t.Run(name, func(t *testing.T) {
			var said strings.Builder
			require.Equal(t, 1, report(&said, rows, failuresOf(strings.NewReader(printed))))
			table, reasons, found := strings.Cut(said.String(), "\nFAILED fair, in line, standalone, Redisson 4.7.0:\n")
			require.True(t, found, said.String())
			require.Less(t, strings.Index(table, "in line"), strings.Index(table, "is told"), "failed rows come first")
			row, rest, found := strings.Cut(reasons, "\nFAILED outside the table, TestInterop:\n")
			require.True(t, found, said.String())
			require.Contains(t, row, "Not equal")
			require.Contains(t, rest, "it cannot be closed")
			_, rest, found = strings.Cut(rest, "\nFAILED outside the table, TestInterop/queue:\n")
			require.True(t, found, said.String())
			require.Contains(t, rest, "nobody comes")
			require.True(t, strings.HasSuffix(rest, "\n2 tried, 1 failed, and 2 outside the table\n"), rest)
		})
	}
	var said strings.Builder
	require.Zero(t, report(&said, rows[:1], nil))
	require.True(t, strings.HasSuffix(said.String(), "\n1 tried, 0 failed\n"), said.String())
}
