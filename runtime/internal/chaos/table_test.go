//go:build linux

package chaos

import (
	"fmt"
	"runtime"
	"strings"
	"time"
)

// shown are the figures of the table, in its order.
var shown = []figure{telling, double, unheld, service, typical, late, giving}

func line(r row, f *findings) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | %s |", r.name, r.must)
	for _, g := range shown {
		d, measured := f.figures[g]
		text := "-"
		if measured {
			text = short(d)
		}
		fmt.Fprintf(&b, " %s |", text)
	}
	verdict := "kept"
	if len(f.violations) > 0 {
		verdict = "**broken**: " + strings.Join(f.violations, "; ")
	}
	fmt.Fprintf(&b, " %s | %d | %d | %s |", short(f.paused), f.grants, f.losses, verdict)
	return b.String()
}

// short writes a duration so that it fits into a table.
func short(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d < 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// table writes what TestChaos found, as the document that it is.
func table(results []*findings, lease time.Duration, server string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# What happens when things break

Written by `+"`make chaos`"+`, which breaks something and watches; do not edit. %d processes contend for one key that is
held for long and for two that are held for up to 3 ms, with a lease L of %v; each fault strikes up to three times, and each
figure is the worst of all keys, processes and rounds. Redis %s, %s, %d CPUs.

- **told**: from the fault until a holder that lost its lease knew.
- **double hold**: for how long two processes trusted leases of one key at once.
- **unheld**: for how long nobody held a key that somebody waited for, outage and leases of the dead included.
- **served**: from the end of the fault, or of the dead holder's lease, to the next grant of a key that was waited for.
- **hand-over**: median time from Unlock of the key that is held for long in one process to the grant in another.
- **late**: for how long Lock outlived its context. **unlock**: for how long Unlock took.
- **paused**: the longest time during which the machine did not let one of the processes run. Such times are left out of
  the other figures.

Every history was also explained by a model of a lock whose fencing tokens rise, and nothing was left behind: no
goroutine, subscription, key or place in a queue.
`, processes, lease, server, runtime.Version(), runtime.NumCPU())
	for i, f := range results {
		if i == 0 || rows[i].topology != rows[i-1].topology {
			fmt.Fprintf(&b, "\n## %s\n\n| fault | what must happen |", rows[i].topology)
			for _, g := range shown {
				fmt.Fprintf(&b, " %s |", g)
			}
			b.WriteString(" paused | grants | lost | verdict |\n|---|---|" + strings.Repeat("--:|", len(shown)+3) + "---|\n")
		}
		b.WriteString(line(rows[i], f) + "\n")
	}
	return b.String()
}
