// Package leaktest finds goroutines that a test has left behind.
package leaktest

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// patience is how long a goroutine that is to end may take to do so.
const patience = 10 * time.Second

// Check fails the test if, when it ends, goroutines run that did not run when Check was
// called, and that lockgen or rueidis had a part in. Call it first, so that what the
// test cleans up is cleaned up before; not in a parallel test, whose neighbours have
// goroutines too.
func Check(tb testing.TB) {
	tb.Helper()
	before := goroutines()
	tb.Cleanup(func() {
		tb.Helper()
		poll := time.NewTicker(2 * time.Millisecond)
		defer poll.Stop()
		deadline := time.After(patience)
		for {
			left := leaked(before)
			if len(left) == 0 {
				return
			}
			select {
			case <-poll.C:
			case <-deadline:
				tb.Errorf("leaktest: %d goroutines left:\n\n%s", len(left), strings.Join(left, "\n\n"))
				return
			}
		}
	})
}

// leaked returns the stacks of the goroutines that count and were not there before.
func leaked(before map[string]string) []string {
	var left []string
	for id, stack := range goroutines() {
		if _, old := before[id]; !old && suspect(stack) {
			left = append(left, stack)
		}
	}
	return left
}

// suspect tells goroutines that are ours from the test's own and from the system's.
func suspect(stack string) bool {
	if strings.Contains(stack, "leaktest.goroutines(") || strings.Contains(stack, "testing.tRunner(") {
		return false
	}
	return strings.Contains(stack, "github.com/lockgen/lockgen/") || strings.Contains(stack, "github.com/redis/rueidis")
}

// goroutines returns the stacks of all goroutines by their number.
func goroutines() map[string]string {
	buf := make([]byte, 64<<10)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	all := make(map[string]string)
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		// goroutine 18 [chan receive]:
		id, _, _ := strings.Cut(strings.TrimPrefix(stack, "goroutine "), " ")
		all[id] = stack
	}
	return all
}
