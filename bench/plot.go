package main

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// A plot is a picture of one figure of several scenarios.
type plot struct {
	file, title, note string
	svg               string
}

// plots draws the results of the report. It leaves out scenarios that did not run.
func (r *report) plots() []plot {
	var alone []*table
	byName := map[string]*table{}
	for _, t := range r.tables {
		byName[t.scenario.name()] = t
		if t.scenario.id == "S1" || t.scenario.id == "S2" {
			alone = append(alone, t)
		}
	}
	var all []plot
	if len(alone) > 0 {
		all = append(all, plot{file: "alone.svg", title: "Locking and unlocking keys that nobody else wants", note: "cycles per second as a share of the floor's, by goroutines",
			svg: lines(alone)})
	}
	for _, b := range []plot{
		{file: "shared.svg", title: "100 goroutines of one process, one key", note: "acquisitions per second, on a logarithmic scale", svg: "S3, 100"},
		{file: "processes.svg", title: "4 processes of 8 goroutines, one key", note: "acquisitions per second, on a logarithmic scale", svg: "S4"},
		{file: "handover.svg", title: "From one process to another", note: "time from unlock to lock in PING round trips, on a logarithmic scale", svg: "S5"},
	} {
		if t := byName[b.svg]; t != nil {
			b.svg = bars(t)
			all = append(all, b)
		}
	}
	for i := range all {
		all[i].svg = all[i].frame()
	}
	return all
}

// The colours of the pictures: they can be told apart on white and on black, also by people who do not see red or
// green.
const (
	width     = 720
	left      = 170
	right     = 130
	top       = 64
	lineAbove = 28
)

var colours = map[string]string{
	floor: "#8c8c8c", lockgen: "#e8710a", "redislock": "#1f9e89", "redsync/go-redis": "#4f83d1", "redsync/rueidis": "#8f7ee7",
	basic: "#b8a000", "rueidislock": "#b5651d", "rueidislock 1 key": "#c94f8a",
}

// isBare reports whether a library is an experiment, which has no place in a picture.
func isBare(name string) bool {
	lib, _ := known(name)
	return lib.bare
}

// frame puts a picture under its title. Text is black on white and white on black.
func (p plot) frame() string {
	body, height, _ := strings.Cut(p.svg, "\x00")
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %s" width="%d" font-family="system-ui, sans-serif" font-size="13">
<title>%s</title>
<style>text { fill: #1f2328 } .dim { fill: #636c76 } .line { stroke: #636c76; stroke-opacity: .35 }
@media (prefers-color-scheme: dark) { text { fill: #f0f6fc } .dim { fill: #9198a1 } .back { fill: #0d1117 } .line { stroke: #9198a1 } }</style>
<rect class="back" width="100%%" height="100%%" fill="#ffffff"/>
<text x="16" y="24" font-size="16" font-weight="600">%s</text>
<text x="16" y="44" class="dim">%s</text>
%s</svg>
`, width, height, width, html.EscapeString(p.title), html.EscapeString(p.title), html.EscapeString(p.note), body)
}

// bars draws the headline of each library, on a logarithmic scale, since the best is many times faster than the others.
func bars(t *table) string {
	var b strings.Builder
	type bar struct {
		name  string
		value float64
	}
	var all []bar
	low, high := math.Inf(1), math.Inf(-1)
	for _, name := range t.names {
		if v := of(t.values(name, t.scenario.headline.metric)).median; v > 0 && !isBare(name) {
			all = append(all, bar{name, v})
			low, high = min(low, v), max(high, v)
		}
	}
	from, to := math.Floor(math.Log10(low)-0.01), math.Ceil(math.Log10(high))
	at := func(v float64) float64 { return left + (math.Log10(v)-from)/(to-from)*(width-left-right) }
	bottom := top + lineAbove*len(all)
	for e := from; e <= to && len(all) > 0; e++ {
		x := at(math.Pow(10, e))
		fmt.Fprintf(&b, `<line class="line" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/><text class="dim" x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", x, x, top, bottom, x, bottom+18, tick(e))
	}
	for i, x := range all {
		y := top + lineAbove*i
		weight := 400
		if x.name == lockgen {
			weight = 700
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end" font-weight="%d">%s</text><rect x="%d" y="%d" width="%.1f" height="18" rx="2" fill="%s"/><text x="%.1f" y="%d" font-weight="%d">%s</text>`+"\n",
			left-8, y+18, weight, html.EscapeString(x.name), left, y+4, at(x.value)-left, colours[x.name], at(x.value)+6, y+18, weight, t.scenario.headline.format(x.value))
	}
	fmt.Fprintf(&b, "\x00%d", bottom+30)
	return b.String()
}

func tick(exponent float64) string {
	if exponent < 0 {
		return hundredth(math.Pow(10, exponent))
	}
	return count(math.Pow(10, exponent))
}

// lines draws the rate of each library as a share of the floor, from table to table.
func lines(tables []*table) string {
	var b strings.Builder
	const height = 280
	const bottom, start = top + height, 60
	x := func(i int) float64 {
		return start + 20 + float64(i)*(width-start-right-60)/float64(max(1, len(tables)-1))
	}
	highest := 1.2
	share := func(t *table, name string) float64 { return t.ratio(name, floor, "rate").median }
	for _, t := range tables {
		for _, name := range t.names {
			if v := share(t, name); v > highest && !isBare(name) {
				highest = v
			}
		}
	}
	y := func(v float64) float64 { return bottom - v/highest*height }
	for v := 0.0; v <= highest+0.001; v += 0.25 {
		fmt.Fprintf(&b, `<line class="line" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text class="dim" x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", start, width-right-20, y(v), y(v), start-8, y(v)+4, hundredth(v))
	}
	for i, t := range tables {
		point := t.scenario.point
		if point == "" {
			point = "1"
		}
		fmt.Fprintf(&b, `<text class="dim" x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", x(i), bottom+20, point)
	}
	if len(tables) == 0 {
		return "\x00100"
	}
	taken := map[int]bool{} // lines of text at the right edge
	for _, name := range slices.DeleteFunc(slices.Clone(tables[0].names), isBare) {
		var path []string
		last := math.NaN()
		lastX := 0.0
		for i, t := range tables {
			v := share(t, name)
			if math.IsNaN(v) {
				continue
			}
			path = append(path, fmt.Sprintf("%.1f,%.1f", x(i), y(v)))
			last, lastX = y(v), x(i)
		}
		if len(path) == 0 {
			continue
		}
		stroke, weight := 1.8, 400
		if name == lockgen {
			stroke, weight = 3.5, 700
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="%.1f" stroke-linejoin="round"/>`+"\n", strings.Join(path, " "), colours[name], stroke)
		fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"/>`+"\n", lastX, last, colours[name])
		slot := int(last / 16)
		for step := 1; taken[slot]; step++ { // the nearest free line of text
			slot += step * (1 - 2*(step%2))
		}
		taken[slot] = true
		fmt.Fprintf(&b, `<text x="%d" y="%d" font-weight="%d" style="fill: %s">%s</text>`+"\n", width-right-12, slot*16+12, weight, colours[name], html.EscapeString(name))
	}
	fmt.Fprintf(&b, "\x00%d", bottom+34)
	return b.String()
}
