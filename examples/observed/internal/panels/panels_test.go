package panels

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hour is the time of these pictures.
var hour = Span{From: time.Unix(1_000_000, 0), To: time.Unix(1_003_600, 0), Step: time.Minute, Scrape: 15 * time.Second}

// answers returns a server that answers every query with the same text, and the last query.
func answers(t *testing.T, status int, text string) (p Prometheus, query *string) {
	t.Helper()
	query = new(string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*query = r.FormValue("query") + " from " + r.FormValue("start") + " to " + r.FormValue("end") + " by " + r.FormValue("step")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	return Prometheus{server.URL}, query
}

func TestQuery(t *testing.T) {
	t.Parallel()
	p, query := answers(t, http.StatusOK, `{"status":"success","data":{"result":[
		{"metric":{"name":"b","le":"0.5"},"values":[[1000060,"2"],[1000120,"NaN"],[1000180.5,"1e3"],[1000240,"+Inf"]]},
		{"metric":{"name":"a"},"values":[]}]}}`)
	series, err := p.Query(t.Context(), Panel{Targets: []Target{{`sum(rate(x{job=~"$job",name=~"$name"}[$__rate_interval])) / y[$__range]`, "of {{name}}"}}}, hour)
	require.NoError(t, err)
	require.Equal(t, `sum(rate(x{job=~".*",name=~".*"}[75s])) / y[3600s] from 1000000 to 1003600 by 60`, *query)
	require.Equal(t, []Series{
		{"of a", map[string]string{"name": "a"}, nil},
		{"of b", map[string]string{"name": "b", "le": "0.5"}, []Point{{time.Unix(1_000_060, 0), 2}, {time.UnixMilli(1_000_180_500), 1000}}},
	}, series)
}

func TestQuery_Fails(t *testing.T) {
	t.Parallel()
	panel := Panel{Title: "Held", Targets: []Target{{Expr: "x"}}}
	for text, want := range map[string]string{
		`{"status":"error","error":"parse error"}`: "parse error",
		"not JSON": "400 Bad Request",
		"":         "400 Bad Request",
		`{"status":"success","data":{"result":[{"values":[[1,"x"]]}]}}`: "a value",
		`{"status":"success","data":{"result":[{"values":[[1,2]]}]}}`:   "a value",
	} {
		p, _ := answers(t, http.StatusBadRequest, text)
		_, err := p.Query(t.Context(), panel, hour)
		require.ErrorContains(t, err, want, text)
		require.ErrorContains(t, err, `panel "Held"`)
	}
	_, err := Prometheus{"http://127.0.0.1:1"}.Query(t.Context(), panel, hour)
	require.Error(t, err)
}

func TestRead_Fails(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "d.json")
	_, err := Read(path)
	require.Error(t, err)
	for text, want := range map[string]string{"x": "d.json", `{"panels":[{"title":"A","type":"geomap"}]}`: `panel "A": a "geomap" cannot be drawn`} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err = Read(path)
		require.ErrorContains(t, err, want)
	}
}

// texts returns the texts of a picture, which has to be well-formed XML.
func texts(t *testing.T, svg string) (all []string) {
	t.Helper()
	in := ""
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if err == io.EOF { //nolint:errorlint // that is what it returns
			return all
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			in = token.Name.Local
		case xml.EndElement:
			in = ""
		case xml.CharData:
			if in == "text" {
				all = append(all, string(token))
			}
		}
	}
}

func panelOf(kind, unit string) Panel {
	p := Panel{Title: kind + " <script>", Type: kind}
	p.GridPos.W, p.GridPos.H, p.FieldConfig.Defaults.Unit = 12, 8, unit
	return p
}

// at returns a point so many minutes after the beginning.
func at(minutes int, v float64) Point {
	return Point{hour.From.Add(time.Duration(minutes) * time.Minute), v}
}

func TestDraw(t *testing.T) {
	t.Parallel()
	d := &Dashboard{Title: "Locks & more", Panels: []Panel{panelOf("stat", "short"), panelOf("timeseries", "s"), panelOf("heatmap", "s"), panelOf("stat", "s"), panelOf("timeseries", "ops"), panelOf("heatmap", "s")}}
	svg := Draw(d, `a "note"`, hour, [][]Series{
		{{Points: []Point{at(0, 7), at(60, 42)}}},
		{{Name: "<b>", Points: []Point{at(0, 0), at(1, 0.3), at(30, 0.1)}}, {Name: "empty"}},
		{{Labels: map[string]string{"le": "+Inf"}, Points: []Point{at(1, 5)}}, {Labels: map[string]string{"le": "0.01"}, Points: []Point{at(1, 0)}},
			{Labels: map[string]string{"le": "0.1"}, Points: []Point{at(1, 4)}}},
		nil, {{Name: "without points"}}, {{Labels: map[string]string{"le": "1"}, Points: []Point{at(1, 0)}}},
	})
	all := texts(t, svg)
	for _, want := range []string{"Locks & more", `a "note"`, "stat <script>", "42", "<b>", "0", "100 ms", "400 ms", "0:00", "30:00", "60:00"} {
		require.Contains(t, all, want)
	}
	require.NotContains(t, all, "empty")
	require.Equal(t, 3, strings.Count(strings.Join(all, "|"), "No data"))
	path := svg[strings.Index(svg, `<path class="s"`):]
	path = path[:strings.Index(path, "/>")]
	require.Equal(t, 2, strings.Count(path, "M"), "a line ends where nothing was measured")
	require.Equal(t, 1, strings.Count(path, "L"))
	cells := 0
	for _, line := range strings.Split(svg, "\n") {
		if strings.Contains(line, "fill-opacity") {
			cells += strings.Count(line, "z")
		}
	}
	require.Equal(t, 2, cells, "four of up to 0.1 s, one above")
}

// TestDraw_Legend shows that a legend with many series names those of which something can be seen, as many as there is room for, and no text that is longer
// than the room.
func TestDraw_Legend(t *testing.T) {
	t.Parallel()
	drawn := func(value func(i int) float64) []string {
		var series []Series
		for i := range 20 {
			series = append(series, Series{Name: fmt.Sprintf("series-%02d of a lock with a very long name", i), Points: []Point{at(0, value(i)), at(1, value(i))}})
		}
		d := &Dashboard{Panels: []Panel{panelOf("timeseries", "s")}}
		return slices.DeleteFunc(texts(t, Draw(d, "", hour, [][]Series{series})), func(text string) bool {
			return !strings.HasPrefix(text, "series-") && !strings.Contains(text, "more")
		})
	}
	require.Equal(t, []string{"series-07 of a lock with a…"}, drawn(func(i int) float64 {
		if i == 7 {
			return 1
		}
		return 0
	}))
	all := drawn(func(int) float64 { return 1 })
	require.Equal(t, fmt.Sprintf("and %d more", 20-(len(all)-1)), all[len(all)-1])
	require.Greater(t, len(all), 5)
}

func TestFormat(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		unit string
		v    float64
		want string
	}{
		{"s", 0, "0"}, {"s", 0.00025, "250 µs"}, {"s", 0.0125, "12.5 ms"}, {"s", 90, "90 s"}, {"ops", 12.5, "12.5/s"}, {"percentunit", 0.25, "25 %"}, {"short", 3, "3"},
	} {
		f := frame{panel: panelOf("stat", x.unit)}
		require.Equal(t, x.want, f.format(x.v))
	}
	for v, want := range map[float64]float64{0: 1, 0.3: 0.4, 1: 1, 1.1: 2, 45: 50, 61: 80, 99: 100} {
		require.InDelta(t, want, round(v), 1e-9, fmt.Sprint(v))
	}
}
