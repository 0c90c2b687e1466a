package panels

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// A Series is what a query returned for one set of labels.
type Series struct {
	Name   string
	Labels map[string]string
	Points []Point // in the order of time; a moment without a value is left out
}

// A Point is a value at one moment.
type Point struct {
	At    time.Time
	Value float64
}

// A Prometheus is a server.
type Prometheus struct{ URL string }

// Query returns what the queries of a panel have in a span, the series in the order of their names.
func (p Prometheus) Query(ctx context.Context, panel Panel, span Span) ([]Series, error) {
	var all []Series
	for _, target := range panel.Targets {
		some, err := p.query(ctx, target, span)
		if err != nil {
			return nil, fmt.Errorf("panel %q: %w", panel.Title, err)
		}
		all = append(all, some...)
	}
	slices.SortFunc(all, func(a, b Series) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

func (p Prometheus) query(ctx context.Context, target Target, span Span) ([]Series, error) {
	unix := func(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }
	params := url.Values{
		"query": {span.expand(target.Expr)}, "start": {unix(span.From)}, "end": {unix(span.To)},
		"step": {strconv.FormatFloat(span.Step.Seconds(), 'f', -1, 64)},
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/api/v1/query_range?"+params.Encode(), nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var reply struct {
		Status, Error string
		Data          struct {
			Result []struct {
				Metric map[string]string
				Values [][2]any // seconds and text
			}
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&reply); err != nil {
		return nil, fmt.Errorf("%s: %w", response.Status, err)
	}
	if reply.Status != "success" {
		return nil, fmt.Errorf("%s: %s", response.Status, reply.Error)
	}
	var all []Series
	for _, result := range reply.Data.Result {
		one := Series{Name: target.name(result.Metric), Labels: result.Metric}
		for _, pair := range result.Values {
			at, _ := pair[0].(float64)
			text, _ := pair[1].(string)
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, fmt.Errorf("a value: %w", err)
			}
			if !math.IsNaN(value) && !math.IsInf(value, 0) {
				one.Points = append(one.Points, Point{time.UnixMilli(int64(at * 1000)), value})
			}
		}
		all = append(all, one)
	}
	return all, nil
}
