package ctl

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lockgen/lockgen/internal/survey"
)

// Formats for text from elsewhere, for keys and for times.
var clean, quoted, short = survey.Clean, survey.Quoted, survey.Short

// fit shortens s to a number of characters.
func fit(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	runes := []rune(s)
	return string(runes[:n-1]) + "…"
}

// since formats how long ago t was.
func since(t *time.Time, now time.Time) string {
	if t == nil || t.IsZero() {
		return "?"
	}
	return short(now.Sub(*t))
}

// width is the largest width of a table.
const width = 100

// table writes rows in columns, the first row in bold if colour is set. It shortens the widest column until the table
// fits.
func table(w io.Writer, colour bool, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			row[i] = clean(cell)
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	total := func() int {
		sum := 2 * (len(widths) - 1)
		for _, n := range widths {
			sum += n
		}
		return sum
	}
	for total() > width {
		widest := 0
		for i, n := range widths {
			if n > widths[widest] {
				widest = i
			}
		}
		widths[widest]--
	}
	for i, row := range rows {
		var line strings.Builder
		for j, cell := range row {
			cell = fit(cell, widths[j])
			line.WriteString(cell)
			if j < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[j]-utf8.RuneCountInString(cell)+2))
			}
		}
		text := strings.TrimRight(line.String(), " ")
		if colour && i == 0 {
			text = "\x1b[1m" + text + "\x1b[0m"
		}
		fmt.Fprintln(w, text)
	}
}

// count formats a number with a noun.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
