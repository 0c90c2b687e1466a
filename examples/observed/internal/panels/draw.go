package panels

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The measures of a picture: a dashboard is 24 units wide.
const (
	unitX, unitY = 44, 22
	gap          = 8
	head         = 56
)

// colours are told apart on white and on black, and by readers who do not see red or green.
var colours = []string{"#e8710a", "#4f83d1", "#1f9e89", "#8f7ee7", "#b8a000", "#c94f8a", "#b5651d", "#8c8c8c"}

// Draw returns a picture, SVG, of all panels of a dashboard. all are the series of each.
func Draw(d *Dashboard, note string, span Span, all [][]Series) string {
	var b strings.Builder
	width, height := 24*unitX+gap, 0
	for i, p := range d.Panels {
		x, y := p.GridPos.X*unitX+gap, head+p.GridPos.Y*unitY
		f := frame{&b, span, p, x, y, p.GridPos.W*unitX - gap, p.GridPos.H*unitY - gap}
		f.draw(all[i])
		height = max(height, y+p.GridPos.H*unitY)
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" font-family="system-ui, sans-serif" font-size="11">
<title>%s</title>
<style>text { fill: #1f2328 } .dim { fill: #636c76 } .box { fill: #f6f8fa; stroke: #d0d7de } .line { stroke: #636c76; stroke-opacity: .3 } .s { fill: none; stroke-width: 1.6 }
@media (prefers-color-scheme: dark) { text { fill: #f0f6fc } .dim { fill: #9198a1 } .back { fill: #0d1117 } .box { fill: #161b22; stroke: #30363d } .line { stroke: #9198a1 } }</style>
<rect class="back" width="100%%" height="100%%" fill="#ffffff"/>
<text x="%d" y="22" font-size="16" font-weight="600">%s</text>
<text x="%d" y="42" class="dim">%s</text>
%s</svg>
`, width, height, width, html.EscapeString(d.Title), gap, html.EscapeString(d.Title), gap, html.EscapeString(note), &b)
}

// A frame is the place of one panel.
type frame struct {
	*strings.Builder

	span       Span
	panel      Panel
	x, y, w, h int
}

func (f frame) draw(series []Series) {
	fmt.Fprintf(f, `<rect class="box" x="%d" y="%d" width="%d" height="%d" rx="3"/><text x="%d" y="%d" font-weight="600">%s</text>`+"\n",
		f.x, f.y, f.w, f.h, f.x+8, f.y+17, html.EscapeString(f.panel.Title))
	series = slices.DeleteFunc(slices.Clone(series), func(s Series) bool { return len(s.Points) == 0 })
	switch {
	case f.panel.Type == "stat":
		f.stat(series)
	case len(series) == 0:
		f.text(f.x+f.w/2, f.y+f.h/2+4, "middle", "No data")
	case f.panel.Type == "heatmap":
		f.heatmap(series)
	default:
		f.lines(series)
	}
}

func (f frame) text(x, y int, anchor, text string) {
	fmt.Fprintf(f, `<text class="dim" x="%d" y="%d" text-anchor="%s">%s</text>`+"\n", x, y, anchor, html.EscapeString(text))
}

// stat draws the last value, as Grafana does.
func (f frame) stat(series []Series) {
	text := "No data"
	if len(series) > 0 {
		points := series[0].Points
		text = f.format(points[len(points)-1].Value)
	}
	fmt.Fprintf(f, `<text x="%d" y="%d" font-size="26" font-weight="600" text-anchor="middle">%s</text>`+"\n", f.x+f.w/2, f.y+f.h/2+18, html.EscapeString(text))
}

// A plane is the inside of the axes of a frame.
type plane struct{ left, right, top, bottom int }

// axes draws the lines and texts of both axes, and returns what is inside of them. highest is the value at the top; 0 if values have no place.
func (f frame) axes(highest float64, legend int) plane {
	in := plane{f.x + 52, f.x + f.w - 10 - legend, f.y + 30, f.y + f.h - 22}
	const steps = 4
	for i := 0; i <= steps && highest > 0; i++ {
		y := in.bottom - i*(in.bottom-in.top)/steps
		fmt.Fprintf(f, `<line class="line" x1="%d" x2="%d" y1="%d" y2="%d"/>`, in.left, in.right, y, y)
		f.text(in.left-6, y+4, "end", f.format(highest*float64(i)/steps))
	}
	for i := range 3 {
		at := f.span.To.Sub(f.span.From) * time.Duration(i) / 2
		anchor := []string{"start", "middle", "end"}[i]
		f.text(in.left+i*(in.right-in.left)/2, in.bottom+15, anchor, fmt.Sprintf("%d:%02d", int(at.Minutes()), int(at.Seconds())%60))
	}
	return in
}

// at returns where a moment is on the axis.
func (f frame) at(in plane, t time.Time) float64 {
	return float64(in.left) + t.Sub(f.span.From).Seconds()/f.span.To.Sub(f.span.From).Seconds()*float64(in.right-in.left)
}

func (f frame) lines(series []Series) {
	highest := 0.0
	for _, s := range series {
		for _, p := range s.Points {
			highest = max(highest, p.Value)
		}
	}
	highest = round(highest)
	const legend = 180
	in := f.axes(highest, legend)
	named, most := 0, (in.bottom-in.top)/15
	for i, s := range series {
		colour := colours[i%len(colours)]
		last := time.Time{}
		var path strings.Builder
		for _, p := range s.Points {
			step := "L"
			if p.At.Sub(last) > 3*f.span.Step/2 { // nothing is drawn where there was nothing
				step = "M"
			}
			y := float64(in.bottom) - p.Value/highest*float64(in.bottom-in.top)
			fmt.Fprintf(&path, "%s%.1f %.1f", step, f.at(in, p.At), y)
			last = p.At
		}
		fmt.Fprintf(f, `<path class="s" stroke="%s" d="%s"/>`+"\n", colour, &path)
		if len(series) > most && !slices.ContainsFunc(s.Points, func(p Point) bool { return p.Value != 0 }) {
			continue // in the legend there is no room for series of which nothing can be seen
		}
		if named++; named > most {
			continue
		}
		y := in.top - 9 + 15*named
		fmt.Fprintf(f, `<rect x="%d" y="%d" width="10" height="3" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n",
			in.right+12, y-4, colour, in.right+26, y, html.EscapeString(fit(s.Name)))
	}
	if named > most {
		f.text(in.right+26, in.bottom+6, "start", fmt.Sprintf("and %d more", named-most))
	}
}

// fit returns a name of a series that is not longer than the legend has room for.
func fit(name string) string {
	const most = 27
	if text := []rune(name); len(text) > most {
		return string(text[:most-1]) + "…"
	}
	return name
}

// shades is how many colours a heat map has.
const shades = 5

// heatmap draws how many values are in each bucket of a histogram. Each series has those up to the bound in its label le.
func (f frame) heatmap(series []Series) {
	bound := func(s Series) float64 {
		v, err := strconv.ParseFloat(s.Labels["le"], 64)
		if err != nil {
			return math.NaN()
		}
		return v
	}
	slices.SortFunc(series, func(a, b Series) int { return cmp.Compare(bound(a), bound(b)) })
	below := map[time.Time]float64{}
	type cell struct {
		bucket int
		at     time.Time
	}
	cells, most := map[cell]float64{}, 0.0
	first, last := len(series), 0
	for i, s := range series {
		for _, p := range s.Points {
			n := p.Value - below[p.At]
			below[p.At] = p.Value
			if n > 0.01 {
				cells[cell{i, p.At}] = n
				most = max(most, n)
				first, last = min(first, i), max(last, i)
			}
		}
	}
	if len(cells) == 0 {
		f.text(f.x+f.w/2, f.y+f.h/2+4, "middle", "No data")
		return
	}
	in := f.axes(0, 0)
	rows := last - first + 1
	height := float64(in.bottom-in.top) / float64(rows)
	wide := float64(in.right-in.left) * f.span.Step.Seconds() / f.span.To.Sub(f.span.From).Seconds()
	var paths [shades]strings.Builder
	for i := first; i <= last; i++ {
		y := float64(in.bottom) - float64(i-first+1)*height
		if (i-first)%max(1, (rows+5)/6) == 0 {
			f.text(in.left-6, int(y+height/2)+4, "end", f.format(bound(series[i])))
		}
		for _, p := range series[i].Points {
			if n := cells[cell{i, p.At}]; n > 0 {
				shade := min(shades-1, int(n/most*shades))
				fmt.Fprintf(&paths[shade], "M%.1f %.1fh%.1fv%.1fh-%.1fz", f.at(in, p.At)-wide, y, wide, height, wide)
			}
		}
	}
	for i := range paths {
		fmt.Fprintf(f, `<path fill="#e8710a" fill-opacity="%.2f" d="%s"/>`+"\n", float64(i+1)/shades, &paths[i])
	}
}

// round returns the next number at or above v that people like to read.
func round(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, step := range []float64{1, 2, 4, 5, 8, 10} {
		if v <= step*power*(1+1e-9) {
			return step * power
		}
	}
	return 10 * power
}

// format writes a value in the unit of the panel.
func (f frame) format(v float64) string {
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }
	switch f.panel.FieldConfig.Defaults.Unit {
	case "s":
		switch {
		case math.IsInf(v, 1):
			return "+Inf"
		case v == 0:
			return "0"
		case v < 0.001:
			return number(v*1e6) + " µs"
		case v < 1:
			return number(v*1e3) + " ms"
		}
		return number(v) + " s"
	case "ops":
		return number(v) + "/s"
	case "percentunit":
		return number(v*100) + " %"
	}
	return number(v)
}
