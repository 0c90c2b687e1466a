// Package panels draws the panels of a Grafana dashboard from what a Prometheus server answers to their own queries: for a picture in the
// documentation, where Grafana cannot be run. It knows as much of Grafana's format as the dashboard of lockprom has.
package panels

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// A Dashboard is the part of a Grafana dashboard that is drawn.
type Dashboard struct {
	Title  string
	Panels []Panel
}

// A Panel is one of its pictures.
type Panel struct {
	Title   string
	Type    string // stat, timeseries or heatmap
	GridPos struct{ X, Y, W, H int }

	FieldConfig struct {
		Defaults struct{ Unit string }
	}
	Targets []Target
}

// A Target is one query of a panel.
type Target struct {
	Expr         string
	LegendFormat string
}

// Read reads the JSON of a dashboard.
func Read(path string) (*Dashboard, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var d Dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, p := range d.Panels {
		switch p.Type {
		case "stat", "timeseries", "heatmap":
		default:
			return nil, fmt.Errorf("%s: panel %q: a %q cannot be drawn", path, p.Title, p.Type)
		}
	}
	return &d, nil
}

// A Span is the time of a picture.
type Span struct {
	From, To time.Time
	Step     time.Duration // between two points
	Scrape   time.Duration // how often Prometheus asks for metrics
}

// expand replaces the variables in a query as Grafana does when all jobs and all names are chosen.
func (s Span) expand(expr string) string {
	seconds := func(d time.Duration) string { return fmt.Sprintf("%ds", max(1, int(d.Seconds()))) }
	rate := max(4*s.Scrape, s.Step+s.Scrape)
	return strings.NewReplacer("$__rate_interval", seconds(rate), "$__range", seconds(s.To.Sub(s.From)), "$job", ".*", "$name", ".*").Replace(expr)
}

// name returns the name of a series in the legend.
func (t Target) name(labels map[string]string) string {
	text := t.LegendFormat
	for label, value := range labels {
		text = strings.ReplaceAll(text, "{{"+label+"}}", value)
	}
	return text
}
