package demo

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// reorder is how long an event is kept before it is printed, so that the events of several
// processes appear in the order in which they happened.
const reorder = 50 * time.Millisecond

// Escape codes of a terminal.
const (
	plain  = "\x1b[0m"
	bold   = "\x1b[1m"
	dim    = "\x1b[2m"
	red    = "\x1b[1;31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	cyan   = "\x1b[36m"
)

// colours are those of some events; the others are plain.
var colours = map[kind]string{
	waits: yellow, holds: cyan, frees: dim, skips: dim, renews: dim, finds: dim, hangs: yellow,
	pays: green, packs: green, ships: green,
	loses: red, kills: red, takes: red, paysMore: red, packMore: red,
}

// A printer writes for people.
type printer struct {
	out    io.Writer
	colour bool
	start  time.Time // of the act
	kept   []event
}

func (p *printer) line(format string, args ...any) {
	fmt.Fprintf(p.out, format+"\n", args...)
}

func (p *printer) title(title string) {
	p.line("\n%s", p.paint(bold, title))
}

// begin sets the time from which the events of an act are counted.
func (p *printer) begin(at time.Time) { p.start = at }

// add keeps an event to be printed by flush.
func (p *printer) add(e event) { p.kept = append(p.kept, e) }

// flush prints the events up to a time, in their order.
func (p *printer) flush(until time.Time) {
	slices.SortStableFunc(p.kept, func(a, b event) int { return a.At.Compare(b.At) })
	n := 0
	for n < len(p.kept) && !p.kept[n].At.After(until) {
		e := p.kept[n]
		who := "operator "
		if e.Replica > 0 {
			who = fmt.Sprintf("replica %d", e.Replica)
		}
		p.line("%7.3fs  %s  %s", e.At.Sub(p.start).Seconds(), who, p.paint(colours[e.Kind], fmt.Sprintf("%-8s%s", e.Kind, e.Text)))
		n++
	}
	p.kept = slices.Delete(p.kept, 0, n)
}

// table prints the results of both acts side by side, damage in red.
func (p *printer) table(without, with tally) {
	rows := []struct {
		act string
		tally
	}{{"without locks", without}, {"with locks", with}}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "act\torders paid\tpayments taken\tdouble payments\tpieces oversold\tday reports\ttime\t")
	for _, row := range rows {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%.1fs\t\n", row.act, row.paid(), row.taken(),
			row.double(), row.oversold(), row.reports, row.took.Seconds())
	}
	_ = w.Flush()
	// The lines get their colours last, since escape codes must not count for the width of columns.
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	p.line("%s", lines[0])
	for i, row := range rows {
		colour := green
		if row.double() > 0 || row.oversold() > 0 || row.reports > 1 {
			colour = red
		}
		p.line("%s", p.paint(colour, lines[i+1]))
	}
}

func (p *printer) paint(colour, text string) string {
	if !p.colour || colour == "" {
		return text
	}
	return colour + text + plain
}
