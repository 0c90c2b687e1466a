package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/contrib/lockprom"
	"github.com/lockgen/lockgen/examples/observed/internal/panels"
	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

var picture = flag.String("picture", "", "write the picture of the dashboard's panels to this file, which takes minutes")

// note says under the title what the picture is.
const note = "Each panel is drawn from its own queries, which a Prometheus server answered about make observed, where locks are taken by force now and then. Grafana draws the same in its own way."

// startPrometheus returns a server that looks at a target. Without one that is installed the test is skipped, but not where all tests have
// to run.
func startPrometheus(t *testing.T, target string, scrape time.Duration) panels.Prometheus {
	t.Helper()
	path, err := exec.LookPath("prometheus")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("there is no Prometheus: .ci/need promtool installs it")
		}
		t.Skip("there is no Prometheus: .ci/need promtool installs it")
	}
	dir := t.TempDir()
	config := fmt.Sprintf("scrape_configs:\n  - job_name: shop\n    scrape_interval: %v\n    static_configs:\n      - targets: [%q]\n",
		scrape, strings.TrimPrefix(target, "http://"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600))
	for range 5 { // another program may take the port
		number, release, err := redistest.ReservePort()
		require.NoError(t, err)
		t.Cleanup(release)
		addr := fmt.Sprintf("127.0.0.1:%d", number)
		cmd := exec.Command(path, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
			"--web.listen-address="+addr, "--log.level=error")
		require.NoError(t, cmd.Start())
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		if ready(t, "http://"+addr, ended) {
			t.Cleanup(func() {
				_ = cmd.Process.Kill()
				<-ended
			})
			return panels.Prometheus{URL: "http://" + addr}
		}
	}
	t.Fatal("Prometheus ends when it is started")
	panic("unreachable")
}

// ready waits until a server answers, and reports whether it does.
func ready(t *testing.T, url string, ended <-chan error) bool {
	t.Helper()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	over := time.After(2 * time.Minute)
	for {
		select {
		case <-ended:
			return false
		case <-over:
			t.Fatal("Prometheus does not get ready")
		case <-poll.C:
			response, err := http.Get(url + "/-/ready") //nolint:noctx // the server ends with the test
			if err == nil {
				_ = response.Body.Close()
				if response.StatusCode == http.StatusOK {
					return true
				}
			}
		}
	}
}

// disturb takes a lock by force, and has somebody hold another one for long, now and then, so that there is something to see in all panels.
func disturb(ctx context.Context, m *market) {
	pause := time.NewTicker(20 * time.Second)
	defer pause.Stop()
	for ctx.Err() == nil {
		lease, err := m.clients[0].Mutex("report", lockrt.WithName("shop.Report.Write")).Lock(ctx)
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
		if err == nil {
			_ = lease.Unlock(context.WithoutCancel(ctx))
		}
		for ctx.Err() == nil {
			if taken, err := m.clients[1].Mutex("order:A-1").ForceUnlock(ctx); taken || err != nil {
				break
			}
		}
	}
}

// TestPicture asks a real Prometheus, which looks at the shop, the queries of lockprom's dashboard, and draws the answers. With -picture it does so
// for minutes and writes what it has drawn.
func TestPicture(t *testing.T) {
	dashboard, err := panels.Read("../../contrib/lockprom/dashboard.json")
	require.NoError(t, err)
	scrape, length := time.Second, time.Minute
	if *picture != "" {
		scrape, length = 2*time.Second, 4*time.Minute
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	metrics, registry := lockprom.New(), prometheus.NewRegistry()
	registry.MustRegister(metrics)
	target := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer target.Close()
	server := startPrometheus(t, target.URL, scrape)
	m, err := openShop(ctx, redistest.Server(t).URL(), metrics.Hooks(lockrt.Hooks{}))
	require.NoError(t, err)
	for i, c := range m.clients {
		metrics.Watch(nameOf(i), c)
	}
	sold := make(chan error, 1)
	go func() { sold <- m.sell(ctx) }()
	began := time.Now()
	if *picture != "" {
		go disturb(ctx, m)
		<-time.After(length)
	}

	// All that a shop without faults does is in these panels.
	busy := []string{"Held", "Waiting", "Wait, 99th percentile", "Waits", "Calls by outcome", "Share of calls that wait", "Hold, 95th percentile", "Held and waiting", "Hand-overs", "Response time of the servers"}
	fills := func(p panels.Panel, series []panels.Series) bool {
		return !slices.Contains(busy, p.Title) || len(series) > 0 && len(series[0].Points) > 0
	}
	var span panels.Span
	var all [][]panels.Series
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	over := time.Now().Add(length + 2*time.Minute)
	for full := false; !full; <-poll.C {
		require.True(t, time.Now().Before(over), "panels stay empty that the shop fills: %v", all)
		to := time.Now().Truncate(scrape)
		if to.Sub(began) < 2*scrape {
			continue
		}
		span, all, full = panels.Span{From: began.Truncate(scrape), To: to, Step: scrape, Scrape: scrape}, nil, true
		for _, p := range dashboard.Panels {
			series, err := server.Query(ctx, p, span)
			require.NoError(t, err)
			all, full = append(all, series), full && fills(p, series)
		}
	}
	svg := panels.Draw(dashboard, note, span, all)
	require.Less(t, len(svg), 200_000)
	for _, want := range []string{"shop.Service.Pay", "acquired"} {
		require.Contains(t, svg, ">"+want+"</text>")
	}
	cancel()
	require.NoError(t, <-sold)
	require.NoError(t, m.close())
	if *picture != "" {
		require.NoError(t, os.WriteFile(*picture, []byte(svg), 0o644))
	}
}
