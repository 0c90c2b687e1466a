// Package lockprom measures the locks of lockgen for Prometheus: how long calls wait for which kind of lock, how long
// locks are held, and how often leases are lost. Its metrics, in seconds and counts:
//
//	lockgen_acquire_duration_seconds  histogram  kind, name, outcome, contended  of each call that acquires
//	lockgen_hold_duration_seconds     histogram  kind, name, cause               of each lease
//	lockgen_held                      gauge      kind, name                      leases and permits that callers have
//	lockgen_held_over_day             gauge      kind, name                      those that they have had for longer than a day
//	lockgen_waiting                   gauge      kind, name                      calls that wait for others
//	lockgen_renewals_total            counter    kind, name, result              tries to renew: ok, failed
//	lockgen_losses_total              counter    kind, name, reason              leases that were lost
//	lockgen_handovers_total           counter    kind, name, from                from another goroutine or process: local, remote
//	lockgen_deadlocks_total           counter    kind, name, broken              calls that were found in a deadlock; true if they were ended
//	lockgen_response_seconds          gauge      client                          how long the servers take for an answer, see [Metrics.Watch]
//	lockgen_sent_again_total          counter    client                          commands that were sent again, see [Metrics.Watch]
//
// The labels are those of the events of [lockrt.Hooks]. A key is no label: there are millions, and they may name
// people. The name is that of [lockrt.WithName], or the method of generated code, or else the kind. The first 1,000
// names have series of their own, and all others share the name "other".
//
// An acquisition allocates no memory for metrics.
package lockprom

import (
	"context"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockgen/lockgen/contrib/internal/meter"
	lockrt "github.com/lockgen/lockgen/runtime"
)

// Buckets are the upper bounds of the histograms, in seconds: from a tenth of a millisecond, less than a lock on Redis
// takes, to a day.
var Buckets = []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 86400}

// Metrics are the metrics of one or more Clients. They are safe for concurrent use. The zero value is of no use: see [New].
type Metrics struct {
	meter   *meter.Meter
	clients meter.Clients
	all     []prometheus.Collector
}

var _ prometheus.Collector = (*Metrics)(nil)

// New returns metrics. Register them once, and give them to the Clients by [Metrics.Hooks].
func New() *Metrics {
	m := &Metrics{}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: Buckets, // no native one beside it: a server that takes these would not take what alerts and panels read
		}, labels)
		m.all = append(m.all, v)
		return v
	}
	gauge := func(name, help string) func(meter.Labels) meter.Add {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"kind", "name"})
		m.all = append(m.all, v)
		return func(l meter.Labels) meter.Add {
			series := v.WithLabelValues(l.Kind, l.Name)
			return func(_ context.Context, n int64) { series.Add(float64(n)) }
		}
	}
	counter := func(name, help, label string, value func(meter.Labels) string) func(meter.Labels) meter.Add {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"kind", "name", label})
		m.all = append(m.all, v)
		return func(l meter.Labels) meter.Add {
			series := v.WithLabelValues(l.Kind, l.Name, value(l))
			return func(_ context.Context, n int64) { series.Add(float64(n)) }
		}
	}
	observe := func(o prometheus.Observer) meter.Observe {
		return func(_ context.Context, seconds float64) { o.Observe(seconds) }
	}
	acquires := histogram("lockgen_acquire_duration_seconds", "How long calls took that acquire.", "kind", "name", "outcome", "contended")
	holds := histogram("lockgen_hold_duration_seconds", "How long leases were held.", "kind", "name", "cause")
	m.meter = meter.New(meter.Instruments{
		AcquireDuration: func(l meter.Labels) meter.Observe {
			return observe(acquires.WithLabelValues(l.Kind, l.Name, l.Outcome, strconv.FormatBool(l.Contended)))
		},
		HoldDuration: func(l meter.Labels) meter.Observe { return observe(holds.WithLabelValues(l.Kind, l.Name, l.Cause)) },
		Held:         gauge("lockgen_held", "Leases and permits that callers have."),
		Waiting:      gauge("lockgen_waiting", "Calls that wait for others."),
		Renewals: counter("lockgen_renewals_total", "Tries to renew a key.", "result",
			func(l meter.Labels) string { return l.Result }),
		Losses: counter("lockgen_losses_total", "Leases that were lost.", "reason",
			func(l meter.Labels) string { return l.Reason }),
		HandOvers: counter("lockgen_handovers_total", "Locks that came from another goroutine of the process, or from another process.", "from",
			func(l meter.Labels) string { return l.From }),
		Deadlocks: counter("lockgen_deadlocks_total", "Calls that were found in a deadlock.", "broken",
			func(l meter.Labels) string { return strconv.FormatBool(l.Broken) }),
	})
	return m
}

// Hooks returns the hooks for [lockrt.Options] of a Client. They record events and then call next.
func (m *Metrics) Hooks(next lockrt.Hooks) lockrt.Hooks { return m.meter.Hooks(next) }

// Watch adds the metrics of a Client that no hook reports: how long its servers take for an answer, from the first answer on, and how many commands the
// Client sent again because an answer did not come in time, see [lockrt.Stats]. The label client has the name. A Client with the name of another one takes
// its place. The metrics end when end is called, which usually no program needs: those of a Client that is closed stay as they are.
func (m *Metrics) Watch(name string, c *lockrt.Client) (end func()) { return m.clients.Watch(name, c) }

// These are read when metrics are collected.
var (
	overDay   = prometheus.NewDesc("lockgen_held_over_day", "Leases and permits that callers have had for longer than a day.", []string{"kind", "name"}, nil)
	response  = prometheus.NewDesc("lockgen_response_seconds", "How long the servers take for an answer, smoothed over the latest ones.", []string{"client"}, nil)
	sentAgain = prometheus.NewDesc("lockgen_sent_again_total", "Commands that were sent again at once, over another connection.", []string{"client"}, nil)
)

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, one := range []*prometheus.Desc{overDay, response, sentAgain} {
		to <- one
	}
	for _, c := range m.all {
		c.Describe(to)
	}
}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.meter.OverDay(func(of meter.Labels, n int64) {
		to <- prometheus.MustNewConstMetric(overDay, prometheus.GaugeValue, float64(n), of.Kind, of.Name)
	})
	m.clients.Each(func(name string, counts lockrt.Stats) {
		if counts.ResponseTime > 0 {
			to <- prometheus.MustNewConstMetric(response, prometheus.GaugeValue, counts.ResponseTime.Seconds(), name)
		}
		to <- prometheus.MustNewConstMetric(sentAgain, prometheus.CounterValue, float64(counts.SentAgain), name)
	})
	for _, c := range m.all {
		c.Collect(to)
	}
}
