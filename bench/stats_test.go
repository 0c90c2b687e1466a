package main

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestJain(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 1, jain([]float64{7, 7, 7, 7}), 1e-12)
	require.InDelta(t, 0.25, jain([]float64{9, 0, 0, 0}), 1e-12)
	require.InDelta(t, 0.9, jain([]float64{1, 2}), 1e-12) // 9 / (2 * 5)
	require.Zero(t, jain([]float64{0, 0}))
	require.Zero(t, jain(nil))
}

func TestSpread(t *testing.T) {
	t.Parallel()
	require.Equal(t, spread{3, 1, 9}, of([]float64{9, 1, 3}))
	require.Equal(t, spread{2.5, 1, 4}, of([]float64{4, 2, 1, 3}))
	require.Equal(t, spread{5, 5, 5}, of([]float64{math.NaN(), 5}), "what was not measured does not count")
	require.True(t, math.IsNaN(of(nil).median))
}

func TestHistogram_Quantile(t *testing.T) {
	t.Parallel()
	// A value with a bucket of its own is exact.
	var h histogram
	for v := range 50 {
		h.add(time.Duration(v))
	}
	require.Equal(t, 24.0, h.quantile(0.5))
	require.Equal(t, 0.0, h.quantile(0))
	require.Equal(t, 49.0, h.quantile(1))

	// Other values are right to a bucket's width, also when two histograms are merged.
	var parts [2]histogram
	var values []float64
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 10_000 {
		v := math.Exp(4 + random.Float64()*20) // from 55 ns to 26 s
		values = append(values, v)
		parts[i%2].add(time.Duration(v))
	}
	parts[0].merge(&parts[1])
	for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 1} {
		require.InEpsilon(t, quantile(values, q), parts[0].quantile(q), 1.0/32, "q=%v", q)
	}

	var none histogram
	require.True(t, math.IsNaN(none.quantile(0.5)))
	none.add(-time.Second)
	require.Zero(t, none.quantile(0.5), "a clock that went back is no wait")
	none.add(math.MaxInt64)
	require.Greater(t, none.quantile(1), float64(2*time.Minute))
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	values := []float64{40, 10, 30, 20}
	require.Equal(t, 10.0, quantile(values, 0))
	require.Equal(t, 20.0, quantile(values, 0.5))
	require.Equal(t, 40.0, quantile(values, 0.99))
	require.Equal(t, []float64{40, 10, 30, 20}, values, "the caller's order stays")
	require.True(t, math.IsNaN(quantile(nil, 0.5)))
}

func TestMedians(t *testing.T) {
	require.Equal(t, metrics{"rate": 2, "failed": 3, "stuck": 0, "never": 0, "lost": 0, "forgotten": 0, "missing": 0}, medians([]metrics{
		{"rate": 1, "failed": 1}, {"rate": 5, "failed": 2}, {"rate": 2, "failed": 0},
	}))
}
