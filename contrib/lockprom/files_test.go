package lockprom_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/contrib/lockprom"
	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest/redistest"
)

// exist returns the existing metrics, each with its labels.
func exist(t *testing.T) map[string][]string {
	t.Helper()
	metrics, registry := lockprom.New(), prometheus.NewRegistry()
	registry.MustRegister(metrics)
	hooks := metrics.Hooks(lockrt.Hooks{})
	ctx := t.Context()
	hooks.Waiting(ctx, lockrt.AcquireEvent{})
	hooks.AcquireEnd(ctx, lockrt.AcquireEvent{Grant: lockrt.GrantLocal})
	hooks.Acquired(ctx, lockrt.AcquireEvent{})
	hooks.Renewed(ctx, lockrt.RenewEvent{})
	hooks.Ended(ctx, lockrt.EndEvent{Reason: lockrt.EndTaken})
	hooks.Deadlock(ctx, lockrt.DeadlockEvent{})
	watched := open(t, metrics, lockrt.Hooks{})
	metrics.Watch("", watched)
	lease, err := watched.Mutex(redistest.Key(t, "k")).Lock(ctx) // an answer
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(ctx))
	families, err := registry.Gather()
	require.NoError(t, err)
	all := map[string][]string{}
	for _, family := range families {
		labels := []string{"job", "instance", "le"}
		for _, l := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		all[family.GetName()] = labels
	}
	return all
}

var (
	metricIn = regexp.MustCompile(`\blockgen_\w+`)
	labelIn  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"`)
	groupIn  = regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`)
)

// family returns the metric that a series of a histogram belongs to.
func family(name string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return name
}

// checkNames fails for a metric that does not exist, or a label that none of those in text has.
func checkNames(t *testing.T, all map[string][]string, text string) {
	t.Helper()
	names := metricIn.FindAllString(text, -1)
	require.NotEmpty(t, names, text)
	labels := map[string]bool{}
	for _, name := range names {
		name = family(name)
		require.Contains(t, all, name, text)
		for _, l := range all[name] {
			labels[l] = true
		}
	}
	for _, m := range labelIn.FindAllStringSubmatch(text, -1) {
		require.True(t, labels[m[1]], "the label %s in %s", m[1], text)
	}
	for _, m := range groupIn.FindAllStringSubmatch(text, -1) {
		for _, l := range strings.Split(m[1], ",") {
			require.True(t, labels[strings.TrimSpace(l)], "the label %s in %s", l, text)
		}
	}
}

// expressions returns the queries of the dashboard.
func expressions(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	for _, p := range dashboard.Panels {
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
	}
	require.NotEmpty(t, all)
	return all
}

var alertIn = regexp.MustCompile(`(?s)- alert: (\w+)(.*?)labels:`)

func TestFiles_NameMetricsThatExist(t *testing.T) {
	t.Parallel()
	all := exist(t)
	for _, expr := range expressions(t) {
		checkNames(t, all, expr)
	}
	dashboard, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	for _, name := range metricIn.FindAllString(string(dashboard), -1) { // in variables and titles, too
		require.Contains(t, all, family(name), "dashboard.json")
	}
	text, err := os.ReadFile("alerts.yaml")
	require.NoError(t, err)
	alerts := alertIn.FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, alerts)
	tests, err := os.ReadFile("alerts_test.yaml")
	require.NoError(t, err)
	for _, alert := range alerts {
		checkNames(t, all, alert[2])
		require.Contains(t, string(tests), "alertname: "+alert[1]+"\n", "each alert is tested")
	}
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for name := range all {
		require.Contains(t, string(readme), "`"+name+"`")
	}
	for _, name := range metricIn.FindAllString(string(readme), -1) {
		require.Contains(t, all, name, "README.md")
	}
}

// promtool runs the checker that Prometheus comes with. Without it the test is skipped, but not in CI.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("there is no promtool, which comes with Prometheus")
		}
		t.Skip("there is no promtool, which comes with Prometheus")
	}
	out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput()
	require.NoError(t, err, string(out))
}

func TestFiles_AlertsDoWhatTheySay(t *testing.T) {
	t.Parallel()
	promtool(t, "check", "rules", "alerts.yaml")
	promtool(t, "test", "rules", "alerts_test.yaml")
}

func TestFiles_QueriesOfTheDashboardCanBeRun(t *testing.T) {
	t.Parallel()
	var rules strings.Builder
	rules.WriteString("groups:\n  - name: dashboard\n    rules:\n")
	for i, expr := range expressions(t) {
		expr = strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h").Replace(expr)
		fmt.Fprintf(&rules, "      - record: query_%d\n        expr: %q\n", i, expr)
	}
	path := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(path, []byte(rules.String()), 0o600))
	promtool(t, "check", "rules", path)
}
