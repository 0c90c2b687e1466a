//go:build linux

package chaos

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

// shown are the figures of the table, in its order.
var shown = []figure{telling, double, unheld, service, typical, late, giving}

func line(r run, f *findings) string {
	var b strings.Builder
	b.WriteString(r.begins())
	for _, g := range shown {
		d, measured := f.figures[g]
		text := "-"
		if measured {
			text = short(d)
		}
		fmt.Fprintf(&b, " %s |", text)
	}
	fmt.Fprintf(&b, " %s | %d | %d | %s |", short(f.paused), f.grants, f.losses, f.verdict())
	return b.String()
}

// verdict says whether all was kept, and if not, in how many of the runs something was missed, and what.
func (f *findings) verdict() string {
	switch {
	case len(f.violations) == 0 && f.runs == 1:
		return "kept"
	case len(f.violations) == 0:
		return fmt.Sprintf("kept, %d runs", f.runs)
	}
	var reasons []string
	for _, v := range f.violations {
		v, _, _ = strings.Cut(v, "\n") // stacks may follow
		if v = strings.ReplaceAll(v, "|", "\\|"); !slices.Contains(reasons, v) {
			reasons = append(reasons, v)
		}
	}
	return fmt.Sprintf("**missed** in %d of %d runs: %s", max(f.missed, 1), f.runs, strings.Join(reasons, "; "))
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

// begins is how the row of a run does.
func (r run) begins() string { return fmt.Sprintf("| %s | %s |", r.name, r.must) }

// heading is what the part of the table is called that a run belongs to.
func (r run) heading() string {
	if r.part != "" {
		return fmt.Sprintf("## %s, %s: %s\n", r.topology, r.part, r.of.name)
	}
	return fmt.Sprintf("## %s: %s\n", r.topology, r.of.name)
}

// preface writes what stands before the table.
func preface(lease time.Duration, server string) string {
	return fmt.Sprintf(`# What happens when things break

Written by `+"`make chaos`"+`, which breaks something and watches; do not edit. %d processes contend for one key that each of them
holds for long, and for two keys that they hold for up to 3 ms. The lease L is %v, with Sentinel %v, and in a cluster %v.
Where several callers can hold a key, each process also has one hold of such a key for long. A key of a MultiLock is two mutexes and a writer; some callers want
one of these alone. Each fault strikes up to three times. Each figure is the worst of all keys, processes and rounds of the last run. If the verdict has a number of runs, the
fault strikes once in each run, the figures are the worst of all these runs, and grants and losses are the sums. Redis %s, %s, %d CPUs.

- **told**: the time from the fault until a holder that lost its lease was notified.
- **double hold**: the time for which callers trusted more leases of a key at once than the key allows: two leases of a mutex, a
  writer's and a reader's, more permits than there are.
- **unheld**: the time for which a key was free for one of its waiters, outage and leases of dead holders included.
- **served**: the time from the end of the fault, or of the dead holder's lease, to the next grant of a key that has waiters.
- **hand-over**: the median time from the release, in one process, of the key that is held for long to its grant in another.
- **late**: the time by which a call outlived its context. **unlock**: the time that a release took.
- **paused**: the longest time during which the machine did not let one of the processes run. Such times are left out of
  the other figures.

A model of the lock also explained every history. The model allows as many holders of a key as the key does, and its fencing
tokens rise. Where 30 clients or 99 waiters leave too many orders to try, the search for an explanation ends after ten seconds.
No run left anything behind: no goroutine, subscription, key, permit or place in a queue. If a run broke one of these rules, or missed
a bound, the verdict of its row is "missed", with the number of such runs and the reason. A server that came back from an older file may have places of processes
that have ended: one more process then locked each key, was not kept from it, and left nothing behind.

The rows allow two losses of a lease that should have been kept. First, the outage lasted longer than 11/20 of the lease: the
client renews a lease each third of its length and trusts it for nine tenths, so the trust at the beginning of an outage may be as
short as 17/30, and the machine takes some of that. The same holds for the 2s of a lease that was handed over and not renewed yet.
Second, the machine did not let a process run for more than 1/20 of the lease before the loss.

Semaphores and latches have no leases. If a caller dies, or if the server forgets it, its permits and counts stay as they are, and
no process is notified. Faults that could show nothing else have no row for these kinds.
`, processes, lease, failoverLease, clusterLease, server, runtime.Version(), runtime.NumCPU())
}

// tables writes the parts of the table that have been run, now or before, by their headings.
func tables(results []*findings, before map[string]string) map[string]string {
	parts, missing := map[string]string{}, map[string]bool{}
	for i, f := range results {
		r := runs[i]
		h := r.heading()
		if parts[h] == "" {
			text := h + "\n| fault | what must happen |"
			for _, g := range shown {
				text += fmt.Sprintf(" %s |", g)
			}
			parts[h] = text + " paused | grants | lost | verdict |\n|---|---|" + strings.Repeat("--:|", len(shown)+3) + "---|\n"
		}
		row := ""
		if f != nil {
			row = line(r, f) + "\n"
		} else {
			for old := range strings.Lines(before[h]) {
				if strings.HasPrefix(old, r.begins()) {
					row = old
				}
			}
		}
		missing[h] = missing[h] || row == ""
		parts[h] += row
	}
	for h, is := range missing {
		if is {
			delete(parts, h)
		}
	}
	return parts
}

// headings returns those of all runs, in order.
func headings() []string {
	var all []string
	for _, r := range runs {
		if h := r.heading(); !slices.Contains(all, h) {
			all = append(all, h)
		}
	}
	return all
}

// parse splits a document into its parts by their headings; what stands before them has none.
func parse(document string) map[string]string {
	parts, at := map[string]string{}, ""
	for line := range strings.Lines(document) {
		if strings.HasPrefix(line, "## ") {
			at = line
		}
		parts[at] += line
	}
	for h, text := range parts {
		parts[h] = strings.TrimRight(text, "\n") + "\n"
	}
	return parts
}

// compose writes the document.
func compose(preface string, parts map[string]string) string {
	text := preface
	for _, h := range headings() {
		if parts[h] != "" {
			text += "\n" + parts[h]
		}
	}
	return text
}
