//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/bench/speed/synth"
)

// BenchmarkCheck has lockgen generate in memory for modules of 100 packages and compare with what is there, as a run in CI does.
func BenchmarkCheck(b *testing.B) {
	m, err := newBench(b.Context())
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, m.close()) })
	require.NoError(b, m.install(nil))
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("interfaces=%d", n), func(b *testing.B) {
			dir := b.TempDir()
			require.NoError(b, synth.Write(dir, m.root, n))
			require.NoError(b, generated(m, dir))
			var total cost
			for b.Loop() {
				c, err := m.call(dir, nil, "lockgen", "-cache=off", "-check", "./...")
				require.NoError(b, err)
				total.add(c)
			}
			b.ReportMetric(total.cpu.Seconds()/float64(b.N), "cpu-s/op")
			b.ReportMetric(float64(total.mib), "MiB")
		})
	}
}

// TestTools: what is measured writes, checks and changes what it is said to, and each change is noticed.
func TestTools(t *testing.T) {
	m, err := newBench(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.close()) })
	require.NoError(t, m.install(nil))
	dir := t.TempDir()
	require.NoError(t, synth.Write(dir, m.root, 1))
	output := filepath.Join(dir, synth.Package(0), "api_lockgen.go")
	require.NoError(t, checked(m, dir))
	require.FileExists(t, output)
	c, err := m.call(dir, nil, "lockgen", "-check", "./...")
	require.NoError(t, err)
	require.Positive(t, c.cpu)
	require.Positive(t, c.mib)
	require.NoError(t, clean(m, dir))
	require.NoFileExists(t, output)
	_, err = m.call(dir, nil, "lockgen", "-check", "./...")
	require.ErrorContains(t, err, "api_lockgen.go", "it is missing")
}

func TestTable(t *testing.T) {
	t.Parallel()
	one := tool{name: "one", goals: map[int]float64{10: 1.5}}
	results := map[string][]cost{
		"one1":  {{time.Second, 2 * time.Second, 7}, {3 * time.Second, time.Second, 9}, {2 * time.Second, 3 * time.Second, 8}},
		"one10": {{time.Second, 2 * time.Second, 7}},
	}
	const want = "| tool | N=1 | N=10 |\n|---|---|---|\n| one | 2.00 / 2.00 / 8 | 1.00 / 2.00 / 7 (goal 1.50: missed) |\n"
	require.Equal(t, want, table([]int{1, 10}, []tool{one}, results))

	file := filepath.Join(t.TempDir(), "speed.md")
	require.NoError(t, os.WriteFile(file, []byte("# Head\n\n| old |\n|---|\n| row |\n\nTail\n\n| another |\n"), 0o600))
	require.NoError(t, replace(file, want))
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(got), "# Head\n\n"+want+"\nTail\n"), string(got))
	require.NoError(t, os.WriteFile(file, []byte("nothing\n"), 0o600))
	require.ErrorContains(t, replace(file, want), "has no table")
}
